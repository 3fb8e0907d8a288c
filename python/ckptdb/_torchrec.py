# SPDX-License-Identifier: Apache-2.0
"""All names of TorchRec that this package uses.

Tried with torchrec 1.8.0, fbgemm-gpu-cpu 1.8.0 and torch 2.13.0. Private, or not
described in TorchRec's documentation, are: ShardedTensor's module; the names that a
fused optimizer gives its states, "TABLE.STATE"; and of a delta tracker `store`,
`per_consumer_batch_idx`, `curr_batch_idx`, `feature_to_fqn` and `_delete_on_read`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import torch

from ._errors import InvalidArgument, Unimplemented
from ._tensor_memory import storage_of, storages_of


class Part(NamedTuple):
    """Adjacent rows of a table, or some columns of them, on one rank. `slots` is
    empty on other ranks."""

    rank: int
    first: int  # row
    rows: int
    column: int  # the first one
    columns: int
    slots: dict[str, Any]  # name -> tensor (rows,) or (rows, columns)


class Embeddings(NamedTuple):
    """An embedding table of a model. Each rank has all rows of a replicated one."""

    name: str
    rows: int
    columns: int
    replicated: bool
    parts: list[Part]  # ordered by row, then by column

    @property
    def divided(self) -> bool:
        """Whether a part lacks columns."""
        return any(part.columns < self.columns for part in self.parts)


def check_model(dmp: Any) -> None:
    from torchrec.distributed.model_parallel import (
        DistributedModelParallel,
        DMPCollection,
    )

    if not isinstance(dmp, DistributedModelParallel):
        raise InvalidArgument(
            f"the model is a {type(dmp).__name__}; expected a DistributedModelParallel "
            "of TorchRec"
        )
    if isinstance(dmp, DMPCollection):
        raise Unimplemented(
            "the model is a DMPCollection, which repeats sharded tables on groups of "
            "ranks; use a DistributedModelParallel"
        )


def embeddings_of(dmp: Any, rank: int) -> Iterator[Embeddings]:
    """The embedding tables of a DistributedModelParallel."""
    states = dmp.fused_optimizer.state_dict()["state"]
    replicated = set(_data_parallel(dmp))
    for key, value in dmp.state_dict().items():
        name = key.removesuffix(".weight")
        if key in replicated:
            rows, columns = value.shape
            part = Part(rank, 0, rows, 0, columns, {"weight": value})
            yield Embeddings(name, rows, columns, True, [part])
        elif _is_sharded(value):
            rows, columns = value.metadata().size
            yield Embeddings(
                name,
                rows,
                columns,
                False,
                _parts(name, value, states.get(key, {}), rank),
            )
        elif type(value).__name__ == "DTensor" and _in_plan(dmp, key):
            raise Unimplemented(
                f'table "{name}" is a DTensor; shard the model without output_dtensor'
            )


def dense_of(dmp: Any) -> dict[str, Any]:
    """The tensors of a model that are no embedding tables, by name."""
    tables = set(_data_parallel(dmp))
    return {
        key: value
        for key, value in dmp.state_dict().items()
        if key not in tables and not _is_sharded(value)
    }


def load_rest(dmp: Any, state: Mapping[str, Any]) -> None:
    """Loads the values of `dense_of` that are not parameters and buffers themselves."""
    in_place = storages_of(dmp)
    rest = {
        name: value
        for name, value in state.items()
        if not torch.is_tensor(value) or storage_of(value) not in in_place
    }
    if rest:
        dmp.load_state_dict(rest, strict=False)


def _keys(path: str, table: str) -> list[str]:
    prefix = f"{path}." if path else ""
    return [f"{prefix}{kind}.{table}.weight" for kind in _KINDS]


_KINDS = ("embedding_bags", "embeddings")  # of the two collections


def _planned(dmp: Any) -> Iterator[tuple[str, Any]]:
    for path, tables in dmp.plan.plan.items():
        for table, sharding in tables.items():
            for key in _keys(path, table):
                yield key, sharding


def _data_parallel(dmp: Any) -> Iterator[str]:
    for key, sharding in _planned(dmp):
        if sharding.sharding_type == "data_parallel":
            yield key


def _in_plan(dmp: Any, key: str) -> bool:
    return any(key == planned for planned, _ in _planned(dmp))


def _is_sharded(value: Any) -> bool:
    from torch.distributed._shard.sharded_tensor import ShardedTensor

    return isinstance(value, ShardedTensor)


def _parts(name: str, weight: Any, states: dict[str, Any], rank: int) -> list[Part]:
    local = {
        tuple(shard.metadata.shard_offsets): shard.tensor
        for shard in weight.local_shards()
    }
    parts = []
    for shard in weight.metadata().shards_metadata:
        owner = shard.placement.rank()
        first, column = shard.shard_offsets
        slots = {"weight": local[first, column]} if owner == rank else {}
        parts.append(Part(owner, first, shard.shard_sizes[0], column,
                          shard.shard_sizes[1], slots))  # fmt: skip
    for full_name, state in states.items():
        _add_state(name, full_name.rpartition(".")[2], state, parts, rank)
    return sorted(parts, key=lambda part: (part.first, part.column))


def _add_state(name: str, slot: str, state: Any, parts: list[Part], rank: int) -> None:
    shards = {tuple(s.metadata.shard_offsets): s.tensor for s in state.local_shards()}
    divided = len({part.column for part in parts}) > 1
    at = 0
    for part in sorted(parts, key=lambda part: part.column):
        # With one value per row, the values of the column shards are concatenated.
        one = (at if divided else part.first,)
        value = shards.get(one, shards.get((part.first, part.column)))
        at += part.rows
        if part.rank != rank:
            continue
        shapes = [(part.rows,), (part.rows, part.columns)]
        if value is None or tuple(value.shape) not in shapes:
            raise Unimplemented(
                f'the optimizer state "{slot}" of table "{name}" does not have '
                "values for each row; expected shape (rows,) or (rows, columns), as "
                "with SGD, Adagrad and rowwise Adagrad"
            )
        part.slots[slot] = value


def tracks(tracker: Any, table: str) -> bool:
    """Whether a delta tracker records all lookups of a table: it omits those of
    `fqns_to_skip`, and of features that two tables have."""
    features = tracker.fqn_to_feature_names().get(table)
    return features is not None and all(
        tracker.feature_to_fqn.get(feature) == table for feature in features
    )


def check_tracker(tracker: Any, consumer: str | None) -> str:
    """The consumer's name. Raises for one that the tracker does not have."""
    from torchrec.distributed.model_tracker.model_delta_tracker import (
        ModelDeltaTrackerTrec,
    )

    if not isinstance(tracker, ModelDeltaTrackerTrec):
        raise InvalidArgument(
            f"the delta tracker is a {type(tracker).__name__}; expected the result of "
            "dmp.init_torchrec_delta_tracker(DeltaTrackerConfig())"
        )
    consumer = consumer or tracker.DEFAULT_CONSUMER
    if consumer not in tracker.per_consumer_batch_idx:
        raise InvalidArgument(
            f'the delta tracker has no consumer "{consumer}"; it has '
            f"{list(tracker.per_consumer_batch_idx)}"
        )
    return consumer


def take_lookups(tracker: Any, consumer: str) -> dict[str, list[Any]]:
    """The local ids that were looked up since the last call, by table: tensors, in
    which ids may repeat.

    The tracker's own get_unique_ids fails if a table had no lookup meanwhile, and
    forgets lookups unless `step` was called between them and the last read."""
    end = tracker.curr_batch_idx + 1
    start = tracker.per_consumer_batch_idx[consumer]
    found = {
        table: [lookup.ids for lookup in lookups]
        for table, lookups in tracker.store.get_indexed_lookups(start, end).items()
    }
    tracker.per_consumer_batch_idx[consumer] = end
    if tracker._delete_on_read:
        tracker.store.delete(up_to_idx=min(tracker.per_consumer_batch_idx.values()))
    tracker.step()
    return found
