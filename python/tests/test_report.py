# SPDX-License-Identifier: Apache-2.0
"""The page about a store."""

from __future__ import annotations

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
