# SPDX-License-Identifier: Apache-2.0
"""The Python example of README.md: a table of users and a tensor.

    python quickstart.py FOLDER

Run it twice: the second run restores the last step of the first.
"""

import sys

folder = sys.argv[1]

# [readme]
import ckptdb
import numpy as np

users = ckptdb.Table({"embedding": ("f32", 16)})
state = {"user": users, "weight": np.zeros(8, np.float32)}
with ckptdb.Manager(
    folder,
    state,
    save=ckptdb.save_every_n_steps(100),
    keep=ckptdb.latest_n(3) | ckptdb.best_n("auc", 2),
) as manager:
    print(manager.restore_or_start())
    for step in range(manager.global_step, 1000):
        rows = users.insert([17])  # the rows of these ids, marked as changed
        users["embedding"].put(rows, np.full((1, 16), step, np.float32))  # trains
        state["weight"] += 1
        manager.step(metrics={"auc": 0.75})
    values = users["embedding"][users.find([17])]
    print(f"step {manager.global_step}: user 17 has {values[0, 0]:g}")
# [readme end]
