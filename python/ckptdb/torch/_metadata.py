# SPDX-License-Identifier: Apache-2.0
"""The `Metadata` of torch.distributed.checkpoint (DCP), in a step and in a folder."""

from __future__ import annotations

import enum
import io
import pickle
from typing import Any

import torch
from torch.distributed.checkpoint.metadata import (
    ChunkStorageMetadata,
    Metadata,
    TensorProperties,
    TensorStorageMetadata,
)

from .. import _arrays
from .._errors import FailedPrecondition
from .._reader import Step

# The blob that has a step's Metadata: of rank 0, or of an extra rank after the job's.
METADATA = "dcp.metadata"


def _enumerator(of: Any, name: str) -> Any:
    """A value of an enumeration, which Python 3.11 pickles as a call of getattr."""
    return enum.EnumMeta.__getitem__(of, name)


class _MetadataUnpickler(pickle.Unpickler):
    """Reads a `Metadata` and what it consists of, and calls nothing else."""

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) in _PARTS:
            return super().find_class(module, name)
        if (module, name) == ("builtins", "getattr"):
            return _enumerator
        if module == "torch":
            value = getattr(torch, name, None)
            if isinstance(value, (torch.dtype, torch.layout)):
                return value
        raise FailedPrecondition(
            f"the metadata contains {module}.{name}; pass allow_pickle=True, which "
            "executes code from the checkpoint, if you trust it"
        )


_PARTS = {
    ("torch", "Size"),
    ("collections", "OrderedDict"),
    ("torch.distributed.checkpoint.filesystem", "_StorageInfo"),
    ("torch.serialization", "_get_layout"),
    ("pathlib", "PosixPath"),
    # In checkpoints of PyTorch before 2.3.
    ("torch.distributed._shard.sharded_tensor.metadata", "MEM_FORMAT_ENCODING"),
    ("torch.distributed._shard.sharded_tensor.metadata", "TensorProperties"),
} | {
    ("torch.distributed.checkpoint.metadata", name)
    for name in (
        "BytesStorageMetadata",
        "ChunkStorageMetadata",
        "Metadata",
        "MetadataIndex",
        "StorageMeta",
        "TensorProperties",
        "TensorStorageMetadata",
        "_MEM_FORMAT_ENCODING",
    )
}


def load_metadata(data: bytes, allow_pickle: bool) -> Metadata:
    """A pickled `Metadata`. Raises FailedPrecondition for other classes in it."""
    if allow_pickle:
        return pickle.loads(data)
    return _MetadataUnpickler(io.BytesIO(data)).load()


def _metadata_rank(step: Step) -> int | None:
    last = step.record.world_size - 1
    ranks = [i.rank for i in step.items() if i.name == METADATA and i.kind == "blob"]
    return max((rank for rank in ranks if rank in (0, last)), default=None)


def has_metadata(step: Step) -> bool:
    """Whether DCP has saved the step."""
    return _metadata_rank(step) is not None


def read_metadata(step: Step, allow_pickle: bool) -> Metadata:
    """The `Metadata` of a step. For one that DCP has not saved, it is that of its
    tensors."""
    rank = _metadata_rank(step)
    if rank is not None:
        return load_metadata(step.read_blob(METADATA, rank), allow_pickle)
    tensors = {}
    for item in step.items():
        if item.kind == "tensor":
            size = torch.Size(item.shape)
            chunk = ChunkStorageMetadata(torch.Size([0] * len(size)), size)
            properties = TensorProperties(_arrays.torch_dtype(item.dtype or ""))
            tensors[item.name] = TensorStorageMetadata(properties, size, [chunk])
    return Metadata(tensors, planner_data={name: (name,) for name in tensors})
