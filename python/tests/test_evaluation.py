# SPDX-License-Identifier: Apache-2.0
"""The progress of evaluations, a rank's part of a step, and progress bars."""

from __future__ import annotations

import numpy as np
import pytest

import ckptdb


class Counter:
    def __init__(self):
        self.value = 0

    def io_state(self):
        return str(self.value).encode()

    def load_io_state(self, data):
        self.value = int(data)


@pytest.fixture
def saved(path):
    with ckptdb.Manager(path, {"w": np.ones(3)}) as manager:
        manager.step()
        manager.save().wait_committed()
    return path


def test_an_evaluation_resumes_in_another_run(saved):
    name = (1, "day_7", "ctr")
    meters, loader = Counter(), Counter()
    with ckptdb.Manager(saved, {"w": np.ones(3)}) as manager:
        manager.restore()
        evaluation = manager.evaluation
        assert isinstance(evaluation, ckptdb.Evaluation)
        evaluation.add_group("ctr", meters)
        assert evaluation.load(*name, loader) == 0
        meters.value, loader.value = 11, 22
        evaluation.save(*name, loader, 3000)
        with pytest.raises(ckptdb.AlreadyExists, match="ctr"):
            evaluation.add_group("ctr", meters)
        with pytest.raises(ckptdb.NotFound, match="2"):
            evaluation.save(2, "day_7", "ctr", loader, 1)
    meters, loader = Counter(), Counter()
    with ckptdb.Manager(saved, {"w": np.ones(3)}) as manager:
        manager.restore()
        evaluation = manager.evaluation
        evaluation.add_group("ctr", meters)
        assert evaluation.load(*name, loader) == 3000
        assert (meters.value, loader.value) == (11, 22)
        evaluation.cleanup_all(except_step=1)
        assert evaluation.load(*name, loader) == 3000
        evaluation.cleanup(1)
        assert evaluation.load(*name, loader) == 0


def test_wrong_arguments_are_named(saved):
    with ckptdb.Manager(saved, {"w": np.ones(3)}) as manager:
        manager.restore()
        evaluation = manager.evaluation
        with pytest.raises(ckptdb.InvalidArgument, match="meters are a int"):
            evaluation.add_group("ctr", 3)
        evaluation.add_group("ctr", Counter())
        with pytest.raises(ckptdb.InvalidArgument, match="-1"):
            evaluation.save(1, "day_7", "ctr", Counter(), -1)
        with pytest.raises(ckptdb.InvalidArgument, match="loader"):
            evaluation.load(1, "day_7", "ctr", None)


def test_an_exception_of_a_loader_is_the_cause(saved):
    class Broken(Counter):
        def io_state(self):
            raise ZeroDivisionError("no position")

    with ckptdb.Manager(saved, {"w": np.ones(3)}) as manager:
        manager.restore()
        manager.evaluation.add_group("ctr", Counter())
        with pytest.raises(ckptdb.Error, match="no position") as info:
            manager.evaluation.save(1, "day_7", "ctr", Broken(), 1)
        assert isinstance(info.value.__cause__, ZeroDivisionError)


def test_a_shard_is_the_part_of_one_rank(path):
    ids = np.arange(1000)
    slots = {"v": ("i64", 1)}
    table = ckptdb.Table(slots)
    table["v"].put(table.insert(ids), ids[:, None])
    with ckptdb.Manager(path, {"user": table}, sharding="modulo") as manager:
        manager.step()
        manager.save().wait_committed()
    part = ckptdb.Table(slots)
    with ckptdb.Manager(
        path, {"user": part}, read_only=True, sharding="modulo", shard=(1, 3)
    ) as manager:
        manager.restore()
    assert len(part) == 333
    assert (part.find(ids) >= 0).tolist() == (ids % 3 == 1).tolist()


class Bar:
    """In place of tqdm."""

    made: list[Bar] = []

    def __init__(self, desc, total, unit, unit_scale):
        self.desc, self.total, self.n, self.closed = desc, total, 0, False
        Bar.made.append(self)

    def update(self, count):
        assert not self.closed and count >= 0
        self.n += count

    def close(self):
        self.closed = True


@pytest.mark.parametrize("async_", [False, True])
def test_bars_show_restores_and_saves_in_the_foreground(path, monkeypatch, async_):
    monkeypatch.setattr("ckptdb._progress.bar_class", lambda: Bar)
    Bar.made = []
    w = np.arange(2 << 20, dtype="f4")
    with ckptdb.Manager(path, {"w": w}, async_=async_, progress=True) as manager:
        manager.step()
        manager.save().wait_committed()
        manager.restore(verify=True)
    bars = [(bar.desc, bar.total, bar.n, bar.closed) for bar in Bar.made]
    assert ("restore", w.nbytes, w.nbytes, True) in bars
    saves = [bar for bar in Bar.made if bar.desc == "save"]
    assert len(saves) == (0 if async_ else 1)
    for bar in saves:
        assert bar.n == bar.total >= w.nbytes


def test_without_tqdm_nothing_is_shown(path, monkeypatch):
    monkeypatch.setattr("ckptdb._progress.bar_class", lambda: None)
    with ckptdb.Manager(
        path, {"w": np.ones(3)}, async_=False, progress=True
    ) as manager:
        manager.step()
        manager.save().wait_committed()
        manager.restore()
