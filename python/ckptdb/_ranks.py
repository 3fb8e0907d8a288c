# SPDX-License-Identifier: Apache-2.0
"""The ranks of a training job, which open a manager together."""

from __future__ import annotations

import abc
import math
from typing import Any

from ._errors import InvalidArgument

DEADLINE = 1800.0  # seconds, as in the configuration


class Ranks(abc.ABC):
    """The ranks of a training job, for `Manager(..., ranks=...)`, from
    `ckptdb.torch.ranks` or `ckptdb.mpi.ranks`. Several managers may use it, one after
    another: each connects the ranks anew."""

    def __init__(self, rank: int, world_size: int, deadline: float | None) -> None:
        self.rank = rank
        self.world_size = world_size
        self.deadline = deadline
        if deadline is not None:
            check_deadline(deadline)

    @abc.abstractmethod
    def _connect(self, deadline: float) -> Connection:
        """Connects all ranks, which call it together. Raises DeadlineExceeded with
        the missing ranks after `deadline` seconds."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}(rank {self.rank} of {self.world_size})"

    def __reduce__(self) -> Any:
        raise TypeError("ranks cannot be pickled; make them in each process")


class Connection:
    """The connection of a manager to the other ranks."""

    def __init__(self, coordinator: Any) -> None:
        self.coordinator = coordinator

    def close(self, why: str) -> None:
        """Ends it, after the manager was closed; `why` tells the other ranks the
        reason."""


def check_deadline(deadline: Any) -> None:
    if (
        not isinstance(deadline, (int, float))
        or isinstance(deadline, bool)
        or not (math.isfinite(deadline) and 0 < deadline <= 1e8)
    ):
        raise InvalidArgument(
            f"the deadline is {deadline!r}; expected seconds, more than 0 and at most "
            "1e8"
        )


def list_ranks(ranks: list[int], world_size: int) -> str:
    """The ranks for an error, as the library lists them."""
    names = ", ".join(str(rank) for rank in ranks)
    return f"rank{'s' if len(ranks) > 1 else ''} {names} of {world_size}"
