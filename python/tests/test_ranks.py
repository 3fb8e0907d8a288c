# SPDX-License-Identifier: Apache-2.0
"""Managers of several ranks over torch.distributed."""

from __future__ import annotations

import re

import pytest

import ckptdb

pytest.importorskip("numpy")
torch = pytest.importorskip("torch")
pytest.importorskip("torch.distributed.tensor")
if not torch.distributed.is_available():
    pytest.skip("PyTorch without torch.distributed", allow_module_level=True)

from job import run  # noqa: E402

# A model of all kinds of state, made anew by each rank of any world. `digests` has a
# hash of each whole entry: equal on all ranks, whatever the world.
STATE = """
import hashlib
import numpy as np
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor

mesh = init_device_mesh("cpu", (world,))
FULL = {
    "uneven": (torch.arange(35.0).reshape(7, 5), [Shard(0)]),
    "columns": (torch.arange(35).reshape(7, 5).to(torch.int32), [Shard(1)]),
    "tiny": (torch.arange(3.0).reshape(1, 3).half(), [Shard(0)]),
    "same": (torch.arange(6.0), [Replicate()]),
}

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first = torch.nn.Linear(5, 7)
        self.second = torch.nn.Linear(7, 1)
    def forward(self, x):
        return self.second(torch.relu(self.first(x)))

class Position:
    def __init__(self): self.bytes = b""
    def io_state(self): return b"rank %d" % rank
    def load_io_state(self, data): self.bytes = data

def by_hundreds(ids, world_size):
    return ids // 100 % world_size

def owner(kind, ids):
    if kind == "slices":
        return None
    return ids % world if kind == "modulo" else by_hundreds(ids, world)

class Model:
    def __init__(self, filled):
        torch.manual_seed(3)
        self.net = Net()
        fully_shard(self.net.first, mesh=mesh)
        fully_shard(self.net, mesh=mesh)
        self.adam = torch.optim.Adam(self.net.parameters(), lr=0.1)
        self.tables = {
            kind: ckptdb.Table({"embedding": ("f32", 2)},
                               sharding=kind if kind != "function" else
                               ("function", "hundreds", by_hundreds))
            for kind in ("slices", "modulo", "function", "replicated")
        }
        make = (lambda t: t) if filled else torch.zeros_like
        self.state = {
            "net": self.net, "adam": self.adam, "plain": make(torch.arange(10.0)),
            "epoch": 7 if filled else 0, **self.tables, "position": Position(),
            "nested": {n: distribute_tensor(make(t), mesh, p, src_data_rank=None)
                       for n, (t, p) in FULL.items()},
        }

    def train(self):
        torch.manual_seed(5)
        for _ in range(3):
            self.net(torch.randn(4, 5)).square().mean().backward()
            self.adam.step()
            self.adam.zero_grad()

    def fill(self):
        ids = np.arange(-50, 950) * 7
        for kind, table in self.tables.items():
            own = ids
            if kind == "slices":  # slice: the lowest 16 bits
                bounds = [65536 * r // world for r in range(world + 1)]
                slices = ids % 65536
                own = ids[(slices >= bounds[rank]) & (slices < bounds[rank + 1])]
            elif kind != "replicated":
                own = ids[owner(kind, ids) == rank]
            rows = table.insert(own)
            table["embedding"].put(rows, np.stack([own, own * 2], 1).astype("f4"))

    def rows(self, table):
        ids, rows = table.rows()
        values = table["embedding"][rows]
        order = np.argsort(ids)
        return ids[order], values[order]

    def digests(self):
        def digest(*arrays):
            return hashlib.sha256(b"".join(a.tobytes() for a in arrays)).hexdigest()[:8]
        def whole(t):
            t = t.full_tensor() if isinstance(t, DTensor) else t
            return digest(t.detach().contiguous().view(torch.uint8).numpy()
                          if t.dim() else t.detach().reshape(1).numpy())
        found = {n: whole(t) for n, t in self.net.state_dict().items()}
        for number, values in self.adam.state_dict()["state"].items():
            found.update({f"{number}.{k}": whole(t) for k, t in values.items()})
        found.update({n: whole(t) for n, t in self.state["nested"].items()})
        found["plain"] = whole(self.state["plain"])
        found["epoch"] = self.state["epoch"]
        for kind, table in self.tables.items():
            parts = [None] * world
            dist.all_gather_object(parts, self.rows(table))
            if kind == "replicated":
                assert all((p[0] == parts[0][0]).all() for p in parts)
                parts = parts[:1]
            ids = np.concatenate([p[0] for p in parts])
            order = np.argsort(ids, kind="stable")
            found[kind] = digest(ids[order], np.concatenate([p[1] for p in parts])[order])
            assert len(ids) == 1000, (kind, len(ids))
        return found
"""

SAVE = (
    STATE
    + """
model = Model(filled=True)
model.train()
model.fill()
with ckptdb.Manager(path, model.state, ranks=ckptdb.torch.ranks(deadline=60),
                    save=ckptdb.save_every_n_steps(1)) as manager:
    print(manager.restore_or_start())
    manager.step()
    manager.wait_until_finished()
    first = model.rows(model.tables["modulo"])[0][:1]
    model.tables["modulo"].erase(first)
    for kind in ("modulo", "function"):
        ids, rows = model.tables[kind].rows()
        model.tables[kind]["embedding"].put(rows[:5], np.full((5, 2), 9, "f4"))
    model.tables["modulo"].insert(first)
    manager.step()
print(model.digests())
"""
)

RESTORE = (
    STATE
    + """
model = Model(filled=False)
manager = ckptdb.Manager(path, model.state, ranks=ckptdb.torch.ranks(deadline=60),
                         save=ckptdb.save_at_steps([]), io_state_resize="owners")
report = manager.restore()
assert report.step == 2
position = model.state["position"].bytes
assert position == (b"rank %d" % rank if world == 2 else b"rank 0"), position
print(model.digests())
manager.close()
dist.destroy_process_group()
"""
)


def last_line(text: str) -> str:
    return text.strip().splitlines()[-1]


def test_two_ranks_save_and_any_number_restores(tmp_path, path):
    saved = {last_line(text) for text in run(tmp_path, 2, SAVE, path=path)}
    assert len(saved) == 1
    for world in (1, 2, 3):
        restored = {
            last_line(text) for text in run(tmp_path, world, RESTORE, path=path)
        }
        assert restored == saved, world


def test_a_process_without_ranks_reads_what_ranks_saved(tmp_path, path):
    run(tmp_path, 2, SAVE, path=path)
    with ckptdb.Reader(path) as reader, reader.latest() as step:
        nested = step.read("nested", kind="torch")
        assert nested["uneven"].equal(torch.arange(35.0).reshape(7, 5))
        assert nested["columns"].equal(torch.arange(35).reshape(7, 5).to(torch.int32))
        assert nested["tiny"].equal(torch.arange(3.0).reshape(1, 3).half())
        weight = step.read("net.first.weight", kind="torch")
    net = torch.nn.Module()
    net.first, net.second = torch.nn.Linear(5, 7), torch.nn.Linear(7, 1)
    adam = torch.optim.Adam(net.parameters(), lr=0.1)
    manager = ckptdb.Manager(path, {"net": net, "adam": adam}, read_only=True)
    manager.restore()
    manager.close()
    assert net.first.weight.equal(weight)
    assert adam.state[net.first.weight]["exp_avg"].shape == (7, 5)
    assert float(adam.state[net.first.weight]["step"]) == 3


def test_values_of_all_sizes_travel_between_ranks(tmp_path):
    code = """
    from ckptdb.torch._ranks import _SMALL, _Collectives, _Notices
    members = ckptdb.torch.ranks()
    assert isinstance(members, ckptdb.Ranks)
    assert (members.rank, members.world_size) == (rank, world)
    store = dist.distributed_c10d._get_default_store()
    groups = [dist.new_group(backend="gloo") for _ in range(2)]
    group = _Collectives(groups, _Notices(store, "test", rank, world), 60)

    def value(sender, receiver, size):
        return bytes((sender * 3 + receiver + i) % 251 for i in range(size))

    sizes = [0, 1, _SMALL - 1, _SMALL, _SMALL + 1, 10_000]
    for at in range(len(sizes)):
        each = [sizes[(at + r) % len(sizes)] for r in range(world)]
        own = value(rank, 0, each[rank])
        started = group.start_all_gather(own)
        assert group.all_gather(own) == [value(r, 0, each[r]) for r in range(world)]
        assert group.broadcast(own) == value(0, 0, each[0])
        received = group.all_to_all(
            [value(rank, r, sizes[(at + rank + r) % len(sizes)]) for r in range(world)]
        )
        assert received == [
            value(r, rank, sizes[(at + r + rank) % len(sizes)]) for r in range(world)
        ]
        assert started() == [value(r, 0, each[r]) for r in range(world)]
    group.close("has closed its manager")
    print("equal")
    """
    assert [last_line(text) for text in run(tmp_path, 3, code)] == ["equal"] * 3


def test_steps_that_are_not_due_wait_for_no_other_rank(tmp_path, path):
    code = """
    from ckptdb.torch import _ranks
    made = started = 0
    run, start = _ranks._Collectives._run, _ranks._Collectives.start_all_gather

    def counted(self, operation):
        global made
        made += 1
        run(self, operation)

    def counted_start(self, own):
        global started
        started += 1
        return start(self, own)

    with ckptdb.Manager(path, {"w": torch.zeros(1)}, save=ckptdb.save_at_steps([1000]),
                        ranks=ckptdb.torch.ranks(deadline=60)) as manager:
        manager.restore_or_start()
        _ranks._Collectives._run = counted
        _ranks._Collectives.start_all_gather = counted_start
        for step in range(300):
            reason = manager.step().reason
            assert reason.startswith("the ranks did not meet"), reason
            # Ranks are at different steps, but at most one exchange apart.
            if step > 2 and rank == 0:
                time.sleep(0.001)
        print(made, started)
    """
    for text in run(tmp_path, 2, code, path=path):
        assert text.split()[0] == "0"
        assert 4 <= int(text.split()[1]) < 100


def test_some_ranks_of_a_job_and_several_managers(tmp_path, path):
    code = """
    members = dist.new_group([1, 2])
    if rank == 0:
        try:
            ckptdb.torch.ranks(group=members)
        except ckptdb.FailedPrecondition as error:
            print(error)
    else:
        ranks = ckptdb.torch.ranks(group=members, deadline=60)
        assert repr(ranks) == f"TorchRanks(rank {rank - 1} of 2)"
        for _ in range(2):
            state = {"weight": torch.zeros(3)}
            with ckptdb.Manager(path, state, ranks=ranks,
                                save=ckptdb.save_every_n_steps(1)) as manager:
                print(manager.restore_or_start().step)
                manager.step()
                print(manager.should_save(5))
                if rank == 2:
                    try:
                        manager.steps()
                    except ckptdb.FailedPrecondition as error:
                        print(error)
    dist.barrier()
    """
    printed = run(tmp_path, 3, code, path=path)
    assert "rank 0 is not a member of the group" in printed[0]
    assert "rank 1 of 2 owns no store; call this on rank 0" in printed[2]
    with ckptdb.Reader(path) as reader:
        assert [record.step for record in reader.steps()] == [1, 2]


def test_a_table_without_a_sharding(tmp_path, path):
    code = """
    try:
        ckptdb.Manager(path, {"user": ckptdb.Table({"embedding": ("f32", 1)})},
                       ranks=ckptdb.torch.ranks(deadline=60))
    except ckptdb.InvalidArgument as error:
        print(error)
    """
    expected = (
        'table "user": it declares no sharding among 2 ranks; give the table or the '
        'manager sharding= "slices"'
    )
    for printed in run(tmp_path, 2, code, path=path):
        assert expected in printed
        assert '"modulo", ("range", rows), ("function", name, f)' in printed
        assert "TableSharding" not in printed


def test_ranks_without_a_group():
    with pytest.raises(ckptdb.FailedPrecondition, match="init_process_group"):
        ckptdb.torch.ranks()


@pytest.mark.parametrize("deadline", [0, -1, float("inf"), float("nan"), True, "60"])
def test_invalid_deadlines(deadline):
    from ckptdb._ranks import check_deadline

    with pytest.raises(ckptdb.InvalidArgument, match="the deadline is"):
        check_deadline(deadline)


def test_two_deadlines(tmp_path, path):
    code = """
    try:
        ckptdb.Manager(path, {"weight": torch.zeros(1)}, deadline=5,
                       ranks=ckptdb.torch.ranks(deadline=6))
    except ckptdb.InvalidArgument as error:
        print(error)
    """
    expected = "the ranks have the deadline 6 s, and the option deadline is 5"
    assert expected in run(tmp_path, 1, code, path=path)[0]


def test_options_of_ranks(tmp_path, path):
    code = """
    state = {"weight": torch.full((300_000,), 3.0), "small": torch.ones(2), "epoch": 1}
    options = dict(ranks=ckptdb.torch.ranks(), deadline=60, replicated_saver="owner",
                   broadcast_replicated=True, save=ckptdb.save_every_n_steps(1))
    with ckptdb.Manager(path, state, audit_replicas=True, **options) as manager:
        manager.restore_or_start()
        manager.step(metrics={"loss": 5.0} if rank == 0 else None)
        manager.wait_until_finished()
        state["small"] += rank  # no longer the same on all ranks
        try:
            manager.save(overwrite=True).wait_committed()
        except ckptdb.FailedPrecondition as error:
            print(error)
    state["weight"].zero_()
    state["epoch"] = 100 + rank
    with ckptdb.Manager(path, state, read_only=True, **options) as manager:
        print(manager.wait_for_step(10).step, state["weight"].sum().item() / 3,
              state["epoch"])
        print(manager.load([{"path": path, "load": ["weight"]}])[0].step)
    state["more" if rank else "other"] = torch.zeros(1)
    try:
        manager = ckptdb.Manager(path + "-other", state, **options)
        manager.save().wait_committed()
    except ckptdb.Error as error:
        print(error)
    """
    for printed in run(tmp_path, 2, code, path=path):
        lines = printed.splitlines()
        assert 'tensor "small"' in lines[0]
        assert "rank 1" in lines[0]
        assert lines[1] == "1 300000.0 1"
        assert lines[2] == "1"
        assert "the ranks have different replicated tensors" in printed
        assert 'tensor "other"' in printed
        assert "make a tensor that is divided among ranks a DTensor" in printed
    with ckptdb.Reader(path) as reader:
        assert [r.metrics["loss"] for r in reader.steps()] == [5.0]


def test_a_divided_table_needs_all_ranks(tmp_path, path):
    code = """
    table = ckptdb.Table({"v": ("f32", 2)}, sharding="modulo")
    whole = ckptdb.Table({"v": ("f32", 2)})
    if rank == 0:
        ckptdb.Manager(path, {"whole": whole}).close()
        for options in ({}, {"sharding": "slices"}):
            state = {"user": whole if options else table}
            try:
                ckptdb.Manager(path, state, **options)
            except ckptdb.FailedPrecondition as error:
                print(error)
    dist.barrier()
    """
    text = run(tmp_path, 2, code, path=path)[0]
    refused = re.findall(
        r'table "user" is divided among ranks, and this is one of 2 ranks of '
        r"torch.distributed; open the manager with ranks=ckptdb.torch.ranks\(\)",
        text,
    )
    assert len(refused) == 2, text


def test_an_entry_that_only_another_rank_has_is_refused(tmp_path, path):
    code = """
    options = dict(ranks=ckptdb.torch.ranks(), deadline=60)
    state = {"weight": torch.zeros(3)}
    if rank == 1:
        state["sampler"] = {"seed": 7}
    for kind, more, metrics in ((1, "sampler", {}), (2, None, {"auc": 0.5})):
        if more is None:
            state.pop("sampler", None)
        with ckptdb.Manager(f"{path}{kind}", state, save=ckptdb.save_at_steps([]),
                            **options) as manager:
            manager.restore_or_start()
            manager.step()
            try:
                manager.save(metrics=metrics if rank else None).wait_committed()
            except ckptdb.InvalidArgument as error:
                print(error)
            state.pop("sampler", None)
    """
    for text in run(tmp_path, 2, code, path=path):
        sampler, auc = text.splitlines()
        assert 'rank 1 has object "sampler", which rank 0 lacks' in sampler
        assert "put it into the state of all ranks" in sampler
        assert 'rank 1 has metric "auc", which rank 0 lacks' in auc
    with ckptdb.Reader(path + "1") as reader:
        assert len(reader.steps()) == 1  # of the end, without the entry


def test_what_only_another_rank_has_is_restored_without_a_warning(tmp_path, path):
    code = """
    from torch.distributed._shard import sharded_tensor
    from torch.distributed._shard.sharding_spec import ChunkShardingSpec

    class Position:
        def io_state(self):
            return b"rank %d" % rank
        def load_io_state(self, data):
            read.append(data)
    read, warnings = [], []
    options = dict(ranks=ckptdb.torch.ranks(deadline=60), on_warning=warnings.append,
                   save=ckptdb.save_every_n_steps(1))
    state = {"weight": torch.zeros(3)}
    place = ChunkShardingSpec(dim=0, placements=["rank:1/cpu"])
    last = sharded_tensor.full(place, (4,), 7.0)
    if rank == 1:
        state["position"] = Position()
        state["last"] = last
    for _ in range(2):
        with ckptdb.Manager(path, state, **options) as manager:
            report = manager.restore_or_start()
            manager.step(metrics={"loss": rank})
            for shard in last.local_shards():
                assert (shard.tensor == 7).all()
                shard.tensor.zero_()
            manager.restore()
            print(report.fresh, read, warnings)
    if rank == 1:
        del state["last"]
    with ckptdb.Manager(path, state, **options) as manager:
        print(manager.restore().loaded.unexpected, warnings)
    """
    printed = run(tmp_path, 2, code, path=path)
    for rank, text in enumerate(printed):
        once, twice = [[b"rank 1"] * n if rank else [] for n in (1, 3)]
        first, second, last = text.splitlines()[-3:]  # after a warning
        assert first == f"True {once} []"
        assert second == f"False {twice} []"
        unexpected, _, warned = last.partition(" ")
        assert unexpected == "['last']"
        assert ('has "last", which is not registered' in warned) == (rank == 0)
    with ckptdb.Reader(path) as reader:
        assert [record.metrics["loss"] for record in reader.steps()] == [0.0, 0.0]


def test_forked_workers_leave_the_objects_of_a_rank_alone(tmp_path, path):
    """A worker of a DataLoader collects garbage of its parent: managers in cycles,
    open, closed or dropped, and their process groups."""
    code = """
    import gc
    gc.disable()  # the garbage is left to the workers

    class Data(torch.utils.data.Dataset):
        def __len__(self):
            return 4
        def __getitem__(self, at):
            gc.collect()
            return at

    def open_manager(name):
        manager = ckptdb.Manager(path + name, {"w": torch.zeros(9), "n": 0},
                                 save=ckptdb.save_every_n_steps(1),
                                 ranks=ckptdb.torch.ranks(deadline=60))
        manager.itself = manager
        manager.restore_or_start()
        manager.step()
        return manager

    manager = open_manager("open")
    closed = open_manager("closed")
    closed.close()
    dropped = open_manager("dropped")
    dropped.wait_until_finished()
    del closed, dropped
    loader = torch.utils.data.DataLoader(
        Data(), num_workers=2, timeout=30, multiprocessing_context="fork")
    for epoch in range(2):
        print([batch.item() for batch in loader])
        manager.step()
    manager.close()
    gc.collect()  # of the dropped one, which ends its part of the group
    print("closed")
    """
    for text in run(tmp_path, 2, code, path=path):
        assert text.count("[0, 1, 2, 3]") == 2
        assert "closed" in text
    with ckptdb.Reader(path + "open") as reader:
        assert [record.step for record in reader.steps()] == [1, 2, 3]


@pytest.mark.parametrize("run_number", range(8))
def test_a_job_that_ends_after_a_collective_is_not_aborted(tmp_path, run_number):
    # Without the wait at the interpreter's exit, one job of three is aborted.
    code = """
group = dist.distributed_c10d._get_default_group()
for _ in range(20):
    dist.all_gather_object([None] * world, [b"x" * 200_000] * 3)
dist.destroy_process_group()
"""
    run(tmp_path, 2, code)
