# SPDX-License-Identifier: Apache-2.0
"""Which rank has which rows: declared, computed and checked."""

from __future__ import annotations

import pytest

import ckptdb

np = pytest.importorskip("numpy")


def table(sharding, **options):
    return ckptdb.Table({"embedding": ("f32", 1)}, sharding=sharding, **options)


def test_ranks_of_ids():
    ids = np.array([0, 1, 2, 16384, 65535, 65536, -1])
    assert table("modulo").ranks_of(ids, 3).tolist() == [0, 1, 2, 1, 0, 1, 0]
    assert table("slices").ranks_of(ids, 4).tolist() == [0, 0, 0, 1, 3, 0, 3]
    mixed = table("slices", slice_hash="mix").ranks_of(ids, 4)
    assert mixed.tolist() != [0, 0, 0, 1, 3, 0, 3]
    assert set(mixed.tolist()) <= {0, 1, 2, 3}
    by_sign = (
        "function",
        "by_sign",
        lambda ids, world: np.where(ids < 0, world - 1, 0),
    )
    assert table(by_sign).ranks_of(ids, 3).tolist() == [0, 0, 0, 0, 0, 0, 2]
    assert table("modulo").ranks_of([], 3).shape == (0,)
    even, bounds = table(("range", 10)), table(("range", [-5, 0, 0, 8]))
    assert even.ranks_of([0, 3, 4, 7, 8, 9], 3).tolist() == [0, 0, 1, 1, 2, 2]
    assert even.ranks_of([0, 9], 1).tolist() == [0, 0]
    assert bounds.ranks_of([-5, -1, 0, 7], 3).tolist() == [0, 0, 2, 2]


def test_ranks_of_ids_that_are_in_no_range():
    even, bounds = table(("range", 10)), table(["range", np.array([-5, 0, 8])])
    for ids in ([3, 10], [-1]):
        words = f"id {ids[-1]} is in no rank's range; the ids of all are 0 to below 10"
        with pytest.raises(ckptdb.InvalidArgument, match=words):
            even.ranks_of(ids, 3)
    with pytest.raises(ckptdb.InvalidArgument, match="id 8 .* are -5 to below 8"):
        bounds.ranks_of([8], 2)
    words = "has 3 bounds of ids; expected 4 for 3 ranks"
    with pytest.raises(ckptdb.InvalidArgument, match=words):
        bounds.ranks_of([0], 3)


@pytest.mark.parametrize("ranges", [None, 0.5, [], [0, 1.5], 1 << 63, [-1 << 64, 0]])
def test_what_is_no_range(ranges):
    with pytest.raises(ckptdb.InvalidArgument, match="the ranges of the sharding are"):
        table(("range", ranges))


@pytest.mark.parametrize("sharding", [None, "replicated"])
def test_ranks_of_ids_that_belong_to_none(sharding):
    with pytest.raises(ckptdb.InvalidArgument, match="which gives ids no rank"):
        table(sharding).ranks_of([1], 2)


@pytest.mark.parametrize("world_size", [0, -1, 1 << 31])
def test_ranks_of_ids_in_no_world(world_size):
    with pytest.raises(ckptdb.InvalidArgument, match="the world size is"):
        table("modulo").ranks_of([1], world_size)


@pytest.mark.parametrize(
    "sharding",
    ["slice", 3, ("range", "10"), ("range",), ("function", "name"), ("function", 3, max), ("modulo", "a", max),
     ("function", "name", "f")],
)  # fmt: skip
def test_what_is_no_sharding(sharding, path):
    expected = "the sharding is .*; expected slices, modulo, replicated, or a tuple"
    with pytest.raises(ckptdb.InvalidArgument, match=expected):
        table(sharding)
    with pytest.raises(ckptdb.InvalidArgument, match=expected):
        ckptdb.Manager(path, {}, sharding=sharding)


def test_a_function_gets_thousands_of_ids_at_once(path):
    calls = []

    def one(ids, world_size):
        calls.append(len(ids))
        return np.zeros(len(ids), np.int32)

    users = table(("function", "one", one))
    count = 100_000
    users.insert(np.arange(count))
    state = {"user": users}
    with ckptdb.Manager(path, state, save=ckptdb.save_every_n_steps(1)) as manager:
        manager.step()
    assert sum(calls) == count
    assert len(calls) <= 20
    calls.clear()
    users.clear()
    with ckptdb.Manager(path, state, save=ckptdb.save_at_steps([])) as manager:
        manager.restore()
        assert len(users) == count
    assert sum(calls) >= count
    assert len(calls) <= 60


@pytest.mark.parametrize(
    "function, words",
    [
        (lambda ids, world: ids[:1], r"returned int64 \[1\]; expected integers \[2\]"),
        (lambda ids, world: ids * 0.5, r"returned float64 \[2\]; expected integers"),
        (lambda ids, world: ids - 8, "returns rank 4294967295 for id 7"),
        (lambda ids, world: ids * 0 + world, "returns rank 1 for id 7"),
        (lambda ids, world: {}[3], "raised KeyError: 3"),
    ],
)
def test_a_function_that_is_wrong(path, function, words):
    users = table(("function", "wrong", function))
    users.insert([7, 8])
    manager = ckptdb.Manager(
        path, {"user": users}, save=ckptdb.save_every_n_steps(1), async_=False
    )
    with pytest.raises(ckptdb.Error, match=words) as raised:
        manager.step()
    assert 'sharding "wrong"' in str(raised.value)
    manager.close()


def test_all_tables_take_the_manager_s_sharding(path):
    users = table(None)
    users.insert([7, 8])
    one = ("function", "one", lambda ids, world: np.zeros(len(ids), np.int64))
    for number, sharding in enumerate(("slices", "modulo", "replicated", one)):
        with ckptdb.Manager(
            f"{path}{number}",
            {"user": users},
            save=ckptdb.save_every_n_steps(1),
            sharding=sharding,
        ) as manager:
            manager.step()


def test_an_array_table_begins_at_its_first_id(path):
    values = np.arange(6, dtype=np.float32)
    items = ckptdb.ArrayTable({"v": values}, first_id=100)
    assert repr(items) == "ArrayTable(6 rows from 100; v)"
    with ckptdb.Manager(
        path, {"items": items}, save=ckptdb.save_every_n_steps(1), async_=False
    ) as manager:
        manager.step()
        values[[1, 5]] = -1
        items.mark([101, 105])
        with pytest.raises(ckptdb.OutOfRange, match="row 5 is out of range for a tab"):
            items.mark([5])
        manager.step()
        values[:] = 0
        manager.restore()
        assert values.tolist() == [0, -1, 2, 3, 4, -1]
    with ckptdb.Reader(path) as reader, reader.latest() as step:
        ids = step.table("items").read().ids
        assert sorted(ids.tolist()) == list(range(100, 106))
    for first, found in ((99, 105), (101, 100)):
        state = {"items": ckptdb.ArrayTable({"v": values}, first_id=first)}
        words = (
            f"row {found} of the step is not among the 6 rows of the VectorTable, "
            f"whose ids are {first} to {first + 5}; give it another first id"
        )
        with ckptdb.Manager(path, state) as manager:
            with pytest.raises(ckptdb.OutOfRange, match=words):
                manager.restore()


@pytest.mark.parametrize("first_id", [(1 << 63) - 6, 1 << 63, "1", 0.5])
def test_an_array_table_without_ids(first_id):
    values = np.zeros(6, np.float32)
    with pytest.raises((ckptdb.InvalidArgument, TypeError)):
        ckptdb.ArrayTable({"v": values}, first_id=first_id)


RANGES = """
import numpy as np
ROWS = 23
def rows_of(bounds):
    values = np.zeros((bounds[rank + 1] - bounds[rank], 2), np.float32)
    table = ckptdb.ArrayTable({"v": values}, first_id=bounds[rank],
                              sharding=("range", declared))
    return values, table
def expected(ids, steps):
    value = np.stack([ids * 1.0, ids * 0.0], axis=1).astype(np.float32)
    for step in range(steps):
        value[ids % (step + 2) == 0, 1] = step + 1
    return value
values, table = rows_of(bounds)
ids = np.arange(bounds[rank], bounds[rank + 1])
with ckptdb.Manager(path, {"items": table}, ranks=ckptdb.torch.ranks(deadline=60),
                    async_=False, save=ckptdb.save_every_n_steps(1),
                    max_delta_ratio=1000) as manager:
    manager.restore_or_start()
    first = manager.global_step
    assert first == 0 or (values == expected(ids, first)).all(), values
    for step in range(first, first + 2):
        values[:] = expected(ids, step + 1)
        table.mark(ids[ids % (step + 2) == 0])
        manager.step()
"""


def test_ranges_restore_on_other_ranges_and_numbers_of_ranks(tmp_path, path):
    pytest.importorskip("torch")
    from job import run

    for world, declared, bounds in (
        (2, 23, [0, 12, 23]),
        (3, 23, [0, 8, 16, 23]),
        (3, [0, 1, 20, 23], [0, 1, 20, 23]),
        (1, 23, [0, 23]),
        (2, [0, 23, 23], [0, 23, 23]),
    ):
        run(tmp_path, world, RANGES, path=path, declared=declared, bounds=bounds)
    with ckptdb.Reader(path) as reader:
        assert [s.kind for s in reader.steps()] == ["full"] + ["delta"] * 9
        with reader.latest() as step:
            assert step.table("items").item.sharding == "range"


HALVES = """
import numpy as np
class Half(ckptdb.CustomTable):
    def __init__(self, first, elements):
        super().__init__({"v": ("f32", 4)}, sharding=("range", 10),
                         columns=[("v", first, elements)])
        self.first, self.end, self.dies = first, first + elements, False
        self.values = np.zeros((10, elements), np.float32)
    def all_rows(self):
        yield np.arange(10), {("v", self.first): self.values}
    def rows_of(self, ids):
        if self.dies:
            os.kill(os.getpid(), 9)
        yield ids, {("v", self.first): self.values[ids]}
    def restore_rows(self, ids, values):
        self.values[ids] = values["v"][:, self.first : self.end]
    def erase_rows(self, ids):
        self.values[ids] = 0
    def clear_rows(self):
        self.values[:] = 0
    def expected(self, step):
        rows = np.arange(10)[:, None]
        return np.where(rows % 3 == 0, 100 * step, 0) + 10 * rows + np.arange(
            self.first, self.end)
half = Half(4 // world * rank, 4 // world)
manager = ckptdb.Manager(path, {"t": half}, ranks=ckptdb.torch.ranks(deadline=8),
                         save=ckptdb.save_every_n_steps(1), async_=False,
                         max_delta_ratio=1000)
half.values[:] = half.expected(0)
manager.restore_or_start()
assert (half.values == half.expected(manager.global_step)).all(), half.values
for step in range(manager.global_step + 1, manager.global_step + 3):
    half.values[:] = half.expected(step)
    if rank == step % world:  # one of the ranks marks the rows
        half.mark([0, 3, 6, 9])
    manager.step()
"""


def test_halves_of_rows_are_saved_as_whole_rows(tmp_path, path):
    pytest.importorskip("torch")
    from job import run

    for world in (2, 1, 4, 2):
        run(tmp_path, world, HALVES + "manager.close()", path=path)
    with ckptdb.Reader(path) as reader, reader.latest() as step:
        assert step.record.kind == "delta"
        rows = step.table("t").read()
        values = rows["v"][np.argsort(rows.ids)]
        assert values[1].tolist() == [10, 11, 12, 13]
        assert values[3].tolist() == [830, 831, 832, 833]


def test_a_rank_that_dies_while_columns_are_exchanged(tmp_path, path):
    pytest.importorskip("torch")
    from job import Job, run

    code = """
half.dies = rank == 1
half.mark([3])
start = time.monotonic()
try:
    manager.step()
except ckptdb.DeadlineExceeded as error:
    print(str(error))
    print(time.monotonic() - start)
"""
    job = Job(tmp_path, 2, HALVES + code + "os._exit(0)", path=path)
    assert job.wait() == [0, -9]
    text, seconds = job.printed(0).splitlines()[-2:]
    assert "rank 1" in text or "ranks 1" in text, text
    assert float(seconds) < 30
    with ckptdb.Reader(path) as reader:
        assert [record.step for record in reader.steps()] == [1, 2]
    run(tmp_path, 1, HALVES + "manager.close()", path=path)


@pytest.mark.parametrize(
    "columns", [[("v", 3, 2)], [("v", -1, 2)], [("v", 0, 0)], [("w", 0, 1)]]
)
def test_columns_that_are_not_in_a_slot(columns):
    class Wrong(ckptdb.CustomTable):
        all_rows = rows_of = restore_rows = erase_rows = clear_rows = None

    with pytest.raises(ckptdb.InvalidArgument, match="expected .slot, first, elements"):
        Wrong({"v": ("f32", 4)}, columns=columns)
