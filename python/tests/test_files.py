# SPDX-License-Identifier: Apache-2.0
"""`ckptdb export` and `import` against the packages whose files they are: numpy,
safetensors and torch, both ways and with every dtype."""

from __future__ import annotations

import collections
import json
import os
import pathlib
import shutil
import subprocess

import numpy as np
import pytest

import ckptdb

_BESIDE = pathlib.Path(ckptdb.__file__).parents[2] / "bin" / "ckptdb"
TOOL = str(_BESIDE) if _BESIDE.exists() else shutil.which("ckptdb")
pytestmark = pytest.mark.skipif(TOOL is None, reason="the command is not installed")

NUMPY_DTYPES = "f8 f4 f2 i8 i4 i2 i1 u8 u4 u2 u1 ?".split()


def run(*words, code=0):
    result = subprocess.run(
        [str(TOOL), *map(str, words)], capture_output=True, text=True, timeout=60
    )
    assert result.returncode == code, result.stdout + result.stderr
    return result.stdout if code == 0 else result.stderr


def sample(seed=1):
    """An array of each dtype, with odd shapes and extreme values, and a table."""
    rng = np.random.default_rng(seed)
    arrays = {
        f"t.{dtype}": rng.integers(0, 256, (3, 5, 8), np.uint8).view(dtype) % 2 == 1
        if dtype == "?"
        else rng.integers(0, 256, (3, 5, 8), np.uint8).view(dtype)
        for dtype in NUMPY_DTYPES
    }
    arrays["scalar"] = np.array(7, np.int64)
    arrays["empty"] = np.zeros((0, 4), np.float32)
    arrays["params/dense/ä"] = np.arange(6, dtype=np.float32).reshape(2, 3)
    arrays["user.ids"] = rng.permutation(500) - 250
    arrays["user.embedding"] = rng.random((500, 4), np.float32)
    arrays["user.freq"] = rng.integers(0, 9, 500, np.uint32)
    return arrays


def assert_same(loaded, arrays):
    """Rows are in any order; a slot of one element is [rows, 1]."""
    assert sorted(loaded) == sorted(arrays)
    order = np.argsort(loaded["user.ids"])
    expected = np.argsort(arrays["user.ids"])
    for name, array in arrays.items():
        got = loaded[name]
        if name.startswith("user."):
            got, array = got[order].reshape(array.shape), array[expected]
        assert got.dtype == array.dtype and got.shape == array.shape, name
        assert got.tobytes() == array.tobytes(), name


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_npz(tmp_path, path, save):
    arrays = sample()
    save(tmp_path / "a.npz", **arrays)
    run("import", tmp_path / "a.npz", "--step", 1, "-s", path)
    run("export", 1, "--npz", tmp_path / "out", "-s", path)
    with np.load(tmp_path / "out" / "step-1.npz") as loaded:
        assert_same(dict(loaded), arrays)


def test_npy(tmp_path, path):
    arrays = sample()
    del arrays["params/dense/ä"]
    arrays["fortran"] = np.asfortranarray(np.arange(24.0).reshape(2, 3, 4))
    for name, array in arrays.items():
        np.save(tmp_path / f"{name}.npy", array)
    run("import", *tmp_path.glob("*.npy"), "--step", 1, "-s", path)
    run("export", 1, "--npy", tmp_path / "out", "-s", path)
    files = (tmp_path / "out").iterdir()
    assert_same({f.stem: np.load(f) for f in files}, arrays)


def test_dtypes_that_numpy_lacks(tmp_path, path):
    torch = pytest.importorskip("torch")
    weight = torch.randn(64).to(torch.bfloat16)
    torch.save({"w": weight, "f8": weight.to(torch.float8_e5m2)}, tmp_path / "w.pt")
    run("import", tmp_path / "w.pt", "--step", 1, "-s", path)
    run("export", 1, "--npz", tmp_path, "-s", path)
    with np.load(tmp_path / "step-1.npz") as loaded:
        bits = loaded["w"]["bfloat16"]
        assert (bits == weight.view(torch.uint16).numpy()).all()
        assert loaded["f8"]["float8_e5m2"].dtype == np.uint8
    run("import", tmp_path / "step-1.npz", "--step", 2, "-s", path)
    with ckptdb.Reader(path) as reader, reader.open(2) as step:
        assert torch.equal(step.read("w", kind="torch"), weight)


def test_numpy_errors_name_the_dtype(tmp_path, path):
    for array, text in [
        (np.zeros(2, ">f4"), "big-endian"),
        (np.zeros(2, complex), "c16"),
        (np.array(["a"]), "U1"),
        (np.array([None]), "|O"),
    ]:
        np.save(tmp_path / "a.npy", array)
        error = run("import", tmp_path / "a.npy", "--step", 1, "-s", path, code=1)
        assert text in error and "a.npy" in error
    assert not os.path.exists(path)


TORCH_DTYPES = (
    "float64 float32 float16 bfloat16 float8_e4m3fn float8_e5m2 int64 int32 int16 int8 "
    "uint64 uint32 uint16 uint8 bool"
).split()


def torch_state(torch):
    state = collections.OrderedDict()
    for name in TORCH_DTYPES:
        data = torch.randint(0, 256, (3, 5, 8), dtype=torch.uint8)
        dtype = getattr(torch, name)
        state[f"t.{name}"] = data % 2 == 1 if name == "bool" else data.view(dtype)
    state["scalar"] = torch.tensor(3.5)
    state["empty"] = torch.zeros(0, 4)
    return state


def equal(torch, a, b):
    return (
        a.dtype == b.dtype
        and a.shape == b.shape
        and torch.equal(
            a.contiguous().reshape(-1).view(torch.uint8),
            b.contiguous().reshape(-1).view(torch.uint8),
        )
    )


def test_safetensors(tmp_path, path):
    torch = pytest.importorskip("torch")
    safetensors = pytest.importorskip("safetensors")
    from safetensors.torch import load_file, save_file

    state = dict(torch_state(torch))
    save_file(state, tmp_path / "model.safetensors", {"format": "pt", "run": "ä 1"})
    run("import", tmp_path / "model.safetensors", "--step", 1, "-s", path)
    run("export", 1, "--safetensors", tmp_path / "out", "-s", path)
    run(
        "export",
        1,
        "--safetensors",
        tmp_path / "many",
        "--shard-bytes",
        300,
        "-s",
        path,
    )
    loaded = load_file(tmp_path / "out" / "model.safetensors")
    assert all(equal(torch, loaded[n], t) for n, t in state.items())
    with safetensors.safe_open(tmp_path / "out" / "model.safetensors", "pt") as file:
        assert file.metadata() == {"format": "pt", "run": "ä 1"}
    index = json.loads((tmp_path / "many" / "model.safetensors.index.json").read_text())
    assert index["weight_map"].keys() == state.keys()
    files = set(index["weight_map"].values())
    assert len(files) > 2 and "model-00001-of-" in min(files)
    for name, file in index["weight_map"].items():
        with safetensors.safe_open(tmp_path / "many" / file, "pt") as opened:
            assert equal(torch, opened.get_tensor(name), state[name])
    run("import", tmp_path / "many" / "model.safetensors.index.json",
        "--step", 2, "-s", path)  # fmt: skip
    assert "nothing differs" in run("diff", 1, 2, "-s", path)


def test_torch(tmp_path, path):
    torch = pytest.importorskip("torch")
    model = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.BatchNorm1d(3))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.25)
    model(torch.randn(5, 4)).sum().backward()
    optimizer.step()
    base = torch.arange(24.0).reshape(4, 6)
    state = {
        "model": model.state_dict(),
        "optimizer": optimizer.state_dict(),
        "types": torch_state(torch),
        "shared": [base, base[1:3], base.t(), base[:, ::2], base[2].expand(3, 6)],
        "parameter": torch.nn.Parameter(torch.ones(2)),
        "step": 7,
        "note": "ä",
        "nan": float("nan"),
    }
    torch.save(state, tmp_path / "all.pt")
    torch.save(base, tmp_path / "alone.pth")
    run("import", tmp_path / "all.pt", tmp_path / "alone.pth", "--step", 1, "-s", path)
    with ckptdb.Reader(path) as reader, reader.open(1) as step:

        def same(name, tensor):
            return equal(torch, step.read(name, kind="torch"), tensor.detach())

        for name, tensor in model.state_dict().items():
            assert same(f"model.{name}", tensor)
        for i, fields in optimizer.state_dict()["state"].items():
            for name, tensor in fields.items():
                assert same(f"optimizer.state.{i}.{name}", tensor)
        assert all(same(f"types.{n}", t) for n, t in state["types"].items())
        for i, tensor in enumerate(state["shared"]):
            assert same(f"shared.{i}", tensor)
        assert same("alone", base) and same("parameter", torch.ones(2))
        values = json.loads(step.read_blob("all.values"))
    assert values["step"] == 7 and values["note"] == "ä" and values["nan"] == "nan"
    assert values["optimizer.param_groups.0.lr"] == 0.25
    assert values["model._metadata.1.version"] == 2


def test_torch_executes_nothing(tmp_path, path):
    torch = pytest.importorskip("torch")

    class Attack:
        def __reduce__(self):
            return os.mkdir, (str(tmp_path / "executed"),)

    for value, name in [
        ({"a": Attack()}, "posix.mkdir"),
        (torch.nn.Linear(2, 2), "torch.nn.modules.linear.Linear"),
        ({"a": torch.zeros(2, dtype=torch.complex64)}, "ComplexFloatStorage"),
        ({"a": {1, 2}}, "set"),
    ]:
        torch.save(value, tmp_path / "a.pt")
        error = run("import", tmp_path / "a.pt", "--step", 1, "-s", path, code=1)
        assert name in error and "a.pt" in error
    torch.save({}, tmp_path / "a.pt", _use_new_zipfile_serialization=False)
    assert "1.6" in run("import", tmp_path / "a.pt", "--step", 1, "-s", path, code=1)
    assert not (tmp_path / "executed").exists() and not os.path.exists(path)


def test_torch_loads_what_is_exported(tmp_path, path):
    torch = pytest.importorskip("torch")
    state = torch_state(torch)
    torch.save(state, tmp_path / "a.pt")
    run("import", tmp_path / "a.pt", "--step", 1, "-s", path)
    run("export", 1, "--recis", tmp_path / "out", "-s", path)
    loaded = torch.load(tmp_path / "out" / "ckpt_1" / "model.pt", weights_only=True)
    assert loaded.keys() == state.keys()
    assert all(equal(torch, loaded[n], t) for n, t in state.items())
    mapped = torch.load(tmp_path / "out" / "ckpt_1" / "model.pt", mmap=True)
    assert equal(torch, mapped["t.bfloat16"], state["t.bfloat16"])
