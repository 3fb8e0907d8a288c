# SPDX-License-Identifier: Apache-2.0
"""Where tensors of PyTorch have their elements, and which of them share memory."""

from __future__ import annotations

import bisect
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
        if not _equal(self.value, self.fill()):
            raise _differ(first, self.name)


class Overlap(NamedTuple):
    """A tensor that shares some of its memory with others, such as a transposed one."""

    name: str
    value: Any
    fill: Callable[[], Any]

    def put(self, others: list[tuple[str, Any]]) -> bool:
        """Copies the step's value into the tensor if it differs, which the result says.
        Raises FailedPrecondition if that changes one of the others, which were restored
        before."""
        filled = self.fill()
        if _equal(self.value, filled):
            return False
        before = [_bytes_of(other).clone() for _, other in others]
        with sys.modules["torch"].no_grad():
            self.value.detach().copy_(filled)
        for (name, other), bytes_before in zip(others, before):
            if not sys.modules["torch"].equal(bytes_before, _bytes_of(other)):
                raise _differ(name, self.name)
        return True

    def check(self, last: Overlap) -> None:
        """Raises FailedPrecondition if `last`, which was put later, has changed it."""
        (start, end), (first, beyond) = _span(self.value), _span(last.value)
        if start < beyond and first < end and not _equal(self.value, self.fill()):
            raise _differ(self.name, last.name)


def _differ(first: str, name: str) -> FailedPrecondition:
    return FailedPrecondition(
        f'"{first}" and "{name}" have the same memory, and the step has different '
        "values for them; give them separate memory, or restore only one of them: "
        f'evolve={{"exclude": ["{name}"]}}'
    )


class Spans:
    """Tensors of PyTorch by their addresses, which do not overlap."""

    def __init__(self) -> None:
        self._spans: dict[Any, list[tuple[int, int, str, Any]]] = {}  # by device

    def add(self, name: str, value: Any) -> bool:
        """Returns False if the value overlaps another tensor. Parts of one tensor never
        do, even if their addresses alternate."""
        found = self.overlapping(value)
        if not found:
            spans = self._spans.setdefault(value.device, [])
            bisect.insort(spans, (*_span(value), name, value))
        return all(other == name for other, _ in found)

    def overlapping(self, value: Any) -> list[tuple[str, Any]]:
        """The tensors whose addresses lie between those of this one."""
        spans = self._spans.get(value.device, [])
        start, end = _span(value)
        at = bisect.bisect_left(spans, (start,))
        if at > 0 and spans[at - 1][1] > start:
            at -= 1
        found = []
        while at < len(spans) and spans[at][0] < end:
            found.append(spans[at][2:])
            at += 1
        return found

    def clear(self) -> None:
        self._spans.clear()


def _span(value: Any) -> tuple[int, int]:
    start: int = value.data_ptr()
    last = sum((n - 1) * s for n, s in zip(value.shape, value.stride()))
    return start, start + (last + 1) * value.element_size()


def _equal(left: Any, right: Any) -> bool:
    equal: bool = sys.modules["torch"].equal(_bytes_of(left), _bytes_of(right))
    return equal


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
