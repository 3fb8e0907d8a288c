# SPDX-License-Identifier: Apache-2.0
"""The progress of evaluations."""

from __future__ import annotations

from typing import Any

from . import _core
from ._arguments import as_step, dumper
from ._errors import InvalidArgument
from ._state import has_io_state


def _check(value: Any, what: str) -> None:
    if not has_io_state(value):
        raise InvalidArgument(
            f"the {what} are a {type(value).__name__}; expected an object with "
            "io_state and load_io_state"
        )


class Evaluation:
    """Stores how far the evaluation of a step is, so that it resumes after a crash:
    `manager.evaluation`.

        evaluation = manager.evaluation
        evaluation.add_group("ctr", meters)
        name = (manager.global_step, "day_7", "ctr")
        done = evaluation.load(*name, loader)
        for batch in range(done, batches):
            if batch % 1000 == 0:
                evaluation.save(*name, loader, batch)
            evaluate()
        evaluation.cleanup(manager.global_step)

    `meters` and `loader` are objects with `io_state() -> bytes` and
    `load_io_state(bytes)`, at most 8 MiB together. The progress is durable when
    `save` returns, and is removed with its step.
    """

    def __init__(self, core: _core.Manager) -> None:
        self._core = core

    def add_group(self, group: str, meters: Any) -> None:
        """Adds the meters of a group of metrics. Raises AlreadyExists for a known
        group."""
        _check(meters, "meters")
        self._core.add_group(group, dumper(group, meters), meters.load_io_state)

    def save(
        self, step: int, evaluation: str, group: str, loader: Any, processed: int
    ) -> None:
        """Replaces the progress of an earlier call. Raises NotFound for an unknown
        step or group."""
        _check(loader, "loader")
        if processed < 0:
            raise InvalidArgument(f"processed is {processed}; expected at least 0")
        self._core.save_evaluation(
            as_step(step), evaluation, group, dumper(evaluation, loader), processed
        )

    def load(self, step: int, evaluation: str, group: str, loader: Any) -> int:
        """Loads the meters, then the loader, and returns the saved `processed`, or 0
        if nothing was saved. Raises FailedPrecondition if another group saved it."""
        _check(loader, "loader")
        return self._core.load_evaluation(
            as_step(step), evaluation, group, loader.load_io_state
        )

    def cleanup(self, step: int) -> None:
        """Removes the evaluations of one step."""
        self._core.cleanup_evaluations(as_step(step), False)

    def cleanup_all(self, except_step: int | None = None) -> None:
        """Removes the evaluations of all steps but one."""
        kept = None if except_step is None else as_step(except_step)
        self._core.cleanup_evaluations(kept, True)
