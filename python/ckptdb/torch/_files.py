# SPDX-License-Identifier: Apache-2.0
"""Checkpoints of PyTorch as steps of a store, and back: folders of
torch.distributed.checkpoint (DCP), files of torch.save, and safetensors."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import io
import os
import pathlib
import pickle
from collections.abc import Callable
from typing import Any

import torch

from .._errors import AlreadyExists, InvalidArgument, NotFound
from .._imported import new_store
from .._reader import Reader
from ._dcp_folder import FolderReader, export_folder, read_flat, save_flat, unflatten
from ._metadata import has_metadata
from ._safetensors import load_safetensors, save_safetensors
from ._torch_save import FILE, Flat, flatten, load_file, read_state
from .dcp import StorageReader, StorageWriter

_WHOLE = "value"  # the name of a file's content that is not a dictionary of names


@dataclasses.dataclass(frozen=True)
class Report:
    """The result of an import or export. The digest covers the names, dtypes, shapes
    and bytes of all tensors, and all objects, in order."""

    tensors: int
    bytes: int
    digest: str

    def __str__(self) -> str:
        return f"{self.tensors} tensors, {self.bytes} bytes, digest {self.digest}"


def import_checkpoint(
    source: str | os.PathLike[str],
    store: str | os.PathLike[str],
    step: int,
    *,
    overwrite: bool = False,
    allow_pickle: bool = False,
) -> Report:
    """Saves a folder of DCP, a file of torch.save or a file of safetensors as a step.

    Files are mapped into memory, folders read into it. Nothing in the source is
    executed: raises FailedPrecondition for one that needs it without `allow_pickle`,
    InvalidArgument for a dtype that the store lacks, and AlreadyExists for a step
    that exists without `overwrite`."""
    writer = StorageWriter(store, overwrite=overwrite)
    with new_store(os.fspath(store)), contextlib.closing(writer):
        return _import(pathlib.Path(source), writer, step, allow_pickle)


def _import(
    path: pathlib.Path, writer: StorageWriter, step: int, allow_pickle: bool
) -> Report:
    if path.is_dir():
        state, planner_data = read_flat(FolderReader(path, allow_pickle))
        if not state:
            raise InvalidArgument(f'"{path}" has no entry: nothing to import')
        save_flat(state, planner_data, writer, step)
        return _report(state)
    if not path.is_file():
        raise NotFound(f'"{path}" does not exist')
    if path.suffix == ".safetensors":
        state, metadata = load_safetensors(path)
        _save(flatten(state, {"safetensors": metadata}, allow_pickle), writer, step)
        return _report(state)
    value = load_file(path, allow_pickle)
    whole = not isinstance(value, dict) or any(type(key) is not str for key in value)
    state = {_WHOLE: value} if whole else value
    _save(flatten(state, {"whole": whole}, allow_pickle), writer, step)
    return _report(value)


def _save(flat: Flat, writer: StorageWriter, step: int) -> None:
    writer._extra_blobs = flat.objects
    save_flat(flat.state, flat.planner_data, writer, step)


def export_checkpoint(
    store: str | os.PathLike[str],
    target: str | os.PathLike[str],
    step: int | None = None,
    *,
    overwrite: bool = False,
    allow_pickle: bool = False,
) -> Report:
    """Writes a step, or the one saved last, as a folder of DCP if `target` has no
    suffix, as a file of safetensors if that is its suffix, and otherwise as one of
    torch.save. The opposite of `import_checkpoint`."""
    path = pathlib.Path(target)
    if not overwrite and path.exists():
        raise AlreadyExists(
            f'"{path}" exists; choose another name, or pass overwrite=True to replace it'
        )
    with Reader(store, allow_pickle=allow_pickle) as reader:
        with reader.latest() if step is None else reader.open(step) as opened:
            number = opened.record.step
            from_dcp = has_metadata(opened)
            names = {item.name for item in opened.items()}
            from_file = f"extra/{FILE}" in names
            if from_dcp and (path.suffix == "" or not from_file):
                flat = StorageReader(store, number, allow_pickle=allow_pickle)
                state, planner_data = read_flat(flat)
                about: dict[str, Any] = {}
            else:
                state, about = read_state(opened)
                planner_data = None
    if path.suffix == "":
        export_folder(state, planner_data, path)
        return _report(state)
    value = state
    if planner_data is not None:
        value = unflatten(state, planner_data, allow_pickle)
    if path.suffix == ".safetensors":
        _write(path, lambda file: save_safetensors(value, about, file))
    else:
        value = value[_WHOLE] if about.get("whole") else value
        _write(path, lambda file: torch.save(value, file))
    return _report(value)


def _report(value: Any) -> Report:
    digest = hashlib.sha256()
    tensors = sizes = 0

    def add(name: str, value: Any) -> None:
        nonlocal tensors, sizes
        if isinstance(value, torch.Tensor):
            flat = value.detach().contiguous().reshape(-1).view(torch.uint8)
            tensors, sizes = tensors + 1, sizes + flat.numel()
            digest.update(f"{name} {value.dtype} {tuple(value.shape)}\n".encode())
            digest.update(flat.numpy())
        elif isinstance(value, dict):
            digest.update(f"{name} {len(value)}\n".encode())
            for key, each in value.items():
                add(f"{name}.{key!r}", each)
        elif isinstance(value, (list, tuple)):
            kind = "list" if isinstance(value, list) else "tuple"
            digest.update(f"{name} {kind} {len(value)}\n".encode())
            for i, each in enumerate(value):
                add(f"{name}.{i}", each)
        elif isinstance(value, io.BytesIO):
            digest.update(value.getbuffer())
        elif isinstance(value, (set, frozenset)):
            digest.update(f"{name} {sorted(map(repr, value))}\n".encode())
        elif type(value).__repr__ is object.__repr__:  # type: ignore[comparison-overlap]
            # Its text would contain an address.
            digest.update(pickle.dumps(value))
        else:
            digest.update(f"{name} {value!r}\n".encode())

    add("", value)
    return Report(tensors, sizes, digest.hexdigest()[:32])


def _write(path: pathlib.Path, write: Callable[[Any], object]) -> None:
    """Writes a file that exists completely or not at all."""
    partial = path.with_name(f"{path.name}.partial")
    try:
        with open(partial, "wb") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(partial, path)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise
