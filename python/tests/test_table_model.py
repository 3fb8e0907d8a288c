# SPDX-License-Identifier: Apache-2.0
"""A table against a dictionary, over saves, restores and reopenings."""

from __future__ import annotations

import copy
import os
import shutil
import tempfile

import hypothesis
import numpy as np
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

import ckptdb

from conftest import LONG

IDS = st.one_of(
    st.integers(0, 30),
    st.sampled_from([-1, -(2**63), 2**63 - 1, 65535, 65536, -65536]),
)
SLOTS = {"v": ("f32", 3), "n": "i64"}
EMPTY = ((0.0, 0.0, 0.0), 0)


def values_of(table, rows):
    v, n = table["v"][rows], table["n"][rows]
    return [(tuple(v[i].tolist()), int(n[i, 0])) for i in range(len(rows))]


class TableMachine(RuleBasedStateMachine):
    def __init__(self):
        super().__init__()
        parent = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
        self.folder = tempfile.mkdtemp(prefix="ckptdb-test-", dir=parent)
        self.model = {}
        self.saved = {}  # by step
        self.counter = 0
        self.manager = None

    @initialize(slice_hash=st.sampled_from(["modulo", "mix"]))
    def begin(self, slice_hash):
        self.slice_hash = slice_hash
        self.open()

    def open(self):
        self.table = ckptdb.Table(SLOTS, slice_hash=self.slice_hash)
        self.manager = ckptdb.Manager(
            self.folder + "/store",
            {"t": self.table},
            save=ckptdb.save_every_n_steps(1),
            keep=ckptdb.latest_n(3),
            max_deltas=4,
        )
        self.manager.restore_or_start()

    @rule(ids=st.lists(IDS, max_size=20))
    def insert(self, ids):
        rows = self.table.insert(ids)
        for each in ids:
            self.model.setdefault(each, EMPTY)
        by_id = dict(zip(ids, rows.tolist()))
        assert [by_id[each] for each in ids] == rows.tolist()
        assert len(set(by_id.values())) == len(by_id)

    @rule(ids=st.lists(IDS, max_size=20, unique=True))
    def put(self, ids):
        ids = [each for each in ids if each in self.model]
        rows = self.table.find(ids)
        assert (rows >= 0).all()
        values = []
        for _ in ids:
            self.counter += 1
            values.append(((self.counter, 0.5, -self.counter), self.counter))
        self.table["v"].put(rows, np.array([v for v, _ in values], "f4").reshape(-1, 3))
        self.table["n"].put(rows, np.array([n for _, n in values], "i8"))
        self.model.update(
            (i, (tuple(map(float, v)), n)) for i, (v, n) in zip(ids, values)
        )

    @rule(ids=st.lists(IDS, max_size=20))
    def erase(self, ids):
        here = {each for each in ids if each in self.model}
        assert self.table.erase(ids) == len(here)
        for each in here:
            del self.model[each]

    @rule()
    def clear(self):
        self.table.clear()
        self.model = {}

    @rule()
    def save(self):
        step = self.manager.step().step
        self.saved = {s: m for s, m in self.saved.items() if s < step}
        self.saved[step] = copy.deepcopy(self.model)

    @precondition(lambda self: self.saved)
    @rule()
    def restore(self):
        self.manager.wait_until_finished()
        report = self.manager.restore()
        assert report.step == max(self.saved)
        self.model = copy.deepcopy(self.saved[report.step])

    @precondition(lambda self: self.saved)
    @rule(data=st.data())
    def restore_an_older_step(self, data):
        self.manager.wait_until_finished()
        kept = [record.step for record in self.manager.steps()]
        assert set(kept) <= set(self.saved) and max(kept) == max(self.saved)
        step = data.draw(st.sampled_from(kept))
        self.manager.restore(step)
        self.model = copy.deepcopy(self.saved[step])
        # Later steps are abandoned: the next save removes them.
        self.manager.step()
        self.saved = {s: m for s, m in self.saved.items() if s <= step}
        self.saved[step + 1] = copy.deepcopy(self.model)

    @rule()
    def reopen(self):
        self.manager.close()
        self.open()
        newest = max(self.saved, default=None)
        self.model = copy.deepcopy(self.saved[newest]) if newest is not None else {}

    @precondition(lambda self: self.saved)
    @rule(ids=st.lists(IDS, max_size=10))
    def look_up(self, ids):
        self.manager.wait_until_finished()
        with ckptdb.Reader(self.folder + "/store") as reader, reader.latest() as step:
            expected = self.saved[step.record.step]
            found, values = step.table("t").lookup(ids)
            assert found.tolist() == [each in expected for each in ids]
            for i, each in enumerate(ids):
                v, n = expected.get(each, EMPTY)
                assert tuple(values["v"][i].tolist()) == v and values["n"][i, 0] == n
            read = step.table("t").read()
            assert read.ids.tolist() == sorted(expected)

    def check(self):
        ids, rows = self.table.rows()
        assert sorted(ids.tolist()) == sorted(self.model)
        assert len(self.table) == len(self.model)
        assert dict(zip(ids.tolist(), values_of(self.table, rows))) == self.model

    def teardown(self):
        try:
            if self.manager is not None:
                self.check()
                self.manager.wait_until_finished()
                self.reopen()
                self.check()
        finally:
            if self.manager is not None:
                self.manager.close()
            shutil.rmtree(self.folder, ignore_errors=True)


TableMachine.TestCase.settings = hypothesis.settings(
    max_examples=300 if LONG else 20,
    stateful_step_count=40 if LONG else 20,
    deadline=None,
    print_blob=True,
    suppress_health_check=list(hypothesis.HealthCheck),
)
TestTableModel = TableMachine.TestCase


@hypothesis.settings(max_examples=200 if LONG else 15, deadline=None, print_blob=True)
@hypothesis.given(
    st.recursive(
        st.none()
        | st.booleans()
        | st.integers()
        | st.floats(allow_nan=False)
        | st.text()
        | st.binary(max_size=20)
        | st.complex_numbers(allow_nan=False),
        lambda inner: (
            st.lists(inner, max_size=4)
            | st.tuples(inner, inner)
            | st.dictionaries(
                st.text() | st.integers() | st.booleans(), inner, max_size=4
            )
        ),
        max_leaves=20,
    )
)
def test_any_value_is_restored(value):
    folder = tempfile.mkdtemp(
        prefix="ckptdb-test-",
        dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None,
    )
    try:
        state = {"value": value}
        with ckptdb.Manager(
            folder, state, save=ckptdb.save_every_n_steps(1)
        ) as manager:
            manager.step()
            manager.wait_until_finished()
            state["value"] = None
            manager.restore()
            assert repr(state["value"]) == repr(value)
        with ckptdb.Reader(folder) as reader, reader.latest() as step:
            assert repr(step.read("value")) == repr(value)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
