# SPDX-License-Identifier: Apache-2.0
"""The programs of examples/python."""

from __future__ import annotations

import contextlib
import importlib.util
import pathlib
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

import ckptdb

EXAMPLES = pathlib.Path(__file__).resolve().parents[2] / "examples/python"

needs_torch = pytest.mark.skipif(
    importlib.util.find_spec("torch") is None, reason="PyTorch is not installed"
)


def command(program: str, *args: object) -> list[str]:
    return [sys.executable, str(EXAMPLES / program), *map(str, args)]


def run(program: str, *args: object, code: int = 0) -> list[str]:
    """The lines that a program prints."""
    result = subprocess.run(
        command(program, *args), capture_output=True, text=True, timeout=240
    )
    assert result.returncode == code, result.stderr
    return result.stdout.splitlines()


@contextlib.contextmanager
def started(program: str, *args: object, **pipes: Any) -> Iterator[Any]:
    with subprocess.Popen(
        command(program, *args), stdout=subprocess.PIPE, text=True, **pipes
    ) as process:
        try:
            yield process
            process.wait(timeout=240)
        finally:
            process.kill()


def digest_of(lines: list[str]) -> str:
    assert lines[-1].startswith("digest ")
    return lines[-1]


@pytest.fixture
def store(tmp_path: pathlib.Path) -> pathlib.Path:
    return tmp_path / "store"


def test_quickstart_prints_what_the_readme_shows(store: pathlib.Path) -> None:
    pytest.importorskip("numpy")
    readme = (EXAMPLES.parents[1] / "README.md").read_text()
    for before in ("it prints", "and the second time"):
        shown = readme.partition(f"{before}\n\n```text\n")[2].partition("```")[0]
        assert shown
        printed = "\n".join(run("quickstart.py", store)) + "\n"
        assert printed.replace(str(store), "/data/users") == shown


@needs_torch
def test_killed_trainer_ends_as_an_uninterrupted_one(tmp_path: pathlib.Path) -> None:
    calm = run("two_tower.py", "--store", tmp_path / "calm", "--steps", 50)
    args = ("--store", tmp_path / "killed", "--save-every", 20, "--steps", 50)
    run("two_tower.py", *args, "--crash-at", 33, code=-signal.SIGKILL)
    lines = run("two_tower.py", *args)
    assert lines[0].startswith("restored step 20 ")
    assert digest_of(lines) == digest_of(calm)


@needs_torch
def test_trainer_reads_movielens(tmp_path: pathlib.Path) -> None:
    data = tmp_path / "u.data"
    data.write_text("".join(f"{i}\t{i % 7 + 1}\t{i % 5 + 1}\t9\n" for i in range(400)))
    args = ("--steps", 20, "--batch", 32, "--data", data)
    lines = run("two_tower.py", "--store", tmp_path / "store", *args)
    generated = run("two_tower.py", "--store", tmp_path / "other", *args[:4])
    assert digest_of(lines) != digest_of(generated)
    with ckptdb.Reader(tmp_path / "store") as reader, reader.latest() as step:
        assert step.record.step == 20
        ids = step.table("user").read().ids
        assert 100 < len(ids) <= 360
        assert all(user % 10 != 9 for user in ids)  # those are held out


@needs_torch
def test_sigterm_ends_the_trainer_with_a_save(store: pathlib.Path) -> None:
    args = ("--store", store, "--save-every", 5, "--steps", 1000000)
    with started("two_tower.py", *args) as trainer:
        for line in trainer.stdout:
            if line.startswith("step 5:"):
                break
        trainer.send_signal(signal.SIGTERM)
        lines = trainer.stdout.read().splitlines()
    assert trainer.returncode == 0
    [last] = [line for line in lines if line.startswith("preempted")]
    with ckptdb.Reader(store) as reader:
        assert last == f"preempted at step {reader.steps()[-1].step}"


@needs_torch
def test_evaluator_and_server_follow_the_trainer(store: pathlib.Path) -> None:
    pipes = {"stdin": subprocess.PIPE, "stderr": subprocess.PIPE}
    with (
        started("server.py", "--store", store, **pipes) as server,
        started("evaluator.py", "--store", store, "--until-step", 60) as evaluator,
    ):
        run("two_tower.py", "--store", store, "--save-every", 20, "--steps", 60)
        assert evaluator.stdout.read().count("auc") >= 1
        for line in server.stderr:
            if line.startswith("restored step 60 "):
                break
        server.stdin.write("17\n-5\n")
        server.stdin.close()
        known, unknown = server.stdout.read().splitlines()
    assert evaluator.returncode == 0
    assert server.returncode == 0
    assert re.fullmatch(r"step 60: user 17 gets \[(\d+, ){4}\d+\]", known)
    assert unknown == "step 60: user -5 gets []"
    # The trainer ended before the last metrics were posted, and readers see them.
    with ckptdb.Reader(store) as reader:
        posted = reader.find(60).metrics
    assert 0.4 < posted["auc"] <= 1
    assert posted.keys() == {"auc", "loss"}
