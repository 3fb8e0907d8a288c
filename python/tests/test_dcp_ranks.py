# SPDX-License-Identifier: Apache-2.0
"""The storage of torch.distributed.checkpoint on several ranks, which are processes."""

from __future__ import annotations

import pathlib
import signal
import subprocess
import sys
import textwrap

import pytest

torch = pytest.importorskip("torch")
if not torch.distributed.is_available():
    pytest.skip("torch.distributed is not available", allow_module_level=True)

import torch.distributed.checkpoint as dcp

import ckptdb
from ckptdb.torch.dcp import StorageReader, StorageWriter

pytestmark = pytest.mark.filterwarnings("ignore:torch.distributed is")

HEAD = """
import datetime, os, pickle, signal, sys, time, warnings
import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.state_dict_saver import AsyncCheckpointerType
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor
import ckptdb
from ckptdb.torch.dcp import StorageReader, StorageWriter

torch.set_num_threads(1)

def main():
    rank, world, folder, path = int(sys.argv[1]), int(sys.argv[2]), *sys.argv[3:5]
    dist.init_process_group(
        "gloo", init_method=f"file://{folder}/init", rank=rank, world_size=world,
        timeout=datetime.timedelta(seconds=120))
    mesh = init_device_mesh("cpu", (world,))
    body(rank, world, folder, path, mesh)
    dist.barrier()
    dist.destroy_process_group()

def body(rank, world, folder, path, mesh):
"""
TAIL = """
if __name__ == "__main__":
    main()
"""


@pytest.fixture
def ranks(tmp_path, path):
    """Runs the body of a function on each of `world` ranks."""
    runs = 0

    def run(world: int, code: str, *, before: str = "", codes=None):
        nonlocal runs
        runs += 1
        folder = tmp_path / f"run{runs}"
        folder.mkdir()
        script = folder / "script.py"
        body = textwrap.indent(textwrap.dedent(code), "    ")
        script.write_text(textwrap.dedent(before) + HEAD + body + TAIL)
        processes = [
            subprocess.Popen(
                [sys.executable, str(script), str(rank), str(world), str(folder), path],
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
            for rank in range(world)
        ]
        try:
            outputs = [process.communicate(timeout=240)[0] for process in processes]
        finally:
            for process in processes:
                process.kill()
        found = [process.returncode for process in processes]
        assert found == (codes or [0] * world), "\n".join(outputs)

    return run


def load(path, state, step=None):
    dcp.load(state, storage_reader=StorageReader(path, step))
    return state


MODEL = """
from torch import nn
from torch.distributed.checkpoint.state_dict import (
    get_state_dict, set_state_dict, StateDictOptions)
from torch.distributed.fsdp import fully_shard

def make(mesh, seed):
    torch.manual_seed(seed)
    # 7 and 5 rows are uneven on 2 and 3 ranks; a single row leaves a rank without.
    model = nn.Sequential(nn.Linear(6, 7), nn.ReLU(), nn.Linear(7, 5), nn.Linear(5, 1))
    fully_shard(model, mesh=mesh)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    for _ in range(2):
        model(torch.ones(4, 6)).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
    return model, optimizer

def states(model, optimizer, **options):
    model_state, optimizer_state = get_state_dict(
        model, optimizer, options=StateDictOptions(**options))
    return {"model": model_state, "optimizer": optimizer_state}
"""


def test_fsdp_is_restored_on_other_world_sizes(ranks, path):
    ranks(
        2,
        """
        model, optimizer = make(mesh, 0)
        dcp.save(states(model, optimizer), storage_writer=StorageWriter(path),
                 checkpoint_id=10)
        whole = states(model, optimizer, full_state_dict=True)
        if rank == 0:
            torch.save(whole, f"{path}.whole.pt")
        """,
        before=MODEL,
    )
    for world in (1, 2, 3):
        ranks(
            world,
            """
            model, optimizer = make(mesh, 1)
            state = states(model, optimizer)
            dcp.load(state, storage_reader=StorageReader(path))
            set_state_dict(model, optimizer, model_state_dict=state["model"],
                           optim_state_dict=state["optimizer"])
            found = states(model, optimizer, full_state_dict=True)
            expected = torch.load(f"{path}.whole.pt", weights_only=False)
            for each in (found, expected):
                del each["optimizer"]["param_groups"][0]["params"]  # names
            torch.testing.assert_close(found, expected, rtol=0, atol=0)
            """,
            before=MODEL,
        )
    expected = torch.load(f"{path}.whole.pt", weights_only=False)
    with ckptdb.Reader(path) as reader, reader.latest() as step:
        assert step.record.world_size == 2
        for name, value in expected["model"].items():
            read = step.read(f"model.{name}", kind="torch")
            assert torch.equal(read, value)
        step.verify()


def test_shards_are_restored_along_the_other_dimension(ranks, path):
    ranks(
        2,
        """
        whole = torch.arange(35.0).reshape(5, 7)
        placements = {"rows": Shard(0), "columns": Shard(1), "all": Replicate()}
        state = {name: distribute_tensor(whole + i, mesh, [each])
                 for i, (name, each) in enumerate(placements.items())}
        state["own"] = rank
        writer = StorageWriter(path)
        dcp.save(state, storage_writer=writer, checkpoint_id=1)
        other = {"rows": Shard(1), "columns": Shard(0), "all": Shard(1)}
        loaded = {name: distribute_tensor(torch.zeros(5, 7), mesh, [each])
                  for name, each in other.items()}
        loaded["rows"], plain = loaded["rows"], torch.zeros(5, 7)
        dcp.load(loaded, storage_reader=StorageReader(path))
        for i, name in enumerate(placements):
            assert torch.equal(loaded[name].full_tensor(), whole + i), name
        # A writer is used again, and saves only what has changed.
        state["rows"] = distribute_tensor(whole * 2, mesh, [Shard(0)])
        dcp.save(state, storage_writer=writer)
        """,
    )
    whole = torch.arange(35.0).reshape(5, 7)
    state = load(path, {"rows": torch.zeros(5, 7), "all": torch.zeros(5, 7)})
    assert torch.equal(state["rows"], whole * 2)
    assert torch.equal(state["all"], whole + 2)
    with ckptdb.Reader(path) as reader, reader.open(2) as step:
        assert torch.equal(step.read("columns", kind="torch"), whole + 1)


def test_several_shards_on_a_rank(ranks, path):
    before = """
from torch.distributed._shard import sharded_tensor
from torch.distributed._shard.sharding_spec import ChunkShardingSpec
def spec(*places):
    return ChunkShardingSpec(dim=0, placements=[f"rank:{r}/cpu" for r in places])
"""
    ranks(
        2,
        """
        saved = sharded_tensor.rand(spec(0, 1, 1, 0, 1), 10, 4)
        dcp.save({"x": saved}, storage_writer=StorageWriter(path), checkpoint_id=1)
        loaded = sharded_tensor.zeros(spec(1, 0, 0), 10, 4)
        whole = {"x": torch.zeros(10, 4)}
        dcp.load({"x": loaded}, storage_reader=StorageReader(path))
        dcp.load(whole, storage_reader=StorageReader(path))
        for tensor in (saved, loaded):
            out = torch.zeros(10, 4) if rank == 0 else None
            tensor.gather(out=out)
            if rank == 0:
                assert torch.equal(out, whole["x"]) and out.count_nonzero() > 30
        """,
        before=before,
    )
    with ckptdb.Reader(path) as reader, reader.latest() as step:
        assert step.record.world_size == 2
        assert {i.name for i in step.items() if i.kind == "tensor"} == {"x"}
        whole = step.read("x", kind="torch")
        step.verify()
    assert torch.equal(load(path, {"x": torch.zeros(10, 4)})["x"], whole)
    torch.save(whole, f"{path}.whole.pt")
    ranks(
        3,
        """
        loaded = sharded_tensor.zeros(spec(2, 0, 1, 2), 10, 4)
        dcp.load({"x": loaded}, storage_reader=StorageReader(path))
        whole = torch.load(f"{path}.whole.pt")
        for each in loaded.local_shards():
            at, rows = each.metadata.shard_offsets[0], each.metadata.shard_sizes[0]
            assert torch.equal(each.tensor, whole[at : at + rows])
        """,
        before=before,
    )


TENSOR_PARALLEL = """
from torch import nn
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor.parallel import (
    ColwiseParallel, RowwiseParallel, parallelize_module)
from torch.distributed.tensor.placement_types import _StridedShard

def make():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 9), nn.Linear(9, 6))

def make_2d():
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("data", "model"))
    model = parallelize_module(
        make(), mesh["model"], {"0": ColwiseParallel(), "1": RowwiseParallel()})
    model = fully_shard(model, mesh=mesh["data"])
    assert any(type(each) is _StridedShard for parameter in model.parameters()
               for each in parameter.placements)
    return model
"""


def test_strided_shards_are_restored_on_other_world_sizes(ranks, path):
    ranks(
        4,
        """
        state = {"model": make_2d().state_dict()}
        dcp.save(state, storage_writer=StorageWriter(path), checkpoint_id=1)
        if rank == 0:
            torch.save(make().state_dict(), f"{path}.whole.pt")
        """,
        before=TENSOR_PARALLEL,
    )
    expected = torch.load(f"{path}.whole.pt")
    with ckptdb.Reader(path) as reader, reader.latest() as step:
        assert step.record.world_size == 4
        for name, value in expected.items():
            assert torch.equal(step.read(f"model.{name}", kind="torch"), value), name
        step.verify()
    found = {name: torch.zeros_like(value) for name, value in expected.items()}
    load(path, {"model": found})
    torch.testing.assert_close(found, expected, rtol=0, atol=0)
    ranks(
        3,
        """
        model = fully_shard(make(), mesh=mesh)
        state = {"model": model.state_dict()}
        for each in state["model"].values():
            each.to_local().zero_()
        dcp.load(state, storage_reader=StorageReader(path))
        for name, value in torch.load(f"{path}.whole.pt").items():
            assert torch.equal(state["model"][name].full_tensor(), value), name
        """,
        before=TENSOR_PARALLEL,
    )


def test_async_saves_in_a_thread_and_in_a_process(ranks, path):
    ranks(
        2,
        """
        whole = torch.arange(12.0).reshape(4, 3)
        def state(k):
            return {"x": distribute_tensor(whole * k, mesh, [Shard(0)]), "k": k}
        group = dist.new_group(backend="gloo")
        writer = StorageWriter(path)
        step = 0
        for kind in (AsyncCheckpointerType.THREAD, AsyncCheckpointerType.PROCESS):
            for _ in range(2):
                step += 1
                values = state(step)
                future = dcp.async_save(
                    values, storage_writer=writer, checkpoint_id=step,
                    process_group=group, async_checkpointer_type=kind)
                values["x"].to_local().zero_()
                metadata = future.result()
                assert metadata.storage_meta.checkpoint_id == step
        # An error comes back from the other process, with its rank.
        future = dcp.async_save(
            {"x": torch.zeros(2, dtype=torch.complex64)},
            storage_writer=StorageWriter(path), checkpoint_id=99,
            process_group=group, async_checkpointer_type=AsyncCheckpointerType.PROCESS)
        error = future.exception()
        assert isinstance(error, dcp.CheckpointException), error
        assert any(isinstance(each, ckptdb.InvalidArgument) and "complex64" in str(each)
                   for each, _ in error.failures.values())
        # The daemon owns the store only while it saves.
        if rank == 0:
            with ckptdb.Manager(path, {}, save=ckptdb.save_at_steps([])) as manager:
                assert [each.step for each in manager.steps()] == [1, 2, 3, 4]
        """,
    )
    for step in (1, 2, 3, 4):
        state = load(path, {"x": torch.zeros(4, 3), "k": 0}, step)
        assert torch.equal(state["x"], torch.arange(12.0).reshape(4, 3) * step)
        assert state["k"] == step


def test_async_saves_that_overlap_are_saved_in_order(ranks, path):
    ranks(
        2,
        """
        whole = torch.arange(12.0).reshape(4, 3)
        group = dist.new_group(backend="gloo")
        shared = StorageWriter(path)
        class Slow(dcp.DefaultSavePlanner):
            def resolve_data(self, item):
                time.sleep(1 + rank)
                return super().resolve_data(item)
        futures = []
        for step, writer in enumerate([shared, shared, StorageWriter(path), shared], 1):
            state = {"x": distribute_tensor(whole * step, mesh, [Shard(0)]), "k": step}
            futures.append(dcp.async_save(
                state, storage_writer=writer, checkpoint_id=step, process_group=group,
                planner=Slow()))
            time.sleep(0.5)
        saved = [each.result().storage_meta.checkpoint_id for each in futures]
        assert saved == [1, 2, 3, 4], saved
        # Ranks that save different steps at once.
        state = {"x": distribute_tensor(whole, mesh, [Shard(0)]), "k": 1}
        try:
            dcp.save(state, storage_writer=shared, checkpoint_id=8 + rank)
        except dcp.CheckpointException as error:
            assert "rank 1 saves step 9, and the coordinator step 8" in str(error)
        else:
            raise AssertionError("not raised")
        dcp.save(state, storage_writer=shared, checkpoint_id=4)
        """,
    )
    for step in (1, 2, 3):
        state = load(path, {"x": torch.zeros(4, 3), "k": 0}, step)
        assert torch.equal(state["x"], torch.arange(12.0).reshape(4, 3) * step)
        assert state["k"] == step
    assert load(path, {"k": 0}, 4)["k"] == 1


def test_a_rank_that_fails_is_named_and_leaves_nothing(ranks, path):
    ranks(
        2,
        """
        whole = torch.arange(12.0).reshape(4, 3)
        state = {"x": distribute_tensor(whole, mesh, [Shard(0)])}
        class Failing(dcp.DefaultSavePlanner):
            def resolve_data(self, item):
                if rank == failing:
                    raise ValueError(f"no data on {rank}")
                return super().resolve_data(item)
        writer = StorageWriter(path)
        dcp.save(state, storage_writer=writer, checkpoint_id=1)
        for failing in (0, 1):
            try:
                dcp.save(state, storage_writer=writer, checkpoint_id=2, planner=Failing())
            except dcp.CheckpointException as error:
                kept = error  # with the frames of the save
                assert list(error.failures) == [failing], error
                assert f"no data on {failing}" in str(error)
            else:
                raise AssertionError("not raised")
            if rank == 0:
                # The store is free soon, although DCP tells the writer nothing.
                end = time.monotonic() + 30
                while True:
                    try:
                        ckptdb.Manager(path, {}, save=ckptdb.save_at_steps([])).close()
                        break
                    except ckptdb.Unavailable:
                        assert time.monotonic() < end
                        time.sleep(0.05)
                with ckptdb.Reader(path) as reader:
                    assert [each.step for each in reader.steps()] == [1]
            dist.barrier()
        # The next save works, of the same writer or of another one.
        dcp.save(state, storage_writer=StorageWriter(path), checkpoint_id=2)
        dcp.save(state, storage_writer=writer, checkpoint_id=2)
        dcp.save(state, storage_writer=StorageWriter(path), checkpoint_id=3,
                 planner=dcp.DefaultSavePlanner(enable_plan_caching=True))
        dcp.save(state, storage_writer=StorageWriter(path), checkpoint_id=4,
                 planner=dcp.DefaultSavePlanner(enable_plan_caching=True))
        loaded = {"x": distribute_tensor(torch.zeros(4, 3), mesh, [Shard(1)])}
        dcp.load(loaded, storage_reader=StorageReader(path, 4))
        assert torch.equal(loaded["x"].full_tensor(), whole)
        """,
    )


def test_each_call_of_a_writer_and_a_reader_may_fail(ranks, path):
    ranks(
        2,
        """
        whole = torch.arange(12.0).reshape(4, 3)
        def state(k=0.0):
            return {"x": distribute_tensor(whole * k, mesh, [Shard(0)]), "k": k}
        dcp.save(state(1.0), storage_writer=StorageWriter(path), checkpoint_id=1)
        def faulty(base, method, failing, after):
            class Faulty(base):
                def __getattribute__(self, name):
                    value = super().__getattribute__(name)
                    if name != method or rank != failing:
                        return value
                    def fail(*args, **kwargs):
                        if after:
                            value(*args, **kwargs)
                        raise ValueError(f"{method} on {failing}")
                    return fail
            return Faulty(path)
        def fails(call, method, failing):
            try:
                call()
            except dcp.CheckpointException as error:
                assert list(error.failures) == [failing], error
                assert f"{method} on {failing}" in str(error)
            else:
                raise AssertionError(f"{method} on {failing}: not raised")
        own = ("prepare_local_plan", "write_data")
        for coordinator in (0, 1):
            for method in (*own, "prepare_global_plan", "finish"):
                for failing in (0, 1):
                    if method not in own and failing != coordinator:
                        continue
                    for after in (False, True) if method != "finish" else (False,):
                        writer = faulty(StorageWriter, method, failing, after)
                        writer.reset(2)
                        fails(lambda: _save_state_dict(
                            state(2.0), writer, coordinator_rank=coordinator),
                            method, failing)
                        del writer
            _save_state_dict(state(1.0), StorageWriter(path), coordinator_rank=coordinator)
        for method in ("set_up_storage_reader", "prepare_local_plan", "read_data"):
            for failing in (0, 1):
                reader = faulty(StorageReader, method, failing, True)
                fails(lambda: dcp.load(state(), storage_reader=reader), method, failing)
        loaded = state()
        dcp.load(loaded, storage_reader=StorageReader(path))
        assert torch.equal(loaded["x"].full_tensor(), whole) and loaded["k"] == 1.0
        """,
        before="from torch.distributed.checkpoint.state_dict_saver import _save_state_dict\n",
    )
    with ckptdb.Reader(path) as reader:
        assert [each.step for each in reader.steps()] == [1, 2, 3]


@pytest.mark.parametrize("where", ["write", "finish"])
def test_a_killed_save_leaves_the_step_before(ranks, path, where):
    ranks(
        2,
        """
        def state(k):
            return {name: distribute_tensor(torch.full((4, 1 << 16), float(k)), mesh,
                    [Shard(0)]) for name in "ab"}
        dcp.save(state(1), storage_writer=StorageWriter(path), checkpoint_id=1)
        class Planner(dcp.DefaultSavePlanner):
            def resolve_data(self, item):
                if WHERE == "write" and item.index.fqn == "b":
                    os.kill(os.getpid(), signal.SIGKILL)
                return super().resolve_data(item)
        class Writer(StorageWriter):
            def finish(self, metadata, results):  # all ranks have staged
                os.kill(os.getpid(), signal.SIGKILL)
        writer = Writer(path) if WHERE == "finish" else StorageWriter(path)
        try:
            dcp.save(state(2), storage_writer=writer, checkpoint_id=2, planner=Planner())
        finally:
            os.kill(os.getpid(), signal.SIGKILL)  # rank 1, whose peer is gone
        """,
        before=f"WHERE = {where!r}\n",
        codes=[-signal.SIGKILL] * 2,
    )
    with ckptdb.Reader(path) as reader:
        assert [each.step for each in reader.steps()] == [1]
    state = load(path, {name: torch.zeros(4, 1 << 16) for name in "ab"})
    assert all((each == 1).all() for each in state.values())
    dcp.save(state, storage_writer=StorageWriter(path), checkpoint_id=2)
    with ckptdb.Manager(path, {}, save=ckptdb.save_at_steps([])):
        pass  # sweeps
    left = [p for p in pathlib.Path(path, "staging").rglob("*") if p.is_file()]
    assert left == []


def test_ranks_read_one_step(ranks, path):
    for step in (1, 2):
        dcp.save({"x": torch.tensor(step)}, storage_writer=StorageWriter(path))
    ranks(
        2,
        """
        state = {"x": torch.tensor(0)}
        dcp.load(state, storage_reader=StorageReader(path))
        assert state["x"] == 2
        try:  # as if a step were saved between the ranks' looks
            dcp.load(state, storage_reader=StorageReader(path, 1 + rank))
        except dcp.CheckpointException as error:
            (failure, _), = error.failures.values()
            assert isinstance(failure, ckptdb.FailedPrecondition)
            assert "different steps" in str(failure)
        else:
            raise AssertionError("not raised")
        """,
    )


def test_ranks_that_save_alone(ranks, path):
    """With use_collectives=False each rank saves to a separate store."""
    ranks(
        2,
        """
        dcp.save({"r": torch.tensor(rank)}, storage_writer=StorageWriter(f"{path}/{rank}"),
                 checkpoint_id=5, use_collectives=False)
        state = {"r": torch.tensor(-1)}
        dcp.load(state, storage_reader=StorageReader(f"{path}/{rank}", 5))
        assert state["r"] == rank
        """,
    )


def test_fsdp1_sharded_state_and_the_optimizer_by_its_key(ranks, path):
    """The state of the first FSDP consists of ShardedTensors. Its optimizer state is
    loaded in the layout of the model's state, without a state to load into."""
    ranks(
        2,
        """
        def trained(seed, steps):
            torch.manual_seed(seed)
            layers = nn.Linear(6, 7), nn.ReLU(), nn.Linear(7, 5)
            model = FSDP(nn.Sequential(*layers), device_id=torch.device("cpu"))
            optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
            for _ in range(steps):
                model(torch.ones(4, 6)).sum().backward()
                optimizer.step()
                optimizer.zero_grad()
            return model, optimizer

        model, optimizer = trained(1, 2)
        sharded = StateDictType.SHARDED_STATE_DICT
        with FSDP.state_dict_type(model, sharded):
            dcp.save(
                {"model": model.state_dict(),
                 "optim": FSDP.optim_state_dict(model, optimizer)},
                storage_writer=StorageWriter(path), checkpoint_id=1)
        other, other_optimizer = trained(2, 0)
        assert not equal(model.parameters(), other.parameters())
        with FSDP.state_dict_type(other, sharded):
            state = {"model": other.state_dict()}
            dcp.load(state, storage_reader=StorageReader(path))
            other.load_state_dict(state["model"])
            loaded = load_sharded_optimizer_state_dict(
                model_state_dict=state["model"], optimizer_key="optim",
                storage_reader=StorageReader(path))
            other_optimizer.load_state_dict(FSDP.optim_state_dict_to_load(
                other, other_optimizer, loaded["optim"]))
        assert equal(model.parameters(), other.parameters())
        for name in ("exp_avg", "exp_avg_sq", "step"):
            moments, loaded = (
                [each[name] for each in which.state.values()]
                for which in (optimizer, other_optimizer))
            assert len(moments) > 0 and equal(moments, loaded), name
        """,
        before="""
        from torch import nn
        from torch.distributed.checkpoint.optimizer import (
            load_sharded_optimizer_state_dict)
        from torch.distributed.fsdp import (
            FullyShardedDataParallel as FSDP, StateDictType)

        def equal(some, others):
            return all(torch.equal(a, b) for a, b in zip(some, others, strict=True))
        """,
    )
