# SPDX-License-Identifier: Apache-2.0
"""Checkpoints of PyTorch as steps, and back."""

from __future__ import annotations

import argparse
import collections
import dataclasses
import json
import os
import pickle
import subprocess
import sys

import pytest

torch = pytest.importorskip("torch")

import torch.distributed.checkpoint as dcp

import ckptdb
from ckptdb.torch import _files
from ckptdb.torch._files import export_checkpoint, import_checkpoint
from ckptdb.torch.dcp import StorageReader, StorageWriter
from conftest import save_now
from test_dcp import DTYPES, assert_equal, bits, make_state, zeros_like

pytestmark = pytest.mark.filterwarnings("ignore:torch.distributed is")


def tensors_of_all_dtypes():
    source = torch.arange(0, 192, dtype=torch.uint8)
    made = {}
    for dtype in DTYPES:
        raw = source % 2 == 1 if dtype == torch.bool else source.view(dtype)
        made[str(dtype)] = raw.reshape(2, -1).clone()
    made["scalar"] = torch.tensor(1.5)
    made["empty"] = torch.empty(0, 3)
    return made


def a_model_and_its_optimizer():
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4))
    optimizer = torch.optim.AdamW(model.parameters())
    model(torch.randn(5, 3)).sum().backward()
    optimizer.step()
    return model, optimizer


def a_training_state():
    model, optimizer = a_model_and_its_optimizer()
    return {
        "model": model.state_dict(),
        "optimizer": optimizer.state_dict(),
        "epoch": 3,
        "losses": [1.5, float("inf"), -0.0],
        "tuple": (torch.ones(2), 1, "a"),
        "nothing": None,
        "empty": {},
        "none_in_list": [],
        "rng": torch.get_rng_state(),
        3: "a key that is no name",
    }


def roundtrip(tmp_path, path, value, **options):
    source, target = tmp_path / "in.pt", tmp_path / "out.pt"
    torch.save(value, source)
    imported = import_checkpoint(source, path, 7, **options)
    exported = export_checkpoint(path, target, **options)
    assert imported == exported and imported.digest == exported.digest
    weights_only = not options.get("allow_pickle", False)
    return torch.load(target, weights_only=weights_only)


def assert_same(a, b):
    """Also the types, the order, and what dictionaries have besides their items."""
    assert type(a) is type(b)
    if isinstance(a, torch.Tensor):
        assert (
            a.dtype == b.dtype and a.shape == b.shape and torch.equal(bits(a), bits(b))
        )
    elif isinstance(a, dict):
        assert list(a) == list(b)
        assert_same(getattr(a, "__dict__", None), getattr(b, "__dict__", None))
        for key in a:
            assert_same(a[key], b[key])
    elif isinstance(a, (list, tuple)):
        assert len(a) == len(b)
        for x, y in zip(a, b):
            assert_same(x, y)
    else:
        assert repr(a) == repr(b)


@pytest.mark.parametrize(
    "make",
    [
        a_training_state,
        tensors_of_all_dtypes,
        lambda: a_model_and_its_optimizer()[0].state_dict(),
        lambda: torch.arange(5.0),
        lambda: [torch.ones(2), {"a": 1}],
        lambda: {},
        lambda: {k: v for k, v in a_training_state().items() if k != 3},
    ],
    ids=["training", "dtypes", "state_dict", "tensor", "list", "empty", "names"],
)
def test_a_file_of_torch_save_is_the_same_after_a_round_trip(tmp_path, path, make):
    value = make()
    assert_same(roundtrip(tmp_path, path, value), value)


def test_an_imported_file_is_a_step_for_readers_and_for_dcp(tmp_path, path):
    state = {k: v for k, v in a_training_state().items() if k != 3}
    roundtrip(tmp_path, path, state)
    with ckptdb.Reader(path) as reader, reader.open(7) as step:
        weight = state["model"]["0.weight"]
        assert_same(step.read("model.0.weight", kind="torch"), weight)
        assert step.read("epoch") == 3
        assert_same(step.read("optimizer")["state"][0]["step"], torch.tensor(1.0))
        step.verify()
    model, optimizer = a_model_and_its_optimizer()
    loaded = {"model": zeros_like(model.state_dict()), "epoch": 0,
              "optimizer": optimizer.state_dict()}  # fmt: skip
    loaded["optimizer"]["param_groups"][0]["lr"] = 5.0
    dcp.load(loaded, storage_reader=StorageReader(path))
    assert_equal(dict(loaded["model"]), dict(state["model"]))
    assert loaded["epoch"] == 3 and loaded["optimizer"]["param_groups"][0]["lr"] == 1e-3


def save_folder(state, folder):
    dcp.save(state, storage_writer=dcp.FileSystemWriter(folder), no_dist=True)


def load_folder(state, folder):
    dcp.load(state, storage_reader=dcp.FileSystemReader(folder), no_dist=True)
    return state


def test_a_folder_of_dcp_is_the_same_after_a_round_trip(tmp_path, path):
    state = {**make_state(), "dtypes": tensors_of_all_dtypes()}
    save_folder(state, tmp_path / "in")
    imported = import_checkpoint(tmp_path / "in", path, 3)
    exported = export_checkpoint(path, tmp_path / "out", 3)
    assert imported == exported and imported.tensors == 23
    loaded = load_folder(zeros_like(state), tmp_path / "out")
    assert_equal(loaded, state)
    before, after = (
        dcp.FileSystemReader(tmp_path / n).read_metadata() for n in ("in", "out")
    )
    assert before.planner_data == after.planner_data
    assert before.state_dict_metadata == after.state_dict_metadata
    loaded = zeros_like(state)
    dcp.load(loaded, storage_reader=StorageReader(path))
    assert_equal(loaded, state)
    # The same from a file.
    export_checkpoint(path, tmp_path / "file.pt")
    file = torch.load(tmp_path / "file.pt", weights_only=True)
    file["optimizer"]["state"] = {0: file["optimizer"]["state"]["0"]}  # DCP's keys
    assert_equal(file, state)


def test_a_step_of_dcp_is_exported(tmp_path, path):
    state = make_state()
    dcp.save(state, storage_writer=StorageWriter(path), checkpoint_id=1)
    export_checkpoint(path, tmp_path / "folder")
    assert_equal(load_folder(zeros_like(state), tmp_path / "folder"), state)


def test_a_step_of_a_manager_is_exported(tmp_path, path):
    model, optimizer = a_model_and_its_optimizer()
    state = {"model": model, "optimizer": optimizer, "epoch": 4, "w": torch.ones(3)}
    with ckptdb.Manager(path, state, save=ckptdb.save_every_n_steps(1)) as manager:
        manager.start_training()
        manager.step()
    export_checkpoint(path, tmp_path / "a.pt")
    found = torch.load(tmp_path / "a.pt", weights_only=True)
    assert found["epoch"] == 4 and found["w"].tolist() == [1, 1, 1]
    assert_same(found["model.0.weight"], model.state_dict()["0.weight"])
    assert_same(found["optimizer"]["state"], optimizer.state_dict()["state"])
    state = {"table": ckptdb.Table({"e": ("f32", 2)})}
    with ckptdb.Manager(
        f"{path}2", state, save=ckptdb.save_every_n_steps(1)
    ) as manager:
        manager.start_training()
        manager.step()
    with pytest.raises(ckptdb.InvalidArgument, match='contains the table "table"'):
        export_checkpoint(f"{path}2", tmp_path / "b.pt")


SAFE = {"F32": 4, "BF16": 2, "I64": 8, "BOOL": 1, "F8_E4M3": 1}


def make_safetensors(path, metadata, odd_dtype=None, pad=0):
    header, data = {}, b""
    if metadata is not None:
        header["__metadata__"] = metadata
    for i, (dtype, size) in enumerate(SAFE.items()):
        part = bytes((j * (i + 3)) % 2 for j in range(6 * size))
        offsets = [len(data), len(data) + len(part)]
        header[f"layer.{i}.weight"] = {
            "dtype": odd_dtype or dtype, "shape": [2, 3], "data_offsets": offsets,
        }  # fmt: skip
        data += part
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8 + pad)
    content = len(text).to_bytes(8, "little") + text + data
    path.write_bytes(content)
    return content


@pytest.mark.parametrize("metadata", [None, {}, {"format": "pt", "é": "ü"}])
def test_a_file_of_safetensors_is_the_same_after_a_round_trip(tmp_path, path, metadata):
    source, target = tmp_path / "a.safetensors", tmp_path / "b.safetensors"
    content = make_safetensors(source, metadata)
    imported = import_checkpoint(source, path, 1)
    assert export_checkpoint(path, target) == imported
    length = int.from_bytes(content[:8], "little")
    after = target.read_bytes()
    length_after = int.from_bytes(after[:8], "little")
    assert list(json.loads(content[8 : 8 + length]).items()) == list(
        json.loads(after[8 : 8 + length_after]).items()
    )
    assert content[8 + length :] == after[8 + length_after :]
    with ckptdb.Reader(path) as reader, reader.latest() as step:
        assert step.read("layer.1.weight", kind="torch").dtype == torch.bfloat16
    # Where the tensors are not aligned.
    unaligned = tmp_path / "c.safetensors"
    make_safetensors(unaligned, metadata, pad=3)
    assert import_checkpoint(unaligned, path, 2).digest == imported.digest


def test_safetensors_written_by_its_own_package(tmp_path, path):
    safetensors = pytest.importorskip("safetensors.torch")
    tensors = {k: v for k, v in tensors_of_all_dtypes().items() if "uint" not in k}
    safetensors.save_file(tensors, tmp_path / "a.safetensors", {"a": "b"})
    import_checkpoint(tmp_path / "a.safetensors", path, 1)
    export_checkpoint(path, tmp_path / "b.safetensors")
    found = safetensors.load_file(tmp_path / "b.safetensors")
    assert_equal(dict(sorted(found.items())), dict(sorted(tensors.items())))
    before, after = (tmp_path / f"{name}.safetensors" for name in "ab")
    assert before.read_bytes() == after.read_bytes()


def test_dtypes_that_the_store_lacks_are_named(tmp_path, path):
    odd = {"fine": torch.ones(1), "odd": torch.zeros(2, dtype=torch.complex64)}
    torch.save(odd, tmp_path / "a.pt")
    with pytest.raises(
        ckptdb.InvalidArgument, match='"odd".*complex64 cannot be stored'
    ):
        import_checkpoint(tmp_path / "a.pt", path, 1)
    save_folder({"odd": torch.zeros(2).to(torch.float8_e5m2fnuz)}, tmp_path / "a")
    with pytest.raises(ckptdb.InvalidArgument, match='"odd".*float8_e5m2fnuz'):
        import_checkpoint(tmp_path / "a", path, 1)
    make_safetensors(tmp_path / "a.safetensors", None, odd_dtype="F8_E8M0")
    with pytest.raises(ckptdb.InvalidArgument, match='"layer.0.weight".*F8_E8M0'):
        import_checkpoint(tmp_path / "a.safetensors", path, 1)
    assert not os.path.exists(path)


class Executes:
    ran = False

    def __reduce__(self):
        return setattr, (Executes, "ran", True)


def test_nothing_is_executed_without_allow_pickle(tmp_path, path):
    torch.save({"a": Executes()}, tmp_path / "a.pt")
    save_folder({"a": torch.ones(1)}, tmp_path / "a")
    metadata = tmp_path / "a" / ".metadata"
    loaded = pickle.loads(metadata.read_bytes())
    loaded.planner_data = Executes()
    metadata.write_bytes(pickle.dumps(loaded))
    for name in ("a.pt", "a"):
        with pytest.raises(ckptdb.FailedPrecondition, match="allow_pickle"):
            import_checkpoint(tmp_path / name, path, 1)
    # An object in a step of DCP, which is not executed on the way to a file.
    dcp.save({"a": Executes()}, storage_writer=StorageWriter(path), checkpoint_id=1)
    with pytest.raises(ckptdb.FailedPrecondition, match='"a" cannot be read without'):
        export_checkpoint(path, tmp_path / "b.pt")
    assert not Executes.ran
    export_checkpoint(path, tmp_path / "b.pt", allow_pickle=True)
    assert Executes.ran
    Executes.ran = False


def test_with_allow_pickle_any_file_is_the_same(tmp_path, path):
    value = {"args": argparse.Namespace(lr=1.0), "w": torch.ones(2)}
    found = roundtrip(tmp_path, path, value, allow_pickle=True)
    assert found["args"] == value["args"] and torch.equal(found["w"], value["w"])
    # A module would come back as its state.
    torch.save({"a": {"model": torch.nn.Linear(1, 1)}}, tmp_path / "a.pt")
    with pytest.raises(
        ckptdb.InvalidArgument, match=r'"a.model" is a Linear; save its'
    ):
        import_checkpoint(tmp_path / "a.pt", path, 8, allow_pickle=True)


def test_containers_become_plain_and_the_digest_is_the_same(tmp_path, path):
    value = {
        "size": torch.Size([2, 3]),
        "counter": collections.Counter("aab"),
        "set": {"a", "b", "c", 1},
        "parameter": torch.nn.Parameter(torch.ones(2)),
    }
    found = roundtrip(tmp_path, path, value)
    assert found == {**value, "parameter": found["parameter"]}
    assert torch.equal(found["parameter"], value["parameter"])


def test_damaged_and_missing_sources(tmp_path, path):
    torch.save({"a": torch.ones(1000)}, tmp_path / "a.pt")
    (tmp_path / "short.pt").write_bytes((tmp_path / "a.pt").read_bytes()[:900])
    (tmp_path / "short.safetensors").write_bytes(b"\x08\0\0\0")
    (tmp_path / "text.safetensors").write_bytes(b"\x08\0\0\0\0\0\0\0not JSON")
    content = make_safetensors(tmp_path / "cut.safetensors", None)
    (tmp_path / "cut.safetensors").write_bytes(content[:-1])
    (tmp_path / "notes.txt").write_text("hi\n")
    for name in ("short.pt", "short.safetensors", "text.safetensors", "notes.txt"):
        with pytest.raises(ckptdb.DataLoss, match=name):
            import_checkpoint(tmp_path / name, path, 1)
    with pytest.raises(ckptdb.DataLoss, match='"layer.4.weight" is at .* bytes'):
        import_checkpoint(tmp_path / "cut.safetensors", path, 1)
    (tmp_path / "folder").mkdir()
    for name in ("folder", "missing.pt"):
        with pytest.raises(ckptdb.NotFound, match=name):
            import_checkpoint(tmp_path / name, path, 1)
    assert not os.path.exists(path)


def make_folder(path, state=None):
    """Saves a checkpoint of DCP, and returns the names of its data files."""
    state = {"w": torch.ones(3), "n": 1} if state is None else state
    dcp.save(state, checkpoint_id=path, no_dist=True)
    return [each for each in sorted(path.iterdir()) if each.suffix == ".distcp"]


@pytest.mark.parametrize("size", [0, 7, 100, -1])
def test_damaged_folders_are_named(tmp_path, path, size):
    for name in (".metadata", "__0_0.distcp"):
        make_folder(tmp_path / "dcp")
        file = tmp_path / "dcp" / name
        content = file.read_bytes()
        file.write_bytes(bytes(500) if size == -1 else content[:size])
        with pytest.raises(ckptdb.DataLoss, match=f'{name}" is not '):
            import_checkpoint(tmp_path / "dcp", path, 1)
        file.write_bytes(content)
    (file,) = make_folder(tmp_path / "dcp")
    file.unlink()
    with pytest.raises(ckptdb.DataLoss, match=file.name):
        import_checkpoint(tmp_path / "dcp", path, 1)
    assert not os.path.exists(path)


def test_a_folder_without_entries_is_not_imported(tmp_path, path):
    make_folder(tmp_path / "dcp", {})
    with pytest.raises(ckptdb.InvalidArgument, match="nothing to import"):
        import_checkpoint(tmp_path / "dcp", path, 1)
    assert not os.path.exists(path)


def test_a_failed_import_leaves_no_store(tmp_path, path, monkeypatch):
    def fail(*arguments, **named):
        raise OSError("no space left on device")

    make_folder(tmp_path / "dcp")
    with monkeypatch.context() as patch:
        patch.setattr(StorageWriter, "finish", fail)
        with pytest.raises(OSError, match="no space"):
            import_checkpoint(tmp_path / "dcp", path, 1)
    assert not os.path.exists(path)
    import_checkpoint(tmp_path / "dcp", path, 1)


def test_a_failed_import_leaves_a_store_that_another_began(tmp_path, path, monkeypatch):
    began = []

    def read(*arguments):
        began.append(ckptdb.Manager(path, state={"a": 1}))
        raise OSError("cannot read")

    make_folder(tmp_path / "dcp")
    monkeypatch.setattr(_files, "read_flat", read)
    with pytest.raises(OSError, match="cannot read"):
        import_checkpoint(tmp_path / "dcp", path, 1)
    with began[0] as manager:
        manager.step()
        save_now(manager)
    with ckptdb.Reader(path) as reader:
        assert len(reader.steps()) == 1


def test_files_of_a_folder_are_not_links_out_of_it(tmp_path, path):
    source = tmp_path / "dcp"
    (file,) = make_folder(source)
    file.rename(source / "near")
    file.symlink_to("near")
    import_checkpoint(source, path, 1)
    file.unlink()
    (source / "near").rename(tmp_path / "outside")
    file.symlink_to("../outside")
    with pytest.raises(ckptdb.InvalidArgument, match='out of the folder.*"cp -rL"'):
        import_checkpoint(source, path, 2)


@pytest.mark.parametrize("place", ["../other/__0_0.distcp", "absolute"])
def test_paths_in_the_metadata_do_not_lead_out_of_the_folder(tmp_path, path, place):
    source = tmp_path / "dcp"
    (file,) = make_folder(source)
    make_folder(tmp_path / "other")
    place = str(tmp_path / "other" / file.name) if place == "absolute" else place
    metadata = pickle.loads((source / ".metadata").read_bytes())
    for index, each in metadata.storage_data.items():
        metadata.storage_data[index] = dataclasses.replace(each, relative_path=place)
    (source / ".metadata").write_bytes(pickle.dumps(metadata))
    with pytest.raises(ckptdb.InvalidArgument, match="out of the folder"):
        import_checkpoint(source, path, 1)
    assert not os.path.exists(path)


def test_what_exists_is_not_replaced(tmp_path, path):
    torch.save({"a": torch.ones(1)}, tmp_path / "a.pt")
    import_checkpoint(tmp_path / "a.pt", path, 1)
    with pytest.raises(ckptdb.AlreadyExists, match="step 1"):
        import_checkpoint(tmp_path / "a.pt", path, 1)
    with pytest.raises(ckptdb.AlreadyExists, match=r"a\.pt"):
        export_checkpoint(path, tmp_path / "a.pt")
    import_checkpoint(tmp_path / "a.pt", path, 1, overwrite=True)
    export_checkpoint(path, tmp_path / "a.pt", overwrite=True)
    torch.save({"a": {"b": torch.ones(1)}, "a.b": torch.ones(1)}, tmp_path / "b.pt")
    with pytest.raises(ckptdb.InvalidArgument, match='the same name "a.b"'):
        import_checkpoint(tmp_path / "b.pt", path, 2)
    export_checkpoint(path, tmp_path / "b.safetensors")
    torch.save({"a": torch.ones(1), "b": 1}, tmp_path / "c.pt")
    import_checkpoint(tmp_path / "c.pt", path, 2)
    with pytest.raises(ckptdb.InvalidArgument, match='"b" has type int.*only tensors'):
        export_checkpoint(path, tmp_path / "c.safetensors")
    assert sorted(p.name for p in tmp_path.iterdir() if p.is_file()) == [
        "a.pt", "b.pt", "b.safetensors", "c.pt",
    ]  # fmt: skip


def command(name, *arguments):
    return subprocess.run(
        [sys.executable, "-m", f"ckptdb.torch.{name}", *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=120,
    )


def test_the_commands(tmp_path, path):
    torch.save({"w": torch.ones(3), "epoch": 2}, tmp_path / "a.pt")
    done = command("import", tmp_path / "a.pt", "--store", path, "--step", 5)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("imported as step 5: 1 tensors, 12 bytes, digest ")
    assert done.stderr == ""
    back = command("export", tmp_path / "b.pt", "--store", path)
    assert back.returncode == 0, back.stderr
    assert back.stdout.partition(": ")[2] == done.stdout.partition(": ")[2]
    assert torch.load(tmp_path / "b.pt", weights_only=True)["epoch"] == 2
    again = command("import", tmp_path / "a.pt", "--store", path, "--step", 5)
    assert again.returncode == 5
    assert again.stderr.startswith("error: Checkpoint already exists: step 5")
    assert "pass --overwrite to replace it" in again.stderr
    again = command("export", tmp_path / "b.pt", "--store", path)
    assert again.returncode == 5 and "pass --overwrite to replace it" in again.stderr
    table = ckptdb.Table({"v": "f32"})
    table.insert([1])
    with ckptdb.Manager(f"{path}-table", {"user": table}) as manager:
        manager.save().wait_committed()
    refused = command("export", tmp_path / "c.pt", "--store", f"{path}-table")
    assert refused.returncode == 1
    assert 'contains the table "user", and a PyTorch checkpoint' in refused.stderr
    assert command("import", "--store", path).returncode == 1


def test_exit_codes_are_those_of_the_command(tmp_path, path):
    source, out = tmp_path / "a.pt", tmp_path / "b.pt"
    torch.save({"w": torch.ones(3)}, source)
    (tmp_path / "c.pt").write_bytes(b"PK, and nothing else")
    make_folder(tmp_path / "dcp")
    (tmp_path / "dcp" / ".metadata").write_bytes(b"")
    torch.save({"o": object()}, tmp_path / "d.pt")
    step = ("--store", path, "--step")
    assert command("import", source, *step, 5).returncode == 0
    for code, words in [
        (1, ("import", source, *step, -1)),
        (1, ("export", out, "--store", path, "--stpe", 5)),
        (2, ("import", tmp_path / "none.pt", *step, 6)),
        (2, ("export", out, *step, 6)),
        (3, ("import", tmp_path / "c.pt", *step, 6)),
        (3, ("import", tmp_path / "dcp", *step, 6)),
        (5, ("import", tmp_path / "d.pt", *step, 6)),
    ]:
        ended = command(*words)
        assert ended.returncode == code, (words, ended.stderr)
        assert "Traceback" not in ended.stderr and not out.exists()
    with ckptdb.Manager(path, {"w": torch.ones(2)}, save=ckptdb.save_at_steps([])):
        busy = command("import", source, *step, 6)
    assert busy.returncode == 4 and str(os.getpid()) in busy.stderr
