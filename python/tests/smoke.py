# SPDX-License-Identifier: Apache-2.0
"""Saves, restores and reads with an installed package; tools/wheel.sh runs it.

smoke.py            what needs no other package
smoke.py arrays     tables and arrays, with NumPy
"""

from __future__ import annotations

import pathlib
import sys
import tempfile
from typing import Any

import ckptdb


def state(epoch: int) -> dict[str, Any]:
    made: dict[str, Any] = {"epoch": epoch, "tags": ["a", epoch], "raw": b"\0" * epoch}
    if sys.argv[1:] == ["arrays"]:
        import numpy as np

        made["weight"] = np.full((3, 4), epoch, np.float32)
        made["user"] = ckptdb.Table({"embedding": ("f32", 8)})
    return made


def main() -> None:
    assert {"numpy", "torch", "jax"}.isdisjoint(sys.modules)
    with tempfile.TemporaryDirectory() as folder:
        store = pathlib.Path(folder) / "store"
        saved = state(7)
        keep = ckptdb.latest_n(2) | ckptdb.best_n("auc", 1)
        save = ckptdb.save_every_n_steps(1)
        with ckptdb.Manager(store, saved, save=save, keep=keep) as manager:
            manager.restore_or_start()
            if "user" in saved:
                rows = saved["user"].insert([5, 2**40])
                saved["user"]["embedding"].put(rows, [[1.0] * 8, [2.0] * 8])
            manager.step(metrics={"auc": 0.5})

        restored = state(0)
        with ckptdb.Manager(store, restored, save=save) as manager:
            manager.restore_or_start()
            assert manager.global_step == 1
        for name in ("epoch", "tags", "raw"):
            assert restored[name] == saved[name], name

        with ckptdb.Reader(store) as reader, reader.latest() as step:
            assert step.read("epoch") == 7
            if "user" in saved:
                assert (restored["weight"] == 7).all()
                assert len(restored["user"]) == 2
                found, values = step.table("user").lookup([2**40, 6])
                assert found.tolist() == [True, False]
                assert values["embedding"][0].tolist() == [2.0] * 8

        target = f"file://{folder}/remote"
        assert ckptdb.remote.push(store, target).shipped == [1]
        ckptdb.remote.fetch(target, pathlib.Path(folder) / "fetched")
        with ckptdb.Reader(f"{folder}/fetched") as reader, reader.latest() as step:
            assert step.read("epoch") == 7
    print(f"ckptdb {ckptdb.__version__} works under Python {sys.version.split()[0]}")


if __name__ == "__main__":
    main()
