# SPDX-License-Identifier: Apache-2.0
"""What `python -m ckptdb` does beyond the command `ckptdb`: tables as Parquet, by
pyarrow, checkpoints of Orbax and torch.distributed.checkpoint as steps, and scalars for
TensorBoard, by those packages. Everything else is the command's."""

from __future__ import annotations

import argparse
import fnmatch
import json
import os
import pathlib
import re
import shutil
import sys
from collections.abc import Iterator, Mapping
from typing import Any

from . import _core
from ._errors import AlreadyExists, DataLoss, InvalidArgument, NotFound
from ._exit_codes import FAILED, Parser, exit_code, step_number, text_of
from ._imported import as_damage, check_links, new_store
from ._output import output_folder, part_of, sync
from ._reader import Batch, Reader, Step
from ._save import Save
from ._tensorboard import to_tensorboard

_USAGE = """usage: python -m ckptdb COMMAND ...

Runs the command `ckptdb`, which must be installed, and in addition:

  export STEP [GLOB] --parquet DIR  writes tables as Parquet files; needs pyarrow
  import DIR --step N               saves a checkpoint of Orbax, or of
                                    torch.distributed.checkpoint, as a step
  tensorboard LOGDIR                writes the scalars of a store for TensorBoard

"python -m ckptdb export --parquet DIR --help", "python -m ckptdb import --help" and
"python -m ckptdb tensorboard --help" describe them."""


def main(arguments: list[str]) -> int:
    """Runs a command line, and returns its exit code."""
    try:
        if arguments[:1] == ["export"] and any(
            each.split("=")[0] == "--parquet" for each in arguments
        ):
            return _run_export(arguments[1:])
        if arguments[:1] == ["import"] and _is_folder_of_others(arguments[1:]):
            return _run_import(arguments[1:])
        if arguments[:1] == ["tensorboard"]:
            return _run_tensorboard(arguments[1:])
    except (Exception, KeyboardInterrupt) as error:
        print(f"ckptdb: {arguments[0]}: {text_of(error)}", file=sys.stderr)
        return exit_code(error)
    if arguments in ([], ["--help"], ["-h"]):
        print(_USAGE)
        return 0
    tool = shutil.which("ckptdb")
    if tool is None:
        print(
            "ckptdb: the command ckptdb is not installed; it is part of the package of "
            "the C++ library",
            file=sys.stderr,
        )
        return FAILED
    # In this process, so that signals reach the command and not its parent.
    os.execv(tool, [tool, *arguments])


class _Parser(Parser):
    """Shows examples as they are."""

    def __init__(self, command: str, description: str, *examples: str) -> None:
        super().__init__(
            prog=f"python -m ckptdb {command}",
            description=description,
            epilog="Examples:\n" + "\n".join(f"  {each}" for each in examples),
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        store = os.environ.get("CKPTDB_STORE")
        self.add_argument(
            "-s", "--store", default=store, required=store is None, metavar="DIR",
            help="folder of the store; default: CKPTDB_STORE",
        )  # fmt: skip
        self.add_argument("--force", action="store_true", help="replace what exists")
        self.add_argument("--json", action="store_true", help="print one JSON document")


def _step(text: str) -> int | None:
    """A step, or None for the latest."""
    return None if text == "latest" else step_number(text)


def _print(json_too: bool, document: dict[str, Any], *lines: str) -> int:
    print(json.dumps(document, indent=2) if json_too else "\n".join(lines))
    return 0


# Parquet.


def _run_export(arguments: list[str]) -> int:
    parser = _Parser(
        "export",
        "Writes the tables of a step as DIR/<table>.parquet.",
        "python -m ckptdb export latest --parquet out -s /checkpoints/ctr",
        "python -m ckptdb export 1000 'user*' --parquet out --since 900",
    )
    parser.add_argument("step", metavar="STEP", type=_step, help='a step, or "latest"')
    parser.add_argument("glob", metavar="GLOB", nargs="?", default="*")
    parser.add_argument("--parquet", metavar="DIR", required=True)
    parser.add_argument("--slots", metavar="a,b", help="only these slots")
    parser.add_argument(
        "--since", type=step_number, metavar="STEP",
        help="only rows that changed or were erased since that step",
    )  # fmt: skip
    args = parser.parse_intermixed_args(arguments)
    slots = _split(args.slots) if args.slots else None
    with Reader(args.store) as reader:
        with reader.latest() if args.step is None else reader.open(args.step) as step:
            number = step.record.step
            written = export_parquet(
                step, args.parquet, glob=args.glob, slots=slots, force=args.force,
                reader=reader, since=args.since,
            )  # fmt: skip
    files = [{"path": path, "rows": rows} for path, rows in written.items()]
    return _print(
        args.json,
        {"store": args.store, "step": number, "since": args.since, "files": files},
        *[f"{rows} rows: {path}" for path, rows in written.items()],
    )


def _split(names: str) -> list[str]:
    """Splits a list at its commas. A comma after a backslash is part of a name."""
    parts = re.findall(r"(?:\\[\\,]|[^,])+", names)
    return [re.sub(r"\\([\\,])", r"\1", each) for each in parts]


def _file_name(name: str) -> str:
    """The name of a table's file, as the command `ckptdb` makes it."""
    return re.sub(r"^\.|[\x00-\x1f\x7f/\\%]", lambda each: f"%{ord(each[0]):02X}", name)


def export_parquet(
    step: Step,
    folder: str | os.PathLike[str],
    *,
    glob: str = "*",
    slots: list[str] | None = None,
    force: bool = False,
    reader: Reader | None = None,
    since: int | None = None,
) -> dict[str, int]:
    """Writes each table as `<table>.parquet`, and returns the rows by path. Columns are
    `key`, int64, and the slots: a number, or a list of numbers; with `since`, `erased`
    too, with nulls in erased rows. bf16 and f8 become f32, which is exact."""
    import pyarrow.parquet as pq

    tables = [
        item.name
        for item in step.items()
        if item.kind == "table" and fnmatch.fnmatchcase(item.name, glob)
    ]
    if not tables:
        raise NotFound(f'step {step.record.step} has no table that matches "{glob}"')
    written: dict[str, int] = {}
    made: dict[pathlib.Path, pathlib.Path] = {}
    with output_folder(folder) as target:
        try:
            for name in tables:
                path = target / f"{_file_name(name)}.parquet"
                if path.exists() and not force:
                    raise AlreadyExists(f'"{path}" exists; pass --force to replace it')
                part = part_of(path)
                made[part] = path
                specs, batches = _rows(step, name, slots, reader, since)
                schema = _schema(specs, since is not None)
                rows = 0
                with pq.ParquetWriter(part, schema) as writer:
                    for batch in batches:
                        table = _arrow(batch, specs, schema)
                        rows += len(table)
                        writer.write_table(table)
                sync(part)
                written[str(path)] = rows
            for part, path in made.items():
                os.replace(part, path)
            sync(target)
        except BaseException:
            for part in made:
                part.unlink(missing_ok=True)
            raise
    return written


def _rows(
    step: Step,
    name: str,
    slots: list[str] | None,
    reader: Reader | None,
    since: int | None,
) -> tuple[dict[str, Any], Iterator[Batch]]:
    """The slots of a table that are read, and its rows."""
    table = step.table(name)
    names = list(table.slots) if slots is None else slots
    for clash in {"key", "erased"} & set(names):
        raise InvalidArgument(
            f'table "{name}" has a slot "{clash}", the name of another column; choose '
            "others by --slots"
        )
    specs = {each: table.slots[each] for each in names if each in table.slots}
    if len(specs) < len(names):
        missing = [each for each in names if each not in specs]
        raise NotFound(f'table "{name}" has no slot {", ".join(missing)}')
    if since is None:
        return specs, table.scan(names)
    if reader is None:
        raise InvalidArgument("since needs the reader of the step")
    changes = reader.changes(since, step.record.step)
    return specs, changes.table(name).scan(names)


_ARROW_TYPES = {
    "f64": "float64", "f32": "float32", "f16": "float16", "bf16": "float32",
    "f8e4m3": "float32", "f8e5m2": "float32", "i64": "int64", "i32": "int32",
    "i16": "int16", "i8": "int8", "u64": "uint64", "u32": "uint32", "u16": "uint16",
    "u8": "uint8", "bool": "bool_",
}  # fmt: skip


def _schema(specs: Mapping[str, Any], with_erased: bool) -> Any:
    import pyarrow as pa

    fields = [pa.field("key", pa.int64(), nullable=False)]
    for name, (dtype, elements, *_) in specs.items():
        element = getattr(pa, _ARROW_TYPES[dtype])()
        fields.append(pa.field(name, element if elements == 1 else pa.list_(element)))
    if with_erased:
        fields.append(pa.field("erased", pa.bool_(), nullable=False))
    return pa.schema(fields)


def _arrow(batch: Batch, specs: Mapping[str, Any], schema: Any) -> Any:
    """Rows, or erased ids, as a pyarrow.Table."""
    import numpy as np
    import pyarrow as pa

    count, erased = len(batch.ids), len(batch.erased)
    if erased:
        columns = [pa.array(batch.erased)]
        columns += [pa.nulls(erased, schema.field(name).type) for name in specs]
        return pa.table([*columns, pa.array(np.ones(erased, bool))], schema=schema)
    columns = [pa.array(batch.ids)]
    for name, (_, elements, *_) in specs.items():
        kind = schema.field(name).type
        element = kind if elements == 1 else kind.value_type
        flat = pa.array(batch[name].reshape(-1).astype(element.to_pandas_dtype()))
        if elements > 1:
            offsets = np.arange(0, count * elements + 1, elements, dtype=np.int32)
            flat = pa.ListArray.from_arrays(pa.array(offsets), flat)
        columns.append(flat)
    if "erased" in schema.names:
        columns.append(pa.array(np.zeros(count, bool)))
    return pa.table(columns, schema=schema)


# Checkpoints of Orbax and DCP.


def _kind_of(path: pathlib.Path) -> str | None:
    """ "dcp", "orbax", or None for files that the command `ckptdb` reads."""
    if (path / ".metadata").is_file():
        return "dcp"
    if (path / "_METADATA").is_file() or (path / "_CHECKPOINT_METADATA").is_file():
        return "orbax"
    return None


def _is_folder_of_others(arguments: list[str]) -> bool:
    folders = [each for each in arguments if os.path.isdir(each)]
    return "--help" in arguments or any(_kind_of(pathlib.Path(f)) for f in folders)


def _run_import(arguments: list[str]) -> int:
    parser = _Parser(
        "import",
        "Saves a checkpoint of Orbax or torch.distributed.checkpoint as a\n"
        "step. Other files are imported by the command ckptdb.",
        "python -m ckptdb import orbax/100/default --step 100 -s /checkpoints/new",
    )
    parser.add_argument("source", metavar="DIR")
    parser.add_argument("--step", type=step_number, required=True)
    args = parser.parse_args(arguments)
    source = pathlib.Path(args.source)
    if _kind_of(source) == "dcp":
        from .torch._files import import_checkpoint

        report = str(
            import_checkpoint(source, args.store, args.step, overwrite=args.force)
        )
    else:
        tensors = import_orbax(source, args.store, args.step, overwrite=args.force)
        report = f"{tensors} tensors"
    return _print(
        args.json,
        {"store": args.store, "step": args.step, "imported": report},
        f"imported as step {args.step}: {report}",
    )


def import_orbax(
    source: str | os.PathLike[str],
    store: str | os.PathLike[str],
    step: int,
    *,
    overwrite: bool = False,
) -> int:
    """Saves a checkpoint of Orbax as a step, and returns the number of its tensors.
    `Step.read_tree` returns each entry of the tree. Arrays are read whole into memory,
    whatever devices they were on."""
    path = pathlib.Path(source).resolve()
    check_links(path)
    state = _read_orbax(path)
    if not isinstance(state, dict):
        state = {"value": state}
    saved = Save(allow_pickle=False)
    saved.add_all(state)
    if not saved.tensors and not saved.objects:
        raise InvalidArgument(f'"{source}" has no entry: nothing to import')
    with new_store(os.fspath(store)):
        _save_step(saved, os.fspath(store), step, overwrite)
    return len(saved.tensors)


def _read_orbax(path: pathlib.Path) -> Any:
    """Reads a tree of NumPy arrays and numbers. Raises DataLoss if it is damaged."""
    import jax
    import numpy as np
    import orbax.checkpoint as ocp

    def of(leaf: Any) -> Any:
        is_array = hasattr(leaf, "shape") and "Scalar" not in type(leaf).__name__
        return ocp.RestoreArgs(restore_type=np.ndarray if is_array else None)

    checkpointer = ocp.PyTreeCheckpointer()
    with as_damage(path, "a valid checkpoint of Orbax"):
        metadata = checkpointer.metadata(path)
        item = getattr(metadata, "item_metadata", metadata)
        tree = getattr(item, "tree", item)
    if tree is None:
        for name in ("_METADATA", "manifest.ocdbt"):
            if (path / name).exists():  # Orbax logs the error
                raise DataLoss(
                    f'"{path}" is damaged: Orbax cannot read its metadata, of which '
                    f'"{name}" exists'
                )
        raise InvalidArgument(
            f'"{path}" is not a tree of arrays; name the folder of one item, such as '
            '"default"'
        )
    kinds = jax.tree.map(of, tree)
    with as_damage(path, "a valid checkpoint of Orbax"):
        return checkpointer.restore(
            path, args=ocp.args.PyTreeRestore(restore_args=kinds)
        )


def _save_step(saved: Save, path: str, step: int, overwrite: bool) -> None:
    owner = _core.Store(path, {})
    try:
        attempt, tickets = owner.begin(step, 1, overwrite)
        tensors = [
            (name, dtype, shape, whole, offset, address)
            for name, dtype, shape, address, whole, offset, *_ in saved.tensors
        ]
        blobs = [(f"extra/{name}", data) for name, data in saved.objects]
        try:
            staged = _core.stage(path, tickets[0], tensors, blobs, {})
            owner.publish(step, attempt, [staged], {}, [])
        except BaseException:
            owner.abandon(step, attempt)
            raise
    finally:
        owner.close()


# TensorBoard.


def _run_tensorboard(arguments: list[str]) -> int:
    parser = _Parser(
        "tensorboard",
        "Writes the metrics, sizes and durations of the steps as an event\n"
        "file in LOGDIR, by the package tensorboard.",
        "python -m ckptdb tensorboard runs -s /checkpoints/ctr",
    )
    parser.add_argument("logdir", metavar="LOGDIR")
    parser.add_argument(
        "--statistics", metavar="FILE",
        help="the manager's statistics_path: also removed steps, and stalls",
    )  # fmt: skip
    args = parser.parse_args(arguments)
    count = to_tensorboard(
        args.store, args.logdir, statistics=args.statistics, force=args.force
    )
    return _print(
        args.json,
        {"store": args.store, "folder": args.logdir, "scalars": count},
        f"{count} scalars: {args.logdir}",
    )
