# SPDX-License-Identifier: Apache-2.0
"""Random states over runs, kills, older steps and changes of their structure, against
copies of them. CKPTDB_SEED chooses the first of the seeds, which are in the tests' names.
"""

from __future__ import annotations

import os
import random

import pytest

import ckptdb

from conftest import LONG
from state_trees import Trees, canonical, dictionaries, is_array, is_object, leaves

FIRST = int(os.environ.get("CKPTDB_SEED", random.getrandbits(30)))
SEEDS = range(FIRST, FIRST + (2000 if LONG else 40))


class Killed(Exception):
    pass


class Training:
    """A training of several runs, and what its steps contain."""

    def __init__(self, path, seed):
        self.path = path
        self.trees = Trees(seed)
        self.state = self.trees.state()
        self.saved = {}

    def run(self):
        killed = self.trees.one_in(3)
        try:
            with ckptdb.Manager(
                self.path,
                self.state,
                save=ckptdb.save_every_n_steps(1),
                keep=ckptdb.latest_n(10),
            ) as manager:
                manager.restore_or_start()
                if self.saved:
                    assert manager.global_step == max(self.saved)
                    self.check(manager.global_step)
                for _ in range(self.trees.random.randint(1, 3)):
                    self.step(manager)
                if killed:
                    raise Killed()
        except Killed:
            with ckptdb.Reader(self.path) as reader:
                kept = {record.step for record in reader.steps()}
            self.saved = {
                step: each for step, each in self.saved.items() if step in kept
            }
        self.state = self.trees.scrambled(self.state)

    def step(self, manager):
        if self.saved and self.trees.one_in(4):
            manager.wait_until_finished()
            older = self.trees.random.choice(sorted(self.saved))
            manager.restore(older)
            self.check(older)
            self.saved = {
                step: each for step, each in self.saved.items() if step <= older
            }
        self.trees.trained(self.state)
        expected = canonical(self.state)
        self.saved[manager.step().step] = expected
        if self.trees.one_in(2):
            self.trees.trained(self.state)  # after the capture

    def check(self, step):
        assert canonical(self.state) == self.saved[step]


@pytest.mark.parametrize("seed", SEEDS)
def test_each_run_continues_with_the_state_of_the_last(path, seed):
    training = Training(path, seed)
    for _ in range(3):
        training.run()


class Change:
    """A step, and a state of another structure into which it is restored."""

    def __init__(self, trees):
        self.old = trees.state()
        self.new = trees.changed(trees.scrambled(self.old))
        self.saved = {path: each for path, each in leaves(self.old)}
        self.dictionaries = {path for path, _ in dictionaries(self.old)}
        self.objects = dict(leaves(self.new))
        self.before = {path: canonical(each) for path, each in leaves(self.new)}

    def check(self, strict):
        after = {path: canonical(each) for path, each in leaves(self.new)}
        for path, value in after.items():
            if path not in self.saved:
                self.check_kept(path, value, strict)
            elif path not in self.objects or self.is_restored(path):
                assert value == canonical(self.saved[path]), path
        for path, each in self.objects.items():
            assert path in after or not (is_array(each) or is_object(each)), path

    def is_restored(self, path):
        old, new = self.saved[path], self.objects[path]
        if is_array(old) or is_array(new):
            return canonical(old)[:3] == canonical(new)[:3]
        return type(old) is type(new) or not (is_object(old) or is_object(new))

    def check_kept(self, path, value, strict):
        """Checks a value that the step lacks: tensors and objects keep their values, and
        a strict restore fails. An object may be restored from a dictionary."""
        new = self.objects.get(path)
        if is_array(new) or (is_object(new) and path not in self.dictionaries):
            assert not strict and value == self.before[path], path


def manager_of(path, state):
    return ckptdb.Manager(path, state, save=ckptdb.save_every_n_steps(1))


@pytest.mark.parametrize("seed", SEEDS)
def test_a_changed_state_is_restored_where_it_fits_or_left_unchanged(path, seed):
    trees = Trees(seed)
    change = Change(trees)
    with manager_of(path, change.old) as manager:
        manager.step()
    before = canonical(change.new)
    strict = trees.one_in(2)
    try:
        with manager_of(path, change.new) as manager:
            manager.restore(**({} if strict else {"evolve": {}}))
            change.check(strict)
            manager.step()
    except ckptdb.FailedPrecondition:
        assert canonical(change.new) == before
        change.new = change.old
    expected = canonical(change.new)
    state = trees.scrambled(change.new)
    with manager_of(path, state) as manager:
        manager.restore()
        assert canonical(state) == expected
