# SPDX-License-Identifier: Apache-2.0
"""The memory into which the library reads the tensors of a step."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

from . import _arrays
from ._devices import Devices, device_memory
from ._shards import Shard, shards_of
from ._state import TensorTuple, named, tensor_tuple
from ._tensor_memory import Overlap, Spans, Tie, place_of, put_on_device

Finish = Callable[[], Any]


class Targets:
    """Tensors of the state, and others that replace them, with their memory."""

    def __init__(self, devices: Devices | None, world_size: int) -> None:
        self.tensors: list[TensorTuple] = []  # or one for each shard
        self.names: list[str] = []  # of tensors
        self.owners: list[Any] = []  # of their memory
        self.loaded: set[str] | None = None  # by the library; None: all
        self._devices = devices
        self._world_size = world_size
        self._places: dict[Any, str] = {}  # of memory the first tensor with it
        self._ties: list[Tie] = []
        self._spans = Spans()  # of tensors that are read in place
        self._overlaps: list[Overlap] = []
        self._puts: dict[str, Finish] = {}  # by tensor

    def clear(self) -> None:
        """Releases references to the state."""
        self._puts.clear()
        self._ties.clear()
        self._spans.clear()
        self._overlaps.clear()

    def add(self, name: str, value: Any) -> Finish:
        """Registers memory for a tensor. The result puts it into `value`, or
        returns the array that replaces it."""
        with named(name):
            shards = shards_of(value, self._world_size)
            filled = [self._apart(name, shard.local) for shard in shards]
        if shards[0].local is value:
            ((memory, put),) = filled
            return self.register(name, [(memory, shards[0])], put, value)

        def put_shards() -> Any:
            for _, put in filled:
                put()
            return value

        parts = [(memory, shard) for (memory, _), shard in zip(filled, shards)]
        return self.register(name, parts, put_shards, value)

    def _apart(self, name: str, value: Any) -> tuple[_arrays.Memory, Finish]:
        """Memory for a tensor. If it shares memory with a registered tensor, it is read
        into a copy, so that `check_ties` can compare the two stored values."""
        place = place_of(value)
        if place is None:
            return self._writable(value)
        first = self._places.setdefault(place, name)
        if first == name and self._spans.add(name, value):
            return self._writable(value)
        torch = sys.modules["torch"]
        copy = torch.empty_like(value.detach(), memory_format=torch.contiguous_format)
        memory, fill = self._writable(copy)
        if first == name:
            self._overlaps.append(Overlap(name, value, fill))
            return memory, lambda: value  # by check_ties
        self._ties.append(Tie(first, name, value, fill))

        def put() -> Any:
            if self.loaded is None or first not in self.loaded:
                with torch.no_grad():
                    value.detach().copy_(fill())
            return value

        return memory, put

    def check_ties(self, tensors: set[str]) -> None:
        """Compares the loaded tensors of each memory with the first of them."""
        firsts: dict[str, str] = {}
        for tie in self._ties:
            if tie.name not in tensors:
                continue
            loaded = tie.first if tie.first in tensors else tie.name
            first = firsts.setdefault(tie.first, loaded)
            if first == tie.name:
                continue
            self._puts[first]()
            tie.check(first)

    def put_overlaps(self, tensors: set[str]) -> None:
        """Restores the loaded tensors that overlap others, after these."""
        loaded = [each for each in self._overlaps if each.name in tensors]
        for number, each in enumerate(loaded):
            found = self._spans.overlapping(each.value)
            others = [(name, value) for name, value in found if name in tensors]
            for name, _ in others:
                self._puts[name]()
            if not each.put(others):
                continue
            for before in loaded[:number]:
                before.check(each)

    def _writable(self, value: Any) -> tuple[_arrays.Memory, Finish]:
        memory = device_memory(value, self._devices)
        if memory is None:
            return _arrays.writable(value)
        return memory, lambda: put_on_device(value, memory.owner)

    def register(
        self,
        name: str,
        parts: Sequence[tuple[_arrays.Memory, Shard]],
        put: Finish,
        value: Any,
    ) -> Finish:
        """Registers the parts of a tensor. The result returns `put()`, or `value` if
        the library has not loaded the tensor."""
        self.names.append(name)
        for memory, shard in parts:
            self.owners.append(memory.owner)
            self.tensors.append(tensor_tuple(name, memory, shard))

        def put_if_loaded() -> Any:
            loaded = self.loaded is None or name in self.loaded
            return put() if loaded else value

        self._puts[name] = put_if_loaded
        return put_if_loaded
