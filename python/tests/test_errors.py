# SPDX-License-Identifier: Apache-2.0
"""Exceptions, and every public name."""

from __future__ import annotations

import copy
import inspect
import pathlib
import pickle
import re

import numpy as np
import pytest

import ckptdb

CODES = {
    ckptdb.Cancelled: "cancelled",
    ckptdb.InvalidArgument: "invalid_argument",
    ckptdb.DeadlineExceeded: "deadline_exceeded",
    ckptdb.NotFound: "not_found",
    ckptdb.AlreadyExists: "already_exists",
    ckptdb.PermissionDenied: "permission_denied",
    ckptdb.ResourceExhausted: "resource_exhausted",
    ckptdb.FailedPrecondition: "failed_precondition",
    ckptdb.Aborted: "aborted",
    ckptdb.OutOfRange: "out_of_range",
    ckptdb.Unimplemented: "unimplemented",
    ckptdb.Internal: "internal",
    ckptdb.Unavailable: "unavailable",
    ckptdb.DataLoss: "data_loss",
}
BUILT_IN = {
    ckptdb.InvalidArgument: ValueError,
    ckptdb.DeadlineExceeded: TimeoutError,
    ckptdb.NotFound: KeyError,
    ckptdb.PermissionDenied: PermissionError,
    ckptdb.OutOfRange: IndexError,
    ckptdb.Unimplemented: NotImplementedError,
}


@pytest.mark.parametrize("error", list(CODES), ids=lambda e: e.__name__)
def test_classes(error):
    assert issubclass(error, ckptdb.Error) and issubclass(error, Exception)
    assert error.code == CODES[error]
    assert issubclass(error, BUILT_IN.get(error, Exception))
    made = error('the "text"\nof it')
    assert str(made) == 'the "text"\nof it'
    copied = pickle.loads(pickle.dumps(made))
    assert type(copied) is error and str(copied) == str(made)


@pytest.mark.parametrize("step", [-1, 1 << 63, "7", 1.5, None])
def test_an_invalid_step_raises_invalid_argument(path, step):
    with ckptdb.Manager(path, {"n": 1}, save=ckptdb.save_at_steps([])) as manager:
        manager.restore_or_start()
        manager.step()
        manager.save().wait_committed()
        calls = [
            manager.step_to,
            manager.should_save,
            manager.explain,
            manager.delete,
            manager.pin,
            manager.unpin,
            manager.quarantine,
            manager.unquarantine,
            manager.fold,
            lambda s: manager.add_metrics(s, {"auc": 1}),
            lambda s: manager.evaluation.cleanup(s),
        ]
        if step is not None:
            calls += [manager.restore, manager.evaluation.cleanup_all]
        with ckptdb.Reader(path) as reader:
            calls += [
                reader.open,
                reader.find,
                reader.request_pin,
                reader.request_unpin,
                lambda s: reader.changes(1, s),
                lambda s: reader.post_metrics(s, {"auc": 1}),
            ]
            for call in calls:
                with pytest.raises(
                    ckptdb.InvalidArgument, match=r"expected an int from 0 to 2\*\*63"
                ):
                    call(step)


def test_errors_of_state_keep_their_class(path):
    """Each class passes through the library as itself, with the original as its
    cause."""

    class Object:
        error: Exception

        def state_dict(self):
            raise self.error

        def load_state_dict(self, state):
            pass

    thrower = Object()
    manager = ckptdb.Manager(path, {"o": thrower}, save=ckptdb.save_at_steps([]))
    for error in [*CODES, ckptdb.Error]:
        thrower.error = error("a message of this error")
        with pytest.raises(ckptdb.Error, match="a message of this error") as caught:
            manager.save().wait_committed()
        assert type(caught.value) is error
        assert caught.value.__cause__ is thrower.error
    thrower.error = ckptdb.DataLoss()
    with pytest.raises(ckptdb.DataLoss, match="raised DataLoss"):
        manager.save().wait_committed()
    manager.close()


def test_unavailable_names_the_holder(path, python):
    import os
    import socket

    with ckptdb.Manager(path, {"n": 0}, save=ckptdb.save_every_n_steps(1)):
        with pytest.raises(ckptdb.Error):
            ckptdb.Manager(path, {"n": 0}, save=ckptdb.save_every_n_steps(1))
        result = python(
            """
            import ckptdb
            try:
                ckptdb.Manager(path, {"n": 0}, save=ckptdb.save_at_steps([]))
            except ckptdb.Unavailable as error:
                print(error.holder)
                print(error)
            """,
            path=path,
        )
    holder, *message = result.stdout.splitlines()
    assert str(os.getpid()) in holder and socket.gethostname() in holder
    assert path in message[0]
    assert ckptdb.Unavailable("x").holder is None


def test_unavailable_names_the_argument_for_ranks(path, monkeypatch):
    with ckptdb.Manager(path, {"n": 0}, save=ckptdb.save_every_n_steps(1)):
        for world_size, named in (("1", False), ("2", True), ("two", False)):
            monkeypatch.setenv("WORLD_SIZE", world_size)
            with pytest.raises(ckptdb.Unavailable) as caught:
                ckptdb.Manager(path, {"n": 0})
            hint = "WORLD_SIZE=2: if its ranks train together, open the manager on all"
            assert (hint in str(caught.value)) == named
            assert ("ranks=ckptdb.torch.ranks()" in str(caught.value)) == named
            assert caught.value.holder is not None


def test_not_found(path, tmp_path):
    with pytest.raises(ckptdb.NotFound, match="missing"):
        ckptdb.Reader(tmp_path / "missing")
    state = {"w": np.ones(2), "table": ckptdb.Table({"v": "f32"})}
    with ckptdb.Manager(path, state, save=ckptdb.save_every_n_steps(1)) as manager:
        manager.step()
    with ckptdb.Reader(path) as reader:
        for call in [lambda: reader.open(7), lambda: reader.find(7)]:
            with pytest.raises(KeyError, match="7"):
                call()
        with reader.latest() as step:
            for call, words in [
                (lambda: step.read("ww"), 'no item "ww"; did you mean "w"?'),
                (lambda: step.read_many(["x"]), 'no tensor "x"'),
                (lambda: step.read_part("tables", [0], [1]), 'no tensor "tables"'),
                (lambda: step.table("tabel"), 'did you mean "table"?'),
                (lambda: step.table("table").lookup([1], slots=["x"]), 'no slot "x"'),
                (lambda: step.table("table").scan(["x"]), "it has ['v']"),
                (lambda: step.read_blob("extra/none"), "extra/none"),
            ]:
                with pytest.raises(ckptdb.NotFound) as caught:
                    call()
                assert words in str(caught.value) and isinstance(caught.value, KeyError)


def test_the_file_system_refuses(tmp_path):
    file = tmp_path / "file"
    file.write_text("x")
    with pytest.raises(ckptdb.Error, match="file"):
        ckptdb.Manager(file, {"n": 0}, save=ckptdb.save_at_steps([]))


def test_a_closed_manager(path):
    manager = ckptdb.Manager(path, {"n": 0}, save=ckptdb.save_every_n_steps(1))
    manager.step()
    manager.close()
    manager.close()
    for call in [
        manager.step,
        manager.save,
        manager.restore,
        manager.steps,
        manager.best_step,
        manager.start_training,
        manager.finish_training,
        manager.abandon_steps,
        lambda: manager.load([{"load": ["*"]}]),
        lambda: manager.pin(1),
        lambda: manager.delete(1),
        lambda: manager.fold(1),
        lambda: manager.explain(1),
        lambda: manager.step_to(5),
        lambda: manager.await_step(0.1),
    ]:
        with pytest.raises(ckptdb.FailedPrecondition, match="closed"):
            call()
    assert manager.global_step == 1
    assert repr(manager) == "Manager(step 1)"


def test_a_closed_reader_and_step(path):
    state = {"w": np.ones(2), "t": ckptdb.Table({"v": "f32"})}
    state["t"].insert([1])
    with ckptdb.Manager(path, state, save=ckptdb.save_every_n_steps(1)) as m:
        m.step()
        m.step()
    reader = ckptdb.Reader(path)
    step = reader.latest()
    assert isinstance(step, ckptdb.Step)
    changes = reader.changes(1, 2)
    reader.close()
    reader.close()
    for call in [reader.steps, reader.latest, reader.refresh, lambda: reader.path]:
        with pytest.raises(ckptdb.FailedPrecondition, match="reader is closed"):
            call()
    np.testing.assert_array_equal(step.read("w"), 1)  # stays open
    assert changes.tensors() == changes.tensors()
    step.close()
    changes.close()
    step.close()
    for call in [step.verify, lambda: step.read("w"), lambda: step.record]:
        with pytest.raises(ckptdb.FailedPrecondition, match="step is closed"):
            call()
    with pytest.raises(ckptdb.FailedPrecondition, match="changes are closed"):
        changes.tensors()


def test_store_objects_do_not_pickle(path):
    table = ckptdb.Table({"v": "f32"})
    table.insert([1])
    assert isinstance(table["v"], ckptdb.Slot)
    array = ckptdb.ArrayTable({"w": np.zeros(3)})
    state = {"t": table, "a": array}
    with ckptdb.Manager(path, state, save=ckptdb.save_every_n_steps(1)) as manager:
        outcome = manager.step()
        pending = outcome.save
        manager.wait_until_finished()
        manager.step()
        manager.wait_until_finished()
        reader = ckptdb.Reader(path)
        step = reader.latest()
        changes = reader.changes(1, 2)
        objects = [
            manager, table, array, reader, step, step.table("t"), changes,
            changes.table("t"), pending, table["v"], outcome,
            ckptdb.latest_n(1), ckptdb.save_initially(),
        ]  # fmt: skip
        for each in objects:
            with pytest.raises(TypeError, match="pickle"):
                pickle.dumps(each)
            with pytest.raises(TypeError):
                copy.deepcopy(each)
        record = pickle.loads(pickle.dumps(step.record))
        assert record == step.record and isinstance(record, ckptdb.StepRecord)
        assert pickle.loads(pickle.dumps(step.items())) == step.items()
        step.close()
        changes.close()
        reader.close()


# Every public name


def public_names():
    return sorted(ckptdb.__all__)


@pytest.mark.parametrize("name", public_names())
def test_every_public_name_has_a_docstring(name):
    value = getattr(ckptdb, name)
    assert value.__doc__, f"ckptdb.{name} has no docstring"
    if not inspect.isclass(value) or issubclass(value, Exception):
        return
    bare = [
        attribute
        for attribute, member in vars(value).items()
        if not attribute.startswith("_")
        and (callable(member) or isinstance(member, (property, classmethod)))
        and not (getattr(value, attribute).__doc__ or getattr(member, "__doc__", None))
    ]
    assert not bare, f"no docstrings: {name}.{bare}"


def test_every_public_name_is_used_in_a_test():
    here = pathlib.Path(__file__).parent
    text = "".join(file.read_text() for file in here.glob("test_*.py"))
    unused = [
        name
        for name in public_names()
        if not re.search(rf"\b(ckptdb|k|c)\.{name}\b", text)
    ]
    assert not unused


def test_version():
    assert re.fullmatch(r"\d+\.\d+\.\d+", ckptdb.__version__)


def test_messages_name_options_as_python_does(path):
    warnings = []
    with ckptdb.Manager(
        path, {"w": np.zeros(2)}, on_warning=warnings.append
    ) as manager:
        manager.step()
    assert "save is empty" in warnings[0] and "save_at_steps([])" in warnings[0]
    with ckptdb.Manager(
        path, {"v": np.zeros(2)}, on_warning=warnings.append
    ) as manager:
        with pytest.raises(ckptdb.FailedPrecondition, match="pass evolve={}") as info:
            manager.restore()
        with pytest.raises(ckptdb.FailedPrecondition, match="abandon_steps"):
            manager.step()
        manager.abandon_steps()
    assert not re.search(r"Options::|Request::", "".join([*warnings, str(info.value)]))


def test_a_number_in_place_of_a_policy(path):
    for name, number, call in (
        ("save", 10, "save_every_n_steps"),
        ("ephemeral", 5, "save_every_n_steps"),
        ("keep", 3, "latest_n"),
    ):
        with pytest.raises(ckptdb.InvalidArgument) as caught:
            ckptdb.Manager(path, {"n": 0}, **{name: number})
        expected = (
            f"{name} is {number}; expected a policy, such as {name}=ckptdb.{call}"
        )
        assert str(caught.value) == f"{expected}({number})"


def test_a_reader_does_not_start_a_training(path):
    with ckptdb.Manager(path, {"n": 0}, save=ckptdb.save_every_n_steps(1)) as manager:
        manager.step()
    with ckptdb.Manager(path, {"n": 0}, read_only=True) as follower:
        with pytest.raises(ckptdb.FailedPrecondition) as caught:
            follower.restore_or_start()
        assert "restore_or_start: the manager of store" in str(caught.value)
        assert "call restore, or wait_for_step to follow" in str(caught.value)
        assert follower.restore().step == 1
