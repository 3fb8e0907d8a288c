# SPDX-License-Identifier: Apache-2.0
"""The package as others see it: what importing it costs and brings with it, what
is typed, and that it works beside other packages with native code."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import pathlib
import resource
import subprocess
import sys

import ckptdb
import pytest


def run(code: str) -> str:
    """Runs code in another interpreter, and returns what it printed."""
    environment = dict(os.environ)
    environment.pop("PYTHONDONTWRITEBYTECODE", None)  # as it is installed
    result = subprocess.run(
        [sys.executable, "-c", code],
        env=environment,
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert result.returncode == 0, result.stderr
    return result.stdout.strip()


SAVE_AND_RESTORE = """
import tempfile
with tempfile.TemporaryDirectory() as store:
    state = {"epoch": 3, "name": "ctr", "sizes": [1, 2, {"deep": 4.5}], "raw": b"\\0b"}
    with ckptdb.Manager(store, state) as manager:
        manager.restore_or_start()
        manager.step(metrics={"auc": 0.5})
        manager.save().wait_committed()
    state = {"epoch": 0, "name": "", "sizes": [0, 0, {"deep": 0.0}], "raw": b""}
    with ckptdb.Manager(store, state) as manager:
        manager.restore_or_start()
        assert manager.global_step == 1, manager.global_step
    assert state == {
        "epoch": 3, "name": "ctr", "sizes": [1, 2, {"deep": 4.5}], "raw": b"\\0b"
    }, state
    with ckptdb.Reader(store) as reader, reader.latest() as step:
        assert step.read("name") == "ctr"
"""

# Packages with native code that trainers and servers load, by their modules, and
# calls into that code.
NEIGHBOURS = {
    "faiss": "faiss.IndexFlatL2(4).search(__import__('numpy').zeros((1, 4), 'f4'), 1)",
    "grpc": "grpc.insecure_channel('localhost:1').close()",
    "jax": "jax.numpy.ones(3).sum().block_until_ready()",
    "numpy": "numpy.linalg.inv(numpy.eye(3))",
    "pandas": "pandas.DataFrame({'a': [1, 2]}).sum()",
    "pyarrow": "pyarrow.array([1, 2]).sum()",
    "rocksdict": "use_rocksdict()",
    "tensorstore": "tensorstore.open({'driver': 'zarr', 'kvstore': 'memory://'},"
    " create=True, dtype='int32', shape=[4]).result().write(1).result()",
    "torch": "torch.ones(3, requires_grad=True).sum().backward()",
}

# RocksDB is in both.
USE_ROCKSDICT = """
def use_rocksdict():
    import tempfile
    with tempfile.TemporaryDirectory() as folder:
        db = rocksdict.Rdict(folder)
        db["key"] = "value"
        db.flush()
        assert db["key"] == "value"
        db.close()
"""


def test_import_brings_in_no_array_library() -> None:
    loaded = run("import sys, ckptdb; print(*sys.modules)").split()
    for name in ("numpy", "torch", "jax", "pandas", "pyarrow", "tqdm"):
        assert name not in loaded


def test_state_without_arrays_needs_no_array_library() -> None:
    loaded = run(
        "import sys, ckptdb\n" + SAVE_AND_RESTORE + "print(*sys.modules)"
    ).split()
    assert "ckptdb" in loaded
    assert "numpy" not in loaded


def test_import_time(capsys: pytest.CaptureFixture[str]) -> None:
    """Printed beside that of a bare interpreter; no limit is asserted."""

    def best(code: str) -> float:
        times = []
        for _ in range(5):
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            run(code)
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            times.append(
                after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
            )
        return 1000 * min(times)

    bare, with_ckptdb = best("pass"), best("import ckptdb")
    with capsys.disabled():
        print(
            f"{with_ckptdb - bare:.0f} ms of a processor, besides the {bare:.0f} ms "
            "of a bare interpreter",
            end=" ",
        )


def test_version_is_that_of_the_library() -> None:
    numbers = ckptdb.__version__.split(".")
    assert len(numbers) == 3
    assert all(number.isdigit() for number in numbers)
    try:
        installed = importlib.metadata.version("ckptdb")
    except importlib.metadata.PackageNotFoundError:
        return  # in a build folder
    assert installed == ckptdb.__version__


def test_versions_of_sources_agree() -> None:
    root = pathlib.Path(__file__).parents[2]
    project = root / "pyproject.toml"
    assert f'version = "{ckptdb.__version__}"' in project.read_text()


def test_package_is_typed() -> None:
    folder = pathlib.Path(ckptdb.__file__).parent
    assert (folder / "py.typed").exists()
    stubs = (folder / "_core.pyi").read_text()
    for name in ("Manager", "Reader", "Step", "Table", "SavePolicy"):
        assert f"class {name}" in stubs


def test_public_names_exist() -> None:
    assert "Manager" in ckptdb.__all__
    for name in ckptdb.__all__:
        assert not name.startswith("_")
        assert getattr(ckptdb, name) is not None


def check_beside(names: list[str], *, ckptdb_first: bool) -> None:
    imports = [f"import {name}" for name in names]
    imports.insert(0 if ckptdb_first else len(imports), "import ckptdb")
    calls = "\n".join(NEIGHBOURS[name] for name in names) + "\n"
    code = "\n".join(imports) + USE_ROCKSDICT + calls + SAVE_AND_RESTORE + calls
    assert run(code + "print('done')").endswith("done")


@pytest.mark.parametrize("first", ["ckptdb", "neighbour"])
@pytest.mark.parametrize("name", NEIGHBOURS)
def test_works_beside(name: str, first: str) -> None:
    if importlib.util.find_spec(name) is None:
        pytest.skip(f"{name} is not installed")
    check_beside([name], ckptdb_first=first == "ckptdb")


@pytest.mark.parametrize("first", ["ckptdb", "neighbours"])
def test_works_beside_all(first: str) -> None:
    names = [n for n in NEIGHBOURS if importlib.util.find_spec(n) is not None]
    if not names:
        pytest.skip("none of them is installed")
    check_beside(names, ckptdb_first=first == "ckptdb")
