# SPDX-License-Identifier: Apache-2.0
"""Serves the model of dlrm_torchrec.py while it is trained.

    python dlrm_server.py --store ckpt [--data criteo.csv]

Each line of the standard input is the number of a held-out example; the answer has
the probability of a click. The server follows the trainer, as following.py describes.
"""

import argparse
import sys

import ckptdb
import torch

from dlrm_torchrec import DIM, SPARSE, Predictor, load, split, table_of
from following import Follower


class Server(Follower):
    def __init__(self, store):
        self.predictor = Predictor()
        # No slots of the optimizer: they are not read.
        self.tables = {
            table_of(name): ckptdb.Table({"weight": ("f32", DIM)}) for name in SPARSE
        }
        super().__init__(store, {"model": self.predictor, **self.tables})

    def predict(self, dense, ids):
        """(step, probability) of an example."""
        with self.lock:
            if self.step is None:
                raise RuntimeError("no step could be restored")
            rows = []
            for table, id in zip(self.tables.values(), ids):
                row = table.find(torch.tensor([int(id)]))
                rows.append(table["weight"][row])
            embeddings = torch.stack(rows, dim=1)
            probability = self.predictor(torch.from_numpy(dense)[None], embeddings)
        return self.step, probability.item()


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--store", required=True, help="the trainer's --store")
    parser.add_argument("--data", help="the trainer's --data")
    args = parser.parse_args()
    dense, ids, _ = split(load(args.data), held_out=True)
    with Server(args.store) as server:
        for line in sys.stdin:
            number = int(line)
            step, probability = server.predict(dense[number], ids[number])
            print(f"step {step}: example {number} {probability:.6f}", flush=True)


if __name__ == "__main__":
    main()
