# SPDX-License-Identifier: Apache-2.0
"""What `Manager.step` costs ranks over torch.distributed when no step is due:

    PYTHONPATH=build/release/python torchrun --standalone --nproc-per-node 4 \\
        bench/rank_steps.py FOLDER [STEPS]

Prints microseconds of a step, of all ranks together, and the collectives that the
steps without a meeting of the ranks have made, which must be none.
"""

from __future__ import annotations

import os
import statistics
import sys
import time

import ckptdb
import torch
import torch.distributed as dist
from ckptdb.torch import _ranks


def count_collectives() -> list[int]:
    """A list with the number of collectives that are made from now on."""
    made = [0]
    run = _ranks._Collectives._run

    def counted(self, start):
        made[0] += 1
        run(self, start)

    _ranks._Collectives._run = counted
    return made


def main() -> None:
    folder = sys.argv[1]
    steps = int(sys.argv[2]) if len(sys.argv) > 2 else 1000
    dist.init_process_group("gloo")
    made = count_collectives()
    micros, meetings, silent_collectives = [], 0, 0
    with ckptdb.Manager(
        os.path.join(folder, "rank_steps"),
        {"weight": torch.zeros(1)},
        save=ckptdb.save_at_steps([10 * steps]),
        ranks=ckptdb.torch.ranks(deadline=60),
    ) as manager:
        manager.restore_or_start()
        for _ in range(steps):
            before = made[0]
            begin = time.perf_counter()
            outcome = manager.step()
            micros.append((time.perf_counter() - begin) * 1e6)
            if outcome.reason.startswith("the ranks did not meet"):
                silent_collectives += made[0] - before
            else:
                meetings += 1
    everyone: list = [None] * dist.get_world_size()
    dist.all_gather_object(everyone, (micros, silent_collectives))
    if dist.get_rank() == 0:
        each = [value for values, _ in everyone for value in values]
        print(
            f"{len(everyone)} ranks, {steps} steps, {meetings} meetings: a step takes "
            f"{statistics.median(each):.2f} us (median), {statistics.mean(each):.2f} us "
            f"(mean); collectives of the other steps: {sum(n for _, n in everyone)}; "
            f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores"
        )
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
