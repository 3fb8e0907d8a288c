# SPDX-License-Identifier: Apache-2.0
"""Tables of TorchRec's DistributedModelParallel, on gloo and CPU."""

from __future__ import annotations

import ast
import signal

import pytest

import ckptdb

pytest.importorskip("numpy")
torch = pytest.importorskip("torch")
pytest.importorskip("torchrec")

from job import Job, run  # noqa: E402

# A model of three tables under a plan: by table "row", "data", the rank that has all
# rows, modulo the number of ranks, the equal widths of column shards, which go to the
# ranks in turn, or a sharding type of hosts, with the hosts, and the width of column
# shards. The ranks are divided evenly among `hosts`, by default one. `digests` has a
# hash of each whole entry, equal on all ranks and plans. Values of weights are drawn
# again after sharding, from the global rows, because TorchRec draws other ones for each
# plan.
MODEL = """
import hashlib, logging, warnings
warnings.filterwarnings("ignore")
logging.disable(logging.WARNING)
import numpy as np
import torchrec
from torch.distributed.optim import _apply_optimizer_in_backward
from torchrec.distributed.embeddingbag import EmbeddingBagCollectionSharder
from torchrec.distributed.model_parallel import DistributedModelParallel
from torchrec.distributed.model_tracker.types import DeltaTrackerConfig
from torch.distributed._shard.sharding_spec import EnumerableShardingSpec, ShardMetadata
from torchrec.distributed.sharding_plan import (
    calculate_shard_sizes_and_offsets, column_wise, construct_module_sharding_plan,
    data_parallel, row_wise, table_wise)
from torchrec.distributed.types import ParameterSharding, ShardingPlan

ROWS, DIM = (101, 40, 20), 8
KEY = "ebc.embedding_bags.t"
local = world // globals().get("hosts", 1)
os.environ["LOCAL_WORLD_SIZE"] = str(local)

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.ebc = torchrec.EmbeddingBagCollection(
            device=torch.device("meta"),
            tables=[torchrec.EmbeddingBagConfig(
                name=f"t{i}", embedding_dim=DIM, num_embeddings=rows,
                feature_names=[f"f{i}"]) for i, rows in enumerate(ROWS)])
        self.over = torch.nn.Linear(DIM * len(ROWS), 1)
    def forward(self, features):
        return self.over(self.ebc(features).values())

def spec(kind):
    if kind == "row":
        return row_wise()
    if isinstance(kind, list):
        return column_wise(ranks=[n % world for n in range(len(kind))])
    if isinstance(kind, tuple):
        return lambda parameter, *_: on_hosts(*kind, parameter)
    return data_parallel() if kind == "data" else table_wise(rank=kind % world)

# Like the planner's, but with column shards of any width.
def on_hosts(sharding, on, width, parameter):
    sizes, offsets = calculate_shard_sizes_and_offsets(
        parameter, world, local, sharding, col_wise_shard_dim=width)
    places = [host * local + each for host in on for each in range(local)]
    ranks = [places[n % len(places)] for n in range(len(sizes))]
    shards = [ShardMetadata(shard_offsets=offset, shard_sizes=size,
                            placement=f"rank:{each}/cpu")
              for size, offset, each in zip(sizes, offsets, ranks)]
    return ParameterSharding(sharding_type=sharding, compute_kernel="fused", ranks=ranks,
                             sharding_spec=EnumerableShardingSpec(shards))

class Trainer:
    def __init__(self, kinds, tracker=False, optimizer="RowWiseAdagrad", **options):
        torch.manual_seed(1)
        net = Net()
        _apply_optimizer_in_backward(
            getattr(torchrec.optim, optimizer), net.ebc.parameters(), {"lr": 0.1})
        plan = construct_module_sharding_plan(
            net.ebc, {f"t{i}": spec(kind) for i, kind in enumerate(kinds)},
            local_size=local, world_size=world, device_type="cpu")
        self.dmp = DistributedModelParallel(
            net, device=torch.device("cpu"), plan=ShardingPlan({"ebc": plan}),
            sharders=[EmbeddingBagCollectionSharder()])
        if tracker:
            options["delta_tracker"] = self.dmp.init_torchrec_delta_tracker(
                DeltaTrackerConfig())
        self.state = ckptdb.torchrec.tables(self.dmp, **options)
        self.dense = torch.optim.SGD(
            [p for n, p in self.dmp.named_parameters() if n.startswith("over")], lr=0.1)
        self.state["optimizer"] = self.dense

    def fill(self):
        for name, table in self.state.items():
            if isinstance(table, ckptdb.CustomTable):
                for ids, values in table.all_rows():
                    for key, value in values.items():
                        name, first = key if isinstance(key, tuple) else (key, 0)
                        if name == "weight":
                            columns = torch.arange(first, first + value.shape[1]) + 1.0
                            value.data.copy_(torch.sin(ids[:, None] * columns))

    # The same batch on all ranks. Returns by table the ids that were looked up.
    def train(self, step):
        g = torch.Generator().manual_seed(step)
        count = 6
        values = torch.stack([torch.randint(rows, (count,), generator=g)
                              for rows in ROWS])
        label = torch.rand(count, 1, generator=g)
        features = torchrec.KeyedJaggedTensor.from_lengths_sync(
            [f"f{i}" for i in range(len(ROWS))], values.reshape(-1),
            torch.ones(values.numel(), dtype=torch.int64))
        (self.dmp(features) - label).square().mean().backward()
        self.dense.step()
        self.dense.zero_grad()
        return [set(v.tolist()) for v in values]

    def digests(self):
        def digest(*arrays):
            return hashlib.sha256(b"".join(a.tobytes() for a in arrays)).hexdigest()[:8]
        found = {n: digest(t.detach().numpy()) for n, t in
                 self.state["model"].state_dict().items()}
        for name, table in self.state.items():
            if not isinstance(table, ckptdb.CustomTable):
                continue
            own = [(ids.numpy(), {n: t.detach().numpy().copy() for n, t in v.items()})
                   for ids, v in table.all_rows()]
            parts = [None] * world
            dist.all_gather_object(parts, own)
            if table._sharding == "replicated":
                parts = parts[:1]
            for slot, (_, elements) in table.slots.items():
                values = np.full((ROWS[int(name[-1])], elements), np.nan, np.float32)
                for ids, columns in (block for part in parts for block in part):
                    for key, some in columns.items():
                        key, first = key if isinstance(key, tuple) else (key, 0)
                        some = some.reshape(len(ids), -1)
                        if key == slot:
                            assert np.isnan(values[ids, first]).all()
                            values[ids, first : first + some.shape[1]] = some
                assert values.any() and not np.isnan(values).any(), (name, slot)
                found[f"{name}/{slot}"] = digest(values)
        return found

def manager_of(trainer, path, **options):
    options.setdefault("save", ckptdb.save_every_n_steps(1))
    return ckptdb.Manager(path, trainer.state, ranks=ckptdb.torch.ranks(deadline=60),
                          async_=False, **options)
"""

SAVE = (
    MODEL
    + """
trainer = Trainer(kinds)
trainer.fill()
with manager_of(trainer, path) as manager:
    for step in range(3):
        trainer.train(step)
        manager.step()
print(trainer.digests())
dist.destroy_process_group()
"""
)

RESTORE = (
    MODEL
    + """
trainer = Trainer(kinds, **options)
manager = manager_of(trainer, path)
assert manager.restore().step == last
print(trainer.digests())
manager.close()
dist.destroy_process_group()
"""
)


def last_line(text: str) -> str:
    return text.strip().splitlines()[-1]


def last_lines(printed: list[str]) -> str:
    (line,) = {last_line(text) for text in printed}
    return line


def restored(
    folder, world: int, path: str, kinds: list, last: int, hosts: int = 1, **options
) -> str:
    """The digests of the newest step, whose number is `last`, under another plan."""
    variables = {"path": path, "kinds": kinds, "last": last, "options": options}
    variables["hosts"] = hosts
    return last_lines(run(folder, world, RESTORE, **variables))


def weights(digests: str) -> dict[str, str]:
    found = ast.literal_eval(digests)
    return {name: each for name, each in found.items() if "momentum" not in name}


def test_column_shards_restore_on_any_plan_and_number_of_ranks(tmp_path, path):
    code = SAVE.replace("Trainer(kinds)", 'Trainer(kinds, optimizer="Adagrad")')
    saved = last_lines(run(tmp_path, 2, code, path=path, kinds=[[4, 4], "row", 1]))
    assert saved.count("momentum1") == 3
    for world, kinds in (
        (2, [0, [8], [4, 4]]),
        (1, [[4, 4], 0, "row"]),
        (3, ["row", [4, 4], 2]),  # a rank has no columns
    ):
        found = restored(tmp_path, world, path, kinds, 3, optimizer="Adagrad")
        assert found == saved, (world, kinds)
    with ckptdb.Reader(path) as reader, reader.latest() as step:
        item = step.table("ebc.embedding_bags.t0").item
        assert (item.sharding, item.rows) == ("range", 101)
        assert item.slots["weight"] == ("f32", 8, "none")


GRID = ("grid_shard", [0, 1], 4)
TABLE_ROW = ("table_row_wise", [1], None)
TABLE_COLUMN = ("table_column_wise", [0], 4)


def test_plans_of_several_hosts_restore_on_any_other_plan(tmp_path, path):
    code = SAVE.replace("Trainer(kinds)", 'Trainer(kinds, optimizer="Adagrad")')
    kinds = [GRID, TABLE_ROW, TABLE_COLUMN]
    saved = last_lines(run(tmp_path, 4, code, path=path, kinds=kinds, hosts=2))
    assert saved.count("momentum1") == 3
    for world, hosts, kinds in (
        (4, 2, [TABLE_COLUMN, GRID, TABLE_ROW]),
        (2, 2, [TABLE_ROW, GRID, TABLE_COLUMN]),  # hosts of one rank
        (3, 1, ["row", 1, [4, 4]]),
        (1, 1, [0, [4, 4], "row"]),
    ):
        more = {"optimizer": "Adagrad"}
        found = restored(tmp_path, world, path, kinds, 3, hosts=hosts, **more)
        assert found == saved, (world, kinds)
    # And from such a plan into those of several hosts, with a data-parallel table.
    other = f"{path}-other"
    code = SAVE.replace("Trainer(kinds)", 'Trainer(kinds, optimizer="SGD")')
    saved = last_lines(run(tmp_path, 2, code, path=other, kinds=["row", 1, "data"]))
    for kinds in ([GRID, TABLE_COLUMN, TABLE_ROW], [TABLE_ROW, "data", GRID]):
        found = restored(tmp_path, 4, other, kinds, 3, hosts=2, optimizer="SGD")
        assert found == saved, kinds


def test_sums_of_rowwise_adagrad_in_a_grid(tmp_path, path):
    kinds = [GRID, TABLE_ROW, TABLE_COLUMN]
    code = SAVE.replace("Trainer(kinds)", "Trainer(kinds, tracker=True)")
    saved = last_lines(run(tmp_path, 4, code, path=path, kinds=kinds, hosts=2))
    # The same columns, on other ranks and with other rows.
    assert restored(tmp_path, 2, path, [[4, 4], "row", [4, 4]], 3) == saved
    with ckptdb.Reader(path) as reader, reader.latest() as step:
        slots = [step.table(f"ebc.embedding_bags.t{t}").item.slots for t in range(3)]
    assert [each["momentum1"][1] for each in slots] == [2, 1, 2]


def test_sums_of_rowwise_adagrad_on_other_column_shards(tmp_path, path):
    """Of two shards the mean, and of one the same for both of its halves."""
    saved = last_lines(run(tmp_path, 2, SAVE, path=path, kinds=[[4, 4], 1, "row"]))
    kinds = [[4, 4], 0, "row"]
    assert restored(tmp_path, 1, path, kinds, 3) == saved
    code = """
trainer = Trainer(["row", [4, 4], 0])
manager = manager_of(trainer, path)
assert manager.restore().step == 3
def sums(source, name):
    with source as step:
        ids = np.arange(ROWS[int(name[-1])])
        found, values = step.table(name).lookup(ids, ["momentum1"])
        assert found.all()
        return values["momentum1"]
with ckptdb.Reader(path) as reader:
    two = sums(reader.latest(), f"{KEY}0")
    one = sums(reader.latest(), f"{KEY}1")
assert two.shape == (101, 2) and one.shape == (40, 1)
assert (two[:, 0] != two[:, 1]).any()
for ids, values in trainer.state[f"{KEY}0"].all_rows():
    mean = two[ids].mean(axis=1, dtype=np.float64).astype(np.float32)
    assert (values["momentum1"].numpy() == mean).all()
for ids, values in trainer.state[f"{KEY}1"].all_rows():
    half = values["momentum1", rank].numpy()
    assert (half == one[ids]).all() and half.any()
trainer.train(3)
manager.step()
manager.close()
dist.barrier()
with ckptdb.Reader(path) as reader:
    assert sums(reader.latest(), f"{KEY}0").shape == (101, 1)
    assert sums(reader.latest(), f"{KEY}1").shape == (40, 2)
print(trainer.digests())
dist.destroy_process_group()
"""
    after = last_lines(run(tmp_path, 2, MODEL + code, path=path))
    # The values of old shards are kept where new ones are parts of them.
    assert restored(tmp_path, 2, path, ["row", [4, 4], 0], 4) == after


def test_another_plan_and_number_of_ranks_restores_the_same_bits(tmp_path, path):
    saved = last_lines(run(tmp_path, 2, SAVE, path=path, kinds=["row", 1, 0]))
    assert saved.count("momentum1") == 3
    for world, kinds in (
        (2, ["row", 1, 0]),
        (2, [1, "row", 1]),  # as many ranks, other owners
        (1, ["row", 0, 0]),
        (3, ["row", "row", 2]),
        (3, [2, 0, "row"]),
    ):
        assert restored(tmp_path, world, path, kinds, 3) == saved, (world, kinds)


@pytest.mark.parametrize("kind", ["row", [4, 4]])
def test_a_delta_tracker_limits_saves_to_looked_up_rows(tmp_path, path, kind):
    code = """
trainer = Trainer([kind, 1, "data"], tracker=True)
trainer.fill()
with manager_of(trainer, path, max_delta_ratio=1000) as manager:
    trainer.train(0)
    manager.step()
    expected = []
    for step in (1, 2, 3):
        expected.append(trainer.train(step))
        if step == 2:  # two batches between saves
            more = trainer.train(9)
            expected[-1] = [a | b for a, b in zip(expected[-1], more)]
        manager.step()
    expected.append([set(), set(), set()])  # nothing was trained
    manager.step()
dist.barrier()
with ckptdb.Reader(path) as reader:
    for step, ids in enumerate(expected, 2):
        with reader.changes(step - 1, step) as changes:
            for t in (0, 1):
                batches = list(changes.table(f"{KEY}{t}"))
                found = sorted(i for b in batches for i in b.ids.tolist())
                assert found == sorted(ids[t]), (step, t, found, ids[t])
            # Each rank updates all rows of a data-parallel table.
            try:
                found = sum(len(b.ids) for b in changes.table(f"{KEY}2"))
            except ckptdb.FailedPrecondition:
                found = ROWS[2]
            assert found == ROWS[2], found
print(trainer.digests())
dist.destroy_process_group()
"""
    saved = last_lines(run(tmp_path, 2, MODEL + code, path=path, kind=kind))
    found = restored(tmp_path, 3, path, [2, "row", "data"], 5)
    assert weights(found) == weights(saved)
    if kind == "row":
        assert found == saved


def test_deltas_under_another_plan_lose_no_rows(tmp_path, path):
    """The number of ranks and the recorded sharding stay equal; owners differ."""
    run(tmp_path, 2, SAVE, path=path, kinds=["row", 1, 0])
    code = """
trainer = Trainer([1, "row", 1], tracker=True)
with manager_of(trainer, path, max_delta_ratio=1000) as manager:
    assert manager.restore().step == 3
    for step in (3, 4):
        trainer.train(step)
        manager.step()
    if rank == 0:
        print([record.kind for record in manager.steps()])
print(trainer.digests())
dist.destroy_process_group()
"""
    printed = run(tmp_path, 2, MODEL + code, path=path)
    assert printed[0].splitlines()[-2] == str(["full"] * 3 + ["delta"] * 2)
    for world in (2, 3):
        expected = last_line(printed[0])
        assert restored(tmp_path, world, path, ["row", 0, 1], 5) == expected


def test_data_parallel_tables_become_sharded_ones_and_back(tmp_path, path):
    code = """
trainer = Trainer(kinds, tracker=True, optimizer="SGD")
trainer.fill()
with manager_of(trainer, path, max_delta_ratio=1000) as manager:
    manager.restore_or_start()
    for _ in range(2):
        trainer.train(manager.global_step)
        manager.step()
print(trainer.digests())
dist.destroy_process_group()
"""
    for kinds in (["data", 0, "row"], ["row", "data", 1], [1, "row", "data"]):
        saved = last_lines(run(tmp_path, 2, MODEL + code, path=path, kinds=kinds))
    with ckptdb.Reader(path) as reader:
        assert reader.steps()[-1].kind == "delta"
    assert restored(tmp_path, 3, path, ["row", 1, 0], 6, optimizer="SGD") == saved


def test_fill_gives_a_data_parallel_table_its_optimizer_slots(tmp_path, path):
    run(tmp_path, 2, SAVE, path=path, kinds=["data", 1, 0])
    code = """
trainer = Trainer(["row", 1, 0])
manager = manager_of(trainer, path)
try:
    manager.restore()
except ckptdb.FailedPrecondition as error:
    assert f'sparse "{KEY}0"' in str(error), error
    assert 'slot "momentum1" is not in the step' in str(error), error
else:
    raise AssertionError("restored")
manager.restore(evolve={"tables": {f"{KEY}0": {"fill": {"momentum1": 0.5}}}})
for ids, values in trainer.state[f"{KEY}0"].all_rows():
    assert (values["momentum1"] == 0.5).all()
    with ckptdb.Reader(path) as reader, reader.latest() as step:
        found, weights = step.table(f"{KEY}0").lookup(ids.numpy(), ["weight"])
    assert found.all() and (weights["weight"] == values["weight"].numpy()).all()
manager.close()
dist.destroy_process_group()
"""
    run(tmp_path, 2, MODEL + code, path=path)


TRAINER = (
    MODEL
    + """
trainer = Trainer(kinds, tracker=True, optimizer=optimizer)
trainer.fill()
with manager_of(trainer, path, max_delta_ratio=1000) as manager:
    manager.restore_or_start()
    for step in range(manager.global_step, 6):
        trainer.train(step)
        if step == crash_at:
            os.kill(os.getpid(), 9)
        manager.step()
print(trainer.digests())
dist.destroy_process_group()
"""
)


@pytest.mark.parametrize(
    "kinds, others, optimizer",
    [
        (["row", 1, 0], ["row", 1, 0], "RowWiseAdagrad"),
        ([[4, 4], [4, 4], 0], [[4, 4], [4, 4], 0], "RowWiseAdagrad"),
        # With a state of each element another division computes the same.
        ([[4, 4], "row", 0], ["row", [4, 4], 1], "Adagrad"),
    ],
)
def test_a_killed_job_resumes_to_the_same_digests(
    tmp_path, path, kinds, others, optimizer
):
    job = {"kinds": kinds, "optimizer": optimizer}
    calm = run(tmp_path, 2, TRAINER, path=f"{path}-calm", crash_at=-1, **job)
    killed = Job(tmp_path, 2, TRAINER, path=path, crash_at=3, **job)
    assert killed.wait() == [-signal.SIGKILL] * 2
    job["kinds"] = others
    resumed = run(tmp_path, 2, TRAINER, path=path, crash_at=-1, **job)
    assert last_lines(resumed) == last_lines(calm)
    if optimizer == "Adagrad":
        for world, plan in ((1, [[4, 4], 0, "row"]), (3, [0, [4, 4], "row"])):
            found = restored(tmp_path, world, path, plan, 6, optimizer=optimizer)
            assert found == last_lines(calm)


PIPELINE = (
    MODEL
    + """
from torchrec.distributed.train_pipeline import TrainPipelineSparseDist

def forward(self, features):
    out = self.over(self.ebc(features).values())
    return out.square().mean(), out
Net.forward = forward

def batch(step):
    g = torch.Generator().manual_seed(step)
    values = torch.cat([torch.randint(rows, (6,), generator=g) for rows in ROWS])
    return torchrec.KeyedJaggedTensor.from_lengths_sync(
        [f"f{i}" for i in range(len(ROWS))], values, torch.ones(18, dtype=torch.int64))

trainer = Trainer(["row", 1, 0], tracker=True)
trainer.fill()
with manager_of(trainer, path, max_delta_ratio=1000) as manager:
    manager.restore_or_start()
    steps = range(manager.global_step, 6)
    pipeline = TrainPipelineSparseDist(trainer.dmp, trainer.dense, torch.device("cpu"))
    batches = (batch(step) for step in steps)
    for step in steps:
        if piped:
            pipeline.progress(batches)
        else:
            trainer.dmp(batch(step))[0].backward()
            trainer.dense.step()
            trainer.dense.zero_grad()
        if step == crash_at:
            os.kill(os.getpid(), 9)
        manager.step()
print(trainer.digests())
dist.destroy_process_group()
"""
)


def test_a_killed_pipeline_resumes_to_the_digests_of_a_plain_loop(tmp_path, path):
    """A pipeline distributes the ids of later batches before a save."""
    calm = run(tmp_path, 2, PIPELINE, path=f"{path}-calm", crash_at=-1, piped=False)
    killed = Job(tmp_path, 2, PIPELINE, path=path, crash_at=3, piped=True)
    assert killed.wait() == [-signal.SIGKILL] * 2
    resumed = run(tmp_path, 2, PIPELINE, path=path, crash_at=-1, piped=True)
    assert last_lines(resumed) == last_lines(calm)
    with ckptdb.Reader(path) as reader:
        assert [r.kind for r in reader.steps()][1:] == ["delta"] * 5


def test_marks_of_the_trainer_and_mistakes(tmp_path, path):
    code = """
def fails(error, words, call):
    try:
        call()
    except error as raised:
        assert words in str(raised), raised
    else:
        raise AssertionError(words)

tables = ckptdb.torchrec.tables
fails(ckptdb.InvalidArgument, "the model is a Linear",
      lambda: tables(torch.nn.Linear(1, 1)))
fails(ckptdb.InvalidArgument, "choose one",
      lambda: Trainer([0, 0, 0], tracker=True, tracked=True))
fails(ckptdb.InvalidArgument, 'no consumer "other"',
      lambda: Trainer([0, 0, 0], tracker=True, consumer="other"))
trainer = Trainer(["row", 1, 0], tracked=True)
trainer.fill()
t0 = trainer.state[f"{KEY}0"]
fails(ckptdb.OutOfRange, "101 is no row", lambda: t0.mark([3, 101]))
fails(ckptdb.Unimplemented, "cannot be erased", lambda: t0.mark_erased([3]))
with manager_of(trainer, path, max_delta_ratio=1000) as manager:
    trainer.train(0)
    manager.step()
    ids = trainer.train(1)
    for t in range(3):
        trainer.state[f"{KEY}{t}"].mark(sorted(ids[t]))
    manager.step()
dist.barrier()
with ckptdb.Reader(path) as reader, reader.changes(1, 2) as changes:
    found = [i for b in changes.table(f"{KEY}0") for i in b.ids.tolist()]
    assert sorted(found) == sorted(ids[0]), found
print(trainer.digests())
dist.destroy_process_group()
"""
    saved = last_lines(run(tmp_path, 2, MODEL + code, path=path))
    assert restored(tmp_path, 1, path, [0, "row", 0], 2) == saved


@pytest.mark.parametrize("kinds", [["row"] * 3, [[4, 4], 1, 0]])
@pytest.mark.parametrize("tracker", [True, False])
def test_rows_of_a_grown_table_that_the_trainer_sets_are_saved(
    tmp_path, path, kinds, tracker
):
    run(tmp_path, 2, SAVE, path=path, kinds=kinds)
    grown = MODEL.replace("(101, 40, 20)", "(150, 60, 20)")
    code = """
trainer = Trainer(kinds, tracker=tracker, tracked=not tracker)
def rows_of(table, before):
    for part in table._parts:
        new = torch.arange(part.first, part.first + part.rows) >= before
        yield part.slots["weight"].detach(), new
tables = [trainer.state[f"{KEY}{t}"] for t in (0, 1)]
with manager_of(trainer, path, max_delta_ratio=1000) as manager:
    manager.restore()
    for table, before in zip(tables, (101, 40)):
        for weight, new in rows_of(table, before):
            if last == 3:
                weight[new] = 7.0
            assert (weight[new] == 7.0).all()
    if last == 3:
        manager.step()
        manager.step()  # which has no changes
    if rank == 0:
        print([record.kind for record in manager.steps()][3:])
print(trainer.digests())
dist.destroy_process_group()
"""
    more = {"path": path, "kinds": kinds, "tracker": tracker}
    saved = run(tmp_path, 2, grown + code, last=3, **more)
    assert saved[0].splitlines()[-2] == "['delta', 'delta']"
    with ckptdb.Reader(path) as reader, reader.changes(4, 5) as changes:
        assert not any(len(b.ids) for b in changes.table("ebc.embedding_bags.t0"))
    restored = run(tmp_path, 2, grown + code, last=5, **more)
    assert last_lines(restored) == last_lines(saved)


@pytest.mark.parametrize("kinds", [["row"] * 3, [1, 0, 0], [[4, 4]] * 3])
def test_a_table_that_was_cut_is_named(tmp_path, path, kinds):
    run(tmp_path, 2, SAVE, path=path, kinds=kinds)
    code = """
trainer = Trainer(kinds)
expected = (f'the step has row 100 of table "{KEY}0", which has only rows 0 to 59 now; '
            'make the table with at least 101 rows, or leave it out of the restore: '
            f'evolve={{"exclude": ["{KEY}0"]}}')
manager = manager_of(trainer, path)
try:
    manager.restore()
except ckptdb.OutOfRange as error:
    assert expected in str(error), error
    print("raised")
manager.close()
manager = manager_of(trainer, path)
print(manager.restore(evolve={"exclude": [f"{KEY}0"]}).step)
manager.close()
table = trainer.state[f"{KEY}1"]
try:
    table.ranks_of([40], world)
except ckptdb.OutOfRange as error:
    assert "40 is no row" in str(error), error
    print("no row")
"""
    cut = MODEL.replace("(101, 40, 20)", "(60, 40, 20)")
    for printed in run(tmp_path, 2, cut + code, path=path, kinds=kinds):
        assert printed.splitlines()[-3:] == ["raised", "3", "no row"]


def test_dense_tensors_of_another_form_are_named_and_nothing_changes(tmp_path, path):
    run(tmp_path, 2, SAVE, path=path, kinds=["row", 1, 0])
    code = """
trainer = Trainer(["row", 1, 0])
def dense():
    return {n: v.clone() for n, v in trainer.state["model"].state_dict().items()}
def unchanged():
    now = dense()
    return all(torch.equal(now[n], v) for n, v in before.items())
before = dense()
weight = trainer.state[f"{KEY}0"]._parts[0].slots["weight"].detach().clone()
manager = manager_of(trainer, path)
try:
    manager.restore(evolve={})
except ckptdb.FailedPrecondition as error:
    assert 'dense "model.over.' in str(error) and expected in str(error), error
    print("raised")
assert unchanged()
assert torch.equal(trainer.state[f"{KEY}0"]._parts[0].slots["weight"].detach(), weight)
manager.restore(evolve=evolve)
assert unchanged() == ("exclude" in evolve)
print("restored")
manager.close()
"""
    linear = "torch.nn.Linear(DIM * len(ROWS), 1)"
    for changed, expected, evolve in (
        (linear.replace("1)", "3)"), "f32 [3]", {"exclude": ["model"]}),
        (linear + ".double()", "f64 [1, 24]", {"cast": True}),
    ):
        model = MODEL.replace(linear, changed).replace(
            "self.over(self.ebc(features).values())",
            "self.over(self.ebc(features).values().to(self.over.weight.dtype))",
        )
        evolved = {"path": path, "expected": expected, "evolve": evolve}
        for printed in run(tmp_path, 2, model + code, **evolved):
            assert printed.splitlines()[-2:] == ["raised", "restored"]
