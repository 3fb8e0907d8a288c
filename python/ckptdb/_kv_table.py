# SPDX-License-Identifier: Apache-2.0
"""Key-value tables of other libraries, which are exported in batches."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from . import _arrays
from ._custom_table import Block, CustomTable
from ._errors import FailedPrecondition, InvalidArgument, NotFound, Unimplemented
from ._tables import _slot

Exported = tuple[Any, Any, Any]  # keys as an int64 array of NumPy, values, scores

SCORE = "score"
CHANGES = (None, "scores", "marks")
METHODS = ("size", "export_batch", "insert_or_assign")


class KVTable(CustomTable):
    """A key-value table with the interface of HierarchicalKV or dynamicemb.

        users = ckptdb.KVTable(
            source, {"embedding": ("f32", 64), "adagrad": ("f32", 1)}, changes="scores"
        )

    `slots` divides the columns of the values, in this order; scores are in the slot
    "score". `source` has these methods, whose arrays are of NumPy, or of PyTorch on
    any device:

    - `size()`: the number of rows.
    - `export_batch(n, offset)`: the rows at positions offset to offset + n, as new
      arrays (keys, values, scores): 64-bit integers (m,), (m, columns), and 64-bit
      integers (m,) or None. Positions are below `capacity()`, of which some may be
      empty, or below `size()` if there is no such method.
    - `insert_or_assign(keys, values, scores)`: sets rows. Without scores, of which
      a step may have none, it is called with two arguments.
    - `clear()`, for restores, and `erase(keys)`, for followers. A restore uses
      `erase` if there is no `clear`.

    `changes` says how a save finds the rows that changed:

    - None: it does not, and every save of the table is full.
    - "scores": by their scores, if every insertion and update gives a row a score
      that is at least as high as all scores before, also after a restart: numbers of
      steps do, the clock of a device may not. A save then writes the rows whose score
      is at least the highest one at the last save. If the source has
      `export_batch_if(threshold, n, offset)`, which leaves out rows with lower
      scores, a save reads all rows only if some were erased.
    - "marks": you call `mark` for rows that were updated, from any thread. Marks of
      ids that the source no longer has are ignored.

    With either of the last two, a save also finds rows that were inserted or erased,
    or evicted, by comparing all ids with those of the save before. This takes 8
    bytes of host memory for each row, and 24 during a save. A full save copies all
    rows to the host, another one those that changed.

    If a restore inserts more rows than the source has room for, it evicts, and the
    next save erases these rows. Its rows must not change while a manager saves or
    restores.
    """

    def __init__(
        self,
        source: Any,
        slots: Mapping[str, Any],
        *,
        changes: str | None = None,
        batch_rows: int = 1 << 16,
        slice_hash: str = "modulo",
        optimizer_slots: Sequence[str] = (),
        tracker_bytes: int = 1 << 30,
    ) -> None:
        if changes not in CHANGES:
            raise InvalidArgument(
                f"changes is {changes!r}; expected one of {list(CHANGES)}"
            )
        if batch_rows < 1:
            raise InvalidArgument(f"batch_rows is {batch_rows}; expected at least 1")
        for method in METHODS:
            if not callable(getattr(source, method, None)):
                raise InvalidArgument(
                    f"the source is a {type(source).__name__} without {method}(); it "
                    f"needs the methods {', '.join(METHODS)}: see help(ckptdb.KVTable)"
                )
        self.source = source
        keys, values, scores = source.export_batch(1, 0)
        for what, array in (("keys", keys), ("scores", scores)):
            if array is not None and _dtype_of(array) not in ("i64", "u64"):
                raise InvalidArgument(
                    f"export_batch returned {what} of dtype {array.dtype}; expected "
                    "integers of 64 bits"
                )
        specs = dict(slots)
        self._dtype, self._width = _check_slots(specs, values)
        self._values = list(specs)
        self._key_like, self._value_like, self._score_like = keys, values, scores
        if scores is not None:
            if SCORE in specs:
                raise InvalidArgument(
                    f'slot "{SCORE}" is reserved for scores; choose another name'
                )
            specs[SCORE] = (_dtype_of(scores), 1)
        elif changes == "scores":
            raise InvalidArgument(
                'changes is "scores", but export_batch returns None for them; '
                'expected None or "marks"'
            )
        self._changes = changes
        self._batch_rows = batch_rows
        self._known: Any = None  # ids at the last save or restore, ascending
        self._log: list[tuple[bool, Any]] = []  # present or erased since, by restores
        self._logged = 0  # ids in it
        self._restored = False
        self._newest: Any = None  # the highest score at that time
        self._marked: list[Any] = []  # ids, since the last save
        self._marks = 0  # ids in it
        self._most_marks = 1 << 20
        self._lock = threading.Lock()  # of the marks
        self._changed: list[Exported] = []  # rows found for the save in progress
        super().__init__(
            specs,
            slice_hash=slice_hash,
            optimizer_slots=optimizer_slots,
            tracker_bytes=tracker_bytes,
            tracked=changes is not None,
        )

    def __len__(self) -> int:
        return int(self.source.size())

    def __repr__(self) -> str:
        return f"KVTable({len(self):,} rows; {', '.join(self.slots)})"

    # Saves.

    def mark(self, ids: Any) -> None:
        """Marks ids as changed, after their values were."""
        if self._changes is None:
            return
        marked = _host(_arrays.int64s(ids, "ids").owner).copy()
        with self._lock:
            self._marked.append(marked)
            self._marks += len(marked)
            if self._marks > self._most_marks:
                np = _arrays.numpy()
                self._marked = [np.unique(np.concatenate(self._marked))]
                self._marks = len(self._marked[0])
                self._most_marks = 2 * self._marks + (1 << 20)

    def _take_marks(self) -> list[Any]:
        with self._lock:
            marked, self._marked, self._marks = self._marked, [], 0
        return marked

    def mark_changes(self) -> None:
        """Marks rows that were inserted, updated or erased, and remembers those that
        it has read."""
        self._apply_log()
        if self._restored or self._known is None:  # nothing to save yet, or all
            self._restored = False
            self._take_marks()
            return
        # An error below leaves everything as it is, for the next save.
        known, newest = self._known, self._newest
        by_scores = self._changes == "scores"
        partial = (
            by_scores and newest is not None and hasattr(self.source, "export_batch_if")
        )
        ids, changed = [], []
        for keys, values, scores in self._export(newest if partial else None):
            ids.append(keys)
            if by_scores:
                found = _host(scores)
                lowest = found.min() if self._newest is None else self._newest
                index = _arrays.numpy().flatnonzero(found >= lowest)
                newest = _highest(newest, found)
                if len(index):
                    changed.append(_select((keys, values, scores), index))
        if partial:
            inserted = _minus(_ascending(ids), known)
            if len(known) + len(inserted) == len(self):  # none was erased
                ids = [known, inserted]
            else:
                ids = [keys for keys, _, _ in self._export()]
        present = _ascending(ids)
        marked = [keys[_find(keys, present)[1]] for keys in self._take_marks()]
        for keys in [_minus(present, known), *marked, *(each[0] for each in changed)]:
            super().mark(keys)
        self.mark_erased(_minus(known, present))
        self._known, self._newest, self._changed = present, newest, changed

    def all_rows(self) -> Iterable[Block]:
        """Exports all rows, and remembers their ids."""
        self._changed = []
        ids, newest = [], None
        for keys, values, scores in self._export():
            ids.append(keys)
            if self._changes == "scores":
                newest = _highest(newest, _host(scores))
            yield keys, self._columns(values, scores)
        if self._changes is not None:
            self._forget(_ascending(ids))
            self._newest = newest

    def rows_of(self, ids: Any) -> Iterable[Block]:
        """Rows that `mark_changes` remembers; reads all rows if others are wanted."""
        np = _arrays.numpy()
        changed, self._changed = self._changed, []
        if len(ids) == 0:
            return
        wanted = np.sort(ids)
        left = np.ones(len(wanted), bool)
        count = len(wanted)
        for block in itertools.chain(changed, self._export()):
            places, found = _find(block[0], wanted)
            found &= left[places]
            index = np.flatnonzero(found)
            if len(index) == 0:
                continue
            left[places[index]] = False
            count -= len(index)
            keys, values, scores = _select(block, index)
            yield keys, self._columns(values, scores)
            if count == 0:
                break
        if count:
            raise NotFound(
                f"the table has no row of id {wanted[left][0]}, which was marked as "
                "changed; mark ids that it has"
            )

    def _export(self, threshold: Any = None) -> Iterator[Exported]:
        """All rows, or those with at least this score."""
        source = self.source
        size = len(self)
        end = int(source.capacity()) if hasattr(source, "capacity") else size
        count = 0
        for offset in range(0, end, self._batch_rows):
            batch = min(self._batch_rows, end - offset)
            if threshold is None:
                keys, values, scores = source.export_batch(batch, offset)
            else:
                keys, values, scores = source.export_batch_if(
                    int(threshold), batch, offset
                )
            count += len(keys)
            if len(keys):
                yield _host(_arrays.int64s(keys, "keys").owner), values, scores
        if threshold is None and count != size:
            raise FailedPrecondition(
                f"export_batch returned {count} rows at positions 0 to {end}, but "
                f"size() is {size}; rows must not change during a save, and a source "
                "with empty positions needs a method capacity()"
            )

    def _columns(self, values: Any, scores: Any) -> dict[str, Any]:
        if values.ndim != 2 or values.shape[1] != self._width:
            raise InvalidArgument(
                f"export_batch returned values of shape {list(values.shape)}; expected "
                f"{self._width} columns, those of the slots {self._values}"
            )
        columns = {}
        begin = 0
        for name in self._values:
            elements = self.slots[name][1]
            columns[name] = values[:, begin : begin + elements]
            begin += elements
        if SCORE in self.slots and SCORE not in columns:
            columns[SCORE] = scores
        return columns

    # Restores.

    def restore_rows(self, ids: Any, values: dict[str, Any]) -> None:
        """Sets rows by `insert_or_assign`. All slots but the scores are needed."""
        missing = [name for name in self._values if name not in values]
        if missing:
            raise FailedPrecondition(
                f"the step lacks the slots {missing}, and insert_or_assign needs all "
                'columns; fill them: evolve={"tables": {NAME: {"fill": {SLOT: 0}}}}'
            )
        np = _arrays.numpy()
        rows = np.concatenate([values[name] for name in self._values], axis=1)
        arguments = [
            _as_like(ids, self._key_like, "i64"),
            _as_like(rows, self._value_like, self._dtype),
        ]
        if self._score_like is not None and SCORE in values:
            scores = values[SCORE].reshape(-1)
            arguments.append(_as_like(scores, self._score_like, self.slots[SCORE][0]))
            self._newest = _highest(self._newest, scores)
        self.source.insert_or_assign(*arguments)
        self._note(True, ids)

    def erase_rows(self, ids: Any) -> None:
        """Erases rows by `erase`. Raises Unimplemented if the source lacks it."""
        if not hasattr(self.source, "erase"):
            raise Unimplemented(
                f"{type(self.source).__name__} has no method erase(keys), which a "
                "restore of changes needs; restore whole steps"
            )
        self.source.erase(_as_like(ids, self._key_like, "i64"))
        self._note(False, ids)

    def clear_rows(self) -> None:
        """Erases all rows, by `clear` or `erase`."""
        if hasattr(self.source, "clear"):
            self.source.clear()
        else:
            for keys, _, _ in list(self._export()):
                self.erase_rows(keys)
        self._forget(_ascending([]))
        self._newest = None
        self._restored = True

    def _note(self, present: bool, ids: Any) -> None:
        """Remembers what a restore has done, if saves need it."""
        self._restored = True
        if self._changes is None:
            return
        self._log.append((present, ids.copy()))
        self._logged += len(ids)
        if self._logged > (0 if self._known is None else len(self._known)) + (1 << 20):
            self._apply_log()

    def _forget(self, known: Any) -> None:
        self._known, self._log, self._logged = known, [], 0

    def _apply_log(self) -> None:
        if not self._log:
            return
        np = _arrays.numpy()
        log = self._log
        if self._known is not None:
            log.insert(0, (True, self._known))
        ids = np.concatenate([each for _, each in log])
        present = np.concatenate([np.full(len(each), is_in) for is_in, each in log])
        # The last entry of an id counts.
        ids, last = np.unique(ids[::-1], return_index=True)
        self._forget(ids[present[::-1][last]])


def _check_slots(slots: Mapping[str, Any], values: Any) -> tuple[str, int]:
    """The dtype and the number of columns of the values, which the slots divide."""
    dtype = _dtype_of(values)
    columns = 0
    for name, spec in slots.items():
        _, slot_dtype, elements, _ = _slot(name, spec)
        if slot_dtype != dtype:
            raise InvalidArgument(
                f'slot "{name}" has dtype {slot_dtype}; the source\'s values are {dtype}'
            )
        columns += elements
    if values.ndim != 2 or values.shape[1] != columns:
        raise InvalidArgument(
            f"the slots {list(slots)} have {columns} elements; the source's values "
            f"have shape {list(values.shape)}"
        )
    return dtype, columns


def _dtype_of(array: Any) -> str:
    if _arrays.is_torch(array):
        return _arrays.torch_dtype_name(array.dtype)
    if _arrays.is_numpy(array):
        return _arrays.numpy_dtype_name(array.dtype)
    raise InvalidArgument(
        f"export_batch returned a {type(array).__name__}; expected arrays of NumPy or "
        "tensors of PyTorch"
    )


def _host(array: Any) -> Any:
    return array.detach().cpu().numpy() if _arrays.is_torch(array) else array


def _as_like(array: Any, like: Any, dtype: str) -> Any:
    """A copy of an array of NumPy, whose values have this dtype, as one of the
    library and on the device of `like`."""
    np = _arrays.numpy()
    copy = np.array(array)
    if not _arrays.is_torch(like):
        return copy.view(like.dtype)
    import torch

    tensor = torch.from_numpy(copy.view(np.uint8)).view(_arrays.torch_dtype(dtype))
    return tensor.view(like.dtype).to(like.device)


def _select(block: Exported, index: Any) -> Exported:
    """Some rows of a block."""
    keys, values, scores = block
    if len(index) == len(keys):
        return block
    if _arrays.is_torch(values):
        import torch

        rows: Any = torch.from_numpy(index).to(values.device)
    else:
        rows = index
    return keys[index], values[rows], None if scores is None else scores[rows]


def _highest(newest: Any, scores: Any) -> Any:
    if len(scores) == 0:
        return newest
    return scores.max() if newest is None else max(newest, scores.max())


def _ascending(blocks: Iterable[Any]) -> Any:
    np = _arrays.numpy()
    ids = np.concatenate([np.empty(0, np.int64), *blocks])
    ids.sort()
    return ids


def _find(ids: Any, among: Any) -> tuple[Any, Any]:
    """The places of ids in an ascending array, and whether they are there."""
    np = _arrays.numpy()
    if len(among) == 0:
        return np.zeros(len(ids), np.int64), np.zeros(len(ids), bool)
    places = np.minimum(np.searchsorted(among, ids), len(among) - 1)
    return places, among[places] == ids


def _minus(ids: Any, others: Any) -> Any:
    """The ids that are not among the others, both ascending."""
    return ids[~_find(ids, others)[1]]
