# SPDX-License-Identifier: Apache-2.0
"""Tables whose rows are wherever the trainer has them."""

from __future__ import annotations

import abc
import weakref
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from . import _arrays, _core, _evolve
from ._errors import FailedPrecondition, InvalidArgument
from ._tables import Sharded, _slot

Block = tuple[Any, Mapping[str, Any]]


class CustomTable(Sharded, abc.ABC):
    """A base class for tables of other libraries.

        class Hashed(ckptdb.CustomTable):
            def __init__(self):
                super().__init__({"embedding": ("f32", 4)})
                self.rows = {}
            def all_rows(self):
                yield from self.rows_of(list(self.rows))
            def rows_of(self, ids):
                if len(ids):
                    yield ids, {"embedding": np.stack([self.rows[i] for i in ids])}
            def restore_rows(self, ids, values):
                self.rows.update(zip(ids.tolist(), values["embedding"].copy()))
            def erase_rows(self, ids):
                for i in ids.tolist():
                    self.rows.pop(i, None)
            def clear_rows(self):
                self.rows.clear()

    The methods work on whole blocks: ids (n,) int64, and by slot values of shape
    (n, elements). The library calls them on any thread, one call at a time. Call
    `mark` and `mark_erased` for each change, or with `tracked=False` make every save
    of the table full.

    If ranks have different elements of a row, `columns` lists those of this rank:
    (slot, first, elements). Then blocks have values by (slot, first), and `rows_of`
    leaves out rows that this rank does not have. Whole rows are saved, by the rank
    that `sharding` names, and each rank with columns restores all whole rows.
    """

    def __init__(
        self,
        slots: Mapping[str, Any],
        *,
        sharding: Any = None,
        slice_hash: str = "modulo",
        optimizer_slots: Sequence[str] = (),
        tracker_bytes: int = 1 << 30,
        tracked: bool = True,
        columns: Sequence[tuple[str, int, int]] | None = None,
    ) -> None:
        super().__init__(sharding, slice_hash)
        specs = [_slot(name, spec) for name, spec in slots.items()]
        self.slots = {spec[0]: (spec[1], spec[2]) for spec in specs}
        self._fields = _fields(self.slots, columns)
        places = None
        if columns is not None:
            names = list(self.slots)
            places = [(names.index(name), a, b) for name, a, b in columns]
        self._core = _core.CustomTable(
            specs,
            places,
            _Functions(weakref.ref(self)),
            slice_hash,
            list(optimizer_slots),
            tracker_bytes,
            tracked,
        )

    @abc.abstractmethod
    def all_rows(self) -> Iterable[Block]:
        """All rows: blocks of (ids, {slot: values}), each id once."""

    @abc.abstractmethod
    def rows_of(self, ids: Any) -> Iterable[Block]:
        """The rows of these ids, which were marked as changed, all of them."""

    @abc.abstractmethod
    def restore_rows(self, ids: Any, values: dict[str, Any]) -> None:
        """Sets rows. The arrays are valid during the call: copy them."""

    @abc.abstractmethod
    def erase_rows(self, ids: Any) -> None:
        """Erases rows, not all of which need to exist."""

    @abc.abstractmethod
    def clear_rows(self) -> None:
        """Erases all rows, before a restore."""

    def mark_changes(self) -> None:
        """Marks the changes that are not marked yet: it is called before each save,
        and after a restore. By default does nothing."""

    def _mark_lacking(self) -> None:
        """Marks rows that are missing from the restored step. Tables whose rows all
        come from the step have none."""

    def converts(self, slot: str, dtype: str, elements: int) -> bool:
        """Whether `convert` takes this form of a slot in a step, which is not that of
        the table. By default False."""
        return False

    def convert(self, slot: str, values: Any) -> Any:
        """The values of a slot in a step, (n, elements), in the table's form."""
        raise NotImplementedError

    def mark(self, ids: Any) -> None:
        """Marks ids as changed, after their values were."""
        memory = _arrays.int64s(ids, "ids")
        self._core.mark(memory.address, memory.shape[0], False)

    def mark_erased(self, ids: Any) -> None:
        """Marks ids as erased."""
        memory = _arrays.int64s(ids, "ids")
        self._core.mark(memory.address, memory.shape[0], True)

    def __reduce__(self) -> Any:
        raise TypeError("a ckptdb.CustomTable cannot be pickled; a manager saves it")


class _Functions:
    """The functions that the extension calls. They refer to the table weakly, because
    the table owns them."""

    def __init__(self, table: weakref.ref[CustomTable]) -> None:
        self._table = table

    def _get(self) -> CustomTable:
        table = self._table()
        if table is None:
            raise FailedPrecondition("the table no longer exists")
        return table

    def all_rows(self) -> tuple[list[Any], list[Any]]:
        return self._blocks(self._get().all_rows())

    def rows_of(self, ids: bytes) -> tuple[list[Any], list[Any]]:
        return self._blocks(self._get().rows_of(_ids(ids)))

    def restore(self, ids: bytes, values: dict[str, bytes]) -> None:
        table = self._get()
        np = _arrays.numpy()
        arrays = {}
        for name, data in values.items():
            dtype, elements = table.slots[name]
            flat = np.frombuffer(data, _arrays.numpy_dtype(dtype))
            arrays[name] = flat.reshape(-1, elements)
        table.restore_rows(_ids(ids), arrays)

    def erase(self, ids: bytes) -> None:
        self._get().erase_rows(_ids(ids))

    def clear(self) -> None:
        self._get().clear_rows()

    def mark_changes(self) -> None:
        self._get().mark_changes()

    def converter(self, slot: str, dtype: str, elements: int) -> Any:
        table = self._get()
        if slot not in table.slots or not table.converts(slot, dtype, elements):
            return None
        return _evolve.converting(
            lambda ids, values: self._get().convert(slot, values),
            *table.slots[slot],
            f'the conversion of slot "{slot}"',
        )

    def _blocks(self, blocks: Iterable[Block]) -> tuple[list[Any], list[Any]]:
        table = self._get()
        described, owners = [], []
        for ids, values in blocks:
            keys = _arrays.int64s(ids, "ids")
            owners.append(keys.owner)
            slots = []
            for key, name, dtype, elements in table._fields:
                if key not in values:
                    raise InvalidArgument(f'a block of rows lacks the slot "{name}"')
                memory = _arrays.readable(values[key])
                count = keys.shape[0]
                shapes = [(count, elements)] + ([(count,)] if elements == 1 else [])
                if memory.dtype != dtype or tuple(memory.shape) not in shapes:
                    raise InvalidArgument(
                        f'a block of slot "{name}" is {memory.dtype} '
                        f"{list(memory.shape)}; expected {dtype} {list(shapes[0])}"
                    )
                owners.append(memory.owner)
                stride = elements * _arrays.DTYPE_BYTES[dtype]
                slots.append((memory.address, stride))
            described.append((keys.shape[0], keys.address, slots))
        return described, owners


def _fields(
    slots: Mapping[str, tuple[str, int]],
    columns: Sequence[tuple[str, int, int]] | None,
) -> list[tuple[Any, str, str, int]]:
    """The values of a block: key, slot, dtype, elements."""
    if columns is None:
        return [(name, name, *spec) for name, spec in slots.items()]
    fields: list[tuple[Any, str, str, int]] = []
    for column in columns:
        name, first, elements = column
        if name not in slots or not 0 <= first < first + elements <= slots[name][1]:
            raise InvalidArgument(
                f"columns has {column!r}; expected (slot, first, elements) within "
                f"the slots {dict(slots)}"
            )
        fields.append(((name, first), name, slots[name][0], elements))
    return fields


def _ids(data: bytes) -> Any:
    np = _arrays.numpy()
    return np.frombuffer(data, np.int64)
