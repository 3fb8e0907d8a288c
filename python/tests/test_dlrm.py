# SPDX-License-Identifier: Apache-2.0
"""The examples of TorchRec, on gloo and CPU."""

from __future__ import annotations

import os
import pathlib
import re
import subprocess
import sys
import time

import pytest

import ckptdb

pytest.importorskip("numpy")
pytest.importorskip("torch")
pytest.importorskip("torchrec")


def torchrun(world: int, *args: object, code: int = 0) -> list[str]:
    launch = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node"]
    example = pathlib.Path(__file__).resolve().parents[2]
    example = example / "examples/python/dlrm_torchrec.py"
    result = subprocess.run(
        [sys.executable, *launch, str(world), str(example), *map(str, args)],
        capture_output=True,
        text=True,
        timeout=240,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    assert result.returncode == code, result.stderr
    return result.stdout.splitlines()


def test_the_example_resumes_on_any_number_of_ranks(tmp_path):
    args = ("--batch", 32, "--save-every", 5)
    calm = torchrun(2, "--store", tmp_path / "calm", "--steps", 12, *args)
    args = ("--store", tmp_path / "killed", *args)
    torchrun(2, *args, "--steps", 12, "--crash-at", 8, code=1)
    resumed = torchrun(2, *args, "--steps", 12)
    assert resumed[0].startswith("restored step 5 ")
    assert resumed[-1] == calm[-1]
    for world in (1, 3):
        (restored, digest) = torchrun(world, *args, "--steps", 12)
        assert restored.startswith("restored step 12 ")
        assert restored.endswith(calm[-1])
        assert digest == calm[-1]
    with ckptdb.Reader(tmp_path / "killed") as reader:
        assert reader.steps()[-1].kind == "delta"
    # Three ranks do not divide the batch.
    trained = torchrun(3, *args, "--steps", 17)
    assert trained[0].startswith("restored step 12 ") and trained[-1] != calm[-1]


def test_the_example_is_evaluated_and_served_meanwhile(tmp_path):
    store = tmp_path / "store"
    examples = pathlib.Path(__file__).resolve().parents[2] / "examples/python"

    def start(name: str, *args: object) -> subprocess.Popen:
        return subprocess.Popen(
            [
                sys.executable,
                str(examples / name),
                "--store",
                str(store),
                *map(str, args),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=(tmp_path / name).open("w"),
            text=True,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
        )

    def ask_until(step: int) -> float:
        end = time.monotonic() + 120
        while time.monotonic() < end:
            server.stdin.write("7\n")
            server.stdin.flush()
            answer = server.stdout.readline()
            if answer.startswith(f"step {step}: example 7 "):
                return float(answer.split()[-1])
            time.sleep(0.1)
        raise AssertionError((tmp_path / "dlrm_server.py").read_text())

    server = start("dlrm_server.py")
    evaluator = start("dlrm_evaluator.py", "--until-step", 12)
    try:
        args = ("--store", store, "--batch", 32, "--save-every", 5)
        torchrun(2, *args, "--steps", 5)
        before = ask_until(5)
        torchrun(2, *args, "--steps", 12)
        after = ask_until(12)
        evaluated, _ = evaluator.communicate(timeout=120)
        server.communicate(timeout=60)
    finally:
        server.kill()
        evaluator.kill()
    assert server.returncode == evaluator.returncode == 0
    assert 0 < before < 1 and 0 < after < 1 and before != after
    told = (tmp_path / "dlrm_server.py").read_text()
    first, *others = re.findall(r": (all|changed) rows$", told, re.M)
    assert first == "all" and others and set(others) == {"changed"}
    assert re.search(r"^step 12: auc 0\.\d+$", evaluated, re.M)
    with ckptdb.Reader(store) as reader:
        assert 0 < reader.steps()[-1].metrics["auc"] < 1
        assert 5 in [record.step for record in reader.steps()]
