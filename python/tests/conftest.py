# SPDX-License-Identifier: Apache-2.0
"""What the tests share. Run them with the package on PYTHONPATH, or installed:

    PYTHONPATH=build/release/python python -m pytest python/tests

CKPTDB_LONG=1 also runs the long parts. Stores are made in memory, in /dev/shm,
where that exists; CKPTDB_TEST_DIR names another folder.
"""

from __future__ import annotations

import gc
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import textwrap

import pytest

import ckptdb

# Background commands of a shell ignore SIGINT.
signal.signal(signal.SIGINT, signal.default_int_handler)

LONG = os.environ.get("CKPTDB_LONG", "") not in ("", "0")


@pytest.fixture
def tmp_path():
    """As pytest's, but in memory: tests make hundreds of saves."""
    parent = os.environ.get("CKPTDB_TEST_DIR")
    if not parent and os.access("/dev/shm", os.W_OK):
        parent = "/dev/shm"
    made = pathlib.Path(tempfile.mkdtemp(prefix="ckptdb-test-", dir=parent or None))
    yield made
    shutil.rmtree(made, ignore_errors=True)


@pytest.fixture
def without_garbage():
    """For tests that fork: a child that collects what other tests have left, such as
    process groups of PyTorch, waits forever for threads that only its parent has."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.fixture
def path(tmp_path):
    """A folder for a store, which does not exist yet."""
    return str(tmp_path / "store")


@pytest.fixture
def python(tmp_path):
    """Runs code in another interpreter, with `path` and other variables set."""

    def run(code: str, *, timeout: float = 60, check: bool = True, **variables):
        head = "".join(f"{name} = {value!r}\n" for name, value in variables.items())
        script = tmp_path / "script.py"
        script.write_text(head + textwrap.dedent(code))
        result = subprocess.run(
            [sys.executable, "-X", "faulthandler", str(script)],
            capture_output=True,
            text=True,
            timeout=timeout,
        )
        if check:
            assert result.returncode == 0, result.stdout + result.stderr
        return result

    return run


def save_now(manager) -> ckptdb.SaveResult:
    """Saves, and raises the error of the save."""
    return manager.save().wait_committed()


class Store:
    """A store that the test saves to and restores from with managers."""

    def __init__(self, path: str) -> None:
        self.path = path

    def save(self, state, *, steps: int = 1, **options) -> None:
        """Continues the store's training by these steps, each of them saved."""
        options.setdefault("save", ckptdb.save_every_n_steps(1))
        with ckptdb.Manager(self.path, state, **options) as manager:
            latest = manager.latest_step()
            if latest is not None:
                manager.abandon_steps()
            for step in range(steps):
                manager.step_to((latest or 0) + step + 1)
            manager.wait_until_finished()

    def restore(self, state, *, restore=None, **options) -> ckptdb.RestoreReport:
        options.setdefault("save", ckptdb.save_at_steps([]))
        manager = ckptdb.Manager(self.path, state, **options)
        try:
            return manager.restore(**(restore or {}))
        finally:
            manager.close()

    def read(self, name: str, **options):
        with ckptdb.Reader(self.path) as reader, reader.latest() as step:
            return step.read(name, **options)


@pytest.fixture
def store(path):
    return Store(path)
