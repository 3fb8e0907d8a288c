# SPDX-License-Identifier: Apache-2.0
"""Records and reports."""

from __future__ import annotations

import dataclasses
import html
import time
from typing import Any

from ._core import SaveResult


def _bytes(count: float) -> str:
    for unit in ("B", "KiB", "MiB", "GiB"):
        if count < 1024 or unit == "GiB":
            return f"{count:,.0f} {unit}" if unit == "B" else f"{count:,.1f} {unit}"
        count /= 1024
    return ""


def _table(headers: list[str], rows: list[list[str]]) -> str:
    """An HTML table, for notebooks."""
    head = "".join(f"<th>{html.escape(each)}</th>" for each in headers)
    body = "".join(
        "<tr>" + "".join(f"<td>{html.escape(each)}</td>" for each in row) + "</tr>"
        for row in rows
    )
    return f"<table><tr>{head}</tr>{body}</table>"


@dataclasses.dataclass(frozen=True)
class StepRecord:
    """A committed step. `committed` is in seconds since 1970, UTC; `chain` the
    number of saves that it is restored from; `own_bytes` the bytes that its save
    has written, of `bytes` in all."""

    step: int
    attempt: int
    committed: float
    kind: str
    chain: int
    ephemeral: bool
    pinned: bool
    quarantined: bool
    metrics: dict[str, float]
    user_metadata: dict[str, str]
    parent: int | None
    world_size: int
    items: int
    rows: int
    bytes: int
    own_bytes: int
    save_seconds: float

    def __str__(self) -> str:
        when = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(self.committed))
        flags = "".join(
            f", {name}"
            for name in ("ephemeral", "pinned", "quarantined")
            if getattr(self, name)
        )
        return (
            f"step {self.step}: {self.kind}, {self.rows:,} rows, "
            f"{_bytes(self.bytes)}, committed {when} UTC{flags}"
        )


class Steps(list[StepRecord]):
    """Steps in ascending order, shown as a table in notebooks."""

    def __str__(self) -> str:
        return "\n".join(str(record) for record in self)

    def _repr_html_(self) -> str:
        return _table(
            ["step", "kind", "rows", "bytes", "metrics"],
            [
                [
                    str(r.step),
                    r.kind,
                    f"{r.rows:,}",
                    _bytes(r.bytes),
                    ", ".join(f"{k}={v:g}" for k, v in r.metrics.items()),
                ]
                for r in self
            ],
        )


@dataclasses.dataclass(frozen=True)
class Item:
    """A whole tensor or table of a step, or a blob of one rank. `slots` maps the
    slots of a table to (dtype, elements, codec). If `exact` is false, `rows` is an
    upper bound."""

    kind: str
    name: str
    dtype: str | None = None
    shape: tuple[int, ...] | None = None
    bytes: int = 0
    stored_bytes: int = 0
    rows: int = 0
    exact: bool = True
    slots: dict[str, tuple[str, int, str]] = dataclasses.field(default_factory=dict)
    sharding: str = ""
    rank: int | None = None

    @classmethod
    def _of(cls, fields: dict[str, Any]) -> Item:
        if "slots" in fields:
            fields["slots"] = {slot[0]: tuple(slot[1:]) for slot in fields["slots"]}
        return cls(**fields)

    def __str__(self) -> str:
        if self.kind == "tensor":
            return f"{self.name}: {self.dtype} {list(self.shape or ())}"
        if self.kind == "table":
            slots = ", ".join(f"{n} {s[0]} x {s[1]}" for n, s in self.slots.items())
            about = "" if self.exact else "at most "
            return f"{self.name}: {about}{self.rows:,} rows of {slots}"
        return f"{self.name}: {_bytes(self.bytes)}, rank {self.rank}"


class Items(list[Item]):
    """The items of a step, shown as a table in notebooks."""

    def __str__(self) -> str:
        return "\n".join(str(item) for item in self)

    def _repr_html_(self) -> str:
        rows = [[i.kind, i.name, str(i).removeprefix(f"{i.name}: ")] for i in self]
        return _table(["kind", "name", "content"], rows)


@dataclasses.dataclass(frozen=True)
class ShipperStatistics:
    """`waiting` are committed steps that were not shipped when the shipper last looked
    at the store, the oldest for `lag` seconds; `failures` the attempts that failed since
    the last success, with `last_error`."""

    waiting: list[int]
    shipped_steps: int
    shipped_bytes: int
    newest_shipped: int | None
    lag: float
    failures: int
    last_error: str | None


@dataclasses.dataclass(frozen=True)
class ShipReport:
    """The argument of `on_shipped`: the shipped `steps` in commit order, the first of
    which was committed `lag` seconds earlier, and the uploaded data."""

    steps: list[int]
    data_files: int
    data_bytes: int
    lag: float


@dataclasses.dataclass(frozen=True)
class SaveReport:
    """The report of a save, for `on_saved`. `error` is None if it was committed.
    The training waited `blocking_seconds`, of these `wait_seconds` for the save
    before it. `shipping` is the progress of the option `ship` when the save ended."""

    step: int
    save_kind: str
    reason: str
    error: str | None
    result: SaveResult | None
    metrics: dict[str, float]
    retired_steps: list[int]
    copied_bytes: int
    wait_seconds: float
    blocking_seconds: float
    stage_seconds: float
    total_seconds: float
    shipping: ShipperStatistics | None = None

    @classmethod
    def _of(cls, fields: dict[str, Any]) -> SaveReport:
        if fields["shipping"] is not None:
            fields["shipping"] = ShipperStatistics(**fields["shipping"])
        return cls(**fields)


@dataclasses.dataclass(frozen=True)
class LoadedItem:
    """The outcome of a restore or load for one registered item, whose name in the
    step is `source`."""

    category: str
    name: str
    source: str
    loaded: bool
    missing: bool
    detail: str
    bytes: int
    rows: int


@dataclasses.dataclass(frozen=True)
class LoadedRule:
    """The outcome of one rule of a load. `unexpected` are items of the step that are
    not registered, `unmatched` notes about patterns that match nothing."""

    path: str
    step: int | None
    items: list[LoadedItem]
    unexpected: list[str]
    unmatched: list[str]
    note: str

    @classmethod
    def _of(cls, fields: dict[str, Any]) -> LoadedRule:
        fields["items"] = [LoadedItem(**item) for item in fields["items"]]
        return cls(**fields)


@dataclasses.dataclass(frozen=True)
class RestoreReport:
    """The report of a restore: `fresh` if `restore_or_start` found no step.
    `incremental` if tables were updated from the changes since the step in memory."""

    fresh: bool
    step: int | None
    store: str
    record: StepRecord | None
    loaded: LoadedRule
    damaged_steps: list[int]
    incremental: bool
    loaded_bytes: int
    loaded_rows: int
    total_seconds: float
    text: str

    def __str__(self) -> str:
        return self.text

    @classmethod
    def _of(cls, fields: dict[str, Any]) -> RestoreReport:
        if fields["record"] is not None:
            fields["record"] = StepRecord(**fields["record"])
        fields["loaded"] = LoadedRule._of(fields["loaded"])
        return cls(**fields)
