# SPDX-License-Identifier: Apache-2.0
"""Tensors of PyTorch on a GPU. `tools/gpu_check.sh` runs it; CI has no GPU."""

from __future__ import annotations

import copy
import os

import pytest

import ckptdb

torch = pytest.importorskip("torch")
if not torch.cuda.is_available():
    if os.environ.get("CKPTDB_REQUIRE_GPU"):
        pytest.fail("PyTorch finds no GPU", pytrace=False)
    pytest.skip("PyTorch finds no GPU", allow_module_level=True)

GPU = torch.device("cuda", 0)
DTYPES = [
    torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.int64,
    torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool,
    torch.float8_e4m3fn, torch.float8_e5m2,
]  # fmt: skip


def bits(tensor):
    return tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8)


def same(a, b):
    return a.dtype == b.dtype and a.shape == b.shape and torch.equal(bits(a), bits(b))


def of_every_form():
    torch.manual_seed(1)
    values = {}
    for dtype in DTYPES:
        for shape in ((1,), (3, 5), (1 << 18, 3), (7, 1, 2)):
            values[f"{dtype}.{shape}"] = (
                torch.randint(0, 100, shape, device=GPU).to(dtype)
                if dtype is not torch.bool
                else torch.rand(shape, device=GPU) > 0.5
            )
    whole = torch.rand(64, 32, device=GPU)
    values["transposed"] = whole.t()
    values["rows"] = whole[::2]
    values["part"] = whole[1:, 3:9]
    values["unaligned"] = torch.rand(1001, device=GPU)[1:]
    values["empty"] = torch.empty(0, 4, device=GPU)
    values["scalar"] = torch.tensor(3.5, device=GPU)
    values["host"] = torch.rand(11)
    # Restored in parts, none of which begins at a multiple of 64 bytes.
    values["parts"] = torch.rand(1 << 24, 3, device=GPU)
    return values


@pytest.mark.parametrize("asynchronous", [True, False])
def test_tensors_of_every_form(tmp_path, asynchronous):
    warnings = []
    options = {"async_": asynchronous, "on_warning": warnings.append}
    state = {"values": of_every_form()}
    saved = {name: value.clone() for name, value in state["values"].items()}
    with ckptdb.Manager(tmp_path / "s", state, **options) as manager:
        manager.step_to(1)
        pending = manager.save()
        for value in state["values"].values():  # while the save may be running
            value.zero_()
        pending.wait_committed()
    live = {name: torch.zeros_like(value) for name, value in saved.items()}
    places = {name: value.data_ptr() for name, value in live.items()}
    with ckptdb.Manager(tmp_path / "s", {"values": live}, **options) as manager:
        manager.restore()
        for name, value in live.items():
            assert same(value, saved[name]), name
            assert value.data_ptr() == places[name], name
    assert not [each for each in warnings if "cuda" in each]


def test_a_save_contains_what_was_queued_before_it_and_nothing_later(tmp_path):
    weight = torch.zeros(1 << 22, device=GPU)
    state = {"weight": weight}
    with ckptdb.Manager(tmp_path / "s", state, keep=ckptdb.keep_all()) as manager:
        for step in range(1, 21):
            for _ in range(50):
                weight.add_(1)
            manager.step_to(step)
            if step % 5 == 0:
                manager.save()
    with ckptdb.Reader(tmp_path / "s") as reader:
        for step in (5, 10, 15, 20):
            with reader.open(step) as opened:
                values = opened.read("weight")
            assert (values == 50 * step).all(), step


def test_on_a_stream_of_its_own(tmp_path):
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        weight = torch.zeros(1 << 20, device=GPU)
        with ckptdb.Manager(tmp_path / "s", {"weight": weight}) as manager:
            for _ in range(100):
                weight.add_(1)
            manager.step_to(1)
            pending = manager.save()
            weight.zero_()
            pending.wait_committed()
            manager.restore()
            weight.add_(1)
    stream.synchronize()
    assert (weight == 101).all()


def train(folder, until, device, kill_at=None):
    torch.manual_seed(3)
    model = torch.nn.Sequential(
        torch.nn.Linear(64, 256), torch.nn.ReLU(), torch.nn.Linear(256, 1)
    ).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    state = {"model": model, "optimizer": optimizer}
    manager = ckptdb.Manager(folder, state, save=ckptdb.save_every_n_steps(10))
    manager.restore_or_start()
    for step in range(manager.global_step, until):
        random = torch.Generator().manual_seed(step)
        x = torch.rand(32, 64, generator=random).to(device)
        optimizer.zero_grad()
        (model(x) - x.sum(1, keepdim=True)).square().mean().backward()
        optimizer.step()
        manager.step()
        if step == kill_at:
            os._exit(9)
    manager.wait_until_finished()
    return state, manager


@pytest.mark.parametrize("devices", [(GPU, GPU), (GPU, "cpu"), ("cpu", GPU)])
def test_adam_resumes_on_either_device(tmp_path, devices):
    first, second = devices
    state, manager = train(tmp_path / "s", 30, first)
    expected = copy.deepcopy(state["model"].state_dict())
    moments = copy.deepcopy(state["optimizer"].state_dict()["state"])
    manager.close()
    state, manager = train(tmp_path / "s", 30, second)  # restores step 30
    for name, value in state["model"].state_dict().items():
        assert value.device.type == torch.device(second).type
        assert same(value, expected[name]), name
    for index, slots in state["optimizer"].state_dict()["state"].items():
        for name, value in slots.items():
            assert same(value, moments[index][name]), (index, name)
    manager.close()


def test_a_killed_run_resumes_to_the_same_bits(tmp_path):
    whole, manager = train(tmp_path / "whole", 60, GPU)
    manager.close()
    context = torch.multiprocessing.get_context("spawn")
    process = context.Process(target=train, args=(tmp_path / "s", 60, GPU, 33))
    process.start()
    process.join()
    assert process.exitcode == 9
    state, manager = train(tmp_path / "s", 60, GPU)
    manager.close()
    for name, value in whole["model"].state_dict().items():
        assert same(value, state["model"].state_dict()[name]), name


def test_more_tensors_than_the_memory_for_copies(tmp_path):
    """They are saved by way of the host, and a warning says so."""
    warnings = []
    state = {f"w{i}": torch.rand(1 << 20, device=GPU) for i in range(4)}
    saved = {name: value.clone() for name, value in state.items()}
    with ckptdb.Manager(
        tmp_path / "s",
        state,
        arena_bytes=9 << 20,
        staging_bytes=1 << 20,
        on_warning=warnings.append,
    ) as manager:
        manager.step_to(1)
        manager.save().wait_committed()
        for value in state.values():
            value.zero_()
        manager.restore()
    for name, value in saved.items():
        assert same(state[name], value), name
    assert len([each for each in warnings if "raise arena_bytes" in each]) == 1


def test_the_library_reads_them_where_they_are(tmp_path):
    """Not through tensors in the host, which PyTorch would make."""
    model = torch.nn.Linear(512, 512).to(GPU)
    with ckptdb.Manager(tmp_path / "s", {"model": model}) as manager:
        with torch.profiler.profile(
            activities=[torch.profiler.ProfilerActivity.CPU]
        ) as profile:
            manager.step_to(1)
            manager.save().wait_committed()
            manager.restore()
    copies = [each for each in profile.key_averages() if each.key == "aten::copy_"]
    assert not copies


def test_a_capture_into_a_graph_is_refused(tmp_path):
    weight = torch.zeros(16, device=GPU)
    with ckptdb.Manager(tmp_path / "s", {"weight": weight}) as manager:
        manager.step_to(1)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            weight.add_(1)
            with pytest.raises(ckptdb.FailedPrecondition, match="captured"):
                manager.save().wait_committed()
        graph.replay()
        manager.step_to(2)
        manager.save().wait_committed()
        weight.zero_()
        manager.restore()
    assert (weight == 1).all()
