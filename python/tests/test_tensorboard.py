# SPDX-License-Identifier: Apache-2.0
"""Scalars for TensorBoard, read back by TensorBoard itself."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

import ckptdb


def train(path, statistics):
    with ckptdb.Manager(
        path,
        {"w": np.zeros(4, "f4")},
        save=ckptdb.save_every_n_steps(1),
        keep=ckptdb.latest_n(1),
        statistics_path=str(statistics),
    ) as manager:
        for auc in (0.5, 0.75, float("nan")):
            manager.step(metrics={"auc": auc})
        manager.wait_until_finished()


def scalars(logdir):
    """Values by tag and step."""
    loader = pytest.importorskip(
        "tensorboard.backend.event_processing.event_file_loader"
    )
    (file,) = logdir.iterdir()
    return {
        (value.tag, event.step): value.simple_value or sum(value.tensor.float_val)
        for event in loader.EventFileLoader(str(file)).Load()
        for value in event.summary.value
    }


def test_scalars(path, tmp_path):
    pytest.importorskip("tensorboard")
    statistics = tmp_path / "saves.jsonl"
    train(path, statistics)
    logdir = tmp_path / "runs"
    assert ckptdb.to_tensorboard(path, logdir) == 6
    found = scalars(logdir)
    assert np.isnan(found["metrics/auc", 3])
    assert found["store/bytes", 3] == 16
    with pytest.raises(ckptdb.AlreadyExists, match="exists"):
        ckptdb.to_tensorboard(path, logdir)
    # Removed steps are in the statistics; one line is still being written.
    with open(statistics, "a") as file:
        file.write('{"event": "save", "step": 4')
    ckptdb.to_tensorboard(path, logdir, statistics=statistics, force=True)
    found = scalars(logdir)
    assert found["metrics/auc", 2] == 0.75
    assert ("save/blocking_seconds", 1) in found
    assert found["store/bytes", 3] == 16


def test_command(path, tmp_path):
    pytest.importorskip("tensorboard")
    train(path, tmp_path / "saves.jsonl")
    words = [sys.executable, "-m", "ckptdb", "tensorboard", tmp_path / "runs"]
    words = [*map(str, words), "-s", path]
    done = subprocess.run(words, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0 and "6 scalars" in done.stdout, done.stderr
    again = subprocess.run(words, capture_output=True, text=True, timeout=120)
    assert again.returncode == 5 and "--force" in again.stderr


def test_errors(path, tmp_path):
    with pytest.raises((ckptdb.NotFound, ckptdb.Unimplemented)):
        ckptdb.to_tensorboard(tmp_path / "none", tmp_path / "runs")
    assert not (tmp_path / "runs").exists()
