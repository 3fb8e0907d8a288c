# SPDX-License-Identifier: Apache-2.0
"""The restore of a step into a state, and of a single value."""

from __future__ import annotations

from collections.abc import Callable, Mapping, MutableMapping
from typing import Any

from . import _arrays, _tree
from ._errors import Error, FailedPrecondition, Internal
from ._fitting import Form
from ._kinds import MISSING
from ._names import Names, check_keys
from ._plan import Finish, Plan
from ._state import (
    TensorTuple,
    check_name,
    check_unique,
    has_io_state,
    is_module,
    is_table,
    names_of,
)


class Restore(Plan):
    """The plan of one step, and what to do with it once the library has filled the
    memory."""

    def add_all(self, state: Mapping[str, Any]) -> None:
        for name, value in state.items():
            check_name(name)
            self.add(name, value)
        names = names_of(self.targets.names, self._registered)
        check_unique(names, state)
        check_keys(self._rule.oname, names, state, dict(self.objects))
        for prefix, text in self._misfits.items():
            if any(
                each.startswith(prefix) and each in self._forms
                for each in filter(self._loads_tensor, self.targets.names)
            ):
                raise FailedPrecondition(text)

    def add(self, name: str, value: Any) -> None:
        if is_table(value) or has_io_state(value):
            if self._registered is not None:
                self._registered.check(name, value)
            return
        self._entry = name
        if _arrays.is_array(value):
            self._finish[name] = self.targets.add(name, value)
            return
        data = self._read_object(name)
        if is_module(value):
            self._finish[name] = self._plan_module(name, value, data)
            return
        self._expect_object(name, data or b"")
        if data is None:
            # The library reports what the step lacks, unless a policy permits it.
            self._register_rest(value, name)
            return
        node = _tree.loads(data, name)
        self._finish[name] = self._plan(node, value, name)

    def finish(
        self,
        state: MutableMapping[str, Any],
        objects: Mapping[str, bytes],
        tensors: set[str],
    ) -> None:
        """Puts restored values into the state. `objects` and `tensors` are those
        that the library has loaded: others, which a policy excludes, keep their
        values.

        The library has written into the state's tensors, so that no error here leaves
        the state unchanged: `add_all` checks what can be checked before."""
        self.targets.loaded = tensors
        self._differences.drop(self._with_object - objects.keys())
        self.targets.put_overlaps(tensors)
        self.targets.check_ties(tensors)
        for name, live in list(state.items()):
            finish = self._finish.get(name)
            if finish is None or name in self._with_object - objects.keys():
                continue
            try:
                value = finish()
            except Error:
                raise
            except Exception as error:
                raise Internal(
                    f'restoring state "{name}" raised {type(error).__name__}: {error}; '
                    "to keep the values that it has, exclude it: "
                    f'evolve={{"exclude": ["{name}"]}}'
                ) from error
            if value is not live:
                state[name] = value
        self._finish.clear()  # they refer to this object, and to the state
        self.targets.clear()

    def differences(self) -> list[str]:
        """Warnings of values that either the state or the step lacks."""
        return self._differences.texts()


def contents_of(
    step: Any, names: Names
) -> tuple[Callable[[str], bytes | None], Mapping[str, Form]]:
    """Returns a function that reads the step's objects, and the tensors' forms, both
    by their names in the state."""
    items = step.items()
    forms = {
        item["name"]: (item["dtype"], tuple(item["shape"]))
        for item in items
        if item["kind"] == "tensor"
    }
    objects = names.renamed(
        {
            item["name"].removeprefix("extra/"): item["name"]
            for item in items
            if item["kind"] == "blob" and item["name"].startswith("extra/")
        }
    )

    def read_object(name: str) -> bytes | None:
        return step.read_blob(0, objects[name]) if name in objects else None

    return read_object, names.renamed(forms)


def read_value(
    name: str,
    data: bytes | None,
    read_object: Callable[[str], bytes | None],
    forms: Mapping[str, Form],
    allow_pickle: bool,
) -> tuple[list[TensorTuple], list[Any], Finish]:
    """What `Step.read` needs for an object: its tensors, the owners of their
    memory, and a function that returns the value once they are filled. Without
    data, the entry is a module's."""
    plan = Plan(read_object, forms, allow_pickle)
    plan._reading = True
    node = None if data is None else _tree.loads(data, name)
    tagged = _tree.tag_of(node)
    if data is None or (tagged is not None and tagged[0] == "$module"):
        finish = plan.plan_module_value(name, data)
    else:
        finish = plan._plan(node, MISSING, name)
    return plan.targets.tensors, plan.targets.owners, finish
