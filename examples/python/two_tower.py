# SPDX-License-Identifier: Apache-2.0
"""A two-tower recommender in plain PyTorch: which movies does a user like?

    python two_tower.py --store ckpt --steps 1000 [--data ml-100k/u.data]

It resumes from the newest step of the store, and ends with the same digest
however often it was killed. SIGTERM ends it with a save. User embeddings are in
a `ckptdb.Table`, which grows; item embeddings are those of an `nn.Embedding`.
evaluator.py and server.py follow it from other processes.
"""

import argparse
import hashlib
import json
import os
import signal

import ckptdb
import numpy as np
import torch
from torch import nn

DIM = 16
ITEMS = 1683  # the ids of MovieLens 100K are 1 to 1682
RATE = 0.05


def load_ratings(path):
    """User ids, item ids and likes (1 or 0) of MovieLens' u.data, or generated
    ones: user u likes the items of its kind."""
    if path:
        table = np.loadtxt(path, np.int64)
        return table[:, 0], table[:, 1], (table[:, 2] >= 4).astype(np.float32)
    rng = np.random.default_rng(0)
    users, items = rng.integers(1, 1000, 50_000), rng.integers(1, ITEMS, 50_000)
    return users, items, (users % 3 == items % 3).astype(np.float32)


def split(ratings, held_out):
    """Every tenth rating is held out for evaluations."""
    chosen = np.arange(len(ratings[0])) % 10 == 9
    return [each[chosen == held_out] for each in ratings]


class Loader:
    """Batches, shuffled anew in each epoch. Its position is saved."""

    def __init__(self, ratings, batch):
        self.ratings, self.batch = ratings, batch
        self.epoch, self.position = 0, 0

    def next(self):
        count = len(self.ratings[0])
        if self.position + self.batch > count:
            self.epoch, self.position = self.epoch + 1, 0
        order = np.random.default_rng(self.epoch).permutation(count)
        chosen = order[self.position : self.position + self.batch]
        self.position += self.batch
        return [torch.from_numpy(each[chosen]) for each in self.ratings]

    def io_state(self):
        return json.dumps([self.epoch, self.position]).encode()

    def load_io_state(self, data):
        self.epoch, self.position = json.loads(data)


class Towers(nn.Module):
    """The dense part: a layer for each tower. Returns logits."""

    def __init__(self):
        super().__init__()
        self.user, self.item = nn.Linear(DIM, DIM), nn.Linear(DIM, DIM)

    def forward(self, users, items):
        return (torch.tanh(self.user(users)) * self.item(items)).sum(-1)


class Trainer:
    def __init__(self):
        torch.manual_seed(1)
        self.towers = Towers()
        self.adam = torch.optim.Adam(self.towers.parameters(), 0.003)
        self.users = ckptdb.Table({"embedding": ("f32", DIM), "adagrad": ("f32", DIM)})
        self.items = nn.Embedding(ITEMS, DIM)
        nn.init.normal_(self.items.weight, std=0.1)
        self.adagrad = torch.optim.Adagrad(self.items.parameters(), RATE)
        sums = self.adagrad.state[self.items.weight]["sum"]
        self.item_table = ckptdb.ArrayTable(
            {"embedding": self.items.weight, "adagrad": sums}
        )

    def train(self, user_ids, item_ids, likes):
        """One step. Returns the loss."""
        ids, at = user_ids.unique(return_inverse=True)
        rows = self.users.insert(ids)  # new rows are zero; all are marked
        embedding = self.users["embedding"][rows].requires_grad_()
        logits = self.towers(embedding[at], self.items(item_ids))
        loss = nn.functional.binary_cross_entropy_with_logits(logits, likes)
        self.adam.zero_grad()
        self.adagrad.zero_grad()
        loss.backward()
        self.adam.step()
        self.adagrad.step()
        self.item_table.mark(item_ids)
        with torch.no_grad():  # sparse Adagrad of the users
            sums = self.users["adagrad"][rows] + embedding.grad**2
            embedding -= RATE * embedding.grad / (sums.sqrt() + 1e-10)
        self.users["adagrad"].put(rows, sums)
        self.users["embedding"].put(rows, embedding)
        return loss.item()

    def digest(self):
        """A hash of the whole model."""
        ids, rows = self.users.rows()
        rows = rows[np.argsort(ids)]
        hash = hashlib.sha256(np.sort(ids))
        hash.update(self.users["embedding"][rows])
        hash.update(self.items.weight.detach().numpy())
        for weight in self.towers.parameters():
            hash.update(weight.detach().numpy())
        return hash.hexdigest()[:16]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--store", required=True, help="folder of the checkpoints")
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--data", help="u.data of MovieLens 100K; generated if omitted")
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--save-every", type=int, default=100)
    parser.add_argument("--crash-at", type=int, help="step after which to SIGKILL")
    args = parser.parse_args()

    trainer = Trainer()
    loader = Loader(split(load_ratings(args.data), held_out=False), args.batch)
    state = {
        "towers": trainer.towers,
        "adam": trainer.adam,
        "user": trainer.users,
        "item": trainer.item_table,
        "loader": loader,
    }
    with ckptdb.Manager(
        args.store,
        state,
        save=ckptdb.save_every_n_steps(args.save_every),
        # The evaluator posts the AUC of a step some time after it was saved.
        keep=ckptdb.latest_n(3) | ckptdb.best_n("auc", 2, keep_without_metric=False),
    ) as manager:
        signal.signal(signal.SIGTERM, lambda *_: manager.set_preempted())
        print(manager.restore_or_start(), flush=True)
        for step in range(manager.global_step + 1, args.steps + 1):
            loss = trainer.train(*loader.next())
            outcome = manager.step(metrics={"loss": loss})
            if outcome.saved:
                print(f"step {step}: loss {loss:.4f}", flush=True)
            if step == args.crash_at:
                os.kill(os.getpid(), signal.SIGKILL)
            if outcome.preempted:
                print(f"preempted at step {step}")
                break
    print(f"digest {trainer.digest()}")


if __name__ == "__main__":
    main()
