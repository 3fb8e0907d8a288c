# SPDX-License-Identifier: Apache-2.0
"""A save's tensors and objects, from the state."""

from __future__ import annotations

import collections
from collections.abc import Mapping
from typing import Any

from . import _arrays, _tree
from ._devices import Devices
from ._shards import shards_of
from ._state import (
    Registered,
    TensorTuple,
    bounded,
    check_name,
    check_unique,
    has_io_state,
    has_state_dict,
    is_module,
    is_table,
    module_tensors,
    named,
    names_of,
    tensor_tuple,
)

_EXTRA_STATE = "_extra_state"  # torch.nn.Module.get_extra_state


class Save:
    """The tensors and objects of one save."""

    def __init__(
        self,
        allow_pickle: bool,
        registered: Registered | None = None,
        devices: Devices | None = None,
    ) -> None:
        self.tensors: list[TensorTuple] = []  # or one for each shard
        self.names: list[str] = []  # of tensors
        self.objects: list[tuple[str, bytes]] = []
        self.owners: list[Any] = []
        self._allow_pickle = allow_pickle
        self._registered = registered
        self._budget = devices.budget() if devices is not None else None
        self._world_size = registered.world_size if registered is not None else 1

    def add_all(self, state: Mapping[str, Any]) -> None:
        for name, value in state.items():
            check_name(name)
            with bounded(name):
                self.add(name, value)
        check_unique(names_of(self.names, self._registered), state)

    def add(self, name: str, value: Any) -> None:
        """Adds an entry of the state. Entries without anything but tensors have
        no object."""
        if is_table(value) or has_io_state(value):
            self._check_registered(name, value)
        elif is_module(value):
            self._add_module(name, value)
        elif _arrays.is_array(value):
            self._add_tensor(name, value)
        else:
            node = self._encode(value, name)
            self.objects.append((name, _tree.dumps(node)))

    def _check_registered(self, name: str, value: Any) -> None:
        if self._registered is not None:
            self._registered.check(name, value)

    def _add_tensor(self, name: str, value: Any) -> None:
        self.names.append(name)
        with named(name):
            for shard in shards_of(value, self._world_size):
                memory = (
                    _arrays.readable(shard.local)
                    if self._budget is None
                    else self._budget.readable(name, shard.local)
                )
                self.owners.append(memory.owner)
                self.tensors.append(tensor_tuple(name, memory, shard))

    def _add_module(self, name: str, module: Any) -> None:
        rest = {}
        for key, value in module_tensors(module).items():
            if _arrays.is_torch(value):
                self._add_tensor(f"{name}.{key}", value)
                if key.endswith(_EXTRA_STATE):
                    rest[key] = {"$tensor": "torch"}
            else:
                rest[key] = self._encode(value, f"{name}.{key}")
        if rest:
            self.objects.append((name, _tree.dumps({"$module": rest})))

    def _encode(self, value: Any, name: str) -> Any:
        if _arrays.is_array(value):
            self._add_tensor(name, value)
            return {"$tensor": _arrays.kind_of(value)}
        if is_table(value):
            self._check_registered(name, value)
            return {"$table": None}
        if has_io_state(value):
            self._check_registered(name, value)
            return {"$io_state": None}
        if is_module(value):
            self._add_module(name, value)
            return {"$module_of": None}
        if has_state_dict(value):
            return {"$state": self._encode(value.state_dict(), name)}
        if isinstance(value, dict):
            return self._encode_mapping(value, name)
        if isinstance(value, (list, tuple, set, frozenset)):
            nodes = [self._encode(each, f"{name}.{i}") for i, each in enumerate(value)]
            if isinstance(value, list):
                return nodes
            if isinstance(value, tuple):
                return {"$tuple": nodes}
            return {"$set" if isinstance(value, set) else "$frozenset": nodes}
        return _tree.encode_leaf(value, f'state "{name}"', self._allow_pickle)

    def _encode_mapping(self, value: dict[Any, Any], name: str) -> Any:
        ordered = isinstance(value, collections.OrderedDict)
        if not ordered and _tree.is_plain_mapping(value):
            return {
                key: self._encode(each, f"{name}.{key}") for key, each in value.items()
            }
        pairs = [
            [
                _tree.encode_key(key, f'a key of "{name}"', self._allow_pickle),
                self._encode(each, f"{name}.{key}"),
            ]
            for key, each in value.items()
        ]
        return {"$ordered" if ordered else "$dict": pairs}
