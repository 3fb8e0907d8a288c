# SPDX-License-Identifier: Apache-2.0
"""Saves of torch.distributed.checkpoint that are in progress in this process."""

from __future__ import annotations

import dataclasses
import os
import sys
import threading
import time
import weakref

import torch.distributed.checkpoint as dist_checkpoint

from .. import _core

_POLL_S = 0.05  # how often a thread looks whether another's save is over


def _is_saving(thread: threading.Thread) -> bool:
    """Whether a thread is in a call of DCP, which notifies a writer only of success."""
    if not thread.is_alive():
        return False  # another may have its ident
    frame = sys._current_frames().get(thread.ident or 0)
    while frame is not None:
        if frame.f_globals.get("__name__", "").startswith(dist_checkpoint.__name__):
            return True
        frame = frame.f_back
    return False


@dataclasses.dataclass(eq=False)
class Attempt:
    """A save in progress on the coordinator, until `end` or the commit."""

    store: _core.Store | None
    step: int
    number: int
    tickets: list[bytes]
    thread: threading.Thread = dataclasses.field(
        default_factory=threading.current_thread
    )
    lock: threading.Lock = dataclasses.field(default_factory=threading.Lock)
    by_dcp: bool = dataclasses.field(  # and not by calls of the writer's methods
        default_factory=lambda: _is_saving(threading.current_thread())
    )

    def end(self) -> None:
        with self.lock:
            store, self.store = self.store, None
        if store is None:
            return
        try:
            store.abandon(self.step, self.number)
        finally:
            store.close()

    def is_over(self) -> bool:
        """Whether `dcp.save` has returned, asked by another save that begins: a thread
        runs one at a time."""
        if self.thread is threading.current_thread():
            return True
        return not (_is_saving if self.by_dcp else threading.Thread.is_alive)(
            self.thread
        )

    def watch(self) -> None:
        """Ends it soon after `dcp.save` has raised another rank's error."""
        if not self.by_dcp:
            return
        watched = weakref.ref(self)

        def wait() -> None:
            while (attempt := watched()) is not None and attempt.store is not None:
                if not _is_saving(attempt.thread):
                    attempt.end()
                del attempt
                time.sleep(_POLL_S)

        threading.Thread(target=wait, name="ckptdb.dcp", daemon=True).start()


begun: weakref.WeakSet[Attempt] = weakref.WeakSet()

# The threads of this process that save to each store, or wait to.
_savers: dict[str, list[threading.Thread]] = {}
_savers_lock = threading.Lock()


def await_turn(path: str) -> None:
    """Waits for other threads' saves to the same store: collectives of two saves at a
    time could be in another order on another rank."""
    own = threading.current_thread()
    with _savers_lock:
        queue = _savers.setdefault(os.path.realpath(path), [])
        if own in queue:
            queue.remove(own)
        queue.append(own)
    while True:
        with _savers_lock:
            while queue and queue[0] is not own and not _is_saving(queue[0]):
                queue.pop(0)
            if own not in queue[1:]:
                return
        time.sleep(_POLL_S)
