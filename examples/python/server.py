# SPDX-License-Identifier: Apache-2.0
"""Serves the model of two_tower.py while it is trained.

    python server.py --store ckpt

Each line of the standard input is a user's id; the answer has the five items
with the highest scores. A thread follows the trainer: it waits for steps without
the lock, and holds it only while a step is applied, which reads just the rows
that have changed.
"""

import argparse
import sys
import threading

import ckptdb
import torch
from torch import nn

from two_tower import DIM, ITEMS, Towers


class Server:
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
        self.manager = ckptdb.Manager(
            store, state, read_only=True, await_store=60, poll_every=0.1
        )
        self.lock = threading.Lock()
        self.step = None
        self.closing = threading.Event()
        self.ready = threading.Event()
        self.thread = threading.Thread(target=self.follow)
        self.thread.start()

    def follow(self):
        try:
            while not self.closing.is_set():
                try:
                    self.manager.await_step(timeout=0.5)
                except ckptdb.DeadlineExceeded:
                    continue
                with self.lock:
                    report = self.manager.apply_step()
                    self.step = report.step
                self.ready.set()
                print(report, file=sys.stderr, flush=True)
        finally:
            self.ready.set()  # also after an error: look-ups then find nothing

    @torch.no_grad()
    def best_items(self, user_id, count=5):
        with self.lock:
            row = self.users.find([user_id])
            if row[0] < 0:
                return self.step, []
            user = torch.from_numpy(self.users["embedding"][row])
            scores = self.towers(user, self.items.weight)
        return self.step, scores.topk(count).indices.tolist()

    def close(self):
        self.closing.set()
        self.thread.join()
        self.manager.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--store", required=True, help="the trainer's --store")
    server = Server(parser.parse_args().store)
    try:
        server.ready.wait()
        for line in sys.stdin:
            step, items = server.best_items(int(line))
            print(f"step {step}: user {int(line)} gets {items}", flush=True)
    finally:
        server.close()


if __name__ == "__main__":
    main()
