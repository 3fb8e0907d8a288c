# SPDX-License-Identifier: Apache-2.0
"""ckptdb and other libraries that save and load checkpoints, side by side:

    PYTHONPATH=build/release/python python bench/peers.py --dir /mnt/disk --json out.json

Prints a table in Markdown for each case: tensors of some GB, a table of embeddings
with its optimizer's state, and the same table after 1 % of its rows have changed. The
peers store the table as tensors. A peer that is not installed is named as missing.

- Each save and each load runs in a separate process, of which it is the first, apart
  from that of the table whose rows change afterwards: buffers that a peer keeps for the
  next save are used for the first time. The peers take turns, in an order that rotates.
  Tables show medians; the JSON has all values.
- A save ends when the checkpoint is durable: unless the peer does so itself, all its
  files and folders are synced, which counts as a part of the save. `blocking` is the
  time until the trainer may change its state; the bench then does, and the load checks
  that the checkpoint does not contain the change.
- A load begins with files that are not in the page cache, and ends when arrays that
  existed before, such as a model's, contain the checkpoint. All bytes are compared.
- Bytes are those of the files that the save added. CPU seconds are those of the process
  and its children, for each GB (10^9 bytes) of the state. Peak memory is the highest
  resident size less the size before, mapped files included.
- Before it is measured, each process saves and loads a few bytes with the peer, and
  writes to free memory, of 5 times the state: virtual machines give free memory back to
  their host, and the first write to each page then takes 5 to 8 times as long. The
  parent holds what no peer needs, so that this memory is the same.
"""

from __future__ import annotations

import argparse
import ctypes
import importlib.metadata
import itertools
import json
import mmap
import os
import pathlib
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from typing import Any

import numpy as np

from peer_libraries import PEERS, Ckptdb, Peer, State, missing_packages


# The cases.


def dense_state(case: dict[str, Any]) -> State:
    """Tensors of 256 MiB, 64 MiB and so on to 4 KiB, again and again."""
    random = np.random.default_rng(1)
    state: State = {}
    left = case["bytes"] // 4
    levels = itertools.cycle(range(9))
    while left > 0:
        count = min((1 << 26) >> (2 * next(levels)), left)
        state[f"layer.{len(state)}"] = random.random(count, np.float32)
        left -= count
    return state


def table_state(case: dict[str, Any]) -> State:
    """Embeddings and the sums of Adagrad, one for each row, or each element."""
    random = np.random.default_rng(1)
    rows, dim = case["rows"], case["dim"]
    shape = (rows,) if case["optimizer"] == "rowwise" else (rows, dim)
    return {
        "embedding": random.random((rows, dim), np.float32),
        "adagrad": random.random(shape, np.float32),
    }


def make_state(case: dict[str, Any]) -> State:
    return table_state(case) if "rows" in case else dense_state(case)


def changed_rows(case: dict[str, Any]) -> np.ndarray:
    random = np.random.default_rng(2)
    count = max(1, int(case["rows"] * case["changed"]))
    return np.sort(random.choice(case["rows"], count, replace=False))


def train(state: State, rows: np.ndarray) -> None:
    for array in state.values():
        array[rows] += 1


# What a process measures.


def tree() -> list[str]:
    """This process and its descendants."""
    parents = {}
    for stat in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue  # it has ended
        parents[stat.parent.name] = fields[1]
    found = [str(os.getpid())]
    for pid in found:
        found += [each for each, parent in parents.items() if parent == pid]
    return found


def cpu_seconds() -> float:
    """User and system time of these processes, and of those that have ended."""
    own = os.times()
    seconds = time.process_time() + own.children_user + own.children_system
    for pid in tree()[1:]:
        fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2]
        ticks = sum(map(int, fields.split()[11:15]))
        seconds += ticks / os.sysconf("SC_CLK_TCK")
    return seconds


def memory(field: str) -> int:
    total = 0
    for pid in tree():
        for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith(field + ":"):
                total += int(line.split()[1]) * 1024
    return total


def reset_peak() -> None:
    for pid in tree():
        pathlib.Path(f"/proc/{pid}/clear_refs").write_text("5")


def meminfo(field: str) -> int:
    for line in pathlib.Path("/proc/meminfo").read_text().splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1]) * 1024
    raise KeyError(field)


def touched_memory(count: int) -> mmap.mmap:
    """`count` bytes, each of whose pages has been written to."""
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
    memory = mmap.mmap(-1, max(count, mmap.PAGESIZE), flags=flags)
    np.frombuffer(memory, np.uint8)[:: mmap.PAGESIZE] = 1
    return memory


def touch_free_memory(state_bytes: int) -> None:
    touched_memory(min(meminfo("MemFree") * 9 // 10, 5 * state_bytes))


def files_in(folder: str) -> list[str]:
    return [
        os.path.join(at, name) for at, _, names in os.walk(folder) for name in names
    ]


def bytes_in(folder: str) -> int:
    sizes = {}
    for path in files_in(folder):
        status = os.stat(path)
        sizes[status.st_ino] = status.st_size
    return sum(sizes.values())


def sync(path: str) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_all(folder: str) -> None:
    for path in files_in(folder):
        sync(path)
    for at, _, _ in os.walk(folder):
        sync(at)


def sync_file_system(folder: str) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        ctypes.CDLL(None).syncfs(descriptor)
    finally:
        os.close(descriptor)


def evict(folder: str) -> None:
    """Removes files from the page cache."""
    for path in files_in(folder):
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(descriptor)


def warm_up(kind: type[Peer], case: dict[str, Any]) -> None:
    """Imports what the peer imports late, and starts what it starts once."""
    small = dict(case, rows=64) if "rows" in case else dict(case, bytes=4096)
    with tempfile.TemporaryDirectory(prefix="peers-") as folder:
        state = make_state(small)
        peer = kind(folder)
        peer.open(state)
        peer.save(1)
        peer.finish()
        peer.close()
        peer = kind(folder)
        if kind is not Ckptdb:
            peer.open(state)
        peer.load(1, state)
        peer.close()


def measure_save(kind: type[Peer], case: dict[str, Any], folder: str) -> dict[str, Any]:
    state = make_state(case)
    peer = kind(folder)
    peer.open(state)
    resident = memory("VmRSS")
    step, rows = 1, None
    if "changed" in case:
        peer.save(step)
        peer.finish()
        sync_all(folder)
        step, rows = 2, changed_rows(case)
        train(state, rows)
        peer.renew()
    bytes_before = bytes_in(folder)
    state_bytes = sum(array.nbytes for array in state.values())
    touch_free_memory(state_bytes)
    reset_peak()
    cpu, begin = cpu_seconds(), time.perf_counter()
    if rows is not None:
        peer.changed(rows)
    peer.save(step)
    blocking = time.perf_counter() - begin
    for array in state.values():
        array.reshape(-1)[:1] += 1  # the next step of the training
    peer.finish()
    if not kind.syncs:
        sync_all(folder)
    seconds = time.perf_counter() - begin
    result = {
        "save_seconds": seconds,
        "blocking_seconds": blocking if kind.syncs or blocking_ends(kind) else seconds,
        "save_cpu_seconds": cpu_seconds() - cpu,
        "save_peak_bytes": max(0, memory("VmHWM") - resident),
        "written_bytes": bytes_in(folder) - bytes_before,
        "state_bytes": state_bytes,
    }
    peer.close()
    return result


def blocking_ends(kind: type[Peer]) -> bool:
    """Whether the peer saves in the background: otherwise the trainer also waits
    until the files are synced."""
    return kind.finish is not Peer.finish


def measure_load(kind: type[Peer], case: dict[str, Any], folder: str) -> dict[str, Any]:
    expected = make_state(case)
    step = 1
    if "changed" in case:
        step = 2
        train(expected, changed_rows(case))
    targets = {name: np.full_like(array, -1) for name, array in expected.items()}
    peer = kind(folder)
    if kind is not Ckptdb:  # a manager is opened for its state
        peer.open({})
    evict(folder)
    touch_free_memory(sum(array.nbytes for array in targets.values()))
    resident = memory("VmRSS")
    reset_peak()
    cpu, begin = cpu_seconds(), time.perf_counter()
    peer.load(step, targets)
    result = {
        "load_seconds": time.perf_counter() - begin,
        "load_cpu_seconds": cpu_seconds() - cpu,
        "load_peak_bytes": max(0, memory("VmHWM") - resident),
    }
    peer.close()
    for name, array in expected.items():
        if not np.array_equal(array, targets[name]):
            raise AssertionError(f'"{name}" was not loaded as it was when it was saved')
    return result


def flip_bit(folder: str, text: bytes) -> None:
    """Flips a bit of `text` in a file, or else in the middle of the largest file."""
    paths = sorted(files_in(folder), key=os.path.getsize, reverse=True)
    contents = [pathlib.Path(path).read_bytes() for path in paths]
    places = [(i, each.find(text)) for i, each in enumerate(contents) if text in each]
    file, at = places[0] if places else (0, len(contents[0]) // 2)
    with open(paths[file], "r+b") as changed:
        changed.seek(at)
        changed.write(bytes([contents[file][at] ^ 1]))


def measure_damage(
    kind: type[Peer], case: dict[str, Any], folder: str
) -> dict[str, Any]:
    """What a load does with a checkpoint of which a bit was flipped."""
    state = make_state(case)
    peer = kind(folder)
    peer.open(state)
    peer.save(1)
    peer.finish()
    peer.close()
    text = state["layer.0"].tobytes()
    flip_bit(folder, text[len(text) // 2 :][:64])
    targets = {name: np.full_like(array, -1) for name, array in state.items()}
    peer = kind(folder)
    try:
        if kind is not Ckptdb:
            peer.open({})
        peer.load(1, targets)
    except Exception as error:
        return {"damage": f"refused: {error}"}
    same = all(np.array_equal(state[name], targets[name]) for name in state)
    return {"damage": "loaded as saved" if same else "loaded wrong values"}


def child(arguments: dict[str, Any]) -> None:
    kind = PEERS[arguments["peer"]]
    what = arguments["what"]
    warm_up(kind, arguments["case"])
    measure = {"save": measure_save, "load": measure_load, "damage": measure_damage}[
        what
    ]
    result = measure(kind, arguments["case"], arguments["folder"])
    pathlib.Path(arguments["result"]).write_text(json.dumps(result))


# The parent.


def run_child(folder: str, **arguments: Any) -> dict[str, Any]:
    """The result of a process, or its error."""
    result = os.path.join(folder, "result.json")
    store = os.path.join(folder, "store")
    os.makedirs(store, exist_ok=True)
    text = json.dumps({**arguments, "folder": store, "result": result})
    command = [sys.executable, os.path.abspath(__file__), "--child", text]
    try:
        ended = subprocess.run(
            command, capture_output=True, text=True, timeout=arguments["case"]["limit"]
        )
    except subprocess.TimeoutExpired as error:
        return {"error": f"took longer than {error.timeout} s"}
    if ended.returncode != 0:
        lines = ended.stderr.strip().splitlines() or [f"exit {ended.returncode}"]
        print(ended.stderr, file=sys.stderr)
        return {"error": f"{arguments['what']}: {lines[-1]}"}
    values: dict[str, Any] = json.loads(pathlib.Path(result).read_text())
    os.remove(result)
    return values


def hold_memory(case: dict[str, Any]) -> mmap.mmap:
    """What the processes of a case do not need, unless the state is small."""
    elements = 1 if case.get("optimizer") == "rowwise" else case.get("dim", 0)
    rows = case.get("rows", 0)
    state = case.get("bytes", 4 * rows * (case.get("dim", 0) + elements))
    free = meminfo("MemAvailable") - 9 * state // 2 - (3 << 29)
    return touched_memory(free if state >= 1 << 28 else 0)


def run_peer(parent: str, peer: str, case: dict[str, Any]) -> dict[str, Any]:
    folder = tempfile.mkdtemp(prefix="peers-", dir=os.path.abspath(parent))
    try:
        values = run_child(folder, what="save", peer=peer, case=case)
        if "error" not in values:
            values.update(run_child(folder, what="load", peer=peer, case=case))
        return values
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        sync_file_system(parent)  # so that the next peer does not pay for it


def show_damage(parent: str, peers: list[str], limit_seconds: int) -> int:
    case = {"bytes": 4_000_000, "limit": limit_seconds}
    failed = 0
    for peer in peers:
        with tempfile.TemporaryDirectory(prefix="peers-", dir=parent) as folder:
            result = run_child(folder, what="damage", peer=peer, case=case)
        failed |= "error" in result
        print(f"{peer}: {result.get('damage') or result['error']}", flush=True)
    return failed


def cases_of(options: argparse.Namespace) -> dict[str, dict[str, Any]]:
    limit = {"limit": options.limit_seconds}
    cases: dict[str, dict[str, Any]] = {}
    for size in options.dense_gb:
        cases[f"dense tensors, {size:g} GB"] = {"bytes": int(size * 1e9), **limit}
    if options.rows:
        table = {
            "rows": options.rows,
            "dim": options.dim,
            "optimizer": options.optimizer,
            **limit,
        }
        about = f"table of {options.rows:,} rows, {options.dim} f32, {options.optimizer} Adagrad"
        cases[about] = table
        share = f"{options.changed:.0%} of its rows changed"
        cases[f"{about}, {share}"] = {**table, "changed": options.changed}
    return cases


COLUMNS = {
    "save, s": lambda v: f"{v['save_seconds']:.3f}",
    "blocking, s": lambda v: f"{v['blocking_seconds']:.3f}",
    "save, CPU s/GB": lambda v: f"{v['save_cpu_seconds'] * 1e9 / v['state_bytes']:.2f}",
    "load, s": lambda v: f"{v['load_seconds']:.3f}",
    "load, CPU s/GB": lambda v: f"{v['load_cpu_seconds'] * 1e9 / v['state_bytes']:.2f}",
    "peak of save, MB": lambda v: f"{v['save_peak_bytes'] / 1e6:,.0f}",
    "peak of load, MB": lambda v: f"{v['load_peak_bytes'] / 1e6:,.0f}",
    "written, MB": lambda v: f"{v['written_bytes'] / 1e6:,.1f}",
}


def medians_of(runs: list[dict[str, Any]]) -> dict[str, Any]:
    """The medians, or the error of a run."""
    for run in runs:
        if "error" in run:
            return {"error": run["error"]}
    return {key: statistics.median(run[key] for run in runs) for key in runs[0]}


def markdown(report: dict[str, Any]) -> str:
    lines = [f"{report['machine']}; medians of {report['repetitions']}."]
    for case, peers in report["cases"].items():
        lines += ["", f"**{case}**", "", "| | " + " | ".join(COLUMNS) + " |"]
        lines.append("|---|" + "---|" * len(COLUMNS))
        for peer, values in peers.items():
            medians = values["medians"]
            if "error" in medians:
                lines.append(f"| {peer} | failed: {medians['error']} |")
                continue
            cells = [show(medians) for show in COLUMNS.values()]
            lines.append(f"| {peer} | " + " | ".join(cells) + " |")
    lines += ["", "Versions: " + ", ".join(report["versions"]) + "."]
    for peer, packages in report["missing"].items():
        lines.append(
            f"Missing: {peer}, because {', '.join(packages)} is not installed."
        )
    return "\n".join(lines)


VERSIONS = {"orbax.checkpoint": "orbax-checkpoint"}


def versions() -> list[str]:
    names = {package for peer in PEERS.values() for package in peer.packages}
    found = [f"Python {platform.python_version()}"]
    for name in sorted(names):
        try:
            version = importlib.metadata.version(VERSIONS.get(name, name))
        except importlib.metadata.PackageNotFoundError:
            if name != "ckptdb":  # which may be in a build folder
                continue
            import ckptdb

            version = ckptdb.__version__
        found.append(f"{name} {version}")
    return found


def file_system(folder: str) -> str:
    """The type of the file system, such as ext4."""
    folder = os.path.join(os.path.realpath(folder), "")
    mounts = [line.split() for line in pathlib.Path("/proc/mounts").open()]
    above = [each for each in mounts if folder.startswith(each[1].rstrip("/") + "/")]
    return max(above, key=lambda each: len(each[1]))[2]


def machine(folder: str) -> str:
    model = "unknown processor"
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            model = line.partition(":")[2].strip()
            break
    memory_gb = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9
    files = file_system(folder)
    cold = "" if files != "tmpfs" else " in memory, so that loads are not cold"
    return (
        f"{os.cpu_count()} cores ({model}), {memory_gb:.0f} GB of memory, files on "
        f"{files}{cold}"
    )


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--dir", default=".", help="where to make the checkpoints")
    parser.add_argument("--json", help="file for all values")
    parser.add_argument("--peers", nargs="+", choices=PEERS, default=list(PEERS))
    parser.add_argument("--dense-gb", type=float, nargs="*", default=[2, 4])
    parser.add_argument("--rows", type=int, default=8_000_000, help="0: no table")
    parser.add_argument("--dim", type=int, default=16)
    parser.add_argument("--optimizer", choices=["rowwise", "full"], default="rowwise")
    parser.add_argument("--changed", type=float, default=0.01, help="share of the rows")
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--limit-seconds", type=int, default=600, help="of a process")
    parser.add_argument(
        "--flip-bit",
        action="store_true",
        help="instead: flip a bit of a saved tensor, and show what a load does",
    )
    parser.add_argument("--child", help=argparse.SUPPRESS)
    return parser.parse_args()


def main() -> int:
    options = parse()
    if options.child:
        child(json.loads(options.child))
        return 0
    missing = {p: missing_packages(PEERS[p]) for p in options.peers}
    peers = [peer for peer in options.peers if not missing[peer]]
    if options.flip_bit:
        return show_damage(options.dir, peers, options.limit_seconds)
    report: dict[str, Any] = {
        "machine": machine(options.dir),
        "repetitions": options.repetitions,
        "versions": versions(),
        "missing": {peer: packages for peer, packages in missing.items() if packages},
        "cases": {},
    }
    for name, case in cases_of(options).items():
        held = hold_memory(case)
        runs: dict[str, list[dict[str, Any]]] = {peer: [] for peer in peers}
        for repetition in range(options.repetitions):
            turn = repetition % max(1, len(peers))
            for peer in peers[turn:] + peers[:turn]:
                runs[peer].append(run_peer(options.dir, peer, case))
                print(f"{name}: {peer} {runs[peer][-1]}", file=sys.stderr, flush=True)
            report["cases"][name] = {
                peer: {"medians": medians_of(each), "runs": each}
                for peer, each in runs.items()
            }
            if options.json:  # also for a comparison that is interrupted
                text = json.dumps(report, indent=1) + "\n"
                pathlib.Path(options.json).write_text(text)
        held.close()
    print(markdown(report))
    failed = [
        f"{case}: {peer}"
        for case, values in report["cases"].items()
        for peer, each in values.items()
        if "error" in each["medians"]
    ]
    if failed:
        print("failed:", "; ".join(failed), file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
