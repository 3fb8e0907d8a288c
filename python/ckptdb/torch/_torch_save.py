# SPDX-License-Identifier: Apache-2.0
"""Files of torch.save as states, and what a step has of them.

The step of a file has each tensor under its name of the flattened state, and each object
twice: as DCP serializes it, and as `ckptdb.Reader.read` returns it."""

from __future__ import annotations

import collections
import io
import pathlib
import pickle
import zipfile
from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from torch.distributed.checkpoint._nested_dict import flatten_state_dict

from .. import _arrays
from .._errors import DataLoss, FailedPrecondition, InvalidArgument
from .._reader import Step
from .._save import Save
from .._state import has_state_dict

# The entry of an imported file's step that describes the file: its keys in order,
# and what its dictionaries have besides their items.
FILE = "torch.file"


def load_pickle(name: str, file: Any, allow_pickle: bool, **options: Any) -> Any:
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


def load_file(path: pathlib.Path, allow_pickle: bool) -> Any:
    mmap = zipfile.is_zipfile(path)  # the old format cannot be mapped
    with open(path, "rb") as file:
        if not mmap and file.read(2) == b"PK":
            raise DataLoss(f'"{path}" is truncated')
    return load_pickle(str(path), str(path), allow_pickle, mmap=mmap)


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


class Flat(NamedTuple):
    """A file's content as DCP saves it, and its objects for `ckptdb.Reader`."""

    state: dict[str, Any]
    planner_data: dict[str, Any]
    objects: list[tuple[str, bytes]]  # blobs


def flatten(state: dict[str, Any], about: dict[str, Any], allow_pickle: bool) -> Flat:
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
    saved.add(FILE, about)
    planner_data = {name: mappings.get(name, (name,)) for name in flat}
    objects = [(f"extra/{name}", data) for name, data in saved.objects]
    return Flat(flat, planner_data, objects)


def read_state(step: Step) -> tuple[dict[str, Any], dict[str, Any]]:
    """(state, about): the state that a file or a manager has saved, by name."""
    items = step.items()
    if f"extra/{FILE}" in {item.name for item in items}:
        about = step.read(FILE)
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
