# SPDX-License-Identifier: Apache-2.0
"""The options of a manager, as in its configuration: docs/manager.md."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, TypedDict

from ._core import KeepPolicy


class BestOptions(TypedDict, total=False):
    """Which step is the best by a metric."""

    metric: str
    count: int
    lower_is_better: bool
    keep_without_metric: bool


class EvolveTable(TypedDict, total=False):
    """How to restore a table with other slots: old names; values of new slots, or
    functions of the ids that return their rows; and functions of the ids and the
    step's rows of a slot that return rows of its new form. Functions get and return
    arrays with a row for each id, in batches of any order."""

    oname: Mapping[str, str]
    fill: Mapping[str, float]
    fill_with: Mapping[str, Callable[[Any], Any]]
    convert: Mapping[str, Callable[[Any, Any], Any]]


class Evolve(TypedDict, total=False):
    """How to restore a step whose items differ from the state's: old names by name,
    patterns of items that keep their values, whether dtypes are converted, and
    tables."""

    oname: Mapping[str, str]
    exclude: Sequence[str]
    cast: bool
    tables: Mapping[str, EvolveTable]


class ManagerOptions(TypedDict, total=False):
    """Options of a `Manager` besides those that its constructor names. Times are in
    seconds."""

    read_only: bool
    saving: bool
    ephemeral_cooldown_steps: int
    keep_ephemeral: int
    removal: Literal["never", "ephemeral_only", "all_non_permanent"]
    best: BestOptions
    evolve: Evolve
    deltas: bool
    audit_deltas: bool
    audit_replicas: bool
    base_every: int
    max_deltas: int
    max_delta_ratio: float
    abandoned: Literal["keep", "remove"]
    user_metadata: Mapping[str, str]
    store_metadata: Mapping[str, str]
    arena_bytes: int
    copy_threads: int
    busy: Literal["wait", "skip", "coalesce", "fail"]
    tolerated_failures: int
    retry_after_steps: int
    warn_waiting: float
    first_save: Literal["unless_restored", "always", "never"]
    preemption_grace: float
    deadline: float
    notice_interval: float
    poll_every: float
    await_store: float
    io_state_resize: Literal["error", "redistribute", "owners", "reset", "wrap"]
    replicated_saver: Literal["balanced", "owner"]
    broadcast_replicated: bool
    statistics_path: str
    background_sweep: bool
    background_fold: bool


class ShipOptions(TypedDict, total=False):
    """Where and how a `Manager` ships its steps: docs/manager.md, "Shipping and
    fetching". `to` is required: a URL, or another target of `ckptdb.remote`. `keep`
    says which steps stay there, by default all. Times are in seconds."""

    to: Any
    deadline: float
    connections: int
    bytes_per_second: int
    take_over: bool
    look: float
    first_retry: float
    most_retry: float
    keep: KeepPolicy | Mapping[str, Any] | str
    grace: float
    collect_every: float
    warn_lag: float
    keep_unshipped: int
    close_wait: float


class StoreOptions(TypedDict, total=False):
    """Options of the store itself: db/options.h."""

    create_if_missing: bool
    directory_mode: int
    file_mode: int
    reserve_bytes: int
    spare_bytes: int
    stage_threads: int
    direct_writes: bool
    direct_reads: bool
    rewrite_unchanged: bool
    leases: Literal["required", "where_possible", "none"]
    lease_ms: int


PolicyConfig = Mapping[str, Any] | str
