# SPDX-License-Identifier: Apache-2.0
"""Steps with state dictionaries of PyTorch, restored into modules and optimizers."""

from __future__ import annotations

import pytest

import ckptdb

torch = pytest.importorskip("torch")

EACH = ckptdb.save_every_n_steps(1)


def make():
    model = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.BatchNorm1d(3))
    return model, torch.optim.Adam(model.parameters(), lr=0.1)


def train(model, optimizer):
    optimizer.zero_grad()
    model(torch.arange(8.0).reshape(4, 2)).square().sum().backward()
    optimizer.step()


def trained():
    model, optimizer = make()
    train(model, optimizer)
    return model, optimizer


def check_same(one, other):
    """Trains both once more and compares their values."""
    for model, optimizer in (one, other):
        train(model, optimizer)
    for (name, value), (_, expected) in zip(
        one[0].state_dict().items(), other[0].state_dict().items()
    ):
        torch.testing.assert_close(value, expected, rtol=0, atol=0, msg=name)


@pytest.mark.parametrize("nested", [False, True])
@pytest.mark.parametrize("kind", [dict, lambda state: state])
def test_state_dictionaries_are_restored_into_their_objects(path, kind, nested):
    old = trained()
    saved = {"model": kind(old[0].state_dict()), "optimizer": old[1].state_dict()}
    with ckptdb.Manager(path, {"all": saved} if nested else saved, save=EACH) as m:
        m.restore_or_start()
        m.step()
    new = make()
    state = {"model": new[0], "optimizer": new[1]}
    warnings = []
    with ckptdb.Manager(
        path,
        {"all": state} if nested else state,
        save=EACH,
        on_warning=warnings.append,
    ) as manager:
        manager.restore_or_start()
        assert state["model"] is new[0] and state["optimizer"] is new[1]
        check_same(new, old)
        manager.step()
    assert warnings == []
    # The new step was saved from objects, and is restored into objects.
    again = make()
    state = {"model": again[0], "optimizer": again[1]}
    with ckptdb.Manager(
        path, {"all": state} if nested else state, save=EACH
    ) as manager:
        manager.restore_or_start()
        check_same(again, new)


def test_an_imported_file_is_restored_into_the_trainer(path, tmp_path, python):
    old = trained()
    file = str(tmp_path / "run.pt")
    torch.save(
        {"model": old[0].state_dict(), "optimizer": old[1].state_dict(), "epoch": 3},
        file,
    )
    python(
        """
        import runpy, sys
        sys.argv = ["import", file, "--store", store, "--step", "10"]
        runpy.run_module("ckptdb.torch.import", run_name="__main__", alter_sys=True)
        """,
        file=file,
        store=path,
    )
    new = make()
    state = {"model": new[0], "optimizer": new[1], "epoch": 0}
    with ckptdb.Manager(path, state, save=EACH) as manager:
        assert manager.restore_or_start().step == 10
        assert state["epoch"] == 3
        check_same(new, old)


def test_a_module_is_not_restored_from_another_kind(path):
    with ckptdb.Manager(path, {"d": {"model": [1, 2]}}, save=EACH) as manager:
        manager.restore_or_start()
        manager.step()
    model, _ = make()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    state = {"d": {"model": model}}
    with ckptdb.Manager(path, state, save=EACH) as manager:
        with pytest.raises(
            ckptdb.FailedPrecondition, match='"d.model" was saved from a list'
        ):
            manager.restore()
        manager.restore(evolve={})
        assert state["d"]["model"] is model
    for name, value in model.state_dict().items():
        assert torch.equal(value, before[name]), name


class Wrapper:
    """An object with a state dictionary that is not a module."""

    def __init__(self):
        self.state = {"t": torch.ones(1)}

    def state_dict(self):
        return self.state

    def load_state_dict(self, state):
        self.state = state


@pytest.mark.parametrize("nested", [False, True])
@pytest.mark.parametrize(
    "value",
    [{"steps": 7}, {0: "x"}, {"0.weight": {"a": 1}, "q": None}, "wrapper"],
    ids=str,
)
def test_a_module_is_not_restored_from_a_dictionary_of_other_values(
    path, store, value, nested
):
    def state_of(value):
        return {"d": {"model": value}} if nested else {"model": value}

    store.save(state_of(Wrapper() if value == "wrapper" else value))
    model, _ = make()
    before = {name: each.clone() for name, each in model.state_dict().items()}
    state = state_of(model)
    with ckptdb.Manager(path, state, save=EACH) as manager:
        with pytest.raises(ckptdb.FailedPrecondition, match="has a Sequential there"):
            manager.restore()
        manager.restore(evolve={})
    for name, each in model.state_dict().items():
        assert torch.equal(each, before[name]), name


class Counting(torch.nn.Linear):
    """Has a value other than tensors in its state dictionary."""

    calls = 0

    def get_extra_state(self):
        return {"calls": self.calls}

    def set_extra_state(self, state):
        self.calls = state["calls"]


def test_a_module_has_another_value_or_lacks_one(store):
    old = Counting(2, 2)
    old.calls = 5
    store.save({"model": old, "n": 1})
    plain = torch.nn.Linear(2, 2)
    state = {"model": plain, "n": 0}
    warnings = []
    store.restore(state, on_warning=warnings.append)
    assert any("model._extra_state" in text for text in warnings), warnings
    assert torch.equal(plain.weight, old.weight) and state["n"] == 1
    again = Counting(2, 2)
    store.restore({"model": again, "n": 0})
    assert again.calls == 5
    store.save({"model": plain, "n": 1})
    again.calls = 6
    before = again.weight.clone()
    with pytest.raises(ckptdb.FailedPrecondition, match=r'lacks "model\._extra_state"'):
        store.restore({"model": again, "n": 0})
    assert torch.equal(again.weight, before)
    store.restore({"model": again, "n": 0}, restore={"evolve": {}})
    assert again.calls == 6 and torch.equal(again.weight, plain.weight)


def test_an_expanded_tensor(path, store):
    def model(value):
        module = torch.nn.Linear(2, 2)
        module.register_buffer("mask", torch.full((3, 1), value).expand(3, 4))
        return module

    state = {"model": model(7.0)}
    store.save(state)
    state = {"model": model(0.0)}
    store.restore(state)
    assert state["model"].mask.tolist() == [[7.0] * 4] * 3
    with ckptdb.Reader(path) as reader, reader.latest() as step:
        out = torch.zeros(3, 1).expand(3, 4)
        assert step.read("model.mask", out=out)[2, 3] == 7
    state["model"].mask = torch.arange(12.0).reshape(3, 4)
    store.save(state)
    state = {"model": model(0.0)}
    with pytest.raises(ckptdb.Error, match="clone"):
        store.restore(state)


class Metric:
    """An object that resets its tensors before it loads others into them."""

    def __init__(self, value, kind="torch"):
        array = torch.full((3,), float(value))
        self.sums = array if kind == "torch" else array.numpy()
        self.parts = {"counts": [self.sums + 1]}

    def state_dict(self):
        return {"sums": self.sums, "parts": self.parts}

    def load_state_dict(self, state):
        self.sums[:] = 0
        self.sums += state["sums"]
        counts = self.parts["counts"][0]
        counts[:] = 0
        counts += state["parts"]["counts"][0]


@pytest.mark.parametrize("kind", ["torch", "numpy"])
def test_objects_may_reset_their_tensors_before_they_load(path, kind):
    with ckptdb.Manager(path, {"metric": Metric(5, kind)}) as manager:
        manager.save()
    metric = Metric(1, kind)
    with ckptdb.Manager(path, {"metric": metric}, read_only=True) as manager:
        manager.restore()
    assert metric.sums.tolist() == [5, 5, 5]
    assert metric.parts["counts"][0].tolist() == [6, 6, 6]
