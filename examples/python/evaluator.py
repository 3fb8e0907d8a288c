# SPDX-License-Identifier: Apache-2.0
"""Evaluates the steps of two_tower.py from another process.

    python evaluator.py --store ckpt --until-step 1000 [--data ml-100k/u.data]

It computes the AUC on held-out ratings for each step, and posts it: the trainer
keeps the best two steps. Of the tables it reads only the rows that it needs.
"""

import argparse
import time

import ckptdb
import numpy as np
import torch

from two_tower import Towers, load_ratings, split


def auc(scores, likes):
    """How often a liked item has a higher score than another."""
    ranks = np.empty(len(scores))
    ranks[np.argsort(scores)] = np.arange(1, len(scores) + 1)
    liked = likes.sum()
    others = len(likes) - liked
    return (ranks[likes == 1].sum() - liked * (liked + 1) / 2) / (liked * others)


def evaluate(step, ratings):
    users, items, likes = ratings
    towers = Towers()
    names = [f"towers.{name}" for name in towers.state_dict()]
    weights = step.read_many(names, kind="torch")
    towers.load_state_dict({n.removeprefix("towers."): w for n, w in weights.items()})
    # A user without a row has zeros, as at the beginning of the training.
    _, user = step.table("user").lookup(users, slots=["embedding"])
    _, item = step.table("item").lookup(items, slots=["embedding"])
    with torch.no_grad():
        scores = towers(
            torch.from_numpy(user["embedding"]), torch.from_numpy(item["embedding"])
        )
    return float(auc(scores.numpy(), likes))


def open_store(path):
    while True:
        try:
            return ckptdb.Reader(path)
        except ckptdb.NotFound:  # the trainer has not created it yet
            time.sleep(0.2)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--store", required=True, help="the trainer's --store")
    parser.add_argument("--data", help="the trainer's --data")
    parser.add_argument("--until-step", type=int, required=True)
    args = parser.parse_args()

    ratings = split(load_ratings(args.data), held_out=True)
    done = 0
    with open_store(args.store) as reader:
        while done < args.until_step:
            reader.refresh()
            for record in reader.steps():
                done = max(done, record.step)
                if "auc" in record.metrics:
                    continue
                try:
                    with reader.open(record.step) as step:
                        metrics = {"auc": evaluate(step, ratings)}
                    reader.post_metrics(record.step, metrics)
                except ckptdb.NotFound:
                    continue  # the trainer has removed it meanwhile
                print(f"step {record.step}: auc {metrics['auc']:.4f}", flush=True)
            time.sleep(0.2)


if __name__ == "__main__":
    main()
