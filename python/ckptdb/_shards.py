# SPDX-License-Identifier: Apache-2.0
"""Tensors that are divided among ranks: DTensors and ShardedTensors of PyTorch."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Mapping
from typing import Any, NamedTuple

from . import _arrays
from ._errors import FailedPrecondition, InvalidArgument


class Shard(NamedTuple):
    """A part of a tensor on this rank. The last two are empty for a tensor that is
    the same on all ranks."""

    local: Any
    global_shape: tuple[int, ...] = ()
    offset: tuple[int, ...] = ()


def is_dtensor(value: Any) -> bool:
    module = sys.modules.get("torch.distributed.tensor")
    return module is not None and isinstance(value, module.DTensor)


def is_sharded_tensor(value: Any) -> bool:
    module = sys.modules.get("torch.distributed._shard.sharded_tensor")
    return module is not None and isinstance(value, module.ShardedTensor)


def local_of(tensor: Any) -> Any:
    """A tensor of PyTorch that owns memory on this rank, if there is one."""
    if is_sharded_tensor(tensor):
        shards = tensor.local_shards()
        return shards[0].tensor if shards else tensor
    if not is_dtensor(tensor):
        return tensor
    with sys.modules["torch"].no_grad():
        return tensor.to_local()


def shards_of(value: Any, world_size: int) -> list[Shard]:
    """This rank's parts of a tensor or an array, at least one. Raises for a tensor
    that cannot be stored."""
    if is_sharded_tensor(value):
        return _shards_of_sharded_tensor(value, world_size)
    if not is_dtensor(value):
        return [Shard(value)]
    _check(value, world_size)
    local = local_of(value)
    mesh = value.device_mesh
    shape = tuple(value.shape)
    if mesh.get_coordinate() is None:  # a rank outside of the mesh
        return [_empty_shard(local, shape)]
    if hasattr(local, "local_shards"):  # a LocalShardsWrapper
        pairs = zip(local.local_shards(), local.local_offsets())
        shards = [Shard(each, shape, tuple(offset)) for each, offset in pairs]
        return shards or [_empty_shard(local, shape)]
    if any(type(each).__name__ == "_StridedShard" for each in value.placements):
        return _strided_shards(value, local)
    # Private, but PyTorch's own checkpoints use it; tried with 2.13.
    from torch.distributed.tensor._utils import compute_local_shape_and_global_offset

    parts = compute_local_shape_and_global_offset(shape, mesh, value.placements)
    local_shape, offset = tuple(parts[0]), tuple(parts[1])
    _check_local(value, local, local_shape)
    on_all = mesh.size() == world_size
    if not shape or (on_all and all(p.is_replicate() for p in value.placements)):
        return [Shard(local)]
    return [Shard(local, shape, offset)]


def _empty_shard(like: Any, shape: tuple[int, ...]) -> Shard:
    """The part of a rank that has no element, but names the tensor."""
    none = (0,) * len(shape)
    empty = sys.modules["torch"].empty(none, dtype=like.dtype)
    return Shard(empty, shape, none)


def _shards_of_sharded_tensor(value: Any, world_size: int) -> list[Shard]:
    metadata = value.metadata()
    needed = 1 + max(
        (each.placement.rank() for each in metadata.shards_metadata), default=0
    )
    if needed > world_size:
        raise FailedPrecondition(
            f"it is a ShardedTensor over at least {needed} ranks, and the manager has "
            f"{world_size}; open the manager with ranks=ckptdb.torch.ranks()"
        )
    shape = tuple(metadata.size)
    shards = [
        Shard(each.tensor, shape, tuple(each.metadata.shard_offsets))
        for each in value.local_shards()
    ]
    return shards or [_empty_shard(value, shape)]


def _strided_shards(value: Any, local: Any) -> list[Shard]:
    """The boxes of a DTensor's local part whose rows are not consecutive in it."""
    runs = [_runs(value, dim) for dim in range(value.ndim)]
    rows = tuple(sum(size for _, _, size in each) for each in runs)
    _check_local(value, local, rows)
    shape = tuple(value.shape)
    shards = []
    for box in itertools.product(*runs):
        part = local
        for dim, (start, _, size) in enumerate(box):
            part = part.narrow(dim, start, size)
        shards.append(Shard(part, shape, tuple(offset for _, offset, _ in box)))
    return shards or [_empty_shard(local, shape)]


def _runs(value: Any, dim: int) -> list[tuple[int, int, int]]:
    """The consecutive indexes of a dimension that this rank has: their start in the
    local part, their offset in the whole tensor, and how many."""
    size = value.shape[dim]
    if not any(getattr(each, "dim", None) == dim for each in value.placements):
        return [(0, 0, size)] if size > 0 else []
    # PyTorch divides the indexes as it divides the tensor, without communication.
    torch = sys.modules["torch"]
    tensors = sys.modules["torch.distributed.tensor"]
    placements = [
        _along_first(each) if getattr(each, "dim", None) == dim else tensors.Replicate()
        for each in value.placements
    ]
    indexes = torch.arange(size, device=value.device)
    with torch.no_grad():
        own = tensors.distribute_tensor(
            indexes, value.device_mesh, placements, src_data_rank=None
        ).to_local()
    if own.numel() == 0:
        return []
    starts = [0, *((own.diff() != 1).nonzero().flatten() + 1).tolist()]
    ends = [*starts[1:], own.numel()]
    offsets = own[starts].tolist()
    return [(a, offset, b - a) for a, b, offset in zip(starts, ends, offsets)]


def _along_first(placement: Any) -> Any:
    """The placement, for a tensor of one dimension."""
    if type(placement).__name__ == "_StridedShard":
        return type(placement)(0, split_factor=placement.split_factor)
    return type(placement)(0)


def _check_local(value: Any, local: Any, expected: tuple[int, ...]) -> None:
    if tuple(local.shape) != expected:
        raise InvalidArgument(
            f"the local part of a DTensor has shape {list(local.shape)}; its placements "
            f"{value.placements} give this rank {list(expected)} of {list(value.shape)}"
        )


def _check(value: Any, world_size: int) -> None:
    mesh = value.device_mesh
    if mesh.size() > world_size:
        raise FailedPrecondition(
            f"it is a DTensor over {mesh.size()} ranks, and the manager has "
            f"{world_size}; open the manager with ranks=ckptdb.torch.ranks()"
        )
    for placement in value.placements:
        if placement.is_partial():
            raise InvalidArgument(
                f"it is a DTensor with the placement {placement!r}, whose values are "
                "partial sums; redistribute it to Shard or Replicate"
            )


def form_of(value: Any) -> tuple[str, tuple[int, ...]]:
    """The dtype and shape that a step stores for a tensor or an array. Raises
    InvalidArgument for one that cannot be stored."""
    if is_dtensor(value) or is_sharded_tensor(value):
        return _arrays.torch_dtype_name(value.dtype), tuple(value.shape)
    memory = _arrays.readable(value)
    return memory.dtype, tuple(memory.shape)


def late_state(
    optimizer: Any,
    forms: Mapping[str, tuple[str, tuple[int, ...]]],
    prefix: str,
    places: Mapping[int, int],
) -> dict[int, dict[str, Any]]:
    """DTensors for the state of an optimizer of PyTorch that a step has, and that
    the optimizer makes at its first step: in the form of its parameters, by their
    number in the step and by key. `prefix` begins the tensors' names; `places` are
    the parameters' numbers in the optimizer."""
    torch = sys.modules.get("torch")
    if torch is None or not isinstance(optimizer, torch.optim.Optimizer):
        return {}
    parameters = [each for group in optimizer.param_groups for each in group["params"]]
    state: dict[int, dict[str, Any]] = {}
    if not any(is_dtensor(each) for each in parameters):
        return state
    for name, (dtype, shape) in forms.items():
        number, _, key = name.removeprefix(prefix).partition(".")
        if not name.startswith(prefix) or not number.isdecimal():
            continue
        index = int(number)
        place = places.get(index, index)
        if place >= len(parameters) or not is_dtensor(parameters[place]):
            continue
        if tuple(parameters[place].shape) == shape:
            state.setdefault(index, {})[key] = torch.zeros_like(
                parameters[place],
                dtype=_arrays.torch_dtype(dtype),
                requires_grad=False,
            )
    return state
