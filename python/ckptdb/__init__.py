# SPDX-License-Identifier: Apache-2.0
"""ckptdb: an embedded checkpoint store for recommender trainers.

`Manager` saves and restores the state of a training loop, `Table` and `ArrayTable`
hold its sparse tables, `KVTable` and `CustomTable` adapt those of other libraries, and
`Reader` reads a store from any process, and `remote` ships its steps to object stores.
"""

import importlib as _importlib
from typing import Any as _Any

from . import remote
from ._core import (
    KeepPolicy,
    PendingSave,
    SaveContext,
    SavePolicy,
    SaveResult,
    StepInfo,
    StepOutcome,
    best_n,
    keep_all,
    keep_every_n_seconds,
    keep_every_n_steps,
    keep_for_n_seconds,
    keep_function,
    keep_if,
    keep_nearest_to_every_n_steps,
    keep_steps,
    latest_n,
    latest_of,
    save_at_or_after_every_n_steps,
    save_at_steps,
    save_continuously,
    save_every_n_seconds,
    save_every_n_steps,
    save_if,
    save_initially,
    save_on_preemption,
    version as _version,
)
from ._custom_table import CustomTable
from ._errors import (
    Aborted,
    AlreadyExists,
    Cancelled,
    DataLoss,
    DeadlineExceeded,
    Error,
    FailedPrecondition,
    Internal,
    InvalidArgument,
    NotFound,
    OutOfRange,
    PermissionDenied,
    ResourceExhausted,
    Unavailable,
    Unimplemented,
)
from ._evaluation import Evaluation
from ._kv_table import KVTable
from ._manager import Manager
from ._ranks import Ranks
from ._reader import Batch, ChangedTable, Changes, Reader, Step, StepTable
from ._records import (
    Item,
    Items,
    LoadedItem,
    LoadedRule,
    RestoreReport,
    SaveReport,
    ShipReport,
    StepRecord,
    Steps,
)
from ._report import report
from ._tables import ArrayTable, Slot, Table
from ._tensorboard import to_tensorboard

__version__: str = _version()


def __getattr__(name: str) -> _Any:
    """The modules `torch`, `torchrec` and `mpi`, which import those libraries."""
    if name not in ("mpi", "torch", "torchrec"):
        raise AttributeError(f'module "ckptdb" has no attribute "{name}"')
    return _importlib.import_module(f"ckptdb.{name}")


__all__ = [name for name in dir() if not name.startswith("_")]
