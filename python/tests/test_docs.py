# SPDX-License-Identifier: Apache-2.0
"""The code of docs/python.md, README.md and the docstrings: it runs, and prints
what the pages show."""

from __future__ import annotations

import builtins
import contextlib
import importlib.util
import inspect
import io
import os
import pathlib
import re
import subprocess
import sys
import textwrap
import typing
from typing import Any

import pytest

import ckptdb
from ckptdb._options import EvolveTable, StoreOptions

ROOT = pathlib.Path(__file__).resolve().parents[2]
BLOCK = re.compile(
    r"^```python\n(.*?)^```\n(?:\n```sh\n.*?^```\n)?(?:\n```text\n(.*?)^```\n)?",
    re.M | re.S,
)
LINK = re.compile(r"\]\(([^)#:]*)(?:#([^)]*))?\)")


def missing_modules(code: str) -> list[str]:
    modules = re.findall(r"^\s*(?:import|from) (\w+)", code, re.M)
    return [name for name in modules if importlib.util.find_spec(name) is None]


def without_times(text: str) -> str:
    return re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", "TIME", text)


def run(code: str, namespace: dict[str, Any], name: str) -> str:
    """What the code prints, with the current folder as /data."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(code, name, "exec"), namespace)
    text = printed.getvalue().replace(str(pathlib.Path.cwd()), "/data")
    return "".join(f"{line.rstrip()}\n" for line in text.splitlines())


def run_ranks(code: str) -> str:
    """What rank 0 prints on 2 ranks, and then on 3."""
    pathlib.Path("train.py").write_text(code)
    printed = ""
    for world in ("2", "3"):
        launch = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node"]
        result = subprocess.run(
            [sys.executable, *launch, world, "train.py"],
            capture_output=True,
            text=True,
            timeout=240,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
        )
        assert result.returncode == 0, result.stderr
        printed += result.stdout
    return printed.replace(str(pathlib.Path.cwd()), "/data")


@pytest.fixture(autouse=True)
def fresh_folder(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_the_page_prints_what_it_shows() -> None:
    pytest.importorskip("numpy")
    page = (ROOT / "docs/python.md").read_text()
    blocks = list(BLOCK.finditer(page))
    assert len(blocks) >= 8
    assert page.count("```python") == len(blocks)
    namespace: dict[str, Any] = {"__name__": "page"}
    ran = 0
    for block in blocks:
        code, shown = block[1], block[2]
        if missing_modules(code):  # a block with PyTorch or JAX stands alone
            continue
        line = page.count("\n", 0, block.start()) + 2
        if "init_process_group" in code:
            printed = run_ranks(code)
        else:
            printed = run("\n" * (line - 1) + code, namespace, "docs/python.md")
        assert without_times(printed) == without_times(shown or ""), f"line {line}"
        ran += 1
    assert ran >= 6


def test_the_example_of_the_readme_is_the_quickstart() -> None:
    readme = (ROOT / "README.md").read_text()
    source = (ROOT / "examples/python/quickstart.py").read_text()
    code = source.partition("# [readme]\n")[2].partition("# [readme end]\n")[0]
    assert code
    assert f"```python\n{code}```\n" in readme


def anchors(page: pathlib.Path) -> set[str]:
    titles = re.findall(r"^#+ (.*)$", page.read_text(), re.M)
    return {re.sub(r"[^\w\- ]", "", t).lower().replace(" ", "-") for t in titles}


def test_links_of_the_page_lead_somewhere() -> None:
    page = ROOT / "docs/python.md"
    links = LINK.findall(page.read_text())
    assert len(links) >= 5
    for path, anchor in links:
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), path
        if anchor:
            assert anchor in anchors(target), f"{path}#{anchor}"


# Words of the page that are no names of this package.
FOREIGN = {
    "CheckpointException", "DataLoader", "NAME", "StorageReader", "StorageWriter",
    "async_save", "checkpoint_id", "ckptdb", "consumer", "delta_tracker",
    "export_batch", "f", "float8_e4m3fn", "insert_or_assign", "io_state", "load_io_state",
    "load_state_dict", "ml_dtypes", "mpi", "spawn", "state_dict", "torch", "torchrec",
    "tracked", "train", "with",
}  # fmt: skip


def test_the_page_names_what_exists() -> None:
    page = (ROOT / "docs/python.md").read_text()
    known = set(dir(ckptdb)) | set(dir(builtins)) | FOREIGN
    for module in (ckptdb, ckptdb.remote):
        known.update(module.__all__)
        for name in module.__all__:
            value = getattr(module, name)
            if inspect.isclass(value):
                known.update(dir(value))
    for method in (
        ckptdb.Manager.__init__,
        ckptdb.Manager.restore,
        ckptdb.Manager.save,
        ckptdb.Step.read,
    ):
        known.update(inspect.signature(method).parameters)
    options = (ROOT / "docs/manager.md").read_text()
    known.update(re.findall(r"^\| `(\w+)` \|", options, re.M))  # the keys
    known.update(typing.get_type_hints(EvolveTable))
    known.update(typing.get_type_hints(StoreOptions))
    prose = re.sub(r"^```.*?^```", "", page, flags=re.M | re.S)
    named = re.findall(
        r"`(?:ckptdb\.|manager\.|step\.)?([A-Za-z]\w+)(?:[(=].*?)?`", prose
    )
    named += re.findall(r"ckptdb\.([A-Za-z]\w+)", page)
    assert len(set(named)) >= 60
    unknown = {name for name in named if name not in known}
    assert unknown == set(), " ".join(unknown)


def test_the_page_lists_each_error() -> None:
    page = (ROOT / "docs/python.md").read_text()
    section = page.partition("\n## Errors\n")[2].partition("\n## ")[0]
    classes = [
        name
        for name, value in vars(ckptdb).items()
        if inspect.isclass(value)
        and issubclass(value, ckptdb.Error)
        and value is not ckptdb.Error
    ]
    assert len(classes) >= 13
    assert [name for name in classes if f"`{name}`" not in section] == []


def docstring_blocks() -> list[Any]:
    """(where, code) of each indented block of a public docstring."""
    found = []

    def add(name: str, value: Any) -> None:
        paragraphs = (inspect.getdoc(value) or "").split("\n\n")
        for number, text in enumerate(paragraphs):
            if number and all(line.startswith("    ") for line in text.split("\n")):
                found.append(pytest.param(textwrap.dedent(text), id=name))

    for module in (ckptdb, ckptdb.remote):
        for name in module.__all__:
            value = getattr(module, name)
            add(name, value)
            if inspect.isclass(value):
                for key, member in vars(value).items():
                    if not key.startswith("_"):
                        add(f"{name}.{key}", member)
    return found


class Layer:
    """A model, an optimizer or a loader, for examples."""

    def __init__(self, np: Any) -> None:
        self.values = {"fc.weight": np.zeros((2, 3), np.float32)}

    def state_dict(self) -> dict[str, Any]:
        return self.values

    def load_state_dict(self, values: dict[str, Any]) -> None:
        self.values = values


class Position:
    """The state of a loader or of meters, for examples."""

    def io_state(self) -> bytes:
        return b"position"

    def load_io_state(self, data: bytes) -> None:
        assert data == b"position"


@pytest.mark.parametrize("code", docstring_blocks())
def test_docstrings_run(code: str) -> None:
    np = pytest.importorskip("numpy")
    from kv_source import Source

    ids = np.arange(8)
    users = ckptdb.Table({"embedding": ("f32", 64), "adagrad": ("f32", 64)})
    users.insert(ids)
    with ckptdb.Manager(
        "ckpt",
        {"model": Layer(np), "user": users},
        save=ckptdb.save_every_n_steps(100),
    ) as manager:
        manager.restore_or_start()
        for _ in range(200):
            manager.step()
    users = ckptdb.Table({"embedding": ("f32", 64), "adagrad": ("f32", 64)})
    namespace = {
        "__name__": "docstring",
        "ckptdb": ckptdb,
        "np": np,
        "model": Layer(np),
        "optimizer": Layer(np),
        "loader": Layer(np),
        "users": users,
        "ids": ids,
        "ids_of_the_batch": ids,
        "gradients": np.ones((8, 64), np.float32),
        "weight": np.zeros((10, 4), np.float32),
        "state_sum": np.zeros((10, 4), np.float32),
        "source": Source(width=65),
        "train": lambda *args: None,
        "evaluate": lambda: None,
        "batches": 2,
        "meters": Position(),
    }
    if "Manager(" in code:  # of another state than the store's
        code = code.replace('"ckpt"', '"another"')
    with contextlib.ExitStack() as stack:
        if "= manager." in code and "Manager(" not in code:
            state = {"user": users}
            manager = ckptdb.Manager("ckpt", state, saving=False)
            namespace["manager"] = stack.enter_context(manager)
            namespace["loader"] = Position()
            manager.restore(evolve={})
        run(code, namespace, "docstring")


def test_docstrings_have_examples() -> None:
    assert len(docstring_blocks()) >= 4
