# SPDX-License-Identifier: Apache-2.0
"""How each value of a step returns into the state: the memory that the library fills,
and the function that makes the value of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from . import _arrays, _optimizers, _schedules, _tree
from ._devices import Devices
from ._differences import Differences
from ._errors import DataLoss, FailedPrecondition
from ._fitting import Form, fitting, moved
from ._kinds import MISSING, described, has_parts, places_of_objects
from ._rules import Rule
from ._shards import Shard, late_state
from ._state import (
    Registered,
    has_io_state,
    has_state_dict,
    is_module,
    is_namedtuple,
    is_table,
    module_tensors,
)
from ._targets import Targets
from ._tensor_memory import copied, storage_of, storages_of

Finish = Callable[[], Any]


class Plan:
    """The memory into which the values of a step are restored, and functions that make
    the state's values of it afterwards."""

    def __init__(
        self,
        read_object: Callable[[str], bytes | None],
        forms: Mapping[str, Form],
        allow_pickle: bool,
        registered: Registered | None = None,
        devices: Devices | None = None,
        rule: Rule = Rule(),
    ) -> None:
        self.objects: list[tuple[str, bytes]] = []
        self._read_object = read_object
        self._forms = forms  # of the step's tensors
        self._allow_pickle = allow_pickle
        self._registered = registered
        world_size = registered.world_size if registered is not None else 1
        self.targets = Targets(devices, world_size)
        self._rule = rule
        self._renames = rule.names()
        self._loads_object = rule.loads("extra")
        self._loads_tensor = rule.loads("dense")
        self._entry = ""
        self._differences = Differences()
        # Of optimizers whose objects are not loaded: how the names of their tensors
        # begin, and the error if one of these is loaded.
        self._misfits: dict[str, str] = {}
        self._reading = False  # a value alone, without one that it replaces
        self._remade = False  # values that load_state_dict takes
        self._copies = False  # of live tensors, for such values
        self._finish: dict[str, Finish] = {}
        self._with_object: set[str] = set()

    def _expect_object(self, name: str, data: bytes) -> None:
        self._with_object.add(name)
        self.objects.append((name, data))

    def _plan_module(self, name: str, module: Any, data: bytes | None) -> Finish:
        rest: dict[str, Any] = {}
        if data is not None:
            self._expect_object(name, data)
            node = _tree.loads(data, name)
            fitting = self._values_for(module, node, name)
            if fitting is None:
                return self._plan_unlike(node, module, name)
            rest = fitting
        return self._plan_module_with(rest, module, name)

    def _values_for(self, module: Any, node: Any, name: str) -> dict[str, Any] | None:
        """The values other than tensors that a module takes. None for a dictionary
        that is not its state dictionary."""
        values = self._module_values(node, name)
        if values is None:
            return None
        own = module_tensors(module)
        gone = [key for key in values if key not in own]
        if gone and _tree.is_mapping(node):
            return None
        for key in gone:
            self._differences.left_out.append((self._entry, f"{name}.{key}"))
            del values[key]
        return values

    def _module_values(self, node: Any, name: str) -> dict[str, Any] | None:
        """The values other than tensors in the description of a module, or of its
        state dictionary. None if the step stores another kind of value."""
        tagged = _tree.tag_of(node)
        if tagged is not None and tagged[0] == "$module":
            values: dict[str, Any] = tagged[1]
            return values
        if not _tree.is_mapping(node):
            return None
        return {
            key: child
            for key, child in self._items(node, name)
            if (_tree.tag_of(child) or ("",))[0] != "$tensor"
        }

    def _plan_module_with(
        self, rest: Mapping[str, Any], module: Any, name: str
    ) -> Finish:
        state = module_tensors(module)
        in_place = storages_of(module)
        puts = []
        remade = {}  # values that load_state_dict must take
        for key, value in state.items():
            if key in rest:
                continue
            if not _arrays.is_torch(value):
                self._check_module_value(f"{name}.{key}")
                continue
            put = self.targets.add(f"{name}.{key}", value)
            puts.append(put)
            if storage_of(value) not in in_place:
                remade[key] = put
        for key, child in rest.items():
            remade[key] = self._plan(child, MISSING, f"{name}.{key}")

        def finish() -> Any:
            for put in puts:
                put()
            if remade:
                restored = module.state_dict()
                restored.update({key: make() for key, make in remade.items()})
                module.load_state_dict(restored)
            return module

        return finish

    def _check_module_value(self, name: str) -> None:
        """Raises FailedPrecondition without a policy for a value that a module has and
        the step lacks."""
        if self._is_strict():
            raise FailedPrecondition(
                f'the step lacks "{name}" of the state; if it was added, evolve={{}} '
                "leaves it unchanged"
            )

    def _plan(self, node: Any, live: Any, name: str) -> Finish:
        tagged = _tree.tag_of(node)
        tag: str | None
        content: Any
        tag, content = tagged if tagged is not None else (None, None)
        if tag == "$tensor":
            return self._plan_tensor(content, live, name)
        if tag in ("$table", "$io_state"):
            return self._plan_registered(tag, live, name)
        if tag == "$module_of":
            data = self._read_object(name)
            if self._reading:
                return self.plan_module_value(name, data)
            if not is_module(live):
                return self._plan_unlike(node, live, name)
            return self._plan_module(name, live, data)
        if tag == "$state":
            return self._plan_state(node, content, live, name)
        if tag in ("$tuple", "$set", "$frozenset") or isinstance(node, list):
            is_set = tag in ("$set", "$frozenset")
            if self._keeps(live) and (is_set or not isinstance(live, (list, tuple))):
                return self._plan_unlike(node, live, name)
            nodes = content if tag is not None else node
            return self._plan_sequence(tag, nodes, live, name)
        if _tree.is_mapping(node):
            return self._plan_any_mapping(node, live, name)
        if self._keeps(live):
            return self._plan_unlike(node, live, name)
        value = _tree.decode_leaf(node, f'"{name}"', self._allow_pickle)
        return lambda: value

    def _plan_any_mapping(self, node: Any, live: Any, name: str) -> Finish:
        """Plans a dictionary, which may be the state dictionary of a live object."""
        if is_module(live):
            rest = self._values_for(live, node, name)
            if rest is None:
                return self._plan_unlike(node, live, name)
            return self._plan_module_with(rest, live, name)
        if has_state_dict(live):
            return self._plan_state(node, node, live, name)
        if self._keeps(live) and not isinstance(live, dict):
            return self._plan_unlike(node, live, name)
        return self._plan_mapping(node, live, name)

    def _is_strict(self) -> bool:
        """Whether a difference of the planned entry's values from those of the step is an
        error."""
        return self._rule.strict and self._loads_object(self._entry)

    def _keeps(self, live: Any) -> bool:
        """Whether the live value must not be replaced by another kind of value."""
        return not self._remade and not self._reading and has_parts(live)

    def _plan_unlike(self, node: Any, live: Any, name: str) -> Finish:
        """Plans a value that the step stores as another kind: an error, unless a
        policy is given, which keeps the live value. The library reports its tensors."""
        if self._is_strict() or live is MISSING:
            has = "nothing" if live is MISSING else described(live)
            raise FailedPrecondition(
                f'"{name}" was saved from {_tree.describe(node)}, and the state has '
                f"{has} there; restore into what it was saved from, or pass evolve={{}} "
                "to keep that of the state"
            )
        self._register_rest(live, name)
        self._differences.kept.append((self._entry, name))
        return lambda: live

    def _plan_registered(self, tag: str, live: Any, name: str) -> Finish:
        if self._reading:
            return lambda: None
        if is_table(live) if tag == "$table" else has_io_state(live):
            return lambda: live
        return self._plan_unlike({tag: None}, live, name)

    def _plan_tensor(self, kind: str, live: Any, name: str) -> Finish:
        if _arrays.is_array(live):
            put = self.targets.add(name, live)
            return (lambda: copied(put())) if self._copies else put
        if self._keeps(live):
            return self._plan_unlike({"$tensor": kind}, live, name)
        form = self._forms.get(name)
        if form is None:
            raise DataLoss(f'the step has no tensor "{name}", which its state names')
        value = _arrays.empty(*form, kind)
        writable, _ = _arrays.writable(value)
        memory = writable._replace(dtype=form[0])  # not NumPy's bits of it

        def make() -> Any:
            if kind != "jax":
                return value
            import jax.numpy

            return jax.numpy.asarray(value)

        if not self._reading:
            value[...] = 0  # for a step that is loaded without this tensor
        self.targets.register(name, [(memory, Shard(value))], make, value)
        return make

    def _plan_state(self, tagged: Any, node: Any, live: Any, name: str) -> Finish:
        if self._reading:
            return self._plan(node, MISSING, name)
        if is_module(live) or not has_state_dict(live):
            return self._plan_unlike(tagged, live, name)
        if getattr(live, "restored_in_place", False) and _tree.is_mapping(node):
            return self._plan_in_place(node, live, name)
        # The live tensors are used where they fit. Others are made, and
        # load_state_dict takes them: an optimizer has none before its first step.
        state = live.state_dict()
        why = _schedules.difference(live, node, state)
        self._check_fits("schedule", why, name)
        stored = _optimizers.groups_of(node)
        groups = None if stored is None else _optimizers.groups_of(state)
        places: dict[int, int] = {}
        if stored is not None and groups is not None:
            # Tensors for one without state are read into memory of their own.
            prefix = f"{name}." if state.get("state") else None
            if self._fits(stored, groups, name, prefix):
                places = _optimizers.places_of(stored, groups)
        state = moved(state, places)
        fresh = set() if groups is None else self._fresh(node, state, name)
        live_state = fitting(state, self._forms, name, self._loads_tensor)
        self._add_late_state(live, live_state, f"{name}.state.", places)
        build = self._plan_remade(node, live_state, name, copies=groups is None)

        def finish() -> Any:
            restored = build()
            if groups is not None:
                for number in fresh:
                    restored["state"].pop(number, None)
                _optimizers.reorder(restored, groups)
            live.load_state_dict(restored)
            if groups is not None and not self._rule.cast:
                _optimizers.keep_dtypes(live, restored)
            return live

        return finish

    def _plan_remade(
        self, node: Any, live_state: Any, name: str, copies: bool
    ) -> Finish:
        """Plans a state dictionary for `load_state_dict`. With `copies` it has no live
        tensors, which an object may reset before it uses the values. Those of optimizers
        are large, and replaced."""
        outer = self._remade, self._copies
        self._remade, self._copies = True, copies
        build = self._plan(node, live_state, name)
        self._remade, self._copies = outer
        return build

    def _fresh(self, node: Any, state: Mapping[Any, Any], name: str) -> set[Any]:
        """The parameters without state in a live optimizer that do not get all of the
        step's, described by `node`: they stay without, because zeros in place of a
        moment would be wrong."""
        stored, own = node.get("state"), state.get("state")
        if not (_tree.is_mapping(stored) and isinstance(own, Mapping)):
            return set()
        if not self._rule.is_partial():
            return set()
        return {
            number
            for number, each in self._items(stored, f"{name}.state")
            if number not in own and _tree.is_mapping(each)
            for key, child in self._items(each, f"{name}.state.{number}")
            if _tree.has_tag(child, "$tensor")
            and not self._loads_tensor(f"{name}.state.{number}.{key}")
        }

    def _add_late_state(
        self,
        optimizer: Any,
        live_state: Any,
        prefix: str,
        places: Mapping[int, int],
    ) -> None:
        """Adds memory for state that an optimizer of PyTorch has not made yet, and of
        another shape than the step's."""
        state = live_state.get("state") if isinstance(live_state, dict) else None
        if not isinstance(state, dict):
            return
        late = late_state(optimizer, self._forms, prefix, places)
        for index, each in late.items():
            state[index] = {**each, **state.get(index, {})}
        wrong = _optimizers.misshapen(optimizer, self._forms, prefix, places)
        for index, each in wrong.items():
            kept = {k: v for k, v in state.get(index, {}).items() if v is not MISSING}
            state[index] = {**each, **kept}

    def _fits(
        self,
        stored: _optimizers.Groups,
        groups: _optimizers.Groups,
        name: str,
        prefix: str | None,
    ) -> bool:
        """Raises FailedPrecondition if the state belongs to another optimizer. If the
        entry is not loaded, `add_all` raises it if a tensor that begins with the
        prefix is."""
        return self._check_fits(
            "optimizer", _optimizers.difference(stored, groups), name, prefix
        )

    def _check_fits(
        self, kind: str, why: str, name: str, prefix: str | None = None
    ) -> bool:
        if not why:
            return True
        text = (
            f'the {kind} "{name}" does not fit the step: {why}; to keep the values '
            f'that it has, exclude it: evolve={{"exclude": ["{self._entry}"]}}'
        )
        if self._loads_object(self._entry):
            raise FailedPrecondition(text)
        if prefix is not None:
            self._misfits.setdefault(prefix, text)
        return False

    def _plan_in_place(self, node: Any, live: Any, name: str) -> Finish:
        """Restores into the tensors of a state dictionary, so that the library
        reports those that do not fit. Like of a module, those that the state lacks
        are left out."""
        tensors = dict(live.state_dict())
        build = self._plan(
            {key: child for key, child in self._items(node, name) if key in tensors},
            tensors,
            name,
        )

        def finish() -> Any:
            build()
            live.load_rest(tensors)
            return live

        return finish

    def plan_module_value(self, name: str, data: bytes | None) -> Finish:
        """A module as a dictionary of its values."""
        rest: dict[str, Any] = {}
        if data is not None:
            rest = self._module_values(_tree.loads(data, name), name) or {}
        prefix = f"{name}."
        nodes: dict[str, Any] = {
            stored.removeprefix(prefix): {"$tensor": "torch"}
            for stored in self._forms
            if stored.startswith(prefix)
        }
        # Tensors of a description belong to it.
        for key in rest:
            for stored in [k for k in nodes if k.startswith(f"{key}.")]:
                del nodes[stored]
        return self._plan_mapping({**nodes, **rest}, MISSING, name)

    def _plan_sequence(
        self, tag: str | None, nodes: list[Any], live: Any, name: str
    ) -> Finish:
        old = list(live) if isinstance(live, (list, tuple)) else []
        order = self._renames.children(name, dict(enumerate(nodes)), range(len(old)))
        if sorted(order) == list(range(len(nodes))):
            nodes = [order[i] for i in range(len(nodes))]
        lives = dict(enumerate(old))
        self._check_added(dict(enumerate(nodes)), lives, name)
        makes = self._plan_parts(dict(enumerate(nodes)), lives, name, tensors_only=True)
        # Behaves like a dictionary.
        rest = [
            each
            for i, each in enumerate(old)
            if i >= len(nodes) and self._register_rest(each, f"{name}.{i}")
        ]

        def finish() -> Any:
            values = [make() for make in makes.values()] + rest
            if tag == "$set":
                if not isinstance(live, set):
                    return set(values)
                live.clear()
                live.update(values)
                return live
            if tag == "$frozenset":
                return frozenset(values)
            if tag == "$tuple":
                if is_namedtuple(live) and len(values) == len(live):
                    return type(live)._make(values)
                return tuple(values)
            if isinstance(live, list):
                live[:] = values
                return live
            return values

        return finish

    def _items(self, node: Any, name: str) -> list[tuple[Any, Any]]:
        """The keys of a mapping, and their nodes."""
        tagged = _tree.tag_of(node)
        if tagged is None:
            return list(node.items())
        return [
            (_tree.decode_key(key, f'a key of "{name}"', self._allow_pickle), child)
            for key, child in tagged[1]
        ]

    def _plan_mapping(self, node: Any, live: Any, name: str) -> Finish:
        items = self._items(node, name)
        tag = (_tree.tag_of(node) or ("",))[0]
        old = live if isinstance(live, dict) else {}
        present = self._renames.children(name, dict(items), old)
        self._check_added(present, old, name)
        makes = self._plan_parts(present, old, name)
        # Tensors that the step lacks are reported by the library, unless a policy
        # permits it; then they stay.
        rest = []
        for key, value in old.items():
            if key in present:
                continue
            if self._register_rest(value, f"{name}.{key}"):
                rest.append((key, value))
            else:
                self._differences.removed.append((self._entry, f"{name}.{key}"))

        def finish() -> Any:
            made = [(key, make()) for key, make in makes.items()]
            if not isinstance(live, dict):
                return _tree.make_mapping(tag, made)
            live.clear()
            for key, value in made + rest:
                live[key] = value  # update() of a Counter adds
            return live

        return finish

    def _plan_parts(
        self,
        nodes: Mapping[Any, Any],
        old: Mapping[Any, Any],
        name: str,
        tensors_only: bool = False,
    ) -> dict[Any, Finish]:
        """Plans the parts of a container by their keys. `old` are those that the
        state's container has: an empty one takes all, and what another lacks is
        reported, or only its tensors and objects."""
        makes: dict[Any, Finish] = {}
        for key, node in nodes.items():
            path = f"{name}.{key}"
            if key in old or not old or self._remade or self._reading:
                makes[key] = self._plan(node, old.get(key, MISSING), path)
                continue
            make = self._plan_lacking(node, path, tensors_only)
            if make is not None:
                makes[key] = make
        return makes

    def _check_added(
        self, nodes: Mapping[Any, Any], old: Mapping[Any, Any], name: str
    ) -> None:
        """Raises FailedPrecondition without a policy if the dictionary or list `name`
        has an object with state_dict that it lacked when it was saved."""
        if not self._is_strict() or self._remade or self._reading:
            return
        gone = [
            key
            for key, node in nodes.items()
            if key not in old and _tree.has_tag(node, "$state")
        ]
        new = [
            place
            for key, value in old.items()
            if key not in nodes
            for place in places_of_objects(value, f"{name}.{key}")
        ]
        if new and not gone:
            raise FailedPrecondition(
                f'the step lacks "{new[0]}" of the state; if it was added, '
                "evolve={} leaves it unchanged"
            )
        if new:
            raise FailedPrecondition(
                f'the step has "{name}.{gone[0]}", and the state has "{new[0]}" '
                f'instead; if it was renamed, pass evolve={{"oname": {{"{new[0]}": '
                f'"{name}.{gone[0]}"}}}}; evolve={{}} leaves it unchanged'
            )

    def _plan_lacking(self, node: Any, name: str, tensors_only: bool) -> Finish | None:
        """Plans a part that the state's container lacks. None for one that needs an
        object of the state, and for one whose tensors are all excluded."""
        if _tree.has_tag(node, "$module_of", "$table", "$io_state", "$state"):
            self._differences.left_out.append((self._entry, name))
            return None
        first = len(self.targets.names)
        make = self._plan(node, MISSING, name)
        tensors = self.targets.names[first:]
        if tensors and not any(map(self._loads_tensor, tensors)):
            return None
        if tensors:
            pattern = name if name in tensors else f"{name}.*"
            self._differences.excludable.append((self._entry, pattern))
        if tensors or not tensors_only:
            self._differences.returned.append((self._entry, name))
        return make

    def _register_rest(self, live: Any, name: str) -> bool:
        """Registers tensors of the state that the step lacks, so that the library
        reports them. Returns whether the value has any, or a table."""
        if live is MISSING:
            return False
        if _arrays.is_array(live):
            self.targets.add(name, live)
            return True
        if is_module(live):
            for key, value in module_tensors(live).items():
                if _arrays.is_torch(value):
                    self.targets.add(f"{name}.{key}", value)
            return True
        if getattr(live, "restored_in_place", False):
            return self._register_rest(live.state_dict(), name)
        if is_table(live) or has_io_state(live) or has_state_dict(live):
            return True
        if isinstance(live, dict):
            parts = list(live.items())
        elif isinstance(live, (list, tuple)):
            parts = list(enumerate(live))
        else:
            return False
        return any([self._register_rest(each, f"{name}.{key}") for key, each in parts])
