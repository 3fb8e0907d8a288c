# SPDX-License-Identifier: Apache-2.0
"""Folders of torch.distributed.checkpoint (DCP): whole tensors, and objects as bytes."""

from __future__ import annotations

import contextlib
import dataclasses
import io
import pathlib
import warnings
from collections.abc import Iterator
from typing import Any

import torch
import torch.distributed.checkpoint as dist_checkpoint
from torch.distributed.checkpoint._nested_dict import unflatten_state_dict
from torch.distributed.checkpoint.metadata import Metadata, TensorStorageMetadata
from torch.distributed.checkpoint.planner import SavePlan, WriteItem

from .. import _arrays
from .._errors import NotFound
from .._imported import as_damage, check_inside, check_links
from ._metadata import load_metadata
from ._torch_save import load_pickle


class _FlatLoad(dist_checkpoint.DefaultLoadPlanner):  # type: ignore[misc]
    """Loads all that a checkpoint contains: tensors whole, objects as their bytes."""

    def __init__(self) -> None:
        super().__init__(flatten_state_dict=False, flatten_sharded_tensors=False)

    def set_up_planner(
        self, state_dict: Any, metadata: Any = None, is_coordinator: bool = False
    ) -> None:
        for name, each in metadata.state_dict_metadata.items():
            if isinstance(each, TensorStorageMetadata):
                dtype = each.properties.dtype
                _arrays.torch_dtype_name(dtype, name)
                state_dict[name] = torch.empty(each.size, dtype=dtype)
            else:
                state_dict[name] = io.BytesIO()
        super().set_up_planner(state_dict, metadata, is_coordinator)

    def load_bytes(self, read_item: Any, value: Any) -> None:
        self.state_dict[read_item.dest_index.fqn] = value


class _FlatSave(dist_checkpoint.DefaultSavePlanner):  # type: ignore[misc]
    """Saves tensors, and objects that are bytes already."""

    def __init__(self, planner_data: Any) -> None:
        super().__init__(flatten_state_dict=False, flatten_sharded_tensors=False)
        self._planner_data = planner_data

    def create_global_plan(self, all_plans: list[SavePlan]) -> Any:
        plans, metadata = super().create_global_plan(all_plans)
        return plans, dataclasses.replace(metadata, planner_data=self._planner_data)

    def transform_object(self, write_item: WriteItem, object: Any) -> Any:
        return object


class FolderReader(dist_checkpoint.FileSystemReader):  # type: ignore[misc]
    """A folder of DCP whose metadata is read without executing it."""

    def __init__(self, path: pathlib.Path, allow_pickle: bool) -> None:
        super().__init__(path)
        self._allow_pickle = allow_pickle

    def read_metadata(self) -> Metadata:
        path = pathlib.Path(self.path) / ".metadata"
        if not path.is_file():
            raise NotFound(
                f'"{self.path}" is not a DCP checkpoint: .metadata is missing'
            )
        check_links(path.parent)
        with as_damage(path, "valid metadata of DCP"):
            metadata = load_metadata(path.read_bytes(), self._allow_pickle)
            for each in (metadata.storage_data or {}).values():
                check_inside(path.parent, each.relative_path)
        return metadata

    def read_data(self, plan: Any, planner: Any) -> Any:
        # One file at a time, so that an error names it.
        items: dict[str, list[Any]] = {}
        for each in plan.items:
            file = self.storage_data[each.storage_index].relative_path
            items.setdefault(file, []).append(each)
        done: Any = torch.futures.Future()
        done.set_result(None)
        for file, of_file in items.items():
            with as_damage(pathlib.Path(self.path) / file, "a valid file of DCP"):
                part = dataclasses.replace(plan, items=of_file)
                done = super().read_data(part, planner)
                done.wait()
        return done


@contextlib.contextmanager
def _alone() -> Iterator[None]:
    """Runs DCP in this process, and raises its errors as they are."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="torch.distributed is")
        try:
            yield
        except dist_checkpoint.CheckpointException as error:
            raise error.failures[0][0] from None


def read_flat(reader: Any) -> tuple[dict[str, Any], Any]:
    """(state, planner_data) of a checkpoint, with its names as keys."""
    metadata = reader.read_metadata()  # here, because DCP hides its error
    planner = _FlatLoad()
    with _alone():
        dist_checkpoint.load({}, storage_reader=reader, planner=planner, no_dist=True)
    return planner.state_dict, metadata.planner_data


def save_flat(
    state: dict[str, Any], planner_data: Any, writer: Any, step: int | None
) -> None:
    with _alone():
        dist_checkpoint.save(
            state,
            storage_writer=writer,
            checkpoint_id=step,
            planner=_FlatSave(planner_data),
            no_dist=True,
        )


def unflatten(flat: dict[str, Any], planner_data: Any, allow_pickle: bool) -> Any:
    state = {
        name: load_pickle(name, each, allow_pickle)
        if isinstance(each, io.BytesIO)
        else each
        for name, each in flat.items()
    }
    return unflatten_state_dict(state, planner_data) if planner_data else state


def export_folder(state: dict[str, Any], planner_data: Any, path: Any) -> None:
    writer = dist_checkpoint.FileSystemWriter(path)
    if planner_data is not None:
        save_flat(state, planner_data, writer, None)
        return
    with _alone():
        dist_checkpoint.save(state, storage_writer=writer, no_dist=True)
