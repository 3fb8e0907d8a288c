# SPDX-License-Identifier: Apache-2.0
"""Tables of TorchRec's DistributedModelParallel, on gloo and CPU."""

from __future__ import annotations

import signal

import pytest

import ckptdb

pytest.importorskip("numpy")
torch = pytest.importorskip("torch")
pytest.importorskip("torchrec")

from job import Job, run  # noqa: E402

# A model of three tables under a plan: by table "row", "data", or the rank that has
# all rows, modulo the number of ranks. `digests` has a hash of each whole entry, equal
# on all ranks and plans. Values of weights are drawn again after sharding, from the
# global rows, because TorchRec draws other ones for each plan.
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
from torchrec.distributed.sharding_plan import (
    column_wise, construct_module_sharding_plan, data_parallel, row_wise, table_wise)
from torchrec.distributed.types import ShardingPlan

ROWS, DIM = (101, 40, 20), 8
KEY = "ebc.embedding_bags.t"

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
    if kind == "columns":
        return column_wise(ranks=list(range(world)))
    return data_parallel() if kind == "data" else table_wise(rank=kind % world)

class Trainer:
    def __init__(self, kinds, tracker=False, **options):
        torch.manual_seed(1)
        net = Net()
        _apply_optimizer_in_backward(
            torchrec.optim.RowWiseAdagrad, net.ebc.parameters(), {"lr": 0.1})
        plan = construct_module_sharding_plan(
            net.ebc, {f"t{i}": spec(kind) for i, kind in enumerate(kinds)},
            local_size=world, world_size=world, device_type="cpu")
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
                    columns = torch.arange(DIM) + 1.0
                    values["weight"].data.copy_(torch.sin(ids[:, None] * columns))

    # The same global batch on all ranks and plans, of which rank 0 has all, so that
    # no sum depends on the number of ranks.
    def train(self, step, lowest=0, highest=10):
        g = torch.Generator().manual_seed(step)
        count = 6
        values = torch.stack([torch.randint(lowest, min(highest, rows), (count,),
                                            generator=g) for rows in ROWS])
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
            parts = [block for part in parts for block in part]
            ids = np.concatenate([b[0] for b in parts])
            order = np.argsort(ids)
            assert (ids[order] == np.arange(ROWS[int(name[-1])])).all(), name
            for slot in table.slots:
                values = np.concatenate([b[1][slot] for b in parts])[order]
                assert values.any(), (name, slot)
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
trainer = Trainer(kinds)
manager = manager_of(trainer, path)
assert manager.restore().step == 3
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
        restored = last_lines(run(tmp_path, world, RESTORE, path=path, kinds=kinds))
        assert restored == saved, (world, kinds)
