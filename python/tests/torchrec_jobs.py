# SPDX-License-Identifier: Apache-2.0
"""Jobs of ranks that train and restore a model of TorchRec."""

from __future__ import annotations

import ast

from job import run

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
