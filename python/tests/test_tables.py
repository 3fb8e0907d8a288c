# SPDX-License-Identifier: Apache-2.0
"""Tables that grow, and tables over arrays of the trainer."""

from __future__ import annotations

import threading

import numpy as np
import pytest

import ckptdb


def filled(count=10, **options):
    table = ckptdb.Table({"v": ("f32", 2), "n": "i64"}, **options)
    rows = table.insert(np.arange(count))
    values = np.arange(count * 2, dtype="f4").reshape(count, 2)
    table["v"].put(rows, values)
    table["n"].put(rows, np.arange(count) * 10)
    return table


# Table


def test_insert_find_and_erase():
    table = ckptdb.Table({"v": ("f32", 3)})
    rows = table.insert([5, 7, 5])
    assert rows.dtype == np.int64 and rows[0] == rows[2] != rows[1]
    assert len(table) == 2
    assert table.find([7, 6, 5]).tolist() == [rows[1], -1, rows[0]]
    np.testing.assert_array_equal(table["v"][rows], np.zeros((3, 3)))
    assert table.erase([5, 6]) == 1
    assert len(table) == 1 and table.find([5])[0] == -1
    ids, numbers = table.rows()
    assert ids.tolist() == [7] and numbers.tolist() == [rows[1]]
    table["v"].put(rows[1:2], np.ones((1, 3), "f4"))
    table.clear()
    assert len(table) == 0 and table.rows()[0].shape == (0,)
    np.testing.assert_array_equal(table["v"][table.insert([7])], np.zeros((1, 3)))


def test_the_last_values_of_a_row_count():
    table = filled()
    rows = table.find([3, 4, 3])
    table["v"].put(rows, np.array([[1, 1], [2, 2], [3, 3]], "f4"))
    np.testing.assert_array_equal(table["v"][table.find([3, 4])], [[3, 3], [2, 2]])


def test_ids_of_all_64_bits(store):
    table = ckptdb.Table({"v": "i64"})
    ids = np.array([-1, 0, 2**63 - 1, -(2**63)], "i8")
    table["v"].put(table.insert(ids), np.arange(4))
    top = np.array([2**64 - 1, 0, 2**63 - 1, 2**63], "u8")
    assert table.find(top).tolist() == table.find(ids).tolist()
    assert table.find([2**64 - 1, 2**63]).tolist() == table.find(ids[[0, 3]]).tolist()
    assert table.insert(top).tolist() == table.find(ids).tolist() and len(table) == 4
    store.save({"t": table})
    with ckptdb.Reader(store.path) as reader, reader.latest() as step:
        found, values = step.table("t").lookup(top)
        assert found.all() and values["v"][:, 0].tolist() == [0, 1, 2, 3]
        read = step.table("t").read()
        assert read.ids.tolist() == sorted(ids.tolist())


@pytest.mark.parametrize("empty", [[], np.empty(0), np.empty(0, "u8"), ()])
def test_empty_batches(empty):
    table = filled()
    assert table.insert(empty).tolist() == [] and table.find(empty).shape == (0,)
    assert table.erase(empty) == 0
    table.mark(empty)
    assert table["v"][empty].shape == (0, 2)
    table["v"].put(empty, np.empty((0, 2), "f4"))
    assert len(table) == 10


@pytest.mark.parametrize("dtype", ["i1", "u2", "i4", "u4", ">i8"])
def test_ids_of_other_dtypes(dtype):
    table = filled()
    ids = np.arange(10).astype(dtype)[::2]
    assert table.find(ids).tolist() == table.find(np.arange(10)).tolist()[::2]


@pytest.mark.parametrize(
    ("ids", "words"),
    [
        ([1.5], "dtype float64; expected integers"),
        (["a"], "expected integers"),
        ([True], "dtype bool; expected integers"),
        ([[1, 2]], r"shape \[1, 2\]; expected one dimension"),
        (3, r"shape \[\]; expected one dimension"),
        ([2**64], "expected integers"),
    ],
)
def test_wrong_ids_are_refused(ids, words):
    table = filled()
    for call in [table.insert, table.find, table.erase, table.mark]:
        with pytest.raises(ckptdb.InvalidArgument, match=words):
            call(ids)
    assert len(table) == 10


def test_wrong_values_are_refused():
    table = filled()
    rows = table.find([1, 2])
    for values, words in [
        (np.zeros((2, 2)), r'"v" are f64 \[2, 2\]; expected f32 \[2, 2\]'),
        (np.zeros((2, 3), "f4"), r"f32 \[2, 3\]"),
        (np.zeros((1, 2), "f4"), r"f32 \[1, 2\]"),
        (np.zeros(2, "f4"), r"f32 \[2\]"),
        (np.zeros((2, 2), "i4"), "i32"),
    ]:
        with pytest.raises(ckptdb.InvalidArgument, match=words):
            table["v"].put(rows, values)
    table["n"].put(rows, np.array([[1], [2]]))
    table["n"].put(rows, np.array([3, 4]))
    assert table["n"][rows].tolist() == [[3], [4]]
    table["v"].put(rows, [[1, 2], [3, 4]])
    assert table["v"][rows].tolist() == [[1, 2], [3, 4]]


def test_wrong_rows_are_refused():
    table = filled()
    before = table["v"][table.find(np.arange(10))]
    for rows in [[-1], [10**6], [0, -5], [2**63 - 1]]:
        with pytest.raises(ckptdb.OutOfRange):
            table["v"][rows]
        with pytest.raises(ckptdb.OutOfRange):
            table["v"].put(rows, np.zeros((len(rows), 2), "f4"))
    np.testing.assert_array_equal(before, table["v"][table.find(np.arange(10))])
    with pytest.raises(ckptdb.InvalidArgument, match="row numbers"):
        table["v"][[0.5]]
    with pytest.raises(KeyError, match="no slot"):
        table["other"]


@pytest.mark.parametrize(
    "slots",
    [
        {},
        {"v": ("f31", 2)},
        {"v": ("f32", 0)},
        {"v": ("f32",)},
        {"v": ("f32", 2, "none", 1)},
        {"v": ("f32", 2, "zip")},
        {"v": ("i64", 2, "bf16")},
        {"": ("f32", 2)},
        {"v": ("f32", -1)},
        {"v": ("f32", 2**40)},
        {"v": ("f32", 2.5)},
        {"v": 3},
        {"v": None},
    ],
)
def test_wrong_slots_are_refused(slots):
    with pytest.raises(ckptdb.InvalidArgument):
        ckptdb.Table(slots)


def test_wrong_options_are_refused():
    with pytest.raises(ckptdb.InvalidArgument, match="modulo or mix"):
        ckptdb.Table({"v": "f32"}, slice_hash="other")
    with pytest.raises(ckptdb.InvalidArgument, match="missing"):
        ckptdb.Table({"v": "f32"}, optimizer_slots=["missing"])


@pytest.mark.parametrize("dtype", ["f64", "f16", "i32", "i8", "u64", "u8", "bool"])
def test_dtypes_of_slots(store, dtype):
    table = ckptdb.Table({"v": (dtype, 3)})
    rows = table.insert([4, 2])
    numpy = {"f": "f", "i": "i", "u": "u"}.get(dtype[0])
    name = "?" if dtype == "bool" else f"{numpy}{int(dtype[1:]) // 8}"
    values = np.array([[1, 0, 1], [0, 1, 1]]).astype(name)
    table["v"].put(rows, values)
    store.save({"t": table})
    other = ckptdb.Table({"v": (dtype, 3)})
    store.restore({"t": other})
    got = other["v"][other.find([4, 2])]
    assert got.dtype == values.dtype and got.tobytes() == values.tobytes()


def test_half_precision_slots_without_ml_dtypes(python, path):
    """Their values are unsigned integers of the same bits."""
    python(
        """
        import sys
        sys.modules["ml_dtypes"] = None
        import numpy as np, ckptdb
        table = ckptdb.Table({"v": ("bf16", 2)})
        rows = table.insert([1])
        table["v"].put(rows, np.array([[0x3F80, 1]], "u2"))
        assert table["v"][rows].tolist() == [[0x3F80, 1]]
        state = {"t": table}
        with ckptdb.Manager(path, state, save=ckptdb.save_every_n_steps(1)) as manager:
            manager.step()
        with ckptdb.Reader(path) as reader, reader.latest() as step:
            found, values = step.table("t").lookup([1])
            assert values["v"].dtype == np.uint16
            assert values["v"].tolist() == [[0x3F80, 1]]
            assert step.table("t").read()["v"].tolist() == [[0x3F80, 1]]
        """,
        path=path,
    )


def test_tensors_without_ml_dtypes(python, path):
    pytest.importorskip("torch")
    python(
        """
        import sys, torch, ckptdb
        state = {"w": torch.ones(3, dtype=torch.bfloat16), "d": {"w": torch.ones(2).bfloat16()}}
        with ckptdb.Manager(path, state, save=ckptdb.save_every_n_steps(1)) as manager:
            manager.step()
        """,
        path=path,
    )
    python(
        """
        import sys
        sys.modules["ml_dtypes"] = sys.modules["torch"] = None
        import numpy as np, ckptdb
        with ckptdb.Reader(path) as reader, reader.latest() as step:
            w = step.read("w")
            assert w.dtype == np.uint16 and w.tolist() == [0x3F80] * 3
            out = np.zeros(3, "u2")
            assert step.read("w", out=out) is out and out.tolist() == [0x3F80] * 3
            assert step.read("d")["w"].tolist() == [0x3F80] * 2
        """,
        path=path,
    )


def test_lossy_codecs(store):
    table = ckptdb.Table({"b": ("f32", 8, "bf16"), "q": ("f32", 8, "int8")})
    values = np.random.default_rng(3).normal(size=(100, 8)).astype("f4")
    rows = table.insert(np.arange(100))
    table["b"].put(rows, values)
    table["q"].put(rows, values)
    store.save({"t": table})
    with ckptdb.Reader(store.path) as reader, reader.latest() as step:
        assert step.table("t").slots == {
            "b": ("f32", 8, "bf16"),
            "q": ("f32", 8, "int8"),
        }
        _, got = step.table("t").lookup(np.arange(100))
    np.testing.assert_allclose(got["b"], values, rtol=1 / 256)
    assert not np.array_equal(got["b"], values)
    spread = values.max(1) - values.min(1)
    assert (np.abs(got["q"] - values).max(1) <= spread / 500).all()


def test_marks_find_rows_changed_in_another_way(path):
    table = filled()
    state = {"t": table}
    with ckptdb.Manager(path, state, save=ckptdb.save_every_n_steps(1)) as manager:
        manager.step()
        table.mark([3])
        table["v"].put(table.find([4]), np.ones((1, 2), "f4"))
        table.erase([5])
        manager.step()
        manager.wait_until_finished()
    with ckptdb.Reader(path) as reader, reader.changes(1, 2) as changes:
        rows, erased = [], []
        for batch in changes.table("t"):
            rows += batch.ids.tolist()
            erased += batch.erased.tolist()
        assert sorted(rows) == [3, 4] and erased == [5]


def test_mark_of_an_unknown_id(path):
    table = filled()
    with ckptdb.Manager(
        path, {"t": table}, save=ckptdb.save_every_n_steps(1)
    ) as manager:
        manager.step()
        with pytest.raises(ckptdb.NotFound, match="no row of id 77"):
            table.mark([3, 77])
        manager.step()
    with ckptdb.Reader(path) as reader, reader.changes(1, 2) as changes:
        assert [len(batch) for batch in changes.table("t")] == []


def test_repr_of_tables():
    table = filled()
    assert repr(table) == "Table(10 rows; v: f32 x 2, n: i64 x 1)"
    assert repr(table["v"]) == 'Slot("v", f32 x 2)'
    assert repr(ckptdb.ArrayTable({"w": np.zeros((3, 2))})) == "ArrayTable(3 rows; w)"


# Threads


def test_threads_that_find_while_one_inserts(path):
    table = ckptdb.Table({"v": ("i64", 4)})
    state = {"t": table}
    count, batch = 40, 500
    errors = []
    done = threading.Event()

    def read():
        generator = np.random.default_rng(threading.get_ident() % 1000)
        try:
            while not done.is_set():
                ids = generator.integers(0, count * batch, 300)
                rows = table.find(ids)
                here = rows >= 0
                values = table["v"][rows[here]]
                wrong = values != ids[here, None]
                # A row that was inserted has zeros until its values are put.
                if (wrong & (values != 0)).any():
                    errors.append(values[wrong])
                ids, rows = table.rows()
                if len(ids) != len(np.unique(ids)):
                    errors.append("doubled ids")
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=read) for _ in range(3)]
    with ckptdb.Manager(path, state, save=ckptdb.save_every_n_steps(5)) as manager:
        for thread in threads:
            thread.start()
        for i in range(count):
            ids = np.arange(i * batch, (i + 1) * batch)
            table["v"].put(table.insert(ids), np.repeat(ids, 4).reshape(-1, 4))
            manager.step()
        done.set()
        for thread in threads:
            thread.join()
    assert not errors
    with ckptdb.Reader(path) as reader, reader.latest() as step:
        read = step.table("t").read()
        np.testing.assert_array_equal(read.ids, np.arange(count * batch))
        np.testing.assert_array_equal(read["v"], np.repeat(read.ids, 4).reshape(-1, 4))


def test_threads_that_put_while_steps_are_saved(path):
    """Each row is written by one thread: a save has a value that it had."""
    table = ckptdb.Table({"v": ("i64", 8)})
    rows = table.insert(np.arange(400))
    done = threading.Event()
    errors = []

    def put(part):
        value = 0
        try:
            while not done.is_set():
                value += 1
                table["v"].put(rows[part::4], np.full((100, 8), value))
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=put, args=(i,)) for i in range(4)]
    with ckptdb.Manager(
        path, {"t": table}, save=ckptdb.save_every_n_steps(1)
    ) as manager:
        for thread in threads:
            thread.start()
        for _ in range(15):
            manager.step()
        done.set()
        for thread in threads:
            thread.join()
        manager.step()
    assert not errors
    with ckptdb.Reader(path) as reader:
        for record in reader.steps():
            with reader.open(record.step) as step:
                _, values = step.table("t").lookup(np.arange(400))
                same = values["v"] == values["v"][:, :1]
                assert same.all(), f"step {record.step} has rows that are torn"
        with reader.latest() as step:
            _, values = step.table("t").lookup(np.arange(400))
            np.testing.assert_array_equal(values["v"], table["v"][rows])


# ArrayTable


def test_array_table_is_restored_in_place(store):
    weight = np.arange(12, dtype="f4").reshape(6, 2)
    total = np.arange(6, dtype="f8")
    table = ckptdb.ArrayTable({"w": weight, "s": total}, optimizer_slots=["s"])
    assert len(table) == 6 and table["w"] is weight
    store.save({"t": table})
    expected = (weight.copy(), total.copy())
    weight[:], total[:] = 0, 0
    store.restore({"t": table})
    np.testing.assert_array_equal(weight, expected[0])
    np.testing.assert_array_equal(total, expected[1])


def test_array_table_with_strided_rows(store):
    whole = np.full((5, 7), -1, "f4")
    rows = whole[:, 2:5]
    rows[:] = np.arange(15).reshape(5, 3)
    apart = np.full((10, 3), -1, "f4")[::2]
    apart[:] = rows
    state = {"t": ckptdb.ArrayTable({"a": rows, "b": apart})}
    store.save(state)
    with ckptdb.Reader(store.path) as reader, reader.latest() as step:
        read = step.table("t").read()
        np.testing.assert_array_equal(read["a"], rows)
        np.testing.assert_array_equal(read["b"], rows)
    expected = rows.copy()
    rows[:], apart[:] = 0, 0
    store.restore(state)
    np.testing.assert_array_equal(rows, expected)
    np.testing.assert_array_equal(apart, expected)
    assert (whole[:, :2] == -1).all() and (whole[:, 5:] == -1).all()


def test_array_table_with_more_dimensions(store):
    cube = np.arange(24, dtype="i4").reshape(4, 3, 2)
    store.save({"t": ckptdb.ArrayTable({"c": cube})})
    with ckptdb.Reader(store.path) as reader, reader.latest() as step:
        assert step.table("t").slots["c"] == ("i32", 6, "none")
        np.testing.assert_array_equal(step.table("t").read()["c"], cube.reshape(4, 6))


def test_array_table_with_replaced_arrays(path):
    table = ckptdb.ArrayTable({"w": np.zeros((4, 2), "f4")})
    with ckptdb.Manager(
        path, {"t": table}, save=ckptdb.save_every_n_steps(1)
    ) as manager:
        manager.step()
        table["w"] = np.ones((4, 2), "f4")
        table.mark([1, 3])
        manager.step()
    with ckptdb.Reader(path) as reader, reader.latest() as step:
        expected = np.array([[0, 0], [1, 1], [0, 0], [1, 1]], "f4")
        np.testing.assert_array_equal(step.table("t").read()["w"], expected)
    old = table["w"]
    for array, words in [
        (np.zeros((5, 2), "f4"), r"\[5, 2\]; the table has 4 rows"),
        (np.zeros((3, 2), "f4"), r"\[3, 2\]; the table has 4 rows"),
        (np.zeros((4, 3), "f4"), "f32 x 3; the table was made with f32 x 2"),
        (np.zeros((4, 2)), "f64 x 2"),
        (np.zeros(()), "scalar"),
        ([1, 2, 3, 4], "type list"),
    ]:
        with pytest.raises(ckptdb.InvalidArgument, match=words):
            table["w"] = array
        assert table["w"] is old
    with pytest.raises(KeyError, match="no slot"):
        table["other"] = old


@pytest.mark.parametrize(
    ("slots", "words"),
    [
        ({}, "no slots"),
        ({"w": np.zeros(())}, "scalar"),
        ({"w": np.zeros((3, 2)), "s": np.zeros(4)}, r"\[3, 4\] rows"),
        ({"w": np.zeros((3, 2))[::-1]}, "in reverse"),
        ({"w": np.zeros((4, 4))[:, ::2]}, "not adjacent"),
        ({"w": np.zeros((4, 4)).T}, "not adjacent"),
        ({"w": np.broadcast_to(np.zeros(2), (3, 2))}, "read-only"),
        ({"w": np.zeros(3, ">f4")}, "other byte order"),
        ({"w": np.zeros(3, complex)}, "complex128"),
        ({"w": [1, 2, 3]}, "type list"),
    ],
)
def test_wrong_arrays_are_refused(slots, words):
    with pytest.raises(ckptdb.InvalidArgument, match=words):
        ckptdb.ArrayTable(slots)


def test_overlapping_rows_are_refused():
    windows = np.lib.stride_tricks.as_strided(np.zeros(10), (4, 3), (8, 8))
    with pytest.raises(ckptdb.InvalidArgument, match="overlap"):
        ckptdb.ArrayTable({"w": windows})


def test_array_table_options():
    w = np.zeros((3, 8), "f4")
    with pytest.raises(ckptdb.InvalidArgument, match="missing"):
        ckptdb.ArrayTable({"w": w}, codecs={"missing": "bf16"})
    with pytest.raises(ckptdb.InvalidArgument):
        ckptdb.ArrayTable({"w": w}, codecs={"w": "zip"})
    table = ckptdb.ArrayTable({"w": w}, codecs={"w": "int8"}, slice_hash="mix")
    for ids in [[3], [-1], [2**63]]:
        with pytest.raises(ckptdb.OutOfRange):
            table.mark(ids)
    table.mark([])
    table.mark([0, 2, 2])


def test_array_table_without_rows(store):
    empty = np.zeros((0, 4), "f4")
    state = {"t": ckptdb.ArrayTable({"w": empty})}
    store.save(state)
    store.restore(state)
    with ckptdb.Reader(store.path) as reader, reader.latest() as step:
        assert len(step.table("t").read()) == 0
        assert step.table("t").read()["w"].shape == (0, 4)


def test_tables_of_other_forms_are_named(store):
    store.save({"t": filled()})
    for other, words in [
        (ckptdb.Table({"v": ("f32", 3), "n": "i64"}), "v"),
        (ckptdb.Table({"v": ("f64", 2), "n": "i64"}), "v"),
        (ckptdb.Table({"v": ("f32", 2), "n": "i64", "m": "i64"}), "m"),
    ]:
        with pytest.raises(ckptdb.FailedPrecondition, match=f'"t".*{words}'):
            store.restore({"t": other})
        assert len(other) == 0
    small = ckptdb.ArrayTable({"v": np.zeros((4, 2), "f4"), "n": np.zeros(4, "i8")})
    with pytest.raises(ckptdb.OutOfRange):
        store.restore({"t": small})
    large = ckptdb.ArrayTable({"v": np.ones((12, 2), "f4"), "n": np.ones(12, "i8")})
    store.restore({"t": large})
    assert large["n"][:10].tolist() == list(range(0, 100, 10))
