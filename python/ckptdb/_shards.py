# SPDX-License-Identifier: Apache-2.0
"""Tensors that are divided among ranks: DTensors of PyTorch."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any, NamedTuple

from . import _arrays
from ._errors import FailedPrecondition, InvalidArgument, Unimplemented


class Shard(NamedTuple):
    """This rank's part of a tensor. The last two are empty for a tensor that is the
    same on all ranks."""

    local: Any
    global_shape: tuple[int, ...] = ()
    offset: tuple[int, ...] = ()


def is_dtensor(value: Any) -> bool:
    module = sys.modules.get("torch.distributed.tensor")
    return module is not None and isinstance(value, module.DTensor)


def local_of(tensor: Any) -> Any:
    """The tensor of PyTorch that owns the memory on this rank."""
    if not is_dtensor(tensor):
        return tensor
    with sys.modules["torch"].no_grad():
        return tensor.to_local()


def shard_of(value: Any, world_size: int) -> Shard:
    """This rank's part of a tensor or an array. Raises for a DTensor that cannot be
    stored."""
    if not is_dtensor(value):
        return Shard(value)
    _check(value, world_size)
    # Private, but PyTorch's own checkpoints use it; tried with 2.13.
    from torch.distributed.tensor._utils import compute_local_shape_and_global_offset

    local = local_of(value)
    mesh = value.device_mesh
    shape = tuple(value.shape)
    if mesh.get_coordinate() is None:  # a rank outside of the mesh
        offset, local_shape = (0,) * len(shape), (0,) * len(shape)
        local = local.new_empty(local_shape)
    else:
        parts = compute_local_shape_and_global_offset(shape, mesh, value.placements)
        local_shape, offset = tuple(parts[0]), tuple(parts[1])
    if tuple(local.shape) != local_shape:
        raise InvalidArgument(
            f"the local part of a DTensor has shape {list(local.shape)}; its placements "
            f"{value.placements} give this rank {list(local_shape)} of {list(shape)}"
        )
    on_all = mesh.size() == world_size
    if not shape or (on_all and all(p.is_replicate() for p in value.placements)):
        return Shard(local)
    return Shard(local, shape, offset)


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
                "sums to be made; redistribute it to Shard or Replicate"
            )
        if type(placement).__name__ == "_StridedShard":
            raise Unimplemented(
                f"it is a DTensor with the placement {placement!r}, which gives a rank "
                "several parts; redistribute it to Shard or Replicate"
            )


def form_of(value: Any) -> tuple[str, tuple[int, ...]]:
    """The dtype and shape that a step stores for a tensor or an array. Raises
    InvalidArgument for one that cannot be stored."""
    if is_dtensor(value):
        return _arrays.torch_dtype_name(value.dtype), tuple(value.shape)
    memory = _arrays.readable(value)
    return memory.dtype, tuple(memory.shape)


def late_state(
    optimizer: Any, forms: Mapping[str, tuple[str, tuple[int, ...]]], prefix: str
) -> dict[int, dict[str, Any]]:
    """DTensors for the state of an optimizer of PyTorch that a step has, and that
    the optimizer makes at its first step: in the form of its parameters, by their
    number and by key. `prefix` begins the tensors' names."""
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
        if index >= len(parameters) or not is_dtensor(parameters[index]):
            continue
        if tuple(parameters[index].shape) == shape:
            state.setdefault(index, {})[key] = torch.zeros_like(
                parameters[index],
                dtype=_arrays.torch_dtype(dtype),
                requires_grad=False,
            )
    return state
