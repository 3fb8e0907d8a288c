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

import sys
from collections.abc import Callable, MutableMapping, MutableSequence
from typing import Any

from . import _arrays, _tree
from ._errors import FailedPrecondition, InvalidArgument
from ._custom_table import CustomTable
from ._tables import ArrayTable, Table

TensorTuple = tuple[str, str, tuple[int, ...], int]
Finish = Callable[[], Any]
_MISSING: Any = object()


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


def _is_namedtuple(value: Any) -> bool:
    return isinstance(value, tuple) and hasattr(value, "_fields")


class Save:
    """The tensors and objects of one save."""

    def __init__(self, allow_pickle: bool) -> None:
        self.tensors: list[TensorTuple] = []
        self.objects: list[tuple[str, bytes]] = []
        self.owners: list[Any] = []
        self._allow_pickle = allow_pickle

    def add(self, name: str, value: Any) -> None:
        """Adds an entry of the state. Entries without anything but tensors have
        no object."""
        if is_table(value) or has_io_state(value):
            return
        if is_module(value):
            self._add_module(name, value)
        elif _arrays.is_array(value):
            self._add_tensor(name, value)
        else:
            node = self._encode(value, name)
            self.objects.append((name, _tree.dumps(node)))

    def _add_tensor(self, name: str, value: Any) -> None:
        try:
            memory = _arrays.readable(value)
        except InvalidArgument as error:
            raise InvalidArgument(f'state "{name}": {error}') from None
        self.owners.append(memory.owner)
        self.tensors.append((name, memory.dtype, memory.shape, memory.address))

    def _add_module(self, name: str, module: Any) -> None:
        rest = {}
        for key, value in module.state_dict().items():
            if _arrays.is_torch(value):
                self._add_tensor(f"{name}.{key}", value)
            else:
                rest[key] = self._encode(value, f"{name}.{key}")
        if rest:
            self.objects.append((name, _tree.dumps({"$module": rest})))

    def _encode(self, value: Any, name: str) -> Any:
        if _arrays.is_array(value):
            self._add_tensor(name, value)
            return {"$tensor": _arrays.kind_of(value)}
        if is_table(value):
            return {"$table": None}
        if has_io_state(value):
            return {"$io_state": None}
        if is_module(value):
            self._add_module(name, value)
            return {"$module_of": None}
        if has_state_dict(value):
            return {"$state": self._encode(value.state_dict(), name)}
        if isinstance(value, dict):
            return self._encode_mapping(value, name)
        if isinstance(value, (list, tuple, set, frozenset)):
            nodes = [
                self._encode(each, f"{name}.{i}") for i, each in enumerate(value)
            ]
            if type(value) is list:
                return nodes
            tag = {set: "$set", frozenset: "$frozenset"}.get(type(value))
            return {tag or "$tuple": nodes}
        return _tree.encode_leaf(value, f'state "{name}"', self._allow_pickle)

    def _encode_mapping(self, value: dict[Any, Any], name: str) -> Any:
        ordered = hasattr(value, "move_to_end")
        if not ordered and _tree.is_plain_mapping(value):
            return {
                key: self._encode(each, f"{name}.{key}")
                for key, each in value.items()
            }
        pairs = [
            [
                _tree.encode_leaf(key, f'a key of "{name}"', self._allow_pickle),
                self._encode(each, f"{name}.{key}"),
            ]
            for key, each in value.items()
        ]
        return {"$ordered" if ordered else "$dict": pairs}


class Restore:
    """The memory into which one step is restored, and what to do with it
    afterwards."""

    def __init__(
        self,
        read_object: Callable[[str], bytes | None],
        dtypes: dict[str, tuple[str, tuple[int, ...]]],
        allow_pickle: bool,
    ) -> None:
        self.tensors: list[TensorTuple] = []
        self.objects: list[tuple[str, bytes]] = []
        self.owners: list[Any] = []
        self._read_object = read_object
        self._dtypes = dtypes  # of the step's tensors
        self._allow_pickle = allow_pickle
        self._finish: dict[str, Finish] = {}
        self._with_object: set[str] = set()

    def add(self, name: str, value: Any) -> None:
        if is_table(value) or has_io_state(value):
            return
        if _arrays.is_array(value):
            self._finish[name] = self._target(name, value)
            return
        data = self._read_object(name)
        if is_module(value):
            node = None if data is None else _tree.loads(data, name)
            if data is not None:
                self._expect_object(name, data)
            self._finish[name] = self._plan_module(name, value, node)
            return
        self._expect_object(name, data or b"")
        if data is None:
            # The library reports what the step lacks, unless a policy permits
            # it: then the value stays.
            self._finish[name] = lambda: value
            return
        node = _tree.loads(data, name)
        self._finish[name] = self._plan(node, value, name)

    def finish(self, state: MutableMapping[str, Any], loaded: set[str]) -> None:
        """Puts restored values into the state. `loaded` are the objects that the
        library has loaded: others, which a policy excludes, keep their values."""
        for name, finish in self._finish.items():
            if name in self._with_object and name not in loaded:
                continue
            value = finish()
            if state[name] is not value:
                state[name] = value

    def _expect_object(self, name: str, data: bytes) -> None:
        self._with_object.add(name)
        self.objects.append((name, data))

    def _target(self, name: str, value: Any) -> Finish:
        try:
            memory, put = _arrays.writable(value)
        except InvalidArgument as error:
            raise InvalidArgument(f'state "{name}": {error}') from None
        self.owners.append(memory.owner)
        self.tensors.append((name, memory.dtype, memory.shape, memory.address))
        return put

    def _plan_module(self, name: str, module: Any, node: Any) -> Finish:
        tagged = _tree.tag_of(node)
        rest = tagged[1] if tagged is not None and tagged[0] == "$module" else {}
        puts = [
            self._target(f"{name}.{key}", value)
            for key, value in module.state_dict().items()
            if _arrays.is_torch(value)
        ]
        extras = {
            key: self._plan(child, _MISSING, f"{name}.{key}")
            for key, child in rest.items()
        }

        def finish() -> Any:
            for put in puts:
                put()
            if extras:
                state = module.state_dict()
                state.update({key: make() for key, make in extras.items()})
                module.load_state_dict(state)
            return module

        return finish

    def _plan(self, node: Any, live: Any, name: str) -> Finish:
        tagged = _tree.tag_of(node)
        tag: str | None
        content: Any
        tag, content = tagged if tagged is not None else (None, None)
        if tag == "$tensor":
            return self._plan_tensor(content, live, name)
        if tag in ("$table", "$io_state"):
            return lambda: live
        if tag == "$module_of":
            self._need(is_module(live), name, "a module")
            return self._plan_module(name, live, None)
        if tag == "$state":
            return self._plan_state(content, live, name)
        if tag in ("$tuple", "$set", "$frozenset") or isinstance(node, list):
            nodes = content if tag is not None else node
            return self._plan_sequence(tag, nodes, live, name)
        if tag in ("$dict", "$ordered") or (tag is None and isinstance(node, dict)):
            return self._plan_mapping(tag, content, node, live, name)
        value = _tree.decode_leaf(node, f'"{name}"', self._allow_pickle)
        self._register_rest(live, name)
        return lambda: value

    @staticmethod
    def _need(condition: bool, name: str, what: str) -> None:
        if not condition:
            raise FailedPrecondition(
                f'"{name}" was saved from {what}; the state must have one under '
                "this name"
            )

    def _plan_tensor(self, kind: str, live: Any, name: str) -> Finish:
        if _arrays.is_array(live):
            return self._target(name, live)
        dtype, shape = self._dtypes.get(name, ("f32", (0,)))
        value = _arrays.empty(dtype, shape, kind)
        put = self._target(name, value)
        if kind != "jax":
            return put

        def to_jax() -> Any:
            import jax.numpy

            return jax.numpy.asarray(value)

        return to_jax

    def _plan_state(self, node: Any, live: Any, name: str) -> Finish:
        self._need(has_state_dict(live), name, "an object with state_dict")
        # The live tensors are used where they fit. Others are made, and
        # load_state_dict takes them: an optimizer has none before its first step.
        build = self._plan(node, _fitting(live.state_dict(), self._dtypes, name), name)

        def finish() -> Any:
            live.load_state_dict(build())
            return live

        return finish

    def _plan_sequence(
        self, tag: str | None, nodes: list[Any], live: Any, name: str
    ) -> Finish:
        old = list(live) if isinstance(live, (list, tuple)) else []
        makes = [
            self._plan(node, old[i] if i < len(old) else _MISSING, f"{name}.{i}")
            for i, node in enumerate(nodes)
        ]
        for i in range(len(nodes), len(old)):
            self._register_rest(old[i], f"{name}.{i}")

        def finish() -> Any:
            values = [make() for make in makes]
            if tag == "$set":
                return set(values)
            if tag == "$frozenset":
                return frozenset(values)
            if tag == "$tuple":
                if _is_namedtuple(live) and len(values) == len(live):
                    return type(live)._make(values)
                return tuple(values)
            if isinstance(live, MutableSequence):
                live[:] = values
                return live
            return values

        return finish

    def _plan_mapping(
        self, tag: str | None, pairs: Any, node: Any, live: Any, name: str
    ) -> Finish:
        if tag is None:
            items = list(node.items())
        else:
            items = [
                (_tree.decode_leaf(key, f'a key of "{name}"', False), child)
                for key, child in pairs
            ]
            items = [(_hashable(key), child) for key, child in items]
        old = live if isinstance(live, dict) else {}
        makes = [
            (key, self._plan(child, old.get(key, _MISSING), f"{name}.{key}"))
            for key, child in items
        ]
        present = {key for key, _ in items}
        for key, value in old.items():
            if key not in present:
                self._register_rest(value, f"{name}.{key}")

        def finish() -> Any:
            made = [(key, make()) for key, make in makes]
            if not isinstance(live, dict):
                return _tree.make_mapping(tag or "", made)
            for key in [key for key in live if key not in present]:
                del live[key]
            live.update(made)
            return live

        return finish

    def _register_rest(self, live: Any, name: str) -> None:
        """Registers tensors of the state that the step lacks, so that the library
        reports them."""
        if live is _MISSING:
            return
        save = Save(allow_pickle=True)
        try:
            save._encode(live, name)
        except Exception:  # a value that cannot be saved is not missing
            return
        self.tensors.extend(save.tensors)
        self.owners.extend(save.owners)


def _hashable(key: Any) -> Any:
    return tuple(_hashable(each) for each in key) if isinstance(key, list) else key


def _fitting(
    live: Any, dtypes: dict[str, tuple[str, tuple[int, ...]]], name: str
) -> Any:
    """A copy of a state dictionary's structure with those of its tensors that
    have the form of the step's."""
    if _arrays.is_array(live):
        try:
            memory = _arrays.readable(live)
        except InvalidArgument:
            return _MISSING
        same = dtypes.get(name) == (memory.dtype, tuple(memory.shape))
        return live if same else _MISSING
    if isinstance(live, dict):
        return {
            key: _fitting(value, dtypes, f"{name}.{key}")
            for key, value in live.items()
            if f"{name}.{key}" in dtypes or isinstance(value, (dict, list, tuple))
        }
    if isinstance(live, (list, tuple)):
        return [
            _fitting(value, dtypes, f"{name}.{i}") for i, value in enumerate(live)
        ]
    return _MISSING


def read_value(
    name: str,
    data: bytes,
    dtypes: dict[str, tuple[str, tuple[int, ...]]],
    allow_pickle: bool,
) -> tuple[list[tuple[str, Any]], Finish]:
    """What `Step.read` needs for an object: its tensors, with memory, and a
    function that returns the value once they are filled."""
    restore = Restore(lambda _: data, dtypes, allow_pickle)
    node = _tree.loads(data, name)
    tagged = _tree.tag_of(node)
    if tagged is not None and tagged[0] == "$state":
        node = tagged[1]
    finish = restore._plan(node, _MISSING, name)
    return list(zip([t[0] for t in restore.tensors], restore.owners)), finish


def tables_of(state: MutableMapping[str, Any]) -> list[tuple[str, Any]]:
    """The tables of a state, by name, also those in dictionaries and lists."""
    return [(n, v) for n, v in _leaves(state) if is_table(v)]


def io_states_of(state: MutableMapping[str, Any]) -> list[tuple[str, Any]]:
    return [
        (n, v) for n, v in _leaves(state) if has_io_state(v) and not is_table(v)
    ]


def _leaves(state: MutableMapping[str, Any]) -> list[tuple[str, Any]]:
    found: list[tuple[str, Any]] = []

    def walk(name: str, value: Any) -> None:
        if isinstance(value, dict):
            for key, each in value.items():
                walk(f"{name}.{key}", each)
        elif isinstance(value, (list, tuple)):
            for i, each in enumerate(value):
                walk(f"{name}.{i}", each)
        else:
            found.append((name, value))

    for name, value in state.items():
        walk(name, value)
    return found

