# SPDX-License-Identifier: Apache-2.0
"""Functions of an evolve policy, which compute the values of slots."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest

import ckptdb

IDS = np.arange(1000) * 7


def _save(path):
    table = ckptdb.Table({"embedding": ("f32", 4), "freq": ("i32", 1)})
    rows = table.insert(IDS)
    table["embedding"].put(rows, np.tile(IDS[:, None], 4).astype("f4"))
    table["freq"].put(rows, (IDS % 5).astype("i4")[:, None])
    with ckptdb.Manager(path, {"user": table}) as manager:
        manager.step()
        manager.save().wait_committed()


def _restore(path, table, policy, **options):
    with ckptdb.Manager(path, {"user": table}, saving=False, **options) as manager:
        return manager.restore(evolve={"tables": {"user": policy}} if policy else None)


def _new_table():
    return ckptdb.Table(
        {"embedding": ("f64", 2), "freq": ("i32", 1), "adagrad": ("f32", 4)}
    )


def _policy(seen):
    def fill(ids):
        seen.append(ids)
        return np.repeat(ids[:, None] * 0.5, 4, axis=1).astype("f4")

    def convert(ids, values):
        assert values.dtype == np.float32 and values.shape == (len(ids), 4)
        np.testing.assert_array_equal(values[:, 0], ids)
        return values[:, :2].astype("f8") * 10

    return {"fill_with": {"adagrad": fill}, "convert": {"embedding": convert}}


@pytest.mark.parametrize("as_option", [False, True])
def test_functions_fill_and_convert_slots(path, as_option):
    _save(path)
    table = _new_table()
    seen = []
    policy = _policy(seen)
    options = {"evolve": {"tables": {"user": policy}}} if as_option else {}
    _restore(path, table, None if as_option else policy, **options)
    rows = table.find(IDS)
    np.testing.assert_array_equal(
        table["adagrad"][rows][:, 3], (IDS * 0.5).astype("f4")
    )
    np.testing.assert_array_equal(table["embedding"][rows], IDS[:, None] * [10.0, 10.0])
    np.testing.assert_array_equal(np.ravel(table["freq"][rows]), IDS % 5)
    assert sorted(np.concatenate(seen)) == sorted(IDS)


def test_a_function_that_returns_other_rows_is_named(path):
    _save(path)
    policy = _policy([])
    policy["fill_with"] = {"adagrad": lambda ids: np.zeros((len(ids), 3), "f4")}
    with pytest.raises(
        ckptdb.Error, match=r'fill_with of slot "adagrad" returned f32 .* expected f32'
    ):
        _restore(path, _new_table(), policy)


def test_an_exception_of_a_function_is_the_cause(path):
    _save(path)
    policy = _policy([])

    def refuse(ids, values):
        raise ZeroDivisionError("no values")

    policy["convert"] = {"embedding": refuse}
    with pytest.raises(ckptdb.Error, match="no values") as info:
        _restore(path, _new_table(), policy)
    assert isinstance(info.value.__cause__, ZeroDivisionError)


def test_unknown_tables_and_slots_are_named(path):
    _save(path)
    policy = {"fill_with": {"adam": lambda ids: ids}}
    with pytest.raises(ckptdb.InvalidArgument, match='"adam".*adagrad'):
        _restore(path, _new_table(), policy)
    with ckptdb.Manager(path, {"user": _new_table()}, saving=False) as manager:
        with pytest.raises(ckptdb.InvalidArgument, match='"usr".*user'):
            manager.restore(evolve={"tables": {"usr": policy}})


def test_numbers_and_functions_are_not_confused(path):
    _save(path)
    for policy, words in (
        ({"fill": {"adagrad": len}}, "use fill_with"),
        ({"fill_with": {"adagrad": 0.5}}, "for a number use fill"),
    ):
        with pytest.raises(ckptdb.InvalidArgument, match=words):
            _restore(path, _new_table(), policy)


def test_a_slot_of_arrays_is_filled(path):
    _save(path)
    rows = int(IDS[-1]) + 1
    slots = {
        "embedding": np.zeros((rows, 4), "f4"),
        "freq": np.zeros((rows, 1), "i4"),
        "seen": np.zeros(rows, "i8"),
    }
    table = ckptdb.ArrayTable(slots)
    _restore(path, table, {"fill_with": {"seen": lambda ids: ids + 1}})
    np.testing.assert_array_equal(slots["seen"][IDS], IDS + 1)
    assert slots["seen"].sum() == (IDS + 1).sum()


class Momentum:
    """An optimizer whose state exists from the start, as that of Adagrad."""

    def __init__(self, rate):
        self.sums = {"a": np.zeros(3), "b": np.zeros(2)}
        self.rate = rate

    def state_dict(self):
        return {"sums": self.sums, "rate": self.rate}

    def load_state_dict(self, state):
        self.sums, self.rate = state["sums"], state["rate"]


def test_excluding_an_entry_leaves_all_of_it_unchanged(path):
    optimizer = Momentum(0.5)
    optimizer.sums["a"][:] = 7
    state = {"w": np.ones(2), "optimizer": optimizer, "d": {"x": np.ones(1)}}
    with ckptdb.Manager(path, state) as manager:
        manager.save()
    for given in ("restore", "option"):
        optimizer = Momentum(0.1)
        state = {"w": np.zeros(2), "optimizer": optimizer, "d": {"x": np.zeros(1)}}
        evolve = {"exclude": ["optimizer", "d"]}
        options = {"evolve": evolve} if given == "option" else {}
        with ckptdb.Manager(
            path, state, save=ckptdb.save_at_steps([]), **options
        ) as manager:
            manager.restore(**({"evolve": evolve} if given == "restore" else {}))
            assert state["w"].tolist() == [1, 1]
            assert state["d"]["x"].tolist() == [0]
            assert optimizer.sums["a"].tolist() == [0, 0, 0] and optimizer.rate == 0.1
            manager.abandon_steps()


def _named_state(name, value):
    """An optimizer whose tensors exist, a table, an io state and others below a name."""
    optimizer = Momentum(value / 10)
    for each in optimizer.sums.values():
        each[:] = value
    table = ckptdb.Table({"e": ("f32", 2)})
    if value:
        table["e"].put(table.insert([3, 4]), np.full((2, 2), value, "f4"))
    rows = np.full((2, 1), value, "f4")
    parts = {
        "optimizer": optimizer,
        "table": table,
        "rows": ckptdb.ArrayTable({"x": rows}),
        "list": [np.full(2, value), value],
        "n": value,
    }
    return {name: parts, "w": np.full(1, value)}, rows


@pytest.mark.parametrize("given", ["restore", "option", "load", "text"])
def test_a_renamed_entry_renames_everything_below_it(path, given):
    state, _ = _named_state("old", 7)
    with ckptdb.Manager(path, state) as manager:
        manager.step()
    state, rows = _named_state("new", 0)
    evolve = {"oname": {"new": "old"}}
    options = {"evolve": evolve} if given == "option" else {}
    with ckptdb.Manager(
        path, state, save=ckptdb.save_at_steps([]), **options
    ) as manager:
        if given == "load":
            manager.load([{"load": ["w"]}, evolve])
        elif given == "text":
            manager.load(json.dumps([evolve]))
        else:
            manager.restore(evolve=evolve if given == "restore" else None)
        manager.abandon_steps()
    assert state["w"].tolist() == [7] and rows.tolist() == [[7], [7]]
    parts = state["new"]
    assert parts["optimizer"].rate == 0.7
    assert {k: v.tolist() for k, v in parts["optimizer"].sums.items()} == {
        "a": [7, 7, 7],
        "b": [7, 7],
    }
    assert len(parts["table"]) == 2 and parts["n"] == 7
    assert parts["list"][0].tolist() == [7, 7] and parts["list"][1] == 7


def test_a_policy_with_a_renamed_entry_stays_for_later_steps(path):
    evolve = {"oname": {"new": "old"}}
    state, _ = _named_state("old", 7)
    with ckptdb.Manager(path, state) as manager:
        manager.step()
    for step in (1, 2):
        state, _ = _named_state("new", 0)
        state["new"]["added"] = np.full(1, 5.0)  # keeps its value, at both steps
        with ckptdb.Manager(path, state) as manager:
            assert manager.restore(evolve=evolve).step == step
            assert state["new"]["optimizer"].rate == 0.7
            assert state["new"]["added"].tolist() == [5]
            manager.step()
            del state["new"]["added"]


def test_longer_names_rename_parts_of_a_renamed_entry(path):
    state = {"a": {"x": np.ones(1), "y": {"z": np.ones(2)}, "n": 3}}
    with ckptdb.Manager(path, state) as manager:
        manager.step()
    state = {"b": {"u": np.zeros(1), "v": {"z": np.zeros(2)}, "m": 0}}
    oname = {"b": "a", "b.u": "a.x", "b.v": "a.y", "b.m": "a.n"}
    with ckptdb.Manager(path, state, saving=False) as manager:
        manager.restore(evolve={"oname": oname})
    assert {k: str(v) for k, v in state["b"].items()} == {
        "u": "[1.]",
        "v": "{'z': array([1., 1.])}",
        "m": "3",
    }


def test_a_load_exchanges_entries_and_their_parts(path):
    def made(a, b):
        left, right = Momentum(a), Momentum(b)
        left.sums["a"][:], right.sums["a"][:] = a, b
        return {"l": left, "r": right, "d": {"x": a, "y": b, "z": np.full(2, a)}}

    with ckptdb.Manager(path, made(1.0, 2.0)) as manager:
        manager.step()
    state = made(0.0, 0.0)
    oname = {"l": "r", "r": "l", "d.x": "d.y", "d.y": "d.x"}
    with ckptdb.Manager(path, state, saving=False) as manager:
        manager.load([{"oname": oname}])
    assert (state["l"].rate, state["r"].rate) == (2, 1)
    assert (state["l"].sums["a"][0], state["r"].sums["a"][0]) == (2, 1)
    assert (state["d"]["x"], state["d"]["y"]) == (2, 1)
    assert state["d"]["z"].tolist() == [1, 1]


@pytest.mark.parametrize(
    "oname, error, words",
    [
        ({"optimizr": "opt"}, ckptdb.InvalidArgument, 'mean "optimizer"'),
        ({"optimizer": "otp"}, ckptdb.FailedPrecondition, 'extra "otp" .*extra "opt"'),
        ({"d.optimizer": "d.opt"}, ckptdb.InvalidArgument, 'nothing in the state "d"'),
        ({"optimizer": "opt", "w": "v"}, ckptdb.FailedPrecondition, 'dense "v"'),
    ],
)
def test_a_wrong_name_changes_nothing(path, oname, error, words):
    optimizer = Momentum(0.5)
    with ckptdb.Manager(path, {"opt": optimizer, "d": {"n": 1}}) as manager:
        manager.step()
    optimizer = Momentum(0.1)
    optimizer.sums["a"][:] = 4
    state = {"optimizer": optimizer, "d": {"n": 2}, "w": np.full(1, 3.0)}
    with ckptdb.Manager(path, state, saving=False) as manager:
        with pytest.raises(error, match=words):
            manager.restore(evolve={"oname": oname})
    assert optimizer.rate == 0.1 and optimizer.sums["a"].tolist() == [4, 4, 4]
    assert state["w"].tolist() == [3] and state["d"] == {"n": 2}


class Scheduler:
    def __init__(self, epoch):
        self.epoch = epoch

    def state_dict(self):
        return {"epoch": self.epoch}

    def load_state_dict(self, state):
        self.epoch = state["epoch"]


def test_an_object_of_a_dictionary_is_not_taken_for_another_one(path):
    with ckptdb.Manager(path, {"d": {"sched": Scheduler(3), "n": 1}}) as manager:
        manager.step()
    state = {"d": {"scheduler": Scheduler(0), "n": 0}}
    warnings = []
    with ckptdb.Manager(
        path, state, saving=False, on_warning=warnings.append
    ) as manager:
        with pytest.raises(
            ckptdb.FailedPrecondition, match='the step has "d.sched"'
        ) as info:
            manager.restore()
        assert state["d"]["n"] == 0
        manager.restore(evolve={})
        assert state["d"]["scheduler"].epoch == 0 and state["d"]["n"] == 1
        assert any("d.sched, for which the state has no object" in w for w in warnings)
        remedy = re.search(r"evolve=(.*?);", str(info.value)).group(1)
        manager.restore(evolve=json.loads(remedy))
        assert state["d"]["scheduler"].epoch == 3
        assert list(state["d"]) == ["scheduler", "n"]


def test_an_object_that_was_moved_into_a_new_dictionary_is_refused(path):
    with ckptdb.Manager(path, {"sched": Scheduler(3), "n": 1}) as manager:
        manager.step()
    state = {"d": {"sched": Scheduler(0)}, "n": 0}
    with ckptdb.Manager(path, state, saving=False) as manager:
        with pytest.raises(ckptdb.FailedPrecondition, match='step lacks "d"; restore'):
            manager.restore(evolve={"oname": {"d.sched": "sched"}})
        assert state["n"] == 0
        state["sched"] = state.pop("d")["sched"]
        manager.restore()
        state["d"] = {"sched": state.pop("sched")}
        assert state["d"]["sched"].epoch == 3
