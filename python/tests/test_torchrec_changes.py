# SPDX-License-Identifier: Apache-2.0
"""Models of TorchRec that differ from the step, and mistakes."""

from __future__ import annotations

import pytest

import ckptdb

pytest.importorskip("numpy")
pytest.importorskip("torchrec")

from job import run  # noqa: E402
from torchrec_jobs import MODEL, SAVE, last_lines, restored  # noqa: E402


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


def test_extra_state_of_modules_is_restored(tmp_path, path):
    model = (
        MODEL.replace("torch.nn.Linear(DIM", "Counted(DIM")
        + """
class Counted(torch.nn.Linear):
    calls = 0
    def forward(self, x):
        self.calls += 1
        return super().forward(x)
    def get_extra_state(self):
        return {"calls": self.calls, "bound": torch.full((2,), float(self.calls))}
    def set_extra_state(self, state):
        assert state["bound"].tolist() == [state["calls"]] * 2
        self.calls = state["calls"]

trainer = Trainer(kinds)
(over,) = (m for m in trainer.dmp.modules() if isinstance(m, Counted))
with manager_of(trainer, path) as manager:
    if last:
        assert manager.restore().step == last
    else:
        trainer.fill()
        for step in range(3):
            trainer.train(step)
            manager.step()
print(over.calls)
dist.destroy_process_group()
"""
    )
    saved = last_lines(run(tmp_path, 2, model, path=path, kinds=[0, 1, 0], last=0))
    assert saved == "3"
    restored = run(tmp_path, 1, model, path=path, kinds=[0, "row", 0], last=3)
    assert last_lines(restored) == "3"
