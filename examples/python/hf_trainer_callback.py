# SPDX-License-Identifier: Apache-2.0
"""Saves and resumes a training with the Trainer of Hugging Face's transformers:

    callback = CkptdbCallback("ckpt", data.seek, save=ckptdb.save_every_n_steps(100))
    arguments = TrainingArguments(save_strategy="no", max_steps=10_000, ...)
    Trainer(model, arguments, train_dataset=data, callbacks=[callback]).train()

`seek(n)` is called before a resumed training: the data begins after the n samples
that were trained.
"""

import ckptdb
from transformers import TrainerCallback

from rng import Rng


class CkptdbCallback(TrainerCallback):
    def __init__(self, path, seek, **options):
        self.path, self.seek, self.options = path, seek, options
        self.rng = Rng()
        self.manager = None

    def on_train_begin(
        self, args, state, control, model, optimizer, lr_scheduler, **kwargs
    ):
        saved = {
            "model": model,
            "optimizer": optimizer,
            "scheduler": lr_scheduler,
            "log": state.log_history,
            "rng": self.rng,
        }
        self.manager = ckptdb.Manager(self.path, saved, **self.options)
        print(self.manager.restore_or_start())
        state.global_step = self.manager.global_step
        batch = args.train_batch_size * args.gradient_accumulation_steps
        self.finished = state.global_step >= state.max_steps
        self.seek(0 if self.finished else state.global_step * batch)

    def on_step_begin(self, args, state, control, **kwargs):
        self.rng.apply()
        self.rng.restored = None

    def on_step_end(self, args, state, control, **kwargs):
        if self.finished:  # the Trainer always trains a step, which is undone here
            self.manager.restore()
            state.global_step = self.manager.global_step
            control.should_training_stop = True
        elif self.manager.step_to(state.global_step).preempted:
            control.should_training_stop = True

    def on_train_end(self, args, state, control, **kwargs):
        self.manager.finish_training()
        self.manager.close()
