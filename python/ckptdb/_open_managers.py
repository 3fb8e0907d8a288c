# SPDX-License-Identifier: Apache-2.0
"""The managers and shippers that are open in this process. The interpreter's end closes
them."""

from __future__ import annotations

import atexit
import logging
import os
import sys
import time
import weakref
from typing import Any

from . import _core

_logger = logging.getLogger("ckptdb")

_GLOO_FINISHES_S = 0.02

_open: weakref.WeakSet[Any] = weakref.WeakSet()


def add(manager: Any) -> None:
    _open.add(manager)


def discard(manager: Any) -> None:
    _open.discard(manager)


def _after_fork() -> None:
    _open.clear()  # they are the parent's
    _core._after_fork()


os.register_at_fork(after_in_child=_after_fork)


@atexit.register
def _close_all() -> None:
    for manager in list(_open):
        try:
            manager.close()
        except Exception as error:
            _logger.warning("closing at exit: %s", error)
    _core._end_threads()
    _let_gloo_finish()


def _let_gloo_finish() -> None:
    """Gives up the interpreter's lock for a moment. A thread of gloo takes it to release
    the tensors of an operation that is over. If the interpreter ends before, PyTorch
    2.13 aborts the process: pytorch/pytorch#190489."""
    if "torch.distributed" in sys.modules:
        time.sleep(_GLOO_FINISHES_S)
