# SPDX-License-Identifier: Apache-2.0
"""The page about a store."""

from __future__ import annotations

import re
import shutil
import subprocess

import numpy as np
import pytest

import ckptdb


def test_report(path, tmp_path):
    state = {"w": np.zeros(4, "f4")}
    statistics = tmp_path / "saves.jsonl"
    with ckptdb.Manager(
        path,
        state,
        save=ckptdb.save_every_n_steps(1),
        statistics_path=str(statistics),
    ) as manager:
        manager.step(metrics={"auc": 0.5})
        manager.step(metrics={"auc": 0.75})
        manager.wait_until_finished()
        # The store is open.
        out = tmp_path / "page.html"
        ckptdb.report(path, out, statistics=statistics)
    page = out.read_text()
    assert '"auc":0.75' in page
    assert '"blocking_micros":' in page
    assert "Chart.js v" in page and "<script src" not in page
    with pytest.raises(ckptdb.AlreadyExists, match="exists"):
        ckptdb.report(path, out)
    ckptdb.report(path, out, force=True)
    with pytest.raises(ckptdb.NotFound):
        ckptdb.report(tmp_path / "none", tmp_path / "other.html")
    assert not (tmp_path / "other.html").exists()


CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")


@pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed")
def test_the_page_is_drawn_without_errors(path, tmp_path):
    name = "</script><b>w"
    rng = np.random.default_rng(1)
    table = ckptdb.Table({"embedding": ("f32", 4)})
    table["embedding"].put(table.insert(np.arange(9)), rng.random((9, 4), "f4"))
    state = {"user": table, name: rng.random(64, "f4")}
    with ckptdb.Manager(path, state, save=ckptdb.save_every_n_steps(1)) as manager:
        for loss in (0.5, float("nan"), 0.25):
            manager.step(metrics={"loss": loss})
            manager.wait_until_finished()
            state[name] += 1
    page = tmp_path / "page.html"
    ckptdb.report(path, page)
    options = [
        "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run",
        f"--user-data-dir={tmp_path / 'profile'}", "--virtual-time-budget=20000",
        "--enable-logging=stderr", "--dump-dom",
    ]  # fmt: skip
    drawn = subprocess.run(
        [CHROMIUM, *options, page.as_uri()], capture_output=True, text=True, timeout=60
    )
    assert drawn.returncode == 0, drawn.stderr
    assert "Uncaught" not in drawn.stderr and "CONSOLE" not in drawn.stderr
    canvases = re.findall(r"<canvas [^>]*>", drawn.stdout)
    assert len(canvases) > 6
    # Chart.js has given each its size.
    assert all("width: " in each and "height: " in each for each in canvases)
    assert "&lt;/script&gt;&lt;b&gt;w" in drawn.stdout and "<b>w" not in drawn.stdout
