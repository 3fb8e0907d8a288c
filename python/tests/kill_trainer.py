# SPDX-License-Identifier: Apache-2.0
"""A trainer for test_processes.py, which is killed and started again: prints the
digest of its final state. Arguments: the store, and the steps to train."""

from __future__ import annotations

import hashlib
import sys

import numpy as np

import ckptdb


def main(path: str, steps: int) -> None:
    table = ckptdb.Table({"v": ("f32", 8), "m": ("f32", 8)}, optimizer_slots=["m"])
    head = np.zeros((64, 8), "f4")
    items = np.zeros((500, 4))
    item_table = ckptdb.ArrayTable({"w": items})
    state = {
        "t": table,
        "items": item_table,
        "head": head,
        "optimizer": {"step": 0, "moments": [np.zeros(8), (1.0, "x")]},
        "loss": float("inf"),
    }
    with ckptdb.Manager(
        path,
        state,
        save=ckptdb.save_every_n_steps(3),
        keep=ckptdb.latest_n(3),
        max_deltas=5,
    ) as manager:
        manager.restore_or_start()
        print("begins at", manager.global_step, file=sys.stderr, flush=True)
        for step in range(manager.global_step, steps):
            generator = np.random.default_rng(step)  # the batch of this step
            ids = generator.integers(0, 3000, 200)
            unique = np.unique(ids)
            rows = table.insert(unique)
            moments = table["m"][rows] * np.float32(0.9) + generator.random(
                (len(unique), 8), "f4"
            )
            table["m"].put(rows, moments)
            table["v"].put(rows, table["v"][rows] - np.float32(0.1) * moments)
            table.erase(generator.integers(0, 3000, 3))
            touched = np.unique(generator.integers(0, 500, 20))
            items[touched] += generator.random((len(touched), 4))
            item_table.mark(touched)
            head += table["v"][rows[:1]] * np.float32(0.01)
            optimizer = state["optimizer"]
            optimizer["step"] += 1
            optimizer["moments"][0] += generator.random(8)
            state["loss"] = float(head.sum())
            manager.step(metrics={"loss": state["loss"]})
    digest = hashlib.sha256()
    ids, rows = table.rows()
    order = np.argsort(ids)
    for part in (
        ids[order],
        table["v"][rows[order]],
        table["m"][rows[order]],
        items,
        head,
        state["optimizer"]["moments"][0],
    ):
        digest.update(np.ascontiguousarray(part).tobytes())
    digest.update(repr((state["optimizer"]["step"], state["loss"])).encode())
    print(digest.hexdigest())


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
