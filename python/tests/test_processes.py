# SPDX-License-Identifier: Apache-2.0
"""Processes that are killed, forked, spawned and that end."""

from __future__ import annotations

import multiprocessing
import os
import pathlib
import random
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

import ckptdb

from conftest import LONG

TRAINER = str(pathlib.Path(__file__).with_name("kill_trainer.py"))


# Kills


def start(path: str, steps: int) -> subprocess.Popen:
    return subprocess.Popen(
        [sys.executable, TRAINER, path, str(steps)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_a_killed_trainer_resumes_to_the_same_state(tmp_path):
    kills, steps = (10, 1200) if LONG else (3, 400)
    seed = int(os.environ.get("CKPTDB_SEED", random.randrange(1 << 30)))
    print(f"CKPTDB_SEED={seed}")
    chance = random.Random(seed)

    begin = time.monotonic()
    whole = start(str(tmp_path / "whole"), steps)
    expected, errors = whole.communicate(timeout=300)
    assert whole.returncode == 0, errors
    seconds = time.monotonic() - begin

    path = str(tmp_path / "killed")
    resumed = []
    for _ in range(kills):
        trainer = start(path, steps)
        line = trainer.stderr.readline()
        while line and not line.startswith("begins at"):
            line = trainer.stderr.readline()
        resumed.append(int(line.split()[-1]))
        time.sleep(chance.uniform(0, seconds / kills))
        trainer.send_signal(signal.SIGKILL)
        trainer.communicate(timeout=60)
        assert trainer.returncode in (0, -signal.SIGKILL)
    last = start(path, steps)
    digest, errors = last.communicate(timeout=300)
    assert last.returncode == 0, errors
    assert digest == expected, f"resumed at {resumed}"


# Forks


def in_child(call) -> str:
    """What a call raises in a forked child, or returns."""
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            try:
                text = f"returned {call()!r}"
            except BaseException as error:
                text = f"{type(error).__name__}: {error}"
            os.write(write, text.encode()[:4000])
        finally:
            os._exit(0)
    os.close(write)
    with os.fdopen(read) as pipe:
        text = pipe.read()
    _, status = os.waitpid(pid, 0)
    assert status == 0, f"the child ended with status {status}: {text}"
    return text


def test_calls_in_a_forked_child_are_refused(path, without_garbage):
    table = ckptdb.Table({"v": "f32"})
    table.insert([1, 2])
    state = {"t": table, "w": np.ones(3)}
    manager = ckptdb.Manager(
        path, state, save=ckptdb.save_every_n_steps(1), best={"metric": "m"}
    )
    manager.step(metrics={"m": 1.0})
    pending = manager.step(metrics={"m": 1.0}).save
    pending.wait_committed()
    reader = ckptdb.Reader(path)
    step = reader.latest()
    fresh = reader.latest()
    stored = step.table("t")
    changes = reader.changes(1, 2)
    scan = stored.scan(rows=1)
    next(scan)
    calls = {
        "step": manager.step,
        "step_to": lambda: manager.step_to(9),
        "save": manager.save,
        "restore": manager.restore,
        "restore_or_start": manager.restore_or_start,
        "load": lambda: manager.load([]),
        "should_save": lambda: manager.should_save(5),
        "start_training": manager.start_training,
        "finish_training": manager.finish_training,
        "abandon_steps": manager.abandon_steps,
        "await_step": lambda: manager.await_step(1),
        "apply_step": manager.apply_step,
        "wait_until_finished": manager.wait_until_finished,
        "check_for_errors": manager.check_for_errors,
        "explain": lambda: manager.explain(1),
        "steps": manager.steps,
        "latest_step": manager.latest_step,
        "best_step": manager.best_step,
        "delete": lambda: manager.delete(1),
        "pin": lambda: manager.pin(1),
        "quarantine": lambda: manager.quarantine(1),
        "add_metrics": lambda: manager.add_metrics(1, {}),
        "fold": lambda: manager.fold(1),
        "close": manager.close,
        "wait_committed": pending.wait_committed,
        "reader.steps": reader.steps,
        "reader.open": lambda: reader.open(1),
        "reader.latest": reader.latest,
        "reader.changes": lambda: reader.changes(1, 2),
        "reader.refresh": reader.refresh,
        "reader.bad_files": reader.bad_files,
        "reader.user_metadata": lambda: reader.user_metadata,
        "reader.post_metrics": lambda: reader.post_metrics(1, {}),
        "reader.request_pin": lambda: reader.request_pin(1),
        "items": fresh.items,
        "record": lambda: step.record,
        "read": lambda: step.read("w"),
        "lookup": lambda: stored.lookup([1]),
        "scan": lambda: list(stored.scan()),
        "next": lambda: next(scan),
        "verify": step.verify,
        "tensors": changes.tensors,
        "changes.scan": lambda: list(changes.table("t")),
    }
    for name, call in calls.items():
        outcome = in_child(call)
        assert outcome.startswith("FailedPrecondition: "), f"{name}: {outcome}"
        assert str(os.getpid()) in outcome, f"{name}: {outcome}"
    # The parent continues to save.
    assert next(scan).ids.tolist() in ([1], [2])
    manager.step(metrics={"m": 1.0})
    manager.wait_until_finished()
    assert [r.step for r in manager.steps()] == [1, 2, 3]
    np.testing.assert_array_equal(step.read("w"), 1)
    manager.close()
    step.close()
    fresh.close()
    changes.close()
    reader.close()


def test_objects_that_end_in_a_forked_child(path, without_garbage):
    """A child that drops or closes them leaves the parent's alone."""
    import gc

    table = ckptdb.Table({"v": "f32"})
    table.insert(np.arange(1000))
    state = {"t": table, "w": np.zeros(50_000)}
    manager = ckptdb.Manager(
        path, state, save=ckptdb.save_every_n_steps(1), keep=ckptdb.latest_n(1)
    )
    manager.step()
    manager.wait_until_finished()
    objects = {}
    objects["reader"] = ckptdb.Reader(path)
    objects["step"] = objects["reader"].latest()
    objects["scan"] = objects["step"].table("t").scan(rows=10)
    next(objects["scan"])

    def drop():
        nonlocal manager
        objects["scan"].close()
        objects["step"].close()
        objects["reader"].close()
        objects.clear()
        del manager
        gc.collect()
        return "dropped"

    assert in_child(drop) == "returned 'dropped'"
    for number in range(3):
        state["w"][:] = number + 1
        manager.step()
    manager.wait_until_finished()
    step = objects["step"]
    np.testing.assert_array_equal(step.read("w"), 0)  # its lease is still there
    assert sum(len(batch) for batch in objects["scan"]) == 990
    step.close()
    objects["reader"].close()
    manager.close()


def test_a_forked_child_that_exits_normally(path, python):
    result = python(
        """
        import os, sys, ckptdb
        manager = ckptdb.Manager(path, {"n": 0}, save=ckptdb.save_every_n_steps(1))
        reader = None
        manager.step()
        manager.wait_until_finished()
        reader = ckptdb.Reader(path)
        step = reader.latest()
        if os.fork() == 0:
            sys.exit(7)
        _, status = os.wait()
        assert os.waitstatus_to_exitcode(status) == 7, status
        assert step.read("n") == 0
        manager.step()
        manager.close()
        print("done")
        """,
        path=path,
    )
    assert result.stdout == "done\n" and result.stderr == ""


def test_a_child_opens_a_store_of_its_own_after_spawn(path, tmp_path):
    with ckptdb.Manager(
        path, {"w": np.arange(4)}, save=ckptdb.save_every_n_steps(1)
    ) as m:
        m.step()
        m.wait_until_finished()
        with multiprocessing.get_context("spawn").Pool(2) as pool:
            sums = pool.starmap(
                read_in_child, [(path, str(tmp_path / f"{i}")) for i in range(3)]
            )
        assert sums == [6, 6, 6]
        m.step()


def read_in_child(path, own):
    with ckptdb.Reader(path) as reader, reader.latest() as step:
        total = int(step.read("w").sum())
    with ckptdb.Manager(own, {"n": 1}, save=ckptdb.save_every_n_steps(1)) as manager:
        manager.step()
    return total


def test_spawned_workers_refuse_store_objects(path):
    with ckptdb.Manager(path, {"n": 1}, save=ckptdb.save_every_n_steps(1)) as manager:
        process = multiprocessing.get_context("spawn").Process(
            target=print, args=(manager,)
        )
        with pytest.raises(TypeError, match="open the store in the other process"):
            process.start()


# Ends of processes


@pytest.mark.parametrize("end", ["return", "sys.exit(3)", "raise ValueError('own')"])
def test_exit_with_a_save_in_progress(path, python, end):
    """The step becomes durable, its callback runs, and nothing crashes."""
    code = f"""
        import sys, time, numpy as np, ckptdb
        calls = []
        def saved(report):
            time.sleep(0.05)
            calls.append(report.step)
            print("saved", report.step, report.error, flush=True)
        state = {{"w": np.ones(1 << 20), "t": ckptdb.Table({{"v": "f32"}})}}
        manager = ckptdb.Manager(path, state, save=ckptdb.save_every_n_steps(1),
                                 on_saved=saved)
        def main():
            manager.step()
            {end}
        main()
        """
    result = python(code, path=path, check=False)
    codes = {"return": 0, "sys.exit(3)": 3}
    assert result.returncode == codes.get(end, 1), result.stderr
    assert "saved 1 None" in result.stdout
    assert "terminate" not in result.stderr and "Fatal" not in result.stderr
    with ckptdb.Reader(path) as reader, reader.latest() as step:
        assert step.record.step == 1
        np.testing.assert_array_equal(step.read("w"), 1)


def test_a_program_that_imports_the_package_in_a_thread(path, python):
    """Its main thread handles Ctrl-C, and ends."""
    result = python(
        """
        import os, signal, threading
        thread = threading.Thread(target=__import__, args=("ckptdb",))
        thread.start()
        thread.join()
        import ckptdb
        manager = ckptdb.Manager(path, {"n": 0}, save=ckptdb.save_every_n_steps(1))
        manager.step()
        manager.wait_until_finished()
        follower = ckptdb.Manager(path, {"n": 0}, read_only=True)
        follower.restore()
        threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
        try:
            follower.await_step(600)
        except KeyboardInterrupt:
            print("interrupted")
        """,
        path=path,
        timeout=30,
    )
    assert result.stdout == "interrupted\n"


def test_exit_with_a_callback_that_raises(path, python):
    result = python(
        """
        import ckptdb
        def saved(report):
            raise ValueError("own")
        manager = ckptdb.Manager(path, {"n": 0}, save=ckptdb.save_every_n_steps(1),
                                 on_saved=saved)
        manager.step()
        """,
        path=path,
    )
    assert "own" in result.stderr and "terminate" not in result.stderr


def test_exit_with_everything_open(path, python):
    """Steps, scans, changes and managers that nobody closed, and a thread that
    still reads."""
    result = python(
        """
        import threading, numpy as np, ckptdb
        table = ckptdb.Table({"v": "f32"})
        table.insert(np.arange(5000))
        state = {"t": table}
        manager = ckptdb.Manager(path, state, save=ckptdb.save_every_n_steps(1))
        manager.step(); manager.step(); manager.wait_until_finished()
        mirror = {"t": ckptdb.Table({"v": "f32"})}
        follower = ckptdb.Manager(path, mirror, read_only=True)
        follower.restore()
        reader = ckptdb.Reader(path)
        step = reader.latest()
        scan = step.table("t").scan(rows=10)
        next(scan)
        changes = reader.changes(1, 2)
        def read():
            while True:
                step.table("t").lookup(np.arange(1000))
        threading.Thread(target=read, daemon=True).start()
        waiter = threading.Thread(target=lambda: follower.wait_for_step(600), daemon=True)
        waiter.start()
        manager.step()
        print("ends")
        """,
        path=path,
        check=False,
        timeout=60,
    )
    assert result.returncode == 0, result.stderr
    assert result.stdout == "ends\n" and "terminate" not in result.stderr
    with ckptdb.Reader(path) as reader:
        assert [r.step for r in reader.steps()] == [1, 2, 3]


def test_a_manager_that_is_dropped(path):
    state = {"w": np.ones(1 << 18)}
    saved = []
    for number in range(1, 4):
        manager = ckptdb.Manager(
            path,
            state,
            save=ckptdb.save_every_n_steps(1),
            on_saved=lambda report: saved.append(report.step),
        )
        manager.restore_or_start()
        manager.step()
        del manager
        assert saved == list(range(1, number + 1)), "dropping it waits for its save"
    with ckptdb.Reader(path) as reader:
        assert [r.step for r in reader.steps()] == [1, 2, 3]


def test_a_manager_that_could_not_be_opened(path):
    import gc

    with ckptdb.Manager(path, {"n": 0}, save=ckptdb.save_at_steps([])):
        for _ in range(3):
            with pytest.raises(ckptdb.Error):
                ckptdb.Manager(path, {"n": 0}, save=ckptdb.save_at_steps([]))
            with pytest.raises(ckptdb.InvalidArgument):
                ckptdb.Manager(path, {"n": 0}, no_such_option=1)
        gc.collect()


def test_an_exception_in_the_loop_is_the_one_that_is_raised(path):
    state = {"n": 0}
    with pytest.raises(ZeroDivisionError):
        with ckptdb.Manager(path, state, save=ckptdb.save_every_n_steps(2)) as manager:
            for _ in range(3):
                manager.step()
            1 / 0
    with ckptdb.Reader(path) as reader:
        assert [r.step for r in reader.steps()] == [2]


def test_a_with_block_that_only_looks(path):
    state = {"n": 0}
    with ckptdb.Manager(path, state, save=ckptdb.save_every_n_steps(1)) as manager:
        manager.step()
    with ckptdb.Manager(path, state, save=ckptdb.save_every_n_steps(1)) as manager:
        assert manager.latest_step() == 1
    with ckptdb.Reader(path) as reader:
        assert [r.step for r in reader.steps()] == [1]
