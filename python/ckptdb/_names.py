# SPDX-License-Identifier: Apache-2.0
"""Names of a step's items under which the state has them, by an `oname`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypeVar

from ._errors import FailedPrecondition, InvalidArgument
from ._state import has_state_dict

T = TypeVar("T")


class Names:
    """Maps names of the state to names of a step, and back, as the library does: an
    entry of `oname` renames an item and everything below it, unless a longer entry
    does. A policy renames only what the step lacks, and `always`, a load, all."""

    def __init__(self, oname: Mapping[str, str], always: bool) -> None:
        self._oname = oname
        self._always = always
        self._news: dict[str, list[str]] = {}  # by old name
        for new, old in oname.items():
            self._news.setdefault(old, []).append(new)

    def renamed(self, stored: Mapping[str, T]) -> Mapping[str, T]:
        """The items of one category of a step by their names in the state."""
        if not self._oname:
            return stored
        made = {name: each for name, each in stored.items() if self._is(name, stored)}
        for name, each in stored.items():
            for new in self._targets(name):
                if self._always or new not in stored:
                    made[new] = each
        return made

    def children(
        self, name: str, nodes: Mapping[Any, T], live: Iterable[Any]
    ) -> dict[Any, T]:
        """The parts of a container of a step by their keys in the state's container
        `name`, which has the keys `live`."""
        if not self._oname:
            return dict(nodes)
        keys = {str(key): key for key in live}
        stored = {str(key) for key in nodes}
        paths = dict.fromkeys((name, self._mapped(name)[1] or name))
        made: dict[Any, T] = {}
        moved = set()
        for key, node in nodes.items():
            targets = [
                new.removeprefix(f"{name}.")
                for path in paths
                for new in self._targets(f"{path}.{key}", len(path) + 1)
                if new.startswith(f"{name}.")
            ]
            wanted = {
                keys[each]
                for each in targets
                if each in keys and (self._always or each not in stored)
            }
            if not wanted and key not in moved:
                made[key] = node
            made.update((each, node) for each in wanted)
            moved |= wanted
        return made

    def _is(self, name: str, stored: Mapping[str, Any]) -> bool:
        """Whether the state has the step's item `name` under the same name."""
        if not self._always:
            return True
        key, source = self._mapped(name)
        return not key or (key != name and source not in stored)

    def _mapped(self, name: str) -> tuple[str, str]:
        for part in _parts(name):
            if part in self._oname:
                return part, self._oname[part] + name[len(part) :]
        return "", ""

    def _targets(self, stored: str, least: int = 0) -> Iterator[str]:
        """The names in the state of the step's `stored`, by entries whose old name has
        at least this length."""
        for part in _parts(stored):
            if len(part) < least:
                return
            for key in self._news.get(part, ()):
                new = key + stored[len(part) :]
                if self._mapped(new)[0] == key:
                    yield new


def check_keys(
    oname: Mapping[str, str],
    names: Iterable[str],
    state: Mapping[str, Any],
    entries: Mapping[str, bytes],
) -> None:
    """Raises for keys below these entries of the state that match none of the `names`
    and no value, or a value of an entry that the step lacks. The library checks other
    keys. `entries` have their objects in the step, or nothing."""
    known = {part for name in names for part in _parts(name)} if oname else set()
    for entry, data in entries.items():
        for key, old in oname.items():
            if not key.startswith(f"{entry}.") or key in known:
                continue
            if not _has(state[entry], key[len(entry) + 1 :]):
                raise InvalidArgument(
                    f'oname key "{key}" matches nothing in the state "{entry}"'
                )
            if not data:
                raise FailedPrecondition(
                    f'"{key}" cannot be restored from "{old}", because the step lacks '
                    f'"{entry}"; restore with the entries that the step has, and move '
                    "them in the state after the restore"
                )


def _has(value: Any, path: str) -> bool:
    """Whether a value has a part at this path."""
    if has_state_dict(value):
        value = value.state_dict()
    if isinstance(value, Mapping):
        parts = list(value.items())
    elif isinstance(value, (list, tuple)):
        parts = list(enumerate(value))
    else:
        return False
    return any(
        path == str(key)
        or path.startswith(f"{key}.")
        and _has(each, path[len(f"{key}.") :])
        for key, each in parts
    )


def _parts(name: str) -> Iterator[str]:
    """The name, and its parts before each ".", the longest first."""
    end = len(name)
    while end > 0:
        yield name[:end]
        end = name.rfind(".", 0, end)
