# SPDX-License-Identifier: Apache-2.0
"""ckptdb for TorchRec: embedding tables that restore on any sharding plan."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import torch
import torch.distributed as dist

from . import _arrays, _torchrec
from ._custom_table import Block, CustomTable
from ._errors import FailedPrecondition, InvalidArgument, OutOfRange, Unimplemented
from ._shards import form_of

__all__ = ["EmbeddingTable", "tables"]

_BLOCK_ROWS = 1 << 16
_BITS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


def tables(
    dmp: Any,
    *,
    delta_tracker: Any = None,
    consumer: str | None = None,
    tracked: bool = False,
) -> dict[str, Any]:
    """The state of a DistributedModelParallel, for a manager:

        state = ckptdb.torchrec.tables(dmp)
        manager = ckptdb.Manager("ckpt", state, ranks=ckptdb.torch.ranks())

    All ranks call it together. The result has an `EmbeddingTable` for each embedding
    table, by its name in the model, such as "ebc.embedding_bags.user", and as "model"
    its other tensors. Add the dense optimizer to it. Ids are the rows of
    the whole table, so a step restores on any plan and number of ranks. Slots are
    "weight" and the states of the fused optimizer, such as "momentum1"; their memory
    is read and written in place. Learning rates are not saved.

    Each save of the tables is full, unless `delta_tracker`, from
    `dmp.init_torchrec_delta_tracker`, says which rows changed: each step and save of
    the manager takes what it has recorded, as `consumer`, so that its memory stays
    small; nothing else may read it as that consumer. It
    records lookups, not updates: rows that are only looked up are saved too; rows
    that change without a lookup, as by weight decay, are not; and no save may come
    between the lookup and the update of a batch. Tables that it does not record, and
    data-parallel ones, are saved in full. With `tracked=True` the trainer marks
    changes itself, by `EmbeddingTable.mark`.

    Tables sharded by columns, also in a grid, are saved as tables of whole rows, which
    the ranks make of their columns before a save; see `EmbeddingTable`.

    Raises Unimplemented for tables in the memory of a device."""
    _torchrec.check_model(dmp)
    if delta_tracker is not None:
        if tracked:
            raise InvalidArgument(
                "both delta_tracker and tracked=True are given; choose one"
            )
        consumer = _torchrec.check_tracker(delta_tracker, consumer)
    elif consumer is not None:
        raise InvalidArgument(f'consumer is "{consumer}", without a delta_tracker')
    found = list(_torchrec.embeddings_of(dmp, dist.get_rank()))
    slots = _slots_of_all(found)
    lookups = None
    if delta_tracker is not None:
        lookups = _Lookups(delta_tracker, str(consumer))
    state: dict[str, Any] = {}
    for each in found:
        if each.name in state or each.name == "model":
            raise InvalidArgument(f'two parts of the model have the name "{each.name}"')
        state[each.name] = EmbeddingTable(
            each, slots[each.name], lookups if _uses(lookups, each) else None, tracked
        )
    if lookups is not None:
        lookups.tables = {n: t for n, t in state.items() if t.lookups is lookups}
    state["model"] = _Dense(dmp)
    return state


def _uses(lookups: _Lookups | None, table: _torchrec.Embeddings) -> bool:
    """Whether changes of the table are those that the tracker records. On all ranks
    the same."""
    if lookups is None or table.replicated:
        return False  # each rank updates rows that others looked up
    if any(len(rows) > 1 for rows in _rows_by_rank(table).values()):
        return False  # to which part a local id belongs is not known
    return _torchrec.tracks(lookups.tracker, table.name)


def _rows_by_rank(table: _torchrec.Embeddings) -> dict[int, set[tuple[int, int]]]:
    """Of each rank with parts the rows: (first, number)."""
    rows: dict[int, set[tuple[int, int]]] = {}
    for part in table.parts:
        rows.setdefault(part.rank, set()).add((part.first, part.rows))
    return rows


def _granule(table: _torchrec.Embeddings) -> int:
    """Columns of a part of a row, such that each shard has all of it or none."""
    return math.gcd(table.columns, *(part.column for part in table.parts))


_Slots = dict[str, tuple[str, int, bool]]  # dtype, elements, whether one per shard


def _slots_of_all(found: list[_torchrec.Embeddings]) -> dict[str, _Slots]:
    """The slots of each table, of which a rank without rows knows only the weight."""
    own: dict[str, _Slots] = {}
    problem = ""
    for table in found:
        own[table.name] = slots = {}
        if table.divided and any(len(r) > 1 for r in _rows_by_rank(table).values()):
            problem = (
                f'table "{table.name}" is sharded by columns, and a rank has shards of '
                "different rows; give each rank the same rows of all its columns"
            )
        for part in table.parts:
            for name, tensor in part.slots.items():
                if tensor.device.type != "cpu":
                    problem = (
                        f'slot "{name}" of table "{table.name}" is on {tensor.device}; '
                        "only tables in the memory of the host can be saved in place"
                    )
                    continue
                one = tensor.dim() == 1
                elements = table.columns // (_granule(table) if one else 1)
                slots[name] = (_arrays.torch_dtype_name(tensor.dtype), elements, one)
    everyone: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(everyone, (problem, own))
    merged: dict[str, _Slots] = {name: {} for name in own}
    for rank, (failed, slots_by_table) in enumerate(everyone):
        if failed:
            raise Unimplemented(f"rank {rank}: {failed}")
        if slots_by_table.keys() != own.keys():
            raise InvalidArgument(
                f"rank {rank} has the tables {sorted(slots_by_table)}; this rank has "
                f"{sorted(own)}"
            )
        for table_name, slots in slots_by_table.items():
            for name, spec in slots.items():
                if merged[table_name].setdefault(name, spec) != spec:
                    raise InvalidArgument(
                        f'slot "{name}" of table "{table_name}" is {spec} on rank '
                        f"{rank} and {merged[table_name][name]} on another"
                    )
    return {
        table: dict(sorted(slots.items(), key=lambda s: (s[0] != "weight", s[0])))
        for table, slots in merged.items()
    }


class EmbeddingTable(CustomTable):
    """An embedding table of TorchRec, whose ids are the rows of the whole table. Each
    rank saves the rows that the sharding plan gives it. A restore sets rows that the
    step does not have to zero, and raises for rows beyond the table.

    Of a table sharded by columns each rank saves an even share of the rows. A state of
    one value per row, as of rowwise Adagrad, is one value per row and column shard
    there: the slot has a value for each of the equal parts into which the shards
    divide the columns, so (rows, 2) for two shards of the same width. Under a plan
    that divides the columns in the same way it is restored bit for bit. Otherwise a
    shard takes the mean of the values of its columns, which is what rowwise Adagrad
    would have summed for them but for rounding, or, if it has a part of an old shard,
    that shard's value."""

    def __init__(
        self,
        table: _torchrec.Embeddings,
        slots: _Slots,
        lookups: _Lookups | None,
        tracked: bool,
    ) -> None:
        self.name = table.name
        self.rows = table.rows
        self.lookups = lookups
        self._divided = table.divided
        self._granule = _granule(table)
        self._one = {name for name, (_, _, one) in slots.items() if one}
        np = _arrays.numpy()
        self._parts = [part for part in table.parts if part.slots]
        self._bits = [
            {n: _bits(tensor) for n, tensor in part.slots.items()}
            for part in self._parts
        ]
        self._lacking: list[Any] = []  # of each part the rows that a step lacks
        ends = np.array([part.first + part.rows for part in table.parts], np.int64)
        owners = np.array([part.rank for part in table.parts], np.int64)
        world = dist.get_world_size()

        def ranks_of(ids: Any, world_size: int) -> Any:
            if world_size != world:
                raise InvalidArgument(
                    f"the sharding plan is for {world} ranks; the manager has "
                    f"{world_size}"
                )
            # The last rank owns, and rejects, rows beyond the end of the table.
            ranks = owners[np.searchsorted(ends[:-1], ids, side="right")]
            return np.where(ids < 0, -1, ranks)

        # The name is the same for all plans: a restore finds rows by their ids.
        sharding: Any = ("function", "torchrec", ranks_of)
        if table.replicated:
            sharding = "replicated"
        columns = None
        if table.divided:
            sharding = ("range", table.rows)
            columns = [
                (name, *self._columns(part, name))
                for part in self._parts
                for name in slots
            ]
        super().__init__(
            {name: spec[:2] for name, spec in slots.items()},
            sharding=sharding,
            optimizer_slots=[name for name in slots if name != "weight"],
            tracked=tracked or lookups is not None,
            columns=columns,
        )

    def _columns(self, part: _torchrec.Part, slot: str) -> tuple[int, int]:
        """The elements of a slot that a part has: the first one and their number."""
        granule = self._granule if slot in self._one else 1
        return part.column // granule, part.columns // granule

    def __repr__(self) -> str:
        own = sum(rows for _, rows in {(p.first, p.rows) for p in self._parts})
        columns = sum(p.columns for p in self._parts)
        part = f", {columns} columns" if self._divided else ""
        return f'EmbeddingTable("{self.name}", {own:,} of {self.rows:,} rows{part})'

    def ranks_of(self, ids: Any, world_size: int) -> Any:
        """Returns each row's rank. Raises OutOfRange for an id that is not a row."""
        self._check_rows(torch.as_tensor(ids, dtype=torch.int64))
        return super().ranks_of(ids, world_size)

    def mark(self, ids: Any) -> None:
        """Marks rows of the whole table as changed; ignores those of other ranks. After
        a batch, mark the rows that any rank looked up, because their ranks update
        them. A row of a table sharded by columns is saved if any of its ranks marks
        it. Raises OutOfRange for an id that is not a row."""
        array = torch.as_tensor(ids, dtype=torch.int64).reshape(-1)
        self._check_rows(array)
        for part in self._parts:
            end = part.first + part.rows
            super().mark(array[(array >= part.first) & (array < end)])

    def _check_rows(self, ids: Any) -> None:
        if ids.numel() and not 0 <= int(ids.min()) <= int(ids.max()) < self.rows:
            wrong = ids[(ids < 0) | (ids >= self.rows)]
            raise self._no_row(int(wrong[0]))

    def mark_erased(self, ids: Any) -> None:
        """Raises Unimplemented: all rows exist always."""
        raise Unimplemented(f'rows of table "{self.name}" cannot be erased')

    def mark_changes(self) -> None:
        if self.lookups is not None:
            self.lookups.take()

    def all_rows(self) -> Iterable[Block]:
        for part in self._parts[:1] if self._divided else self._parts:
            for start in range(0, part.rows, _BLOCK_ROWS):
                end = min(start + _BLOCK_ROWS, part.rows)
                yield (
                    torch.arange(part.first + start, part.first + end),
                    self._values(part, slice(start, end)),
                )

    def rows_of(self, ids: Any) -> Iterable[Block]:
        for chosen, number, own in self._split(ids):
            if self._divided and number > 0:
                break  # the other columns of the same rows
            rows = torch.from_numpy(own)
            yield ids[chosen], self._values(self._parts[number], rows)

    def _values(self, part: _torchrec.Part, rows: Any) -> dict[Any, Any]:
        """The values of rows of a part; of a divided table, of all its columns."""
        if not self._divided:
            return {name: tensor[rows] for name, tensor in part.slots.items()}
        values = {}
        for each in self._parts:
            for name, tensor in each.slots.items():
                first, elements = self._columns(each, name)
                some = tensor[rows]
                if name in self._one:
                    some = some[:, None].expand(-1, elements).contiguous()
                values[name, first] = some
        return values

    def restore_rows(self, ids: Any, values: dict[str, Any]) -> None:
        if len(ids) and int(ids.max()) >= self.rows:
            raise _cut(self.name, int(ids.max()), self.rows)
        for chosen, number, own in self._split(ids):
            if self._lacking:
                self._lacking[number][own] = False
            for name, rows in values.items():
                bits = self._bits[number][name]
                mine = rows[chosen]
                if self._divided:
                    first, elements = self._columns(self._parts[number], name)
                    mine = mine[:, first : first + elements]
                if name in self._one:
                    mine = _means(mine, 1)
                bits[own] = mine.view(bits.dtype).reshape(-1, *bits.shape[1:])

    def converts(self, slot: str, dtype: str, elements: int) -> bool:
        known = slot in self._one and dtype == self.slots[slot][0]
        return known and dtype in ("f32", "f64")

    def convert(self, slot: str, values: Any) -> Any:
        """From values of one plan's parts of the columns to those of another's."""
        elements = self.slots[slot][1]
        finest = math.lcm(values.shape[1], elements)
        return _means(values.repeat(finest // values.shape[1], axis=1), elements)

    def erase_rows(self, ids: Any) -> None:
        for _, part, own in self._split(ids):
            for bits in self._bits[part].values():
                bits[own] = 0

    def clear_rows(self) -> None:
        np = _arrays.numpy()
        self._lacking = [np.ones(part.rows, bool) for part in self._parts]
        for part in self._bits:
            for bits in part.values():
                bits[:] = 0

    def _mark_lacking(self) -> None:
        """Marks the rows that the step lacks, so that the next save has the values
        that the trainer sets."""
        lacking, self._lacking = self._lacking, []
        for part, rows in zip(self._parts, lacking):
            super().mark(_arrays.numpy().flatnonzero(rows) + part.first)

    def _split(self, ids: Any) -> Iterator[tuple[Any, int, Any]]:
        """Which of the ids are in a part, the part, and their rows in it. A divided
        table may have ids of other ranks here."""
        left = len(ids)
        if self._divided:
            wrong = ids[(ids < 0) | (ids >= self.rows)]
            if len(wrong):
                raise self._no_row(int(wrong[0]))
            left = 0
        for number, part in enumerate(self._parts):
            chosen = (ids >= part.first) & (ids < part.first + part.rows)
            own = ids[chosen] - part.first
            left -= len(own)
            if len(own):
                yield chosen, number, own
        if left > 0:
            held = [range(p.first, p.first + p.rows) for p in self._parts]
            raise self._no_row(
                next(int(i) for i in ids if not any(i in h for h in held))
            )

    def _no_row(self, row: int) -> OutOfRange:
        return OutOfRange(
            f'{row} is no row of table "{self.name}" on rank {dist.get_rank()}; the '
            f"table has rows 0 to {self.rows - 1}, this rank "
            + (
                " and ".join(
                    f"{p.first} to {p.first + p.rows - 1}" for p in self._parts
                )
                or "none"
            )
        )


def _cut(table: str, row: int, rows: int) -> OutOfRange:
    return OutOfRange(
        f'the step has row {row} of table "{table}", which has only rows 0 to '
        f"{rows - 1} now; make the table with at least {row + 1} rows, or leave it out "
        f'of the restore: evolve={{"exclude": ["{table}"]}}'
    )


def _means(values: Any, parts: int) -> Any:
    """Of values (n, many) the means of each of so many adjacent parts, (n, parts);
    equal values are kept bit for bit."""
    np = _arrays.numpy()
    groups = np.ascontiguousarray(values).reshape(len(values), parts, -1)
    first = groups[:, :, 0]
    bits = groups.view(f"u{groups.itemsize}")
    equal = (bits == bits[:, :, :1]).all(axis=2)
    if equal.all():
        return np.ascontiguousarray(first)
    means = groups.mean(axis=2, dtype=np.float64)
    return np.where(equal, first, means.astype(values.dtype))


def _bits(tensor: Any) -> Any:
    """The memory of a tensor as an array of integers, which NumPy has for all
    dtypes."""
    return tensor.detach().view(_BITS[tensor.element_size()]).numpy()


class _Lookups:
    """Lookups of a delta tracker, as marks of the tables. The tracker gives those of
    all tables at once."""

    def __init__(self, tracker: Any, consumer: str) -> None:
        self.tracker = tracker
        self.tables: dict[str, EmbeddingTable] = {}
        self._consumer = consumer

    def take(self) -> None:
        for name, ids in _torchrec.take_lookups(self.tracker, self._consumer).items():
            table = self.tables.get(name)
            if table is None or not table._parts or not ids:
                continue
            first = table._parts[0].first
            table.mark(torch.cat(ids).cpu().to(torch.int64).unique() + first)


class _Dense:
    """The tensors of a model besides its embedding tables."""

    restored_in_place = True

    def __init__(self, dmp: Any) -> None:
        self._dmp = dmp

    def state_dict(self) -> dict[str, Any]:
        return _torchrec.dense_of(self._dmp)

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Does nothing after a restore, which has filled these tensors in place."""
        live = self.state_dict()
        if live.keys() != state.keys():
            raise FailedPrecondition(
                "the dense part of the model differs from the step's: added "
                f"{sorted(live.keys() - state.keys())}, missing "
                f"{sorted(state.keys() - live.keys())}; to keep its values, exclude "
                'it: evolve={"exclude": ["model"]}'
            )
        for name, value in state.items():
            if not torch.is_tensor(live[name]) or not torch.is_tensor(value):
                continue
            form, given = form_of(live[name]), form_of(value)
            if form != given:
                raise FailedPrecondition(
                    f'tensor "{name}" of the dense part of the model is {form[0]} '
                    f"{list(form[1])}; the given one is {given[0]} {list(given[1])}"
                )
        with torch.no_grad():
            for name, value in state.items():
                if torch.is_tensor(live[name]) and torch.is_tensor(value):
                    live[name].copy_(value)
                else:
                    live[name] = value
        self.load_rest(live)

    def load_rest(self, state: Mapping[str, Any]) -> None:
        """Loads the values of a restored state that are not in the model's memory, such
        as the extra state of a module."""
        _torchrec.load_rest(self._dmp, state)
