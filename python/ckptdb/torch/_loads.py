# SPDX-License-Identifier: Apache-2.0
"""How a load of torch.distributed.checkpoint reads the tensors of a step."""

from __future__ import annotations

import math
from typing import Any

from torch.distributed.checkpoint.planner import LoadPlanner, ReadItem

from .. import _arrays
from .._errors import InvalidArgument, NotFound
from .._reader import Step

# Copies that a load makes at a time, of tensors that it cannot read in place.
_COPIED_BYTES = 256 << 20


class Reads:
    """Reads of tensors into those of a planner: in place where they are contiguous,
    in the host and have the stored dtype. Whole ones are read many at a time."""

    def __init__(self, step: Step, planner: LoadPlanner) -> None:
        self._step = step
        self._planner = planner
        self._stored = {i.name: i for i in step.items() if i.kind == "tensor"}
        self._whole: list[tuple[str, Any]] = []
        self._filled: list[tuple[ReadItem, Any, Any]] = []
        self._copied_bytes = 0

    def add(self, item: ReadItem, name: str) -> None:
        stored = self._stored.get(name)
        target = self._planner.resolve_tensor(item).detach()
        shape = tuple(item.lengths)
        if tuple(target.shape) != shape:
            raise InvalidArgument(
                f'"{name}": the planner gives a tensor of shape {list(target.shape)} for '
                f"{list(shape)}"
            )
        if math.prod(shape) == 0:
            self._planner.commit_tensor(item, target)
            return
        if stored is None:
            raise NotFound(f'step {self._step.record.step} has no tensor "{name}"')
        assert stored.dtype is not None and stored.shape is not None
        value = target
        if not (
            target.device.type == "cpu"
            and target.is_contiguous()
            and not target.is_neg()
            and target.dtype == _arrays.torch_dtype(stored.dtype)
        ):
            value = _arrays.empty(stored.dtype, shape, "torch")
            self._copied_bytes += value.nbytes
        offset = list(item.storage_offsets)
        # Steps of older versions have separate tensors NAME@OFFSET.
        if name == item.storage_index.fqn and item.storage_index.offset is not None:
            offset = [a + b for a, b in zip(offset, item.storage_index.offset)]
        if shape == stored.shape:
            self._whole.append((name, value))
        else:
            self._step._core.read_part(
                name, offset, list(shape), value.data_ptr(), value.nbytes, 0
            )
        self._filled.append((item, target, value))
        if self._copied_bytes > _COPIED_BYTES:
            self.run()

    def run(self) -> None:
        self._step._fill(self._whole)
        for item, target, value in self._filled:
            if value is not target:
                target.copy_(value)
            self._planner.commit_tensor(item, target)
        self._whole, self._filled, self._copied_bytes = [], [], 0
