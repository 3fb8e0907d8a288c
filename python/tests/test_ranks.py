# SPDX-License-Identifier: Apache-2.0
"""Managers of several ranks over torch.distributed."""

from __future__ import annotations

import re

import pytest

import ckptdb

pytest.importorskip("numpy")
torch = pytest.importorskip("torch")
pytest.importorskip("torch.distributed.tensor")
if not torch.distributed.is_available():
    pytest.skip("PyTorch without torch.distributed", allow_module_level=True)

from job import run  # noqa: E402

# A model of all kinds of state, made anew by each rank of any world. `digests` has a
# hash of each whole entry: equal on all ranks, whatever the world.
STATE = """
import hashlib
import numpy as np
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor

mesh = init_device_mesh("cpu", (world,))
FULL = {
    "uneven": (torch.arange(35.0).reshape(7, 5), [Shard(0)]),
    "columns": (torch.arange(35).reshape(7, 5).to(torch.int32), [Shard(1)]),
    "tiny": (torch.arange(3.0).reshape(1, 3).half(), [Shard(0)]),
    "same": (torch.arange(6.0), [Replicate()]),
}

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first = torch.nn.Linear(5, 7)
        self.second = torch.nn.Linear(7, 1)
    def forward(self, x):
        return self.second(torch.relu(self.first(x)))

class Position:
    def __init__(self): self.bytes = b""
    def io_state(self): return b"rank %d" % rank
    def load_io_state(self, data): self.bytes = data

def by_hundreds(ids, world_size):
    return ids // 100 % world_size

def owner(kind, ids):
    if kind == "slices":
        return None
    return ids % world if kind == "modulo" else by_hundreds(ids, world)

class Model:
    def __init__(self, filled):
        torch.manual_seed(3)
        self.net = Net()
        fully_shard(self.net.first, mesh=mesh)
        fully_shard(self.net, mesh=mesh)
        self.adam = torch.optim.Adam(self.net.parameters(), lr=0.1)
        self.tables = {
            kind: ckptdb.Table({"embedding": ("f32", 2)},
                               sharding=kind if kind != "function" else
                               ("function", "hundreds", by_hundreds))
            for kind in ("slices", "modulo", "function", "replicated")
        }
        make = (lambda t: t) if filled else torch.zeros_like
        self.state = {
            "net": self.net, "adam": self.adam, "plain": make(torch.arange(10.0)),
            "epoch": 7 if filled else 0, **self.tables, "position": Position(),
            "nested": {n: distribute_tensor(make(t), mesh, p, src_data_rank=None)
                       for n, (t, p) in FULL.items()},
        }

    def train(self):
        torch.manual_seed(5)
        for _ in range(3):
            self.net(torch.randn(4, 5)).square().mean().backward()
            self.adam.step()
            self.adam.zero_grad()

    def fill(self):
        ids = np.arange(-50, 950) * 7
        for kind, table in self.tables.items():
            own = ids
            if kind == "slices":  # slice: the lowest 16 bits
                bounds = [65536 * r // world for r in range(world + 1)]
                slices = ids % 65536
                own = ids[(slices >= bounds[rank]) & (slices < bounds[rank + 1])]
            elif kind != "replicated":
                own = ids[owner(kind, ids) == rank]
            rows = table.insert(own)
            table["embedding"].put(rows, np.stack([own, own * 2], 1).astype("f4"))

    def rows(self, table):
        ids, rows = table.rows()
        values = table["embedding"][rows]
        order = np.argsort(ids)
        return ids[order], values[order]

    def digests(self):
        def digest(*arrays):
            return hashlib.sha256(b"".join(a.tobytes() for a in arrays)).hexdigest()[:8]
        def whole(t):
            t = t.full_tensor() if isinstance(t, DTensor) else t
            return digest(t.detach().contiguous().view(torch.uint8).numpy()
                          if t.dim() else t.detach().reshape(1).numpy())
        found = {n: whole(t) for n, t in self.net.state_dict().items()}
        for number, values in self.adam.state_dict()["state"].items():
            found.update({f"{number}.{k}": whole(t) for k, t in values.items()})
        found.update({n: whole(t) for n, t in self.state["nested"].items()})
        found["plain"] = whole(self.state["plain"])
        found["epoch"] = self.state["epoch"]
        for kind, table in self.tables.items():
            parts = [None] * world
            dist.all_gather_object(parts, self.rows(table))
            if kind == "replicated":
                assert all((p[0] == parts[0][0]).all() for p in parts)
                parts = parts[:1]
            ids = np.concatenate([p[0] for p in parts])
            order = np.argsort(ids, kind="stable")
            found[kind] = digest(ids[order], np.concatenate([p[1] for p in parts])[order])
            assert len(ids) == 1000, (kind, len(ids))
        return found
"""

SAVE = (
    STATE
    + """
model = Model(filled=True)
model.train()
model.fill()
with ckptdb.Manager(path, model.state, ranks=ckptdb.torch.ranks(deadline=60),
                    save=ckptdb.save_every_n_steps(1)) as manager:
    print(manager.restore_or_start())
    manager.step()
    manager.wait_until_finished()
    first = model.rows(model.tables["modulo"])[0][:1]
    model.tables["modulo"].erase(first)
    for kind in ("modulo", "function"):
        ids, rows = model.tables[kind].rows()
        model.tables[kind]["embedding"].put(rows[:5], np.full((5, 2), 9, "f4"))
    model.tables["modulo"].insert(first)
    manager.step()
print(model.digests())
"""
)

RESTORE = (
    STATE
    + """
model = Model(filled=False)
manager = ckptdb.Manager(path, model.state, ranks=ckptdb.torch.ranks(deadline=60),
                         save=ckptdb.save_at_steps([]), io_state_resize="owners")
report = manager.restore()
assert report.step == 2
position = model.state["position"].bytes
assert position == (b"rank %d" % rank if world == 2 else b"rank 0"), position
print(model.digests())
manager.close()
dist.destroy_process_group()
"""
)


def last_line(text: str) -> str:
    return text.strip().splitlines()[-1]


def test_two_ranks_save_and_any_number_restores(tmp_path, path):
    saved = {last_line(text) for text in run(tmp_path, 2, SAVE, path=path)}
    assert len(saved) == 1
    for world in (1, 2, 3):
        restored = {
            last_line(text) for text in run(tmp_path, world, RESTORE, path=path)
        }
        assert restored == saved, world


def test_a_process_without_ranks_reads_what_ranks_saved(tmp_path, path):
    run(tmp_path, 2, SAVE, path=path)
    with ckptdb.Reader(path) as reader, reader.latest() as step:
        nested = step.read("nested", kind="torch")
        assert nested["uneven"].equal(torch.arange(35.0).reshape(7, 5))
        assert nested["columns"].equal(torch.arange(35).reshape(7, 5).to(torch.int32))
        assert nested["tiny"].equal(torch.arange(3.0).reshape(1, 3).half())
        weight = step.read("net.first.weight", kind="torch")
    net = torch.nn.Module()
    net.first, net.second = torch.nn.Linear(5, 7), torch.nn.Linear(7, 1)
    adam = torch.optim.Adam(net.parameters(), lr=0.1)
    manager = ckptdb.Manager(path, {"net": net, "adam": adam}, read_only=True)
    manager.restore()
    manager.close()
    assert net.first.weight.equal(weight)
    assert adam.state[net.first.weight]["exp_avg"].shape == (7, 5)
    assert float(adam.state[net.first.weight]["step"]) == 3


def test_values_of_all_sizes_travel_between_ranks(tmp_path):
    code = """
    from ckptdb.torch._ranks import _SMALL, _Collectives, _Notices
    members = ckptdb.torch.ranks()
    assert isinstance(members, ckptdb.Ranks)
    assert (members.rank, members.world_size) == (rank, world)
    store = dist.distributed_c10d._get_default_store()
    group = _Collectives(
        dist.new_group(backend="gloo"), _Notices(store, "test", rank, world), 60
    )

    def value(sender, receiver, size):
        return bytes((sender * 3 + receiver + i) % 251 for i in range(size))

    sizes = [0, 1, _SMALL - 1, _SMALL, _SMALL + 1, 10_000]
    for at in range(len(sizes)):
        each = [sizes[(at + r) % len(sizes)] for r in range(world)]
        own = value(rank, 0, each[rank])
        assert group.all_gather(own) == [value(r, 0, each[r]) for r in range(world)]
        assert group.broadcast(own) == value(0, 0, each[0])
        received = group.all_to_all(
            [value(rank, r, sizes[(at + rank + r) % len(sizes)]) for r in range(world)]
        )
        assert received == [
            value(r, rank, sizes[(at + r + rank) % len(sizes)]) for r in range(world)
        ]
    group.close("has closed its manager")
    print("equal")
    """
    assert [last_line(text) for text in run(tmp_path, 3, code)] == ["equal"] * 3


def test_some_ranks_of_a_job_and_several_managers(tmp_path, path):
    code = """
    members = dist.new_group([1, 2])
    if rank == 0:
        try:
            ckptdb.torch.ranks(group=members)
        except ckptdb.FailedPrecondition as error:
            print(error)
    else:
        ranks = ckptdb.torch.ranks(group=members, deadline=60)
        assert repr(ranks) == f"TorchRanks(rank {rank - 1} of 2)"
        for _ in range(2):
            state = {"weight": torch.zeros(3)}
            with ckptdb.Manager(path, state, ranks=ranks,
                                save=ckptdb.save_every_n_steps(1)) as manager:
                print(manager.restore_or_start().step)
                manager.step()
                print(manager.should_save(5))
                if rank == 2:
                    try:
                        manager.steps()
                    except ckptdb.FailedPrecondition as error:
                        print(error)
    dist.barrier()
    """
    printed = run(tmp_path, 3, code, path=path)
    assert "rank 0 is not a member of the group" in printed[0]
    assert "rank 1 of 2 owns no store; call this on rank 0" in printed[2]
    with ckptdb.Reader(path) as reader:
        assert [record.step for record in reader.steps()] == [1, 2]


def test_tensors_that_cannot_be_stored_by_ranks(tmp_path, path):
    code = """
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import DTensor, Partial, Replicate, Shard
    mesh = init_device_mesh("cpu", (world,))
    local = torch.ones(2, 3)

    def save(state, ranks):
        manager = ckptdb.Manager(path, state, save=ckptdb.save_every_n_steps(1),
                                 ranks=ranks, async_=False)
        try:
            manager.restore_or_start()
            manager.step()
        except ckptdb.Error as error:
            print(f"{type(error).__name__}: {error}")
        finally:
            manager.close()

    ranks = ckptdb.torch.ranks(deadline=60)
    save({"sum": DTensor.from_local(local, mesh, [Partial()])}, ranks)
    if rank == 0:
        save({"alone": DTensor.from_local(local, mesh, [Shard(0)])}, None)
    dist.barrier()
    """
    printed = run(tmp_path, 2, code, path=path)
    for text in printed:
        assert re.search(
            r'InvalidArgument: .*state "sum": it is a DTensor with the placement '
            r"Partial.*; redistribute it to Shard or Replicate",
            text,
        ), text
    assert re.search(
        r'FailedPrecondition: .*state "alone": it is a DTensor over 2 ranks, and the '
        r"manager has 1; open the manager with ranks=ckptdb.torch.ranks\(\)",
        printed[0],
    )


SEVERAL = """
from torch.distributed._shard import sharded_tensor
from torch.distributed._shard.sharding_spec import ChunkShardingSpec
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Shard, distribute_tensor
from torch.distributed.tensor._shards_wrapper import LocalShardsWrapper
from torch.distributed.tensor.placement_types import _StridedShard

WHOLE = torch.arange(91.0).reshape(13, 7)
mesh = init_device_mesh("cpu", (world,))

def strided(dim, factor):
    placements = [_StridedShard(dim, split_factor=factor)]
    return distribute_tensor(WHOLE.clone(), mesh, placements, src_data_rank=None)

def sharded(ranks):
    places = [f"rank:{each}/cpu" for each in ranks]
    made = sharded_tensor.zeros(ChunkShardingSpec(dim=0, placements=places), 13, 7)
    for each in made.local_shards():
        at, rows = each.metadata.shard_offsets[0], each.metadata.shard_sizes[0]
        each.tensor.copy_(WHOLE[at : at + rows])
    return made

def wrapped():  # each rank has every world-th column
    mine = range(rank, 7, world)
    local = LocalShardsWrapper([WHOLE[:, c : c + 1].clone() for c in mine],
                               [(0, c) for c in mine])
    return DTensor.from_local(local, mesh, [Shard(1)], run_check=False,
                              shape=WHOLE.shape, stride=WHOLE.stride())

def parts(value):
    if isinstance(value, sharded_tensor.ShardedTensor):
        return [each.tensor for each in value.local_shards()]
    local = value.to_local()
    return local.local_shards() if isinstance(local, LocalShardsWrapper) else [local]

def make():
    return {
        "rows": strided(0, 2), "columns": strided(1, 3), "few": strided(0, 13),
        "sharded": sharded([0, world - 1, world - 1, 0, 0]), "last": sharded([world - 1]),
        "wrapped": wrapped(),
    }
"""


def test_several_parts_of_a_tensor_on_a_rank(tmp_path, path):
    save = (
        SEVERAL
        + """
state = make()
with ckptdb.Manager(path, state, save=ckptdb.save_every_n_steps(1),
                    ranks=ckptdb.torch.ranks(deadline=60)) as manager:
    manager.step()
"""
    )
    restore = (
        SEVERAL
        + """
state, expected = make(), make()
for value in state.values():
    for each in parts(value):
        each.zero_()
with ckptdb.Manager(path, state, save=ckptdb.save_at_steps([]),
                    ranks=ckptdb.torch.ranks(deadline=60)) as manager:
    manager.restore()
for name, value in state.items():
    found = parts(value)
    assert len(found) == len(parts(expected[name]))
    for a, b in zip(found, parts(expected[name])):
        assert torch.equal(a, b), (name, a, b)
"""
    )
    run(tmp_path, 2, save, path=path)
    whole = torch.arange(91.0).reshape(13, 7)
    with ckptdb.Reader(path) as reader, reader.latest() as step:
        assert step.record.world_size == 2
        names = {item.name for item in step.items() if item.kind == "tensor"}
        assert names == {"rows", "columns", "few", "sharded", "last", "wrapped"}
        for name in names:
            assert torch.equal(step.read(name, kind="torch"), whole), name
        step.verify()
    for world in (1, 3):
        run(tmp_path, world, restore, path=path)
    plain = {name: torch.zeros(13, 7) for name in names}
    with ckptdb.Manager(path, plain, save=ckptdb.save_at_steps([])) as manager:
        manager.restore()
    assert all(torch.equal(each, whole) for each in plain.values())


def test_fsdp_with_tensor_parallelism(tmp_path, path):
    """The placements are strided, and each rank has one part."""
    save = """
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard
    from torch.distributed.tensor.parallel import ColwiseParallel, parallelize_module
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("data", "model"))
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(6, 9))
    whole = {name: each.clone() for name, each in net.state_dict().items()}
    parallelize_module(net, mesh["model"], {"0": ColwiseParallel()})
    fully_shard(net, mesh=mesh["data"])
    if rank == 0:
        torch.save(whole, f"{path}.whole.pt")
    with ckptdb.Manager(path, {"net": net}, save=ckptdb.save_every_n_steps(1),
                        ranks=ckptdb.torch.ranks(deadline=60)) as manager:
        manager.step()
    """
    run(tmp_path, 4, save, path=path)
    net = torch.nn.Sequential(torch.nn.Linear(6, 9))
    with ckptdb.Manager(path, {"net": net}, save=ckptdb.save_at_steps([])) as manager:
        manager.restore()
    for name, value in torch.load(f"{path}.whole.pt").items():
        assert torch.equal(net.state_dict()[name], value), name


def test_two_dimensions_of_a_mesh(tmp_path, path):
    code = """
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Replicate, Shard, distribute_tensor
    full = torch.arange(35.0).reshape(7, 5)
    shape = (2, 2) if world == 4 else (1, world)
    mesh = init_device_mesh("cpu", shape)
    placements = {
        "hybrid": [Replicate(), Shard(0)], "both": [Shard(0), Shard(1)],
        "twice": [Shard(0), Shard(0)], "other": [Shard(1), Replicate()],
    }
    state = {
        name: distribute_tensor(full if world == 4 else torch.zeros(7, 5), mesh, each,
                                src_data_rank=None)
        for name, each in placements.items()
    }
    manager = ckptdb.Manager(path, state, save=ckptdb.save_every_n_steps(1),
                             ranks=ckptdb.torch.ranks(deadline=60))
    manager.restore_or_start()
    if world == 4:
        manager.step()
        manager.finish_training()
    for name, value in state.items():
        assert value.full_tensor().equal(full), (name, value)
    manager.close()
    dist.barrier()
    """
    run(tmp_path, 4, code, path=path)
    run(tmp_path, 3, code, path=path)


def test_a_table_without_a_sharding(tmp_path, path):
    code = """
    try:
        ckptdb.Manager(path, {"user": ckptdb.Table({"embedding": ("f32", 1)})},
                       ranks=ckptdb.torch.ranks(deadline=60))
    except ckptdb.InvalidArgument as error:
        print(error)
    """
    expected = (
        'table "user": it declares no sharding among 2 ranks; give the table or the '
        'manager sharding= "slices"'
    )
    for printed in run(tmp_path, 2, code, path=path):
        assert expected in printed
        assert '"modulo", ("function", name, f)' in printed
        assert "TableSharding" not in printed


def test_ranks_without_a_group():
    with pytest.raises(ckptdb.FailedPrecondition, match="init_process_group"):
        ckptdb.torch.ranks()


@pytest.mark.parametrize("deadline", [0, -1, float("inf"), float("nan"), True, "60"])
def test_invalid_deadlines(deadline):
    from ckptdb._ranks import check_deadline

    with pytest.raises(ckptdb.InvalidArgument, match="the deadline is"):
        check_deadline(deadline)


def test_two_deadlines(tmp_path, path):
    code = """
    try:
        ckptdb.Manager(path, {"weight": torch.zeros(1)}, deadline=5,
                       ranks=ckptdb.torch.ranks(deadline=6))
    except ckptdb.InvalidArgument as error:
        print(error)
    """
    expected = "the ranks have the deadline 6 s, and the option deadline is 5"
    assert expected in run(tmp_path, 1, code, path=path)[0]


def test_options_of_ranks(tmp_path, path):
    code = """
    state = {"weight": torch.full((300_000,), 3.0), "small": torch.ones(2), "epoch": 1}
    options = dict(ranks=ckptdb.torch.ranks(), deadline=60, replicated_saver="owner",
                   broadcast_replicated=True, save=ckptdb.save_every_n_steps(1))
    with ckptdb.Manager(path, state, audit_replicas=True, **options) as manager:
        manager.restore_or_start()
        manager.step(metrics={"loss": 5.0} if rank == 0 else None)
        manager.wait_until_finished()
        state["small"] += rank  # no longer the same on all ranks
        try:
            manager.save(overwrite=True).wait_committed()
        except ckptdb.FailedPrecondition as error:
            print(error)
    state["weight"].zero_()
    state["epoch"] = 100 + rank
    with ckptdb.Manager(path, state, read_only=True, **options) as manager:
        print(manager.wait_for_step(10).step, state["weight"].sum().item() / 3,
              state["epoch"])
        print(manager.load([{"path": path, "load": ["weight"]}])[0].step)
    state["more" if rank else "other"] = torch.zeros(1)
    try:
        manager = ckptdb.Manager(path + "-other", state, **options)
        manager.save().wait_committed()
    except ckptdb.Error as error:
        print(error)
    """
    for printed in run(tmp_path, 2, code, path=path):
        lines = printed.splitlines()
        assert 'tensor "small"' in lines[0]
        assert "rank 1" in lines[0]
        assert lines[1] == "1 300000.0 1"
        assert lines[2] == "1"
        assert "the ranks have different replicated tensors" in printed
        assert 'tensor "other"' in printed
        assert "make a tensor that is divided among ranks a DTensor" in printed
    with ckptdb.Reader(path) as reader:
        assert [r.metrics["loss"] for r in reader.steps()] == [5.0]


def test_a_divided_table_needs_all_ranks(tmp_path, path):
    code = """
    table = ckptdb.Table({"v": ("f32", 2)}, sharding="modulo")
    whole = ckptdb.Table({"v": ("f32", 2)})
    if rank == 0:
        ckptdb.Manager(path, {"whole": whole}).close()
        for options in ({}, {"sharding": "slices"}):
            state = {"user": whole if options else table}
            try:
                ckptdb.Manager(path, state, **options)
            except ckptdb.FailedPrecondition as error:
                print(error)
    dist.barrier()
    """
    text = run(tmp_path, 2, code, path=path)[0]
    refused = re.findall(
        r'table "user" is divided among ranks, and this is one of 2 ranks of '
        r"torch.distributed; open the manager with ranks=ckptdb.torch.ranks\(\)",
        text,
    )
    assert len(refused) == 2, text


def test_an_entry_that_only_another_rank_has_is_refused(tmp_path, path):
    code = """
    class Position:
        def io_state(self):
            return b"rank %d" % rank
        def load_io_state(self, data):
            read.append(data)
    read = []
    options = dict(ranks=ckptdb.torch.ranks(), deadline=60)
    state = {"weight": torch.zeros(3)}
    if rank == 1:
        state["sampler"] = {"seed": 7}
    for kind, more, metrics in ((1, "sampler", {}), (2, None, {"auc": 0.5})):
        if more is None:
            state.pop("sampler", None)
        with ckptdb.Manager(f"{path}{kind}", state, save=ckptdb.save_at_steps([]),
                            **options) as manager:
            manager.restore_or_start()
            manager.step()
            try:
                manager.save(metrics=metrics if rank else None).wait_committed()
            except ckptdb.InvalidArgument as error:
                print(error)
            state.pop("sampler", None)
    if rank == 1:
        state["position"] = Position()
    for _ in range(2):
        with ckptdb.Manager(path, state, save=ckptdb.save_every_n_steps(1),
                            on_warning=lambda text: None, **options) as manager:
            print(manager.restore_or_start().fresh, read)
            manager.step(metrics={"loss": rank})
    """
    printed = run(tmp_path, 2, code, path=path)
    for rank, text in enumerate(printed):
        sampler, auc, *restored = text.splitlines()
        assert 'rank 1 has object "sampler", which rank 0 lacks' in sampler
        assert "put it into the state of all ranks" in sampler
        assert 'rank 1 has metric "auc", which rank 0 lacks' in auc
        assert restored == ["True []", f"False {[b'rank 1'] if rank else []}"]
    with ckptdb.Reader(path + "1") as reader:
        assert len(reader.steps()) == 1  # of the end, without the entry
    with ckptdb.Reader(path) as reader:
        assert [record.metrics["loss"] for record in reader.steps()] == [0.0, 0.0]


def test_forked_workers_leave_the_objects_of_a_rank_alone(tmp_path, path):
    """A worker of a DataLoader collects garbage of its parent: managers in cycles,
    open, closed or dropped, and their process groups."""
    code = """
    import gc
    gc.disable()  # the garbage is left to the workers

    class Data(torch.utils.data.Dataset):
        def __len__(self):
            return 4
        def __getitem__(self, at):
            gc.collect()
            return at

    def open_manager(name):
        manager = ckptdb.Manager(path + name, {"w": torch.zeros(9), "n": 0},
                                 save=ckptdb.save_every_n_steps(1),
                                 ranks=ckptdb.torch.ranks(deadline=60))
        manager.itself = manager
        manager.restore_or_start()
        manager.step()
        return manager

    manager = open_manager("open")
    closed = open_manager("closed")
    closed.close()
    dropped = open_manager("dropped")
    dropped.wait_until_finished()
    del closed, dropped
    loader = torch.utils.data.DataLoader(
        Data(), num_workers=2, timeout=30, multiprocessing_context="fork")
    for epoch in range(2):
        print([batch.item() for batch in loader])
        manager.step()
    manager.close()
    gc.collect()  # of the dropped one, which ends its part of the group
    print("closed")
    """
    for text in run(tmp_path, 2, code, path=path):
        assert text.count("[0, 1, 2, 3]") == 2
        assert "closed" in text
    with ckptdb.Reader(path + "open") as reader:
        assert [record.step for record in reader.steps()] == [1, 2, 3]
