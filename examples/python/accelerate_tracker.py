# SPDX-License-Identifier: Apache-2.0
"""Saves and resumes a training with Accelerate, by a tracker that counts its steps:

    tracker = CkptdbTracker("ckpt", save=ckptdb.save_every_n_steps(100))
    accelerator = Accelerator(log_with=tracker)
    model, optimizer, scheduler, loader = accelerator.prepare(...)
    accelerator.init_trackers("run")
    first = tracker.restore({"model": model, "optimizer": optimizer, ...})
    for step in range(first, steps):
        ...
        accelerator.log({"loss": loss.item()}, step=step + 1)
    accelerator.end_training()

`accelerator.skip_first_batches(loader, first % len(loader))` continues an epoch. Give
the loader a `generator`, so that it does not draw from PyTorch's.
"""

import ckptdb
from accelerate.tracking import GeneralTracker

from rng import Rng


class CkptdbTracker(GeneralTracker):
    name = "ckptdb"
    requires_logging_directory = False

    def __init__(self, path, **options):
        super().__init__()
        self.path, self.options = path, options
        self.rng = Rng()
        self.manager = None
        self.preempted = False

    @property
    def tracker(self):
        return self.manager

    def restore(self, state):
        """Restores the newest step, and returns its number."""
        state = {**state, "rng": self.rng}
        self.manager = ckptdb.Manager(self.path, state, **self.options)
        print(self.manager.restore_or_start())
        return self.manager.global_step

    def log(self, values, step=None, **kwargs):
        metrics = {k: float(v) for k, v in values.items() if not isinstance(v, str)}
        self.preempted = self.manager.step_to(step, metrics).preempted

    def finish(self):
        self.manager.finish_training()
        self.manager.close()
