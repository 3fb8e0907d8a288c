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
    ["slice", 3, ("function", "name"), ("function", 3, max), ("modulo", "a", max),
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
