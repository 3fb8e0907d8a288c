# SPDX-License-Identifier: Apache-2.0
"""Ranks over torch.distributed."""

from __future__ import annotations

import contextlib
import ctypes
import datetime
import hashlib
import struct
import time
from collections.abc import Callable, Sequence
from typing import Any

from .. import _core
from .._errors import DeadlineExceeded, Error, FailedPrecondition, Unavailable
from .._ranks import Connection, Ranks, list_ranks

# A value travels with its length if it is small: one operation instead of two.
_SMALL = 496
_HEADER = struct.Struct("<QQ")

# How the library's reason ends if it aborts an operation at the deadline.
_LATE = "a collective was aborted because not all ranks joined it in time"

_POLL_S = 0.1  # how often a waiting rank looks whether to give up
_ASK_S = 0.5  # how often it asks the store whether another rank has failed
_LAST_WAIT_S = 1.0  # how long closing waits for an all-gather that was started
_ROLL_CALL_S = 2.5  # how long ranks that failed wait for one another's sign of life


def ranks(*, deadline: float | None = None, group: Any = None) -> Ranks:
    """The ranks of torch.distributed, or of one of its process groups, for
    `Manager(..., ranks=...)`. Call `torch.distributed.init_process_group` before.

    A manager makes two separate process groups, over gloo. Ranks wait `deadline` seconds
    for one another, by default the manager's option, or 1800. A few seconds later a
    call raises DeadlineExceeded, which names the missing ranks. The manager is then
    unusable; a later run restores the last committed step."""
    dist = _distributed()
    rank = dist.get_rank(group)
    if rank < 0:
        raise FailedPrecondition(
            f"rank {dist.get_rank()} is not a member of the group; only its members "
            "open the manager"
        )
    return TorchRanks(rank, dist.get_world_size(group), deadline, group)


def _distributed() -> Any:
    import torch.distributed as dist

    if not dist.is_available() or not dist.is_initialized():
        raise FailedPrecondition(
            "torch.distributed is not initialized; call "
            'torch.distributed.init_process_group("gloo") first, under torchrun'
        )
    return dist


class TorchRanks(Ranks):
    def __init__(
        self, rank: int, world_size: int, deadline: float | None, group: Any
    ) -> None:
        super().__init__(rank, world_size, deadline)
        self._group = group

    def _connect(self, deadline: float) -> Connection:
        dist = _distributed()
        members = dist.get_process_group_ranks(self._group)
        # Private; tried with 2.13. A group has no public way to its store.
        store = dist.distributed_c10d._get_default_store()
        digest = hashlib.sha256(repr(members).encode()).hexdigest()[:16]
        try:
            # The ranks' managers are opened in the same order.
            number = store.add(f"ckptdb/{digest}/opened/{self.rank}", 1)
            prefix = f"ckptdb/{digest}/{number}"
            notices = _Notices(store, prefix, self.rank, self.world_size)
            notices.await_all(deadline)
        except RuntimeError as error:
            raise Unavailable(
                f"rank {self.rank}: the store of torch.distributed failed while the "
                f"manager was opened: {error}"
            ) from error
        # An operation that the coordinator gives up stays in progress until the
        # group's timeout.
        grace = min(max(deadline / 4, 1.0), 10.0)
        timeout = datetime.timedelta(seconds=deadline + grace + 2 * _ROLL_CALL_S)
        # Not dist.new_group: it gives groups of the same ranks the same keys in the
        # store, one after another, and such a group may connect to its predecessor.
        try:
            groups = [
                dist.ProcessGroupGloo(
                    dist.PrefixStore(f"{prefix}/{name}", store),
                    self.rank,
                    self.world_size,
                    timeout,
                )
                for name in ("gloo", "started")
            ]
        except RuntimeError as error:
            raise notices.failure(_reason(error)) from error
        collectives = _Collectives(groups, notices, deadline)
        return _TorchConnection(
            _core.over_collectives(self.rank, self.world_size, collectives),
            collectives,
        )


class _TorchConnection(Connection):
    def __init__(self, coordinator: Any, collectives: _Collectives) -> None:
        super().__init__(coordinator)
        self._collectives = collectives

    def fail(self, why: str) -> None:
        self._collectives.fail(why)

    def close(self, why: str) -> None:
        self._collectives.close(why)


class _Notices:
    """Messages between ranks through the store of torch.distributed, which works even
    if collectives do not. Without a failure it is used only to open a manager."""

    def __init__(self, store: Any, prefix: str, rank: int, world_size: int) -> None:
        self._store = store
        self._prefix = prefix
        self.rank = rank
        self.world_size = world_size

    def _key(self, *parts: Any) -> str:
        return "/".join([self._prefix, *(str(part) for part in parts)])

    def _set(self, *parts: Any, value: str = "1") -> None:
        self._store.set(self._key(*parts), value)

    def _get(self, *parts: Any) -> str | None:
        key = self._key(*parts)
        return self._store.get(key).decode() if self._store.check([key]) else None

    def _await(self, what: str, seconds: float) -> list[int]:
        """Notifies the others that this rank has reached `what`, and returns the ranks
        that have not reached it after `seconds`."""
        self._set(what, self.rank)
        missing = list(range(self.world_size))
        end = time.monotonic() + seconds
        pause = 0.001
        while True:
            # One question for all, as most often all are there.
            if self._store.check([self._key(what, each) for each in missing]):
                return []
            if time.monotonic() >= end:
                break
            time.sleep(pause)
            pause = min(2 * pause, 0.1)
        return [r for r in missing if not self._store.check([self._key(what, r)])]

    def await_all(self, deadline: float) -> None:
        missing = self._await("open", deadline)
        if missing:
            raise DeadlineExceeded(
                f"{list_ranks(missing, self.world_size)} did not open the manager "
                f"within {deadline:g} s"
            )

    def has_failed(self) -> bool:
        """Whether another rank has found that one is missing."""
        try:
            return bool(self._store.check([self._key("failed")]))
        except RuntimeError:
            return True

    def leave(self, why: str) -> None:
        with contextlib.suppress(RuntimeError):  # nobody is left to read it
            self._set("left", self.rank, value=why)

    def failure(self, reason: str | None) -> Error:
        """The error of this rank's collectives, the same on all ranks. Waits a moment
        for a sign of life of each. Without a reason, this rank only knows by
        `has_failed` that another has one."""
        why = reason or "a collective did not end"
        own = f"rank {self.rank} of {self.world_size}: {why}"
        try:
            if reason is not None:
                # Before "failed", so that whoever sees that finds a cause.
                self._store.compare_set(self._key("cause"), "", own)
                self._set("failed")
            missing = self._await("alive", _ROLL_CALL_S)
            text = self._describe(missing, self._get("cause") or own)
            text = self._store.compare_set(self._key("why"), "", text).decode()
        except RuntimeError as error:
            text = (
                f"rank {self.rank}: {why}; the missing rank is not known, because "
                "the store of torch.distributed, which rank 0 owns unless torchrun does, "
                f"does not answer: {error}"
            )
        return DeadlineExceeded(text)

    def _describe(self, missing: list[int], cause: str) -> str:
        if not missing:
            return cause
        ends = [
            f"rank {rank} {why}"
            for rank in missing
            if (why := self._get("left", rank)) is not None
        ]
        # A rank that is not in a call of its manager does not answer either.
        what = "is missing" if len(missing) == 1 else "are missing, or busy elsewhere"
        return (
            f"{list_ranks(missing, self.world_size)} {what}: "
            f"{'; '.join(ends) or cause.partition(': ')[2]}"
        )


class _Collectives:
    """The collectives that the library calls, one at a time, on any thread. An
    all-gather that is started early runs beside them, in a second group, because ranks
    do not begin it in the same order relative to the others."""

    def __init__(self, groups: list[Any], notices: _Notices, deadline: float) -> None:
        import torch

        self._torch = torch
        self._group, self._second_group = groups
        self._notices: Any = notices
        self._rank = notices.rank
        self._world_size = notices.world_size
        self._deadline = deadline
        self._aborted = False
        self._failed = ""  # why this rank has failed
        self._gave_up = False  # an operation is still in progress, but not waited for
        self._started: _Started | None = None
        self._closed = False

    # Each rank's first part of a value begins with its length, and with that of the
    # longest of its values, so that all ranks know whether a second part follows.

    def all_gather(self, own: bytes) -> list[bytes]:
        return self._values(own, self._gather(_head(own, len(own))), self._group)

    def start_all_gather(self, own: bytes) -> Callable[[], list[bytes]]:
        """Begins an all-gather, and returns the function that waits for it. Only that
        function raises errors: it is not called if another rank has already ended at
        the same step."""
        head = _head(own, len(own))
        started = self._started = _Started()
        try:
            self._check_open()
            started.begin(self._second_group, self._tensor, head, self._world_size)
        except (RuntimeError, ValueError) as error:
            started.failed = error

        def wait() -> list[bytes]:
            if started.failed is not None:
                raise self._notices.failure(_reason(started.failed))
            self._wait(started.work)
            self._started = None
            heads = [_bytes(each) for each in started.values]
            return self._values(own, heads, self._second_group)

        return wait

    def _values(self, own: bytes, heads: list[bytes], group: Any) -> list[bytes]:
        """The values of all ranks: their first parts, `heads`, and the rests, which are
        gathered in `group`."""
        lengths = [_HEADER.unpack_from(head)[0] for head in heads]
        values = [_first(head) for head in heads]
        longest = max(lengths) - _SMALL
        if longest > 0:
            rests = self._gather(own[_SMALL:].ljust(longest, b"\0"), group)
            for rank, rest in enumerate(rests):
                values[rank] += rest[: max(0, lengths[rank] - _SMALL)]
        return values

    def broadcast(self, value: bytes) -> bytes:
        is_root = self._rank == 0
        head = self._tensor(_HEADER.size + _SMALL)
        if is_root:
            _fill(head, _head(value, len(value)))
        self._broadcast(head)
        length = _HEADER.unpack_from(_bytes(head))[0]
        received = _first(_bytes(head))
        if length <= _SMALL:
            return received
        rest = self._tensor(length - _SMALL)
        if is_root:
            _fill(rest, value[_SMALL:])
        self._broadcast(rest)
        return value if is_root else received + _bytes(rest)

    def all_to_all(self, values: list[bytes]) -> list[bytes]:
        longest = max(len(value) for value in values)
        size = _HEADER.size + _SMALL
        data = self._exchange(
            b"".join(_head(value, longest) for value in values),
            [size] * self._world_size,
            [size] * self._world_size,
        )
        heads = [data[at : at + size] for at in range(0, len(data), size)]
        received = [_first(head) for head in heads]
        if max(_HEADER.unpack_from(head)[1] for head in heads) <= _SMALL:
            return received
        sends = [value[_SMALL:] for value in values]
        sizes = [max(0, _HEADER.unpack_from(head)[0] - _SMALL) for head in heads]
        data = self._exchange(b"".join(sends), [len(each) for each in sends], sizes)
        at = 0
        for rank, each in enumerate(sizes):
            received[rank] += data[at : at + each]
            at += each
        return received

    def abort(self, why: str) -> None:
        """Ends the operation in progress, from another thread: at the deadline, or
        because this rank has failed."""
        if not why.endswith(_LATE):
            self.fail(why.removeprefix(f"rank {self._rank}: "))
        self._aborted = True

    def fail(self, why: str) -> None:
        """Sets the reason that other ranks report if an operation is aborted."""
        self._failed = self._failed or why

    def close(self, why: str) -> None:
        if self._closed:
            return
        self._closed = True
        self._notices.leave(why)
        if not self._gave_up and self._has_ended_started():
            # The group's end waits for its threads. They free tensors, for which they
            # need the GIL: while the interpreter ends, that would abort the process.
            # The library may keep this object until then.
            self._group = self._second_group = self._notices = self._started = None
        else:
            # The end of a group with an operation in progress waits for its timeout.
            # So it never ends: this reference outlives the interpreter.
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(self))

    def _has_ended_started(self) -> bool:
        """Waits briefly for an all-gather that was started. It completes unless a rank
        died before beginning it."""
        started = self._started
        if started is None or started.work is None:
            return True
        end = time.monotonic() + _LAST_WAIT_S
        while not started.work.is_completed():
            if time.monotonic() >= end:
                return False
            time.sleep(0.001)
        return True

    def _tensor(self, size: int) -> Any:
        return self._torch.zeros(size, dtype=self._torch.uint8)

    def _gather(self, data: bytes, group: Any = None) -> list[bytes]:
        gathered = _Started()

        def begin() -> Any:
            gathered.begin(group or self._group, self._tensor, data, self._world_size)
            return gathered.work

        self._run(begin)
        return [_bytes(each) for each in gathered.values]

    def _broadcast(self, tensor: Any) -> None:
        self._run(lambda: self._group.broadcast(tensor, 0))

    def _exchange(
        self, data: bytes, sends: Sequence[int], receives: Sequence[int]
    ) -> bytes:
        outgoing, incoming = self._tensor(len(data)), self._tensor(sum(receives))
        _fill(outgoing, data)
        self._run(
            lambda: self._group.alltoall_base(
                incoming, outgoing, list(receives), list(sends)
            )
        )
        return _bytes(incoming)

    def _run(self, start: Callable[[], Any]) -> None:
        """Waits for an operation, unless another rank is missing. Gloo ends none
        before the group's timeout, so a wait is many short ones."""
        self._check_open()
        try:
            work = start()
        except (RuntimeError, ValueError) as error:
            raise self._notices.failure(_reason(error)) from error
        self._wait(work)

    def _check_open(self) -> None:
        if self._closed:
            raise FailedPrecondition("the manager is closed")

    def _wait(self, work: Any) -> None:
        self._check_open()
        notices = self._notices
        poll = datetime.timedelta(seconds=_POLL_S)
        asked = time.monotonic()
        while True:
            # An operation may end between a wait that times out and the question
            # whether it has.
            ended = work.is_completed()
            try:
                work.wait(poll)
                return
            except RuntimeError as error:
                if ended:
                    raise notices.failure(_reason(error)) from error
            reason = None
            if self._aborted:
                late = f"no collective was joined within {self._deadline:g} s"
                reason = self._failed or late
            elif time.monotonic() - asked < _ASK_S:
                continue
            elif not notices.has_failed():
                asked = time.monotonic()
                continue
            self._gave_up = True
            raise notices.failure(reason)


class _Started:
    """An all-gather in progress, with the memory that it uses."""

    def __init__(self) -> None:
        self.work: Any = None
        self.values: list[Any] = []
        self.failed: Exception | None = None
        self._own: Any = None

    def begin(self, group: Any, tensor: Any, data: bytes, world_size: int) -> None:
        self._own = tensor(len(data))
        _fill(self._own, data)
        self.values = [tensor(len(data)) for _ in range(world_size)]
        self.work = group.allgather([self.values], [self._own])


def _reason(error: Exception) -> str:
    """Gloo's error, without the place in its source and its advice."""
    text = str(error).partition("] ")[2] or str(error)
    return text.partition(". ")[0]


def _head(value: bytes, longest: int) -> bytes:
    first = value[:_SMALL]
    return _HEADER.pack(len(value), longest) + first.ljust(_SMALL, b"\0")


def _first(head: bytes) -> bytes:
    """The part of the value that its head has."""
    length = min(_HEADER.unpack_from(head)[0], _SMALL)
    return head[_HEADER.size : _HEADER.size + length]


# Without NumPy, which PyTorch may lack.


def _fill(tensor: Any, data: bytes) -> None:
    ctypes.memmove(tensor.data_ptr(), data, len(data))


def _bytes(tensor: Any) -> bytes:
    return ctypes.string_at(tensor.data_ptr(), tensor.numel())
