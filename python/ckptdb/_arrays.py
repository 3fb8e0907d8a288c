# SPDX-License-Identifier: Apache-2.0
"""The memory of tensors and arrays of PyTorch, NumPy, JAX and others, none of
which is imported before the caller has done so."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from ._errors import InvalidArgument

DTYPE_BYTES = {
    "f64": 8, "f32": 4, "f16": 2, "bf16": 2, "f8e4m3": 1, "f8e5m2": 1,
    "i64": 8, "i32": 4, "i16": 2, "i8": 1,
    "u64": 8, "u32": 4, "u16": 2, "u8": 1, "bool": 1,
}  # fmt: skip

_NUMPY_NAMES = {
    "float64": "f64", "float32": "f32", "float16": "f16", "bfloat16": "bf16",
    "float8_e4m3fn": "f8e4m3", "float8_e5m2": "f8e5m2",
    "int64": "i64", "int32": "i32", "int16": "i16", "int8": "i8",
    "uint64": "u64", "uint32": "u32", "uint16": "u16", "uint8": "u8",
    "bool": "bool",
}  # fmt: skip
_FROM_NAMES = {ours: theirs for theirs, ours in _NUMPY_NAMES.items()}
# Dtypes that NumPy has only with the package ml_dtypes; without it, their bits.
_BITS = {"bf16": "uint16", "f8e4m3": "uint8", "f8e5m2": "uint8"}

_torch_names: dict[Any, str] = {}


class Memory(NamedTuple):
    """Contiguous memory, valid while `owner` is: in the host, or of the library's
    `device`, in the order of `stream`."""

    dtype: str
    shape: tuple[int, ...]
    address: int
    owner: Any
    device: int = 0
    stream: int = 0

    @property
    def nbytes(self) -> int:
        count = DTYPE_BYTES[self.dtype]
        for size in self.shape:
            count *= size
        return count


def numpy() -> Any:
    try:
        import numpy as np
    except ImportError as error:
        raise ImportError(
            "this call returns NumPy arrays: install numpy, or pass out="
        ) from error
    return np


def _torch() -> Any:
    return sys.modules.get("torch")


def is_torch(value: Any) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


def is_numpy(value: Any) -> bool:
    np = sys.modules.get("numpy")
    return np is not None and isinstance(value, np.ndarray)


def is_array(value: Any) -> bool:
    """Whether the value is stored as a tensor."""
    if is_torch(value) or is_numpy(value):
        return True
    if not hasattr(value, "shape"):
        return False
    return hasattr(value, "__dlpack__") or kind_of(value) == "jax"


def kind_of(value: Any) -> str:
    if is_torch(value):
        return "torch"
    if is_numpy(value):
        return "numpy"
    return "jax" if type(value).__module__.startswith("jax") else "other"


def torch_dtype_name(dtype: Any, tensor: str = "") -> str:
    """The name of a dtype of PyTorch. Raises InvalidArgument, with the tensor's name if
    it is given, for one that cannot be stored."""
    if not _torch_names:
        torch = _torch()
        for theirs, ours in _NUMPY_NAMES.items():
            known = getattr(torch, theirs, None)
            if known is not None:
                _torch_names[known] = ours
    name = _torch_names.get(dtype)
    if name is None:
        place = f'"{tensor}": ' if tensor else ""
        raise InvalidArgument(
            f"{place}{dtype} cannot be stored; the dtypes are {', '.join(DTYPE_BYTES)}."
            " Store torch.view_as_real(t) of a complex tensor"
        )
    return name


def numpy_dtype_name(dtype: Any) -> str:
    name = _NUMPY_NAMES.get(dtype.name)
    if name is None:
        remedy = (
            ". Store a.view(a.real.dtype) of a complex array"
            if dtype.kind == "c"
            else ""
        )
        raise InvalidArgument(
            f"dtype {dtype} cannot be stored; the dtypes are "
            f"{', '.join(DTYPE_BYTES)}{remedy}"
        )
    return name


def numpy_dtype(name: str) -> Any:
    """The dtype of NumPy arrays with this one: of ml_dtypes where NumPy has none,
    or without that package an unsigned integer with the same bits."""
    np = numpy()
    if name not in _BITS:
        return np.dtype(_FROM_NAMES[name])
    try:
        import ml_dtypes
    except ImportError:
        return np.dtype(_BITS[name])
    return np.dtype(getattr(ml_dtypes, _FROM_NAMES[name]))


def torch_dtype(name: str) -> Any:
    return getattr(_torch(), _FROM_NAMES[name])


def empty(dtype: str, shape: Sequence[int], kind: str) -> Any:
    """An array or tensor of this library, in the host."""
    if kind == "torch" and _torch() is not None:
        return _torch().empty(tuple(shape), dtype=torch_dtype(dtype))
    return numpy().empty(tuple(shape), dtype=numpy_dtype(dtype))


def check_kind(kind: str) -> None:
    """Imports the library in which a caller wants the values."""
    if kind == "torch":
        import torch  # noqa: F401
    elif kind != "numpy":
        raise InvalidArgument(f'kind is "{kind}"; expected numpy or torch')


def is_form(memory: Memory, dtype: str, shape: Sequence[int]) -> bool:
    """Whether the memory has this dtype, or NumPy's bits of it, and shape."""
    if memory.shape != tuple(shape):
        return False
    if memory.dtype == dtype:
        return True
    bits = _BITS.get(dtype)
    return bits is not None and memory.dtype == _NUMPY_NAMES[bits]


def _plain_torch(tensor: Any) -> bool:
    """Whether the tensor's memory can be used as it is."""
    return (
        tensor.device.type == "cpu" and tensor.is_contiguous() and not tensor.is_neg()
    )


def check_torch(tensor: Any) -> None:
    torch = _torch()
    if tensor.layout != torch.strided:
        raise InvalidArgument(
            f"a tensor of layout {tensor.layout} cannot be stored; store its "
            "indices and values"
        )
    if tensor.device.type == "meta":
        raise InvalidArgument(
            "a tensor on the device meta has no data; materialize it first"
        )


def _check_numpy(array: Any) -> None:
    if isinstance(array, numpy().ma.MaskedArray):
        raise InvalidArgument(
            "a masked array cannot be stored; store its data and its mask"
        )


def _check_address(address: int, value: Any) -> int:
    """The address of a tensor. Raises for one that does not own memory."""
    if address == 0 and value.numel() > 0:
        raise InvalidArgument(
            f"a tensor of type {type(value).__name__} does not own memory; "
            "store the tensors that it consists of"
        )
    return address


def readable(value: Any) -> Memory:
    """The value's bytes: its own memory where it is contiguous and in the host,
    otherwise a copy."""
    if is_torch(value):
        if value.layout is not _torch().strided or value.is_meta:
            check_torch(value)
        dtype = torch_dtype_name(value.dtype)
        if not _plain_torch(value):
            value = value.detach().resolve_neg().cpu().contiguous()
        address = value.data_ptr() or _check_address(0, value)
        return Memory(dtype, tuple(value.shape), address, value)
    np = numpy()
    array = value if is_numpy(value) else _as_numpy(value)
    if type(array) is not np.ndarray:
        _check_numpy(array)
    dtype = numpy_dtype_name(array.dtype)
    if not array.flags.c_contiguous or not array.dtype.isnative:
        array = np.ascontiguousarray(
            array, dtype=array.dtype.newbyteorder("=")
        ).reshape(array.shape)
    return Memory(dtype, array.shape, array.__array_interface__["data"][0], array)


def _as_numpy(value: Any) -> Any:
    """An array of another library as one of NumPy, without a copy if possible."""
    np = numpy()
    if kind_of(value) == "jax":
        try:
            return np.asarray(value)
        except TypeError as error:
            raise InvalidArgument(
                f"a JAX array of dtype {value.dtype} cannot be stored: {error}"
            ) from error
    return np.from_dlpack(value)


def writable(value: Any) -> tuple[Memory, Callable[[], Any]]:
    """Memory for new values of an array, and a function that puts them into it.
    The function returns the array, or a new one for immutable arrays."""
    if is_torch(value):
        check_torch(value)
        dtype = torch_dtype_name(value.dtype)
        if _plain_torch(value):
            address = value.data_ptr() or _check_address(0, value)
            return Memory(dtype, tuple(value.shape), address, value), lambda: value
        torch = _torch()
        buffer = torch.empty(tuple(value.shape), dtype=value.dtype)

        def put_torch() -> Any:
            with torch.no_grad():
                _put_once(buffer, value.detach())
            return value

        memory = Memory(dtype, tuple(value.shape), buffer.data_ptr(), buffer)
        return memory, put_torch
    np = numpy()
    if is_numpy(value):
        _check_numpy(value)
    if is_numpy(value) and value.flags.writeable:
        dtype = numpy_dtype_name(value.dtype)
        plain = value.flags.c_contiguous and value.dtype.isnative
        array = value
        if not plain:
            array = np.empty(value.shape, value.dtype.newbyteorder("="))

        def put_numpy() -> Any:
            if array is not value:
                value[...] = array
            return value

        address = array.__array_interface__["data"][0]
        return Memory(dtype, value.shape, address, array), put_numpy
    source = value if is_numpy(value) else _as_numpy(value)
    fresh = np.empty(source.shape, source.dtype.newbyteorder("="))
    dtype = numpy_dtype_name(fresh.dtype)

    def make() -> Any:
        return _like(fresh, value)

    address = fresh.__array_interface__["data"][0]
    return Memory(dtype, fresh.shape, address, fresh), make


def _put_once(values: Any, target: Any) -> None:
    """Copies values into a tensor whose elements `expand` may have repeated."""
    once = values
    for dim, size in enumerate(target.shape):
        if size > 1 and target.stride(dim) == 0:
            once, target = once.narrow(dim, 0, 1), target.narrow(dim, 0, 1)
    if once is not values:
        uint8 = _torch().uint8
        repeated = once.expand_as(values).contiguous()
        if not repeated.view(uint8).equal(values.view(uint8)):
            raise InvalidArgument(
                f"the step has different values of a tensor {list(values.shape)} whose "
                "elements share memory, as after expand(); clone() it"
            )
    target.copy_(once)


def _like(array: Any, value: Any) -> Any:
    """The array as one of the library of `value`, on its device."""
    if kind_of(value) == "jax":
        import jax

        return jax.device_put(array, value.sharding)
    if is_numpy(value):
        return array
    module = sys.modules[type(value).__module__.partition(".")[0]]
    return module.from_dlpack(array)


def as_kind(value: Any, like: Any) -> Any:
    """The array as one of the library of `like`, on its device."""
    kind = kind_of(like)
    if kind_of(value) == kind:
        return value
    if kind == "jax" or kind == "other":
        return _like(as_kind(value, numpy().empty(0)), like)
    memory = readable(value)
    made = empty(memory.dtype, memory.shape, kind)
    target, _ = writable(made)
    ctypes.memmove(target.address, memory.address, memory.nbytes)
    return made


def int64s(values: Any, what: str) -> Memory:
    """A one-dimensional array of ids or row numbers."""
    if is_torch(values):
        torch = _torch()
        if values.dtype == torch.bool or values.is_floating_point():
            raise InvalidArgument(
                f"{what} have dtype {values.dtype}; expected integers"
            )
        memory = readable(values.to(torch.int64))
    else:
        np = numpy()
        array = np.asarray(values)
        if array.size == 0:
            array = array.astype(np.int64)
        if array.dtype.kind not in "iu":
            raise InvalidArgument(f"{what} have dtype {array.dtype}; expected integers")
        # Ids above 2^63 - 1 keep their bits.
        memory = readable(array.astype(np.int64, copy=False))
    if len(memory.shape) != 1:
        raise InvalidArgument(
            f"{what} have shape {list(memory.shape)}; expected one dimension"
        )
    return memory
