# SPDX-License-Identifier: Apache-2.0
"""Readers: steps, tables, changes, and how they are shown."""

from __future__ import annotations

import gc
import sys
import threading

import numpy as np
import pytest

import ckptdb


@pytest.fixture
def trained(path):
    """Three steps of a store, each with a table that grows by a thousand rows."""
    table = ckptdb.Table({"v": ("f32", 4), "n": "i64"}, optimizer_slots=["n"])
    state = {"t": table, "w": np.zeros((6, 5), "f4"), "same": np.ones(3), "epoch": 0}
    with ckptdb.Manager(
        path, state, save=ckptdb.save_every_n_steps(1), max_delta_ratio=10
    ) as manager:
        for step in range(1, 4):
            ids = np.arange((step - 1) * 1000, step * 1000)
            rows = table.insert(ids)
            table["v"].put(rows, np.repeat(ids, 4).reshape(-1, 4).astype("f4"))
            table["n"].put(rows, np.full(1000, step))
            if step == 3:
                table.erase([0, 1, 2])
                table["n"].put(table.find([5]), [77])
            state["w"][:] = np.arange(30).reshape(6, 5) * step
            state["epoch"] = step
            manager.step(metrics={"auc": step / 10}, user_metadata={"run": "x"})
    return path


def test_steps_and_records(trained):
    with ckptdb.Reader(trained) as reader:
        assert reader.path == trained
        assert repr(reader) == f"Reader({trained!r})"
        steps = reader.steps()
        assert isinstance(steps, ckptdb.Steps) and [r.step for r in steps] == [1, 2, 3]
        record = reader.find(2)
        assert record == steps[1] and isinstance(record, ckptdb.StepRecord)
        assert record.metrics == {"auc": 0.2} and record.user_metadata["run"] == "x"
        assert (
            record.rows == 1000
            and record.kind == "delta"
            and record.world_size == 1
            and record.parent == 1
        )
        assert not record.pinned and not record.ephemeral and not record.quarantined
        assert reader.bad_files() == [] and isinstance(reader.user_metadata, dict)
        with reader.open(2) as step:
            assert step.record == record
            step.verify()


def test_read(trained):
    with ckptdb.Reader(trained) as reader, reader.latest() as step:
        expected = (np.arange(30).reshape(6, 5) * 3).astype("f4")
        np.testing.assert_array_equal(step.read("w"), expected)
        np.testing.assert_array_equal(step.read("w", threads=2), expected)
        out = np.zeros((6, 5), "f4")
        assert step.read("w", out=out) is out
        np.testing.assert_array_equal(out, expected)
        whole = np.zeros((6, 10), "f4")
        assert step.read("w", out=whole[:, ::2]).base is whole
        np.testing.assert_array_equal(whole[:, ::2], expected)
        for wrong, words in [
            (np.zeros((5, 6), "f4"), r"out is f32 \[5, 6\].*f32 \[6, 5\]"),
            (np.zeros((6, 5)), r"out is f64"),
            (np.zeros(30, "f4"), r"out is f32 \[30\]"),
            (np.broadcast_to(np.float32(0), (6, 5)), "read-only"),
        ]:
            with pytest.raises(ckptdb.InvalidArgument, match=words):
                step.read("w", out=wrong)
        many = step.read_many(["w", "same"])
        assert list(many) == ["w", "same"]
        np.testing.assert_array_equal(many["w"], expected)
        np.testing.assert_array_equal(many["same"], 1)
        assert step.read_many([]) == {}
        np.testing.assert_array_equal(
            step.read_part("w", [2, 1], [3, 2]), expected[2:5, 1:3]
        )
        assert step.read_part("w", [6, 0], [0, 5]).shape == (0, 5)
        for offset, shape in [([4, 0], [3, 5]), ([0], [1]), ([-1, 0], [1, 1])]:
            with pytest.raises((ckptdb.InvalidArgument, ckptdb.OutOfRange)):
                step.read_part("w", offset, shape)
        assert step.read("epoch") == 3
        assert b"ckptdb.tree" in step.read_blob("extra/epoch")


def test_lookup(trained):
    with ckptdb.Reader(trained) as reader, reader.latest() as step:
        table = step.table("t")
        assert isinstance(table, ckptdb.StepTable)
        found, values = table.lookup([5, 0, 2999, -1, 5])
        assert found.tolist() == [True, False, True, False, True]
        assert found.dtype == bool
        assert values["v"].dtype == np.float32
        assert values["v"][:, 0].tolist() == [5, 0, 2999, 0, 5]
        assert values["n"][:, 0].tolist() == [77, 0, 3, 0, 77]
        found, values = table.lookup(np.array([7], "u2"), slots=["n"])
        assert list(values) == ["n"] and values["n"].tolist() == [[1]]
        found, values = table.lookup([])
        assert found.shape == (0,) and values["v"].shape == (0, 4)


@pytest.mark.parametrize("rows", [1, 7, 1000, 65536])
def test_scan(trained, rows):
    with ckptdb.Reader(trained) as reader, reader.latest() as step:
        table = step.table("t")
        size = 200 if rows == 1 else None
        ids = []
        for i, batch in enumerate(table.scan(rows=rows)):
            assert isinstance(batch, ckptdb.Batch)
            assert 1 <= len(batch) <= rows and batch.slots == ["v", "n"]
            assert (batch["v"] == batch.ids[:, None]).all() and len(batch.erased) == 0
            assert f"Batch({len(batch)} rows of v, n)" == repr(batch)
            ids += batch.ids.tolist()
            if size is not None and i > size:
                break
        if size is None:
            assert sorted(ids) == list(range(3, 3000))
        only = [b for b in table.scan(["n"], threads=1, progress=True)]
        assert all(b.slots == ["n"] for b in only)
        assert sum(len(b) for b in only) == 2997
        bare = list(table.scan(ids_only=True))
        assert all(b.slots == [] for b in bare) and sum(map(len, bare)) == 2997
        with pytest.raises(ckptdb.InvalidArgument, match="rows is 0"):
            table.scan(rows=0)


def test_scans_that_are_dropped(trained):
    """In the middle, by close, by the collector, beside others, and after their
    step was closed."""
    with ckptdb.Reader(trained) as reader:
        for end in ["close", "del", "step", "none"]:
            step = reader.latest()
            scan = step.table("t").scan(rows=10)
            first = next(scan)
            assert len(first) == 10
            if end == "close":
                scan.close()
                with pytest.raises(StopIteration):
                    next(scan)
            elif end == "del":
                del scan
                gc.collect()
            elif end == "step":
                step.close()
                assert sum(len(b) for b in scan) == 2997 - 10
            step.close()
        with reader.latest() as step:
            scans = [step.table("t").scan(rows=10) for _ in range(5)]
            for _ in range(3):
                assert all(len(next(scan)) == 10 for scan in scans)
            step.table("t").scan()  # never begun
    assert sum(len(b) for b in scans[0]) == 2997 - 30


def test_read_table(trained):
    with ckptdb.Reader(trained) as reader, reader.open(1) as step:
        read = step.table("t").read()
        np.testing.assert_array_equal(read.ids, np.arange(1000))
        np.testing.assert_array_equal(read["v"][:, 3], np.arange(1000))
        read = step.table("t").read(["n"])
        assert read.slots == ["n"] and (read["n"] == 1).all()


def test_arrow_and_pandas(trained):
    pa = pytest.importorskip("pyarrow")
    with ckptdb.Reader(trained) as reader, reader.latest() as step:
        arrow = step.table("t").to_arrow()
        assert arrow.column_names == ["id", "v", "n"] and arrow.num_rows == 2997
        assert arrow.schema.field("v").type == pa.list_(pa.float32(), 4)
        assert arrow["id"].to_pylist() == list(range(3, 3000))
        assert arrow["v"][10].as_py() == [13.0] * 4
        pytest.importorskip("pandas")
        frame = step.table("t").to_pandas()
        assert frame.index.name == "id" and frame.index.tolist() == list(range(3, 3000))
        assert frame["n"].loc[5] == 77
        np.testing.assert_array_equal(frame["v"].loc[13], [13.0] * 4)
        assert list(step.table("t").to_pandas(["n"]).columns) == ["n"]


def test_arrow_of_half_precision(store):
    pytest.importorskip("pyarrow")
    pytest.importorskip("ml_dtypes")
    table = ckptdb.Table({"h": ("bf16", 2)})
    table["h"].put(table.insert([1]), [[1.5, 2]])
    store.save({"t": table, "e": ckptdb.Table({"v": ("f32", 3)})})
    with ckptdb.Reader(store.path) as reader, reader.latest() as step:
        assert step.table("t").to_arrow()["h"].to_pylist() == [[1.5, 2.0]]
        empty = step.table("e").to_arrow()
        assert empty.num_rows == 0 and empty.column_names == ["id", "v"]


def test_changes(trained):
    with ckptdb.Reader(trained) as reader:
        with reader.changes(2, 3) as changes:
            assert isinstance(changes, ckptdb.Changes) and changes.forwards
            assert changes.to.record.step == 3
            assert "w" in changes.tensors()
            table = changes.table("t")
            assert isinstance(table, ckptdb.ChangedTable)
            rows, erased = {}, []
            for batch in table:
                rows.update(zip(batch.ids.tolist(), batch["n"][:, 0].tolist()))
                erased += batch.erased.tolist()
                if len(batch.erased):
                    assert len(batch) == 0 and "erased" in repr(batch)
            assert sorted(erased) == [0, 1, 2]
            expected = {i: 3 for i in range(2000, 3000)}
            expected[5] = 77
            assert rows == expected
            some = [b for b in table.scan(["n"], rows=100) if len(b)]
            assert all(b.slots == ["n"] and len(b) <= 100 for b in some)
            with pytest.raises(ckptdb.NotFound):
                changes.table("none")
        with reader.changes(3, 1) as changes:
            assert not changes.forwards
        with pytest.raises(ckptdb.NotFound):
            reader.changes(1, 9)


def test_posts(path):
    state = {"n": 0}
    with ckptdb.Manager(path, state, save=ckptdb.save_every_n_steps(1)) as manager:
        manager.step()
        manager.step()
        manager.wait_until_finished()
        with ckptdb.Reader(path) as reader:
            reader.post_metrics(1, {"auc": 0.75})
            reader.request_pin(2)
            with pytest.raises(ckptdb.Error):
                reader.post_metrics(9, {"auc": 1.0})
        manager.step()
        manager.wait_until_finished()
        records = {r.step: r for r in manager.steps()}
        assert records[1].metrics == {"auc": 0.75} and records[2].pinned
        with ckptdb.Reader(path) as reader:
            reader.request_unpin(2)
        manager.step()
        manager.wait_until_finished()
        assert not {r.step: r for r in manager.steps()}[2].pinned


def test_how_they_are_shown(trained):
    with ckptdb.Reader(trained) as reader, reader.latest() as step:
        items = step.items()
        assert isinstance(items, ckptdb.Items)
        assert all(isinstance(item, ckptdb.Item) for item in items)
        lines = str(items).splitlines()
        assert "w: f32 [6, 5]" in lines and "same: f64 [3]" in lines
        assert any(
            line.startswith("t: ") and " rows of v f32 x 4, n i64 x 1" in line
            for line in lines
        )
        html = step._repr_html_()
        assert html.startswith("<table>") and "<td>w</td><td>f32 [6, 5]</td>" in html
        assert "rows" in step.table("t")._repr_html_()
        assert repr(step.table("t")).startswith("StepTable(t: ")
        assert repr(step).startswith("Step(step 3: ") and "UTC" in str(step.record)
        assert "auc=0.3" in reader.steps()._repr_html_()


def test_html_is_escaped(store):
    store.save({"<b>&": np.zeros(1)})
    with ckptdb.Reader(store.path) as reader, reader.latest() as step:
        assert "&lt;b&gt;&amp;" in step._repr_html_()


def test_a_step_stays_while_it_is_open(path):
    state = {"w": np.zeros(50_000)}
    with ckptdb.Manager(
        path, state, save=ckptdb.save_every_n_steps(1), keep=ckptdb.latest_n(1)
    ) as manager:
        manager.step()
        manager.wait_until_finished()
        with ckptdb.Reader(path) as reader, reader.latest() as step:
            for number in range(2, 6):
                state["w"][:] = number
                manager.step()
            manager.wait_until_finished()
            assert [r.step for r in manager.steps()] == [5]
            np.testing.assert_array_equal(step.read("w"), 0)
            with reader.latest() as newest:
                np.testing.assert_array_equal(newest.read("w"), 5)


def test_threads_share_a_reader(trained):
    errors = []
    with ckptdb.Reader(trained) as reader, reader.latest() as step:

        def read():
            try:
                for _ in range(10):
                    assert step.read("w")[1, 0] == 15
                    assert step.table("t").lookup([5])[1]["n"][0, 0] == 77
                    assert sum(len(b) for b in step.table("t").scan(rows=500)) == 2997
                    reader.refresh()
            except BaseException as error:
                errors.append(error)

        threads = [threading.Thread(target=read) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert not errors


def test_options_of_readers(trained):
    with ckptdb.Reader(trained, leases="none", direct_reads=False) as reader:
        with reader.latest() as step:
            assert step.read("epoch") == 3
    with pytest.raises(
        ckptdb.InvalidArgument, match="required, where_possible or none"
    ):
        ckptdb.Reader(trained, leases="some")
    with pytest.raises(ckptdb.InvalidArgument, match='no option "lease"'):
        ckptdb.Reader(trained, lease=1)


def test_many_small_tensors(store):
    arrays = {f"a{i}": np.full(3, i) for i in range(1000)}
    store.save({"all": arrays, "n": 1})
    with ckptdb.Reader(store.path) as reader, reader.latest() as step:
        read = step.read("all")
        assert list(read) == list(arrays)
        many = step.read_many([f"all.{name}" for name in arrays])
    for i, name in enumerate(arrays):
        assert read[name].tolist() == [i] * 3 == many[f"all.{name}"].tolist()


def test_references_are_returned(trained):
    """Nothing keeps arrays, steps or batches alive."""
    with ckptdb.Reader(trained) as reader:
        out = np.zeros((6, 5), "f4")
        before = sys.getrefcount(out)
        for _ in range(3):
            with reader.latest() as step:
                step.read("w", out=out)
                for batch in step.table("t").scan():
                    pass
        assert sys.getrefcount(out) == before


def test_lookups_by_tensors_return_tensors(store):
    torch = pytest.importorskip("torch")
    table = ckptdb.Table({"v": ("bf16", 2), "n": ("i64", 1)})
    ids = torch.tensor([3, 9])
    table["v"].put(table.insert(ids), torch.ones(2, 2, dtype=torch.bfloat16))
    store.save({"t": table})
    with ckptdb.Reader(store.path) as reader, reader.latest() as step:
        found, values = step.table("t").lookup(torch.tensor([9, 4]))
    assert found.tolist() == [True, False] and found.dtype == torch.bool
    assert values["v"].dtype == torch.bfloat16
    assert values["v"].tolist() == [[1, 1], [0, 0]]
    assert torch.is_tensor(values["n"])
