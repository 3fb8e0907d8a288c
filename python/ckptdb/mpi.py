# SPDX-License-Identifier: Apache-2.0
"""Ranks over MPI, by mpi4py.

Messages go through mpi4py's own calls, not through the C++ coordinator for MPI,
because the package then works with the MPI library that mpi4py has loaded, whichever
it is, and links none.
"""

from __future__ import annotations

import time
from typing import Any

from . import _core
from ._errors import DeadlineExceeded, FailedPrecondition, InvalidArgument, Unavailable
from ._ranks import Connection, Ranks, list_ranks

_TAG = 0
_POLL_S = 0.001


def ranks(comm: Any = None, *, deadline: float | None = None) -> Ranks:
    """The ranks of a communicator of mpi4py, by default COMM_WORLD, for
    `Manager(..., ranks=...)`.

    A manager duplicates the communicator. `deadline` says how many seconds ranks wait
    for one another, by default the manager's option, or 1800; then the call raises
    DeadlineExceeded, which names the missing ranks. Raises FailedPrecondition unless
    MPI was initialized with MPI_THREAD_MULTIPLE, which is mpi4py's default."""
    from mpi4py import MPI

    if comm is None:
        comm = MPI.COMM_WORLD
    if not isinstance(comm, MPI.Intracomm) or comm == MPI.COMM_NULL:
        raise InvalidArgument(
            f"the communicator is {comm!r}; expected an intracommunicator of mpi4py"
        )
    if MPI.Query_thread() < MPI.THREAD_MULTIPLE:
        raise FailedPrecondition(
            "MPI does not provide MPI_THREAD_MULTIPLE, which saving during training "
            'needs; leave mpi4py.rc.thread_level at "multiple", with an MPI library '
            "that supports it"
        )
    return MpiRanks(comm, deadline)


class MpiRanks(Ranks):
    def __init__(self, comm: Any, deadline: float | None) -> None:
        super().__init__(comm.Get_rank(), comm.Get_size(), deadline)
        self._comm = comm

    def _connect(self, deadline: float) -> Connection:
        from mpi4py import MPI

        comm = _duplicate(MPI, self._comm, deadline)
        comm.Set_errhandler(MPI.ERRORS_RETURN)
        messages = _Messages(MPI, comm)
        return _MpiConnection(
            _core.over_messages(self.rank, self.world_size, messages), messages
        )


def _duplicate(MPI: Any, comm: Any, deadline: float) -> Any:
    """Duplicates a communicator. Raises DeadlineExceeded with the ranks that do not."""
    own, request = comm.Idup()
    end = time.monotonic() + deadline
    while not request.Test():
        if time.monotonic() < end:
            time.sleep(_POLL_S)
            continue
        # Ranks that are here say so to one another; the job is about to end, and what
        # nobody receives does no harm.
        tag = comm.Get_attr(MPI.TAG_UB) or 32767
        size, rank = comm.Get_size(), comm.Get_rank()
        for other in range(size):
            if other != rank:
                comm.Isend([None, 0, MPI.BYTE], dest=other, tag=tag).Free()
        here = {rank}
        end = time.monotonic() + 1
        while time.monotonic() < end:
            status = MPI.Status()
            if comm.Iprobe(source=MPI.ANY_SOURCE, tag=tag, status=status):
                comm.Recv([None, 0, MPI.BYTE], source=status.Get_source(), tag=tag)
                here.add(status.Get_source())
            else:
                time.sleep(_POLL_S)
        missing = [each for each in range(size) if each not in here]
        raise DeadlineExceeded(
            f"{list_ranks(missing, size)} did not open the manager within {deadline:g} s"
        )
    return own


class _MpiConnection(Connection):
    def __init__(self, coordinator: Any, messages: _Messages) -> None:
        super().__init__(coordinator)
        self._messages = messages

    def close(self, why: str) -> None:
        self._messages.close()


class _Messages:
    """Sends and receives for the library, on one thread at a time, without waiting."""

    def __init__(self, MPI: Any, comm: Any) -> None:
        self._MPI = MPI
        self._comm = comm
        # Requests with the memory that MPI uses until they are complete.
        self._sends: list[tuple[Any, bytes]] = []
        self._receives: list[tuple[Any, int, bytearray]] = []
        self._closed = False

    def exchange(
        self, outgoing: list[tuple[int, bytes]]
    ) -> tuple[list[tuple[int, bytes]], int]:
        """Takes messages to other ranks, and returns those that have arrived, with the
        number of those that are not sent yet."""
        MPI, comm = self._MPI, self._comm
        if self._closed or MPI.Is_finalized():
            raise FailedPrecondition(
                "MPI was ended before the manager; close the manager first"
            )
        try:
            for rank, message in outgoing:
                request = comm.Isend([message, MPI.BYTE], dest=rank, tag=_TAG)
                self._sends.append((request, message))
            self._sends = [each for each in self._sends if not each[0].Test()]
            status = MPI.Status()
            while (message := comm.Improbe(tag=_TAG, status=status)) is not None:
                memory = bytearray(status.Get_count(MPI.BYTE))
                request = message.Irecv([memory, MPI.BYTE])
                self._receives.append((request, status.Get_source(), memory))
            incoming, receives = [], []
            for request, rank, memory in self._receives:
                if request.Test():
                    incoming.append((rank, bytes(memory)))
                else:
                    receives.append((request, rank, memory))
            self._receives = receives
        except MPI.Exception as error:
            raise Unavailable(f"MPI failed: {error}") from error
        return incoming, len(self._sends)

    def close(self) -> None:
        """Frees the communicator, unless a message to a dead rank is in progress,
        whose memory MPI uses as long as the process lives."""
        if self._closed:
            return
        self._closed = True
        if self._sends or self._receives:
            _abandoned.append(self)
        elif not self._MPI.Is_finalized():
            self._comm.Free()


_abandoned: list[_Messages] = []
