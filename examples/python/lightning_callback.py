# SPDX-License-Identifier: Apache-2.0
"""Saves and resumes a training of PyTorch Lightning:

    callback = CkptdbCallback("ckpt", save=ckptdb.save_every_n_steps(100))
    Trainer(callbacks=[callback], enable_checkpointing=False).fit(model, loader)

It continues within an epoch if the loader has `state_dict` and `load_state_dict`,
which Lightning calls. Give the loader a `generator`, so that it does not draw from
PyTorch's.
"""

import ckptdb
from lightning.pytorch import Callback

from rng import Rng


class CkptdbCallback(Callback):
    def __init__(self, path, **options):
        self.path, self.options = path, options
        self.rng = Rng()
        self.manager = None

    def on_fit_start(self, trainer, pl_module):
        others = [each for each in trainer.callbacks if each is not self]
        state = {
            "model": pl_module,
            "optimizers": trainer.optimizers,
            "schedulers": [each.scheduler for each in trainer.lr_scheduler_configs],
            "loops": trainer.fit_loop,  # steps, epochs, and the loader's position
            "callbacks": {each.state_key: each for each in others},
            "rng": self.rng,
        }
        self.manager = ckptdb.Manager(self.path, state, **self.options)
        print(self.manager.restore_or_start())

    def on_train_batch_start(self, trainer, pl_module, batch, batch_idx):
        self.rng.apply()
        self.rng.restored = None

    def on_train_batch_end(self, trainer, pl_module, outputs, batch, batch_idx):
        if trainer.global_step == self.manager.global_step:
            return  # gradients are accumulated
        metrics = {name: float(v) for name, v in trainer.callback_metrics.items()}
        if self.manager.step_to(trainer.global_step, metrics).preempted:
            trainer.should_stop = True

    def on_fit_end(self, trainer, pl_module):
        self.manager.finish_training()
        self.manager.close()

    def on_exception(self, trainer, pl_module, exception):
        if self.manager is not None:
            self.manager.close()
