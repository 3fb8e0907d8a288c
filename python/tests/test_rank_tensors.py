# SPDX-License-Identifier: Apache-2.0
"""Tensors that the ranks of a manager divide in other ways than FSDP2 alone."""

from __future__ import annotations

import re

import pytest

import ckptdb

torch = pytest.importorskip("torch")
pytest.importorskip("torch.distributed.tensor")
if not torch.distributed.is_available():
    pytest.skip("PyTorch without torch.distributed", allow_module_level=True)

from job import run  # noqa: E402


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
