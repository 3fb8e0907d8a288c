# SPDX-License-Identifier: Apache-2.0
"""Serves the model of two_tower.py while it is trained.

    python server.py --store ckpt

Each line of the standard input is a user's id; the answer has the five items with
the highest scores. The server follows the trainer, as following.py describes.
"""

import argparse
import sys

import ckptdb
import torch
from torch import nn

from following import Follower
from two_tower import DIM, ITEMS, Towers


class Server(Follower):
    def __init__(self, store):
        self.towers = Towers()
        # No slots of the optimizer: they are not read.
        self.users = ckptdb.Table({"embedding": ("f32", DIM)})
        self.items = nn.Embedding(ITEMS, DIM)
        state = {
            "towers": self.towers,
            "user": self.users,
            "item": ckptdb.ArrayTable({"embedding": self.items.weight}),
        }
        super().__init__(store, state)

    @torch.no_grad()
    def best_items(self, user_id, count=5):
        with self.lock:
            row = self.users.find([user_id])
            if row[0] < 0:
                return self.step, []
            user = torch.from_numpy(self.users["embedding"][row])
            scores = self.towers(user, self.items.weight)
        return self.step, scores.topk(count).indices.tolist()


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--store", required=True, help="the trainer's --store")
    with Server(parser.parse_args().store) as server:
        for line in sys.stdin:
            step, items = server.best_items(int(line))
            print(f"step {step}: user {int(line)} gets {items}", flush=True)


if __name__ == "__main__":
    main()
