# SPDX-License-Identifier: Apache-2.0
"""The command `ckptdb` on a store that Python has saved."""

from __future__ import annotations

import pathlib
import shutil
import subprocess

import numpy as np
import pytest

import ckptdb

_BESIDE = pathlib.Path(ckptdb.__file__).parents[2] / "bin" / "ckptdb"
TOOL = str(_BESIDE) if _BESIDE.exists() else shutil.which("ckptdb")
pytestmark = pytest.mark.skipif(TOOL is None, reason="the command is not installed")


def flip_bit(file: pathlib.Path) -> None:
    file.chmod(0o644)
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)


def test_nan_is_found_beside_a_damaged_step(path):
    weight = np.zeros(3_000_000, np.float32)
    with ckptdb.Manager(
        path, {"w": weight}, save=ckptdb.save_every_n_steps(1), keep=ckptdb.keep_all()
    ) as manager:
        manager.step()
        manager.wait_until_finished()
        first = max(
            pathlib.Path(path).rglob("*.sst"), key=lambda file: file.stat().st_size
        )
        weight[5] = np.nan
        manager.step()
        manager.wait_until_finished()
    words = [str(TOOL), "nan", "-s", path]
    whole = subprocess.run(words, capture_output=True, text=True, timeout=60)
    assert whole.returncode == 0 and "FIRST STEP" in whole.stdout
    flip_bit(first)
    damaged = subprocess.run(words, capture_output=True, text=True, timeout=60)
    assert damaged.returncode == 3
    assert "in 1 of 1 tensors" in damaged.stdout and "3,000,000" in damaged.stdout
    assert "the first steps are unknown: step 1 " in damaged.stderr
