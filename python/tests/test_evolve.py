# SPDX-License-Identifier: Apache-2.0
"""Functions of an evolve policy, which compute the values of slots."""

from __future__ import annotations

import numpy as np
import pytest

import ckptdb

IDS = np.arange(1000) * 7


def _save(path):
    table = ckptdb.Table({"embedding": ("f32", 4), "freq": ("i32", 1)})
    rows = table.insert(IDS)
    table["embedding"].put(rows, np.tile(IDS[:, None], 4).astype("f4"))
    table["freq"].put(rows, (IDS % 5).astype("i4")[:, None])
    with ckptdb.Manager(path, {"user": table}) as manager:
        manager.step()
        manager.save().wait_committed()


def _restore(path, table, policy, **options):
    with ckptdb.Manager(path, {"user": table}, saving=False, **options) as manager:
        return manager.restore(evolve={"tables": {"user": policy}} if policy else None)


def _new_table():
    return ckptdb.Table(
        {"embedding": ("f64", 2), "freq": ("i32", 1), "adagrad": ("f32", 4)}
    )


def _policy(seen):
    def fill(ids):
        seen.append(ids)
        return np.repeat(ids[:, None] * 0.5, 4, axis=1).astype("f4")

    def convert(ids, values):
        assert values.dtype == np.float32 and values.shape == (len(ids), 4)
        np.testing.assert_array_equal(values[:, 0], ids)
        return values[:, :2].astype("f8") * 10

    return {"fill_with": {"adagrad": fill}, "convert": {"embedding": convert}}


@pytest.mark.parametrize("as_option", [False, True])
def test_functions_fill_and_convert_slots(path, as_option):
    _save(path)
    table = _new_table()
    seen = []
    policy = _policy(seen)
    options = {"evolve": {"tables": {"user": policy}}} if as_option else {}
    _restore(path, table, None if as_option else policy, **options)
    rows = table.find(IDS)
    np.testing.assert_array_equal(
        table["adagrad"][rows][:, 3], (IDS * 0.5).astype("f4")
    )
    np.testing.assert_array_equal(table["embedding"][rows], IDS[:, None] * [10.0, 10.0])
    np.testing.assert_array_equal(np.ravel(table["freq"][rows]), IDS % 5)
    assert sorted(np.concatenate(seen)) == sorted(IDS)


def test_a_function_that_returns_other_rows_is_named(path):
    _save(path)
    policy = _policy([])
    policy["fill_with"] = {"adagrad": lambda ids: np.zeros((len(ids), 3), "f4")}
    with pytest.raises(
        ckptdb.Error, match=r'fill_with of slot "adagrad" returned f32 .* expected f32'
    ):
        _restore(path, _new_table(), policy)


def test_an_exception_of_a_function_is_the_cause(path):
    _save(path)
    policy = _policy([])

    def refuse(ids, values):
        raise ZeroDivisionError("no values")

    policy["convert"] = {"embedding": refuse}
    with pytest.raises(ckptdb.Error, match="no values") as info:
        _restore(path, _new_table(), policy)
    assert isinstance(info.value.__cause__, ZeroDivisionError)


def test_unknown_tables_and_slots_are_named(path):
    _save(path)
    policy = {"fill_with": {"adam": lambda ids: ids}}
    with pytest.raises(ckptdb.InvalidArgument, match='"adam".*adagrad'):
        _restore(path, _new_table(), policy)
    with ckptdb.Manager(path, {"user": _new_table()}, saving=False) as manager:
        with pytest.raises(ckptdb.InvalidArgument, match='"usr".*user'):
            manager.restore(evolve={"tables": {"usr": policy}})


def test_numbers_and_functions_are_not_confused(path):
    _save(path)
    for policy, words in (
        ({"fill": {"adagrad": len}}, "use fill_with"),
        ({"fill_with": {"adagrad": 0.5}}, "for a number use fill"),
    ):
        with pytest.raises(ckptdb.InvalidArgument, match=words):
            _restore(path, _new_table(), policy)


def test_a_slot_of_arrays_is_filled(path):
    _save(path)
    rows = int(IDS[-1]) + 1
    slots = {
        "embedding": np.zeros((rows, 4), "f4"),
        "freq": np.zeros((rows, 1), "i4"),
        "seen": np.zeros(rows, "i8"),
    }
    table = ckptdb.ArrayTable(slots)
    _restore(path, table, {"fill_with": {"seen": lambda ids: ids + 1}})
    np.testing.assert_array_equal(slots["seen"][IDS], IDS + 1)
    assert slots["seen"].sum() == (IDS + 1).sum()


class Momentum:
    """An optimizer whose state exists from the start, as that of Adagrad."""

    def __init__(self, rate):
        self.sums = {"a": np.zeros(3), "b": np.zeros(2)}
        self.rate = rate

    def state_dict(self):
        return {"sums": self.sums, "rate": self.rate}

    def load_state_dict(self, state):
        self.sums, self.rate = state["sums"], state["rate"]


def test_excluding_an_entry_leaves_all_of_it_unchanged(path):
    optimizer = Momentum(0.5)
    optimizer.sums["a"][:] = 7
    state = {"w": np.ones(2), "optimizer": optimizer, "d": {"x": np.ones(1)}}
    with ckptdb.Manager(path, state) as manager:
        manager.save()
    for given in ("restore", "option"):
        optimizer = Momentum(0.1)
        state = {"w": np.zeros(2), "optimizer": optimizer, "d": {"x": np.zeros(1)}}
        evolve = {"exclude": ["optimizer", "d"]}
        options = {"evolve": evolve} if given == "option" else {}
        with ckptdb.Manager(
            path, state, save=ckptdb.save_at_steps([]), **options
        ) as manager:
            manager.restore(**({"evolve": evolve} if given == "restore" else {}))
            assert state["w"].tolist() == [1, 1]
            assert state["d"]["x"].tolist() == [0]
            assert optimizer.sums["a"].tolist() == [0, 0, 0] and optimizer.rate == 0.1
            manager.abandon_steps()
