# SPDX-License-Identifier: Apache-2.0
"""Steps in object stores: folders and objects of the protocol."""

from __future__ import annotations

import os
import pathlib
import signal
import threading
import time
import weakref

import numpy as np
import pytest

import ckptdb
from ckptdb import remote
from ckptdb._errors import python_names
from ckptdb._object_stores import open_target
from remote_targets import MemoryStore, state_of, check_round_trip, saved


def test_folder(saved, tmp_path):
    check_round_trip(saved, f"file://{tmp_path}/remote", tmp_path)


def test_object_of_the_protocol(saved, tmp_path):
    target = MemoryStore()
    check_round_trip(saved, target, tmp_path)
    assert not any(key.startswith("probe/") for key in target.objects)


def test_the_manager_continues_a_fetched_store(saved, tmp_path):
    target = MemoryStore()
    remote.push(saved.path, target)
    path = str(tmp_path / "fetched")
    remote.fetch(target, path)
    state = state_of(0)
    with ckptdb.Manager(path, state, save=ckptdb.save_every_n_steps(1)) as manager:
        assert manager.restore_or_start().step == 3
        np.testing.assert_array_equal(state["weight"], state_of(3)["weight"])
        manager.step()
    assert remote.push(path, target).shipped == [4]


def test_a_store_that_overwrites_is_refused(saved):
    target = MemoryStore()
    target.overwrites = True
    with pytest.raises(
        ckptdb.FailedPrecondition, match='memory cannot hold .*"If-None-Match'
    ):
        remote.push(saved.path, target)
    assert target.objects == {}


def test_a_store_without_tokens_is_refused(saved):
    target = MemoryStore()
    target.keeps_tokens = False
    with pytest.raises(ckptdb.FailedPrecondition, match="metadata"):
        remote.push(saved.path, target)


def test_a_store_with_another_order_is_refused(saved):
    target = MemoryStore()
    remote.push(saved.path, target)
    adapter = open_target(target)
    assert len(adapter.list_after("catalog/", "", 2)) == 2
    target.reversed = True
    with pytest.raises(ckptdb.FailedPrecondition, match="order of their bytes"):
        adapter.list_after("catalog/", "", 2)


def test_a_put_whose_answer_was_lost_is_told_from_another(saved):
    target = MemoryStore()
    target.loses = 1_000
    # All puts of the probe and the push are done, and look as if others came first.
    assert remote.push(saved.path, target).shipped == [1, 2, 3]
    assert remote.verify(target).damage == []


class Refusal(Exception):
    pass


@pytest.mark.parametrize(
    ("raised", "expected"),
    [
        (PermissionError("no rights"), ckptdb.PermissionDenied),
        (ConnectionError("no answer"), ckptdb.Unavailable),
        (TimeoutError("too late"), ckptdb.Unavailable),
        (NotImplementedError("not there"), ckptdb.FailedPrecondition),
        (ckptdb.ResourceExhausted("too many"), ckptdb.ResourceExhausted),
        (Refusal("never"), ckptdb.Internal),
    ],
    ids=lambda value: getattr(value, "__name__", type(value).__name__),
)
def test_exceptions_become_errors(saved, raised, expected):
    target = MemoryStore()
    target.error = raised
    with pytest.raises(expected, match=str(raised)) as caught:
        remote.push(saved.path, target)
    chain = [caught.value]
    while chain[-1].__cause__ is not None:
        chain.append(chain[-1].__cause__)
    assert chain[-1] is raised or isinstance(raised, ckptdb.Error)
    with pytest.raises(expected):
        remote.ls(target)


def test_errors_keep_no_bytes(saved):
    kept: list[weakref.ref] = []

    class Failing(MemoryStore):
        def put_if_absent(self, key, data, token):
            buffer = np.frombuffer(data, np.uint8)
            kept.append(weakref.ref(buffer))
            raise ConnectionError("no answer")

    with pytest.raises(ckptdb.Unavailable, match="no answer") as caught:
        remote.push(saved.path, Failing())
    assert len(kept) == 1 and kept[0]() is None, caught.value


def test_ctrl_c_in_a_store_ends_the_call(saved):
    class Interrupted(MemoryStore):
        def list_after(self, prefix, after, limit):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        remote.ls(Interrupted())


def test_ctrl_c_ends_a_push(saved, tmp_path):
    target = f"file://{tmp_path}/remote"
    timer = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT))
    begin = time.monotonic()
    timer.start()
    with pytest.raises(KeyboardInterrupt):  # of a push that would take a minute
        remote.push(saved.path, target, bytes_per_second=100_000)
    assert time.monotonic() - begin < 10
    # The same remote still works.
    assert remote.push(saved.path, target).shipped[-1] == 3


def test_a_follower_waits_retries_and_ends_by_ctrl_c(saved, tmp_path, caplog):
    target = MemoryStore()
    copy = tmp_path / "copy"
    following = remote.follow(target, copy, keep=2, every=0.02)
    late = threading.Timer(0.2, remote.push, (saved.path, target))
    late.start()
    assert next(following).steps == [3]
    late.join()
    with ckptdb.Manager(
        saved.path, state_of(3), save=ckptdb.save_at_steps([])
    ) as manager:
        manager.restore()
        for step in (4, 5):
            manager.step()
            manager.save().wait_committed()
            remote.push(saved.path, target)
            target.error = ConnectionError("no answer")
            works = threading.Timer(0.1, setattr, (target, "error", None))
            works.start()
            fetched = next(following)
            assert fetched.steps == [step]
            works.join()
        assert fetched.removed == [3]
    assert "no answer; it retries" in caplog.text
    timer = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        next(following)
    timer.join()
    with ckptdb.Reader(copy) as reader:
        assert [r.step for r in reader.steps()] == [4, 5]
    with pytest.raises(ckptdb.InvalidArgument, match="every is"):
        next(remote.follow(target, copy, every=0))
    with ckptdb.Manager(copy, state_of(3), save=ckptdb.save_at_steps([])) as manager:
        manager.restore()
        manager.step()
        manager.save().wait_committed()
    with pytest.raises(ckptdb.FailedPrecondition, match="fetch to another"):
        next(remote.follow(target, copy))


def test_short_answers_are_damage(saved, tmp_path):
    target = MemoryStore()
    remote.push(saved.path, target)
    key = max(target.objects, key=lambda k: len(target.objects[k][0]))
    data, modified, token = target.objects[key]
    target.objects[key] = data[:-1], modified, token
    damage = remote.verify(target).damage
    assert [each.key for each in damage] == [key] and damage[0].steps
    changed = bytes([data[0] ^ 1]) + data[1:]
    target.objects[key] = changed, modified, token
    assert remote.verify(target).damage == []
    assert "hash" in remote.verify(target, data=True).damage[0].problem
    step = damage[0].steps[0]
    with pytest.raises(ckptdb.DataLoss, match="hash"):
        remote.fetch(target, tmp_path / "fetched", step=step)


def test_a_remote_that_is_ahead_is_kept(saved, tmp_path):
    target = MemoryStore()
    remote.push(saved.path, target)
    old = str(tmp_path / "old")
    remote.fetch(target, old, step=1)
    with pytest.raises(ckptdb.FailedPrecondition, match="take_over=True"):
        remote.push(old, target)
    remote.push(old, target, take_over=True)
    assert [step.step for step in remote.ls(target).steps] == [1]


def test_arguments_are_checked(saved, tmp_path):
    target = MemoryStore()
    with pytest.raises(ckptdb.InvalidArgument, match="file:///folder"):
        remote.ls("nowhere")
    with pytest.raises(ckptdb.InvalidArgument, match="without put_if_absent, put_file"):
        remote.ls(object())
    with pytest.raises(ckptdb.NotFound):
        remote.push(tmp_path / "none", target)
    remote.push(saved.path, target)
    with pytest.raises(ckptdb.AlreadyExists, match="exists"):
        remote.fetch(target, saved.path)
    with pytest.raises(ckptdb.InvalidArgument, match="keep"):
        remote.gc(target, keep=0)
    for call in (
        lambda: remote.ship(saved.path, target, look=0),
        lambda: remote.ship(saved.path, target, look=float("nan")),
        lambda: remote.gc(target, keep=-1),
        lambda: remote.gc(target, grace=-1),
        lambda: remote.fetch(target, tmp_path / "new", step=20.0),
        lambda: remote.fetch(target, tmp_path / "new", connections=0),
        lambda: remote.push(saved.path, target, deadline="5"),
        lambda: remote.push(saved.path, target, deadline=0),
        lambda: remote.push(saved.path, target, bytes_per_second=2**70),
        lambda: remote.push(saved.path, target, bytes_per_second=0.5),
    ):
        with pytest.raises(ckptdb.InvalidArgument, match=r"is .*; expected a"):
            call()
    assert remote.push(saved.path, target, bytes_per_second=50e6).shipped == []


def test_s3_is_there_or_names_obstore():
    """Whether this package was built with libcurl or without it."""
    try:
        remote.ls("s3://bucket/x?endpoint=http://127.0.0.1:1", deadline=0.1)
    except ckptdb.Unimplemented as error:
        assert "obstore.store.S3Store" in str(error)
    except (ckptdb.Unavailable, ckptdb.FailedPrecondition) as error:
        assert "127.0.0.1" in str(error) or "credentials" in str(error)
    else:
        pytest.fail("a service answered on port 1")


def test_errors_have_the_names_of_python():
    text = python_names(
        '"s3://a/b": built without libcurl; build it with CKPTDB_REMOTE=ON'
    )
    assert text.endswith(
        "pass a store of obstore instead, such as obstore.store.S3Store"
    )
    assert python_names("FetchOptions::connections is 0") == "connections is 0"


def test_the_limit_of_bytes_is_kept(saved):
    begin = time.monotonic()
    pushed = remote.push(saved.path, MemoryStore(), bytes_per_second=50 << 20)
    # The last transfer begins when those before it are paid for.
    largest = 2 * 300_000 * 8
    assert time.monotonic() - begin > (pushed.data_bytes - largest) / (50 << 20)


def test_ships_in_the_background(store, tmp_path):
    target = MemoryStore()
    shipped: list[int] = []
    state = state_of(0)
    with (
        ckptdb.Manager(store.path, state, save=ckptdb.save_every_n_steps(1)) as manager,
        remote.ship(
            store.path,
            target,
            look=0.01,
            on_shipped=lambda pushed: shipped.extend(pushed.shipped),
        ) as shipper,
    ):
        manager.restore_or_start()
        for step in (1, 2):
            state["weight"][:] = step
            manager.step()
            manager.wait_until_finished()
            shipper.wait_shipped(step, timeout=60)
        statistics = shipper.statistics()
    assert statistics.newest_shipped == 2 and statistics.shipped_steps == 2
    assert statistics.waiting == [] and statistics.last_error is None
    assert sorted(set(shipped)) == [1, 2]
    assert [step.step for step in remote.ls(target).steps] == [1, 2]
    with pytest.raises(ckptdb.FailedPrecondition, match="closed"):
        shipper.statistics()
    shipper.close()


def test_a_shipper_tries_again_after_errors(saved):
    target = MemoryStore()
    target.error = ConnectionError("no answer")
    with remote.ship(saved.path, target, look=0.01) as shipper:
        with pytest.raises(ckptdb.DeadlineExceeded, match="no answer"):
            shipper.wait_shipped(3, timeout=5)
        statistics = shipper.statistics()
        assert statistics.failures >= 1 and "no answer" in (statistics.last_error or "")
        assert statistics.waiting == [1, 2, 3] and statistics.lag > 0
        target.error = None
        shipper.wait_shipped(3, timeout=60)
        shipper.wait_shipped(3, timeout=60)  # ends after another look
        assert shipper.statistics().failures == 0


def test_what_on_shipped_raises_is_logged(saved, caplog):
    def report(pushed):
        raise Refusal("never")

    with remote.ship(saved.path, MemoryStore(), on_shipped=report) as shipper:
        shipper.wait_shipped(3, timeout=60)
    assert "Refusal: never" in caplog.text


def test_a_shipper_ends_with_the_interpreter(python, saved, tmp_path):
    """Also one that nobody closed, and whose thread is in Python."""
    result = python(
        """
        import sys
        sys.path.insert(0, tests)
        from remote_targets import MemoryStore
        from ckptdb import remote
        kept = remote.ship(path, MemoryStore(), look=0.001)
        kept.wait_shipped(3, timeout=60)
        print("done")
        """,
        path=saved.path,
        tests=str(pathlib.Path(__file__).parent),
    )
    assert result.stdout == "done\n" and result.stderr == ""


def test_a_shipper_is_of_its_process(saved, without_garbage):
    shipper = remote.ship(saved.path, MemoryStore())
    child = os.fork()
    if child == 0:
        try:
            shipper.statistics()
        except ckptdb.FailedPrecondition:
            os._exit(0)
        os._exit(1)
    assert os.waitpid(child, 0)[1] == 0
    shipper.close()
