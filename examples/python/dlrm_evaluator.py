# SPDX-License-Identifier: Apache-2.0
"""Evaluates the steps of dlrm_torchrec.py from another process.

    python dlrm_evaluator.py --store ckpt --until-step 200 [--data criteo.csv]

It computes the AUC of the held-out examples for each step, and posts it. Of the
tables it reads only the rows that it needs.
"""

import argparse

import numpy as np
import torch

from dlrm_torchrec import SPARSE, Predictor, load, split, table_of
from following import auc, evaluate_steps


def evaluate(step, data):
    dense, ids, labels = data
    predictor = Predictor()
    predictor.load_state_dict(step.read("model", kind="torch"))
    rows = [
        step.table(table_of(name)).lookup(ids[:, i], slots=["weight"])[1]["weight"]
        for i, name in enumerate(SPARSE)
    ]
    scores = predictor(
        torch.from_numpy(dense), torch.from_numpy(np.stack(rows, axis=1))
    )
    return auc(scores.numpy(), labels)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--store", required=True, help="the trainer's --store")
    parser.add_argument("--data", help="the trainer's --data")
    parser.add_argument("--until-step", type=int, required=True)
    args = parser.parse_args()
    data = split(load(args.data), held_out=True)
    evaluate_steps(args.store, args.until_step, lambda step: evaluate(step, data))


if __name__ == "__main__":
    main()
