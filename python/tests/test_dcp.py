# SPDX-License-Identifier: Apache-2.0
"""The storage of torch.distributed.checkpoint, in one process."""

from __future__ import annotations

import concurrent.futures
import dataclasses
import pathlib
import pickle
import warnings

import pytest

torch = pytest.importorskip("torch")

import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.default_planner import (
    DefaultLoadPlanner,
    DefaultSavePlanner,
)
from torch.distributed.checkpoint.metadata import ChunkStorageMetadata, MetadataIndex
from torch.distributed.checkpoint.planner import WriteItemType
from torch.distributed.checkpoint.state_dict_loader import _load_state_dict_from_keys

import ckptdb
from ckptdb import _core
from ckptdb.torch.dcp import StorageReader, StorageWriter, expected_bytes

pytestmark = pytest.mark.filterwarnings("ignore:torch.distributed is")

DTYPES = [
    torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.float8_e4m3fn,
    torch.float8_e5m2, torch.int64, torch.int32, torch.int16, torch.int8,
    torch.uint64, torch.uint32, torch.uint16, torch.uint8, torch.bool,
]  # fmt: skip


def save(state, path, step=None, planner=None, **options):
    return dcp.save(
        state,
        storage_writer=StorageWriter(path, **options),
        checkpoint_id=step,
        planner=planner,
    )


def load(state, path, step=None, planner=None, **options):
    reader = StorageReader(path, step, **options)
    dcp.load(state, storage_reader=reader, planner=planner)
    return state


def cause(caught) -> BaseException:
    ((rank, (error, _)),) = caught.value.failures.items()
    assert rank == 0
    return error


def steps(path):
    with ckptdb.Reader(path) as reader:
        return [record.step for record in reader.steps()]


def bits(tensor):
    return tensor.detach().contiguous().reshape(-1).view(torch.uint8)


def make_state(seed=0):
    torch.manual_seed(seed)
    return {
        "model": {"fc.weight": torch.randn(3, 4), "fc.bias": torch.randn(3)},
        "optimizer": {
            "state": {0: {"exp_avg": torch.randn(3, 4), "step": torch.tensor(7.0)}},
            "param_groups": [{"lr": 0.1, "params": [0]}],
        },
        "epoch": 3,
        "name": "run",
        "list": [torch.arange(3), {"a": torch.ones(2)}],
    }


def zeros_like(state):
    if isinstance(state, torch.Tensor):
        return torch.zeros_like(state)
    if isinstance(state, dict):
        return {key: zeros_like(each) for key, each in state.items()}
    if isinstance(state, list):
        return [zeros_like(each) for each in state]
    return type(state)()


def assert_equal(a, b):
    assert type(a) is type(b)
    if isinstance(a, torch.Tensor):
        assert (
            a.dtype == b.dtype and a.shape == b.shape and torch.equal(bits(a), bits(b))
        )
    elif isinstance(a, dict):
        assert list(a) == list(b)
        for key in a:
            assert_equal(a[key], b[key])
    elif isinstance(a, list):
        assert len(a) == len(b)
        for x, y in zip(a, b):
            assert_equal(x, y)
    else:
        assert a == b


def test_a_nested_state_is_restored_and_read_by_name(path):
    state = make_state()
    metadata = save(state, path, 1000)
    assert metadata.storage_meta.checkpoint_id == 1000
    assert StorageReader(path).read_metadata().storage_meta.checkpoint_id == 1000
    assert_equal(load(zeros_like(state), path), state)
    assert_equal(load(zeros_like(state), path, 1000), state)
    with ckptdb.Reader(path) as reader, reader.latest() as step:
        assert step.record.step == 1000
        weight = step.read("model.fc.weight", kind="torch")
        assert_equal(weight, state["model"]["fc.weight"])
        names = {
            item.name: item.shape for item in step.items() if item.kind == "tensor"
        }
        assert names["optimizer.state.0.exp_avg"] == (3, 4)
        assert names["list.0"] == (3,)
        assert torch.load(_file(step.read_blob("epoch"))) == 3
        step.verify()


def _file(data):
    import io

    return io.BytesIO(data)


def test_an_object_is_named_as_such_to_a_reader(path):
    save({"epoch": 3, "weight": torch.ones(2)}, path)
    with ckptdb.Reader(path) as reader, reader.latest() as step:
        with pytest.raises(ckptdb.NotFound, match='"epoch" of step 1 is a blob.*dcp'):
            step.read("epoch")
        with pytest.raises(ckptdb.NotFound, match='no item "epok"; did you mean'):
            step.read("epok")


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_each_dtype_is_restored_bit_for_bit(path, dtype):
    whole = torch.arange(0, 96, dtype=torch.uint8).view(dtype)
    if dtype == torch.bool:
        whole = torch.arange(96) % 3 == 0
    state = {"whole": whole, "view": whole.reshape(2, -1).t(), "scalar": whole[1].clone(),
             "empty": whole[:0].reshape(0, 3)}  # fmt: skip
    save(state, path, 1)
    loaded = {name: torch.zeros_like(each) for name, each in state.items()}
    assert_equal(load(loaded, path), state)


@pytest.mark.parametrize("dtype", [torch.complex64, torch.float8_e4m3fnuz], ids=str)
def test_other_dtypes_are_refused_by_name(path, dtype):
    with pytest.raises(dcp.CheckpointException) as caught:
        save({"fine": torch.ones(2), "odd": torch.zeros(2).to(dtype)}, path, 1)
    error = cause(caught)
    assert isinstance(error, ckptdb.InvalidArgument)
    assert '"odd"' in str(error) and str(dtype) in str(error)
    assert steps(path) == []


def test_a_load_converts_dtypes_and_fills_views(path):
    save({"x": torch.arange(12, dtype=torch.float32).reshape(3, 4)}, path, 1)
    buffer = torch.zeros(4, 3, dtype=torch.bfloat16)
    load({"x": buffer.t()}, path)
    assert buffer.t().tolist() == torch.arange(12.0).reshape(3, 4).tolist()
    parameter = torch.nn.Parameter(torch.zeros(3, 4))
    load({"x": parameter}, path)
    assert parameter[2, 3] == 11


def test_ids_are_steps(path):
    assert save({"x": torch.tensor(1)}, path).storage_meta.checkpoint_id == path
    save({"x": torch.tensor(20)}, path, "20")
    save({"x": torch.tensor(10)}, path, 10)
    save({"x": torch.tensor(21)}, path)
    writer = StorageWriter(path)
    for step in (30, None, 40):
        dcp.save(
            {"x": torch.tensor(step or 31)}, storage_writer=writer, checkpoint_id=step
        )
        assert writer.saved_step == (step or 31)
    assert steps(path) == [1, 10, 20, 21, 30, 31, 40]
    reader = StorageReader(path)
    for step in (10, "20", 31):
        state = {"x": torch.tensor(0)}
        dcp.load(state, storage_reader=reader, checkpoint_id=step)
        assert state["x"] == int(step)
    reader.reset()
    with pytest.raises(ckptdb.InvalidArgument, match='"latest"; expected the number'):
        save({}, path, "latest")
    for good in (3, "3", pathlib.Path("a"), "a/b"):
        assert StorageWriter.validate_checkpoint_id(good)
        assert StorageReader.validate_checkpoint_id(good)
    for bad in ("latest", "", "s3://bucket/a", None, 1.5):
        assert not StorageWriter.validate_checkpoint_id(bad)
        assert not StorageReader.validate_checkpoint_id(bad)
    for wrong in (-1, 10**19, str(10**19)):
        with pytest.raises(ckptdb.InvalidArgument, match=r"to 2\*\*63 - 1"):
            save({"x": torch.tensor(1)}, path, wrong)
        with pytest.raises(ckptdb.InvalidArgument, match=r"to 2\*\*63 - 1"):
            StorageReader(path).reset(wrong)
    with pytest.raises(ckptdb.InvalidArgument, match='"kep"; did you mean "keep"'):
        StorageWriter(path, kep=3)
    with pytest.raises(ckptdb.InvalidArgument, match='"stp"; did you mean "step"'):
        StorageReader(path, stp=3)
    for call in (
        lambda: save({"x": torch.tensor(1)}, path, 1.5),
        lambda: StorageReader(path).reset(1.5),
    ):
        with pytest.raises(
            ckptdb.InvalidArgument, match=r"checkpoint_id is 1\.5; expec"
        ):
            call()


def test_a_path_as_id_names_another_store(path, tmp_path):
    writer, reader = StorageWriter(path), StorageReader(path)
    other = tmp_path / "other"
    dcp.save({"x": torch.tensor(5)}, storage_writer=writer, checkpoint_id=other)
    assert steps(str(other)) == [1]
    state = {"x": torch.tensor(0)}
    dcp.load(state, storage_reader=reader, checkpoint_id=str(other))
    assert state["x"] == 5


def test_a_missing_step_is_named(path):
    save({"x": torch.tensor(1)}, path, 7)
    with pytest.raises(dcp.CheckpointException, match="step 8"):
        load({"x": torch.tensor(1)}, path, 8)
    with pytest.raises(ckptdb.NotFound, match="step 8"):
        StorageReader(path, 8).read_metadata()


def test_overwrite(path):
    save({"x": torch.tensor(1)}, path, 7)
    save({"x": torch.tensor(2)}, path, 7)
    assert load({"x": torch.tensor(0)}, path, 7)["x"] == 2
    with pytest.raises(dcp.CheckpointException) as caught:
        save({"x": torch.tensor(3)}, path, 7, overwrite=False)
    assert isinstance(cause(caught), ckptdb.AlreadyExists)
    assert "already exists: step 7" in str(cause(caught)) and "overwrite" in str(
        cause(caught)
    )
    assert load({"x": torch.tensor(0)}, path, 7)["x"] == 2


def test_keep_removes_lower_steps_but_not_pinned_ones(path):
    for step in (1, 2, 3):
        save({"x": torch.tensor(step)}, path, step)
    with ckptdb.Manager(path, {}, save=ckptdb.save_at_steps([])) as manager:
        manager.pin(1)
    save({"x": torch.tensor(4)}, path, 4, keep=2)
    assert steps(path) == [1, 3, 4]
    save({"x": torch.tensor(2)}, path, 2, keep=1)  # the new one stays
    assert steps(path) == [1, 2, 4]
    with pytest.raises(ckptdb.InvalidArgument, match="keep is 0"):
        StorageWriter(path, keep=0)


def test_unchanged_tensors_are_not_written_again(path):
    state = {"big": torch.randn(1 << 18), "step": torch.tensor(1)}
    save(state, path, 1)
    state["step"] += 1
    save(state, path, 2)
    with ckptdb.Reader(path) as reader:
        first, second = reader.steps()
    assert first.own_bytes > 1 << 20
    assert second.own_bytes < 1 << 14
    save(state, path, 3, keep=1)
    assert torch.equal(load(zeros_like(state), path)["big"], state["big"])


def test_partial_loads(path):
    state = make_state()
    save(state, path, 1)
    part = load({"model": zeros_like(state["model"])}, path)
    assert_equal(part["model"], state["model"])
    with pytest.raises(dcp.CheckpointException, match="Missing key.*: new"):
        load({"new": torch.ones(1)}, path)
    planner = DefaultLoadPlanner(allow_partial_load=True)
    mixed = load({"new": torch.ones(1), "epoch": 0}, path, planner=planner)
    assert mixed["epoch"] == 3 and mixed["new"] == 1


def test_reads_without_a_model(path):
    state = make_state()
    save(state, path, 1)
    whole = _load_state_dict_from_keys(storage_reader=StorageReader(path))
    expected = {**state, "optimizer": {**state["optimizer"]}}
    expected["optimizer"]["state"] = {"0": state["optimizer"]["state"][0]}
    assert_equal(whole, expected)
    part = _load_state_dict_from_keys({"model"}, storage_reader=StorageReader(path))
    assert_equal(part, {"model": state["model"]})
    metadata = StorageReader(path).read_metadata()
    assert metadata.state_dict_metadata["model.fc.weight"].size == (3, 4)


class Chunks(DefaultSavePlanner):
    """Saves each tensor in parts of two rows and two columns."""

    def create_local_plan(self):
        plan = super().create_local_plan()
        items = []
        for item in plan.items:
            data = item.tensor_data
            for y in range(0, data.size[0], 2):
                for x in range(0, data.size[1], 2):
                    offset = torch.Size([y, x])
                    sizes = torch.Size(
                        [min(2, data.size[0] - y), min(2, data.size[1] - x)]
                    )
                    items.append(
                        dataclasses.replace(
                            item,
                            index=MetadataIndex(item.index.fqn, offset),
                            type=WriteItemType.SHARD,
                            tensor_data=dataclasses.replace(
                                data, chunk=ChunkStorageMetadata(offset, sizes)
                            ),
                        )
                    )
        return dataclasses.replace(plan, items=items)

    def lookup_object(self, index):
        y, x = index.offset
        return self.state_dict[index.fqn][y : y + 2, x : x + 2]


def test_several_chunks_of_a_tensor(path):
    state = {"x": torch.arange(15.0).reshape(3, 5)}
    save(state, path, 1, planner=Chunks())
    assert_equal(load(zeros_like(state), path), state)
    with ckptdb.Reader(path) as reader, reader.latest() as step:
        assert step.record.world_size == 1
        assert {i.name for i in step.items() if i.kind == "tensor"} == {"x"}
        assert torch.equal(step.read("x", kind="torch"), state["x"])
        step.verify()


def test_steps_of_older_versions_are_loaded(path):
    """With the metadata on an extra rank, and chunks as separate tensors."""
    whole = torch.arange(15.0).reshape(3, 5)
    planner = Chunks()
    planner.set_up_planner({"x": whole}, is_coordinator=True)
    (plan,), metadata = planner.create_global_plan([planner.create_local_plan()])
    parts = [planner.resolve_data(item).contiguous() for item in plan.items]
    names = [f"x@{list(item.index.offset)}" for item in plan.items]
    metadata.storage_data = {
        item.index: (0, name) for item, name in zip(plan.items, names)
    }
    tensors = [
        (name, "f32", list(part.shape), [], [], part.data_ptr())
        for name, part in zip(names, parts)
    ]
    store = _core.Store(path, {})
    number, tickets = store.begin(1, 2, False)
    blob = ("dcp.metadata", pickle.dumps(metadata))
    staged = [
        _core.stage(path, tickets[0], tensors, [], {}),
        _core.stage(path, tickets[1], [], [blob], {}),
    ]
    store.publish(1, number, staged, {}, [])
    store.close()
    assert_equal(load({"x": torch.zeros(3, 5)}, path), {"x": whole})


@pytest.mark.parametrize("why", ["size", "name"])
def test_metadata_that_needs_an_extra_rank(path, why, monkeypatch):
    state = {"x": torch.arange(3.0), "y": 7}
    if why == "size":
        monkeypatch.setattr(_core, "MAX_PUBLISHED_BYTES", 100)
    else:
        state["dcp.metadata"] = "mine"
    save(state, path, 1)
    assert_equal(load(zeros_like(state), path), state)
    with ckptdb.Reader(path) as reader, reader.latest() as step:
        assert step.record.world_size == 2


def test_metadata_stays_within_the_size_expected_of_it():
    names = [f"layers.{i}.attention.query.weight" for i in range(1000)]
    planner = DefaultSavePlanner()
    state = {"model": {name: torch.zeros(2, 2, 2, 2) for name in names}}
    planner.set_up_planner(state, is_coordinator=True)
    plans = pickle.loads(pickle.dumps([planner.create_local_plan()]))
    _, metadata = planner.create_global_plan(plans)
    metadata.storage_data = {
        item.index: (0, item.index.fqn) for plan in plans for item in plan.items
    }
    assert len(pickle.dumps(metadata)) < expected_bytes(plans)


def test_a_planner_that_caches_its_plans(path):
    caches = [
        value
        for name, value in vars(dcp.SavePlanner).items()
        if name.startswith("_cached") and isinstance(value, dict)
    ]
    assert caches
    try:
        for step in (1, 2, 3):
            state = {"x": torch.tensor([step]), "y": torch.zeros(4)}
            planner = DefaultSavePlanner(enable_plan_caching=True)
            save(state, path, step, planner=planner)
    finally:
        for cache in caches:
            cache.clear()
    for step in (1, 2, 3):
        state = {"x": torch.tensor([0]), "y": torch.ones(4)}
        assert load(state, path, step)["x"] == step


class Failing(DefaultSavePlanner):
    def resolve_data(self, write_item):
        raise ValueError("no data today")


def test_a_save_that_fails_leaves_nothing(path):
    save({"x": torch.tensor(1)}, path, 1)
    writer = StorageWriter(path)
    with pytest.raises(dcp.CheckpointException) as caught:
        dcp.save(
            {"x": torch.tensor(2)},
            storage_writer=writer,
            checkpoint_id=2,
            planner=Failing(),
        )
    assert isinstance(cause(caught), ValueError)
    assert steps(path) == [1]
    with ckptdb.Manager(path, {}, save=ckptdb.save_at_steps([])) as manager:
        assert len(manager.steps()) == 1  # the store is free
    dcp.save({"x": torch.tensor(2)}, storage_writer=writer, checkpoint_id=2)
    assert load({"x": torch.tensor(0)}, path)["x"] == 2


def test_an_attempt_that_nobody_finishes_ends_with_the_next_save(path):
    """As after an error of another rank, of which DCP tells the writer nothing."""
    writer = StorageWriter(path)
    planner = DefaultSavePlanner()

    def begin(writer):
        planner.set_up_planner({"x": torch.tensor(1)}, is_coordinator=True)
        writer.set_up_storage_writer(True, rank=0, use_collectives=True)
        plans, metadata = planner.create_global_plan([planner.create_local_plan()])
        return writer.prepare_global_plan(plans), metadata

    plans, _ = begin(writer)
    writer.write_data(plans[0], planner)
    plans, metadata = begin(writer)
    results = writer.write_data(plans[0], planner).value()
    writer.finish(metadata, [results])
    assert steps(path) == [1]
    begin(writer)
    writer.close()
    with pytest.raises(ckptdb.FailedPrecondition, match="has begun no save"):
        writer.finish(metadata, [results])
    plans, metadata = begin(writer)
    results = writer.write_data(plans[0], planner).value()
    save({"x": torch.tensor(1)}, path)  # of another writer
    assert steps(path) == [1, 2]
    with pytest.raises(ckptdb.FailedPrecondition, match="or another save since"):
        writer.finish(metadata, [results])
    writer.reset()
    begin(writer)
    with pytest.raises(dcp.CheckpointException) as caught:  # beside a save that runs
        with concurrent.futures.ThreadPoolExecutor() as pool:
            pool.submit(save, {"x": torch.tensor(1)}, path).result()
    assert isinstance(cause(caught), ckptdb.Unavailable)


def test_a_store_has_one_owner(path):
    with ckptdb.Manager(
        path, {"x": torch.ones(2)}, save=ckptdb.save_every_n_steps(1)
    ) as m:
        m.start_training()
        m.step()
        m.wait_until_finished()
        with pytest.raises(dcp.CheckpointException) as caught:
            save({"x": torch.tensor(1)}, path, 2)
        error = cause(caught)
        assert isinstance(error, ckptdb.Unavailable) and error.holder
        assert "a store has one owner: close that ckptdb.Manager" in str(error)
        copied = pickle.loads(pickle.dumps(error))
        assert str(copied) == str(error) and copied.holder == error.holder
        # A reader reads beside it, also what a manager has saved.
        assert load({"x": torch.zeros(2)}, path)["x"].tolist() == [1, 1]


def test_damaged_bytes_are_data_loss(path):
    state = {"big": torch.randn(1 << 18), "small": torch.tensor(1)}
    save(state, path, 1)
    files = [file for file in pathlib.Path(path).rglob("*") if file.is_file()]
    data = max(
        files, key=lambda file: file.stat().st_size if file.name != "SPARE" else 0
    )
    content = bytearray(data.read_bytes())
    content[len(content) // 2] ^= 1
    data.write_bytes(content)
    with pytest.raises(dcp.CheckpointException) as caught:
        load(zeros_like(state), path)
    error = cause(caught)
    assert isinstance(error, ckptdb.DataLoss) and "big" in str(error)
    assert load({"small": torch.tensor(0)}, path)["small"] == 1


def test_writers_and_readers_are_pickled(path):
    writer = pickle.loads(pickle.dumps(StorageWriter(path, keep=2, stage_threads=2)))
    dcp.save({"x": torch.tensor(1)}, storage_writer=writer, checkpoint_id=5)
    reader = StorageReader(path)
    reader.read_metadata()  # holds a step
    reader = pickle.loads(pickle.dumps(reader))
    state = {"x": torch.tensor(0)}
    dcp.load(state, storage_reader=reader)
    assert state["x"] == 1
    with pytest.raises(ckptdb.InvalidArgument, match='no option "threads"'):
        StorageWriter(path, threads=2)
    with pytest.raises(ckptdb.InvalidArgument, match='no option "threads"'):
        StorageReader(path, threads=2)


class Custom:
    pass


class OwnData(DefaultSavePlanner):
    def create_global_plan(self, all_plans):
        plans, metadata = super().create_global_plan(all_plans)
        return plans, dataclasses.replace(metadata, planner_data={"x": Custom()})


def test_classes_in_the_metadata_need_allow_pickle(path):
    save({"x": torch.tensor(4)}, path, 1, planner=OwnData())
    with pytest.raises(
        ckptdb.FailedPrecondition, match=r"test_dcp\.Custom.*allow_pickle"
    ):
        StorageReader(path).read_metadata()
    assert load({"x": torch.tensor(0)}, path, allow_pickle=True)["x"] == 4


def test_a_state_without_items(path):
    save({}, path, 1)
    load({}, path)
    assert steps(path) == [1]


def test_names_that_the_store_cannot_have(path):
    for name in ("a" * 600, ""):
        with pytest.raises(dcp.CheckpointException) as caught:
            save({name: torch.ones(1)}, path, 1)
        assert isinstance(cause(caught), ckptdb.InvalidArgument)


def test_the_old_names_of_save_and_load(path):
    state = make_state()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        dcp.save_state_dict(state["model"], StorageWriter(path), no_dist=True)
        loaded = zeros_like(state["model"])
        dcp.load_state_dict(loaded, StorageReader(path), no_dist=True)
    assert_equal(loaded, state["model"])
