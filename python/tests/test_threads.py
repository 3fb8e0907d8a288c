# SPDX-License-Identifier: Apache-2.0
"""The interpreter's lock, memory, and Ctrl-C."""

from __future__ import annotations

import gc
import os
import signal
import threading
import time

import numpy as np
import pytest

import ckptdb

from conftest import LONG


class Spinner:
    """A thread that counts while something else runs."""

    def __enter__(self):
        self.count = 0
        self._stop = False
        self._thread = threading.Thread(target=self._run)
        self._thread.start()
        return self

    def _run(self):
        while not self._stop:
            self.count += 1

    def __exit__(self, *_):
        self._stop = True
        self._thread.join()


def test_other_threads_run_beside_a_save_and_a_read(path):
    state = {"w": np.ones(1 << 24)}  # 128 MiB
    out = np.empty_like(state["w"])
    with Spinner() as spinner:
        begin, count = time.monotonic(), spinner.count
        time.sleep(0.3)
        alone = (spinner.count - count) / (time.monotonic() - begin)
        with ckptdb.Manager(
            path, state, save=ckptdb.save_every_n_steps(1), async_=False
        ) as manager:
            begin, count = time.monotonic(), spinner.count
            manager.step()
            saving = (spinner.count - count) / (time.monotonic() - begin)
        with ckptdb.Reader(path) as reader, reader.latest() as step:
            begin, count = time.monotonic(), spinner.count
            step.read("w", out=out)
            reading = (spinner.count - count) / (time.monotonic() - begin)
    print(f"rate beside a save {saving / alone:.0%}, a read {reading / alone:.0%}")
    assert saving > 0 and reading > 0
    np.testing.assert_array_equal(out, 1)


@pytest.mark.parametrize("call", ["close", "step", "wait", "drop", "exit"])
def test_calls_do_not_hold_the_lock_that_callbacks_want(path, call):
    seen = []

    def saved(report):
        for _ in range(20):  # gives the lock away and wants it back
            time.sleep(0.002)
        seen.append(report.step)

    manager = ckptdb.Manager(
        path, {"w": np.ones(10_000)}, save=ckptdb.save_every_n_steps(1), on_saved=saved
    )
    manager.step()
    if call == "close":
        manager.close()
    elif call == "step":
        manager.step()
        manager.close()
    elif call == "wait":
        manager.wait_until_finished()
        manager.close()
    elif call == "exit":
        with manager:
            pass
    del manager
    assert seen == ([1, 2] if call == "step" else [1])


def rss() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def test_many_saves_keep_memory_flat(path):
    saves = 1000 if LONG else 200
    table = ckptdb.Table({"v": ("f32", 16)})
    rows = table.insert(np.arange(5000))
    state = {
        "t": table,
        "w": np.ones((256, 256), "f4"),
        "views": {i: np.ones((64, 64))[:, ::2] for i in range(20)},
        "lists": [{"a": i, "b": [1.5] * 10} for i in range(50)],
    }
    reports = []
    with ckptdb.Manager(
        path,
        state,
        save=ckptdb.save_every_n_steps(1),
        keep=ckptdb.latest_n(2),
        on_saved=lambda report: reports.append(report.step),
    ) as manager:
        for step in range(saves):
            table["v"].put(rows[:100], np.full((100, 16), step, "f4"))
            manager.step(metrics={"m": float(step)})
            if step % 20 == 0:
                manager.wait_until_finished()
                with ckptdb.Reader(path) as reader, reader.latest() as opened:
                    opened.read("lists")
                    next(opened.table("t").scan(rows=100))
            if step == saves // 4:
                gc.collect()
                before = rss()
        manager.wait_until_finished()
        gc.collect()
        grown = (rss() - before) / 2**20
    print(f"{saves} saves: grown by {grown:.1f} MiB")
    assert len(reports) == saves
    assert grown < 48


def test_references_to_the_state_are_dropped(path):
    import weakref

    class Arrays(dict):
        pass

    view = np.ones((1000, 100))[:, ::2]
    state = Arrays(w=view)
    alive = weakref.ref(state)
    manager = ckptdb.Manager(path, state, save=ckptdb.save_every_n_steps(1))
    for call in [
        manager.step,
        lambda: manager.step_to(2),
        lambda: manager.save(overwrite=True),
        manager.restore,
    ]:
        call()
        manager.wait_until_finished()
        # Copies of views take as much memory as the state: they are not kept.
        assert not manager._kept
    manager.close()
    del state, view, manager, call
    gc.collect()
    assert alive() is None


# Ctrl-C


INTERRUPT = """
import os, signal, threading, time, numpy as np, ckptdb

def interrupted(call, after=0.3):
    "Seconds from the signal to KeyboardInterrupt."
    sent = []
    def send():
        time.sleep(after)
        sent.append(time.monotonic())
        os.kill(os.getpid(), signal.SIGINT)
    thread = threading.Thread(target=send)
    thread.start()
    try:
        call()
    except KeyboardInterrupt:
        seconds = time.monotonic() - sent[0]
        thread.join()
        return seconds
    thread.join()
    raise AssertionError("no KeyboardInterrupt")
"""


def interrupt(python, path, code: str) -> float:
    """Runs code that sets `seconds` in another process."""
    import textwrap

    body = INTERRUPT + textwrap.dedent(code) + "\nprint('seconds', seconds)\n"
    result = python(body, path=path)
    seconds = float(result.stdout.split()[-1])
    assert seconds < 5, "the call went on"  # 0.05 without load
    return seconds


def test_interrupt_of_wait_for_step(path, python):
    with ckptdb.Manager(path, {"n": 1}, save=ckptdb.save_every_n_steps(1)) as manager:
        manager.step()
        manager.wait_until_finished()
        interrupt(
            python,
            path,
            """
            state = {"n": 0}
            follower = ckptdb.Manager(path, state, read_only=True)
            follower.restore()
            seconds = interrupted(lambda: follower.wait_for_step(60))
            assert state["n"] == 1
            seconds = max(seconds, interrupted(lambda: follower.await_step(60)))
            assert follower.restore().step == 1
            follower.close()
            """,
        )


@pytest.mark.parametrize(
    "call", ["pending.wait_committed", "manager.wait_until_finished"]
)
def test_interrupt_of_waiting_for_a_save(path, python, call):
    interrupt(
        python,
        path,
        f"""
        gate = threading.Event()
        keep = ckptdb.keep_if("slow", lambda info: gate.wait(60))
        manager = ckptdb.Manager(path, {{"n": 1}}, save=ckptdb.save_at_steps([]), keep=keep)
        manager.step()
        pending = manager.save()
        seconds = interrupted({call})
        assert not pending.done
        gate.set()
        assert pending.wait_committed(30).step == 1
        manager.step()
        manager.save().wait_committed(30)
        assert [r.step for r in manager.steps()] == [1, 2]
        manager.close()
        """,
    )


def test_interrupt_of_a_scan(path, python):
    table = ckptdb.Table({"v": ("f32", 16)})
    table.insert(np.arange(200_000))
    with ckptdb.Manager(
        path, {"t": table}, save=ckptdb.save_every_n_steps(1)
    ) as manager:
        manager.step()
    interrupt(
        python,
        path,
        """
        def scans():
            while True:
                for batch in step.table("t").scan(rows=100):
                    pass
        with ckptdb.Reader(path) as reader, reader.latest() as step:
            seconds = interrupted(scans)
            total = sum(len(batch) for batch in step.table("t").scan())
            assert total == 200_000, total
        """,
    )


def test_interrupt_of_lookups(path, python):
    table = ckptdb.Table({"v": ("f32", 4)})
    table.insert(np.arange(50_000))
    with ckptdb.Manager(
        path, {"t": table}, save=ckptdb.save_every_n_steps(1)
    ) as manager:
        manager.step()
    interrupt(
        python,
        path,
        """
        ids = np.arange(50_000)
        def look_up():
            while True:
                step.table("t").lookup(ids)
        with ckptdb.Reader(path) as reader, reader.latest() as step:
            seconds = interrupted(look_up)
            found, _ = step.table("t").lookup([3, -1])
            assert found.tolist() == [True, False]
        """,
    )


def test_interrupt_of_restores(path, python):
    with ckptdb.Manager(
        path, {"w": np.arange(1 << 22)}, save=ckptdb.save_every_n_steps(1)
    ) as manager:
        manager.step()
    interrupt(
        python,
        path,
        """
        state = {"w": np.zeros(1 << 22, "i8")}
        manager = ckptdb.Manager(path, state, save=ckptdb.save_every_n_steps(1))
        def restores():
            while True:
                manager.restore()
        seconds = interrupted(restores)
        assert manager.restore().step == 1
        assert (state["w"] == np.arange(1 << 22)).all()
        manager.step()
        manager.close()
        """,
    )


def test_interrupt_of_saves(path, python):
    interrupt(
        python,
        path,
        """
        state = {"w": np.zeros(1 << 20)}
        manager = ckptdb.Manager(path, state, save=ckptdb.save_every_n_steps(1),
                                 keep=ckptdb.latest_n(2))
        def saves():
            while True:
                manager.step()
        seconds = interrupted(saves)
        manager.wait_until_finished()
        state["w"][:] = 7
        last = manager.step().step
        manager.close()
        with ckptdb.Reader(path) as reader, reader.latest() as step:
            assert step.record.step == last
            assert (step.read("w") == 7).all()
        """,
    )


def test_a_handler_of_the_program_is_called(path):
    """The call continues if the handler returns, and ends with the exception that
    the handler raises."""

    class Own(Exception):
        pass

    def handler(number, frame):
        calls.append(number)
        if len(calls) == 2:
            raise Own

    calls = []
    old = signal.signal(signal.SIGUSR1, handler)
    try:
        with ckptdb.Manager(
            path, {"n": 1}, save=ckptdb.save_every_n_steps(1)
        ) as manager:
            manager.step()
            manager.wait_until_finished()
            follower = ckptdb.Manager(path, {"n": 0}, read_only=True)
            follower.restore()
            for expected in [ckptdb.DeadlineExceeded, Own]:
                timer = threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGUSR1))
                timer.start()
                with pytest.raises(expected):
                    follower.wait_for_step(0.8 if expected is not Own else 30)
                timer.join()
            assert len(calls) == 2
            follower.close()
    finally:
        signal.signal(signal.SIGUSR1, old)
