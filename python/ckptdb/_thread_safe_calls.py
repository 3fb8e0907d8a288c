# SPDX-License-Identifier: Apache-2.0
"""The calls of a manager that any thread may make."""

from __future__ import annotations

from typing import Any

from ._core import Manager as CoreManager
from ._evaluation import Evaluation
from ._records import ShipperStatistics


class ThreadSafeCalls:
    """The calls of a `Manager` that any thread may make."""

    _core: CoreManager

    def set_preempted(self) -> None:
        """Announces that this machine will soon be taken away, also from a signal's
        handler."""
        self._core.set_preempted()

    @property
    def preempted(self) -> bool:
        """Whether `set_preempted` was called."""
        return self._core.preempted()

    @property
    def saving(self) -> bool:
        """Whether a save is in progress."""
        return self._core.saving()

    @property
    def shipping(self) -> ShipperStatistics | None:
        """The progress of the option `ship`: the steps that wait, the bytes, and the
        last error. None if this manager ships nothing, and on other ranks than 0."""
        fields: Any = self._core.shipping()
        return None if fields is None else ShipperStatistics(**fields)

    def wait_until_finished(self) -> None:
        """Waits for the save in progress, and raises its error."""
        self._core.wait_until_finished()

    def check_for_errors(self) -> None:
        """Raises the error of a background save that was not raised yet."""
        self._core.check_for_errors()

    @property
    def evaluation(self) -> Evaluation:
        """The progress of evaluations of steps."""
        return Evaluation(self._core)
