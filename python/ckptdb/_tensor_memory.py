# SPDX-License-Identifier: Apache-2.0
"""Where tensors of PyTorch have their elements, and which of them share memory."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, NamedTuple

from . import _arrays
from ._errors import FailedPrecondition
from ._shards import is_sharded_tensor, local_of


class Tie(NamedTuple):
    """A tensor that shares its memory with another one, which was registered first."""

    first: str
    name: str
    value: Any
    fill: Callable[[], Any]

    def check(self, first: str) -> None:
        """Raises FailedPrecondition if the step's value differs from the one that was
        restored as `first`."""
        left, right = _bytes_of(self.value), _bytes_of(self.fill())
        if not sys.modules["torch"].equal(left, right):
            raise FailedPrecondition(
                f'"{first}" and "{self.name}" have the same memory, and the step '
                "has different values for them; give them separate memory, or restore "
                f'only one of them: evolve={{"exclude": ["{self.name}"]}}'
            )


def _bytes_of(tensor: Any) -> Any:
    uint8 = sys.modules["torch"].uint8
    return tensor.detach().contiguous().reshape(-1).view(uint8)


def place_of(value: Any) -> Any:
    """A key that is equal for tensors of PyTorch with the same elements in memory; None
    for other values."""
    if not _arrays.is_torch(value) or value.numel() == 0:
        return None
    try:
        address = value.data_ptr()
    except (RuntimeError, NotImplementedError):  # without memory: it is refused later
        return None
    if address == 0:  # of a device whose addresses PyTorch does not know
        return None
    return value.device, address, value.dtype, tuple(value.shape), value.stride()


def put_on_device(value: Any, restored: Any) -> Any:
    """Copies `restored` into the tensor, if it was restored into other memory."""
    if restored.data_ptr() != value.data_ptr():
        with sys.modules["torch"].no_grad():
            value.detach().copy_(restored)
    return value


def copied(value: Any) -> Any:
    """A copy of an array of PyTorch or NumPy, on its device; others as they are."""
    if _arrays.is_numpy(value):
        return value.copy(order="K")
    if not _arrays.is_torch(value) or is_sharded_tensor(value):
        return value
    torch = sys.modules["torch"]
    with torch.no_grad():
        copy = value.detach().clone()
    if isinstance(value, torch.nn.Parameter):
        return torch.nn.Parameter(copy, value.requires_grad)
    return copy.requires_grad_(value.requires_grad)


def storage_of(tensor: Any) -> Any:
    tensor = local_of(tensor)
    try:
        return tensor.untyped_storage().data_ptr() or id(tensor)
    except (RuntimeError, NotImplementedError):
        return id(tensor)


def storages_of(module: Any) -> set[Any]:
    """Where the parameters and buffers of a module are: values of its state
    dictionary that lie elsewhere are copies."""
    found = {storage_of(tensor) for tensor in module.parameters()}
    found.update(storage_of(tensor) for tensor in module.buffers())
    return found
