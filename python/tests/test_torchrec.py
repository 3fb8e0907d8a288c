# SPDX-License-Identifier: Apache-2.0
"""Tables of TorchRec's DistributedModelParallel, on gloo and CPU."""

from __future__ import annotations

import signal

import pytest

import ckptdb

pytest.importorskip("numpy")
pytest.importorskip("torch")
pytest.importorskip("torchrec")

from job import Job, run  # noqa: E402
from torchrec_jobs import MODEL, SAVE, last_line, last_lines, restored, weights  # noqa: E402


torch = pytest.importorskip("torch")


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
