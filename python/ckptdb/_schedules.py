# SPDX-License-Identifier: Apache-2.0
"""Checks that a learning rate schedule's state in a step fits the live schedule.
PyTorch's `load_state_dict` takes any, and mixes the options of both."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

# Options by which PyTorch's schedules differ.
_OPTIONS = frozenset(
    "T_0 T_max T_mult _milestones _schedulers anneal_epochs cycle_momentum end_factor "
    "eta_min factor gamma lr_lambdas milestones patience power start_factor step_size "
    "total_iters total_steps".split()
)


def difference(live: Any, stored: Any, state: Any) -> str:
    """Why the stored state is not that of the schedule `live`, whose own is `state`;
    empty if it fits, and for objects that PyTorch does not define."""
    return _difference(stored, state) if _is_of_torch(live) else ""


def _is_of_torch(live: Any) -> bool:
    """Whether it is a schedule of PyTorch, or Accelerate's wrapper of one."""
    torch = sys.modules.get("torch")
    if torch is None:
        return False
    made = torch.optim.lr_scheduler.LRScheduler
    if not isinstance(live, made):
        live = getattr(live, "scheduler", None)
    return isinstance(live, made) and type(live).__module__.startswith("torch.optim.")


def _difference(stored: Any, live: Any) -> str:
    if not isinstance(stored, Mapping) or not isinstance(live, Mapping):
        return ""
    before, now = stored.keys() & _OPTIONS, live.keys() & _OPTIONS
    if before != now:
        return (
            f"the step was saved with another schedule: it lacks the options "
            f"{sorted(now - before)}, and has {sorted(before - now)}"
        )
    parts = stored.get("_schedulers", []), live.get("_schedulers", [])
    if len(parts[0]) != len(parts[1]):
        return f"it has {len(parts[1])} schedules, and the step's had {len(parts[0])}"
    return next(filter(None, map(_difference, *parts)), "")
