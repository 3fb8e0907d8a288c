# SPDX-License-Identifier: Apache-2.0
"""Which step a restore takes, loads by rules, and what a step may lack."""

from __future__ import annotations

import numpy as np
import pytest

import ckptdb


def test_fall_back_restores_the_step_before(store, path):
    import pathlib

    def values(step):
        return {"w": np.full(50_000, step), "d": {"n": step, "x": np.full(3, step)}}

    state = values(1)
    with ckptdb.Manager(path, state, save=ckptdb.save_every_n_steps(1)) as manager:
        manager.step()
        state.update(values(2))
        manager.step()
    # Damages the newest file of data.
    files = sorted(
        (
            f
            for f in pathlib.Path(path).rglob("*")
            if f.is_file() and f.stat().st_size > 390_000
        ),
        key=lambda f: f.stat().st_mtime_ns,
    )
    assert len(files) >= 2
    data = bytearray(files[-1].read_bytes())
    data[len(data) // 2] ^= 0xFF
    files[-1].write_bytes(data)

    state = values(0)
    with pytest.raises(ckptdb.DataLoss, match="step 2"):
        store.restore(state)
    with ckptdb.Manager(path, state, save=ckptdb.save_every_n_steps(1)) as manager:
        report = manager.restore(fall_back=True)
        assert report.step == 1 and report.damaged_steps == [2]
        assert state["d"]["n"] == 1
        np.testing.assert_array_equal(state["w"], 1)
        np.testing.assert_array_equal(state["d"]["x"], 1)
        assert [r.step for r in manager.steps() if r.quarantined] == [2]
        with pytest.raises(ckptdb.DataLoss, match="step 2"):
            manager.unquarantine(2)
        manager.quarantine(1)
        with pytest.raises(ckptdb.DataLoss, match="quarantine --undo"):
            manager.restore()
        manager.unquarantine(1)
        assert manager.latest_step() == 1
        manager.step()


def test_the_best_step(path):
    state = {"n": 0}
    best = {"metric": "loss", "lower_is_better": True}
    with ckptdb.Manager(
        path, state, save=ckptdb.save_every_n_steps(1), best=best
    ) as manager:
        for step, loss in enumerate([3.0, 1.0, 2.0], start=1):
            state["n"] = step
            manager.step(metrics={"loss": loss})
        manager.wait_until_finished()
        assert manager.best_step().step == 2
        assert manager.best_step().metrics == {"loss": 1.0}
        report = manager.restore(best=True)
        assert (report.step, state["n"], manager.global_step) == (2, 2, 2)


def test_a_step_of_another_store(store, tmp_path):
    store.save({"w": np.ones(2), "n": 5})
    state = {"w": np.zeros(2), "n": 0}
    other = str(tmp_path / "other")
    with ckptdb.Manager(other, state, save=ckptdb.save_every_n_steps(1)) as manager:
        report = manager.restore(path=store.path)
        assert report.store == store.path
        assert state["n"] == 5
        np.testing.assert_array_equal(state["w"], 1)


def test_merge_keeps_other_rows(store):
    table = ckptdb.Table({"v": "f32"})
    table["v"].put(table.insert([1, 2]), np.array([1, 2], "f4"))
    store.save({"t": table})
    live = ckptdb.Table({"v": "f32"})
    live["v"].put(live.insert([2, 3]), np.array([20, 30], "f4"))
    store.restore({"t": live}, restore={"merge": True})
    rows = live.find([1, 2, 3])
    np.testing.assert_array_equal(live["v"][rows][:, 0], [1, 2, 30])
    store.restore({"t": live})
    assert live.find([3]).tolist() == [-1] and len(live) == 2


def test_load_rules(store, tmp_path):
    """The values of all rules are applied, including replaced arrays."""
    bases = []
    for number in (1.0, 2.0):
        base = str(tmp_path / f"base{number}")
        array = np.full(2, number)
        type(store)(base).save(
            {
                "left": array,
                "right": array,
                "n": int(number),
                "d": {"x": array, "k": number},
            }
        )
        bases.append(base)

    def frozen():
        array = np.zeros(2)
        array.flags.writeable = False
        return array

    state = {"left": frozen(), "right": frozen(), "n": 0, "d": {"x": frozen(), "k": 0}}
    with ckptdb.Manager(
        store.path, state, save=ckptdb.save_every_n_steps(1)
    ) as manager:
        rules = [
            {"path": bases[0], "load": ["left", "d", "d.*"]},
            {"path": bases[1], "load": ["right", "n"]},
        ]
        before = dict(state)
        planned = manager.load(rules, dry_run=True)
        assert state == before and len(planned) == 2
        report = manager.load(rules)
        np.testing.assert_array_equal(state["left"], 1)
        np.testing.assert_array_equal(state["right"], 2)
        np.testing.assert_array_equal(state["d"]["x"], 1)
        assert (state["n"], state["d"]["k"]) == (2, 1.0)
        assert [rule.step for rule in report] == [1, 1]
        loaded = {item.name for item in report[0].items if item.loaded}
        assert loaded == {"left", "d", "d.x"}
        manager.step()
        with pytest.raises(ckptdb.InvalidArgument):
            manager.load('{"path": "x"}')
        with pytest.raises(ckptdb.InvalidArgument):
            manager.load("[not json")
        with pytest.raises(ckptdb.InvalidArgument):
            manager.load([{"path": bases[0], "load": [object()]}])


def test_restore_or_start_without_a_step(path):
    state = {"n": 3}
    with ckptdb.Manager(path, state, save=ckptdb.save_every_n_steps(1)) as manager:
        with pytest.raises(ckptdb.NotFound):
            manager.restore()
        report = manager.restore_or_start()
        assert report.fresh and report.step is None and report.record is None
        assert state == {"n": 3} and manager.global_step == 0


def test_restoring_a_given_step_abandons_later_ones(path):
    state = {"n": 0}
    with ckptdb.Manager(path, state, save=ckptdb.save_every_n_steps(1)) as manager:
        for step in range(1, 4):
            state["n"] = step
            manager.step()
        manager.wait_until_finished()
        manager.restore(1)
        assert state["n"] == 1 and manager.global_step == 1
        with pytest.raises(ckptdb.FailedPrecondition, match="no step 77"):
            manager.restore(77)
        manager.restore(1)
        manager.step()
        manager.wait_until_finished()
        assert [record.step for record in manager.steps()] == [1, 2]


def test_values_that_the_step_lacks(path):
    """Numbers of a dictionary are as they were saved, with a warning; arrays are
    reported, and kept with a policy."""
    with ckptdb.Manager(path, {"a": {"n": 3}, "l": [np.ones(1)]}) as manager:
        manager.step()
    warnings = []
    state = {"a": {"n": 0, "best": 0.5}, "l": [np.zeros(1), np.full(2, 7.0)]}
    with ckptdb.Manager(path, state, on_warning=warnings.append) as manager:
        with pytest.raises(ckptdb.FailedPrecondition, match='dense "l.1"'):
            manager.restore()
        assert state["a"] == {"n": 0, "best": 0.5}
        manager.restore(evolve={})
        assert state["a"] == {"n": 3}
        assert any("a.best" in warning for warning in warnings)
        np.testing.assert_array_equal(state["l"][0], [1])
        np.testing.assert_array_equal(state["l"][1], [7, 7])
        assert len(state["l"]) == 2


def _restored(path, state, **options):
    """The warnings of a restore."""
    warnings = []
    with ckptdb.Manager(
        path, state, saving=False, on_warning=warnings.append
    ) as manager:
        manager.restore(**options)
    return "\n".join(warnings)


def _save(path, state):
    with ckptdb.Manager(path, state) as manager:
        manager.step()


def test_values_that_the_state_lacks_come_back_with_a_warning(path):
    one, two = np.ones(1), np.full(2, 2.0)
    _save(path, {"d": {"a": one, "z": two, "n": 3}, "l": [one, two, 7]})
    state = {"d": {"a": np.zeros(1)}, "l": [np.zeros(1)]}
    warning = _restored(path, state)
    assert "has d.z, d.n, l.1, which the state lacked" in warning
    assert 'exclude tensors: evolve={"exclude": ["d.z", "l.1"]}' in warning
    assert (list(state["d"]), state["d"]["n"]) == (["a", "z", "n"], 3)
    assert [np.size(each) for each in state["l"]] == [1, 2, 1]
    assert state["d"]["z"].tolist() == state["l"][1].tolist() == [2, 2]
    # As the warning says.
    state = {"d": {"a": np.zeros(1)}, "l": [np.zeros(1)]}
    warning = _restored(path, state, evolve={"exclude": ["d.z", "l.1"]})
    assert state["d"].keys() == {"a", "n"} and state["l"] == [1, 7]
    assert "has d.n, which the state lacked" in warning and "evolve" not in warning


def test_empty_containers_take_all_values_without_a_warning(path):
    _save(
        path, {"d": {"a": np.ones(1), "n": 3}, "l": [np.ones(2), 7], "losses": [1, 2]}
    )
    state = {"d": {}, "l": [], "losses": [0]}
    assert _restored(path, state) == ""
    assert state["d"] == {"a": 1, "n": 3} and state["l"][1] == 7
    assert state["losses"] == [1, 2]


def test_tables_that_a_dictionary_lacks_are_left_out_with_a_warning(path):
    def table():
        made = ckptdb.Table({"v": "f32"})
        made["v"].put(made.insert([1]), np.ones(1, "f4"))
        return made

    _save(path, {"t": {"a": table(), "b": table(), "in": {"c": table()}, "n": 1}})
    kept = ckptdb.Table({"v": "f32"})
    state = {"t": {"a": kept, "n": 0}}
    warning = _restored(path, state)
    assert "has t.b, t.in, for which the state has no object" in warning
    assert state == {"t": {"a": kept, "n": 1}} and len(kept) == 1
    with pytest.raises(ckptdb.FailedPrecondition, match='"t.a" was saved from a table'):
        _restored(path, {"t": {}})


def test_exceptions_of_load_state_dict_are_causes(path):
    class Loader:
        def __init__(self, fails):
            self.fails = fails

        def state_dict(self):
            return {"n": 1}

        def load_state_dict(self, state):
            if self.fails:
                raise KeyError("position")

    with ckptdb.Manager(path, {"loader": Loader(False), "n": 1}) as manager:
        manager.step()
    state = {"loader": Loader(True), "n": 0}
    with ckptdb.Manager(path, state) as manager:
        message = 'restoring state "loader" raised KeyError.*"exclude": \\["loader"\\]'
        with pytest.raises(ckptdb.Internal, match=message) as info:
            manager.restore()
        assert isinstance(info.value.__cause__, KeyError)
        with pytest.raises(ckptdb.FailedPrecondition, match="restored only partly"):
            manager.step()
        manager.restore(evolve={"exclude": ["loader"]})
        assert state["n"] == 1
        manager.step()
