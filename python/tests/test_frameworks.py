# SPDX-License-Identifier: Apache-2.0
"""The callbacks of examples/python for training frameworks."""

from __future__ import annotations

import os
import pathlib
import re
import signal
import subprocess
import sys

import pytest

import ckptdb

FOLDER = pathlib.Path(__file__).resolve().parent
EXAMPLES = FOLDER.parents[1] / "examples/python"
CALLBACKS = {
    "lightning": "lightning_callback.py",
    "accelerate": "accelerate_tracker.py",
    "transformers": "hf_trainer_callback.py",
}


def train(framework: str, path: pathlib.Path, steps: int, kill_at: int = 0) -> str:
    """What the trainer prints."""
    result = subprocess.run(
        [
            sys.executable,
            str(FOLDER / "framework_trainers.py"),
            *[framework, str(path), str(steps), str(kill_at)],
        ],
        capture_output=True,
        text=True,
        timeout=300,
        env={
            **os.environ,
            "CUDA_VISIBLE_DEVICES": "",
            "HF_HUB_OFFLINE": "1",
            "PYTHONUNBUFFERED": "1",
        },
    )
    expected = -signal.SIGKILL if kill_at else 0
    assert result.returncode == expected, result.stdout + result.stderr
    return result.stdout


def digest_of(printed: str) -> str:
    return re.findall("^digest .*", printed, re.M)[0]


@pytest.mark.parametrize("framework", CALLBACKS)
def test_a_killed_training_ends_as_an_uninterrupted_one(tmp_path, framework):
    pytest.importorskip("torch")
    pytest.importorskip(framework)
    calm = train(framework, tmp_path / "calm", 30)
    assert "fresh start" in calm
    path = tmp_path / "killed"
    train(framework, path, 30, 7)  # within the first epoch, after a save
    assert "restored step 4 " in train(framework, path, 30, 20)
    printed = train(framework, path, 25)  # ends early, within an epoch
    restored = int(re.findall(r"restored step (\d+) ", printed)[0])
    assert restored in (16, 20)
    printed = train(framework, path, 30)
    assert "restored step 25 " in printed
    assert digest_of(printed) == digest_of(calm)
    printed = train(framework, path, 30)  # which has ended
    assert "restored step 30 " in printed
    assert digest_of(printed) == digest_of(calm)
    with ckptdb.Reader(path) as reader:
        assert reader.steps()[-1].step == 30


@pytest.mark.parametrize("framework", CALLBACKS)
def test_callbacks_are_short(framework):
    lines = (EXAMPLES / CALLBACKS[framework]).read_text().splitlines()
    assert len(lines) <= 60
