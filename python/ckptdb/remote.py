# SPDX-License-Identifier: Apache-2.0
"""A store's committed steps in an object store: `push` uploads the new ones, `fetch`
downloads a store to another machine, `follow` keeps such a copy current, and `ship`
pushes in the background of a training.

    import os
    target = f"file://{os.getcwd()}/remote"  # or "s3://models/ctr"
    ckptdb.remote.push("ckpt", target)
    print(ckptdb.remote.ls(target))
    ckptdb.remote.fetch(target, "fetched")

A target is a URL, `s3://bucket/prefix` or `file:///folder`; a store of obstore, such as
`obstore.store.S3Store("models", prefix="ctr")`; a pair of a filesystem of fsspec and a
folder; or any `ObjectStore`. Each store has its own. docs/remote.md has the guarantees.
All functions may be called by any thread, release the GIL, and end at Ctrl-C.
"""

from __future__ import annotations

import dataclasses
import logging
import os
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

from . import _core, _open_managers
from ._arguments import as_count, as_seconds, as_step
from ._closing import Closing
from ._object_stores import ObjectInfo, ObjectStore, Target, open_target
from ._progress import ByteBar
from ._records import ShipperStatistics, _bytes

__all__ = [
    "Damage",
    "FetchResult",
    "GcResult",
    "ObjectInfo",
    "ObjectStore",
    "PushResult",
    "RemoteContent",
    "RemoteStep",
    "Shipper",
    "ShipperStatistics",
    "Target",
    "VerifyResult",
    "fetch",
    "follow",
    "gc",
    "ls",
    "push",
    "ship",
    "verify",
]

_logger = logging.getLogger("ckptdb")

Path: TypeAlias = "str | os.PathLike[str]"


@dataclasses.dataclass(frozen=True)
class PushResult:
    """The result of a push: `shipped` steps in commit order. `skipped` are steps
    that could not be read, each with the reason; the next push tries them again.
    `epoch` increases with each new owner of the remote."""

    store_uuid: str
    catalog: int
    epoch: int
    shipped: list[int]
    skipped: list[tuple[int, str]]
    data_files: int
    data_bytes: int


@dataclasses.dataclass(frozen=True)
class RemoteStep:
    """A step that can be fetched, with `versions` of `fetch_bytes`; `own_bytes` were
    uploaded for it alone. `committed` is in seconds since 1970, UTC. Training went on
    from an older step than an `abandoned` one."""

    step: int
    attempt: int
    committed: float
    kind: str
    pinned: bool
    ephemeral: bool
    quarantined: bool
    abandoned: bool
    versions: int
    own_bytes: int
    fetch_bytes: int


@dataclasses.dataclass(frozen=True)
class RemoteContent:
    """The content of a remote: its steps in ascending order, `latest_step`, the one
    saved most recently, and the bytes that they need. `gc` will delete `dropped_bytes`.
    `written` is when the newest catalog was written, in seconds since 1970, UTC."""

    store_uuid: str
    catalog: int
    epoch: int
    written: float
    steps: list[RemoteStep]
    latest_step: int | None
    bytes: int
    dropped_bytes: int

    def __str__(self) -> str:
        return (
            f"{len(self.steps)} steps, latest {self.latest_step}, {_bytes(self.bytes)}"
        )


@dataclasses.dataclass(frozen=True)
class FetchResult:
    """The result of a fetch: `steps` were added to the store, `revised` ones got newer
    metrics or flags, `keep` removed the `removed` ones, and `data_bytes` were
    downloaded."""

    store_uuid: str
    steps: list[int]
    revised: list[int]
    removed: list[int]
    data_files: int
    data_bytes: int


@dataclasses.dataclass(frozen=True)
class Damage:
    """An object that is missing or damaged, and the steps that need it."""

    key: str
    problem: str
    steps: list[int]


@dataclasses.dataclass(frozen=True)
class VerifyResult:
    """How many steps and objects were checked; `damage` is empty if all are sound."""

    steps: int
    objects: int
    read_bytes: int
    damage: list[Damage]


@dataclasses.dataclass(frozen=True)
class GcResult:
    """The steps that were dropped, the objects that were deleted, and the bytes of
    dropped steps that are not older than the grace. `uploads_error` says why uploads
    that were interrupted were left, as on a service that cannot list them, or is
    None."""

    dropped: list[int]
    deleted_objects: int
    deleted_bytes: int
    waiting_bytes: int
    uploads_error: str | None = None


def _options(
    deadline: float,
    connections: int,
    bytes_per_second: int,
    bar: ByteBar | None = None,
) -> dict[str, Any]:
    return {
        "deadline": as_seconds("deadline", deadline),
        "connections": as_count("connections", connections, 1),
        "bytes_per_second": as_count("bytes_per_second", bytes_per_second),
        "progress": bar.report() if bar is not None else None,
    }


def push(
    store: Path,
    target: Target,
    *,
    take_over: bool = False,
    deadline: float = 300,
    connections: int = 8,
    bytes_per_second: int = 0,
    progress: bool = False,
) -> PushResult:
    """Ships each step of the store in the folder `store` that the target does not have,
    oldest first, also while a trainer saves. Each appears whole, by one conditional
    put.

    `take_over` replaces steps of the target that the store does not have. A call to the
    service fails after `deadline` seconds with retries; at most `connections` are used,
    and `bytes_per_second`, unless 0. `progress` shows a bar where tqdm is installed.

    Raises FailedPrecondition if the target has another store, is ahead of this one, or
    overwrites objects; Aborted if another push became the owner; NotFound without a
    store; Unavailable and PermissionDenied of the service."""
    bar = ByteBar(f"push {os.fspath(store)}") if progress else None
    options = _options(deadline, connections, bytes_per_second, bar)
    return PushResult(
        **_core.remote_push(os.fspath(store), open_target(target), take_over, options)
    )


def ls(target: Target, *, deadline: float = 300) -> RemoteContent:
    """The steps that can be fetched, by three requests. Raises NotFound if nothing was
    shipped."""
    fields = _core.remote_ls(open_target(target), _options(deadline, 8, 0))
    steps = [RemoteStep(**step) for step in fields.pop("steps")]
    return RemoteContent(steps=steps, **fields)


def fetch(
    target: Target,
    path: Path,
    *,
    step: int | None = None,
    all_steps: bool = False,
    update: bool = False,
    keep: int | None = None,
    deadline: float = 300,
    connections: int = 8,
    bytes_per_second: int = 0,
    progress: bool = False,
) -> FetchResult:
    """Downloads the most recently saved step, `step`, or all steps into a new store in
    the folder `path`, which must not exist. The store appears only when it is complete
    and the hash of each object was compared. If a call is interrupted, the next one
    continues it.

    With `update`, adds missing steps to a store that was fetched, and downloads only new
    data; readers of the store see complete steps. With `keep`, it then removes all steps
    older than the newest `keep` that are not quarantined, except pinned ones.

    Raises NotFound without such a step, AlreadyExists if `path` exists, DataLoss naming
    an object that is damaged, and Aborted if the step was dropped meanwhile. With
    `update`, raises Unavailable if another process has the store open for writing, and
    FailedPrecondition, changing nothing, if the store differs from the remote or is
    ahead of it."""
    bar = ByteBar(f"fetch {os.fspath(path)}") if progress else None
    options = _options(deadline, connections, bytes_per_second, bar)
    step = None if step is None else as_step(step)
    keep = None if keep is None else as_count("keep", keep, 1)
    return FetchResult(
        **_core.remote_fetch(
            open_target(target), os.fspath(path), step, all_steps, update, keep, options
        )
    )


def follow(
    target: Target,
    path: Path,
    *,
    all_steps: bool = False,
    keep: int | None = None,
    every: float = 1,
    deadline: float = 300,
    connections: int = 8,
    bytes_per_second: int = 0,
) -> Iterator[FetchResult]:
    """Keeps a copy of the target's newest step, or of all, in the folder `path`: looks
    for steps `every` so many seconds, fetches them as `fetch` does with `update`, and
    yields the result of each fetch that changed the copy:

        import os
        target = f"file://{os.getcwd()}/followed"
        ckptdb.remote.push("ckpt", target)
        for fetched in ckptdb.remote.follow(target, "copy", keep=3):
            print(fetched.steps)  # a Reader of "copy" sees them now
            break  # or wait for the next step

    Nothing is fetched between a result and the request for the next. It waits while
    nothing was shipped, and retries, with a warning in the log, after errors of the
    service, while another process owns the copy, and while the disk is full. Ctrl-C ends
    it. Raises the other errors of `fetch`."""
    keep = None if keep is None else as_count("keep", keep, 1)
    every = as_seconds("every", every)
    while True:
        fields = _core.remote_follow(
            open_target(target),
            os.fspath(path),
            all_steps,
            keep,
            every,
            lambda error: _log_status(target, error),
            _options(deadline, connections, bytes_per_second),
        )
        yield FetchResult(**fields)


def _log_status(target: Target, error: str | None) -> None:
    if error is None:
        _logger.info("follow %s: works again", target)
    else:
        _logger.warning("follow %s: %s; it retries", target, error)


def verify(
    target: Target,
    *,
    data: bool = False,
    deadline: float = 300,
    connections: int = 8,
    progress: bool = False,
) -> VerifyResult:
    """Checks that all objects are there with their sizes, and with `data` reads them
    and compares their hashes. Damage is in the result."""
    bar = ByteBar("verify") if progress else None
    options = _options(deadline, connections, 0, bar)
    fields = _core.remote_verify(open_target(target), data, options)
    damage = [Damage(**each) for each in fields.pop("damage")]
    return VerifyResult(damage=damage, **fields)


def gc(
    target: Target,
    *,
    keep: int | None = None,
    grace: float = 24 * 3600,
    deadline: float = 300,
) -> GcResult:
    """Drops all steps but the newest `keep` and pinned ones, and deletes objects that
    nothing has needed for `grace` seconds by the service's clock. May run beside pushes
    and fetches."""
    options = _options(deadline, 8, 0)
    keep = None if keep is None else as_count("keep", keep, 1)
    grace = as_seconds("grace", grace, above_zero=False)
    return GcResult(**_core.remote_gc(open_target(target), keep, grace, options))


class Shipper(Closing):
    """Ships steps in the background: see `ship`."""

    def __init__(self, core: _core.StepShipper) -> None:
        self._core = core
        _open_managers.add(self)

    def statistics(self) -> ShipperStatistics:
        """The waiting steps, the shipped data, and the last error."""
        return ShipperStatistics(**self._core.statistics())

    def wait_shipped(self, step: int, *, timeout: float | None = None) -> None:
        """Waits until the target has the step as it is committed now. Raises
        DeadlineExceeded after `timeout` seconds, with the last error, and Cancelled
        when the shipper is closed."""
        self._core.wait_shipped(as_step(step), timeout)

    def close(self) -> None:
        """Ends the thread and interrupts an upload: the next push uploads that step
        again."""
        _open_managers.discard(self)
        self._core.close()


def ship(
    store: Path,
    target: Target,
    *,
    on_shipped: Callable[[PushResult], object] | None = None,
    look: float = 1,
    take_over: bool = False,
    deadline: float = 300,
    connections: int = 8,
    bytes_per_second: int = 0,
) -> Shipper:
    """Starts a thread that looks each `look` seconds whether the store has committed a
    step, and ships it. It may run in the trainer's process or in another one, and
    neither delays nor fails a save. After an error it tries again until it is closed.

        import os
        with ckptdb.remote.ship("ckpt", f"file://{os.getcwd()}/shipped") as shipper:
            shipper.wait_shipped(200, timeout=60)  # after training

    `on_shipped` is called on the thread after each push that shipped steps. The other
    options are those of `push`."""

    def report(fields: dict[str, Any]) -> None:
        if on_shipped is None:
            return
        try:
            on_shipped(PushResult(**fields))
        except Exception:
            _logger.exception("on_shipped")

    options = _options(deadline, connections, bytes_per_second)
    options["look"] = as_seconds("look", look)
    return Shipper(
        _core.StepShipper(
            os.fspath(store), open_target(target), take_over, report, options
        )
    )
