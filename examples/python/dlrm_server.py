# SPDX-License-Identifier: Apache-2.0
"""Serves the model of dlrm_torchrec.py while it is trained.

    python dlrm_server.py --store ckpt [--data criteo.csv]

Each line of the standard input is the number of a held-out example; the answer has
the probability of a click. A thread follows the trainer: it waits for steps without
the lock, and holds it only while a step is applied, which reads just the rows that
have changed.
"""

import argparse
import sys
import threading

import ckptdb
import torch

from dlrm_torchrec import DIM, SPARSE, Predictor, load, split, table_of


class Server:
    def __init__(self, store):
        self.predictor = Predictor()
        # No slots of the optimizer: they are not read.
        self.tables = {
            table_of(name): ckptdb.Table({"weight": ("f32", DIM)}) for name in SPARSE
        }
        self.manager = ckptdb.Manager(
            store,
            {"model": self.predictor, **self.tables},
            read_only=True,
            await_store=60,
            poll_every=0.1,
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
                read = "changed rows" if report.incremental else "all rows"
                print(f"{report}: {read}", file=sys.stderr, flush=True)
        finally:
            self.ready.set()  # also after an error

    def predict(self, dense, ids):
        """(step, probability) of an example."""
        with self.lock:
            if self.step is None:
                raise RuntimeError("no step could be restored")
            rows = []
            for (_, table), id in zip(self.tables.items(), ids):
                row = table.find(torch.tensor([int(id)]))
                rows.append(table["weight"][row])
            embeddings = torch.stack(rows, dim=1)
            probability = self.predictor(torch.from_numpy(dense)[None], embeddings)
        return self.step, probability.item()

    def close(self):
        self.closing.set()
        self.thread.join()
        self.manager.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--store", required=True, help="the trainer's --store")
    parser.add_argument("--data", help="the trainer's --data")
    args = parser.parse_args()
    dense, ids, _ = split(load(args.data), held_out=True)
    server = Server(args.store)
    try:
        server.ready.wait()
        for line in sys.stdin:
            number = int(line)
            step, probability = server.predict(dense[number], ids[number])
            print(f"step {step}: example {number} {probability:.6f}", flush=True)
    finally:
        server.close()


if __name__ == "__main__":
    main()
