# SPDX-License-Identifier: Apache-2.0
"""Files of safetensors: the length of a header, the header in JSON, and the bytes."""

from __future__ import annotations

import json
import pathlib
from typing import Any

import torch
from torch.distributed.checkpoint._nested_dict import flatten_state_dict

from .. import _arrays
from .._errors import DataLoss, Error, InvalidArgument

_SAFE_DTYPES = {
    "F64": "f64", "F32": "f32", "F16": "f16", "BF16": "bf16", "F8_E4M3": "f8e4m3",
    "F8_E5M2": "f8e5m2", "I64": "i64", "I32": "i32", "I16": "i16", "I8": "i8",
    "U64": "u64", "U32": "u32", "U16": "u16", "U8": "u8", "BOOL": "bool",
}  # fmt: skip
_SAFE_NAMES = {ours: theirs for theirs, ours in _SAFE_DTYPES.items()}


def load_safetensors(path: pathlib.Path) -> tuple[dict[str, Any], Any]:
    """(tensors, metadata), mapped into memory."""
    size = path.stat().st_size
    if size < 8:
        raise DataLoss(f'"{path}" is not a valid safetensors file: it has {size} bytes')
    data = torch.from_file(str(path), shared=False, size=size, dtype=torch.uint8)
    length = int.from_bytes(data[:8].numpy().tobytes(), "little")
    try:
        header = json.loads(data[8 : 8 + length].numpy().tobytes())
        metadata = header.pop("__metadata__", None)
        return {
            name: _safe_tensor(name, about, data[8 + length :])
            for name, about in header.items()
        }, metadata
    except (ValueError, KeyError, TypeError, AttributeError, RuntimeError) as error:
        if isinstance(error, Error):
            raise
        raise DataLoss(f'"{path}" is not a valid safetensors file: {error}') from error


def _safe_tensor(name: str, about: dict[str, Any], data: Any) -> Any:
    dtype = _SAFE_DTYPES.get(about["dtype"])
    if dtype is None:
        raise InvalidArgument(
            f'"{name}" has dtype {about["dtype"]}, which cannot be stored; the dtypes '
            f"are {', '.join(_SAFE_DTYPES)}"
        )
    begin, end = about["data_offsets"]
    if not 0 <= begin <= end <= len(data):
        raise DataLoss(f'"{name}" is at {begin} to {end} of {len(data)} bytes')
    part = data[begin:end]
    if part.data_ptr() % 8:
        part = part.clone()
    return part.view(_arrays.torch_dtype(dtype)).view(about["shape"])


def save_safetensors(state: Any, about: dict[str, Any], file: Any) -> None:
    tensors, _ = flatten_state_dict(state)
    header: dict[str, Any] = {}
    if about.get("safetensors") is not None:
        header["__metadata__"] = about["safetensors"]
    at = 0
    for name, value in tensors.items():
        if not isinstance(value, torch.Tensor):
            raise InvalidArgument(
                f'"{name}" has type {type(value).__name__}, but safetensors stores '
                "only tensors; export a .pt file"
            )
        header[name] = {
            "dtype": _SAFE_NAMES[_arrays.torch_dtype_name(value.dtype, name)],
            "shape": list(value.shape),
            "data_offsets": [at, at + value.nbytes],
        }
        at += value.nbytes
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)
    file.write(len(text).to_bytes(8, "little") + text)
    for value in tensors.values():
        file.write(value.detach().contiguous().reshape(-1).view(torch.uint8).numpy())
