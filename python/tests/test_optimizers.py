# SPDX-License-Identifier: Apache-2.0
"""Optimizers and schedulers of PyTorch: states that fit, and those that do not."""

from __future__ import annotations

import copy

import pytest

import ckptdb

torch = pytest.importorskip("torch")
nn = torch.nn
torch.set_num_threads(1)

from torch_training import assert_same, Net, train  # noqa: E402


OPTIMIZERS = {
    "adam": lambda p: torch.optim.Adam(p, lr=1e-2, betas=(0.8, 0.99)),
    "adamw": lambda p: torch.optim.AdamW(p, amsgrad=True),
    "adagrad": lambda p: torch.optim.Adagrad(p, lr=0.1),
    "momentum": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True),
    "sgd": lambda p: torch.optim.SGD(p, lr=0.1),
    "rmsprop": lambda p: torch.optim.RMSprop(p, centered=True),
    "sparse": lambda p: torch.optim.Adamax(p),
}


@pytest.mark.parametrize("optimizer", list(OPTIMIZERS))
@pytest.mark.parametrize("fresh", [True, False], ids=["fresh", "used"])
def test_training_continues_bit_for_bit(store, optimizer, fresh):
    model = Net()
    optimizer = OPTIMIZERS[optimizer]
    chosen = optimizer(model.parameters())
    train(model, chosen)
    store.save({"model": model, "optimizer": chosen})

    other = Net(seed=3)
    restored = optimizer(other.parameters())
    if not fresh:
        train(other, restored, steps=2, seed=9)
    weights = {name: p.data_ptr() for name, p in other.named_parameters()}
    store.restore({"model": other, "optimizer": restored})
    assert weights == {name: p.data_ptr() for name, p in other.named_parameters()}
    assert_same(model.state_dict(), other.state_dict())
    assert_same(chosen.state_dict(), restored.state_dict())
    assert other.out.weight is other.embed.weight
    for each, at in [(model, chosen), (other, restored)]:
        train(each, at, steps=3, seed=17)
    assert_same(model.state_dict(), other.state_dict())
    assert_same(chosen.state_dict(), restored.state_dict())


def test_optimizer_state_made_between_saves(path):
    model = Net()
    optimizer = torch.optim.Adam(model.parameters())
    state = {"model": model, "optimizer": optimizer}
    with ckptdb.Manager(path, state, save=ckptdb.save_every_n_steps(1)) as manager:
        manager.step()
        train(model, optimizer)
        manager.step()
    with ckptdb.Reader(path) as reader:
        with reader.open(1) as step:
            assert step.read("optimizer")["state"] == {}
        with reader.open(2) as step:
            assert_same(optimizer.state_dict(), step.read("optimizer"))
            name = "optimizer.state.0.exp_avg"
            moments = optimizer.state_dict()["state"][0]["exp_avg"]
            assert_same(step.read(name, kind="torch"), moments)


def test_restoring_a_step_before_the_optimizer_had_state(path):
    model = Net()
    optimizer = torch.optim.Adam(model.parameters())
    state = {"model": model, "optimizer": optimizer}
    with ckptdb.Manager(path, state, save=ckptdb.save_every_n_steps(1)) as manager:
        manager.step()
        train(model, optimizer)
        assert len(optimizer.state) > 0
        manager.wait_until_finished()
        manager.restore()
        assert len(optimizer.state) == 0


SCHEDULERS = {
    "step": lambda o: torch.optim.lr_scheduler.StepLR(o, 2),
    "cosine": lambda o: torch.optim.lr_scheduler.CosineAnnealingWarmRestarts(o, 5),
    "cycle": lambda o: torch.optim.lr_scheduler.OneCycleLR(o, 0.1, total_steps=20),
    "lambda": lambda o: torch.optim.lr_scheduler.LambdaLR(o, lambda step: 0.9**step),
    "sequential": lambda o: torch.optim.lr_scheduler.SequentialLR(
        o,
        [
            torch.optim.lr_scheduler.ConstantLR(o, 0.1),
            torch.optim.lr_scheduler.ExponentialLR(o, 0.9),
        ],
        [2],
    ),
}


@pytest.mark.parametrize("scheduler", list(SCHEDULERS))
def test_schedulers(store, scheduler):
    make = SCHEDULERS[scheduler]
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.5)
    schedule = make(optimizer)
    train(model, optimizer, scheduler=schedule)
    store.save({"m": model, "o": optimizer, "s": schedule})
    other = Net(1)
    restored = torch.optim.SGD(other.parameters(), lr=0.1, momentum=0.5)
    resumed = make(restored)
    store.restore({"m": other, "o": restored, "s": resumed})
    for each, at, s in [(model, optimizer, schedule), (other, restored, resumed)]:
        train(each, at, scheduler=s)
    assert schedule.get_last_lr() == resumed.get_last_lr()
    assert_same(model.state_dict(), other.state_dict())


def test_plateau_and_scaler(store):
    """Infinities in their state."""
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    plateau = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer)
    scaler = torch.amp.GradScaler("cpu")
    store.save({"plateau": plateau, "scaler": scaler})
    plateau.step(0.5)
    scaler.load_state_dict({**scaler.state_dict(), "scale": 4.0})
    store.restore({"plateau": plateau, "scaler": scaler})
    assert plateau.best == float("inf") and plateau.last_epoch == 0
    assert scaler.state_dict()["scale"] == 65536.0


def two_layers(*widths):
    torch.manual_seed(len(widths))
    return nn.Sequential(*[nn.Linear(2, width) for width in widths])


def step_of(model, optimizer):
    sum(layer(torch.ones(1, 2)).square().sum() for layer in model).backward()
    optimizer.step()
    return optimizer


def groups_of(model):
    return [{"params": layer.parameters()} for layer in model]


OTHER_OPTIMIZERS = {
    "parameters": (
        lambda m: torch.optim.Adam(m[0].parameters()),
        "it has 2 parameters, and the step's optimizer had 4",
    ),
    "groups": (
        lambda m: torch.optim.Adam(groups_of(m)),
        "it has 2 parameter groups, and the step's optimizer had 1",
    ),
    "sgd": (
        lambda m: torch.optim.SGD(m.parameters(), lr=0.1, momentum=0.9),
        "lacks the options .'dampening', 'momentum', 'nesterov'., and has .'amsgrad'",
    ),
    "adamax": (lambda m: torch.optim.Adamax(m.parameters()), "has .'amsgrad'."),
    "adagrad": (lambda m: torch.optim.Adagrad(m.parameters()), "'lr_decay'"),
    "rmsprop": (lambda m: torch.optim.RMSprop(m.parameters()), "'centered'"),
    "adamw": (
        lambda m: torch.optim.AdamW(m.parameters()),
        "decoupled_weight_decay=False, as Adam, and the state's has True",
    ),
}


@pytest.mark.parametrize("other", list(OTHER_OPTIMIZERS))
@pytest.mark.parametrize("nested", [False, True])
def test_an_optimizer_that_does_not_fit_is_named_and_nothing_changes(
    store, other, nested
):
    def state_of(model, optimizer):
        return {"model": model, "optimizer": [optimizer] if nested else optimizer}

    model = two_layers(2, 2)
    store.save(state_of(model, step_of(model, torch.optim.Adam(model.parameters()))))
    live = two_layers(2, 2, 2)[:2]
    before = copy.deepcopy(live.state_dict())
    make, words = OTHER_OPTIMIZERS[other]
    optimizer = step_of(live, make(live)) if nested else make(live)
    kept = copy.deepcopy(optimizer.state_dict())
    before = copy.deepcopy(live.state_dict())
    state = state_of(live, optimizer)
    words += r'.*evolve={"exclude": \["optimizer"\]}'
    with pytest.raises(ckptdb.FailedPrecondition, match=words):
        store.restore(state)
    with pytest.raises(ckptdb.FailedPrecondition, match=words):
        store.restore(state, restore={"evolve": {"exclude": ["mod*"]}})
    assert_same(before, live.state_dict())
    rules = [{"path": store.path, "load": ["model.*"]}]
    with ckptdb.Manager(store.path, state, read_only=True) as manager:
        manager.load(rules)
        assert_same(model.state_dict(), live.state_dict())
    for evolve in ({"exclude": ["optimizer"]}, {"exclude": ["opt*"]}):
        live.load_state_dict(before)
        store.restore(state, restore={"evolve": evolve})
        assert_same(model.state_dict(), live.state_dict())
        assert_same(kept, optimizer.state_dict())
    step_of(live, optimizer)
    with ckptdb.Manager(store.path, state, read_only=True) as manager:
        with pytest.raises(ckptdb.FailedPrecondition, match="does not fit"):
            manager.load([{"path": store.path, "load": ["*"], "strict": False}])


def test_tensors_of_an_optimizer_that_does_not_fit_are_not_loaded_alone(store):
    model = two_layers(2, 2)
    optimizer = step_of(model, torch.optim.Adam(model.parameters()))
    store.save({"model": model, "opt[0]": optimizer})
    live = two_layers(2, 2)
    state = {"model": live, "opt[0]": step_of(live, torch.optim.Adam(groups_of(live)))}
    with ckptdb.Manager(store.path, state, read_only=True) as manager:
        with pytest.raises(ckptdb.FailedPrecondition, match="does not fit"):
            manager.load([{"path": store.path, "load": ["opt*.exp_avg"]}])
    # Brackets are not special in patterns.
    store.restore(state, restore={"evolve": {"exclude": ["opt[0]"]}})
    assert_same(model.state_dict(), live.state_dict())


@pytest.mark.parametrize("made", [torch.optim.Adamax, torch.optim.RAdam])
def test_adamax_and_radam_are_told_apart(store, made):
    model = two_layers(2, 2)
    store.save({"optimizer": step_of(model, made(model.parameters()))})
    same = made(two_layers(2, 2).parameters())
    store.restore({"optimizer": same})
    (other,) = {torch.optim.Adamax, torch.optim.RAdam} - {made}
    with pytest.raises(ckptdb.FailedPrecondition, match="decoupled_weight_decay"):
        store.restore({"optimizer": other(two_layers(2, 2).parameters())})


class Keyed:
    """An optimizer that names its parameters, as TorchRec's KeyedOptimizer does."""

    def __init__(self, **momenta):
        self.momenta = {name: torch.tensor(value) for name, value in momenta.items()}

    def state_dict(self):
        return {
            "state": {name: {"m": value} for name, value in self.momenta.items()},
            "param_groups": [{"params": list(self.momenta), "lr": 0.1}],
        }

    def load_state_dict(self, state):
        assert state["param_groups"] == [{"params": list(self.momenta), "lr": 0.1}]
        self.momenta = {name: each["m"] for name, each in state["state"].items()}


def test_parameters_that_a_group_lists_by_name_are_matched_by_it(store):
    store.save({"optimizer": Keyed(a=1.0, b=2.0)})
    reordered = Keyed(b=0.0, a=0.0)
    store.restore({"optimizer": reordered})
    assert reordered.momenta == {"a": 1.0, "b": 2.0}
    words = r"lacks the parameters \['c'\], and has \['b'\]"
    with pytest.raises(ckptdb.FailedPrecondition, match=words):
        store.restore({"optimizer": Keyed(a=0.0, c=0.0)})


@pytest.mark.parametrize("shape", [(2,), (3, 2)])
@pytest.mark.parametrize("fresh", [True, False])
@pytest.mark.parametrize("groups", [1, 2])
def test_named_parameters_get_their_own_state_in_any_order(store, shape, fresh, groups):
    def made(names, seed):
        torch.manual_seed(seed)
        shapes = {"a": (2,), "b": shape, "c": (2,)}
        parameters = {n: nn.Parameter(torch.rand(shapes[n])) for n in "abc"}
        named = [(n, parameters[n]) for n in names]
        if groups == 2:
            named = [
                {"params": [("x", nn.Parameter(torch.ones(1)))]},
                {"params": named},
            ]
        return parameters, torch.optim.SGD(named, lr=0.1, momentum=0.9)

    def train(parameters, optimizer):
        sum((i * p).sum() for i, p in enumerate(parameters.values(), 2)).backward()
        optimizer.step()

    parameters, optimizer = made("abc", 0)
    train(parameters, optimizer)
    store.save({"optimizer": optimizer})
    others, restored = made("cab", 1)
    if not fresh:
        train(others, restored)
    store.restore({"optimizer": restored})
    assert restored.param_groups[-1]["param_names"] == ["c", "a", "b"]
    for name in "abc":
        assert_same(
            optimizer.state[parameters[name]], restored.state[others[name]], name
        )
    _, missing = made("ab", 1)
    words = r"the step lacks the parameters \[\], and has \['c'\], in parameter group"
    with pytest.raises(ckptdb.FailedPrecondition, match=words):
        store.restore({"optimizer": missing})


PREFIXES = ["", "module.", "_orig_mod.", "module._orig_mod.", "_orig_mod.module."]


@pytest.mark.parametrize("after", PREFIXES)
@pytest.mark.parametrize("before", PREFIXES[:3])
def test_named_parameters_of_wrapped_models_get_their_own_state(store, before, after):
    """DistributedDataParallel and torch.compile put these before the names."""

    def made(prefix, order, seed):
        torch.manual_seed(seed)
        parameters = {n: nn.Parameter(torch.rand(2)) for n in ("a.module.w", "b.w")}
        named = [(prefix + n, parameters[n]) for n in list(parameters)[::order]]
        return parameters, torch.optim.SGD(named, lr=0.1, momentum=0.9)

    parameters, optimizer = made(before, 1, 0)
    sum((p * p).sum() for p in parameters.values()).backward()
    optimizer.step()
    store.save({"optimizer": optimizer})
    others, restored = made(after, -1, 1)
    names = list(restored.param_groups[0]["param_names"])
    store.restore({"optimizer": restored})
    assert restored.param_groups[0]["param_names"] == names
    for name, each in parameters.items():
        assert_same(optimizer.state[each], restored.state[others[name]])


@pytest.mark.parametrize("fresh", [True, False], ids=["fresh", "used"])
@pytest.mark.parametrize("given", ["restore", "option", "load"])
def test_a_renamed_optimizer(path, fresh, given):
    model, optimizer = _trained(0)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 2)
    train(model, optimizer, scheduler=schedule)
    saved = {"model": model, "opt": optimizer, "train": {"schedule": schedule}}
    with ckptdb.Manager(path, saved) as manager:
        manager.step()
    other = Net(3)
    restored = torch.optim.Adam(other.parameters())
    if not fresh:
        train(other, restored, seed=8)
    resumed = torch.optim.lr_scheduler.StepLR(restored, 2)
    state = {"net": other, "optimizer": restored, "train": {"scheduler": resumed}}
    evolve = {
        "oname": {
            "net": "model",
            "optimizer": "opt",
            "train.scheduler": "train.schedule",
        }
    }
    options = {"evolve": evolve} if given == "option" else {}
    with ckptdb.Manager(path, state, saving=False, **options) as manager:
        if given == "load":
            manager.load([evolve])
        else:
            manager.restore(evolve=evolve if given == "restore" else None)
    assert_same(model.state_dict(), other.state_dict())
    assert_same(optimizer.state_dict(), restored.state_dict())
    assert_same(schedule.state_dict(), resumed.state_dict())


def _trained(seed):
    model = Net(seed)
    optimizer = torch.optim.Adam(model.parameters())
    train(model, optimizer)
    return model, optimizer


def test_another_optimizer_changes_nothing_whatever_is_excluded(path):
    """The object is excluded, but not its tensors."""
    model, optimizer = _trained(0)
    with ckptdb.Manager(path, {"model": model, "optimizer": optimizer}) as manager:
        manager.step()
    other = Net(3)
    changed = torch.optim.Adam([*other.parameters(), torch.nn.Parameter(torch.ones(1))])
    train(other, changed)
    before = copy.deepcopy([other.state_dict(), changed.state_dict()])
    state = {"model": other, "optimizer": changed}
    words = "does not fit the step: it has 8 parameters"
    with ckptdb.Manager(path, state, saving=False) as manager:
        with pytest.raises(ckptdb.FailedPrecondition, match=words):
            manager.restore(evolve={"exclude": ["extra"]})
        with pytest.raises(ckptdb.FailedPrecondition, match=words):
            manager.load([{"load": ["dense"]}])
        assert_same(before, [other.state_dict(), changed.state_dict()])
        manager.load([{"load": ["dense"], "exclude": ["optimizer.*"]}])
        assert_same(model.state_dict()["out.weight"], other.state_dict()["out.weight"])


def test_renamed_entries_of_several_ranks(tmp_path, path):
    from job import run

    code = """
    def state(model, optimizer, seed):
        torch.manual_seed(seed)
        net = torch.nn.Linear(3, 2)
        adam = torch.optim.Adam(net.parameters())
        return {model: net, optimizer: adam}, net, adam

    def train(net, adam):
        net(torch.ones(1, 3)).sum().backward()
        adam.step()

    saved, net, adam = state("model", "opt", 0)
    train(net, adam)
    ranks = ckptdb.torch.ranks(deadline=60)
    with ckptdb.Manager(path, saved, ranks=ranks) as manager:
        manager.step()
    other, new_net, new_adam = state("net", "optimizer", 1)
    if rank == 1:  # the other has no optimizer state yet
        train(new_net, new_adam)
    with ckptdb.Manager(path, other, saving=False, ranks=ranks) as manager:
        try:
            manager.restore(evolve={"oname": {"net": "model", "optimizer": "otp"}})
        except ckptdb.FailedPrecondition as error:
            assert 'extra "otp"' in str(error), error
        evolve = {"oname": {"net": "model", "optimizer": "opt"}}
        manager.restore(evolve=evolve)
    assert torch.equal(net.weight, new_net.weight)
    moments = [each.state_dict()["state"][0]["exp_avg"] for each in (adam, new_adam)]
    assert torch.equal(*moments)
    print("restored")
    """
    assert all("restored" in text for text in run(tmp_path, 2, code, path=path))


def _resized(width, made, trained=True):
    torch.manual_seed(width)
    model = nn.Sequential(nn.Linear(3, 4), nn.Linear(4, width))
    optimizer = made(model.parameters())
    if trained:
        model(torch.ones(2, 3)).square().sum().backward()
        optimizer.step()
    return model, optimizer


@pytest.mark.parametrize("made", [torch.optim.Adam, torch.optim.Adagrad])
@pytest.mark.parametrize("used", [True, False], ids=["used", "fresh"])
def test_excluded_state_of_a_resized_parameter_keeps_its_values(store, made, used):
    model, optimizer = _resized(2, made)
    store.save({"model": model, "optimizer": optimizer})
    other, restored = _resized(5, made, trained=used)
    before = copy.deepcopy(restored.state_dict()["state"])
    excluded = ["model.1.*", "optimizer.state.2.*", "optimizer.state.3.*"]
    state = {"model": other, "optimizer": restored}
    store.restore(state, restore={"evolve": {"exclude": excluded}})
    now, saved = restored.state_dict()["state"], optimizer.state_dict()["state"]
    for number in range(4):
        if number < 2:
            assert_same(saved[number], now[number])
        elif number in before:  # otherwise the next step makes it
            assert_same(before[number], now[number])
        else:
            assert number not in now
    other(torch.ones(2, 3)).sum().backward()
    restored.step()


class Buffer:
    """An object that makes its tensor anew when it is loaded."""

    def __init__(self, values):
        self.values, self.count = torch.tensor(values), len(values)

    def state_dict(self):
        return {"values": self.values, "count": self.count}

    def load_state_dict(self, state):
        self.values, self.count = state["values"].clone(), state["count"]


def test_an_excluded_tensor_of_an_object_keeps_its_values(store):
    store.save({"buffer": Buffer([1.0, 2.0])})
    buffer = Buffer([3.0, 4.0, 5.0])
    store.restore(
        {"buffer": buffer}, restore={"evolve": {"exclude": ["buffer.values"]}}
    )
    assert buffer.values.tolist() == [3, 4, 5] and buffer.count == 2


@pytest.mark.parametrize("used", [True, False], ids=["used", "fresh"])
def test_moments_of_other_shapes_are_named_and_nothing_changes(store, used):
    model, optimizer = _resized(2, torch.optim.Adam)
    store.save({"model": model, "optimizer": optimizer})
    other, restored = _resized(5, torch.optim.Adam, trained=used)
    before = copy.deepcopy([other.state_dict(), restored.state_dict()])
    state = {"model": other, "optimizer": restored}
    words = r'"optimizer.state.2.exp_avg": expected f32 \[5, 4\], got f32 \[2, 4\]'
    with pytest.raises(ckptdb.FailedPrecondition, match=words) as error:
        store.restore(state)
    assert 'dense "model.1.weight": expected f32 [5, 4]' in str(error.value)
    with pytest.raises(ckptdb.FailedPrecondition, match=words):
        store.restore(state, restore={"evolve": {"exclude": ["model.1.*"]}})
    assert_same(before, [other.state_dict(), restored.state_dict()])


def test_groups_in_another_order_are_named(store):
    def made(model, order):
        weights, biases = {"params": [model[0].weight]}, {"params": [model[0].bias]}
        return torch.optim.SGD([weights, biases][::order], lr=0.1, momentum=0.9)

    model, other = two_layers(3), two_layers(3)
    store.save({"optimizer": step_of(model, made(model, 1))})
    words = r'"optimizer.state.0.momentum_buffer": expected f32 \[3\], got f32 \[3, 2\]'
    with pytest.raises(ckptdb.FailedPrecondition, match=words):
        store.restore({"optimizer": made(other, -1)})


class Mixed(torch.optim.Optimizer):
    """Has float32 weights, of which the parameters in bf16 are rounded copies."""

    def __init__(self, parameters):
        super().__init__(parameters, {"lr": 0.01})

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            for each in group["params"]:
                state = self.state[each]
                if not state:
                    state["weight"] = each.float()
                    state["sums"] = [torch.zeros_like(each, dtype=torch.float32)]
                state["sums"][0] += each.grad.float() ** 2
                state["weight"] -= group["lr"] * each.grad.float()
                each.copy_(state["weight"])


@pytest.mark.parametrize("fresh", [True, False], ids=["fresh", "used"])
@pytest.mark.parametrize("made", [Mixed, torch.optim.NAdam, torch.optim.ASGD])
def test_state_in_another_dtype_than_its_parameter_keeps_it(store, made, fresh):
    """PyTorch's load_state_dict rounds it to the parameter's."""

    def trained(seed, steps):
        torch.manual_seed(seed)
        model = nn.Linear(3, 2).to(torch.bfloat16)
        optimizer = made(model.parameters())
        return model, optimizer, step_in_bf16(model, optimizer, steps)

    def step_in_bf16(model, optimizer, steps):
        for _ in range(steps):
            optimizer.zero_grad()
            model(torch.rand(4, 3, dtype=torch.bfloat16)).square().sum().backward()
            optimizer.step()

    model, optimizer, _ = trained(0, 3)
    store.save({"model": model, "optimizer": optimizer})
    other, restored, _ = trained(1, 0 if fresh else 2)
    store.restore({"model": other, "optimizer": restored})
    assert_same(optimizer.state_dict(), restored.state_dict())
    for each, at in [(model, optimizer), (other, restored)]:
        torch.manual_seed(5)
        step_in_bf16(each, at, 3)
    assert_same(model.state_dict(), other.state_dict())
    assert_same(optimizer.state_dict(), restored.state_dict())


def test_moments_of_a_converted_model_get_its_dtype(store):
    model, optimizer = _resized(2, torch.optim.Adam)
    store.save({"model": model, "optimizer": optimizer})
    other, _ = _resized(2, torch.optim.Adam)
    other.to(torch.bfloat16)
    restored = torch.optim.Adam(other.parameters())
    state = {"model": other, "optimizer": restored}
    store.restore(state, restore={"evolve": {"cast": True}})
    moment = optimizer.state_dict()["state"][0]["exp_avg"]
    now = restored.state_dict()["state"][0]["exp_avg"]
    assert_same(moment.to(torch.bfloat16), now)


lr_scheduler = torch.optim.lr_scheduler
OTHER_SCHEDULES = {
    "cosine": (
        lambda o: lr_scheduler.CosineAnnealingLR(o, 9),
        r"lacks the options \['T_max', 'eta_min'\], and has \['gamma', 'step_size'\]",
    ),
    "exponential": (lambda o: lr_scheduler.ExponentialLR(o, 0.9), r"\['step_size'\]"),
    "plateau": (lambda o: lr_scheduler.ReduceLROnPlateau(o), "'patience'"),
    "sequence": (
        lambda o: lr_scheduler.SequentialLR(o, [lr_scheduler.StepLR(o, 2)] * 2, [4]),
        "'_milestones', '_schedulers'",
    ),
}


@pytest.mark.parametrize("other", list(OTHER_SCHEDULES))
@pytest.mark.parametrize("nested", [False, True])
def test_another_schedule_is_named_and_nothing_changes(store, other, nested):
    """PyTorch's load_state_dict would mix the options of both."""

    def state_of(schedule):
        return {"schedule": [schedule] if nested else schedule}

    def optimizer():
        return torch.optim.SGD(two_layers(2).parameters(), lr=0.1)

    store.save(state_of(lr_scheduler.StepLR(optimizer(), 3)))
    make, words = OTHER_SCHEDULES[other]
    schedule = make(optimizer())
    before = copy.deepcopy(schedule.state_dict())
    words += r'.*evolve={"exclude": \["schedule"\]}'
    with pytest.raises(ckptdb.FailedPrecondition, match=words):
        store.restore(state_of(schedule))
    state = state_of(schedule)
    store.restore(state, restore={"evolve": {"exclude": ["schedule"]}})
    assert before == schedule.state_dict()


def test_another_schedule_in_a_sequence_is_named(store):
    def made(second):
        optimizer = torch.optim.SGD(two_layers(2).parameters(), lr=0.1)
        parts = [lr_scheduler.ConstantLR(optimizer), second(optimizer)]
        return lr_scheduler.SequentialLR(optimizer, parts, [2])

    store.save({"schedule": made(lambda o: lr_scheduler.StepLR(o, 3))})
    store.restore({"schedule": made(lambda o: lr_scheduler.StepLR(o, 3))})
    with pytest.raises(ckptdb.FailedPrecondition, match=r"has \['step_size'\]"):
        store.restore({"schedule": made(lambda o: lr_scheduler.ExponentialLR(o, 0.5))})
