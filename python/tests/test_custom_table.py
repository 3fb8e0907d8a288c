# SPDX-License-Identifier: Apache-2.0
"""Tables whose rows are in Python."""

import gc
import pickle

import numpy as np
import pytest

import ckptdb


class Hashed(ckptdb.CustomTable):
    def __init__(self, **options):
        slots = {"embedding": ("f32", 4), "count": "i64"}
        super().__init__(slots, **options)
        self.embedding = {}
        self.count = {}
        self.calls = []

    def set(self, row, value):
        self.embedding[row] = np.full(4, value, np.float32)
        self.count[row] = value
        self.mark([row])

    def erase(self, row):
        del self.embedding[row], self.count[row]
        self.mark_erased([row])

    def all_rows(self):
        self.calls.append("all")
        ids = list(self.embedding)
        for begin in range(0, len(ids), 3):  # several blocks
            yield self.block(ids[begin : begin + 3])

    def rows_of(self, ids):
        self.calls.append(("of", sorted(ids.tolist())))
        return [self.block(ids.tolist())] if len(ids) else []

    def block(self, ids):
        return ids, {
            "embedding": np.stack([self.embedding[i] for i in ids]),
            "count": np.array([self.count[i] for i in ids]),
        }

    def restore_rows(self, ids, values):
        for i, row in enumerate(ids.tolist()):
            if "embedding" in values:
                self.embedding[row] = values["embedding"][i].copy()
            self.count[row] = int(values["count"][i, 0])

    def erase_rows(self, ids):
        for row in ids.tolist():
            self.embedding.pop(row, None)
            self.count.pop(row, None)

    def clear_rows(self):
        self.embedding.clear()
        self.count.clear()

    def rows(self):
        return {i: (v.tolist(), self.count[i]) for i, v in self.embedding.items()}


def open_manager(path, table, **options):
    return ckptdb.Manager(
        path, {"user": table}, save=ckptdb.save_every_n_steps(1), **options
    )


def test_saves_changed_rows_and_restores_all(tmp_path):
    table = Hashed()
    with open_manager(tmp_path / "s", table, max_delta_ratio=1000) as manager:
        for row in range(10):
            table.set(row, row)
        manager.step()
        table.set(3, 33)
        table.erase(4)
        manager.step()
        manager.wait_until_finished()
        assert [record.kind for record in manager.steps()] == ["full", "delta"]
        assert table.calls == ["all", ("of", [3])]
    restored = Hashed()
    restored.set(99, 1)  # the step lacks it
    with open_manager(tmp_path / "s", restored) as manager:
        assert manager.restore_or_start().step == 2
        assert restored.rows() == table.rows()
        assert restored.rows()[3] == ([33.0] * 4, 33)
        assert 4 not in restored.rows()


def test_follower_gets_changes(tmp_path):
    table, follower = Hashed(), Hashed()
    with open_manager(tmp_path / "s", table, max_delta_ratio=1000) as manager:
        for row in range(10):
            table.set(row, row)
        manager.step()
        manager.wait_until_finished()
        with open_manager(tmp_path / "s", follower, read_only=True) as standby:
            standby.wait_for_step(10)
            table.erase(5)
            table.set(6, 66)
            manager.step()
            manager.wait_until_finished()
            assert standby.wait_for_step(10).incremental
            assert follower.rows() == table.rows()


def test_marks_are_made_when_a_save_takes_them(tmp_path):
    class Late(Hashed):
        changed = ()

        def mark_changes(self):
            self.calls.append("marks")
            self.mark(self.changed)

    table = Late()
    table.set(1, 1)
    table.set(2, 2)
    with open_manager(tmp_path / "s", table, max_delta_ratio=1000) as manager:
        manager.step()
        table.embedding[1] = np.full(4, 11, np.float32)
        table.changed = [1]
        manager.step()
        manager.wait_until_finished()
        assert table.calls == ["marks", "all", "marks", ("of", [1])]
        table.mark_changes = lambda: 1 / 0
        with pytest.raises(ckptdb.Error, match="mark_changes raised ZeroDiv") as info:
            manager.save(overwrite=True).wait_committed()
        assert isinstance(info.value.__cause__, ZeroDivisionError)
        del table.mark_changes
    restored = Hashed()
    with open_manager(tmp_path / "s", restored, read_only=True) as manager:
        manager.restore()
    assert restored.rows() == table.rows()


def test_an_untracked_table_is_saved_fully(tmp_path):
    table = Hashed(tracked=False)
    with open_manager(tmp_path / "s", table, max_delta_ratio=1000) as manager:
        for value in range(3):
            table.set(1, value)
            manager.step()
        manager.wait_until_finished()
        assert [record.kind for record in manager.steps()] == ["full"] * 3
        assert table.calls == ["all"] * 3


@pytest.mark.parametrize(
    "values, message",
    [
        ({"count": np.zeros(1, np.int64)}, 'lacks the slot "embedding"'),
        (
            {"embedding": np.zeros((1, 3), np.float32), "count": np.zeros(1, "i8")},
            r'"embedding" is f32 \[1, 3\]; expected f32 \[1, 4\]',
        ),
        (
            {"embedding": np.zeros((2, 4), np.float32), "count": np.zeros(1, "i8")},
            r"f32 \[2, 4\]; expected f32 \[1, 4\]",
        ),
        (
            {"embedding": np.zeros((1, 4)), "count": np.zeros(1, "i8")},
            "f64 .* expected f32",
        ),
    ],
)
def test_wrong_blocks_are_refused(tmp_path, values, message):
    class Wrong(Hashed):
        def all_rows(self):
            return [([1], values)]

    with pytest.raises(ckptdb.InvalidArgument, match=message):
        with open_manager(tmp_path / "s", Wrong(), async_=False) as manager:
            manager.step()


def test_exceptions_are_causes(tmp_path):
    table = Hashed()
    table.set(1, 1)
    with open_manager(tmp_path / "s", table) as manager:
        manager.step()
        manager.wait_until_finished()

        def boom(*_):
            raise KeyError("no row")

        table.restore_rows = boom
        with pytest.raises(ckptdb.Error, match="restore_rows raised KeyError") as info:
            manager.restore()
        assert isinstance(info.value.__cause__, KeyError)
        del table.restore_rows
        manager.restore()
        table.rows_of = boom
        table.mark([1])
        with pytest.raises(ckptdb.Error, match="rows_of raised KeyError"):
            manager.save(overwrite=True).wait_committed()
        del table.rows_of


def test_a_marked_id_without_a_row_is_an_error(tmp_path):
    table = Hashed()
    table.set(1, 1)
    with open_manager(tmp_path / "s", table) as manager:
        manager.step()
        manager.wait_until_finished()
        table.mark([2])
        with pytest.raises(ckptdb.Internal) as info:
            manager.save(overwrite=True).wait_committed()
        assert isinstance(info.value.__cause__, KeyError)
        table.set(2, 2)


def test_is_freed_and_not_pickled():
    table = Hashed()
    with pytest.raises(TypeError, match="cannot be pickled"):
        pickle.dumps(table)
    import weakref

    gone = weakref.ref(table)
    del table
    gc.collect()
    assert gone() is None


def on_device(device):
    """A table over a tensor of PyTorch, by row number."""
    torch = pytest.importorskip("torch")
    if device == "cuda" and not torch.cuda.is_available():
        pytest.skip("PyTorch finds no GPU")

    class OnDevice(ckptdb.CustomTable):
        def __init__(self, weight):
            super().__init__({"embedding": ("f32", weight.shape[1])})
            self.weight = weight
            self.copied = 0

        def all_rows(self):
            for begin in range(0, len(self.weight), 4):
                end = min(begin + 4, len(self.weight))
                yield from self.rows_of(np.arange(begin, end))

        def rows_of(self, ids):
            self.copied += len(ids)
            yield ids, {"embedding": self.weight[torch.tensor(ids)]}

        def restore_rows(self, ids, values):
            rows = torch.tensor(values["embedding"], device=self.weight.device)
            self.weight[torch.tensor(ids)] = rows

        def erase_rows(self, ids):
            self.weight[torch.tensor(ids)] = 0

        def clear_rows(self):
            self.weight.zero_()

    return OnDevice(torch.arange(30.0, device=device).reshape(10, 3))


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_rows_of_a_tensor_on_a_device(tmp_path, device):
    table = on_device(device)
    with open_manager(tmp_path / "s", table, max_delta_ratio=1000) as manager:
        manager.step()
        table.weight[[2, 7]] = -1.0
        table.mark([2, 7])
        manager.step()
        manager.wait_until_finished()
        assert [record.kind for record in manager.steps()] == ["full", "delta"]
    assert table.copied == 12
    expected = table.weight.clone()
    table = on_device(device)
    with open_manager(tmp_path / "s", table) as manager:
        assert manager.restore().step == 2
    assert (table.weight == expected).all() and table.weight.device.type == device
