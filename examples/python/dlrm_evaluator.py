# SPDX-License-Identifier: Apache-2.0
"""Evaluates the steps of dlrm_torchrec.py from another process.

    python dlrm_evaluator.py --store ckpt --until-step 200 [--data criteo.csv]

It computes the AUC of the held-out examples for each step, and posts it. Of the
tables it reads only the rows that it needs.
"""

import argparse
import time

import ckptdb
import numpy as np
import torch

from dlrm_torchrec import SPARSE, Predictor, load, split, table_of
from evaluator import auc, open_store


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
    return float(auc(scores.numpy(), labels))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--store", required=True, help="the trainer's --store")
    parser.add_argument("--data", help="the trainer's --data")
    parser.add_argument("--until-step", type=int, required=True)
    args = parser.parse_args()

    data = split(load(args.data), held_out=True)
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
                        metrics = {"auc": evaluate(step, data)}
                    reader.post_metrics(record.step, metrics)
                except ckptdb.NotFound:
                    continue  # the trainer has removed it meanwhile
                print(f"step {record.step}: auc {metrics['auc']:.4f}", flush=True)
            time.sleep(0.2)


if __name__ == "__main__":
    main()
