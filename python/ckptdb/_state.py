# SPDX-License-Identifier: Apache-2.0
"""The state of a trainer as tensors, objects, tables and io states.

The tree is walked anew at each save and restore, because tensors move
(`p.data = ...`, `module.to(...)`) and optimizers make their state late. A save
turns each entry into tensors, named by their path, and a description of the rest
in JSON. A restore reads the description first, so that it knows which tensors
the step has, finds or makes memory for each, and after the library has filled
it, puts the values where they belong.
"""

from __future__ import annotations

import collections
import contextlib
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from . import _arrays
from ._custom_table import CustomTable
from ._errors import Error, FailedPrecondition, InvalidArgument
from ._shards import Shard
from ._tables import ArrayTable, Table

Dims = tuple[int, ...]
# Name, dtype, shape, address, of a shard the whole tensor's shape and the offset in
# it, which are otherwise empty, and of a tensor on a GPU its device and stream.
TensorTuple = tuple[str, str, Dims, int, Dims, Dims, int, int]


def tensor_tuple(name: str, memory: _arrays.Memory, shard: Shard) -> TensorTuple:
    dtype, shape, address, _, device, stream = memory
    _, global_shape, offset = shard
    return name, dtype, shape, address, global_shape, offset, device, stream


def is_module(value: Any) -> bool:
    """Whether the value is a module of PyTorch: its tensors are restored in
    place."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.nn.Module)


def has_state_dict(value: Any) -> bool:
    return (
        hasattr(value, "state_dict")
        and hasattr(value, "load_state_dict")
        and not isinstance(value, type)
    )


def has_io_state(value: Any) -> bool:
    return hasattr(value, "io_state") and hasattr(value, "load_io_state")


def is_table(value: Any) -> bool:
    return isinstance(value, (Table, ArrayTable, CustomTable))


def is_namedtuple(value: Any) -> bool:
    return isinstance(value, tuple) and hasattr(value, "_fields")


def module_tensors(module: Any) -> dict[str, Any]:
    """The state dictionary of a module, without a copy of each tensor's header
    where the module permits it."""
    torch = sys.modules["torch"]
    plain = type(module).state_dict is torch.nn.Module.state_dict
    tensors: dict[str, Any] = (
        module.state_dict(keep_vars=True) if plain else module.state_dict()
    )
    return tensors


class Registered:
    """Tables and io states, which a manager registers when it is opened."""

    def __init__(self, state: Mapping[str, Any], world_size: int) -> None:
        self.world_size = world_size
        leaves = list(_leaves(state))
        self.tables = [(n, v) for n, v in leaves if is_table(v)]
        self.io_states = [
            (n, v) for n, v in leaves if has_io_state(v) and not is_table(v)
        ]
        self._by_name = dict(self.tables + self.io_states)
        check_unique([n for n, _ in self.tables + self.io_states], state)

    def check(self, name: str, value: Any) -> None:
        if self._by_name.get(name) is not value:
            raise FailedPrecondition(
                f'state "{name}" is a {type(value).__name__} that was not there when '
                "the manager was opened; open the manager with it"
            )


@contextlib.contextmanager
def named(name: str) -> Iterator[None]:
    """Adds the name to errors of a tensor or an array."""
    try:
        yield
    except Error as error:
        raise type(error)(f'state "{name}": {error}') from None
    except (RuntimeError, ValueError) as error:
        raise InvalidArgument(f'state "{name}": {error}') from None


@contextlib.contextmanager
def bounded(name: str) -> Iterator[None]:
    """Raises InvalidArgument for a value that contains itself."""
    try:
        yield
    except RecursionError:
        raise InvalidArgument(
            f'state "{name}" contains itself, or is nested too deeply'
        ) from None


def check_name(name: Any) -> None:
    if not isinstance(name, str):
        raise InvalidArgument(
            f"the state has the name {name!r} of type {type(name).__name__}; expected "
            "a str"
        )
    check_utf8([name])


def check_utf8(names: Sequence[str]) -> None:
    try:
        "".join(names).encode()
    except UnicodeEncodeError as error:
        name = next(n for n in names if error.object[error.start] in n)
        raise InvalidArgument(
            f"the state has the name {name!r}, which is not UTF-8, as of a file whose "
            "name is not; rename it"
        ) from None


def names_of(tensors: Sequence[str], registered: Registered | None) -> list[str]:
    names = list(tensors)
    if registered is not None:
        names += [name for name, _ in registered.tables + registered.io_states]
    return names


def check_unique(names: list[str], state: Mapping[str, Any]) -> None:
    """Raises InvalidArgument for names that are used twice or are not UTF-8."""
    check_utf8(names)
    if len(set(names)) == len(names):
        return
    ((name, _),) = collections.Counter(names).most_common(1)
    places = [place for n, place in _places(state, "", "state") if n == name]
    raise InvalidArgument(
        f'{" and ".join(places)} have the same name "{name}"; rename one of them'
    )


def _places(value: Any, name: str, place: str) -> Iterator[tuple[str, str]]:
    """The names and places of tensors, tables and io states."""
    if _arrays.is_array(value) or is_table(value) or has_io_state(value):
        yield name, place
        return
    if has_state_dict(value):  # modules too
        value, place = value.state_dict(), f"{place}.state_dict()"
    if isinstance(value, dict):
        parts = list(value.items())
    elif isinstance(value, (list, tuple)):
        parts = list(enumerate(value))
    else:
        return
    for key, each in parts:
        yield from _places(each, f"{name}.{key}" if name else key, f"{place}[{key!r}]")


def _leaves(state: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    def walk(name: str, value: Any) -> Iterator[tuple[str, Any]]:
        if isinstance(value, dict):
            for key, each in value.items():
                yield from walk(f"{name}.{key}", each)
        elif isinstance(value, (list, tuple)):
            for i, each in enumerate(value):
                yield from walk(f"{name}.{i}", each)
        else:
            yield name, value

    for name, value in state.items():
        check_name(name)
        with bounded(name):
            yield from walk(name, value)
