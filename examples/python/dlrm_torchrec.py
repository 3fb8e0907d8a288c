# SPDX-License-Identifier: Apache-2.0
"""A DLRM of TorchRec on several ranks, on the CPU.

    torchrun --standalone --nproc-per-node 2 dlrm_torchrec.py --store ckpt
        [--data criteo.csv] [--steps 200]

It resumes from the newest step of the store on any number of ranks. On the same
number it ends with the same digest however often it was killed; on another one
the digest after the restore is that of the step, and sums differ from then on.
Large tables are sharded row-wise, others table-wise. The data is CSV with a header:
label, I1 to I13, C1 to C26, as Criteo's; generated if omitted. Saves between full
ones have only the rows that were looked up.

Beside it, dlrm_evaluator.py evaluates each step, of which the best one is kept, and
dlrm_server.py answers questions with the newest one. Both are single processes.
"""

import argparse
import csv
import hashlib
import os
import signal

import ckptdb
import numpy as np
import torch
import torch.distributed as dist
from torch.distributed.optim import _apply_optimizer_in_backward
from torchrec import EmbeddingBagCollection, EmbeddingBagConfig, KeyedJaggedTensor
from torchrec.distributed.embeddingbag import EmbeddingBagCollectionSharder
from torchrec.distributed.model_parallel import DistributedModelParallel
from torchrec.distributed.model_tracker.types import DeltaTrackerConfig
from torchrec.distributed.sharding_plan import (
    construct_module_sharding_plan,
    row_wise,
    table_wise,
)
from torchrec.distributed.types import ShardingPlan
from torchrec.models.dlrm import DLRM
from torchrec.optim import RowWiseAdagrad

DIM = 16
DENSE = [f"I{i}" for i in range(1, 14)]
SPARSE = [f"C{i}" for i in range(1, 27)]
ROWS = {name: 20_000 if i % 5 == 0 else 1000 for i, name in enumerate(SPARSE)}
TABLES = "sparse_arch.embedding_bag_collection"


def table_of(name):
    """The entry of the state with a feature's table."""
    return f"{TABLES}.embedding_bags.{name}"


def load(path):
    """Dense values (n, 13), ids (n, 26) and labels (n,)."""
    if path is None:
        rng = np.random.default_rng(0)
        ids = np.stack([rng.zipf(1.3, 5000) % ROWS[name] for name in SPARSE], 1)
        labels = (ids[:, 0] % 2).astype(np.float32)
        return rng.random((5000, 13), np.float32), ids, labels
    with open(path, newline="") as file:
        rows = list(csv.DictReader(file))
    dense = [[float(row[name] or 0) for name in DENSE] for row in rows]
    ids = [[int(row[name] or "0", 16) % ROWS[name] for name in SPARSE] for row in rows]
    labels = np.array([float(row["label"]) for row in rows], np.float32)
    return np.log1p(np.maximum(dense, 0)).astype(np.float32), np.array(ids), labels


def split(data, held_out):
    """Every tenth example is held out for the evaluator."""
    chosen = np.arange(len(data[2])) % 10 == 0
    return tuple(each[chosen == held_out] for each in data)


def make_model():
    """Without memory for the tables."""
    tables = [
        EmbeddingBagConfig(
            name=name, embedding_dim=DIM, num_embeddings=rows, feature_names=[name]
        )
        for name, rows in ROWS.items()
    ]
    ebc = EmbeddingBagCollection(device=torch.device("meta"), tables=tables)
    return DLRM(ebc, len(DENSE), [32, DIM], [32, 1])


class Predictor:
    """The model in a single process, which looks up the embeddings elsewhere."""

    def __init__(self):
        self.dlrm = make_model()

    def state_dict(self):
        dense = self.dlrm.state_dict()
        return {name: each for name, each in dense.items() if TABLES not in name}

    def load_state_dict(self, state):
        self.dlrm.load_state_dict(state, strict=False)

    @torch.no_grad()
    def __call__(self, dense, embeddings):
        """Probabilities of clicks, of dense values (n, 13) and embeddings
        (n, 26, DIM)."""
        both = self.dlrm.inter_arch(self.dlrm.dense_arch(dense), embeddings)
        return torch.sigmoid(self.dlrm.over_arch(both)).squeeze(1)


def batch_of(data, step, size):
    """This rank's part of the batch of a step, in an order that depends on the epoch
    alone: the position in the data is the step. TorchRec needs parts of the same size,
    so a few examples are left out if the ranks do not divide the batch."""
    count = len(data[2])
    world = dist.get_world_size()
    size = max(min(size, count), world)
    epoch, position = divmod(step, count // size)
    order = np.random.default_rng(epoch).permutation(count)
    chosen = order[position * size : (position + 1) * size]
    own = chosen[dist.get_rank() :: world][: size // world]
    dense, ids, labels = (torch.from_numpy(each[own]) for each in data)
    ones = torch.ones(ids.numel(), dtype=torch.int64)
    return (
        dense,
        KeyedJaggedTensor.from_lengths_sync(SPARSE, ids.T.reshape(-1), ones),
        labels,
    )


class Trainer:
    def __init__(self):
        torch.manual_seed(1)
        world = dist.get_world_size()
        model = make_model()
        _apply_optimizer_in_backward(
            RowWiseAdagrad, model.sparse_arch.parameters(), {"lr": 0.05}
        )
        specs = {
            name: row_wise() if rows > 1000 else table_wise(rank=i % world)
            for i, (name, rows) in enumerate(ROWS.items())
        }
        plan = construct_module_sharding_plan(
            model.sparse_arch.embedding_bag_collection,
            specs,
            local_size=world,
            world_size=world,
            device_type="cpu",
        )
        self.model = DistributedModelParallel(
            model,
            device=torch.device("cpu"),
            plan=ShardingPlan({TABLES: plan}),
            sharders=[EmbeddingBagCollectionSharder()],
        )
        tracker = self.model.init_torchrec_delta_tracker(DeltaTrackerConfig())
        dense = [p for n, p in self.model.named_parameters() if TABLES not in n]
        self.optimizer = torch.optim.Adagrad(dense, lr=0.01)
        self.state = ckptdb.torchrec.tables(self.model, delta_tracker=tracker)
        self.state["optimizer"] = self.optimizer

    def train(self, dense, ids, labels):
        """One step. Returns this rank's loss."""
        logits = self.model(dense, ids).squeeze(1)
        loss = torch.nn.functional.binary_cross_entropy_with_logits(logits, labels)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss.item()

    def digest(self):
        """A hash of the whole model, the same for all plans. All ranks call it."""
        hash = hashlib.sha256()
        for name, table in sorted(self.state.items()):
            if not isinstance(table, ckptdb.torchrec.EmbeddingTable):
                continue
            parts = [None] * dist.get_world_size()
            dist.all_gather_object(
                parts, [(int(ids[0]), rows) for ids, rows in table.all_rows()]
            )
            blocks = sorted(sum(parts, []), key=lambda block: block[0])
            for slot in sorted(table.slots):
                for _, values in blocks:
                    hash.update(values[slot].detach().numpy())
        for _, tensor in sorted(self.state["model"].state_dict().items()):
            hash.update(tensor.detach().numpy())
        return hash.hexdigest()[:16]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--store", required=True, help="folder of the checkpoints")
    parser.add_argument("--data", help="CSV as Criteo's; generated if omitted")
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--batch", type=int, default=64, help="of all ranks together")
    parser.add_argument("--save-every", type=int, default=20)
    parser.add_argument("--crash-at", type=int, help="step after which to SIGKILL")
    args = parser.parse_args()

    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    data = split(load(args.data), held_out=False)
    trainer = Trainer()
    with ckptdb.Manager(
        args.store,
        trainer.state,
        save=ckptdb.save_every_n_steps(args.save_every),
        keep=ckptdb.latest_n(3) | ckptdb.best_n("auc", 1, keep_without_metric=False),
        ranks=ckptdb.torch.ranks(deadline=600),
    ) as manager:
        report = manager.restore_or_start()
        digest = trainer.digest()
        if rank == 0:
            print(f"{report} on {world} ranks: digest {digest}", flush=True)
        for step in range(manager.global_step + 1, args.steps + 1):
            loss = trainer.train(*batch_of(data, step, args.batch))
            saved = manager.step(metrics={"loss": loss}).saved
            if saved and rank == 0:
                print(f"step {step}: loss {loss:.4f}", flush=True)
            if step == args.crash_at and rank == world - 1:
                os.kill(os.getpid(), signal.SIGKILL)
    digest = trainer.digest()
    if rank == 0:
        print(f"digest {digest}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
