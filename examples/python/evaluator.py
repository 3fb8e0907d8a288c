# SPDX-License-Identifier: Apache-2.0
"""Evaluates the steps of two_tower.py from another process.

    python evaluator.py --store ckpt --until-step 1000 [--data ml-100k/u.data]

It computes the AUC on held-out ratings for each step, and posts it: the trainer
keeps the best two steps. Of the tables it reads only the rows that it needs.
"""

import argparse

import torch

from following import auc, evaluate_steps
from two_tower import Towers, load_ratings, split


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
    return auc(scores.numpy(), likes)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--store", required=True, help="the trainer's --store")
    parser.add_argument("--data", help="the trainer's --data")
    parser.add_argument("--until-step", type=int, required=True)
    args = parser.parse_args()
    ratings = split(load_ratings(args.data), held_out=True)
    evaluate_steps(args.store, args.until_step, lambda step: evaluate(step, ratings))


if __name__ == "__main__":
    main()
