# SPDX-License-Identifier: Apache-2.0
"""A storage of torch.distributed.checkpoint (DCP): each save is one step of a store.

    import torch.distributed.checkpoint as dcp
    from ckptdb.torch.dcp import StorageReader, StorageWriter

    state = {"model": model.state_dict(), "epoch": 3}
    dcp.save(state, storage_writer=StorageWriter("ckpt"), checkpoint_id=1000)
    dcp.load(state, storage_reader=StorageReader("ckpt"))

| DCP, on | here |
|---|---|
| `prepare_global_plan`, the coordinator | opens the store and begins an attempt; each plan's `storage_data` holds its rank's ticket |
| `write_data`, each rank | stages the rank's tensors and objects; the result, in bytes, is an extra `WriteResult` |
| `finish`, the coordinator | publishes the step with the `Metadata` as the blob "dcp.metadata" of rank 0, and closes the store |

Tensors keep their names in the flattened state, such as "model.fc.weight", and their
whole shapes, so that `ckptdb.Reader` and the tools find them. An object is a blob of
this name, as DCP serialized it. Chunks of a tensor are its shards, several on a rank
too. If the `Metadata` may exceed what a publish takes (64 MiB, about 100,000 chunks), or
the state contains the name "dcp.metadata", it is a blob of an extra rank.
"""

from __future__ import annotations

import dataclasses
import difflib
import io
import operator
import os
import pickle
import uuid
from typing import Any, NamedTuple

import torch.distributed.checkpoint as dist_checkpoint
from torch.distributed.checkpoint.metadata import (
    Metadata,
    MetadataIndex,
    StorageMeta,
)
from torch.distributed.checkpoint.planner import (
    LoadItemType,
    LoadPlan,
    LoadPlanner,
    SavePlan,
    SavePlanner,
    WriteItem,
    WriteItemType,
)
from torch.distributed.checkpoint.storage import WriteResult
from torch.futures import Future

from .. import _arrays, _core
from .._arguments import as_step
from .._errors import (
    AlreadyExists,
    FailedPrecondition,
    InvalidArgument,
    Unavailable,
)
from .._reader import Reader, Step
from ._loads import Reads
from ._metadata import METADATA, read_metadata
from ._saves import Attempt, await_turn, begun

# The index of the WriteResult with a staged rank: no item has an empty name.
_STAGED = MetadataIndex("")

# An item takes at most about this much of a pickled Metadata, with a short name.
_ITEM_BYTES = 300
_NAME_COPIES = 4

CheckpointId = str | int | os.PathLike[str]


def _parse(checkpoint_id: CheckpointId) -> tuple[str | None, int | None]:
    """(path, step): the store that a checkpoint id names, or the step."""
    try:
        number = operator.index(checkpoint_id)  # type: ignore[arg-type]
    except TypeError:
        pass
    else:
        return None, as_step(number)
    if not isinstance(checkpoint_id, (str, bytes, os.PathLike)):
        raise InvalidArgument(
            f"checkpoint_id is {checkpoint_id!r}; expected the number of a step, such as "
            "1000, or the path of a store"
        )
    text = os.fsdecode(checkpoint_id)
    if text.isdecimal():
        return None, as_step(int(text))
    if "://" not in text and (
        os.sep in text or not isinstance(checkpoint_id, (str, bytes))
    ):
        return text, None
    raise InvalidArgument(
        f'checkpoint_id is "{text}"; expected the number of a step, such as 1000, or '
        "the path of a store, with a slash"
    )


def _check_options(options: dict[str, Any], *own: str) -> None:
    for name in options:
        for near in difflib.get_close_matches(name, own, 1):
            raise InvalidArgument(f'no option "{name}"; did you mean "{near}"?')
    _core.check_store_options(options)


def _is_valid(checkpoint_id: Any) -> bool:
    try:
        _parse(checkpoint_id)
    except (InvalidArgument, TypeError):
        return False
    return True


# The tickets that have arrived in this process, by store and rank.
_arrived: dict[tuple[str, int], _Ticket] = {}


class _Ticket(NamedTuple):
    """The ticket of a rank in `SavePlan.storage_data`. A planner that caches plans
    (`enable_plan_caching`) passes an older plan to `write_data`, with that save's
    ticket. Therefore unpickling a ticket, which happens on its rank, also notes it."""

    path: str
    rank: int
    step: int
    ticket: bytes

    def __reduce__(self) -> Any:
        return _note_ticket, tuple(self)


def _note_ticket(path: str, rank: int, step: int, ticket: bytes) -> _Ticket:
    _arrived[path, rank] = noted = _Ticket(path, rank, step, ticket)
    return noted


class StorageWriter(dist_checkpoint.StorageWriter):  # type: ignore[misc]
    """Saves to the store at `path`, which it creates if needed.

    `checkpoint_id` of `dcp.save` is the step, an int or its digits. Without one it is
    the step after the highest, or 1; the coordinator's `saved_step` is the last one
    saved. As in PyTorch's own storage, a path names another store.

    An existing step is replaced when the new one is complete, or raises AlreadyExists
    without `overwrite`. With `keep`, the store keeps this many of the highest steps,
    the new one and pinned ones. A tensor or object whose bytes equal those of the
    newest step, saved by the same rank, is not written again. `options` are those of
    the store, such as stage_threads=4.

    The coordinator owns the store only during a save. Between saves another process,
    or a `ckptdb.Manager` in this one, may own it; a save meanwhile raises Unavailable.
    All ranks must see the store's folder. A save in another thread, as by `async_save`,
    waits for the one before it. The writer can be pickled.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        overwrite: bool = True,
        keep: int | None = None,
        **options: Any,
    ) -> None:
        super().__init__()
        if keep is not None and keep < 1:
            raise InvalidArgument(f"keep is {keep}; expected at least 1, or None")
        _check_options(options, "keep", "overwrite")
        self._path = os.fsdecode(path)
        self._overwrite = overwrite
        self._keep = keep
        self._options = options
        self._step: int | None = None
        self.saved_step: int | None = None
        self.save_id = str(uuid.uuid4())
        self._rank = 0
        self._attempt: Attempt | None = None
        self._has_turn = False  # from `reset` on
        # Blobs besides those of the state, for `ckptdb.torch.import`.
        self._extra_blobs: list[tuple[str, bytes]] = []

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_attempt": None}

    def close(self) -> None:
        """Gives up a save that has failed, and frees the store. Needed only if the
        writer is used without DCP: DCP's saves end by themselves."""
        attempt, self._attempt = self._attempt, None
        if attempt is not None:
            attempt.end()

    def reset(self, checkpoint_id: CheckpointId | None = None) -> None:
        path, step = (None, None) if checkpoint_id is None else _parse(checkpoint_id)
        await_turn(self._path)
        self._has_turn = True
        self.close()
        self.save_id = str(uuid.uuid4())
        self._path, self._step = path or self._path, step

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id: CheckpointId) -> bool:
        return _is_valid(checkpoint_id)

    @property
    def checkpoint_id(self) -> int | str:
        """The step that is saved next if it is known, or the path of the store."""
        return self._path if self._step is None else self._step

    def storage_meta(self) -> Any:
        return StorageMeta(checkpoint_id=self.checkpoint_id, save_id=self.save_id)

    # DCP passes the rank only to a parameter of the name `kwargs`.
    def set_up_storage_writer(
        self, is_coordinator: bool, *args: Any, **kwargs: Any
    ) -> None:
        if not self._has_turn:  # before the first collective
            await_turn(self._path)
        self._has_turn = False
        self._rank = kwargs.get("rank", 0) if kwargs.get("use_collectives", True) else 0

    def prepare_local_plan(self, plan: SavePlan) -> SavePlan:
        return plan

    def prepare_global_plan(self, plans: list[SavePlan]) -> list[SavePlan]:
        self.close()  # of a save that has failed
        store = self._open()
        try:
            step = self._step
            if step is None:
                step = max((each["step"] for each in store.steps()), default=0) + 1
            extra = _needs_rank(plans)
            number, tickets = store.begin(step, len(plans) + extra, self._overwrite)
        except AlreadyExists as error:
            store.close()
            raise AlreadyExists(
                f"Checkpoint already exists: step {step} of {self._path}; pass "
                "overwrite=True to replace it"
            ) from error
        except BaseException:
            store.close()
            raise
        self._attempt = Attempt(store, step, number, tickets)
        begun.add(self._attempt)
        self._attempt.watch()
        return [
            dataclasses.replace(
                plan, storage_data=_Ticket(self._path, rank, step, ticket)
            )
            for rank, (plan, ticket) in enumerate(zip(plans, tickets))
        ]

    def _open(self) -> _core.Store:
        # After another rank's error, the writer may still have the store open, kept
        # alive by the traceback.
        for attempt in list(begun):
            if attempt.is_over():
                attempt.end()
        try:
            return _core.Store(self._path, self._options)
        except Unavailable as error:
            if error.holder is None:
                raise
            owned = Unavailable(
                f"{error}; a store has one owner: close that ckptdb.Manager or end that "
                "save, or let the Manager save"
            )
            owned.holder = error.holder
            raise owned from None

    def _take_ticket(self, plan: SavePlan) -> bytes:
        arrived = _arrived.pop((self._path, self._rank), None)
        if self._attempt is not None:
            return self._attempt.tickets[self._rank]
        found = arrived or plan.storage_data
        step, self._step = self._step, None
        if step not in (None, found.step):
            raise FailedPrecondition(
                f"rank {self._rank} saves step {step}, and the coordinator step "
                f"{found.step}: the ranks began overlapping saves in another order; wait "
                "for the future of each dcp.async_save before the next save"
            )
        ticket: bytes = found.ticket
        return ticket

    def write_data(self, plan: SavePlan, planner: SavePlanner) -> Future[Any]:
        future = Future()
        try:
            future.set_result(self._write(self._take_ticket(plan), plan, planner))
        except BaseException:
            self.close()
            raise
        return future

    def _write(
        self, ticket: bytes, plan: SavePlan, planner: SavePlanner
    ) -> list[WriteResult]:
        owners, results = [], []
        tensors: dict[tuple[str, tuple[int, ...]], Any] = {}
        blobs = list(self._extra_blobs)
        for item in plan.items:
            value = planner.resolve_data(item)
            if item.type == WriteItemType.BYTE_IO:
                name, size = item.index.fqn, value.getbuffer().nbytes
                blobs.append((name, value.getvalue()))
            else:
                memory, tensor = _tensor_of(item, value)
                name, size = tensor[0], memory.nbytes
                owners.append(memory.owner)
                # An uneven sharding leaves some ranks a shard without elements; of a
                # tensor without elements, one is stored.
                if memory.nbytes > 0:
                    tensors[name, tuple(tensor[4])] = tensor
                elif 0 in item.tensor_data.size:
                    tensors[name, ()] = tensor
            results.append(WriteResult(item.index, size, name))
        staged = _core.stage(
            self._path, ticket, list(tensors.values()), blobs, self._options
        )
        return [*results, WriteResult(_STAGED, len(staged), staged)]

    def finish(self, metadata: Metadata, results: list[list[WriteResult]]) -> None:
        attempt = self._attempt
        store = None if attempt is None else attempt.store
        if attempt is None or store is None:
            raise FailedPrecondition(
                f"{self._path}: this writer has begun no save, or another save since"
            )
        metadata.storage_data = {
            each.index: (rank, each.storage_data)
            for rank, part in enumerate(results)
            for each in part
            if each.index != _STAGED
        }
        metadata.storage_meta = self.storage_meta()
        staged = [
            each.storage_data
            for part in results
            for each in part
            if each.index == _STAGED
        ]
        try:
            blobs = {METADATA: pickle.dumps(metadata)}
            if len(attempt.tickets) > len(results):
                ticket, extra = attempt.tickets[-1], list(blobs.items())
                staged.append(_core.stage(self._path, ticket, [], extra, self._options))
                blobs = {}
            retired = self._retired(store.steps(), attempt.step)
            store.publish(attempt.step, attempt.number, staged, blobs, retired)
        except BaseException:
            self.close()
            raise
        self.saved_step = attempt.step
        self._step = None  # a save without checkpoint_id takes the next one
        self._attempt = None
        with attempt.lock:
            attempt.store = None
        store.close()

    def _retired(self, records: list[Any], step: int) -> list[int]:
        """The steps that saving `step` removes."""
        if self._keep is None:
            return []
        pinned = {each["step"]: each["pinned"] for each in records}
        kept = {step, *sorted(pinned.keys() | {step})[-self._keep :]}
        return [each for each in pinned if each not in kept and not pinned[each]]


def expected_bytes(plans: list[SavePlan]) -> int:
    """An upper bound of the bytes of the plans' pickled `Metadata`, unless a planner
    adds to it."""
    return sum(
        _ITEM_BYTES + _NAME_COPIES * len(item.index.fqn)
        for plan in plans
        for item in plan.items
    )


def _needs_rank(plans: list[SavePlan]) -> bool:
    """Whether the `Metadata` of the plans needs an extra rank."""
    if expected_bytes(plans) > _core.MAX_PUBLISHED_BYTES:
        return True
    return any(item.index.fqn == METADATA for plan in plans for item in plan.items)


def _tensor_of(item: WriteItem, value: Any) -> tuple[Any, Any]:
    """The memory of an item, and the tensor that the library stages."""
    name = item.index.fqn
    chunk, size = item.tensor_data.chunk, list(item.tensor_data.size)
    try:
        memory = _arrays.readable(value.detach())
    except (InvalidArgument, RuntimeError) as error:
        raise InvalidArgument(f'"{name}": {error}') from error
    shape, offset = list(memory.shape), list(chunk.offsets)
    if shape == size or item.type == WriteItemType.TENSOR:
        return memory, (name, memory.dtype, shape, [], [], memory.address)
    if shape != list(chunk.sizes):
        raise InvalidArgument(
            f'"{name}" has shape {shape} at {offset}; its plan has {list(chunk.sizes)}'
        )
    return memory, (name, memory.dtype, shape, size, offset, memory.address)


class StorageReader(dist_checkpoint.StorageReader):  # type: ignore[misc]
    """Reads a step of the store at `path`, also while a trainer writes to it.

    `checkpoint_id` of `dcp.load`, or `step`, is the step; without one it is the step
    saved last. As in PyTorch's own storage, a path names another store. All ranks
    read the same step, or the load fails. Of a step that a `ckptdb.Manager` saved,
    the tensors can be loaded.

    The `Metadata` is stored by pickle, and only its own classes are read. If a planner
    has put others into `planner_data`, pass allow_pickle=True, which executes code
    from the store; so does DCP's own planner for objects. `options` are those of
    `ckptdb.Reader`.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        step: int | None = None,
        *,
        allow_pickle: bool = False,
        **options: Any,
    ) -> None:
        super().__init__()
        _check_options(options, "allow_pickle", "step")
        self._path = os.fsdecode(path)
        self._step = None if step is None else as_step(step)
        self._allow_pickle = allow_pickle
        self._options = options
        self.load_id = str(uuid.uuid4())
        self._opened: Step | None = None
        self._places: dict[MetadataIndex, tuple[int, str]] = {}

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_opened": None}

    def close(self) -> None:
        """Ends reading: the trainer may delete the step's data."""
        opened, self._opened = self._opened, None
        if opened is not None:
            opened.close()

    def reset(self, checkpoint_id: CheckpointId | None = None) -> None:
        self.close()
        self.load_id = str(uuid.uuid4())
        if checkpoint_id is not None:
            path, self._step = _parse(checkpoint_id)
            self._path = path or self._path

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id: CheckpointId) -> bool:
        return _is_valid(checkpoint_id)

    @property
    def checkpoint_id(self) -> int | str:
        """The step that is read, or the path of the store for its newest one."""
        return self._path if self._step is None else self._step

    def read_metadata(self) -> Metadata:
        """The `Metadata` of the step, which stays open until `close` or the end of
        the load. Raises NotFound."""
        self.close()
        self._opened = self._open()
        metadata = read_metadata(self._opened, self._allow_pickle)
        metadata.storage_meta = metadata.storage_meta or StorageMeta()
        metadata.storage_meta.load_id = self.load_id
        return metadata

    def _open(self) -> Step:
        with Reader(self._path, **self._options) as reader:  # its step keeps it
            return reader.latest() if self._step is None else reader.open(self._step)

    def set_up_storage_reader(
        self, metadata: Metadata, is_coordinator: bool, *args: Any, **kwargs: Any
    ) -> None:
        self._places = metadata.storage_data or {}

    def prepare_local_plan(self, plan: LoadPlan) -> LoadPlan:
        record = self._step_of_load().record
        version = (os.path.realpath(self._path), record.step, record.attempt)
        return dataclasses.replace(plan, storage_data=version)

    def prepare_global_plan(self, plans: list[LoadPlan]) -> list[LoadPlan]:
        found = {plan.storage_data for plan in plans if plan.storage_data is not None}
        if len({path for path, _, _ in found}) < len(found):
            raise FailedPrecondition(
                "the ranks found different steps as the newest, because one was saved "
                f"meanwhile: {sorted(found)}; pass its number as checkpoint_id"
            )
        return plans

    def _step_of_load(self) -> Step:
        if self._opened is None:
            raise FailedPrecondition("read_metadata has not been called")
        return self._opened

    def read_data(self, plan: LoadPlan, planner: LoadPlanner) -> Future[Any]:
        step = self._step_of_load()
        try:
            reads = Reads(step, planner)
            for item in plan.items:
                index = item.storage_index
                rank, name = self._places.get(index, (0, index.fqn))
                if item.type == LoadItemType.BYTE_IO:
                    planner.load_bytes(item, io.BytesIO(step.read_blob(name, rank)))
                else:
                    reads.add(item, name)
            reads.run()
        finally:
            self.close()
        future = Future()
        future.set_result(None)
        return future
