# SPDX-License-Identifier: Apache-2.0
"""Callbacks, and followers."""

from __future__ import annotations

import logging
import threading
import time

import numpy as np
import pytest

import ckptdb

from conftest import save_now


class Own(Exception):
    pass


def fail(*_):
    raise Own("from the callback")


def caused_by_own(caught) -> bool:
    error = caught.value
    return isinstance(error.__cause__, Own) and "from the callback" in str(error)


# Callbacks


def test_reports_of_saves_and_restores(path):
    saves, restores, deleted = [], [], []
    state = {"w": np.ones(3), "n": 1}
    with ckptdb.Manager(
        path,
        state,
        save=ckptdb.save_every_n_steps(1),
        keep=ckptdb.latest_n(1),
        on_saved=saves.append,
        on_deleted=deleted.append,
        # Called after the state has its values.
        on_restored=lambda report: restores.append((report, state["n"])),
    ) as manager:
        assert manager.restore_or_start().fresh
        for _ in range(3):
            manager.step(metrics={"auc": 0.5}, user_metadata={"who": "me"})
            state["n"] += 1
        manager.wait_until_finished()
        assert manager.steps()[0].user_metadata["who"] == "me"
        manager.restore()
        manager.step()
        manager.wait_until_finished()
        manager.delete(4)
    assert [report.step for report in saves] == [1, 2, 3, 4]
    assert all(isinstance(report, ckptdb.SaveReport) for report in saves)
    report = saves[0]
    assert report.error is None and report.metrics == {"auc": 0.5}
    assert report.save_kind == "permanent" and "a multiple of 1" in report.reason
    assert isinstance(report.result, ckptdb.SaveResult)
    assert report.result.step == 1 and report.result.bytes > 0
    assert 0 <= report.blocking_seconds <= report.total_seconds < 60
    assert saves[1].retired_steps == [1]
    assert deleted == [4]
    ((restored, number),) = restores
    assert isinstance(restored, ckptdb.RestoreReport)
    assert restored.step == 3 and number == 3
    assert isinstance(restored.loaded, ckptdb.LoadedRule)
    assert {item.name for item in restored.loaded.items} == {"w", "n"}
    assert all(isinstance(item, ckptdb.LoadedItem) for item in restored.loaded.items)
    assert "step 3" in str(restored)


@pytest.mark.parametrize("async_", [True, False])
def test_exceptions_of_on_saved(path, async_):
    manager = ckptdb.Manager(
        path, {"n": 0}, save=ckptdb.save_every_n_steps(1), on_saved=fail, async_=async_
    )
    with pytest.raises(ckptdb.Internal) as caught:
        manager.step()
        manager.wait_until_finished()
    assert caused_by_own(caught)
    assert "on_saved" in str(caught.value)
    manager.step()
    with pytest.raises(ckptdb.Internal) as caught:
        manager.close()
    assert caused_by_own(caught)
    with ckptdb.Reader(path) as reader:
        assert [r.step for r in reader.steps()] == [1, 2]


def test_exceptions_of_on_restored(path):
    state = {"n": 1}
    manager = ckptdb.Manager(
        path, state, save=ckptdb.save_every_n_steps(1), on_restored=fail
    )
    manager.step()
    manager.wait_until_finished()
    state["n"] = 7
    with pytest.raises(ckptdb.Internal) as caught:
        manager.restore()
    assert caused_by_own(caught)
    assert state["n"] == 1
    manager.close()


class Rank:
    def __init__(self):
        self.dump = lambda: b"x"
        self.load = lambda data: None

    def io_state(self):
        return self.dump()

    def load_io_state(self, data):
        return self.load(data)


def test_exceptions_of_io_states(path):
    rank = Rank()
    manager = ckptdb.Manager(path, {"io": rank}, save=ckptdb.save_every_n_steps(1))
    rank.dump = fail
    with pytest.raises(ckptdb.Internal) as caught:
        manager.step().save.wait_committed()
    assert caused_by_own(caught) and "io.io_state" in str(caught.value)
    rank.dump = lambda: b"y"
    manager.step()
    manager.wait_until_finished()
    rank.load = fail
    with pytest.raises(ckptdb.Internal) as caught:
        manager.restore()
    assert caused_by_own(caught) and "io.load_io_state" in str(caught.value)
    loaded = []
    rank.load = loaded.append
    manager.restore()
    assert loaded == [b"y"]
    manager.close()


def test_exceptions_of_state_dicts(path):
    class Object:
        def state_dict(self):
            raise Own("from the callback")

        def load_state_dict(self, state):
            pass

    manager = ckptdb.Manager(path, {"o": Object()}, save=ckptdb.save_every_n_steps(1))
    with pytest.raises(ckptdb.Internal) as caught:
        save_now(manager)
    assert caused_by_own(caught)
    manager.step()
    with pytest.raises(ckptdb.Internal) as caught:
        manager.step()  # raises the error of the save before
    assert caused_by_own(caught)
    manager.close()


def test_the_traceback_shows_the_code_that_raised(path):
    import traceback

    manager = ckptdb.Manager(
        path, {"n": 0}, save=ckptdb.save_every_n_steps(1), on_saved=fail
    )
    manager.step()
    try:
        manager.wait_until_finished()
    except ckptdb.Error as error:
        text = "".join(traceback.format_exception(error))
    assert 'raise Own("from the callback")' in text
    manager.close()


def test_interrupts_of_callbacks_are_raised_as_they_are(path):
    def interrupt(_):
        raise KeyboardInterrupt

    manager = ckptdb.Manager(
        path,
        {"n": 0},
        save=ckptdb.save_every_n_steps(1),
        on_saved=interrupt,
        async_=False,
    )
    with pytest.raises(KeyboardInterrupt):
        manager.step()
        manager.wait_until_finished()
    manager.close()


def test_veto_and_clock(path):
    times = iter(range(10**6))
    vetoes = []

    def veto(step):
        vetoes.append(step)
        return "evaluating" if step == 2 else None

    with ckptdb.Manager(
        path,
        {"n": 0},
        save=ckptdb.save_at_steps([1]),
        ephemeral=ckptdb.save_every_n_steps(1),
        veto_ephemeral=veto,
        now=lambda: 1000.0 + next(times),
    ) as manager:
        outcomes = [manager.step() for _ in range(3)]
        kinds = [outcome.kind for outcome in outcomes]
        assert kinds == ["permanent", "none", "ephemeral"]
        assert "evaluating" in outcomes[1].reason
        manager.wait_until_finished()
    assert 2 in vetoes and next(times) > 0


def test_warnings_go_to_logging(path, caplog):
    with caplog.at_level(logging.WARNING, logger="ckptdb"):
        manager = ckptdb.Manager(path, {"n": 100}, keep=ckptdb.latest_n(1))
        manager.close()
    (record,) = [r for r in caplog.records if "save is empty" in r.getMessage()]
    assert record.levelno == logging.WARNING and record.name == "ckptdb"
    caplog.clear()
    warnings = []
    ckptdb.Manager(path, {"n": 0}, on_warning=warnings.append).close()
    assert any("save is empty" in warning for warning in warnings)
    assert not caplog.records


def test_configurations(path):
    config = {
        "path": path,
        "permanent": {"save_every_n_steps": 2},
        "keep": {"latest_n": 1},
        "async": False,
        "user_metadata": {"run": "a"},
    }
    with ckptdb.Manager.from_config(config, {"n": 0}) as manager:
        for _ in range(4):
            manager.step()
        assert [r.step for r in manager.steps()] == [4]
        assert manager.steps()[0].user_metadata["run"] == "a"
    import json

    with ckptdb.Manager.from_config(
        json.dumps(config), {"n": 0}, save=ckptdb.save_at_steps([])
    ) as manager:
        manager.restore_or_start()
        assert manager.step().saved is False
    for wrong, words in [
        ({"permanent": None}, "path"),
        ({"path": path, "keeps": 1}, "keeps"),
        ({"path": path, "keep": {"latest_m": 1}}, "latest_m"),
        ({"path": path, "base_every": "x"}, "base_every"),
        ({"path": path, "base_every": {1}}, "wrong type"),
        ({"path": ""}, "path"),
    ]:
        with pytest.raises(ckptdb.InvalidArgument, match=words):
            ckptdb.Manager.from_config(wrong, {"n": 0})
    with pytest.raises(ckptdb.InvalidArgument, match="lease"):
        ckptdb.Manager(path, {"n": 0}, store={"lease": 3})


def test_functions_are_policies_as_they_are(path):
    def third(context):
        return context.step % 3 == 0

    with ckptdb.Manager(
        path, {"n": 0}, save=third, keep=lambda info: info.step != 3
    ) as manager:
        for _ in range(9):
            manager.step()
        manager.wait_until_finished()
        assert [r.step for r in manager.steps()] == [6, 9]
        assert "third" in manager.explain(6)[0]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"state": None}, "the state is a NoneType; expected a dictionary"),
        ({"state": [1]}, "the state is a list"),
        ({"on_saved": 5}, "on_saved is 5; expected a function"),
        ({"on_warning": "x"}, "on_warning is 'x'"),
        ({"now": 3.5}, "now is 3.5"),
        ({"save": ckptdb.latest_n(1)}, "save is a KeepPolicy; expected a SavePolicy"),
        ({"keep": ckptdb.save_initially()}, "keep is a SavePolicy"),
        ({"save": 100}, "save is 100; expected a policy"),
    ],
)
def test_wrong_options_of_a_manager(path, options, words):
    state = options.pop("state", {"n": 0})
    with pytest.raises(ckptdb.InvalidArgument, match=words):
        ckptdb.Manager(path, state, **options)


def test_values_of_metrics_and_steps(path):
    with ckptdb.Manager(
        path, {"n": 0}, save=ckptdb.save_every_n_steps(np.int64(1))
    ) as manager:
        values = [1, True, np.float32(2.5), np.int64(3), np.array(4.0), float("nan")]
        for value in values:
            outcome = manager.step(metrics={"m": value})
        assert repr(outcome) == "StepOutcome(step 6, saved: step 6 is a multiple of 1)"
        manager.wait_until_finished()
        stored = [r.metrics["m"] for r in manager.steps()]
        assert stored[:5] == [1.0, 1.0, 2.5, 3.0, 4.0]
        for call in [manager.step, manager.save, lambda **k: manager.step_to(9, **k)]:
            for value in [None, "1.5", [1.0], np.ones(2)]:
                with pytest.raises(ckptdb.InvalidArgument, match="metric 'm' is"):
                    call(metrics={"m": value})
            with pytest.raises(ckptdb.InvalidArgument, match="user_metadata 'a' is 1"):
                call(user_metadata={"a": 1})
        with pytest.raises(
            ckptdb.InvalidArgument, match="step is '7'; expected an int"
        ):
            manager.restore("7")
        with pytest.raises(ckptdb.InvalidArgument, match="expected a list"):
            manager.load({"load": ["*"]})
        assert manager.restore(np.int64(6)).step == 6
        with pytest.raises(ckptdb.InvalidArgument, match="step 1 is not after step 6"):
            manager.step_to(1)


def test_paths_of_every_kind(tmp_path):
    import os

    for path in [tmp_path / "a", str(tmp_path / "b"), os.fsencode(tmp_path / "c")]:
        with ckptdb.Manager(path, {"n": 1}, save=ckptdb.save_every_n_steps(1)) as m:
            m.step()
        with ckptdb.Reader(path) as reader:
            assert reader.path == os.fsdecode(path)


def test_preemption(path):
    with ckptdb.Manager(path, {"n": 0}, save=ckptdb.save_on_preemption()) as manager:
        assert manager.preempted is False
        assert manager.step().preempted is False
        threading.Thread(target=manager.set_preempted).start()
        while not manager.preempted:
            time.sleep(0.001)
        outcome = manager.step()
        assert outcome.preempted and outcome.saved
        manager.wait_until_finished()
        assert manager.latest_step() == 2


def test_pending_saves(path):
    state = {"w": np.ones(1000)}
    with ckptdb.Manager(path, state, save=ckptdb.save_at_steps([])) as manager:
        assert manager.latest_step() is None
        manager.start_training()
        manager.step()
        pending = manager.save(metrics={"m": 1.0}, user_metadata={"a": "b"})
        assert pending.step == 1
        pending.wait_staged(10)
        state["w"][:] = 2
        result = pending.wait_committed(30)
        assert pending.done and result.step == 1
        assert isinstance(pending, ckptdb.PendingSave) and "done" in repr(pending)
        assert repr(pending.wait_committed()) == repr(result)
        pending.cancel()
        with pytest.raises(ckptdb.AlreadyExists, match="step 1 exists"):
            manager.save()
        again = manager.save(overwrite=True)
        assert again.wait_committed().attempt > result.attempt
        assert manager.saving is False
        manager.check_for_errors()
        assert [r.step for r in manager.steps()] == [0, 1]
        manager.pin(1)
        assert manager.steps()[1].pinned
        with pytest.raises(ckptdb.FailedPrecondition, match="pinned"):
            manager.delete(1)
        manager.unpin(1)
        manager.add_metrics(1, {"late": 0.25})
        assert manager.steps()[1].metrics["late"] == 0.25
        assert manager.fold(1)["folded"] in (0, 1)
        manager.step()
        manager.save().wait_committed()
        manager.delete(1)
        assert [r.step for r in manager.steps()] == [0, 2]


def test_truth_values_of_policies(path):
    """NumPy's and others, and lists that are too short."""
    warnings = []
    keep = ckptdb.keep_if("numpy", lambda info: np.float64(info.step) > 2)
    keep |= ckptdb.keep_function("array", lambda steps, now: np.array([True]))
    with ckptdb.Manager(
        path,
        {"n": 0},
        save=ckptdb.save_if("numpy", lambda context: np.int64(context.step) != 4),
        keep=keep,
        on_warning=warnings.append,
    ) as manager:
        for _ in range(5):
            manager.step()
        manager.wait_until_finished()
        assert [r.step for r in manager.steps()] == [1, 2, 3, 5]
    assert any("array" in warning for warning in warnings)


def test_waiting_for_a_save_times_out(path):
    gate = threading.Event()
    # The policy delays the commit.
    keep = ckptdb.keep_if("slow", lambda info: gate.wait(30))
    manager = ckptdb.Manager(path, {"n": 0}, save=ckptdb.save_at_steps([]), keep=keep)
    manager.step()
    pending = manager.save()
    begin = time.monotonic()
    with pytest.raises(ckptdb.DeadlineExceeded):
        pending.wait_committed(0.1)
    assert time.monotonic() - begin < 20
    assert issubclass(ckptdb.DeadlineExceeded, TimeoutError)
    assert not pending.done and manager.saving and "running" in repr(pending)
    gate.set()
    assert pending.wait_committed(30).step == 1
    manager.close()


def test_a_save_is_cancelled(path):
    state = {"w": np.zeros(1 << 22)}
    cancelled = 0
    with ckptdb.Manager(path, state, save=ckptdb.save_at_steps([])) as manager:
        for _ in range(5):
            manager.step()
            pending = manager.save()
            pending.cancel()
            try:
                pending.wait_committed(30)  # it was too late
            except ckptdb.Cancelled:
                cancelled += 1
        manager.step()
        manager.save().wait_committed(30)
        assert len(manager.steps()) == 6 - cancelled
    assert cancelled > 0


# Followers


def follow(manager, state, last, seen, errors):
    try:
        while not seen or seen[-1] < last:
            report = manager.wait_for_step(30)
            table = state["t"]
            rows = table.find([0, report.step])
            values = table["v"][rows][:, 0].tolist()
            assert values == [report.step, report.step]
            assert state["n"] == report.step and state["d"]["w"][0] == report.step
            assert manager.global_step == report.step
            seen.append(report.step)
    except BaseException as error:
        errors.append(error)


def states():
    return {"t": ckptdb.Table({"v": "f32"}), "n": 0, "d": {"w": np.zeros(2)}}


def train_step(manager, state, step):
    state["n"] = step
    state["d"]["w"][:] = step
    rows = state["t"].insert([0, step])
    state["t"]["v"].put(rows, np.full((2, 1), step, "f4"))
    manager.step()


def test_a_follower_in_a_thread(path):
    state, mirror = states(), states()
    seen, errors = [], []
    with ckptdb.Manager(
        path, state, save=ckptdb.save_every_n_steps(1), max_delta_ratio=100
    ) as manager:
        train_step(manager, state, 1)
        manager.wait_until_finished()
        follower = ckptdb.Manager(path, mirror, read_only=True, poll_every=0.01)
        thread = threading.Thread(
            target=follow, args=(follower, mirror, 6, seen, errors)
        )
        thread.start()
        for step in range(2, 7):
            train_step(manager, state, step)
        manager.wait_until_finished()
        thread.join(60)
        assert not thread.is_alive() and not errors, errors
        assert seen[-1] == 6 and seen == sorted(set(seen))
        with pytest.raises(ckptdb.DeadlineExceeded):
            follower.wait_for_step(0.1)
        assert [r.step for r in follower.steps()] == [1, 2, 3, 4, 5, 6]
        for call in [
            follower.save,
            lambda: follower.pin(1),
            lambda: follower.fold(1),
            lambda: follower.add_metrics(1, {}),
        ]:
            with pytest.raises(ckptdb.FailedPrecondition):
                call()
        train_step(manager, state, 7)
        manager.wait_until_finished()
        assert follower.await_step(30) == 7 and mirror["n"] == 6
        report = follower.apply_step()
        assert (report.step, mirror["n"], report.incremental) == (7, 7, True)
        with follower:
            pass  # its end saves nothing


def test_a_follower_in_a_process(path, python):
    state = states()
    with ckptdb.Manager(path, state, save=ckptdb.save_every_n_steps(1)) as manager:
        train_step(manager, state, 1)
        manager.wait_until_finished()
        thread = threading.Thread(
            target=lambda: [
                (time.sleep(0.1), train_step(manager, state, s)) for s in range(2, 8)
            ]
        )
        thread.start()
        result = python(
            """
            import ckptdb, numpy as np
            state = {"t": ckptdb.Table({"v": "f32"}), "n": 0, "d": {"w": np.zeros(2)}}
            with ckptdb.Manager(path, state, read_only=True, poll_every=0.02) as follower:
                while state["n"] < 7:
                    report = follower.wait_for_step(30)
                    rows = state["t"].find([0, report.step])
                    assert state["t"]["v"][rows][:, 0].tolist() == [report.step] * 2
                    assert state["n"] == report.step == state["d"]["w"][0]
            print("followed", report.step)
            """,
            path=path,
        )
        thread.join()
    assert result.stdout.strip() == "followed 7"


def test_unknown_options_are_named(path):
    with pytest.raises(ckptdb.InvalidArgument, match='"kep"; did you mean "keep"'):
        ckptdb.Manager(path, {"n": 0}, kep=ckptdb.latest_n(2))
    with pytest.raises(ckptdb.InvalidArgument, match="is not JSON"):
        ckptdb.Manager.from_config("config.json", {"n": 0})


def test_policies_have_no_truth_value():
    for policy in (ckptdb.latest_n(1), ckptdb.save_initially()):
        with pytest.raises(TypeError, match="compose policies"):
            policy and policy
