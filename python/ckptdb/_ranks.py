# SPDX-License-Identifier: Apache-2.0
"""The ranks of a training job, which open a manager together."""

from __future__ import annotations

import abc
import math
import os
import sys
from typing import Any

from ._errors import FailedPrecondition, InvalidArgument, Unavailable

DEADLINE = 1800.0  # seconds, as in the configuration


class Ranks(abc.ABC):
    """The ranks of a training job, for `Manager(..., ranks=...)`, from
    `ckptdb.torch.ranks` or `ckptdb.mpi.ranks`. Several managers may use it, one after
    another: each connects the ranks again."""

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

    def fail(self, why: str) -> None:
        """Announces, before its manager is closed, that this rank ends and why."""

    def close(self, why: str) -> None:
        """Ends the connection, after the manager was closed; the other ranks receive
        `why` as the reason."""


def ending(cause: BaseException | None) -> str:
    """Describes to the other ranks why this rank's manager was closed."""
    if cause is None:
        return "has closed its manager"
    return f"raised {type(cause).__name__}: {cause}".rstrip(": ")


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


def connect(ranks: Ranks, config: dict[str, Any]) -> Connection:
    """Connects the ranks, whose deadline is also the manager's option."""
    given = config.get("deadline")
    if given is not None and ranks.deadline not in (None, given):
        raise InvalidArgument(
            f"the ranks have the deadline {ranks.deadline} s, and the option deadline is "
            f"{given}; give one of them"
        )
    deadline = given if given is not None else ranks.deadline
    deadline = DEADLINE if deadline is None else deadline
    check_deadline(deadline)
    config["deadline"] = deadline
    return ranks._connect(deadline)


def with_hint(error: Unavailable) -> Unavailable:
    """The error of a manager without `ranks` whose store another process owns: of a
    job of several ranks, it may be another rank."""
    dist = sys.modules.get("torch.distributed")
    if dist is not None and dist.is_available() and dist.is_initialized():
        world_size = dist.get_world_size()
        job = f"one of {world_size} ranks of torch.distributed"
    else:
        given = os.environ.get("WORLD_SIZE", "")
        world_size = int(given) if given.isdecimal() else 1
        job = f"in a job with WORLD_SIZE={world_size}"
    if world_size < 2:
        return error
    hinted = Unavailable(
        f"{error}; this process is {job}: if its ranks train together, open the manager "
        "on all of them with ranks=ckptdb.torch.ranks()"
    )
    hinted.holder = error.holder
    return hinted


def check_alone(tables: list[tuple[str, Any]], sharding: Any) -> None:
    """Raises if a job of several ranks opens a manager of one rank with a table that
    is divided among the ranks: its steps would lack the other ranks' rows."""
    dist = sys.modules.get("torch.distributed")
    if dist is None or not dist.is_available() or not dist.is_initialized():
        return
    whole = (None, "replicated")
    for name, table in tables:
        divided = table._sharding if table._sharding is not None else sharding
        if dist.get_world_size() > 1 and divided not in whole:
            raise FailedPrecondition(
                f'table "{name}" is divided among ranks, and this is one of '
                f"{dist.get_world_size()} ranks of torch.distributed; open the manager "
                "with ranks=ckptdb.torch.ranks() on all of them"
            )
