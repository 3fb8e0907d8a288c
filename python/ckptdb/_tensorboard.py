# SPDX-License-Identifier: Apache-2.0
"""Scalars of a store for TensorBoard, written with TensorBoard's own writer."""

from __future__ import annotations

import datetime
import json
import os
import pathlib

from ._errors import AlreadyExists, NotFound, Unimplemented
from ._output import output_folder, part_of, sync
from ._reader import Reader

# TensorBoard recognizes files by the second part.
_NAME = "events.out.tfevents.0000000000.ckptdb"
_Points = dict[tuple[str, int], tuple[float, float]]  # time and value, by tag and step


def to_tensorboard(
    store: str | os.PathLike[str],
    logdir: str | os.PathLike[str],
    *,
    statistics: str | os.PathLike[str] | None = None,
    force: bool = False,
) -> int:
    """Writes the scalars of a store, which a trainer may have open, as one event file
    in `logdir`, and returns their number. Needs the package tensorboard.

    Each step has `metrics/<name>`, `store/rows`, `store/bytes`, `store/own_bytes`,
    `store/chain` and `store/save_seconds`. `statistics`, the file of the manager's
    `statistics_path`, adds saves whose steps were removed, and `save/<name>`: how long
    each save took and blocked the training, in seconds.

    Raises AlreadyExists if the folder has such a file, unless `force` is set."""
    try:
        from tensorboard.compat.proto.event_pb2 import Event
        from tensorboard.compat.proto.summary_pb2 import Summary
        from tensorboard.summary.writer.record_writer import RecordWriter
    except ImportError as error:
        raise Unimplemented(
            "the package tensorboard is not installed; run pip install tensorboard"
        ) from error
    with Reader(store) as reader:
        points = _step_points(reader)
    if statistics is not None:
        points = _save_points(pathlib.Path(statistics)) | points
    path = pathlib.Path(logdir, _NAME)
    if path.exists() and not force:
        raise AlreadyExists(f'"{path}" exists; replace it with force=True, or --force')
    part = part_of(path)
    with output_folder(logdir) as folder:
        try:
            with open(part, "wb") as file:
                writer = RecordWriter(file)
                writer.write(Event(file_version="brain.Event:2").SerializeToString())
                for (tag, step), (time, value) in sorted(points.items(), key=_time):
                    scalar = Summary.Value(tag=tag, simple_value=value)
                    event = Event(
                        wall_time=time, step=step, summary=Summary(value=[scalar])
                    )
                    writer.write(event.SerializeToString())
                file.flush()
                os.fsync(file.fileno())
            os.replace(part, path)
            sync(folder)
        finally:
            part.unlink(missing_ok=True)
    return len(points)


def _time(point: tuple[tuple[str, int], tuple[float, float]]) -> tuple[float, str]:
    (tag, _), (time, _) = point
    return time, tag


def _step_points(reader: Reader) -> _Points:
    points: _Points = {}
    for record in reader.steps():
        values: dict[str, float] = {
            "store/rows": record.rows,
            "store/bytes": record.bytes,
            "store/own_bytes": record.own_bytes,
            "store/chain": record.chain,
            "store/save_seconds": record.save_seconds,
        }
        values |= {f"metrics/{name}": value for name, value in record.metrics.items()}
        for tag, value in values.items():
            points[tag, record.step] = (record.committed, value)
    return points


def _save_points(path: pathlib.Path) -> _Points:
    """The saves in a manager's statistics. Skips lines that are not complete."""
    if not path.is_file():
        raise NotFound(f'the statistics file "{path}" does not exist')
    points: _Points = {}
    for line in path.read_text(errors="replace").splitlines():
        try:
            save = json.loads(line)
            if save["event"] != "save":
                continue
            time = datetime.datetime.fromisoformat(save["time"].replace("Z", "+00:00"))
            values = {f"metrics/{n}": float(v) for n, v in save["metrics"].items()}
            values |= {
                f"save/{name.removesuffix('_micros')}_seconds": value / 1e6
                for name, value in save.items()
                if name.endswith("_micros")
            }
            step = int(save["step"])
        except (ValueError, KeyError, TypeError, AttributeError):
            continue
        for tag, value in values.items():
            points[tag, step] = (time.timestamp(), value)
    return points
