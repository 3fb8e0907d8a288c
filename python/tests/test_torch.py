# SPDX-License-Identifier: Apache-2.0
"""Modules, tensors and tables of PyTorch."""

from __future__ import annotations

import copy

import numpy as np
import pytest

import ckptdb

from conftest import save_now

torch = pytest.importorskip("torch")
nn = torch.nn
torch.set_num_threads(1)

from torch_training import bits, assert_same, Net  # noqa: E402


DTYPES = [
    torch.float64, torch.float32, torch.float16, torch.bfloat16,
    torch.float8_e4m3fn, torch.float8_e5m2, torch.int64, torch.int32, torch.int16,
    torch.int8, torch.uint64, torch.uint32, torch.uint16, torch.uint8, torch.bool,
]  # fmt: skip


def random_tensor(dtype, shape, seed=0):
    torch.manual_seed(seed)
    if dtype == torch.bool:
        return torch.rand(shape) < 0.5
    wide = torch.randint(-100, 100, shape)
    return wide.to(dtype)


@pytest.mark.parametrize(
    "extra",
    [
        {"calls": 3, "names": ["a"], "range": (0.5, float("inf"))},
        {"table": torch.arange(4), "n": 1},
        torch.arange(5),
        [torch.ones(2), None],
    ],
    ids=["plain", "dict", "tensor", "list"],
)
def test_extra_state(store, extra):
    store.save({"model": Net(extra=extra)})
    for live in [None, copy.deepcopy(extra), torch.zeros(5, dtype=torch.int64)]:
        other = Net(1, extra=live)
        if live is None:
            other.extra = {}
        store.restore({"model": other})
        assert_same(other.extra, extra)
    read = store.read("model")
    assert_same(read["_extra_state"], extra)
    assert_same(read["embed.weight"], Net().embed.weight.detach())


def test_extra_state_in_nested_modules(store):
    class Outer(nn.Module):
        def __init__(self, extra):
            super().__init__()
            self.inner = Net(extra=extra)

    saved = {"parts": {"net": Outer({"k": 1}), "n": 2}, "list": [Net(2, torch.ones(2))]}
    live = {"parts": {"net": Outer({}), "n": 0}, "list": [Net(4, torch.zeros(2))]}
    store.save(saved)
    store.restore(live)
    assert live["parts"]["net"].inner.extra == {"k": 1} and live["parts"]["n"] == 2
    assert_same(live["list"][0].extra, torch.ones(2))
    assert_same(saved["list"][0].state_dict(), live["list"][0].state_dict())
    read = store.read("parts")
    assert read["n"] == 2 and read["net"]["inner._extra_state"] == {"k": 1}
    assert_same(read["net"]["inner.norm.weight"], torch.ones(4))


def test_a_module_whose_state_dict_makes_tensors(store):
    """Values that are no parameters go through load_state_dict."""

    class Packed(nn.Module):
        def __init__(self, value):
            super().__init__()
            self.value = value
            self.w = nn.Parameter(torch.full((2,), float(value)))

        def _save_to_state_dict(self, destination, prefix, keep_vars):
            super()._save_to_state_dict(destination, prefix, keep_vars)
            destination[prefix + "packed"] = torch.tensor([self.value])

        def _load_from_state_dict(self, state, prefix, *rest):
            self.value = int(state.pop(prefix + "packed"))
            super()._load_from_state_dict(state, prefix, *rest)

    store.save({"model": Packed(7)})
    live = Packed(1)
    store.restore({"model": live})
    assert live.value == 7 and live.w.tolist() == [7.0, 7.0]


def test_memory_that_moves_between_saves(path):
    model = nn.Linear(3, 2)
    state = {"model": model}
    saved = []
    with ckptdb.Manager(path, state, save=ckptdb.save_every_n_steps(1)) as manager:

        def step():
            saved.append(copy.deepcopy(model.state_dict()))
            manager.step()

        step()
        model.weight.data = torch.full((2, 3), 2.0)
        step()
        model.to(torch.bfloat16)
        with torch.no_grad():
            model.bias.fill_(3)
        step()
        model.load_state_dict(
            {"weight": torch.full((2, 3), 4.0), "bias": torch.full((2,), 5.0)},
            assign=True,
        )
        step()
        model.weight = nn.Parameter(torch.full((4, 3), 6.0))
        step()
        state["model"] = nn.Linear(3, 2, bias=False)
        model = state["model"]
        step()
    with ckptdb.Reader(path) as reader:
        for number, expected in enumerate(saved, start=1):
            with reader.open(number) as each:
                for name, value in expected.items():
                    got = each.read(f"model.{name}", kind="torch")
                    assert_same(got, value, f"step {number} {name}")
                names = {i.name for i in each.items() if i.kind == "tensor"}
                assert names == {f"model.{name}" for name in expected}


def test_memory_that_moves_between_save_and_restore(path):
    model = nn.Linear(3, 2)
    state = {"model": model}
    with ckptdb.Manager(path, state, save=ckptdb.save_every_n_steps(1)) as manager:
        manager.step()
        expected = copy.deepcopy(model.state_dict())
        manager.wait_until_finished()
        model.load_state_dict(
            {"weight": torch.zeros(2, 3), "bias": torch.zeros(2)}, assign=True
        )
        moved = model.weight.data_ptr()
        manager.restore()
        assert model.weight.data_ptr() == moved
        assert_same(model.state_dict(), expected)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_dtypes_and_shapes(store, dtype):
    shapes = [(), (1,), (5,), (2, 3), (0,), (2, 0, 3)]
    saved = {str(s): random_tensor(dtype, s, i) for i, s in enumerate(shapes)}
    live = {str(s): torch.zeros(s, dtype=dtype) for s in shapes}
    store.save({"top": random_tensor(dtype, (9,), 7), "all": saved})
    state = {"top": torch.zeros(9, dtype=dtype), "all": dict(live)}
    store.restore(state)
    assert_same(state["all"], saved)
    for name, tensor in live.items():
        assert state["all"][name] is tensor
    assert_same(state["top"], random_tensor(dtype, (9,), 7))
    assert_same(store.read("all"), saved)
    assert_same(store.read("top", kind="torch"), state["top"])
    out = torch.zeros(9, dtype=dtype)
    assert store.read("top", out=out) is out
    assert_same(out, state["top"])
    array = store.read("top")
    assert array.tobytes() == bits(state["top"])


@pytest.mark.parametrize("name", ["bf16", "f8e4m3", "f8e5m2"])
def test_names_of_dtypes_in_numpy(store, name):
    ml_dtypes = pytest.importorskip("ml_dtypes")
    theirs = {
        "bf16": ("bfloat16", torch.bfloat16),
        "f8e4m3": ("float8_e4m3fn", torch.float8_e4m3fn),
        "f8e5m2": ("float8_e5m2", torch.float8_e5m2),
    }[name]
    tensor = random_tensor(theirs[1], (6,))
    array = tensor.view(torch.uint8).numpy().view(getattr(ml_dtypes, theirs[0]))
    store.save({"tensor": tensor, "array": array})
    for each in ["tensor", "array"]:
        read = store.read(each)
        assert read.dtype == array.dtype and read.tobytes() == array.tobytes()
        assert_same(store.read(each, kind="torch"), tensor)
    with ckptdb.Reader(store.path) as reader, reader.latest() as step:
        assert {i.name: i.dtype for i in step.items()} == {
            "tensor": name,
            "array": name,
        }


@pytest.mark.parametrize(
    "view",
    [
        lambda t: t.t(),
        lambda t: t[:, ::3],
        lambda t: t[1:3, 2:],
        lambda t: t[:1].expand(5, 6),
        lambda t: t.clone().requires_grad_(),
        lambda t: torch._neg_view(t),
        lambda t: torch._neg_view(t).t(),
        lambda t: t.view(3, 2, 4, 1).permute(3, 1, 0, 2)[:, :1],
        lambda t: t.flip(0),
    ],
)
def test_views_are_stored_by_their_values(store, view):
    tensor = view(torch.arange(24.0).reshape(4, 6))
    store.save({"t": tensor, "d": {"t": tensor}})
    assert_same(store.read("t", kind="torch"), tensor.resolve_neg().detach())
    assert_same(store.read("d")["t"], tensor.resolve_neg().detach())


def test_restores_into_views(store):
    values = torch.arange(12.0).reshape(3, 4)
    store.save({"t": values, "n": values})
    whole = torch.full((3, 8), -1.0)
    negated = torch.zeros(3, 4)
    state = {"t": whole[:, ::2], "n": torch._neg_view(negated)}
    store.restore(state)
    assert_same(whole[:, ::2].contiguous(), values)
    assert bool((whole[:, 1::2] == -1).all())
    assert_same(negated, -values)


def test_sparse_meta_and_complex_tensors_are_refused(path):
    model = nn.Linear(2, 2)
    cases = {
        "complex": (torch.ones(2, dtype=torch.complex64), "torch.view_as_real"),
        "conj": (torch.ones(2, dtype=torch.complex64).conj(), "torch.view_as_real"),
        "half": (torch.ones(2, dtype=torch.complex32), "torch.view_as_real"),
        "sparse": (torch.eye(3).to_sparse(), "indices and values"),
        "csr": (torch.eye(3).to_sparse_csr(), "store its"),
        "meta": (torch.ones(2, device="meta"), "materialize it first"),
        "int4": (
            torch.quantize_per_tensor(torch.ones(2), 1.0, 0, torch.qint8),
            "qint8",
        ),
        "zero": (torch._efficientzerotensor((3,)), "does not own memory"),
    }
    state = {"model": model}
    manager = ckptdb.Manager(path, state, save=ckptdb.save_at_steps([]))
    for name, (tensor, words) in cases.items():
        state[name] = tensor
        with pytest.raises(ckptdb.InvalidArgument, match=words) as caught:
            save_now(manager)
        assert f'state "{name}"' in str(caught.value)
        del state[name]
    model.register_buffer("z", torch.ones(2, dtype=torch.complex64))
    with pytest.raises(ckptdb.InvalidArgument, match='"model.z".*view_as_real'):
        save_now(manager)
    state["model"] = nn.LazyLinear(3)
    with pytest.raises(ckptdb.InvalidArgument, match='"model.weight"'):
        save_now(manager)
    state["model"] = nn.Linear(2, 2)
    save_now(manager)
    manager.close()


def test_shapes_and_dtypes_that_do_not_fit_are_named(store):
    store.save({"model": nn.Linear(3, 2)})
    for other, words in [
        (nn.Linear(4, 2), '"model.weight"'),
        (nn.Linear(3, 2).double(), '"model.weight".*f32'),
        (nn.Linear(3, 2, bias=False), None),
        (nn.Sequential(nn.Linear(3, 2)), '"model.0.weight"'),
    ]:
        before = copy.deepcopy(other.state_dict())
        if words is None:
            store.restore({"model": other}, on_warning=lambda text: None)
            continue
        with pytest.raises(ckptdb.FailedPrecondition, match=words):
            store.restore({"model": other})
        assert_same(before, other.state_dict())
    cast = nn.Linear(3, 2).double()
    store.restore({"model": cast}, restore={"evolve": {"cast": True}})
    assert cast.weight.dtype == torch.float64


def test_tied_weights_that_were_not_tied_in_the_step_are_named(store):
    def made(tied):
        model = nn.ModuleDict(
            {"e": nn.Embedding(3, 2), "h": nn.Linear(2, 3, bias=False)}
        )
        if tied:
            model["h"].weight = model["e"].weight
        return model

    saved = made(tied=False)
    store.save({"model": saved})
    words = '"model.e.weight" and "model.h.weight" have the same memory'
    with ckptdb.Manager(store.path, {"model": made(True)}) as manager:
        with pytest.raises(ckptdb.FailedPrecondition, match=words):
            manager.restore()
        with pytest.raises(ckptdb.FailedPrecondition, match="restore again"):
            manager.step()
        manager.restore(evolve={"exclude": ["model.h.weight"]})
        manager.step()
    store.save({"model": saved})
    for name, other in (("e", "h"), ("h", "e")):
        model = made(tied=True)
        exclude = {"evolve": {"exclude": [f"model.{other}.weight"]}}
        store.restore({"model": model}, restore=exclude)
        assert_same(saved[name].weight, model["e"].weight)
    # Equal values fit, also with other strides, and other parts of the same memory.
    with torch.no_grad():
        saved["h"].weight.copy_(saved["e"].weight)
    store.save({"model": saved})
    model = made(tied=True)
    model["e"].weight.data = torch.zeros(2, 3).t()
    store.restore({"model": model})
    assert_same(saved["e"].weight, model["h"].weight)
    both = torch.arange(4.0)
    store.save({"a": both[:2], "b": both[2:]})
    target = torch.zeros(4)
    store.restore({"a": target[:2], "b": target[2:]})
    assert_same(both, target)


def _interleaved(base):
    return {"left": base[:, :2], "right": base[:, 2:], "whole": base}


OVERLAPS = {
    "transposed": lambda base: {"a": base, "b": base.t()},
    "other_shape": lambda base: {"a": base, "b": base.view(-1)},
    "part": lambda base: {"a": base[0], "b": base},
    "chain": lambda base: {"a": base[:3], "b": base[2:], "c": base.view(-1)[9:]},
    "between": lambda base: {
        "a": base[0],
        "d": base[3],
        "b": base.view(-1)[2:10],
        "c": base.view(-1)[8:14],
    },
    "interleaved": _interleaved,
}


@pytest.mark.parametrize("views", list(OVERLAPS))
def test_overlapping_tensors(store, views):
    make = OVERLAPS[views]
    values = torch.arange(16.0).reshape(4, 4)
    store.save(make(values))
    base = torch.zeros(4, 4)
    store.restore(make(base))
    assert_same(make(values), make(base))
    # Of these the step has values that no shared memory can have.
    apart = {name: each.contiguous().clone() for name, each in make(values).items()}
    first, *_, last = apart
    apart[last].view(-1)[0] += 1
    store.save(apart)
    with pytest.raises(ckptdb.FailedPrecondition, match="have the same memory"):
        store.restore(make(torch.zeros(4, 4)))
    base = torch.zeros(4, 4)
    live = make(base)
    store.restore(live, restore={"evolve": {"exclude": [n for n in live if n != last]}})
    assert_same(apart[last], live[last])


def test_views_without_common_elements_are_separate(store):
    parts = {"a": torch.ones(3, 2), "b": torch.full((3, 2), 2.0)}
    store.save(parts)
    base = torch.zeros(3, 4)
    live = {"a": base[:, ::2], "b": base[:, 1::2]}
    store.restore(live)
    assert_same(parts, live)


def test_ties_are_compared_with_the_first_that_is_loaded(store):
    store.save({"b": torch.ones(2), "c": torch.full((2,), 3.0)})
    tied = torch.zeros(2)
    state = {"a": tied, "b": tied, "c": tied}
    with pytest.raises(ckptdb.FailedPrecondition, match='"b" and "c" have the same'):
        store.restore(state, restore={"evolve": {}})
    for name, other in (("b", "c"), ("c", "b")):
        store.restore(state, restore={"evolve": {"exclude": ["a", other]}})
        assert_same(tied, torch.full((2,), {"b": 1.0, "c": 3.0}[name]))


def test_tables_take_and_return_tensors(store):
    table = ckptdb.Table({"v": ("f32", 3), "h": ("bf16", 2)})
    ids = torch.tensor([5, -1, 2**62])
    rows = table.insert(ids)
    assert isinstance(rows, torch.Tensor) and rows.dtype == torch.int64
    values = torch.arange(9.0).reshape(3, 3)
    table["v"].put(rows, values.t().contiguous().t())
    table["h"].put(rows, torch.ones(3, 2, dtype=torch.bfloat16))
    got = table["v"][rows]
    assert_same(got, values)
    assert table["h"][rows].dtype == torch.bfloat16
    assert table.find(torch.tensor([5, 6])).tolist() == [rows[0].item(), -1]
    assert table.insert(ids.to(torch.int32)[:2]).tolist() == rows[:2].tolist()
    top = torch.tensor([2**64 - 1], dtype=torch.uint64)
    assert table.find(top).tolist() == [rows[1].item()]
    with pytest.raises(ckptdb.InvalidArgument, match="expected integers"):
        table.insert(torch.ones(2))
    with pytest.raises(ckptdb.InvalidArgument, match="one dimension"):
        table.insert(torch.ones(2, 2, dtype=torch.int64))
    with pytest.raises(ckptdb.InvalidArgument, match=r'"v".*f64'):
        table["v"].put(rows, values.double())
    store.save({"t": table})
    other = ckptdb.Table({"v": ("f32", 3), "h": ("bf16", 2)})
    store.restore({"t": other})
    assert_same(other["v"][other.find(ids)], values)


def test_array_tables_follow_their_tensors(path):
    model = nn.Embedding(5, 3)
    table = ckptdb.ArrayTable({"w": model.weight})
    state = {"t": table}
    manager = ckptdb.Manager(path, state, save=ckptdb.save_every_n_steps(1))
    manager.step()
    first = model.weight.detach().clone()
    model.weight.data = torch.full((5, 3), 2.0)
    table.mark(torch.arange(5))
    manager.step()
    model.weight.data = torch.full((5, 3), 4.0)
    table.mark([0])
    manager.step()
    manager.wait_until_finished()
    with ckptdb.Reader(path) as reader:
        for number, expected in [(1, first), (2, torch.full((5, 3), 2.0))]:
            with reader.open(number) as step:
                read = step.table("t").read()
                np.testing.assert_array_equal(read["w"], expected.numpy())
    model.weight.data = torch.zeros(5, 3)
    manager.restore(2)
    assert_same(model.weight.detach(), torch.full((5, 3), 2.0))
    model.weight.data = torch.zeros(4, 3)
    with pytest.raises(ckptdb.InvalidArgument, match=r'"w" has shape \[4, 3\]'):
        manager.save(overwrite=True).wait_committed()
    model.weight.data = torch.zeros(5, 2)
    with pytest.raises(ckptdb.InvalidArgument, match='"w" has rows of f32 x 2'):
        manager.save(overwrite=True).wait_committed()
    model.weight.data = torch.zeros(5, 3, dtype=torch.float64)
    with pytest.raises(ckptdb.InvalidArgument, match='"w" has rows of f64 x 3'):
        manager.save(overwrite=True).wait_committed()
    manager.close()
    with pytest.raises(ckptdb.InvalidArgument, match="negated view"):
        ckptdb.ArrayTable({"w": torch._neg_view(torch.ones(3))})
    with pytest.raises(ckptdb.InvalidArgument, match="is on meta;.* CustomTable"):
        ckptdb.ArrayTable({"w": torch.ones(3, device="meta")})


def test_kind_of_values_is_checked(store):
    store.save({"t": torch.ones(2)})
    with pytest.raises(ckptdb.InvalidArgument, match='"jax"'):
        store.read("t", kind="jax")
    with pytest.raises(ckptdb.InvalidArgument, match=r"out is f32 \[3\]"):
        store.read("t", out=torch.zeros(3))
    with pytest.raises(ckptdb.InvalidArgument, match="out is f64"):
        store.read("t", out=torch.zeros(2, dtype=torch.float64))


def test_lookups_and_trees_in_tensors(store):
    tree = {"a": torch.ones(2), "b": [torch.zeros(3), 4]}
    store.save({"tree": tree})
    with ckptdb.Reader(store.path) as reader, reader.latest() as step:
        assert_same(step.read_tree("tree"), tree)
        like = {"a": np.zeros(2), "b": [torch.zeros(3), 0]}
        got = step.read_tree("tree", like=like)
        assert type(got["a"]) is np.ndarray and got["a"].tolist() == [1, 1]
        assert_same(got["b"], tree["b"])


def test_data_loader_workers_beside_an_open_manager(path, without_garbage):
    """Workers that are forked from the trainer."""

    class Numbers(torch.utils.data.Dataset):
        def __init__(self, table):
            self.table = table

        def __len__(self):
            return 32

        def __getitem__(self, i):
            return i * i

    table = ckptdb.Table({"v": "f32"})
    state = {"t": table, "n": 0}
    with ckptdb.Manager(path, state, save=ckptdb.save_every_n_steps(1)) as manager:
        manager.restore_or_start()
        loader = torch.utils.data.DataLoader(
            Numbers(table), 8, num_workers=2, multiprocessing_context="fork"
        )
        for _ in range(2):
            seen = []
            for batch in loader:
                table.insert(batch)
                seen += batch.tolist()
                manager.step()
            assert seen == [i * i for i in range(32)]
    with ckptdb.Reader(path) as reader, reader.latest() as step:
        assert step.record.step == 8
        assert step.table("t").read().ids.tolist() == [i * i for i in range(32)]
