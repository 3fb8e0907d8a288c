# SPDX-License-Identifier: Apache-2.0
"""Values of the state that are of another kind than those of the step."""

from __future__ import annotations

import collections
import os
import signal
import threading

import numpy as np
import pytest

import ckptdb

EACH = ckptdb.save_every_n_steps(1)


class Position:
    """An object with a state dictionary, such as a scheduler."""

    def __init__(self, n=0):
        self.n = n

    def state_dict(self):
        return {"n": self.n}

    def load_state_dict(self, state):
        self.n = state["n"]


class Stream:
    def io_state(self):
        return b"7"

    def load_io_state(self, data):
        pass


def save(path, state):
    with ckptdb.Manager(path, state, save=EACH) as manager:
        manager.restore_or_start()
        manager.step()


def restore(path, state, **options):
    warnings = []
    with ckptdb.Manager(path, state, save=EACH, on_warning=warnings.append) as manager:
        manager.restore_or_start(**options)
    return warnings


def table():
    return ckptdb.Table({"w": ("f32", 1)})


KINDS = {
    "None": lambda: None,
    "number": lambda: 3,
    "set": lambda: {4, 5},
    "array": lambda: np.ones(2, np.float32),
    "list": lambda: [np.ones(1, np.float32)],
    "dictionary": lambda: {"m": np.ones(1, np.float32)},
    "object": lambda: Position(4),
    "table": table,
    "io_state": Stream,
}
OBJECTS = ("object", "table", "io_state")


@pytest.mark.parametrize("new", ["array", "list", "dictionary", *OBJECTS])
@pytest.mark.parametrize("old", KINDS)
def test_what_has_tensors_or_objects_is_not_replaced(path, old, new):
    if old == new or (old, new) == ("dictionary", "object"):
        return  # a dictionary may be a state dictionary
    save(path, {"d": {"x": KINDS[old](), "n": 1}})
    state = {"d": {"x": KINDS[new](), "n": 0}}
    live = state["d"]["x"]
    with pytest.raises(ckptdb.FailedPrecondition, match=r"evolve"):
        restore(path, state)
    assert state["d"]["x"] is live and state["d"]["n"] == 0
    warnings = restore(path, state, evolve={})
    assert state["d"]["x"] is live and state["d"]["n"] == 1
    if isinstance(live, Position):
        assert live.n == 4
    if new == "array":
        np.testing.assert_array_equal(live, 1)
    assert any("d.x" in text for text in warnings), warnings


def test_a_scheduler_that_was_none(path):
    save(path, {"scheduler": None, "n": 1})
    state = {"scheduler": Position(5), "n": 0}
    with pytest.raises(
        ckptdb.FailedPrecondition,
        match='"scheduler" was saved from None, and the state has a Position there',
    ):
        restore(path, state)
    assert state["n"] == 0
    with ckptdb.Manager(path, state, save=EACH) as manager:
        manager.restore(evolve={})
        assert state["scheduler"].n == 5 and state["n"] == 1
        manager.step()  # from now on the step has it
    state["scheduler"].n = 0
    restore(path, state)
    assert state["scheduler"].n == 5


@pytest.mark.parametrize("nested", [False, True])
def test_a_state_dictionary_is_restored_into_its_object(path, nested):
    def state_of(value):
        return {"d": {"scheduler": value}} if nested else {"scheduler": value}

    save(path, state_of(Position(5).state_dict()))
    scheduler = Position()
    state = state_of(scheduler)
    assert restore(path, state) == []
    assert scheduler.n == 5
    assert (state["d"] if nested else state)["scheduler"] is scheduler


@pytest.mark.parametrize("make", [dict, list])
def test_an_added_object_is_refused(path, make):
    def state_of(*values):
        made = dict(zip("ab", values)) if make is dict else list(values)
        return {"s": made}

    save(path, state_of(Position(1)))
    added = Position(8)
    state = state_of(Position(), added)
    with pytest.raises(ckptdb.FailedPrecondition, match=r'lacks "s\.[b1]"'):
        restore(path, state)
    restore(path, state, evolve={})
    assert added.n == 8 and len(state["s"]) == 2
    assert (state["s"]["a"] if make is dict else state["s"][0]).n == 1


@pytest.mark.parametrize("wrap", [lambda x: {"deep": x}, lambda x: [x], lambda x: (x,)])
def test_an_added_object_in_an_added_container_is_refused(path, wrap):
    save(path, {"s": {"a": Position(1)}})
    added = Position(8)
    state = {"s": {"a": Position(), "b": wrap(added)}}
    with pytest.raises(ckptdb.FailedPrecondition, match=r'lacks "s\.b\.(deep|0)"'):
        restore(path, state)
    assert state["s"]["a"].n == 0
    restore(path, state, evolve={})
    assert added.n == 8 and state["s"]["a"].n == 1


def test_a_load_of_tensors_alone_ignores_other_values(path, tmp_path):
    save(path, {"x": np.ones(2), "scheduler": None, "s": {"a": 1}})
    state = {"x": np.zeros(2), "scheduler": Position(5), "s": {"b": Position(6)}}
    with ckptdb.Manager(str(tmp_path / "other"), state, save=EACH) as manager:
        manager.load([{"path": path, "load": ["dense"]}])
        with pytest.raises(ckptdb.FailedPrecondition, match="scheduler"):
            manager.load([{"path": path, "load": ["dense", "extra"]}])
        manager.start_training()
    assert state["x"].tolist() == [1, 1]
    assert state["scheduler"].n == 5 and state["s"]["b"].n == 6


def test_dictionaries_keep_their_types(path):
    class Attributes(dict):
        """Overrides update, as EasyDict does."""

        def update(self, other):
            raise AssertionError("not to be called")

    class Steps:
        def __init__(self):
            self.milestones = collections.Counter([3, 3, 9])
            self.seen = collections.defaultdict(int, a=2)

        def state_dict(self):
            return dict(vars(self))

        def load_state_dict(self, state):
            vars(self).update(state)

    def state_of():
        return {
            "counter": collections.Counter(),
            "default": collections.defaultdict(int),
            "attributes": Attributes(),
            "steps": Steps(),
        }

    saved = state_of()
    saved["counter"].update("aab")
    saved["default"]["x"] += 4
    saved["attributes"]["n"] = 1
    save(path, saved)
    state = state_of()
    state["steps"].milestones.clear()
    restore(path, state)
    assert state["counter"] == collections.Counter("aab")
    assert state["default"] == {"x": 4} and state["default"]["y"] == 0
    assert type(state["attributes"]) is Attributes and state["attributes"] == {"n": 1}
    assert state["steps"].milestones == collections.Counter([3, 3, 9])
    assert state["steps"].seen["new"] == 0 and state["steps"].seen["a"] == 2


class Slow(Position):
    """Sends a signal while it is restored."""

    def load_state_dict(self, state):
        os.kill(os.getpid(), signal.SIGINT)
        super().load_state_dict(state)


def check_that_a_partly_restored_state_is_not_saved(manager):
    for call in (manager.step, manager.save, manager.finish_training):
        with pytest.raises(ckptdb.FailedPrecondition, match="the call was interrupted"):
            call()
    manager.restore()
    manager.step()


@pytest.mark.parametrize(
    "call",
    [
        lambda manager, path: manager.restore(),
        lambda manager, path: manager.load([{"path": path, "load": ["*"]}]),
    ],
)
def test_an_interrupt_between_the_library_and_the_state(path, call):
    state = {"x": np.ones(4), "position": Position(1)}
    save(path, state)
    state["position"] = Slow()
    with ckptdb.Manager(path, state, save=EACH) as manager:
        with pytest.raises(KeyboardInterrupt):
            call(manager, path)
        state["position"] = Position()
        check_that_a_partly_restored_state_is_not_saved(manager)
        assert state["position"].n == 1


def test_an_interrupt_while_the_library_restores(path):
    def state_of(n):
        return {"x": np.full(5_000_000, n, np.float32), "n": n}

    state = state_of(1)
    save(path, state)
    main = threading.get_ident()
    for delay in (0.0, 0.002, 0.004, 0.006, 0.008, 0.01, 0.015, 0.02, 0.04):
        state = state_of(0)
        manager = ckptdb.Manager(path, state, save=ckptdb.save_at_steps([]))
        timer = threading.Timer(delay, signal.pthread_kill, (main, signal.SIGINT))
        try:
            timer.start()
            manager.restore()
            timer.join()
        except KeyboardInterrupt:
            timer.join()
        try:
            manager.step()
        except ckptdb.FailedPrecondition:
            manager.restore()
            manager.step()
        # Either nothing is restored, or all.
        assert manager.global_step == 1 + state["n"]
        assert state["x"][-1] == state["n"]
        manager.close()


def test_numbers_that_a_slot_cannot_represent(path):
    made = ckptdb.Table({"n": ("i32", 1), "e": ("bf16", 2), "b": ("bool", 1)})
    rows = made.insert([1])
    for values in ([[1.7]], [["5"]], [[2**40]], [[None]]):
        with pytest.raises(ckptdb.InvalidArgument, match="i32"):
            made["n"].put(rows, values)
    made["n"].put(rows, [[5]])
    assert made["n"][rows][0] == 5
    with pytest.raises(ckptdb.InvalidArgument, match="bool"):
        made["b"].put(rows, [[0.5]])


def test_numbers_for_a_slot_of_bf16_without_ml_dtypes(python):
    result = python(
        """
        import sys
        sys.modules["ml_dtypes"] = None
        import ckptdb
        table = ckptdb.Table({"e": ("bf16", 2)})
        rows = table.insert([1])
        try:
            import torch
        except ImportError:
            torch = None
        try:
            table["e"].put(rows, [[1.5, 2.5]])
        except ckptdb.InvalidArgument as error:
            assert torch is None and "ml_dtypes" in str(error)
        else:
            assert table["e"][torch.tensor(rows)].tolist() == [[1.5, 2.5]]
        print("ended")
        """
    )
    assert "ended" in result.stdout


def test_names_that_are_not_utf_8(path, tmp_path):
    name = os.fsdecode(b"a\xff")
    for state in ({name: 1}, {name: table()}, {"d": {name: np.ones(1)}}):
        with pytest.raises(ckptdb.InvalidArgument, match="not UTF-8"):
            save(path, state)
    with pytest.raises(ckptdb.InvalidArgument, match="expected UTF-8"):
        ckptdb.Manager(str(tmp_path / name), {"n": 1})


def test_wrong_arguments(path):
    state = {"n": 1}
    with ckptdb.Manager(path, state, save=EACH) as manager:
        with pytest.raises(ckptdb.InvalidArgument, match="expected a float"):
            manager.step(metrics={"loss": 10**400})
        manager.step()
    with ckptdb.Reader(path) as reader, reader.latest() as step:
        with pytest.raises(ckptdb.InvalidArgument, match="the name is 5"):
            step.read(5)
