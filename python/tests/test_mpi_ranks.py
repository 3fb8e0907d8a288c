# SPDX-License-Identifier: Apache-2.0
"""Managers of several ranks over mpi4py, under mpirun."""

from __future__ import annotations

import shutil
import subprocess
import sys
import textwrap

import pytest

import ckptdb

pytest.importorskip("numpy")
MPIRUN = shutil.which("mpirun")
HEAD = """
import sys, time
import numpy as np
from mpi4py import MPI
import ckptdb
rank, world = MPI.COMM_WORLD.rank, MPI.COMM_WORLD.size
"""
MANY = ["--allow-run-as-root", "--oversubscribe"]


def start(tmp_path, world: int, code: str, **variables):
    head = "".join(f"{name} = {value!r}\n" for name, value in variables.items())
    script = tmp_path / "script.py"
    script.write_text(head + HEAD + textwrap.dedent(code))
    return subprocess.run(
        [MPIRUN, *MANY, "-n", str(world), sys.executable, "-u", str(script)],
        capture_output=True,
        text=True,
        timeout=120,
    )


def run(tmp_path, world: int, code: str, **variables) -> list[str]:
    """The lines that the ranks printed, in any order. All must succeed."""
    result = start(tmp_path, world, code, **variables)
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout.splitlines()


@pytest.fixture(autouse=True)
def mpi(tmp_path):
    pytest.importorskip("mpi4py")
    if MPIRUN is None:
        pytest.skip("without mpirun")
    printed = start(tmp_path, 2, "print(MPI.Query_thread() >= MPI.THREAD_MULTIPLE)")
    if printed.stdout.split() != ["True"] * 2:
        pytest.skip(f"mpirun starts no ranks: {printed.stdout}{printed.stderr}")


def test_two_ranks_save_and_three_restore(tmp_path, path):
    state = """
    users = ckptdb.Table({"embedding": ("f32", 2)}, sharding="modulo")
    class Position:
        bytes = b""
        def io_state(self): return b"rank %d" % rank
        def load_io_state(self, data): self.bytes = data
    state = {"weight": np.zeros(300_000), "user": users, "position": Position()}
    ids = np.arange(100_000)
    ids = ids[users.ranks_of(ids, world) == rank]
    """
    save = """
    with ckptdb.Manager(path, state, save=ckptdb.save_every_n_steps(2),
                        ranks=ckptdb.mpi.ranks(deadline=60)) as manager:
        manager.restore_or_start()
        for step in range(5):
            state["weight"] += 1
            rows = users.insert(ids)
            users["embedding"].put(rows, np.stack([ids, ids + step], 1).astype("f4"))
            manager.step()
    """
    run(tmp_path, 2, textwrap.dedent(state) + textwrap.dedent(save), path=path)
    restore = """
    manager = ckptdb.Manager(path, state, ranks=ckptdb.mpi.ranks(deadline=60),
                             save=ckptdb.save_at_steps([]), io_state_resize="owners")
    assert manager.restore().step == 5
    assert state["weight"].tolist() == [5.0] * 300_000
    assert state["position"].bytes == b"rank 0"
    rows = users.find(ids)
    assert len(users) == len(ids)
    assert (users["embedding"][rows] == np.stack([ids, ids + 4], 1)).all()
    manager.close()
    sys.stdout.write("equal\\n")  # in one write: ranks share the output
    """
    printed = run(
        tmp_path, 3, textwrap.dedent(state) + textwrap.dedent(restore), path=path
    )
    assert printed == ["equal"] * 3


def test_missing_ranks_are_named(tmp_path, path):
    code = """
    ranks = ckptdb.mpi.ranks(deadline=2)
    assert repr(ranks) == f"MpiRanks(rank {rank} of {world})"
    def attempt(call):
        begin = time.monotonic()
        try:
            call()
        except ckptdb.DeadlineExceeded as error:
            assert time.monotonic() - begin < 12
            print(error, flush=True)
    if rank == 1:
        time.sleep(5)  # the others open a manager without it
    else:
        attempt(lambda: ckptdb.Manager(path, {}, ranks=ranks))
    # Unreceived messages, and a communicator that is not made, hinder MPI_Finalize.
    sys.stdout.flush()
    import os
    time.sleep(0 if rank == 1 else 6)
    os._exit(0)
    """
    result = start(tmp_path, 3, code, path=path)
    expected = "rank 1 of 3 did not open the manager within 2 s"
    assert result.stdout.splitlines() == [expected] * 2, result.stdout + result.stderr
    code = """
    import os
    manager = ckptdb.Manager(path, {}, save=ckptdb.save_every_n_steps(1),
                             ranks=ckptdb.mpi.ranks(deadline=2))
    manager.restore_or_start()
    manager.step()
    manager.wait_until_finished()
    if rank == 1:
        time.sleep(12)
        os._exit(0)
    try:
        manager.save(overwrite=True).wait_committed()
    except ckptdb.DeadlineExceeded as error:
        print(error, flush=True)
    time.sleep(6)
    os._exit(0)
    """
    result = start(tmp_path, 2, code, path=path)
    assert "ranks 1 of 2 did not reach" in result.stdout, result.stderr
    with ckptdb.Reader(path) as reader:
        assert [record.step for record in reader.steps()] == [1]


def test_what_is_no_communicator(tmp_path):
    code = """
    for comm in (3, "MPI_COMM_WORLD", MPI.COMM_NULL):
        try:
            ckptdb.mpi.ranks(comm)
        except ckptdb.InvalidArgument as error:
            print(error)
    """
    printed = run(tmp_path, 1, code)
    assert len(printed) == 3
    assert all("expected an intracommunicator of mpi4py" in text for text in printed)
