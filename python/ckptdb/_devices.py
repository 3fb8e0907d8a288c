# SPDX-License-Identifier: Apache-2.0
"""Tensors of PyTorch in the memory of GPUs, which the library copies itself while
the training continues (docs/gpu.md)."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from . import _arrays, _core
from ._errors import Error, InvalidArgument


class Devices:
    """The GPUs of one manager's tensors."""

    def __init__(
        self, staging_bytes: int, arena_bytes: int, warn: Callable[[str], None]
    ) -> None:
        if not isinstance(staging_bytes, int) or staging_bytes < 0:
            raise InvalidArgument(
                f"staging_bytes is {staging_bytes!r}; expected a number of bytes"
            )
        self._staging_bytes = staging_bytes
        self._arena_bytes = arena_bytes
        self._warn = warn
        self._opened: dict[int, int] = {}  # by index; 0 where it cannot be used
        self._warned = False

    def at(self, tensor: Any) -> int:
        """The library's device of a tensor; 0 if it is read and written by way of
        the host."""
        index = tensor.device.index
        device = self._opened.get(index)
        if device is None:
            device = self._opened[index] = self._open(index)
        return device

    def _open(self, index: int) -> int:
        if sys.modules["torch"].version.cuda is None:  # ROCm, say
            return 0
        try:
            return _core.open_device(index, self._staging_bytes)
        except Error as error:
            self._warn(
                f"tensors on cuda:{index} are copied through the host while the "
                f"training waits: {error}"
            )
            return 0

    def budget(self) -> Budget:
        return Budget(self)

    def exceeded(self, name: str, nbytes: int) -> None:
        if not self._warned:
            self._warned = True
            self._warn(
                f"the tensors on GPUs exceed arena_bytes={self._arena_bytes} at "
                f'"{name}" of {nbytes} bytes: it and others are copied while the '
                "training waits; raise arena_bytes to the size of all of them"
            )


class Budget:
    """How many bytes of one save's tensors fit in the memory for copies."""

    def __init__(self, devices: Devices) -> None:
        self._devices = devices
        self._left = devices._arena_bytes

    def readable(self, name: str, value: Any) -> _arrays.Memory:
        """The bytes of a tensor: on its GPU, or in the host."""
        memory = device_memory(value, self._devices)
        if memory is None:
            return _arrays.readable(value)
        # The library aligns each tensor.
        nbytes = memory.nbytes + 64
        if nbytes > self._left:
            self._devices.exceeded(name, memory.nbytes)
            return _arrays.readable(value)
        self._left -= nbytes
        return memory


def device_memory(value: Any, devices: Devices | None) -> _arrays.Memory | None:
    """The bytes of a tensor on its GPU, of a contiguous copy there unless they are
    contiguous; None for a tensor in the host, or one of a GPU that the library
    cannot use."""
    if devices is None or not _arrays.is_torch(value) or not value.is_cuda:
        return None
    device = devices.at(value)
    if device == 0 or value.numel() == 0:
        return None
    _arrays.check_torch(value)
    plain = value.detach().resolve_neg().contiguous()
    return _arrays.Memory(
        _arrays.torch_dtype_name(value.dtype),
        tuple(value.shape),
        plain.data_ptr(),
        plain,
        device,
        sys.modules["torch"].cuda.current_stream(value.device).cuda_stream,
    )
