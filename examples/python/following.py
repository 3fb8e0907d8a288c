# SPDX-License-Identifier: Apache-2.0
"""What programs beside a trainer share: evaluators and servers."""

import sys
import threading
import time

import ckptdb
import numpy as np


def auc(scores, labels):
    """How often an example with the label 1 has a higher score than another."""
    ranks = np.empty(len(scores))
    ranks[np.argsort(scores)] = np.arange(1, len(scores) + 1)
    positive = labels.sum()
    negative = len(labels) - positive
    above = ranks[labels == 1].sum() - positive * (positive + 1) / 2
    return float(above / (positive * negative))


def open_store(path):
    while True:
        try:
            return ckptdb.Reader(path)
        except ckptdb.NotFound:  # the trainer has not created it yet
            time.sleep(0.2)


def evaluate_steps(store, until_step, evaluate):
    """Posts the AUC that `evaluate(step)` returns, for each step that has none."""
    done = 0
    with open_store(store) as reader:
        while done < until_step:
            reader.refresh()
            for record in reader.steps():
                done = max(done, record.step)
                if "auc" in record.metrics:
                    continue
                try:
                    with reader.open(record.step) as step:
                        metrics = {"auc": evaluate(step)}
                    reader.post_metrics(record.step, metrics)
                except ckptdb.NotFound:
                    continue  # the trainer has removed it meanwhile
                print(f"step {record.step}: auc {metrics['auc']:.4f}", flush=True)
            time.sleep(0.2)


class Follower:
    """Keeps `state` at the trainer's newest step, in a thread, which waits for steps
    without the lock, and holds it only while a step is applied: that reads just the
    rows that have changed. `step` is None until the first one."""

    def __init__(self, store, state):
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
                read = "changed rows" if report.incremental else "all rows"
                print(f"{report}: {read}", file=sys.stderr, flush=True)
        finally:
            self.ready.set()  # also after an error

    def __enter__(self):
        self.ready.wait()
        return self

    def __exit__(self, *error):
        self.closing.set()
        self.thread.join()
        self.manager.close()
