# SPDX-License-Identifier: Apache-2.0
"""What `Manager.step` costs ranks over torch.distributed when no step is due:

    PYTHONPATH=build/release/python torchrun --standalone --nproc-per-node 4 \\
        bench/rank_steps.py FOLDER [STEPS [MILLISECONDS]]

Prints microseconds of a step, of all ranks together, from the first step on, and how
often the ranks met. Between two steps each rank sleeps for some milliseconds, by
default none: then ranks wait for notices that steps of a training would hide.
"""

from __future__ import annotations

import os
import statistics
import sys
import time

import ckptdb
import torch
import torch.distributed as dist


def main() -> None:
    folder = sys.argv[1]
    steps = int(sys.argv[2]) if len(sys.argv) > 2 else 1000
    pause = float(sys.argv[3]) / 1000 if len(sys.argv) > 3 else 0
    dist.init_process_group("gloo")
    micros, meetings = [], 0
    with ckptdb.Manager(
        os.path.join(folder, "rank_steps"),
        {"weight": torch.zeros(1)},
        save=ckptdb.save_at_steps([10 * steps]),
        ranks=ckptdb.torch.ranks(deadline=60),
    ) as manager:
        manager.restore_or_start()
        for _ in range(steps):
            if pause:
                time.sleep(pause)
            begin = time.perf_counter()
            outcome = manager.step()
            micros.append((time.perf_counter() - begin) * 1e6)
            if not outcome.reason.startswith("the ranks did not meet"):
                meetings += 1
    everyone: list = [None] * dist.get_world_size()
    dist.all_gather_object(everyone, micros)
    if dist.get_rank() == 0:
        each = [value for values in everyone for value in values]
        later = [value for values in everyone for value in values[2:]]
        print(
            f"{len(everyone)} ranks, {steps} steps, {meetings} meetings: a step takes "
            f"{statistics.median(each):.2f} us (median), {statistics.mean(each):.2f} us "
            f"(mean), {statistics.mean(later):.2f} us (mean without the first two); "
            f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores"
        )
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
