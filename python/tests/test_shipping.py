# SPDX-License-Identifier: Apache-2.0
"""Managers that ship to object stores and start from them, and readers of URLs."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import textwrap
import threading
import time
import urllib.request

import numpy as np
import pytest

import ckptdb
from ckptdb import remote
from ckptdb._object_stores import find, url_of
from remote_targets import MemoryStore, service

EACH = ckptdb.save_every_n_steps(1)
QUICK = {"look": 0.01, "first_retry": 0.01, "most_retry": 0.05}


def _state(step: int) -> dict:
    users = ckptdb.Table({"v": ("f32", 2)})
    return {
        "weight": np.full(64, step, np.float32),
        "big": np.arange(300_000.0) + step,
        "user": users,
    }


def train(manager: ckptdb.Manager, steps: int) -> ckptdb.PendingSave:
    """Trains and saves steps; returns the last save."""
    for _ in range(steps):
        step = manager.global_step + 1
        manager.state["weight"][:] = step
        manager.state["big"][:] = np.arange(300_000.0) + step
        users = manager.state["user"]
        users["v"].put(users.insert([step]), np.full((1, 2), step, np.float32))
        save = manager.step().save
    assert save is not None
    return save


def targets(tmp_path) -> dict:
    (tmp_path / "remote").mkdir()
    return {"url": f"file://{tmp_path}/remote", "object": MemoryStore()}


@pytest.mark.parametrize("kind", ["url", "object"])
def test_another_machine_resumes_from_shipped_steps(path, tmp_path, kind):
    target = targets(tmp_path)[kind]
    reports: list[ckptdb.ShipReport] = []
    saved: list[ckptdb.SaveReport] = []
    with ckptdb.Manager(
        path, _state(0), save=EACH, fetch_from=target, ship={"to": target, **QUICK},
        on_shipped=reports.append, on_saved=saved.append, on_warning=print,
    ) as manager:  # fmt: skip
        assert manager.restore_or_start().fresh
        train(manager, 3).wait_shipped(timeout=60)
        shipping = manager.shipping
        assert shipping is not None and shipping.newest_shipped == 3
        assert shipping.waiting == [] and shipping.last_error is None
        assert shipping.failures == 0 and shipping.shipped_bytes > 300_000
    assert sorted({step for report in reports for step in report.steps}) == [1, 2, 3]
    assert all(report.lag >= 0 for report in reports)
    assert isinstance(saved[-1].shipping, remote.ShipperStatistics)

    second = str(tmp_path / "second")
    with ckptdb.Manager(
        second, _state(0), save=EACH, fetch_from=target, ship={"to": target, **QUICK}
    ) as manager:
        assert os.stat(second).st_mode & 0o777 == 0o700
        assert manager.restore_or_start().step == 3
        np.testing.assert_array_equal(manager.state["weight"], np.full(64, 3.0))
        assert len(manager.state["user"]) == 3
        train(manager, 1)
    # Closing has waited for the last step.
    assert [step.step for step in remote.ls(target).steps] == [1, 2, 3, 4]
    # A store with steps is continued, without its object store.
    with ckptdb.Manager(
        second, _state(0), save=EACH, fetch_from=f"file://{tmp_path}/none"
    ) as manager:
        assert manager.restore_or_start().step == 4
        assert manager.shipping is None


@pytest.mark.parametrize("kind", ["url", "object"])
def test_readers_read_shipped_steps(path, tmp_path, kind):
    target = targets(tmp_path)[kind]
    with ckptdb.Manager(path, _state(0), save=EACH, ship=target) as manager:
        train(manager, 2)
    with ckptdb.Reader(target) as reader, reader.latest() as step:
        assert [record.step for record in reader.steps()] == [1, 2]
        np.testing.assert_array_equal(step.read("weight"), np.full(64, 2.0))
        np.testing.assert_array_equal(
            step.read_part("big", [1000], [5]), np.arange(1002.0, 1007.0)
        )
        found, values = step.table("user").lookup([1, 2, 3])
        assert found.tolist() == [True, True, False] and values["v"][1, 0] == 2
        assert len(step.table("user").read()) == 2
        with pytest.raises(ckptdb.FailedPrecondition, match="through a URL"):
            reader.post_metrics(2, {"auc": 0.5})
    state = _state(0)
    with ckptdb.Manager(target, state, read_only=True, poll_every=0.05) as follower:
        assert follower.restore().step == 2
        with ckptdb.Manager(path, _state(0), save=EACH, ship=target) as manager:
            manager.restore()
            train(manager, 1)
        assert follower.wait_for_step(timeout=60).step == 3
        np.testing.assert_array_equal(state["weight"], np.full(64, 3.0))
    with ckptdb.Manager(tmp_path / "third", _state(0), save=EACH) as manager:
        assert manager.restore(path=target).step == 3
        assert len(manager.state["user"]) == 3


def test_obstore_and_fsspec(path, tmp_path):
    stores = pytest.importorskip("obstore.store")
    target = stores.MemoryStore()
    with ckptdb.Manager(path, _state(0), save=EACH, ship=target) as manager:
        train(manager, 1).wait_shipped(60)
    with ckptdb.Reader(target) as reader, reader.latest() as step:
        assert step.read("weight")[0] == 1
    fsspec = pytest.importorskip("fsspec")
    files = fsspec.filesystem("memory", skip_instance_cache=True)
    try:
        pair = (files, "models/ctr")
        with ckptdb.Manager(path, _state(0), save=EACH, ship=pair) as manager:
            manager.restore()
            train(manager, 1)
        second = tmp_path / "second"
        with ckptdb.Manager(second, _state(0), save=EACH, fetch_from=pair) as manager:
            assert manager.restore().step == 2
    finally:
        files.store.clear()


def test_s3(path, tmp_path, monkeypatch):
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test-id")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test-secret")
    with service(tmp_path, ["moto_server", "-H", "127.0.0.1", "-p", "PORT"]) as server:
        made = urllib.request.Request(f"{server}/bucket", method="PUT")
        urllib.request.urlopen(made).close()
        url = f"s3://bucket/models/ctr?endpoint={server}"
        try:
            manager = ckptdb.Manager(path, _state(0), save=EACH, ship=url)
        except ckptdb.Unimplemented:
            pytest.skip("this package was built without libcurl")
        with manager:
            train(manager, 2).wait_shipped(60)
        with ckptdb.Reader(url) as reader, reader.latest() as step:
            assert step.read("weight")[0] == 2
        second = tmp_path / "second"
        with ckptdb.Manager(second, _state(0), save=EACH, fetch_from=url) as manager:
            assert manager.restore_or_start().step == 2


def test_a_configuration_ships(path, tmp_path):
    url = f"file://{tmp_path}/remote"
    config = {"path": path, "permanent": {"save_every_n_steps": 1}, "ship": url}
    with ckptdb.Manager.from_config(config, _state(0)) as manager:
        train(manager, 1)
    assert remote.ls(url).latest_step == 1


def test_training_from_an_older_step_is_shipped(path, tmp_path):
    url = targets(tmp_path)["url"]
    options = {
        "save": EACH,
        "ship": {"to": url, **QUICK},
        "fetch_from": url,
        "keep": ckptdb.latest_n(3) | ckptdb.best_n("auc", 1),
        "best": {"metric": "auc"},
    }
    with ckptdb.Manager(path, _state(0), **options) as manager:
        manager.restore_or_start()
        for step in range(1, 11):
            manager.state["weight"][:] = step
            manager.step(metrics={"auc": 0.9 if step == 6 else 0.5})
    warnings: list[str] = []
    for _ in range(2):
        with ckptdb.Manager(
            path, _state(0), on_warning=warnings.append, **options
        ) as manager:
            assert manager.restore(best=True).step == 6
            train(manager, 3).wait_shipped(timeout=60)
            assert manager.shipping.last_error is None
    assert not [warning for warning in warnings if "ship" in warning]
    # The disk is lost.
    with ckptdb.Manager(str(tmp_path / "new"), _state(0), **options) as manager:
        assert manager.restore_or_start().step == 9


def test_the_object_store_has_its_own_retention(path, tmp_path):
    url = f"file://{tmp_path}/remote"
    ship = {
        "to": url, **QUICK, "keep": ckptdb.latest_n(1) | ckptdb.keep_steps([2]),
        "collect_every": 0, "grace": 0, "bytes_per_second": 1 << 30, "connections": 2,
    }  # fmt: skip
    with ckptdb.Manager(path, _state(0), save=EACH, ship=ship) as manager:
        for _ in range(4):
            train(manager, 1).wait_shipped(60)
        end = time.monotonic() + 60
        while len(remote.ls(url).steps) > 2 and time.monotonic() < end:
            time.sleep(0.01)
    assert [step.step for step in remote.ls(url).steps] == [2, 4]
    ship["keep"] = ckptdb.keep_if("mine", lambda step: True)
    with pytest.raises(ckptdb.InvalidArgument, match=r"ship\.keep.*keep_if"):
        ckptdb.Manager(path, _state(0), ship=ship)


def test_training_goes_on_while_the_service_does_not_answer(path):
    target = MemoryStore()
    target.error = ConnectionError("no answer")
    warnings: list[str] = []
    ship = {"to": target, **QUICK, "close_wait": 0.1}
    manager = ckptdb.Manager(
        path, _state(0), save=EACH, ship=ship, on_warning=warnings.append
    )
    save = train(manager, 2)
    save.wait_committed(60)
    with pytest.raises(ckptdb.DeadlineExceeded, match="step 2 .*no answer"):
        save.wait_shipped(timeout=5)
    shipping = manager.shipping
    assert shipping is not None and shipping.waiting == [1, 2] and shipping.lag > 0
    assert shipping.failures > 0 and "no answer" in (shipping.last_error or "")
    train(manager, 1)
    assert any("cannot be shipped" in each and "no answer" in each for each in warnings)
    manager.close()
    assert "was closed before step 3 was shipped" in warnings[-1]
    assert "ckptdb.remote.push" in warnings[-1]
    target.error = None
    with ckptdb.Manager(path, _state(0), save=EACH, ship=target) as manager:
        manager.restore()
    assert [step.step for step in remote.ls(target).steps] == [1, 2, 3]


def test_the_service_may_be_down_when_training_starts(path):
    begin = time.monotonic()
    try:
        manager = ckptdb.Manager(
            path, _state(0), save=EACH,
            ship={"to": "s3://bucket/x?endpoint=http://127.0.0.1:1", "close_wait": 0},
        )  # fmt: skip
    except ckptdb.Unimplemented as error:
        assert "obstore.store.S3Store" in str(error)
        pytest.skip("this package was built without libcurl")
    train(manager, 1).wait_committed(60)
    manager.close()
    assert time.monotonic() - begin < 20


def test_a_start_from_a_service_that_does_not_answer_raises(path):
    target = MemoryStore()
    target.error = ConnectionError("no answer")
    with pytest.raises(ckptdb.Unavailable, match="fetch_from: .*no answer"):
        ckptdb.Manager(path, _state(0), save=EACH, fetch_from=target)
    assert not os.path.exists(path)
    target.error = None
    warnings: list[str] = []
    with ckptdb.Manager(
        path, _state(0), save=EACH, fetch_from=target, on_warning=warnings.append
    ) as manager:
        assert manager.restore_or_start().fresh
        train(manager, 1)
    assert "nothing was shipped" in warnings[0] and "empty store" in warnings[0]
    with pytest.raises(
        ckptdb.FailedPrecondition, match=r"fetch_from: .*mount its disk"
    ):
        ckptdb.Manager(f"{path}-2", _state(0), fetch_from=f"file://{path}-none")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"ship": "s4://models/ctr"}, 'ship: "s4://models/ctr" is not the URL'),
        ({"ship": "models/ctr"}, '"models/ctr"; expected one such as "s3://'),
        ({"ship": {"look": 1}}, '"to" is missing'),
        ({"ship": {"to": "file:///x", "conections": 4}}, 'mean "connections"'),
        ({"ship": {"to": "file:///x", "connections": 0}}, "at least 1"),
        ({"ship": {"to": "file:///x", "warn_lag": 0}}, "above 0"),
        ({"ship": {"to": "file:///x", "warn_lag": -1}}, "is -1; expected a number of "),
        ({"ship": 7}, "the target is a int"),
        ({"fetch_from": "s4://models/ctr"}, 'fetch_from: "s4://models/ctr" is not'),
        ({"fetch_from": "models/ctr"}, 'fetch_from is "models/ctr"; it must be a URL'),
        ({"on_shipped": 7}, "on_shipped is 7"),
    ],
)
def test_mistakes_are_errors_at_once(path, options, words):
    with pytest.raises(ckptdb.InvalidArgument) as caught:
        ckptdb.Manager(path, _state(0), save=EACH, **options)
    assert words in str(caught.value)
    assert "column" not in str(caught.value)


def test_a_url_of_an_unknown_scheme_is_not_a_folder(path):
    with pytest.raises(ckptdb.FailedPrecondition, match=r"gs://models.*ckptdb\.remote"):
        ckptdb.Manager("gs://models", _state(0), save=EACH)
    with pytest.raises(ckptdb.InvalidArgument, match="gs://models"):
        ckptdb.Reader("gs://models")
    with pytest.raises(ckptdb.InvalidArgument, match="without put_if_absent"):
        ckptdb.Reader(7)
    with pytest.raises(ckptdb.NotFound, match="nothing was shipped"):
        ckptdb.Reader(MemoryStore())


def test_another_url_receives_all_steps_of_the_store(path, tmp_path):
    for name in ("a", "b"):
        url = f"file://{tmp_path}/{name}"
        with ckptdb.Manager(path, _state(0), save=EACH, ship=url) as manager:
            if name == "b":
                manager.restore()
            train(manager, 2)
    steps = {
        name: [step.step for step in remote.ls(f"file://{tmp_path}/{name}").steps]
        for name in ("a", "b")
    }
    assert steps == {"a": [1, 2], "b": [1, 2, 3, 4]}
    # A URL with another store's steps is left unchanged.
    warnings: list[str] = []
    with ckptdb.Manager(
        tmp_path / "other", _state(0), save=EACH, on_warning=warnings.append,
        ship={"to": f"file://{tmp_path}/a", **QUICK, "close_wait": 10},
    ) as manager:  # fmt: skip
        train(manager, 1)
    assert "ship each store to its own URL" in warnings[-1]
    assert [step.step for step in remote.ls(f"file://{tmp_path}/a").steps] == [1, 2]


def test_managers_that_ship_nothing(path):
    with ckptdb.Manager(path, _state(0), save=EACH) as manager:
        assert manager.shipping is None
        with pytest.raises(ckptdb.FailedPrecondition, match="ship is set"):
            train(manager, 1).wait_shipped(1)


def test_an_exception_of_on_shipped_is_raised_by_a_later_call(path):
    def refuse(report):
        raise ValueError("never")

    manager = ckptdb.Manager(
        path, _state(0), save=EACH, ship={"to": MemoryStore(), **QUICK},
        on_shipped=refuse,
    )  # fmt: skip
    with pytest.raises(ckptdb.Internal, match="never") as caught:
        end = time.monotonic() + 60
        while time.monotonic() < end:
            train(manager, 1).wait_shipped(60)
    assert isinstance(caught.value.__cause__, ValueError)
    with contextlib.suppress(ckptdb.Internal):
        manager.close()


def test_a_url_of_an_object_is_valid_while_it_is_kept():
    kept: list = []
    url = url_of(MemoryStore(), kept)
    assert url.startswith("object://") and url.endswith("/memory")
    assert find(url) is kept[0]
    kept.clear()
    with pytest.raises(ckptdb.FailedPrecondition, match="no longer exists"):
        find(url)
    assert url_of("s3://a/b", kept) == "s3://a/b" and not kept


@contextlib.contextmanager
def interrupted(after: float = 0.5, within: float = 10):
    """Expects that Ctrl-C ends the calls in the block."""
    timer = threading.Timer(after, os.kill, (os.getpid(), signal.SIGINT))
    begin = time.monotonic()
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        yield
    assert after <= time.monotonic() - begin < after + within


def test_ctrl_c_ends_waits(path):
    target = MemoryStore()
    target.error = ConnectionError("no answer")
    manager = ckptdb.Manager(
        path, _state(0), save=EACH, ship={"to": target, "close_wait": 600}
    )
    save = train(manager, 1)
    with interrupted():
        save.wait_shipped()
    train(manager, 1).wait_committed()  # still works
    with interrupted():
        manager.close()
    with ckptdb.Reader(path) as reader:
        assert reader.steps()[-1].step == 2


def test_ctrl_c_ends_the_wait_for_a_target_that_hangs(path):
    target = MemoryStore()
    hangs, ends = threading.Event(), threading.Event()
    warnings: list[str] = []
    manager = ckptdb.Manager(
        path,
        _state(0),
        save=EACH,
        ship={"to": target, **QUICK, "close_wait": 0.1},
        on_warning=warnings.append,
    )
    train(manager, 1).wait_shipped(timeout=60)
    put = target.put_if_absent

    def hang(*arguments):
        hangs.set()
        ends.wait(60)
        return put(*arguments)

    target.put_if_absent = hang
    train(manager, 1).wait_committed()
    assert hangs.wait(60)
    with interrupted(after=2):
        manager.close()
    ends.set()
    manager.close()  # joins the thread
    assert any("closing waits for a request" in warning for warning in warnings)
    with ckptdb.Reader(path) as reader:
        assert reader.steps()[-1].step == 2
    del manager


@pytest.fixture
def silence():
    """The address of a service that accepts connections and never answers."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen(64)
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"


def test_ctrl_c_ends_calls_to_a_silent_service(path, silence, monkeypatch):
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test-id")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test-secret")
    url = f"s3://bucket/x?endpoint={silence}"
    try:
        with interrupted():
            ckptdb.Reader(url)
    except ckptdb.Unimplemented:
        pytest.skip("this package was built without libcurl")
    with interrupted():
        ckptdb.Manager(path, _state(0), save=EACH, fetch_from=url)
    with ckptdb.Manager(path, _state(0), save=EACH) as manager:
        with interrupted():
            manager.restore(path=url)
        train(manager, 1)


class Stalling(MemoryStore):
    """Stalls reads of data, on whichever thread, once `stalls` is set."""

    stalls = False

    def get_range(self, key: str, offset: int, length: int) -> bytes:
        if self.stalls and key.startswith("data/"):
            end = time.monotonic() + 3
            while time.monotonic() < end and self.stalls:
                time.sleep(0.01)
        return super().get_range(key, offset, length)


def test_ctrl_c_ends_reads_of_a_url(path):
    target = Stalling()
    with ckptdb.Manager(path, _state(0), save=EACH, ship=target) as manager:
        train(manager, 2)
    with ckptdb.Reader(target) as reader, reader.latest() as step:
        target.stalls = True
        with interrupted():
            while True:
                step.read_many(["weight", "big"])
        target.stalls = False
        assert step.read("weight")[0] == 2  # still works


# Is killed at any point, as if its host were lost.
TRAINER = """
import os, signal, sys
import numpy as np
import ckptdb
path, url, kill = sys.argv[1], sys.argv[2], int(sys.argv[3])
users = ckptdb.Table({"v": ("f32", 8)})
state = {"w": np.zeros(1000), "user": users}
with ckptdb.Manager(path, state, save=ckptdb.save_every_n_steps(10), fetch_from=url,
                    keep=ckptdb.latest_n(3), ship=url) as manager:
    print(manager.restore_or_start(), flush=True)
    for step in range(manager.global_step + 1, 101):
        state["w"] += step
        rows = users.insert(np.arange(step * 100, step * 100 + 1000))
        users["v"].put(rows, users["v"][rows] + step)
        save = manager.step().save
        if step == kill:
            save.wait_shipped(60)
            state["w"][:] = -1
            os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_killed_trainer_continues_on_another_machine(tmp_path):
    script = tmp_path / "trainer.py"
    script.write_text(textwrap.dedent(TRAINER))
    urls = {each: f"file://{tmp_path}/{each}" for each in ("killed", "whole")}
    for each in urls:
        (tmp_path / each).mkdir()

    def run(store, kind, kill):
        words = [sys.executable, script, tmp_path / store, urls[kind], str(kill)]
        return subprocess.run(
            [*map(str, words)], capture_output=True, text=True, timeout=120
        )

    killed = run("first", "killed", 60)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    resumed = run("second", "killed", 0)
    assert resumed.returncode == 0, resumed.stderr
    assert "restored step 60" in resumed.stdout
    assert run("alone", "whole", 0).returncode == 0
    stores = [tmp_path / "second", tmp_path / "alone", *urls.values()]
    contents = []
    for store in stores:
        with ckptdb.Reader(store) as reader, reader.latest() as step:
            rows = step.table("user").read()
            contents.append((step.record.step, step.read("w"), rows.ids, rows["v"]))
    for content in contents[1:]:
        for first, other in zip(contents[0], content, strict=True):
            np.testing.assert_array_equal(first, other)
