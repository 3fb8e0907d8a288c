# SPDX-License-Identifier: Apache-2.0
"""Readers of a store: steps, tables, and changes between steps."""

from __future__ import annotations

import copy
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from . import _arrays, _core, _progress
from ._arguments import as_step
from ._closing import Closing
from ._errors import InvalidArgument, NotFound
from ._object_stores import Target, path_of
from ._records import Item, Items, StepRecord, Steps
from ._restore import read_value


class Batch:
    """Rows of a table: `ids`, (n,) int64, and `batch["slot"]`, (n, elements). In
    changes, `erased` are ids that were erased, (m,)."""

    def __init__(self, ids: Any, values: dict[str, Any], erased: Any) -> None:
        self.ids = ids
        self.erased = erased
        self._values = values

    def __len__(self) -> int:
        return len(self.ids)

    def __getitem__(self, slot: str) -> Any:
        return self._values[slot]

    @property
    def slots(self) -> list[str]:
        """The names of the slots that the batch has."""
        return list(self._values)

    def __repr__(self) -> str:
        erased = f", {len(self.erased)} erased" if len(self.erased) else ""
        return f"Batch({len(self)} rows of {', '.join(self._values)}{erased})"


class StepTable:
    """A table of an open step."""

    def __init__(self, step: Step, item: Item) -> None:
        self._step = step
        self.name = item.name
        self.slots = item.slots
        self.item = item

    def __repr__(self) -> str:
        return f"StepTable({self.item})"

    def _repr_html_(self) -> str:
        return Items([self.item])._repr_html_()

    def _chosen(self, slots: Sequence[str] | None) -> list[str]:
        return _chosen(self.name, self.slots, slots)

    def lookup(self, ids: Any, slots: Sequence[str] | None = None) -> tuple[Any, Any]:
        """(found, values): which ids have a row, (n,) bool, and by slot their values,
        (n, elements), with zeros for the others. Tensors of PyTorch if `ids` is one,
        otherwise arrays of NumPy."""
        names = self._chosen(slots)
        memory = _arrays.int64s(ids, "ids")
        count = memory.shape[0]
        np = _arrays.numpy()
        found = np.zeros(count, dtype=bool)
        values = {
            name: np.zeros(
                (count, self.slots[name][1]), _arrays.numpy_dtype(self.slots[name][0])
            )
            for name in names
        }
        self._step._core.lookup(
            self.name,
            memory.address,
            count,
            names,
            [_address(each) for each in values.values()],
            _address(found),
            0,
        )
        if _arrays.is_torch(ids):
            values = {k: _arrays.as_kind(v, ids) for k, v in values.items()}
            return _arrays.as_kind(found, ids), values
        return found, values

    def scan(
        self,
        slots: Sequence[str] | None = None,
        *,
        rows: int = 65536,
        threads: int = 0,
        ids_only: bool = False,
        progress: bool = False,
    ) -> Iterator[Batch]:
        """All rows, each once, in batches of at most `rows` in any order. `progress`
        shows a bar where tqdm is installed."""
        names = [] if ids_only else self._chosen(slots)
        core = self._step._core.scan(self.name, names, _rows(rows), ids_only, threads)
        batches = _batches(core, {n: self.slots[n] for n in names})
        return _with_bar(batches, self.item.rows) if progress else batches

    def read(self, slots: Sequence[str] | None = None) -> Batch:
        """The whole table as one batch, in ascending order of ids."""
        np = _arrays.numpy()
        names = self._chosen(slots)
        batches = list(self.scan(names))
        ids = np.concatenate([b.ids for b in batches] or [np.empty(0, np.int64)])
        order = np.argsort(ids, kind="stable")
        values = {
            n: (
                np.concatenate([b[n] for b in batches])
                if batches
                else _arrays.empty(self.slots[n][0], (0, self.slots[n][1]), "numpy")
            )[order]
            for n in names
        }
        return Batch(ids[order], values, np.empty(0, np.int64))

    def to_arrow(self, slots: Sequence[str] | None = None) -> Any:
        """The table as a pyarrow.Table: `id`, and a fixed-size list for each slot."""
        import pyarrow as pa

        names = list(self.slots) if slots is None else list(slots)
        if "id" in names:
            raise InvalidArgument(
                f'table "{self.name}" has a slot "id", the name of the column of ids; '
                "choose others by slots="
            )
        batch = self.read(slots)
        columns = {"id": pa.array(batch.ids)}
        for name in batch.slots:
            values = batch[name]
            if values.dtype.name in ("bfloat16", "float8_e4m3fn", "float8_e5m2"):
                values = values.astype("float32")
            flat = pa.array(values.reshape(-1))
            columns[name] = pa.FixedSizeListArray.from_arrays(flat, values.shape[1])
        return pa.table(columns)

    def to_pandas(self, slots: Sequence[str] | None = None) -> Any:
        """The table as a pandas.DataFrame with ids as its index; slots of several
        elements have arrays as values."""
        import pandas as pd

        batch = self.read(slots)
        columns = {
            n: batch[n][:, 0] if batch[n].shape[1] == 1 else list(batch[n])
            for n in batch.slots
        }
        return pd.DataFrame(columns, index=pd.Index(batch.ids, name="id"))


class Step(Closing):
    """A step that is open for reading. Its data stays on disk until it is closed."""

    def __init__(self, core: _core.Step, allow_pickle: bool = False) -> None:
        self._core = core
        self._allow_pickle = allow_pickle
        self._items: Items | None = None
        self._by_name: dict[tuple[str, str], Item] = {}

    @property
    def record(self) -> StepRecord:
        """The record of the step: its number, metrics and sizes."""
        return StepRecord(**self._core.record())

    def items(self) -> Items:
        """The tensors, tables and blobs of the step."""
        if self._items is None:
            self._items = Items(Item._of(fields) for fields in self._core.items())
            self._by_name = {(i.kind, i.name): i for i in self._items}
        return self._items

    def _find(self, kind: str, name: str) -> Item | None:
        self.items()
        return self._by_name.get((kind, name))

    def _missing(self, what: str, name: str) -> NotFound:
        import difflib

        if what != "blob" and self._find("blob", name) is not None:
            return NotFound(
                f'"{name}" of step {self.record.step} is a blob, such as DCP makes of '
                f"an object, and not a value that a manager saved; read its bytes with "
                f"Step.read_blob, or what DCP saved with dcp.load"
            )
        names = [i.name.removeprefix("extra/") for i in self.items()]
        near = difflib.get_close_matches(name, names, 1)
        hint = f'; did you mean "{near[0]}"?' if near else ""
        return NotFound(f'step {self.record.step} has no {what} "{name}"{hint}')

    def read(
        self, name: str, *, out: Any = None, kind: str = "numpy", threads: int = 0
    ) -> Any:
        """A tensor, or the value of an entry of the state that is not a tensor: of
        a module or an optimizer, its state dictionary.

        `out` is an array or tensor of the same shape and dtype to read into, and to
        return; `kind` is "numpy" or "torch". Dtypes are exact: NumPy has bf16 and f8
        by the package ml_dtypes, and as unsigned integers without it. Raises
        NotFound."""
        if not isinstance(name, str):
            raise InvalidArgument(f"the name is {name!r}; expected a str")
        item = self._find("tensor", name)
        if item is None:
            return self._read_value(name)
        assert item.dtype is not None and item.shape is not None
        if out is None:
            _arrays.check_kind(kind)
            out = _arrays.empty(item.dtype, item.shape, kind)
        elif _arrays.is_numpy(out) and not out.flags.writeable:
            raise InvalidArgument("out is a read-only array")
        memory, put = _arrays.writable(out)
        if not _arrays.is_form(memory, item.dtype, item.shape):
            raise InvalidArgument(
                f'out is {memory.dtype} {list(memory.shape)}, but "{name}" is '
                f"{item.dtype} {list(item.shape)}"
            )
        self._core.read_tensors([(name, memory.address, memory.nbytes)], threads)
        return put()

    def read_many(
        self, names: Sequence[str], *, kind: str = "numpy", threads: int = 0
    ) -> dict[str, Any]:
        """Many tensors in one pass, by name."""
        _arrays.check_kind(kind)
        arrays = {}
        for name in names:
            item = self._find("tensor", name)
            if item is None:
                raise self._missing("tensor", name)
            assert item.dtype is not None and item.shape is not None
            arrays[name] = _arrays.empty(item.dtype, item.shape, kind)
        self._fill(list(arrays.items()), threads)
        return arrays

    def _fill(self, arrays: list[tuple[str, Any]], threads: int = 0) -> None:
        reads = []
        for name, array in arrays:
            memory, _ = _arrays.writable(array)
            reads.append((name, memory.address, memory.nbytes))
        self._core.read_tensors(reads, threads)

    def _read_value(self, name: str) -> Any:
        data = self._read_object(name)
        forms = {
            i.name: (i.dtype or "", i.shape or ())
            for i in self.items()
            if i.kind == "tensor"
        }
        if data is None and not any(each.startswith(f"{name}.") for each in forms):
            raise self._missing("item", name)
        tensors, owners, finish = read_value(
            name, data, self._read_object, forms, self._allow_pickle
        )
        reads = []
        for tensor, dtype, shape, address, *_ in tensors:
            memory = _arrays.Memory(dtype, shape, address, owners)
            reads.append((tensor, address, memory.nbytes))
        self._core.read_tensors(reads, 0)
        return finish()

    def _read_object(self, name: str) -> bytes | None:
        if self._find("blob", f"extra/{name}") is None:
            return None
        data: bytes = self._core.read_blob(0, f"extra/{name}")
        return data

    def read_part(
        self,
        name: str,
        offset: Sequence[int],
        shape: Sequence[int],
        *,
        threads: int = 0,
    ) -> Any:
        """The part of a tensor with this shape at `offset`."""
        item = self._find("tensor", name)
        if item is None:
            raise self._missing("tensor", name)
        assert item.dtype is not None
        array = _arrays.empty(item.dtype, shape, "numpy")
        memory, _ = _arrays.writable(array)
        self._core.read_part(
            name, list(offset), list(shape), memory.address, memory.nbytes, threads
        )
        return array

    def read_tree(self, name: str, like: Any = None) -> Any:
        """An entry of the state with its tensors: nested dictionaries and lists. With
        `like`, a tree of the same structure, arrays are of its kinds, such as JAX's."""
        if like is None:
            return self.read(name)
        value = self.read(name)
        return _convert(value, like, name)

    def read_blob(self, name: str, rank: int = 0) -> bytes:
        """The bytes of a blob of one rank."""
        return self._core.read_blob(rank, name)

    def table(self, name: str) -> StepTable:
        """A table of the step. Raises NotFound."""
        item = self._find("table", name)
        if item is None:
            raise self._missing("table", name)
        return StepTable(self, item)

    def verify(self) -> None:
        """Reads and checks everything that the step needs. Raises DataLoss."""
        self._core.verify(0)

    def close(self) -> None:
        """Ends reading: the trainer may delete the step's data. Scans in
        progress continue."""
        self._core.close()

    def __repr__(self) -> str:
        return f"Step({self.record})"

    def _repr_html_(self) -> str:
        return self.items()._repr_html_()

    def __reduce__(self) -> Any:
        raise TypeError("a ckptdb.Step cannot be pickled; open it in the other process")


class ChangedTable:
    """The changes of a table between two steps: iterate over its batches."""

    def __init__(
        self, core: _core.Changes, name: str, slots: dict[str, tuple[str, int, str]]
    ) -> None:
        self._core = core
        self.name = name
        self.slots = slots

    def __iter__(self) -> Iterator[Batch]:
        return self.scan()

    def scan(
        self, slots: Sequence[str] | None = None, *, rows: int = 65536
    ) -> Iterator[Batch]:
        """New and changed rows, and erased ids, each once, in batches."""
        names = _chosen(self.name, self.slots, slots)
        core = self._core.scan(self.name, names, _rows(rows), 0)
        return _batches(core, {n: self.slots[n] for n in names})


class Changes(Closing):
    """What changed from one step to another, for a process that has the first."""

    def __init__(self, core: _core.Changes) -> None:
        self._core = core

    @property
    def forwards(self) -> bool:
        """Whether the later step was saved on top of the earlier one: then only the
        changes are read."""
        return self._core.forwards()

    @property
    def to(self) -> Step:
        """The step that the changes lead to."""
        return Step(self._core.to())

    def tensors(self) -> list[str]:
        """The names of tensors that are new or differ."""
        return list(dict.fromkeys(self._core.changed_tensors()))

    def table(self, name: str) -> ChangedTable:
        """The changes of a table. Raises NotFound."""
        return ChangedTable(self._core, name, dict(self.to.table(name).slots))

    def close(self) -> None:
        """Ends reading: the trainer may delete the data of the steps."""
        self._core.close()


class Reader(Closing):
    """A store open for reading, also while a trainer writes it.

        with ckptdb.Reader("ckpt") as reader, reader.latest() as step:
            weight = step.read("model.fc.weight")
            found, values = step.table("user").lookup(ids)

    It sees the store as of its last `refresh`, which `open` and `latest` call. It
    writes only leases, which keep the data of open steps, and posts. Any thread may
    call its methods. `options` are those of the store, such as leases="none".

    `path` may also be a URL, such as "s3://models/ctr", or another target of
    `ckptdb.remote`, to which steps were shipped. It then downloads the records of all
    steps, and data only as it is read, of which it caches 256 MiB. It has no leases, so
    reading a step that was collected there meanwhile raises Aborted; posts and pins
    raise FailedPrecondition. Raises NotFound if nothing was shipped, and the service's
    Unavailable and PermissionDenied.
    """

    def __init__(self, path: str | os.PathLike[str] | Target, **options: Any) -> None:
        self._allow_pickle = bool(options.pop("allow_pickle", False))
        self._kept: list[Any] = []
        self._core = _core.Reader(path_of(path, self._kept), options)

    def __repr__(self) -> str:
        return f"Reader({self.path!r})"

    @property
    def path(self) -> str:
        """The folder of the store, or the name of the object store."""
        return self._core.path()

    def refresh(self) -> None:
        """Catches up with the trainer."""
        self._core.refresh()

    def steps(self) -> Steps:
        """The committed steps in ascending order."""
        return Steps(StepRecord(**fields) for fields in self._core.steps())

    def find(self, step: int) -> StepRecord:
        """The record of a step. Raises NotFound."""
        return StepRecord(**self._core.find_step(as_step(step)))

    def open(self, step: int) -> Step:
        """Opens a step. Raises NotFound."""
        return Step(self._core.open_step(as_step(step)), self._allow_pickle)

    def latest(self) -> Step:
        """Opens the step saved last. Raises NotFound if the store has none."""
        self.refresh()
        return self.open(self._core.latest()["step"])

    def changes(self, first: int, last: int) -> Changes:
        """The changes from one step to another. Raises FailedPrecondition if a step
        between them was saved in full: then read `last` as a whole."""
        return Changes(self._core.open_changes(as_step(first), as_step(last)))

    def post_metrics(self, step: int, metrics: Mapping[str, float]) -> None:
        """Adds metrics to a step, which the trainer records with its next save."""
        self._core.post_metrics(as_step(step), dict(metrics))

    def request_pin(self, step: int) -> None:
        """Asks the trainer to keep a step."""
        self._core.request_pin(as_step(step), True)

    def request_unpin(self, step: int) -> None:
        """Asks the trainer to let its policies decide on a step again."""
        self._core.request_pin(as_step(step), False)

    @property
    def user_metadata(self) -> dict[str, str]:
        """The metadata of the store."""
        return self._core.user_metadata()

    def bad_files(self) -> list[str]:
        """Damaged or missing data files that were found when the store was opened."""
        return self._core.bad_files()

    def close(self) -> None:
        """Closes the reader; steps that are open stay so."""
        self._core.close()

    def __reduce__(self) -> Any:
        raise TypeError(
            "a ckptdb.Reader cannot be pickled; open one in the other process"
        )


def _address(array: Any) -> int:
    return int(array.__array_interface__["data"][0])


def _rows(rows: int) -> int:
    if rows < 1:
        raise InvalidArgument(f"rows is {rows}; expected at least 1")
    return rows


def _chosen(
    table: str, known: Mapping[str, Any], slots: Sequence[str] | None
) -> list[str]:
    if slots is None:
        return list(known)
    for slot in slots:
        if slot not in known:
            raise NotFound(
                f'table "{table}" has no slot "{slot}"; it has {list(known)}'
            )
    return list(slots)


def _batches(core: Any, slots: Mapping[str, tuple[str, int, str]]) -> Iterator[Batch]:
    np = _arrays.numpy()
    none = np.empty(0, np.int64)
    try:
        while (head := core.next()) is not None:
            erased, count = head
            ids = np.empty(count, np.int64)
            values = {
                name: np.empty(
                    (0 if erased else count, spec[1]), _arrays.numpy_dtype(spec[0])
                )
                for name, spec in slots.items()
            }
            filled = [] if erased else [_address(each) for each in values.values()]
            core.take([_address(ids), *filled])
            yield Batch(none, values, ids) if erased else Batch(ids, values, none)
    finally:
        core.close()


def _with_bar(batches: Iterator[Batch], rows: int) -> Iterator[Batch]:
    make = _progress.bar_class()
    if make is None:
        yield from batches
        return
    with make(total=rows, unit="rows", unit_scale=True) as bar:
        for batch in batches:
            yield batch
            bar.update(len(batch))


def _convert(value: Any, like: Any, name: str) -> Any:
    """The value with arrays of the kinds that `like` has in the same places."""
    if _arrays.is_array(like):
        if not _arrays.is_array(value):
            raise InvalidArgument(f'"{name}" is not an array in the step')
        return _arrays.as_kind(value, like)
    if isinstance(like, dict):
        keys = list(value) if isinstance(value, dict) else None
        _check_structure(name, keys, list(like))
        made = copy.copy(like)
        made.clear()
        made.update((k, _convert(value[k], e, f"{name}.{k}")) for k, e in like.items())
        return made
    if isinstance(like, (list, tuple)):
        count = len(value) if isinstance(value, (list, tuple)) else None
        _check_structure(name, count, len(like))
        parts = [
            _convert(v, e, f"{name}.{i}") for i, (v, e) in enumerate(zip(value, like))
        ]
        if hasattr(like, "_fields"):
            make: Any = type(like)
            return make._make(parts)
        return type(like)(parts)
    return value


def _check_structure(name: str, found: Any, wanted: Any) -> None:
    if isinstance(wanted, list):
        same = found is not None and set(found) == set(wanted)
    else:
        same = found == wanted
    if not same:
        has = "a leaf" if found is None else f"{found!r}"
        raise InvalidArgument(
            f'`like` has another structure than "{name}" in the step: {wanted!r} '
            f"where the step has {has}"
        )
