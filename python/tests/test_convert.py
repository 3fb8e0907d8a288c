# SPDX-License-Identifier: Apache-2.0
"""`python -m ckptdb`: Parquet files, and checkpoints of Orbax and DCP."""

from __future__ import annotations

import fcntl
import json
import os
import pathlib
import subprocess
import sys

import numpy as np
import pytest

import ckptdb

DTYPES = {
    "f64": "f8", "f32": "f4", "f16": "f2", "i64": "i8", "i32": "i4", "i16": "i2",
    "i8": "i1", "u64": "u8", "u32": "u4", "u16": "u2", "u8": "u1", "bool": "?",
}  # fmt: skip


def run(*words, code=0):
    result = subprocess.run(
        [sys.executable, "-m", "ckptdb", *map(str, words)],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert result.returncode == code, result.stdout + result.stderr
    return result.stdout if code == 0 else result.stderr


def fill(table, ids, values):
    """Writes rows, new ones and others."""
    rows = table.insert(np.array(ids, np.int64))
    for slot, each in values.items():
        table[slot].put(rows, np.asarray(each))


def save_table(store, ids):
    """A slot of each dtype with three elements, and one with one. Returns values."""
    rng = np.random.default_rng(1)
    table = ckptdb.Table({**{n: (n, 3) for n in DTYPES}, "freq": ("i32", 1)})
    values = {
        name: (rng.random((len(ids), 3)) * 100).astype(dtype)
        for name, dtype in DTYPES.items()
    }
    values["freq"] = rng.integers(0, 9, (len(ids), 1), np.int32)
    fill(table, ids, values)
    store.save({"user": table})
    return values


def test_help():
    assert "--parquet" in run()
    assert "--since" in run("export", "--parquet", "out", "--help")
    assert "Orbax" in run("import", "--help")


def test_exit_codes_are_those_of_the_command(tmp_path, store):
    save_table(store, [1])
    out, missing = tmp_path / "out", tmp_path / "none"
    export = ("export", "--parquet", out, "-s", store.path)
    dcp = tmp_path / "dcp"
    dcp.mkdir()
    (dcp / ".metadata").touch()
    for code, words in [
        (1, (*export, "x")),
        (1, (*export, "-1")),
        (1, (*export, "1", "--since", "latest")),
        (1, export),
        (1, ("import", dcp, "-s", store.path)),
        (1, ("import", dcp, "--step", 2**63, "-s", store.path)),
        (1, ("tensorboard", "-s", store.path)),
        (2, (*export, "99")),
        (2, ("export", "1", "--parquet", out, "-s", missing)),
    ]:
        assert "Traceback" not in run(*words, code=code)
        assert not out.exists() and not missing.exists()


def test_damage_has_its_exit_code(tmp_path, store):
    pytest.importorskip("pyarrow")
    save_table(store, np.arange(40_000))
    words = ("export", "latest", "--parquet", tmp_path / "out", "-s", store.path)
    files = pathlib.Path(store.path).rglob("*.sst")
    blocks = max(files, key=lambda file: file.stat().st_size)
    data = bytearray(blocks.read_bytes())
    data[len(data) // 2] ^= 1
    blocks.chmod(0o644)
    blocks.write_bytes(data)
    assert blocks.name in run(*words, code=3)
    assert list((tmp_path / "out").iterdir()) == []


def test_a_busy_store_has_its_exit_code(tmp_path, path):
    torch = pytest.importorskip("torch")
    from torch.distributed import checkpoint

    checkpoint.save({"w": torch.ones(2)}, checkpoint_id=tmp_path / "dcp", no_dist=True)
    with ckptdb.Manager(path, {"w": np.ones(2)}, save=ckptdb.save_at_steps([])):
        error = run("import", tmp_path / "dcp", "--step", 1, "-s", path, code=4)
    assert str(os.getpid()) in error


def test_a_killed_export_is_cleaned_up(tmp_path, store):
    pytest.importorskip("pyarrow")
    save_table(store, [1])
    out = tmp_path / "out"
    out.mkdir()
    (out / ".old.parquet.ckptdb-part").write_bytes(b"half")
    (out / "mine").touch()
    words = ("export", "latest", "--parquet", out, "-s", store.path)
    lock = os.open(out, os.O_RDONLY)
    fcntl.flock(lock, fcntl.LOCK_EX)
    assert "another export" in run(*words, code=5)
    os.close(lock)
    document = json.loads(run(*words, "--json"))
    assert document["files"] == [{"path": str(out / "user.parquet"), "rows": 1}]
    assert sorted(f.name for f in out.iterdir()) == ["mine", "user.parquet"]


def test_parquet(tmp_path, store):
    pq = pytest.importorskip("pyarrow.parquet")
    ids = [5, -3, 2**62]
    values = save_table(store, ids)
    words = ("export", "latest", "--parquet", tmp_path / "out", "-s", store.path)
    assert "3 rows" in run(*words)
    table = pq.read_table(tmp_path / "out" / "user.parquet")
    rows = {row["key"]: row for row in table.to_pylist()}
    assert sorted(rows) == sorted(ids)
    for i, each in enumerate(ids):
        for name in DTYPES:
            assert rows[each][name] == values[name][i].tolist()
        assert rows[each]["freq"] == values["freq"][i, 0]
    assert str(table.schema.field("f32").type) == "list<element: float>"
    assert "--force" in run(*words, code=5)
    run(*words, "--force", "--slots", "freq")
    assert pq.read_table(tmp_path / "out" / "user.parquet").column_names == [
        "key",
        "freq",
    ]
    assert "no table" in run(*words, "x*", "--force", code=2)
    assert [f.name for f in (tmp_path / "out").iterdir()] == ["user.parquet"]


def test_parquet_of_changes(tmp_path, path):
    pq = pytest.importorskip("pyarrow.parquet")
    table = ckptdb.Table({"embedding": ("f32", 2)})
    with ckptdb.Manager(
        path, {"user": table}, save=ckptdb.save_every_n_steps(1), keep=ckptdb.keep_all()
    ) as manager:
        fill(table, range(4), {"embedding": np.ones((4, 2), "f4")})
        manager.step_to(1)
        manager.wait_until_finished()
        fill(table, [1, 9], {"embedding": np.full((2, 2), 2, "f4")})
        table.erase(np.array([3]))
        manager.step_to(2)
        manager.wait_until_finished()
    run("export", 2, "--parquet", tmp_path, "--since", 1, "-s", path)
    rows = sorted(
        pq.read_table(tmp_path / "user.parquet").to_pylist(), key=lambda r: r["key"]
    )
    assert rows == [
        {"key": 1, "embedding": [2, 2], "erased": False},
        {"key": 3, "embedding": None, "erased": True},
        {"key": 9, "embedding": [2, 2], "erased": False},
    ]


def test_arrow(store):
    pytest.importorskip("pyarrow")
    values = save_table(store, [1, 2, 3])
    with ckptdb.Reader(store.path) as reader, reader.latest() as step:
        table = step.table("user").to_arrow()
    assert table["id"].to_pylist() == [1, 2, 3]
    assert table["i16"].to_pylist() == values["i16"].tolist()


def test_orbax(tmp_path, path):
    pytest.importorskip("jax")
    ocp = pytest.importorskip("orbax.checkpoint")
    import jax.numpy as jnp

    tree = {
        "params": {
            "kernel": jnp.arange(6, dtype=jnp.bfloat16).reshape(2, 3),
            "bias": jnp.arange(3.0),
        },
        "list": [jnp.arange(3), jnp.ones((2, 2), jnp.bool_)],
        "step": 7,
    }
    with ocp.StandardCheckpointer() as checkpointer:
        checkpointer.save(tmp_path / "orbax", tree)
    assert "4 tensors" in run("import", tmp_path / "orbax", "--step", 3, "-s", path)
    with ckptdb.Reader(path) as reader, reader.open(3) as step:
        kernel = step.read("params.kernel")
        assert (kernel.astype(np.float32) == np.arange(6).reshape(2, 3)).all()
        read = step.read_tree("list")
        assert (read[1] == np.ones((2, 2), bool)).all()
        assert step.read("step") == 7
    assert "exists" in run(
        "import", tmp_path / "orbax", "--step", 3, "-s", path, code=5
    )


def test_names_of_columns_and_files(tmp_path, store):
    pytest.importorskip("pyarrow")
    tables = {}
    for name in ("empty table", ".x/%y"):
        slots = {"id": ("f32", 1), "a,b": ("f32", 1), "v": ("f32", 1)}
        tables[name] = ckptdb.Table(slots)
        fill(tables[name], [1, 2], {"v": np.ones((2, 1), np.float32)})
    store.save(tables)
    with ckptdb.Reader(store.path) as reader, reader.latest() as step:
        with pytest.raises(ckptdb.InvalidArgument, match="choose others by slots="):
            step.table("empty table").to_arrow()
        arrow = step.table("empty table").to_arrow(["v", "a,b"])
        assert arrow.column_names == ["id", "v", "a,b"]
        assert sorted(arrow["id"].to_pylist()) == [1, 2]
    words = ("export", "latest", "--slots", "a\\,b,v", "-s", store.path)
    run(*words, "--parquet", tmp_path / "out")
    assert sorted(each.name for each in (tmp_path / "out").iterdir()) == [
        "%2Ex%2F%25y.parquet",
        "empty table.parquet",
    ]


def test_damage_and_links_of_orbax(tmp_path, path):
    pytest.importorskip("jax")
    ocp = pytest.importorskip("orbax.checkpoint")
    source = tmp_path / "orbax"
    with ocp.StandardCheckpointer() as checkpointer:
        checkpointer.save(source, {"w": np.arange(3.0)})
    words = ("import", source, "--step", 3, "-s", path)
    for name in ("_METADATA", "manifest.ocdbt"):
        whole = (source / name).read_bytes()
        (source / name).write_bytes(whole[:20])
        assert "is damaged" in run(*words, code=3)
        (source / name).write_bytes(whole)
    (tmp_path / "d").mkdir()
    for file in [each for each in source.glob("**/d/*") if each.is_file()]:
        file.rename(tmp_path / "d" / file.name)
        file.write_bytes(b"xx")
    assert str(source) in run(*words, code=3)
    for file in [each for each in source.glob("**/d/*") if each.is_file()]:
        file.unlink()
        file.symlink_to(tmp_path / "d" / file.name)
    assert "out of the folder" in run(*words, code=1)
    assert not os.path.exists(path)
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "_CHECKPOINT_METADATA").write_text("{}")
    words = ("import", tmp_path / "folder", "--step", 3, "-s", path)
    assert "name the folder of one item" in run(*words, code=1)


def test_a_failed_import_leaves_no_store(tmp_path, monkeypatch):
    ocp = pytest.importorskip("orbax.checkpoint")
    from ckptdb import _convert

    with ocp.StandardCheckpointer() as checkpointer:
        checkpointer.save(tmp_path / "orbax", {"w": np.arange(3.0)})
    store = tmp_path / "deep" / "store"
    add_all = _convert.Save.add_all

    def add_bad_name(saved, state):
        add_all(saved, {"a\0b": np.ones(3)})

    monkeypatch.setattr(_convert.Save, "add_all", add_bad_name)
    for empty in (False, True):
        if empty:
            store.mkdir(parents=True)
        with pytest.raises(ckptdb.InvalidArgument, match="NUL"):
            _convert.import_orbax(tmp_path / "orbax", store, 1)
        assert (tmp_path / "deep").exists() == empty
        assert not empty or not any(store.iterdir())
    monkeypatch.setattr(_convert.Save, "add_all", add_all)
    _convert.import_orbax(tmp_path / "orbax", store, 1)
    with pytest.raises(ckptdb.InvalidArgument, match="lies inside it"):
        _convert.import_orbax(tmp_path / "orbax", store / "db", 1)
    with pytest.raises(ckptdb.AlreadyExists):
        _convert.import_orbax(tmp_path / "orbax", store, 1)
    assert [each.step for each in ckptdb.Reader(store).steps()] == [1]


def test_dcp(tmp_path, path):
    torch = pytest.importorskip("torch")
    from torch.distributed import checkpoint

    state = {"model": {"w": torch.arange(6.0).reshape(2, 3)}}
    checkpoint.save(state, checkpoint_id=tmp_path / "dcp", no_dist=True)
    assert "1 tensors" in run("import", tmp_path / "dcp", "--step", 3, "-s", path)
    with ckptdb.Reader(path) as reader, reader.open(3) as step:
        assert torch.equal(step.read("model.w", kind="torch"), state["model"]["w"])
