# SPDX-License-Identifier: Apache-2.0
"""Trainers for test_frameworks.py: prints the digest of the final model. Arguments:
the framework, the store, the steps to train, and the step after which to SIGKILL."""

from __future__ import annotations

import hashlib
import os
import pathlib
import signal
import sys

import torch
from torch import nn

import ckptdb

sys.path.append(str(pathlib.Path(__file__).resolve().parents[2] / "examples/python"))

BATCH = 8
BATCHES = 10  # of an epoch
OPTIONS = {"save": ckptdb.save_every_n_steps(4), "keep": ckptdb.latest_n(2)}


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(6, 16), nn.ReLU(), nn.Dropout(0.3), nn.Linear(16, 1)
        )

    def forward(self, x, labels):
        loss = (self.layers(x) - labels).square().mean()
        return {"loss": loss}


def sample(index):
    x = torch.randn(6, generator=torch.Generator().manual_seed(index))
    return {"x": x, "labels": x.sum(0, keepdim=True)}


def batch(number):
    """The batch of a step, from 0; it is the same in each epoch."""
    first = number % BATCHES * BATCH
    rows = [sample(i) for i in range(first, first + BATCH)]
    return {name: torch.stack([row[name] for row in rows]) for name in rows[0]}


def after_step(step, kill_at, manager):
    if step == kill_at:
        if step % 2:  # otherwise perhaps within a save
            manager.wait_until_finished()
        os.kill(os.getpid(), signal.SIGKILL)


def scheduler_of(optimizer):
    return torch.optim.lr_scheduler.StepLR(optimizer, 3, 0.9)


def train_lightning(path, steps, kill_at):
    import lightning.pytorch as pl
    from lightning_callback import CkptdbCallback

    class Loader:
        """Lightning saves its position."""

        position = 0

        def __len__(self):
            return BATCHES

        def __iter__(self):
            while self.position < BATCHES:
                self.position += 1
                yield batch(self.position - 1)
            self.position = 0

        def state_dict(self):
            return {"position": self.position}

        def load_state_dict(self, state):
            self.position = state["position"]

    class Module(pl.LightningModule):
        def __init__(self):
            super().__init__()
            self.net = Net()

        def training_step(self, batch, batch_idx):
            loss = self.net(**batch)["loss"]
            self.log("loss", loss)
            return loss

        def configure_optimizers(self):
            optimizer = torch.optim.AdamW(self.parameters(), 0.01)
            scheduler = {"scheduler": scheduler_of(optimizer), "interval": "step"}
            return {"optimizer": optimizer, "lr_scheduler": scheduler}

    class Kill(pl.Callback):
        def on_train_batch_end(self, trainer, *_):
            after_step(trainer.global_step, kill_at, callback.manager)

    model = Module()
    callback = CkptdbCallback(path, **OPTIONS)
    pl.Trainer(
        accelerator="cpu",
        max_steps=steps,
        callbacks=[callback, Kill()],
        enable_checkpointing=False,
        enable_progress_bar=False,
        logger=False,
    ).fit(model, Loader())
    return model.net


def train_accelerate(path, steps, kill_at):
    from accelerate import Accelerator
    from accelerate_tracker import CkptdbTracker

    tracker = CkptdbTracker(path, **OPTIONS)
    accelerator = Accelerator(cpu=True, log_with=tracker)
    net = Net()
    optimizer = torch.optim.AdamW(net.parameters(), 0.01)
    samples = [sample(i) for i in range(BATCH * BATCHES)]
    loader = torch.utils.data.DataLoader(samples, BATCH, generator=torch.Generator())
    net, optimizer, scheduler, loader = accelerator.prepare(
        net, optimizer, scheduler_of(optimizer), loader
    )
    accelerator.init_trackers("run")
    step = tracker.restore(
        {"model": net, "optimizer": optimizer, "scheduler": scheduler}
    )
    while step < steps:
        for rows in accelerator.skip_first_batches(loader, step % BATCHES):
            loss = net(**rows)["loss"]
            accelerator.backward(loss)
            optimizer.step()
            scheduler.step()
            optimizer.zero_grad()
            step += 1
            accelerator.log({"loss": loss.item()}, step=step)
            after_step(step, kill_at, tracker.manager)
            if step == steps:
                break
    accelerator.end_training()
    return net


def train_transformers(path, steps, kill_at):
    import transformers
    from hf_trainer_callback import CkptdbCallback

    class Stream(torch.utils.data.IterableDataset):
        start = 0

        def seek(self, samples):
            self.start = samples

        def __iter__(self):
            for i in range(self.start, steps * BATCH):
                yield sample(i % (BATCH * BATCHES))

    class Kill(transformers.TrainerCallback):
        def on_step_end(self, args, state, control, **_):
            after_step(state.global_step, kill_at, callback.manager)

    net, data = Net(), Stream()
    callback = CkptdbCallback(path, data.seek, **OPTIONS)
    arguments = transformers.TrainingArguments(
        output_dir=path + "-output",
        max_steps=steps,
        per_device_train_batch_size=BATCH,
        learning_rate=0.01,
        lr_scheduler_type="constant_with_warmup",
        warmup_steps=10,
        logging_steps=5,
        save_strategy="no",
        report_to="none",
        disable_tqdm=True,
        use_cpu=True,
    )
    transformers.Trainer(
        net, arguments, train_dataset=data, callbacks=[callback, Kill()]
    ).train()
    return net


def main(framework, path, steps, kill_at=0):
    torch.manual_seed(1)
    trainers = {
        "lightning": train_lightning,
        "accelerate": train_accelerate,
        "transformers": train_transformers,
    }
    net = trainers[framework](path, int(steps), int(kill_at))
    digest = hashlib.sha256()
    for weight in net.state_dict().values():
        digest.update(weight.numpy().tobytes())
    print("digest", digest.hexdigest())


if __name__ == "__main__":
    main(*sys.argv[1:])
