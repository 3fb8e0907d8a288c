# SPDX-License-Identifier: Apache-2.0
"""Key-value tables that are exported in batches, against a plain model of them."""

from __future__ import annotations

import importlib.util
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

import ckptdb

from conftest import LONG
from kv_source import Filtered, Placed, Source

SLOTS = {"embedding": ("f32", 2), "adagrad": ("f32", 1)}
TORCH = importlib.util.find_spec("torch") is not None


def kv_table(source, **options):
    options.setdefault("changes", "scores")
    options.setdefault("batch_rows", 7)
    return ckptdb.KVTable(source, SLOTS, **options)


def open_manager(path, table, **options):
    options.setdefault("max_delta_ratio", 1000)
    save = options.pop("save", ckptdb.save_every_n_steps(1))
    return ckptdb.Manager(path, {"t": table}, save=save, **options)


def stored(path, step=None):
    """The rows of a step, as `Source.content`."""
    with (
        ckptdb.Reader(path) as reader,
        reader.latest() if step is None else reader.open(step) as opened,
    ):
        batch = opened.table("t").read()
        values = np.concatenate([batch["embedding"], batch["adagrad"]], axis=1)
        scores = batch["score"][:, 0].tolist()
        rows = zip(map(tuple, values.tolist()), scores)
        return dict(zip(batch.ids.tolist(), rows))


def changes_of(path, old, new):
    with ckptdb.Reader(path) as reader, reader.changes(old, new) as changes:
        upserted, erased = [], []
        for batch in changes.table("t"):
            upserted += batch.ids.tolist()
            erased += batch.erased.tolist()
    return sorted(upserted), sorted(erased)


@pytest.mark.parametrize("kind", ["numpy", "torch"])
@pytest.mark.parametrize("make", [Source, Placed, Filtered])
def test_a_delta_has_newer_and_erased_rows(path, make, kind):
    pytest.importorskip(kind)
    source = make(20, kind=kind)
    with open_manager(path, kv_table(source)) as manager:
        source.train(range(15))
        manager.step()
        source.train([3, 100])
        source.erase([4, 5])
        manager.step()
        source.train(range(200, 210))  # evicts two rows
        manager.step()
        manager.wait_until_finished()
        assert [r.kind for r in manager.steps()] == ["full", "delta", "delta"]
    # The rows that are as new as the last save are written again.
    upserted, erased = changes_of(path, 1, 2)
    assert {3, 100} <= set(upserted) and erased == [4, 5]
    upserted, erased = changes_of(path, 2, 3)
    assert upserted == [3, 100, *range(200, 210)]
    assert len(erased) == 4 and not {3, 100, 4, 5} & set(erased)
    assert stored(path) == source.content()
    restored = make(20, kind=kind)
    with open_manager(path, kv_table(restored)) as manager:
        manager.restore_or_start()
        assert restored.content() == source.content()


def test_rows_are_read_again_only_if_some_were_erased(path):
    source = Filtered(30)
    with open_manager(path, kv_table(source, batch_rows=30)) as manager:
        source.train(range(10))
        manager.step()
        manager.wait_until_finished()
        for train, erase, calls in (
            ([1], [], ["if"]),
            ([50, 51], [], ["if"]),
            ([1], [2], ["if", "all"]),
            ([60], [3], ["if", "all"]),
        ):
            source.exports.clear()
            source.train(train)
            source.erase(erase)
            manager.step()
            manager.wait_until_finished()
            assert source.exports == calls
            assert stored(path) == source.content()


@pytest.mark.parametrize("changes", ["scores", "marks"])
@pytest.mark.parametrize("make", [Source, Placed, Filtered])
def test_a_save_that_fails_loses_no_change(path, make, changes):
    source = make(30)
    table = kv_table(source, changes=changes)
    with open_manager(path, table) as manager:
        source.train(range(28))
        manager.step()
        manager.wait_until_finished()
        source.train([27])
        source.train([1])  # read first, with a higher score than the other row
        source.erase([3])
        table.mark([27, 1])
        source.fail_after = 2  # of four
        with pytest.raises(ckptdb.Error, match="the device is gone"):
            manager.step()
            manager.wait_until_finished()
        source.fail_after = None
        manager.step()
        manager.wait_until_finished()
        assert [record.kind for record in manager.steps()] == ["full", "delta"]
        assert stored(path) == source.content()


def test_a_save_without_a_change(path):
    source = Placed(30)
    with open_manager(path, kv_table(source, changes="marks")) as manager:
        source.train(range(10))
        for _ in range(2):
            manager.step()
    assert changes_of(path, 1, 2) == ([], [])
    assert stored(path) == source.content()


def test_training_continues_with_deltas_after_a_restore(path):
    source = Filtered(30)
    with open_manager(path, kv_table(source)) as manager:
        source.train(range(10))
        source.train([1])
        manager.step()
    source = Filtered(30)
    with open_manager(path, kv_table(source)) as manager:
        manager.restore_or_start()
        source.train([7, 20])
        source.erase([8])
        manager.step()
        manager.wait_until_finished()
        assert [r.kind for r in manager.steps()] == ["full", "delta"]
    assert changes_of(path, 1, 2) == ([1, 7, 20], [8])
    assert stored(path) == source.content()


def test_without_changes_every_save_is_full(path):
    source = Placed(30)
    table = kv_table(source, changes=None)
    with open_manager(path, table) as manager:
        for step in range(3):
            source.train([step, 9])
            source.erase([step - 1])
            table.mark([9])
            manager.step()
        manager.wait_until_finished()
        assert [r.kind for r in manager.steps()] == ["full"] * 3
    assert stored(path) == source.content()


def test_marks_name_updated_rows(path):
    """Scores that count accesses, for example, do not tell which rows are new."""
    source = Placed(30)
    table = kv_table(source, changes="marks")
    with open_manager(path, table) as manager:
        source.train(range(10))
        manager.step()
        source.clock = 0
        source.train([4, 40])
        source.erase([5])
        table.mark([4])
        manager.step()
        manager.wait_until_finished()
        assert [r.kind for r in manager.steps()] == ["full", "delta"]
        assert changes_of(path, 1, 2) == ([4, 40], [5])
        assert stored(path) == source.content()
        source.train([60, 61])
        table.mark([3, 60, 61, 77])
        source.erase([3, 60])
        manager.step()
        manager.wait_until_finished()
        assert changes_of(path, 2, 3) == ([61], [3])
        assert stored(path) == source.content()


def test_marks_do_not_rely_on_scores_after_a_restore(path):
    source = Filtered(30)
    with open_manager(path, kv_table(source, changes="marks")) as manager:
        source.train(range(10))
        source.train([1])
        manager.step()
        manager.wait_until_finished()
        manager.restore()
        source.put(40, [1, 2, 3], 1)  # with a lower score, in place of another row
        source.erase([2])
        manager.step()
    assert changes_of(path, 1, 2) == ([40], [2])
    assert stored(path) == source.content()


def test_marks_take_bounded_memory(path):
    source = Placed(30)
    table = kv_table(source, changes="marks")
    with open_manager(path, table) as manager:
        source.train(range(10))
        manager.step()
        for _ in range(30):
            table.mark(np.full(100_000, 4))
        assert table._marks < 2_000_000
        manager.step()
    assert changes_of(path, 1, 2) == ([4], [])


def test_a_follower_receives_changes(path):
    source, follower = Filtered(30), Source(30)
    with open_manager(path, kv_table(source)) as manager:
        source.train(range(10))
        manager.step()
        manager.wait_until_finished()
        with open_manager(path, kv_table(follower), read_only=True) as standby:
            standby.wait_for_step(10)
            source.train([3, 33])
            source.erase([5])
            manager.step()
            manager.wait_until_finished()
            assert standby.wait_for_step(10).incremental
            assert follower.content() == source.content()


def test_a_source_without_clear_or_erase(path):
    class NoClear(Placed):
        clear = property()

    class NoErase(Placed):
        erase = property()

    source = Placed(30)
    with open_manager(path, kv_table(source)) as manager:
        source.train(range(10))
        manager.step()
        manager.wait_until_finished()
        other = NoClear(30)
        other.train(range(50, 60))
        with open_manager(path, kv_table(other), read_only=True) as standby:
            standby.restore()
            assert other.content() == source.content()
        other = NoErase(30)
        with open_manager(path, kv_table(other), read_only=True) as standby:
            standby.restore()
            assert other.content() == source.content()
            source.train([1])
            source.erase([2])
            manager.step()
            manager.wait_until_finished()
            with pytest.raises(ckptdb.Unimplemented, match=r"NoErase has no method er"):
                standby.wait_for_step(10)


def test_rows_that_a_restore_evicts_are_erased_by_the_next_save(path):
    source = Placed(30)
    with open_manager(path, kv_table(source)) as manager:
        for key in range(30):
            source.train([key])
        manager.step()
    small = Placed(20)
    with open_manager(path, kv_table(small)) as manager:
        manager.restore_or_start()
        assert sorted(small.content()) == list(range(10, 30))
        manager.step()
    assert changes_of(path, 1, 2) == ([29], list(range(10)))
    assert stored(path) == small.content()


@pytest.mark.parametrize("keys, scores", [("u8", "u8"), ("i8", "i8"), ("u8", None)])
@pytest.mark.parametrize("kind", ["numpy", "torch"])
def test_dtypes_of_keys_and_scores(path, kind, keys, scores):
    pytest.importorskip(kind)
    high = [-1, -(2**63), 2**63 - 1, 0]  # as bits
    source = Placed(30, kind=kind, keys=keys, scores=scores)
    changes = "scores" if scores else "marks"
    table = kv_table(source, changes=changes)
    assert ("score" in table.slots) == (scores is not None)
    with open_manager(path, table) as manager:
        source.clock = 2**62 if scores != "u8" else 2**63 + 5
        source.train(high)
        manager.step()
        source.train([-1, 5])
        source.erase(np.array([0]))
        table.mark([-1])
        manager.step()
        manager.wait_until_finished()
        upserted, erased = changes_of(path, 1, 2)
        assert {-1, 5} <= set(upserted) and erased == [0]
        restored = Placed(30, kind=kind, keys=keys, scores=scores)
        with open_manager(path, kv_table(restored, changes=None), read_only=True) as m:
            m.restore()
    if scores:
        assert restored.content() == source.content()
    else:
        drop = {key: values for key, (values, _) in source.content().items()}
        assert {k: v for k, (v, _) in restored.content().items()} == drop


def test_bf16_values_of_torch(path):
    torch = pytest.importorskip("torch")

    class Half(Placed):
        def export_batch(self, n, offset):
            keys, values, scores = super().export_batch(n, offset)
            return keys, values.to(torch.bfloat16), scores

        def insert_or_assign(self, keys, values, scores):
            assert values.dtype == torch.bfloat16
            super().insert_or_assign(keys, values.float(), scores)

    slots = {"embedding": ("bf16", 2), "adagrad": ("bf16", 1)}
    source, restored = Half(30, kind="torch"), Half(30, kind="torch")
    source.train(range(10))
    with open_manager(path, ckptdb.KVTable(source, slots)) as manager:
        manager.step()
    with open_manager(path, ckptdb.KVTable(restored, slots)) as manager:
        manager.restore()
    assert restored.content() == source.content()


def test_an_audit_names_scores_that_fall(path):
    source = Placed(30)
    source.train([1, 2, 3])
    table = kv_table(source, changes="scores")
    with open_manager(path, table, audit_deltas=True) as manager:
        manager.step()
        manager.wait_until_finished()
        source.put(1, [7, 7, 7], 0)  # as a clock that was set back does
        source.train([2])
        with pytest.raises(ckptdb.FailedPrecondition) as caught:
            manager.step()
            manager.wait_until_finished()
        assert "row 1 differs from step 1" in str(caught.value)
        assert 'changes="scores" must not fall' in str(caught.value)
        source.train([1])


def test_wrong_sources_are_refused(path):
    source = Placed()
    with pytest.raises(ckptdb.InvalidArgument, match="changes is 'score'; expected"):
        kv_table(source, changes="score")
    with pytest.raises(ckptdb.InvalidArgument, match=r"a dict without size\(\)"):
        ckptdb.KVTable({}, {"v": "f32"})
    with pytest.raises(ckptdb.InvalidArgument, match="batch_rows is 0"):
        kv_table(source, batch_rows=0)
    with pytest.raises(ckptdb.InvalidArgument, match=r"have 2 elements; .*\[0, 3\]"):
        ckptdb.KVTable(source, {"embedding": ("f32", 2)})
    with pytest.raises(ckptdb.InvalidArgument, match='"v" has dtype f64; .* are f32'):
        ckptdb.KVTable(source, {"v": ("f64", 3)})
    with pytest.raises(ckptdb.InvalidArgument, match='slot "score" is reserved'):
        ckptdb.KVTable(source, {"v": ("f32", 2), "score": ("f32", 1)})
    with pytest.raises(ckptdb.InvalidArgument, match='changes is "scores", but'):
        kv_table(Placed(scores=None))
    source.export_batch = lambda n, offset: ([], [], None)
    with pytest.raises(ckptdb.InvalidArgument, match="returned a list; expected arr"):
        kv_table(source)
    source.export_batch = lambda n, offset: (
        np.zeros(0, "i4"),
        np.zeros((0, 3), "f4"),
        None,
    )
    with pytest.raises(ckptdb.InvalidArgument, match="keys of dtype int32; expected"):
        kv_table(source)


def test_a_source_that_lies_about_its_size_is_an_error(path):
    source = Placed(30)
    source.train(range(10))
    source.size = lambda: 11
    with pytest.raises(ckptdb.FailedPrecondition, match="returned 10 rows .* 11"):
        with open_manager(path, kv_table(source), async_=False) as manager:
            manager.step()


def test_a_step_without_a_slot_is_refused(path):
    plain = ckptdb.Table({"embedding": ("f32", 2)})
    plain["embedding"].put(plain.insert([1, 2]), np.ones((2, 2), "f4"))
    with open_manager(path, plain) as manager:
        manager.step()
    source = Placed(30)
    with open_manager(path, kv_table(source)) as manager:
        with pytest.raises(ckptdb.FailedPrecondition, match='slot "adagrad" is not in'):
            manager.restore()
        fill = {"tables": {"t": {"fill": {"adagrad": 0.5, "score": 7}}}}
        manager.restore(evolve=fill)
        assert source.content() == {k: ((1.0, 1.0, 0.5), 7) for k in (1, 2)}
    with pytest.raises(ckptdb.FailedPrecondition, match=r"lacks the slots \['adagrad"):
        kv_table(source).restore_rows(
            np.array([1]), {"embedding": np.ones((1, 2), "f4")}
        )


class KVMachine(RuleBasedStateMachine):
    """Steps of a training that is killed, restored, and whose saves fail."""

    keys = st.lists(st.integers(-5, 60), max_size=12, unique=True)

    def __init__(self):
        super().__init__()
        parent = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
        self.folder = tempfile.mkdtemp(prefix="ckptdb-test-", dir=parent)
        self.path = self.folder + "/store"
        self.saved = {}  # content by step
        self.manager = None

    @initialize(
        make=st.sampled_from([Source, Placed, Filtered]),
        room=st.sampled_from([8, 40, 100]),
        kind=st.sampled_from(["numpy", "torch"] if TORCH else ["numpy"]),
        changes=st.sampled_from(["scores", "scores", "marks", None]),
        batch_rows=st.sampled_from([1, 7, 1000]),
        max_deltas=st.sampled_from([2, 50]),
    )
    def begin(self, make, room, kind, changes, batch_rows, max_deltas):
        self.make = lambda: make(room, kind=kind)
        self.options = {"changes": changes, "batch_rows": batch_rows}
        self.max_deltas = max_deltas
        self.open()

    def open(self):
        self.source = self.make()
        self.table = kv_table(self.source, **self.options)
        self.manager = open_manager(
            self.path, self.table, max_deltas=self.max_deltas, keep=ckptdb.latest_n(3)
        )
        self.manager.restore_or_start()

    @rule(keys=keys)
    def train(self, keys):
        self.source.train(keys)
        content = self.source.content()
        self.table.mark([key for key in keys if key in content])

    @rule(keys=keys)
    def erase(self, keys):
        self.source.erase(np.array(keys, "i8"))

    @rule()
    def clear(self):
        self.source.clear()

    @rule(times=st.integers(1, 2))
    def save(self, times):
        for _ in range(times):
            step = self.manager.step().step
            self.saved = {s: c for s, c in self.saved.items() if s < step}
            self.saved[step] = self.source.content()

    @rule(calls=st.integers(0, 3))
    def fail_to_save(self, calls):
        self.manager.wait_until_finished()
        self.source.fail_after = calls
        try:
            self.manager.step()
            self.manager.wait_until_finished()
            self.saved[self.manager.global_step] = self.source.content()
        except ckptdb.Error as error:
            assert "the device is gone" in str(error)
        self.source.fail_after = None

    @precondition(lambda self: self.saved)
    @rule()
    def cancel(self):
        self.manager.wait_until_finished()
        pending = self.manager.step().save
        pending.cancel()
        try:
            pending.wait_committed()
            self.saved[self.manager.global_step] = self.source.content()
        except ckptdb.Cancelled:
            pass
        try:
            self.manager.wait_until_finished()
        except ckptdb.Cancelled:
            pass
        self.save(1)  # whether it was in time or not

    @precondition(lambda self: self.saved)
    @rule(place=st.integers(0, 5))
    def restore(self, place):
        self.manager.wait_until_finished()
        kept = [record.step for record in self.manager.steps()]
        assert set(kept) <= set(self.saved) and max(kept) == max(self.saved)
        step = kept[place % len(kept)]
        self.manager.restore(step)
        assert self.source.content() == self.saved[step]
        if step != max(kept):  # the next save removes later steps
            self.save(1)

    @precondition(lambda self: self.saved)
    @rule(keys=keys)
    def restore_into(self, keys):
        """Keeps rows that the step lacks."""
        self.manager.wait_until_finished()
        self.source.train(keys)
        expected = self.source.content()
        expected.update(self.saved[max(self.saved)])
        if len(expected) > len(self.source.places):
            # Not restored, so the next save has these values.
            self.table.mark([key for key in keys if key in self.source.content()])
            return
        self.manager.restore(merge=True)
        assert self.source.content() == expected
        self.save(1)

    @rule()
    def reopen(self):
        """Loses the training since the last save, as a kill does."""
        self.manager.close()
        self.open()
        expected = self.saved[max(self.saved)] if self.saved else {}
        assert self.source.content() == expected

    def teardown(self):
        try:
            if self.manager is not None:
                self.save(1)
                self.manager.wait_until_finished()
                for record in self.manager.steps():
                    assert stored(self.path, record.step) == self.saved[record.step]
                self.reopen()
        finally:
            if self.manager is not None:
                self.manager.close()
            shutil.rmtree(self.folder, ignore_errors=True)


KVMachine.TestCase.settings = hypothesis.settings(
    max_examples=300 if LONG else 30,
    stateful_step_count=40 if LONG else 20,
    deadline=None,
    print_blob=True,
    suppress_health_check=list(hypothesis.HealthCheck),
)
TestKVModel = KVMachine.TestCase


def start(path, steps):
    program = pathlib.Path(__file__).with_name("kv_source.py")
    return subprocess.Popen(
        [sys.executable, str(program), path, str(steps)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_a_killed_trainer_ends_as_an_uninterrupted_one(tmp_path):
    steps = 150
    calm = start(str(tmp_path / "calm"), steps)
    expected, errors = calm.communicate(timeout=300)
    assert calm.returncode == 0, errors
    path = str(tmp_path / "killed")
    generator = np.random.default_rng(int(time.time()))
    for _ in range(4):
        trainer = start(path, steps)
        for line in trainer.stderr:
            if line.startswith("begins at"):
                break
        time.sleep(generator.uniform(0, 0.2))
        trainer.send_signal(signal.SIGKILL)
        trainer.communicate(timeout=60)
    last = start(path, steps)
    digest, errors = last.communicate(timeout=300)
    assert last.returncode == 0, errors
    assert digest == expected
