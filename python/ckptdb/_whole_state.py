# SPDX-License-Identifier: Apache-2.0
"""Keeps a state that was restored only partly from being saved."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from ._errors import FailedPrecondition

_INTERRUPTED = "the call was interrupted"


class WholeState:
    """Whether all values of a state belong to the same step.

    The library writes tensors and tables, and Python restores the other values
    afterwards. A signal's exception may replace the library's result, or interrupt
    Python. So a call counts as interrupted from its beginning until it has returned, or
    is known to have written nothing."""

    def __init__(self) -> None:
        self._why = ""  # why the state is only partly restored
        self._before = ""

    @contextlib.contextmanager
    def restoring(self, core: Any) -> Iterator[None]:
        """Surrounds the library's calls that may write into the state."""
        self._begin(core)
        try:
            yield
        except BaseException:
            if not core.take_written():
                self._end()
            raise
        self._end()

    def finish(self, core: Any, finish: Callable[[], None]) -> None:
        """Restores the other values after the library's call, and begins the next."""
        try:
            finish()
        except Exception:
            self._why = "an object of it refused its values"
            raise
        self._why = ""
        self._begin(core)

    def _begin(self, core: Any) -> None:
        core.take_written()
        self._before, self._why = self._why, _INTERRUPTED

    def _end(self) -> None:
        if self._why == _INTERRUPTED:
            self._why = self._before

    def check(self) -> None:
        """Raises FailedPrecondition if the state must not be saved."""
        if self._why:
            raise FailedPrecondition(
                f"the state was restored only partly, because {self._why}; restore "
                "again"
            )
