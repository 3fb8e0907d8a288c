# SPDX-License-Identifier: Apache-2.0
"""Functions of an evolve policy, which compute the values of slots."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from . import _arrays
from ._errors import InvalidArgument
from ._tables import ArrayTable

# Table, slot, "fill_with" or "convert", the function, and the bytes of a row.
Function = tuple[str, str, str, Callable[..., bytes], int]
_KINDS = ("fill_with", "convert")


def split_functions(
    evolve: Mapping[str, Any], tables: Sequence[tuple[str, Any]]
) -> tuple[dict[str, Any], list[Function]]:
    """The part of a policy that is JSON, and its functions."""
    functions: list[Function] = []
    plain: dict[str, Any] = dict(evolve)
    policies = plain.get("tables")
    if not isinstance(policies, Mapping):
        return plain, functions
    registered = dict(tables)
    plain["tables"] = {}
    for name, policy in policies.items():
        plain["tables"][name] = policy
        if not isinstance(policy, Mapping):
            continue
        plain["tables"][name] = {k: v for k, v in policy.items() if k not in _KINDS}
        for slot, value in dict(policy.get("fill", {})).items():
            if callable(value):
                raise InvalidArgument(
                    f'evolve of table "{name}": fill of slot "{slot}" is a function; '
                    "use fill_with"
                )
        for kind in _KINDS:
            for slot, function in dict(policy.get(kind, {})).items():
                what = f'evolve of table "{name}": {kind} of slot "{slot}"'
                if not callable(function):
                    raise InvalidArgument(
                        f"{what} is {function!r}; expected a function; for a number "
                        "use fill"
                    )
                if name not in registered:
                    raise InvalidArgument(
                        f"{what}: the state has no such table; it has "
                        f"{sorted(registered)}"
                    )
                dtype, elements = _form(registered[name], slot, what)
                make = _filling if kind == "fill_with" else converting
                row = elements * _arrays.DTYPE_BYTES[dtype]
                functions.append(
                    (name, slot, kind, make(function, dtype, elements, what), row)
                )
    return plain, functions


def _form(table: Any, slot: str, what: str) -> tuple[str, int]:
    if isinstance(table, ArrayTable):
        forms = {s[0]: (s[1], s[2]) for s in table._specs}
    else:
        # A Table or a CustomTable.
        forms = {
            name: (each.dtype, each.elements) if hasattr(each, "dtype") else each
            for name, each in table.slots.items()
        }
    if slot not in forms:
        raise InvalidArgument(f"{what}: the table has only {list(forms)}")
    dtype, elements = forms[slot]
    return dtype, elements


def _filling(
    function: Callable[[Any], Any], dtype: str, elements: int, what: str
) -> Callable[[bytes], bytes]:
    def fill(ids: bytes) -> bytes:
        keys = _arrays.numpy().frombuffer(ids, _arrays.numpy().int64)
        return _rows(function(keys), len(keys), dtype, elements, what)

    return fill


def converting(
    function: Callable[[Any, Any], Any], dtype: str, elements: int, what: str
) -> Callable[[bytes, str, bytes], bytes]:
    def convert(ids: bytes, source: str, rows: bytes) -> bytes:
        np = _arrays.numpy()
        keys = np.frombuffer(ids, np.int64)
        values = np.frombuffer(rows, _arrays.numpy_dtype(source))
        values = values.reshape(len(keys), -1)
        return _rows(function(keys, values), len(keys), dtype, elements, what)

    return convert


def _rows(values: Any, count: int, dtype: str, elements: int, what: str) -> bytes:
    try:
        memory = _arrays.readable(values)
    except (InvalidArgument, TypeError) as error:
        raise InvalidArgument(f"{what}: {error}") from None
    same = memory.dtype == dtype and math.prod(memory.shape) == count * elements
    if not same or (count > 0 and memory.shape[:1] != (count,)):
        raise InvalidArgument(
            f"{what} returned {memory.dtype} {list(memory.shape)}; expected {dtype} "
            f"{[count, elements]}"
        )
    return ctypes.string_at(memory.address, memory.nbytes) if count else b""
