# SPDX-License-Identifier: Apache-2.0
"""The steps of a manager's store."""

from __future__ import annotations

from collections.abc import Mapping

from ._arguments import as_step
from ._core import Manager as CoreManager
from ._records import StepRecord, Steps


class StepList:
    """The calls of a `Manager` that list and change stored steps."""

    _core: CoreManager

    def steps(self) -> Steps:
        """The committed steps in ascending order."""
        return Steps(StepRecord(**fields) for fields in self._core.steps())

    def latest_step(self) -> int | None:
        """The step saved last, or None."""
        records = [r for r in self.steps() if not r.quarantined]
        return max(records, key=lambda r: r.attempt).step if records else None

    def best_step(self) -> StepRecord:
        """The best step according to the option `best`."""
        return StepRecord(**self._core.best_step())

    def explain(self, step: int) -> tuple[str, str]:
        """Why a step was saved, and why it is kept."""
        return self._core.explain(as_step(step))

    def add_metrics(self, step: int, metrics: Mapping[str, float]) -> None:
        """Adds metrics to a step."""
        self._core.add_metrics(as_step(step), dict(metrics))

    def delete(self, step: int) -> None:
        """Removes a step. Raises FailedPrecondition if it is pinned."""
        self._core.delete(as_step(step))

    def pin(self, step: int) -> None:
        """Keeps a step whatever the policies say."""
        self._core.pin(as_step(step), True)

    def unpin(self, step: int) -> None:
        """Lets the policies decide on a step again."""
        self._core.pin(as_step(step), False)

    def quarantine(self, step: int) -> None:
        """Marks a step as damaged: it is no longer the latest."""
        self._core.quarantine(as_step(step), True)

    def unquarantine(self, step: int) -> None:
        """Verifies a quarantined step, and removes the mark if it is undamaged."""
        self._core.quarantine(as_step(step), False)

    def fold(self, step: int) -> dict[str, int]:
        """Merges the chain of a step, so that it is restored from one save."""
        return self._core.fold(as_step(step))
