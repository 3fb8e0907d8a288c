# SPDX-License-Identifier: Apache-2.0
"""Values that only the state or only a restored step has, as warnings."""

from __future__ import annotations

import json
from collections.abc import Collection

_SHOWN = 5

Found = list[tuple[str, str]]  # entries of the state, and names of values in them


class Differences:
    """Differences of dictionaries and lists, found while a restore is planned."""

    def __init__(self) -> None:
        self.removed: Found = []  # values of the state that the step lacks
        self.returned: Found = []  # values of the step that the state lacked
        self.excludable: Found = []  # patterns of tensors among these
        self.left_out: Found = []  # those that need an object of the state
        self.kept: Found = []  # values of the state that are unlike those of the step

    def drop(self, entries: Collection[str]) -> None:
        """Removes those of entries that were not restored."""
        for found in vars(self).values():
            found[:] = [each for each in found if each[0] not in entries]

    def texts(self) -> list[str]:
        texts = []
        if self.removed:
            texts.append(
                f"does not have {_listed(self.removed)} of the state: a restore makes "
                "dictionaries as they were saved"
            )
        if self.returned:
            texts.append(
                f"has {_listed(self.returned)}, which the state lacked: a restore makes "
                "dictionaries and lists as they were saved; if you removed these, delete "
                f"them after the restore{self._exclude()}"
            )
        if self.left_out:
            texts.append(
                f"has {_listed(self.left_out)}, for which the state has no object: they "
                "are not restored, and the next save lacks them; to keep them, put "
                "objects there before the restore"
            )
        if self.kept:
            texts.append(
                f"has other kinds of values as {_listed(self.kept)}: the state keeps "
                "its own"
            )
        return texts

    def _exclude(self) -> str:
        patterns = [name for _, name in self.excludable]
        if not patterns:
            return ""
        return f', or exclude tensors: evolve={{"exclude": {json.dumps(patterns[:_SHOWN])}}}'


def _listed(found: Found) -> str:
    names = [name for _, name in found]
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more
