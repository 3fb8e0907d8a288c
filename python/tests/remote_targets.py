# SPDX-License-Identifier: Apache-2.0
"""A store to ship, object stores to ship it to, and a test for each of them."""

from __future__ import annotations

import contextlib
import pathlib
import socket
import subprocess
import threading
import time

import numpy as np
import pytest

import ckptdb
from ckptdb import remote


class MemoryStore:
    """An object of the protocol, with switches that let it misbehave."""

    name = "memory"

    def __init__(self) -> None:
        self.objects: dict[str, tuple[bytes, float, str]] = {}
        self.overwrites = False
        self.reversed = False
        self.keeps_tokens = True
        self.loses = 0  # answers of puts
        self.error: Exception | None = None
        self.calls: list[str] = []
        self._lock = threading.Lock()

    def _begin(self, call: str) -> None:
        self.calls.append(call)
        if self.error is not None:
            raise self.error

    def put_if_absent(self, key: str, data: bytes, token: str) -> None:
        self._begin("put")
        assert isinstance(data, bytes)
        with self._lock:
            if key in self.objects and not self.overwrites:
                raise FileExistsError(key)
            kept = token if self.keeps_tokens else ""
            self.objects[key] = data, time.time(), kept
            if self.loses > 0:
                # Like a client that retries after the response was lost.
                self.loses -= 1
                raise FileExistsError(key)

    def put_file(self, key: str, path: str, token: str) -> None:
        self.put_if_absent(key, pathlib.Path(path).read_bytes(), token)

    def get_range(self, key: str, offset: int, length: int) -> bytes:
        self._begin("get")
        if key not in self.objects:
            raise FileNotFoundError(key)
        return self.objects[key][0][offset : offset + length]

    def head(self, key: str) -> remote.ObjectInfo:
        self._begin("head")
        if key not in self.objects:
            raise FileNotFoundError(key)
        data, modified, token = self.objects[key]
        return remote.ObjectInfo(key, len(data), modified, token)

    def list_after(self, prefix: str, after: str, limit: int):
        self._begin("list")
        keys = sorted(k for k in self.objects if k.startswith(prefix) and k > after)
        if self.reversed:
            keys.reverse()
        for key in keys[:limit]:
            data, modified, _ = self.objects[key]
            yield remote.ObjectInfo(key, len(data), modified)

    def delete(self, key: str) -> None:
        self._begin("delete")
        self.objects.pop(key, None)


def state_of(step: int) -> dict:
    return {"weight": np.full(64, step, np.float32), "big": np.arange(300_000.0) + step}


@pytest.fixture
def saved(store):
    """A store with steps 1, 2 and 3."""
    state = state_of(0)
    with ckptdb.Manager(
        store.path, state, save=ckptdb.save_every_n_steps(1)
    ) as manager:
        manager.restore_or_start()
        for step in (1, 2, 3):
            for name, value in state_of(step).items():
                state[name][:] = value
            manager.step()
            manager.wait_until_finished()
    return store


def expect_step(path: str, step: int) -> None:
    with ckptdb.Reader(path) as reader, reader.latest() as read:
        assert read.record.step == step
        for name, value in state_of(step).items():
            np.testing.assert_array_equal(read.read(name), value)


def check_round_trip(saved, target, tmp_path) -> None:
    """What every target must pass."""
    with pytest.raises(ckptdb.NotFound, match="nothing was shipped"):
        remote.ls(target)
    pushed = remote.push(saved.path, target)
    assert pushed.shipped == [1, 2, 3] and pushed.skipped == []
    assert pushed.data_files >= 3 and pushed.data_bytes > 3 * 300_000
    assert remote.push(saved.path, target).shipped == []
    content = remote.ls(target)
    assert [step.step for step in content.steps] == [1, 2, 3]
    assert not any(step.abandoned for step in content.steps)
    assert content.latest_step == 3 and content.store_uuid == pushed.store_uuid
    assert abs(content.written - time.time()) < 300
    assert content.steps[0].own_bytes > 0 and content.steps[0].kind == "full"
    assert "3 steps, latest 3" in str(content)

    fetched = remote.fetch(target, tmp_path / "fetched")
    assert fetched.steps == [3] and fetched.data_files >= 1
    expect_step(str(tmp_path / "fetched"), 3)
    remote.fetch(target, tmp_path / "second", step=2)
    expect_step(str(tmp_path / "second"), 2)
    assert remote.fetch(target, tmp_path / "all", all_steps=True).steps == [1, 2, 3]
    updated = remote.fetch(target, tmp_path / "second", update=True, keep=1)
    assert (updated.steps, updated.removed) == ([3], [2])
    assert updated.data_files >= 1
    expect_step(str(tmp_path / "second"), 3)
    again = remote.fetch(target, tmp_path / "second", update=True)
    assert again.steps == [] and again.data_bytes == 0
    with pytest.raises(ckptdb.AlreadyExists, match="update"):
        remote.fetch(target, tmp_path / "second")

    followed = next(
        remote.follow(target, tmp_path / "copy", all_steps=True, every=0.05)
    )
    assert followed.steps == [1, 2, 3]
    expect_step(str(tmp_path / "copy"), 3)

    checked = remote.verify(target, data=True)
    assert checked.damage == [] and checked.steps == 3
    assert checked.read_bytes > 3 * 300_000
    assert remote.gc(target, keep=1).dropped == [1, 2]
    # S3 has times in seconds, and only what is older than now is deleted.
    deleted, end = 0, time.monotonic() + 30
    while deleted < 2 and time.monotonic() < end:
        collected = remote.gc(target, grace=0)
        deleted += collected.deleted_objects
    assert deleted >= 2 and collected.waiting_bytes == 0
    assert [step.step for step in remote.ls(target).steps] == [3]
    with pytest.raises(ckptdb.NotFound, match="no step 1"):
        remote.fetch(target, tmp_path / "none", step=1)
    assert not (tmp_path / "none").exists()


SERVICES = pathlib.Path(__file__).parents[2] / "build/services/bin"


@contextlib.contextmanager
def service(tmp_path, words):
    """Starts a service of tests/remote/setup_services.sh, and yields its URL."""
    if not (SERVICES / words[0]).exists():
        pytest.skip(f"{words[0]} is not installed: tests/remote/setup_services.sh")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{probe.getsockname()[1]}"
    port = address.partition(":")[2]
    command = [w.replace("ADDRESS", address).replace("PORT", port) for w in words]
    with (tmp_path / "log").open("w") as log:
        process = subprocess.Popen(
            [SERVICES / command[0], *command[1:]], stdout=log, stderr=log, cwd=tmp_path
        )
    try:
        end = time.monotonic() + 60
        while time.monotonic() < end and process.poll() is None:
            with (
                contextlib.suppress(OSError),
                socket.create_connection(("127.0.0.1", int(port)), 0.05),
            ):
                break
        yield f"http://{address}"
    finally:
        process.kill()
        process.wait()
