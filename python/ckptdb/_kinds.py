# SPDX-License-Identifier: Apache-2.0
"""Distinguishes values that a restore may replace from tensors and objects."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from . import _arrays
from ._state import has_io_state, has_state_dict, is_module, is_table

MISSING: Any = object()


def has_parts(live: Any) -> bool:
    """Whether the value is, or contains, a tensor or an object with state."""
    if isinstance(live, dict):
        return any(map(has_parts, live.values()))
    if isinstance(live, (list, tuple)):
        return any(map(has_parts, live))
    if live is MISSING:
        return False
    return (
        _arrays.is_array(live)
        or is_table(live)
        or has_io_state(live)
        or has_state_dict(live)
    )


def places_of_objects(live: Any, name: str) -> Iterator[str]:
    """The places in a value of objects with state_dict that are saved with its entry,
    and not registered as modules, tables and io states are."""
    if isinstance(live, dict):
        for key, each in live.items():
            yield from places_of_objects(each, f"{name}.{key}")
    elif isinstance(live, (list, tuple)):
        for i, each in enumerate(live):
            yield from places_of_objects(each, f"{name}.{i}")
    elif has_state_dict(live) and not (
        is_module(live)
        or is_table(live)
        or has_io_state(live)
        or getattr(live, "restored_in_place", False)
    ):
        yield name


def described(live: Any) -> str:
    """Describes a value of the state in an error."""
    if _arrays.is_array(live):
        return "a tensor"
    name = type(live).__name__
    return f"{'an' if name[0] in 'AEIOUaeiou' else 'a'} {name}"
