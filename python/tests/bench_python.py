# SPDX-License-Identifier: Apache-2.0
"""What the Python layer costs. Not a test:

    PYTHONPATH=build/release/python python python/tests/bench_python.py [FOLDER]

Prints a table; nothing is asserted. Rows that need PyTorch are left out without
it. Figures of C++ for 1 GB: `ckptdb_bench dense`.
"""

from __future__ import annotations

import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time

import numpy as np

import ckptdb

try:
    import torch
except ImportError:
    torch = None

ROWS: list[tuple[str, str, str]] = []


def row(what: str, value: str, bar: str = "") -> None:
    ROWS.append((what, value, bar))
    print(f"{what:<58} {value:>24} {bar:>14}", flush=True)


def timed(call, repeat: int = 5) -> float:
    """The median of seconds."""
    times = []
    for _ in range(repeat):
        begin = time.perf_counter()
        call()
        times.append(time.perf_counter() - begin)
    return statistics.median(times)


def range_of(times: list[float]) -> str:
    return f"{min(times):.2f} to {max(times):.2f} s"


def large_tensors(folder: str) -> None:
    """1 GB in 16 tensors."""
    count, each = 16, 1_000_000_000 // 16 // 4
    kinds = ["numpy"] if torch is None else ["numpy", "torch"]
    for kind in kinds:
        make = np.ones if kind == "numpy" else torch.ones
        dtype = np.float32 if kind == "numpy" else torch.float32
        state = {"w": [make(each, dtype=dtype) for _ in range(count)]}
        path = f"{folder}/large-{kind}"
        saves, blocked, reads, restores = [], [], [], []
        with ckptdb.Manager(
            path, state, save=ckptdb.save_every_n_steps(1), keep=ckptdb.latest_n(1)
        ) as manager:
            for _ in range(4):
                begin = time.perf_counter()
                manager.step()
                blocked.append(time.perf_counter() - begin)
                manager.wait_until_finished()
                saves.append(time.perf_counter() - begin)
            for _ in range(3):
                begin = time.perf_counter()
                manager.restore()
                restores.append(time.perf_counter() - begin)
        with ckptdb.Reader(path) as reader, reader.latest() as step:
            for _ in range(3):
                begin = time.perf_counter()
                for i in range(count):
                    step.read(f"w.{i}", out=state["w"][i])
                reads.append(time.perf_counter() - begin)
        row(f"1 GB of {kind}: saved", range_of(saves), "C++ + 2 %")
        row(f"1 GB of {kind}: training waits", range_of(blocked))
        row(f"1 GB of {kind}: restored", range_of(restores), "C++ + 2 %")
        row(f"1 GB of {kind}: read", range_of(reads), "C++ + 2 %")
        del state
        shutil.rmtree(path)


def steps(folder: str) -> None:
    state = {"w": np.ones(100), "n": 1}
    with ckptdb.Manager(
        f"{folder}/steps", state, save=ckptdb.save_every_n_steps(10**9)
    ) as manager:
        count = 100_000

        def many() -> None:
            for _ in range(count):
                manager.step()

        row("step() without a save", f"{timed(many) / count * 1e6:.2f} us", "3 us")

        def with_metrics() -> None:
            for _ in range(count):
                manager.step(metrics={"loss": 0.5})

        seconds = timed(with_metrics) / count
        row("step(metrics=...) without a save", f"{seconds * 1e6:.2f} us")


def small_tensors(folder: str) -> None:
    """1,000 modules with 10 tensors each."""
    from ckptdb._save import Save

    if torch is None:
        state = {f"m{i}": {f"t{j}": np.ones(8) for j in range(10)} for i in range(1000)}
        what = "10,000 arrays of 1,000 dictionaries"
    else:

        class Ten(torch.nn.Module):
            def __init__(self) -> None:
                super().__init__()
                for j in range(10):
                    setattr(self, f"t{j}", torch.nn.Parameter(torch.ones(8)))

        state = {"model": torch.nn.ModuleList(Ten() for _ in range(1000))}
        what = "10,000 tensors of 1,000 modules"

    def prepare() -> None:
        Save(False).add_all(state)

    row(f"{what}: described", f"{timed(prepare, 9) * 1e3:.1f} ms", "50 ms")
    path = f"{folder}/small"
    reports: list[ckptdb.SaveReport] = []
    with ckptdb.Manager(
        path,
        state,
        save=ckptdb.save_every_n_steps(1),
        keep=ckptdb.latest_n(1),
        on_saved=reports.append,
    ) as manager:
        for _ in range(5):
            manager.step()
            manager.wait_until_finished()
        blocking = statistics.median(r.blocking_seconds for r in reports)
        total = statistics.median(r.total_seconds for r in reports)
        row(f"{what}: training waits", f"{blocking * 1e3:.1f} ms")
        row(f"{what}: saved", f"{total * 1e3:.1f} ms")
        row(f"{what}: restored", f"{timed(manager.restore, 3) * 1e3:.0f} ms")
    with ckptdb.Reader(path) as reader, reader.latest() as step:
        names = [item.name for item in step.items() if item.kind == "tensor"]
        seconds = timed(lambda: step.read_many(names), 3)
        row(f"{len(names):,} small tensors: read_many", f"{seconds:.2f} s", "0.2 s")

        def items() -> None:
            step._items = None
            step.items()

        row("10,000 items: items()", f"{timed(items) * 1e3:.1f} ms")


def tables(folder: str) -> None:
    count = 1_000_000
    table = ckptdb.Table({"v": ("f32", 16)})
    ids = np.random.default_rng(1).permutation(count)
    seconds = timed(lambda: table.insert(ids), 1)
    row("1,000,000 ids: inserted", f"{seconds * 1e9 / count:.0f} ns a row")
    rows = table.find(ids)
    row(
        "1,000,000 ids: found",
        f"{timed(lambda: table.find(ids)) * 1e9 / count:.0f} ns a row",
    )
    values = table["v"][rows]
    gather = timed(lambda: table["v"][rows])
    row("1,000,000 rows of 64 B: gathered", f"{gather * 1e9 / count:.0f} ns a row")
    put = timed(lambda: table["v"].put(rows, values))
    row("1,000,000 rows of 64 B: put", f"{put * 1e9 / count:.0f} ns a row")
    path = f"{folder}/tables"
    with ckptdb.Manager(
        path, {"t": table}, save=ckptdb.save_every_n_steps(1)
    ) as manager:
        manager.step()
    with ckptdb.Reader(path) as reader, reader.latest() as step:
        stored = step.table("t")
        scan = timed(lambda: sum(len(b) for b in stored.scan()), 3)
        row("1,000,000 rows of 64 B: scanned", f"{scan * 1e9 / count:.0f} ns a row")
        some = ids[:20_000]
        lookup = timed(lambda: stored.lookup(some), 3)
        row(
            "20,000 of 1,000,000 rows: looked up",
            f"{lookup * 1e6 / 20_000:.1f} us a row",
        )


SPIN = """
import sys, time
count = 0
while True:
    count += 1
    if count % 100_000 == 0:
        print(time.perf_counter(), count, flush=True)
"""


def spinning(folder: str) -> None:
    """The rate of a thread that runs Python during saves and reads. The library's
    threads take processor time from it, too: a separate process that spins shows
    how much, and the thread's share is printed relative to it."""
    state = {"w": np.ones(1 << 26)}  # 512 MiB
    stop = False
    count = 0

    def spin() -> None:
        nonlocal count
        while not stop:
            count += 1

    other = subprocess.Popen(
        [sys.executable, "-c", SPIN], stdout=subprocess.PIPE, text=True
    )
    lines: list[tuple[float, int]] = []

    def listen() -> None:
        assert other.stdout is not None
        for line in other.stdout:
            at, counted = line.split()
            lines.append((float(at), int(counted)))

    threads = [threading.Thread(target=spin), threading.Thread(target=listen)]
    for thread in threads:
        thread.start()

    def rates(call) -> tuple[float, float]:
        begin, first = time.perf_counter(), count
        call()
        end, last = time.perf_counter(), count
        time.sleep(0.3)
        inside = [each for each in lines if begin <= each[0] <= end]
        (t0, c0), (t1, c1) = inside[0], inside[-1]
        return (last - first) / (end - begin), (c1 - c0) / (t1 - t0)

    try:
        time.sleep(0.5)
        alone = rates(lambda: time.sleep(2))
        path = f"{folder}/spin"
        with ckptdb.Manager(
            path,
            state,
            save=ckptdb.save_every_n_steps(1),
            keep=ckptdb.latest_n(1),
            async_=False,
        ) as manager:
            saving = rates(lambda: [manager.step() for _ in range(5)])
        with ckptdb.Reader(path) as reader, reader.latest() as step:
            reading = rates(lambda: [step.read("w", out=state["w"]) for _ in range(8)])
    finally:
        stop = True
        other.kill()
        for thread in threads:
            thread.join()
    for what, (own, its) in (("saves", saving), ("reads", reading)):
        thread_keeps, process_keeps = own / alone[0], its / alone[1]
        row(
            f"during {what}: a spinning thread keeps, a process keeps",
            f"{thread_keeps:.0%}, {process_keeps:.0%}",
        )
        row(
            f"beside {what}: the thread relative to the process",
            f"{thread_keeps / process_keeps:.0%}",
            "90 %",
        )


def main() -> None:
    folder = tempfile.mkdtemp(
        prefix="ckptdb-bench-", dir=sys.argv[1] if len(sys.argv) > 1 else None
    )
    print(f"{'':<58} {'measured':>24} {'bar':>14}")
    try:
        steps(folder)
        small_tensors(folder)
        tables(folder)
        spinning(folder)
        large_tensors(folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
