# SPDX-License-Identifier: Apache-2.0
"""A plain model of the key-value tables that `ckptdb.KVTable` saves, and a trainer of
one, which test_kv_table.py kills and starts again: prints the digest of its final
state. Arguments: the store, and the steps to train."""

from __future__ import annotations

import hashlib
import sys

import numpy as np

import ckptdb


class Source:
    """A row that does not fit evicts the one with the lowest score."""

    def __init__(
        self, room=64, *, width=3, kind="numpy", keys="i8", scores="u8", values="f4"
    ):
        self.places = [None] * room  # (key, values, score)
        self.width = width
        self.kind = kind
        self.dtypes = {"keys": keys, "values": values, "scores": scores}
        self.clock = 0
        self.exports = []  # the calls
        self.fail_after = None  # exports until one raises

    def content(self):
        return {row[0]: row[1:] for row in self.places if row}

    def put(self, key, values, score):
        at = [i for i, row in enumerate(self.places) if row and row[0] == key]
        at += [i for i, row in enumerate(self.places) if row is None]
        if not at:
            at = [min(range(len(self.places)), key=lambda i: self.places[i][::-2])]
        self.places[at[0]] = (key, tuple(map(float, values)), int(score))

    def train(self, keys):
        """Gives rows other values, and scores that are higher than before."""
        self.clock += 1
        for i, key in enumerate(keys):
            self.put(key, [self.clock, i, -self.clock], self.clock)

    def positions(self):
        return [row for row in self.places if row]

    def export(self, call, n, offset, lowest=None):
        positions = self.positions()
        assert 0 <= offset and 1 <= n and (n == 1 or offset + n <= len(positions))
        self.exports.append(call)
        if self.fail_after is not None:
            self.fail_after -= 1
            if self.fail_after < 0:
                raise OSError("the device is gone")
        rows = [row for row in positions[offset : offset + n] if row]
        rows = [row for row in rows if lowest is None or row[2] >= lowest]
        made = [
            np.array([row[0] for row in rows], "i8").view(self.dtypes["keys"]),
            np.array([row[1] for row in rows], self.dtypes["values"]),
            np.array([row[2] for row in rows], self.dtypes["scores"] or "i8"),
        ]
        made[1] = made[1].reshape(-1, self.width)
        if self.kind == "torch":
            import torch

            made = [torch.from_numpy(each) for each in made]
        return (*made[:2], made[2] if self.dtypes["scores"] else None)

    # The interface.

    def size(self):
        return len(self.content())

    def export_batch(self, n, offset):
        return self.export("all", n, offset)

    def insert_or_assign(self, keys, values, scores=None):
        if scores is None:
            self.clock += 1
            scores = np.full(len(keys), self.clock, self.dtypes["scores"] or "i8")
        arrays = {"keys": keys, "values": values, "scores": scores}
        for name, array in arrays.items():
            if self.kind == "torch":
                arrays[name] = array = np.asarray(array)
            assert type(array) is np.ndarray
            assert array.dtype == (self.dtypes[name] or "i8"), name
        rows = zip(arrays["keys"].view("i8").tolist(), arrays["values"].tolist())
        for (key, row), score in zip(rows, arrays["scores"].tolist(), strict=True):
            self.put(key, row, score)
            self.clock = max(self.clock, score)

    def erase(self, keys):
        gone = set(np.asarray(keys).view("i8").tolist())
        self.places = [None if row and row[0] in gone else row for row in self.places]

    def clear(self):
        self.places = [None] * len(self.places)


class Placed(Source):
    """Positions stay, and some are empty, as in a hash table on a GPU."""

    def capacity(self):
        return len(self.places)

    def positions(self):
        return self.places


class Filtered(Placed):
    def export_batch_if(self, threshold, n, offset):
        return self.export("if", n, offset, threshold)


def main(path: str, steps: int) -> None:
    source = Filtered(300)
    slots = {"embedding": ("f32", 2), "adagrad": ("f32", 1)}
    table = ckptdb.KVTable(source, slots, changes="scores", batch_rows=100)
    save, keep = ckptdb.save_every_n_steps(3), ckptdb.latest_n(3)
    with ckptdb.Manager(
        path, {"t": table}, save=save, keep=keep, max_deltas=5
    ) as manager:
        manager.restore_or_start()
        print("begins at", manager.global_step, file=sys.stderr, flush=True)
        for step in range(manager.global_step, steps):
            generator = np.random.default_rng(step)
            source.train(np.unique(generator.integers(0, 1000, 20)).tolist())
            source.erase(generator.integers(0, 1000, 3))
            manager.step()
    print(hashlib.sha256(repr(sorted(source.content().items())).encode()).hexdigest())


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
