# SPDX-License-Identifier: Apache-2.0
"""Sparse tables: rows kept by ckptdb, or in the trainer's own arrays."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from . import _arrays, _core
from ._errors import InvalidArgument, NotFound

SlotSpec = tuple[Any, ...]
_SHARDINGS = ("slices", "modulo", "replicated")
_Bytes = Callable[[bytes, int], bytes]


def _slot(name: str, spec: Any) -> tuple[str, str, int, str]:
    if isinstance(spec, str):
        spec = (spec, 1)
    if not isinstance(spec, (tuple, list)) or not 2 <= len(spec) <= 3:
        raise InvalidArgument(
            f'slot "{name}" is {spec!r}; expected (dtype, elements) or '
            '(dtype, elements, codec), such as ("f32", 64)'
        )
    dtype, elements = spec[0], spec[1]
    if dtype not in _arrays.DTYPE_BYTES:
        raise InvalidArgument(
            f'slot "{name}" has dtype {dtype!r}; the dtypes are '
            f"{', '.join(_arrays.DTYPE_BYTES)}"
        )
    if not isinstance(elements, int) or not 1 <= elements < 1 << 32:
        raise InvalidArgument(
            f'slot "{name}" has {elements!r} elements; expected at least 1'
        )
    return name, dtype, elements, spec[2] if len(spec) == 3 else "none"


def _ranges(ranges: Any) -> int | list[int]:
    """Ranges of ids: the number of rows, or bounds."""
    try:
        if not isinstance(ranges, Iterable):
            return _int64(ranges)
        bounds = [_int64(bound) for bound in ranges]
    except (TypeError, OverflowError):
        bounds = []
    if bounds:
        return bounds
    raise InvalidArgument(
        f"the ranges of the sharding are {ranges!r}; expected the number of rows, or "
        "the bounds of all ranks, 64-bit integers"
    )


def _int64(value: Any) -> int:
    number = operator.index(value)
    if not -(1 << 63) <= number < 1 << 63:
        raise OverflowError
    return number


def as_sharding(sharding: Any) -> str | int | list[int] | tuple[str, _Bytes] | None:
    """A sharding as the extension takes it."""
    if sharding is None or (isinstance(sharding, str) and sharding in _SHARDINGS):
        return sharding
    if isinstance(sharding, (tuple, list)) and len(sharding) == 2:
        kind, ranges = sharding
        if kind == "range" and not isinstance(ranges, (str, bytes)):
            return _ranges(ranges)
    if (
        not isinstance(sharding, (tuple, list))
        or len(sharding) != 3
        or sharding[0] != "function"
        or not isinstance(sharding[1], str)
        or not callable(sharding[2])
    ):
        raise InvalidArgument(
            f"the sharding is {sharding!r}; expected {', '.join(_SHARDINGS)}, or a tuple "
            '("function", name, f), ("range", rows) or ("range", bounds)'
        )
    _, name, function = sharding

    def ranks_of(ids: bytes, world_size: int) -> bytes:
        np = _arrays.numpy()
        array = np.frombuffer(ids, np.int64)
        ranks = np.asarray(function(array, world_size))
        if ranks.shape != array.shape or ranks.dtype.kind not in "iu":
            raise InvalidArgument(
                f'the function of sharding "{name}" returned {ranks.dtype} '
                f"{list(ranks.shape)}; expected integers {list(array.shape)}"
            )
        # Negative and huge ranks become one that no world has.
        most = np.iinfo(np.uint32).max
        valid = (ranks >= 0) & (ranks <= most)
        packed: bytes = np.where(valid, ranks, most).astype(np.uint32).tobytes()
        return packed

    return name, ranks_of


class Sharded:
    """A base class of tables, whose rows may be divided among ranks."""

    def __init__(self, sharding: Any, slice_hash: str) -> None:
        self._sharding = as_sharding(sharding)
        self._slice_hash = slice_hash

    def ranks_of(self, ids: Any, world_size: int) -> Any:
        """The rank that has each of these ids, (n,) int64, among so many ranks, by
        the table's `sharding`."""
        if self._sharding in (None, "replicated"):
            raise InvalidArgument(
                f"the table's sharding is {self._sharding!r}, which gives ids no rank; "
                'make the table with "slices", "modulo", ranges or a function'
            )
        if not 1 <= world_size < 1 << 31:
            raise InvalidArgument(f"the world size is {world_size}; expected 1 or more")
        memory = _arrays.int64s(ids, "ids")
        kind = "torch" if _arrays.is_torch(ids) else "numpy"
        ranks = _arrays.empty("i64", memory.shape, kind)
        target, _ = _arrays.writable(ranks)
        _core.ranks_of(
            self._sharding,
            self._slice_hash,
            memory.address,
            memory.shape[0],
            world_size,
            target.address,
        )
        return ranks


class Slot:
    """The values of one slot of a `Table`: `slot[rows]` copies the values of rows
    into an array of shape (len(rows), elements), and `slot.put(rows, values)` copies
    them back and marks the rows as changed."""

    def __init__(self, table: Table, name: str, dtype: str, elements: int) -> None:
        self._table = table
        self.name = name
        self.dtype = dtype
        self.elements = elements

    def __repr__(self) -> str:
        return f'Slot("{self.name}", {self.dtype} x {self.elements})'

    def __getitem__(self, rows: Any) -> Any:
        """The values of these rows: a tensor for row numbers in a tensor, otherwise
        a NumPy array. Raises OutOfRange for a number that is not a row."""
        numbers = _arrays.int64s(rows, "row numbers")
        kind = "torch" if _arrays.is_torch(rows) else "numpy"
        values = _arrays.empty(self.dtype, (numbers.shape[0], self.elements), kind)
        memory, _ = _arrays.writable(values)
        self._table._core.gather(
            self.name, numbers.address, numbers.shape[0], memory.address
        )
        return values

    def put(self, rows: Any, values: Any) -> None:
        """Copies values into these rows, and marks the rows. `values` has shape
        (len(rows), elements), or (len(rows),) for slots of one element, and the
        slot's dtype. If a row occurs twice, the last values count."""
        numbers = _arrays.int64s(rows, "row numbers")
        memory = _arrays.readable(
            values if _arrays.is_array(values) else _as_array(values, self.dtype)
        )
        count = numbers.shape[0]
        shapes: list[tuple[int, ...]] = [(count, self.elements)]
        if self.elements == 1:
            shapes.append((count,))
        if not any(_arrays.is_form(memory, self.dtype, shape) for shape in shapes):
            raise InvalidArgument(
                f'values for slot "{self.name}" are {memory.dtype} '
                f"{list(memory.shape)}; expected {self.dtype} {list(shapes[0])}"
            )
        self._table._core.put(self.name, numbers.address, count, memory.address)


def _as_array(values: Any, dtype: str) -> Any:
    """Python numbers as an array, or as a tensor if NumPy lacks the dtype."""
    np = _arrays.numpy()
    found = np.asarray(values)
    kinds = "biuf" if dtype[0] in "fb" and dtype != "bool" else "biu"
    if found.size > 0 and found.dtype.kind not in kinds:
        raise InvalidArgument(
            f"values are of dtype {found.dtype}, which {dtype} cannot represent; "
            f"convert them"
        )
    wanted = _arrays.numpy_dtype(dtype)
    if wanted.kind == "u" and dtype[0] != "u":  # bits, without ml_dtypes
        try:
            import torch
        except ImportError:
            raise InvalidArgument(
                f"numbers of Python as {dtype} need the package ml_dtypes; install it, "
                f"or give an array of the bits, {wanted}"
            ) from None
        return torch.from_numpy(found.astype(np.float64)).to(_arrays.torch_dtype(dtype))
    try:
        return np.asarray(values, dtype=wanted)
    except (OverflowError, ValueError, TypeError) as error:
        raise InvalidArgument(f"values as {dtype}: {error}") from None


class Table(Sharded):
    """A table that grows and shrinks: an index from 64-bit ids to rows, and an
    array for each slot.

        users = ckptdb.Table({"embedding": ("f32", 64), "adagrad": ("f32", 64)})
        rows = users.insert(ids)            # row numbers; new rows are zero
        values = users["embedding"][rows]   # (len(ids), 64)
        users["embedding"].put(rows, values - 0.1 * gradients)

    `slots` maps names to (dtype, elements) or (dtype, elements, codec), where the
    lossy codecs "bf16" and "int8" are for f32. `optimizer_slots` are those that
    inference does not need. With several ranks, `sharding` says which rank has which
    ids: "slices", which restores read fastest, "modulo" (id % ranks), "replicated",
    ("range", rows) for even parts of ids 0 to rows - 1, ("range", bounds) for ids
    bounds[r] to below bounds[r + 1] on rank r, or ("function", name, f), where
    f(ids, world_size) takes and returns arrays, ids (n,) int64 and ranks (n,). Row
    numbers stay valid until the row is erased or the table is restored.

    Calls that change rows may run beside calls that read them, from several
    threads; each waits for the other, and for a save that copies the table.
    """

    def __init__(
        self,
        slots: Mapping[str, Any],
        *,
        sharding: Any = None,
        slice_hash: str = "modulo",
        optimizer_slots: Sequence[str] = (),
        tracker_bytes: int = 1 << 30,
        threads: int = 4,
    ) -> None:
        super().__init__(sharding, slice_hash)
        specs = [_slot(name, spec) for name, spec in slots.items()]
        self._core = _core.Table(
            specs, slice_hash, list(optimizer_slots), tracker_bytes, threads
        )
        self.slots: dict[str, Slot] = {
            name: Slot(self, name, dtype, elements)
            for name, dtype, elements, _ in specs
        }

    def __repr__(self) -> str:
        slots = ", ".join(
            f"{s.name}: {s.dtype} x {s.elements}" for s in self.slots.values()
        )
        return f"Table({len(self):,} rows; {slots})"

    def __reduce__(self) -> Any:
        raise TypeError("a ckptdb.Table cannot be pickled; a manager saves it")

    def __len__(self) -> int:
        return self._core.size()

    def __getitem__(self, slot: str) -> Slot:
        try:
            return self.slots[slot]
        except KeyError:
            raise KeyError(
                f'the table has no slot "{slot}"; it has {list(self.slots)}'
            ) from None

    def _rows_for(self, ids: Any, call: Any) -> Any:
        memory = _arrays.int64s(ids, "ids")
        kind = "torch" if _arrays.is_torch(ids) else "numpy"
        rows = _arrays.empty("i64", memory.shape, kind)
        target, _ = _arrays.writable(rows)
        call(memory.address, memory.shape[0], target.address)
        return rows

    def insert(self, ids: Any) -> Any:
        """The row numbers of ids, (n,) int64; rows that are missing are added, with
        zeros. Marks all of them as changed: use `find` for rows that a batch only
        reads."""
        return self._rows_for(ids, self._core.insert)

    def find(self, ids: Any) -> Any:
        """The row numbers of ids, (n,) int64, and -1 where an id has no row."""
        return self._rows_for(ids, self._core.find)

    def erase(self, ids: Any) -> int:
        """Erases rows. Returns how many of the ids had one."""
        memory = _arrays.int64s(ids, "ids")
        return self._core.erase(memory.address, memory.shape[0])

    def mark(self, ids: Any) -> None:
        """Marks ids as changed, for rows whose values were changed in another way
        than by `put`. Raises NotFound for an id without a row."""
        memory = _arrays.int64s(ids, "ids")
        rows = self.find(ids)
        if memory.shape[0] > 0 and int(rows.min()) < 0:
            missing = [int(i) for i, row in zip(ids, rows.tolist()) if row < 0]
            raise NotFound(f"the table has no row of id {missing[0]}; insert it first")
        self._core.mark(memory.address, memory.shape[0])

    def clear(self) -> None:
        """Erases all rows."""
        self._core.clear()

    def rows(self) -> tuple[Any, Any]:
        """All ids and their row numbers, two arrays (n,) of int64, ordered by row
        number."""
        while True:
            count = len(self)
            ids = _arrays.empty("i64", (count,), "numpy")
            rows = _arrays.empty("i64", (count,), "numpy")
            found = self._core.rows(
                _arrays.writable(ids)[0].address,
                _arrays.writable(rows)[0].address,
                count,
            )
            if found <= count:  # none was added by another thread meanwhile
                return ids[:found], rows[:found]


class ArrayTable(Sharded):
    """A table over arrays or tensors of the trainer, whose ids are the row numbers,
    counted from `first_id`.

        items = ckptdb.ArrayTable({"embedding": weight, "adagrad": state_sum})
        items.mark(ids_of_the_batch)        # changed rows, before the next save

    `slots` maps names to arrays in the host whose first dimension is the number of
    rows, the same for all; rows may have gaps between them. An array that was
    replaced by one of the same form is set with `table["embedding"] = array`;
    tensors whose memory moves (`p.data = ...`) are found anew at each save.

    A rank that has adjacent rows of a larger table gives their first one as
    `first_id`, with `sharding=("range", ...)`. Rows may be on other ranks in the next
    run: a restore reads those of the arrays, and raises OutOfRange for a row that the
    sharding gives this rank but the arrays lack.
    """

    def __init__(
        self,
        slots: Mapping[str, Any],
        *,
        codecs: Mapping[str, str] | None = None,
        sharding: Any = None,
        slice_hash: str = "modulo",
        optimizer_slots: Sequence[str] = (),
        threads: int = 4,
        first_id: int = 0,
    ) -> None:
        super().__init__(sharding, slice_hash)
        self.first_id = first_id
        self._arrays = dict(slots)
        self._codecs = dict(codecs or {})
        if not self._arrays:
            raise InvalidArgument("the table has no slots")
        unknown = [name for name in self._codecs if name not in self._arrays]
        if unknown:
            raise InvalidArgument(
                f"codecs names {unknown}; the slots are {list(self._arrays)}"
            )
        arrays = self._describe()
        rows = {len(array) for array in self._arrays.values()}
        if len(rows) != 1:
            raise InvalidArgument(
                f"the arrays have {sorted(rows)} rows; expected the same number"
            )
        self.rows = rows.pop()
        self._specs = [slot for slot, _, _ in arrays]
        self._core = _core.ArrayTable(
            self.rows, first_id, arrays, slice_hash, list(optimizer_slots), threads
        )

    def __repr__(self) -> str:
        first = f" from {self.first_id:,}" if self.first_id else ""
        return f"ArrayTable({self.rows:,} rows{first}; {', '.join(self._arrays)})"

    def __reduce__(self) -> Any:
        raise TypeError("a ckptdb.ArrayTable cannot be pickled; a manager saves it")

    def __len__(self) -> int:
        return self.rows

    def __getitem__(self, slot: str) -> Any:
        return self._arrays[slot]

    def __setitem__(self, slot: str, array: Any) -> None:
        if slot not in self._arrays:
            raise KeyError(
                f'the table has no slot "{slot}"; it has {list(self._arrays)}'
            )
        old = self._arrays[slot]
        self._arrays[slot] = array
        try:
            self._update()
        except Exception:
            self._arrays[slot] = old
            raise

    def mark(self, ids: Any) -> None:
        """Marks rows as changed. Raises OutOfRange for an id that is not a row."""
        memory = _arrays.int64s(ids, "ids")
        self._core.mark(memory.address, memory.shape[0])

    def _update(self) -> None:
        """Takes the addresses that the arrays have now."""
        arrays = self._describe()
        for name, array in self._arrays.items():
            if len(array) != self.rows:
                raise InvalidArgument(
                    f'slot "{name}" has shape {list(array.shape)}; the table has '
                    f"{self.rows} rows"
                )
        for (slot, _, _), expected in zip(arrays, self._specs):
            if slot != expected:
                raise InvalidArgument(
                    f'slot "{slot[0]}" has rows of {slot[1]} x {slot[2]}; the table '
                    f"was made with {expected[1]} x {expected[2]}"
                )
        self._core.set_arrays(arrays)

    def _describe(self) -> list[Any]:
        return [
            _describe(name, array, self._codecs.get(name, "none"))
            for name, array in self._arrays.items()
        ]


def _describe(name: str, array: Any, codec: str) -> Any:
    """(slot, address, bytes from row to row) of an array used in place."""
    if _arrays.is_torch(array):
        if array.device.type != "cpu":
            raise InvalidArgument(
                f'slot "{name}" is on {array.device}; an ArrayTable needs tensors '
                "in the host: copy the slot there before each save, or adapt the table "
                "by a CustomTable, whose rows_of(ids) may return rows on a GPU"
            )
        if array.is_neg():
            raise InvalidArgument(
                f'slot "{name}" is a negated view; use its resolve_neg()'
            )
        dtype = _arrays.torch_dtype_name(array.dtype)
        width = _arrays.DTYPE_BYTES[dtype]
        strides = [stride * width for stride in array.stride()]
        address = array.data_ptr()
    elif _arrays.is_numpy(array):
        if not array.flags.writeable:
            raise InvalidArgument(f'slot "{name}" is a read-only array')
        if not array.dtype.isnative:
            raise InvalidArgument(
                f'slot "{name}" has dtype {array.dtype.str} of the other byte order'
            )
        dtype = _arrays.numpy_dtype_name(array.dtype)
        width = _arrays.DTYPE_BYTES[dtype]
        strides = list(array.strides)
        address = array.__array_interface__["data"][0]
    else:
        raise InvalidArgument(
            f'slot "{name}" has type {type(array).__name__}; expected a NumPy array '
            "or a tensor of PyTorch"
        )
    if array.ndim == 0:
        raise InvalidArgument(f'slot "{name}" is a scalar; its rows are missing')
    elements = 1
    for size, stride in zip(reversed(array.shape[1:]), reversed(strides[1:])):
        if size > 1 and stride != elements * width and array.shape[0] > 0:
            raise InvalidArgument(
                f'the values of a row of slot "{name}" are not adjacent'
            )
        elements *= size
    row_bytes = elements * width
    stride = strides[0] if array.shape[0] > 1 else row_bytes
    if stride < row_bytes:
        raise InvalidArgument(
            f'the rows of slot "{name}" overlap or are in reverse: their stride is '
            f"{stride} bytes, a row has {row_bytes}"
        )
    return (name, dtype, elements, codec), address, stride
