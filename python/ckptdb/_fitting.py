# SPDX-License-Identifier: Apache-2.0
"""Finds the tensors of an object's state dictionary that a restore can fill."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import Any

from . import _arrays
from ._errors import InvalidArgument
from ._kinds import MISSING
from ._shards import form_of
from ._state import is_namedtuple

Form = tuple[str, tuple[int, ...]]  # dtype and shape of a step's tensor


def moved(state: Any, places: Mapping[int, int]) -> Any:
    """Renumbers the parameters of an optimizer's state dictionary as in the step."""
    if not places:
        return state
    own = state["state"]
    moved = {n: each for n, each in own.items() if n not in places}
    moved.update((n, own[place]) for n, place in places.items() if place in own)
    return {**state, "state": moved}


def fitting(
    live: Any, forms: Mapping[str, Form], name: str, loads: Callable[[str], bool]
) -> Any:
    """A copy of a state dictionary's structure with those of its tensors that
    have the form of the step's, or keep their values because they are not loaded."""
    if _arrays.is_array(live):
        try:
            fits = not loads(name) or forms.get(name) == form_of(live)
        except InvalidArgument:
            fits = False
        return live if fits else MISSING
    if isinstance(live, dict):
        parts = {
            key: fitting(value, forms, f"{name}.{key}", loads)
            for key, value in live.items()
            if f"{name}.{key}" in forms or isinstance(value, (dict, list, tuple))
        }
        return parts if type(live) is dict else refilled(live, parts)
    if isinstance(live, (list, tuple)):
        made = [
            fitting(value, forms, f"{name}.{i}", loads) for i, value in enumerate(live)
        ]
        make: Any = type(live)
        return make._make(made) if is_namedtuple(live) else made
    return MISSING


def refilled(live: Any, parts: Mapping[Any, Any]) -> Any:
    """A dictionary like this one, with other contents: a Counter, or a defaultdict
    with its factory."""
    made = copy.copy(live)
    made.clear()
    for key, value in parts.items():
        made[key] = value
    return made
