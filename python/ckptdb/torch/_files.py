# SPDX-License-Identifier: Apache-2.0
"""Checkpoints of PyTorch as steps of a store, and back: folders of
torch.distributed.checkpoint (DCP), files of torch.save, and safetensors.

An imported step is one that DCP has saved: each tensor under its name of the
flattened state, and each object twice: as DCP serializes it, and, of a file, as
`ckptdb.Reader.read` returns it.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import dataclasses
import hashlib
import io
import json
import os
import pathlib
import pickle
import re
import sys
import warnings
import zipfile
from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.distributed.checkpoint as dist_checkpoint
from torch.distributed.checkpoint._nested_dict import (
    flatten_state_dict,
    unflatten_state_dict,
)
from torch.distributed.checkpoint.metadata import Metadata, TensorStorageMetadata
from torch.distributed.checkpoint.planner import SavePlan, WriteItem

from .. import _arrays
from .._errors import (
    AlreadyExists,
    DataLoss,
    Error,
    FailedPrecondition,
    InvalidArgument,
    NotFound,
)
from .._exit_codes import Parser, exit_code, step_number, text_of
from .._imported import (
    as_damage,
    check_inside,
    check_links,
    new_store,
)
from .._reader import Reader, Step
from .._save import Save
from .._state import has_state_dict
from ._metadata import has_metadata, load_metadata
from .dcp import StorageReader, StorageWriter

# The entry of an imported file's step that describes the file: its keys in order,
# and what its dictionaries have besides their items.
_FILE = "torch.file"
_WHOLE = "value"  # the name of a file's content that is not a dictionary of names
_SAFE_DTYPES = {
    "F64": "f64", "F32": "f32", "F16": "f16", "BF16": "bf16", "F8_E4M3": "f8e4m3",
    "F8_E5M2": "f8e5m2", "I64": "i64", "I32": "i32", "I16": "i16", "I8": "i8",
    "U64": "u64", "U32": "u32", "U16": "u16", "U8": "u8", "BOOL": "bool",
}  # fmt: skip
_SAFE_NAMES = {ours: theirs for theirs, ours in _SAFE_DTYPES.items()}


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
        state, planner_data = _read_flat(_FolderReader(path, allow_pickle))
        if not state:
            raise InvalidArgument(f'"{path}" has no entry: nothing to import')
        _save_flat(state, planner_data, writer, step)
        return _report(state)
    if not path.is_file():
        raise NotFound(f'"{path}" does not exist')
    if path.suffix == ".safetensors":
        state, metadata = _load_safetensors(path)
        _save_state(state, {"safetensors": metadata}, writer, step, allow_pickle)
        return _report(state)
    value = _load_file(path, allow_pickle)
    whole = not isinstance(value, dict) or any(type(key) is not str for key in value)
    state = {_WHOLE: value} if whole else value
    _save_state(state, {"whole": whole}, writer, step, allow_pickle)
    return _report(value)


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
            from_file = f"extra/{_FILE}" in names
            if from_dcp and (path.suffix == "" or not from_file):
                flat = StorageReader(store, number, allow_pickle=allow_pickle)
                state, planner_data = _read_flat(flat)
                about: dict[str, Any] = {}
            else:
                state, about = _read_state(opened)
                planner_data = None
    if path.suffix == "":
        _export_folder(state, planner_data, path)
        return _report(state)
    value = state
    if planner_data is not None:
        value = _unflatten(state, planner_data, allow_pickle)
    if path.suffix == ".safetensors":
        _write(path, lambda file: _save_safetensors(value, about, file))
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


# Whole tensors, and objects as bytes.


class _FlatLoad(dist_checkpoint.DefaultLoadPlanner):  # type: ignore[misc]
    """Loads all that a checkpoint contains: tensors whole, objects as their bytes."""

    def __init__(self) -> None:
        super().__init__(flatten_state_dict=False, flatten_sharded_tensors=False)

    def set_up_planner(
        self, state_dict: Any, metadata: Any = None, is_coordinator: bool = False
    ) -> None:
        for name, each in metadata.state_dict_metadata.items():
            if isinstance(each, TensorStorageMetadata):
                dtype = each.properties.dtype
                with _named(name):
                    _arrays.torch_dtype_name(dtype)
                state_dict[name] = torch.empty(each.size, dtype=dtype)
            else:
                state_dict[name] = io.BytesIO()
        super().set_up_planner(state_dict, metadata, is_coordinator)

    def load_bytes(self, read_item: Any, value: Any) -> None:
        self.state_dict[read_item.dest_index.fqn] = value


class _FlatSave(dist_checkpoint.DefaultSavePlanner):  # type: ignore[misc]
    """Saves tensors, and objects that are bytes already."""

    def __init__(self, planner_data: Any) -> None:
        super().__init__(flatten_state_dict=False, flatten_sharded_tensors=False)
        self._planner_data = planner_data

    def create_global_plan(self, all_plans: list[SavePlan]) -> Any:
        plans, metadata = super().create_global_plan(all_plans)
        return plans, dataclasses.replace(metadata, planner_data=self._planner_data)

    def transform_object(self, write_item: WriteItem, object: Any) -> Any:
        return object


class _FolderReader(dist_checkpoint.FileSystemReader):  # type: ignore[misc]
    """A folder of DCP whose metadata is read without executing it."""

    def __init__(self, path: pathlib.Path, allow_pickle: bool) -> None:
        super().__init__(path)
        self._allow_pickle = allow_pickle

    def read_metadata(self) -> Metadata:
        path = pathlib.Path(self.path) / ".metadata"
        if not path.is_file():
            raise NotFound(
                f'"{self.path}" is not a DCP checkpoint: .metadata is missing'
            )
        check_links(path.parent)
        with as_damage(path, "valid metadata of DCP"):
            metadata = load_metadata(path.read_bytes(), self._allow_pickle)
            for each in (metadata.storage_data or {}).values():
                check_inside(path.parent, each.relative_path)
        return metadata

    def read_data(self, plan: Any, planner: Any) -> Any:
        # One file at a time, so that an error names it.
        items: dict[str, list[Any]] = {}
        for each in plan.items:
            file = self.storage_data[each.storage_index].relative_path
            items.setdefault(file, []).append(each)
        done: Any = torch.futures.Future()
        done.set_result(None)
        for file, of_file in items.items():
            with as_damage(pathlib.Path(self.path) / file, "a valid file of DCP"):
                part = dataclasses.replace(plan, items=of_file)
                done = super().read_data(part, planner)
                done.wait()
        return done


@contextlib.contextmanager
def _named(name: str) -> Iterator[None]:
    try:
        yield
    except InvalidArgument as error:
        raise InvalidArgument(f'"{name}": {error}') from None


@contextlib.contextmanager
def _alone() -> Iterator[None]:
    """Runs DCP in this process, and raises its errors as they are."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="torch.distributed is")
        try:
            yield
        except dist_checkpoint.CheckpointException as error:
            raise error.failures[0][0] from None


def _read_flat(reader: Any) -> tuple[dict[str, Any], Any]:
    """(state, planner_data) of a checkpoint, with its names as keys."""
    metadata = reader.read_metadata()  # here, because DCP hides its error
    planner = _FlatLoad()
    with _alone():
        dist_checkpoint.load({}, storage_reader=reader, planner=planner, no_dist=True)
    return planner.state_dict, metadata.planner_data


def _save_flat(
    state: dict[str, Any], planner_data: Any, writer: Any, step: int | None
) -> None:
    with _alone():
        dist_checkpoint.save(
            state,
            storage_writer=writer,
            checkpoint_id=step,
            planner=_FlatSave(planner_data),
            no_dist=True,
        )


def _unflatten(flat: dict[str, Any], planner_data: Any, allow_pickle: bool) -> Any:
    state = {
        name: _load_pickle(name, each, allow_pickle)
        if isinstance(each, io.BytesIO)
        else each
        for name, each in flat.items()
    }
    return unflatten_state_dict(state, planner_data) if planner_data else state


def _export_folder(state: dict[str, Any], planner_data: Any, path: Any) -> None:
    writer = dist_checkpoint.FileSystemWriter(path)
    if planner_data is not None:
        _save_flat(state, planner_data, writer, None)
        return
    with _alone():
        dist_checkpoint.save(state, storage_writer=writer, no_dist=True)


# Files of torch.save.


def _load_pickle(name: str, file: Any, allow_pickle: bool, **options: Any) -> Any:
    try:
        return torch.load(
            file, map_location="cpu", weights_only=not allow_pickle, **options
        )
    except pickle.UnpicklingError as error:
        if allow_pickle:
            raise DataLoss(f'"{name}" is damaged: {error}') from error
        raise FailedPrecondition(
            f'"{name}" cannot be read without executing code from it; pass '
            f"allow_pickle=True if you trust it ({str(error).splitlines()[0]})"
        ) from error
    # torch.load raises any of these for bytes that are no pickle.
    except (RuntimeError, EOFError, LookupError, ValueError, TypeError) as error:
        raise DataLoss(
            f'"{name}" is not a valid torch.save file: {type(error).__name__}: {error}'
        ) from error


def _load_file(path: pathlib.Path, allow_pickle: bool) -> Any:
    mmap = zipfile.is_zipfile(path)  # the old format cannot be mapped
    with open(path, "rb") as file:
        if not mmap and file.read(2) == b"PK":
            raise DataLoss(f'"{path}" is truncated')
    return _load_pickle(str(path), str(path), allow_pickle, mmap=mmap)


def _attributes(value: Any, path: tuple[Any, ...] = ()) -> Iterator[list[Any]]:
    """What ordered dictionaries have besides their items, such as the `_metadata` of
    a module's state_dict, with the keys that lead to them. Raises InvalidArgument for
    an object that would be saved as its state."""
    if has_state_dict(value):
        name = ".".join(map(str, path))
        raise InvalidArgument(
            f'"{name}" is a {type(value).__name__}; save its state_dict() instead'
        )
    if isinstance(value, dict):
        if getattr(value, "__dict__", None):
            yield [list(path), dict(vars(value))]
        parts: Any = value.items()
    elif isinstance(value, (list, tuple)):
        parts = enumerate(value)
    else:
        return
    for key, each in parts:
        yield from _attributes(each, (*path, key))


def _save_state(
    state: dict[str, Any],
    about: dict[str, Any],
    writer: StorageWriter,
    step: int,
    allow_pickle: bool,
) -> None:
    """Saves a file's content as DCP does, and for `ckptdb.Reader`."""
    attributes = list(_attributes(state))
    saved = Save(allow_pickle)
    saved.add_all(state)
    flat: dict[str, Any] = {
        name: owner if _arrays.is_torch(owner) else torch.from_numpy(owner)
        for (name, *_), owner in zip(saved.tensors, saved.owners)
    }
    try:
        leaves, mappings = flatten_state_dict(state)
    except ValueError as error:
        raise InvalidArgument(f"two values have the same name: {error}") from error
    for name, value in leaves.items():
        if name not in flat:
            flat[name] = io.BytesIO()
            torch.save(value, flat[name])
    about = {
        **about,
        "keys": list(state),
        "ordered": isinstance(state, collections.OrderedDict),
        "attributes": attributes,
    }
    saved.add(_FILE, about)
    writer._extra_blobs = [(f"extra/{name}", data) for name, data in saved.objects]
    _save_flat(flat, {n: mappings.get(n, (n,)) for n in flat}, writer, step)


def _read_state(step: Step) -> tuple[dict[str, Any], dict[str, Any]]:
    """(state, about): the state that a file or a manager has saved, by name."""
    items = step.items()
    if f"extra/{_FILE}" in {item.name for item in items}:
        about = step.read(_FILE)
        names = about["keys"]
    else:
        about, names = {}, _names_of(step)
    made = collections.OrderedDict if about.get("ordered") else dict
    state = made((name, step.read(name, kind="torch")) for name in names)
    for path, attributes in about.get("attributes", ()):
        value: Any = state
        for key in path:
            value = value[key]
        vars(value).update(attributes)
    return state, about


def _names_of(step: Step) -> list[str]:
    """The entries of a state that a manager has saved."""
    names: list[str] = []
    for item in sorted(step.items(), key=lambda item: item.name.removeprefix("extra/")):
        name = item.name.removeprefix("extra/")
        if item.kind == "table" or (item.kind == "blob" and name == item.name):
            raise InvalidArgument(
                f'step {step.record.step} contains the {item.kind} "{name}", and a PyTorch '
                "checkpoint contains only tensors and objects; read this with ckptdb.Reader"
            )
        if item.kind == "blob":
            names = [each for each in names if not each.startswith(f"{name}.")]
        if not any(name.startswith(f"{each}.") for each in names):
            names.append(name)
    return names


# Files of safetensors: the length of a header, the header in JSON, and the bytes.


def _load_safetensors(path: pathlib.Path) -> tuple[dict[str, Any], Any]:
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


def _save_safetensors(state: Any, about: dict[str, Any], file: Any) -> None:
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
        with _named(name):
            dtype = _SAFE_NAMES[_arrays.torch_dtype_name(value.dtype)]
        header[name] = {
            "dtype": dtype,
            "shape": list(value.shape),
            "data_offsets": [at, at + value.nbytes],
        }
        at += value.nbytes
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)
    file.write(len(text).to_bytes(8, "little") + text)
    for value in tensors.values():
        file.write(value.detach().contiguous().reshape(-1).view(torch.uint8).numpy())


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


# The commands.

# Arguments that errors name, as options.
_OPTIONS = {"overwrite=True": "--overwrite", "allow_pickle=True": "--allow-pickle"}
_ARGUMENT = re.compile("|".join(_OPTIONS))


def _run(call: Callable[[], Report], done: str) -> int:
    try:
        print(f"{done}: {call()}")
    except (Exception, KeyboardInterrupt) as error:
        text = _ARGUMENT.sub(lambda name: _OPTIONS[name[0]], text_of(error))
        print(f"error: {text}", file=sys.stderr)
        return exit_code(error)
    return 0


def _parser(name: str, description: str) -> argparse.ArgumentParser:
    parser = Parser(prog=f"python -m ckptdb.torch.{name}", description=description)
    parser.add_argument("--store", required=True, help="folder of the store")
    parser.add_argument("--overwrite", action="store_true", help="replace what exists")
    parser.add_argument(
        "--allow-pickle", action="store_true", help="execute code from the checkpoint"
    )
    return parser


def run_import(arguments: list[str] | None = None) -> int:
    parser = _parser("import", "Saves a checkpoint of PyTorch as a step of a store.")
    parser.add_argument("source", help="folder of DCP, FILE.pt or FILE.safetensors")
    parser.add_argument(
        "--step", type=step_number, required=True, help="number of the step"
    )
    args = parser.parse_args(arguments)
    return _run(
        lambda: import_checkpoint(
            args.source,
            args.store,
            args.step,
            overwrite=args.overwrite,
            allow_pickle=args.allow_pickle,
        ),
        f"imported as step {args.step}",
    )


def run_export(arguments: list[str] | None = None) -> int:
    parser = _parser("export", "Writes a step of a store as a checkpoint of PyTorch.")
    parser.add_argument(
        "target",
        help="folder of DCP (a name without suffix), FILE.pt or FILE.safetensors",
    )
    parser.add_argument("--step", type=step_number, help="default: the step saved last")
    args = parser.parse_args(arguments)
    return _run(
        lambda: export_checkpoint(
            args.store,
            args.target,
            args.step,
            overwrite=args.overwrite,
            allow_pickle=args.allow_pickle,
        ),
        f"exported to {args.target}",
    )
