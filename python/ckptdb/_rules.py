# SPDX-License-Identifier: Apache-2.0
"""What an evolve policy, or a rule of a load, loads from a step."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from ._names import Names

_CATEGORIES = ("sparse", "sparse_opt", "dense", "extra", "io_state")


def exclude_parts(
    evolve: Mapping[str, Any],
    entries: Iterable[str],
    names: Callable[[], Iterable[str]],
) -> Mapping[str, Any]:
    """The policy `evolve`, with patterns of tensor names in place of each of the
    state's `entries` that its `exclude` lists. `names` returns the names of all tensors
    and objects."""
    exclude = evolve.get("exclude", ())
    if isinstance(exclude, str) or not isinstance(exclude, Sequence):
        return evolve
    entries = set(entries)
    wanted = [each for each in exclude if isinstance(each, str) and each in entries]
    if not wanted:
        return evolve
    stored = set(names())
    patterns = [each for each in exclude if each not in wanted or each in stored]
    for each in wanted:
        if any(name.startswith(f"{each}.") for name in stored):
            patterns.append(f"{each}.*")
    return {**evolve, "exclude": patterns or exclude}


class Rule(NamedTuple):
    """What a restore loads from a step, and under which names it has that."""

    load: Sequence[str] = ("*",)
    exclude: Sequence[str] = ()
    oname: Mapping[str, str] = {}
    always: bool = False  # applies `oname` also to names that the step has
    strict: bool = True  # what the step lacks is an error
    cast: bool = False  # converts dtypes

    def names(self) -> Names:
        return Names(self.oname, self.always)

    def is_partial(self) -> bool:
        """Whether it may leave out some items."""
        return bool(self.exclude) or list(self.load) != ["*"]

    def loads(self, category: str) -> Callable[[str], bool]:
        """Whether it loads an item of the category."""
        load, exclude = (
            _matching(self.load, category),
            _matching(self.exclude, category),
        )
        return lambda name: load(name) and not exclude(name)


def rule_of(policy: Any, always: bool = False) -> Rule:
    """The rule of an evolve policy, or of a load's rule if `always`. The library
    reports what is wrong in it."""
    fields = policy if isinstance(policy, Mapping) else {}
    load = fields.get("load") if always else None
    oname = fields.get("oname")
    return Rule(
        _texts(load) if isinstance(load, Sequence) else ("*",),
        _texts(fields.get("exclude")),
        {
            new: old
            for new, old in (oname if isinstance(oname, Mapping) else {}).items()
            if isinstance(new, str) and isinstance(old, str)
        },
        always,
        fields.get("strict", True) is True if always else policy is None,
        fields.get("cast") is True,
    )


def rules_of(rules: Any) -> list[Rule]:
    """The rules of a load, given as text or as dictionaries."""
    try:
        parsed = json.loads(rules) if isinstance(rules, str) else rules
    except ValueError:
        parsed = []
    return [
        rule_of(each, True) for each in (parsed if isinstance(parsed, list) else [])
    ]


def _texts(patterns: Any) -> list[str]:
    if isinstance(patterns, str) or not isinstance(patterns, Sequence):
        return []
    return [each for each in patterns if isinstance(each, str)]


def _matching(patterns: Sequence[str], category: str) -> Callable[[str], bool]:
    if category in patterns:
        return lambda name: True
    globs = [_glob(each) for each in patterns if each not in _CATEGORIES]
    return lambda name: any(glob.fullmatch(name) for glob in globs)


def _glob(pattern: str) -> re.Pattern[str]:
    """A pattern of the library, in which only * and ? are special."""
    text = re.escape(pattern).replace(r"\*", ".*").replace(r"\?", ".")
    return re.compile(text, re.DOTALL)
