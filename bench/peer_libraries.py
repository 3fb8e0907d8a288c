# SPDX-License-Identifier: Apache-2.0
"""The libraries that peers.py compares, each behind the same few calls."""

from __future__ import annotations

import importlib.util
import os
import tempfile
from typing import Any

import numpy as np

State = dict[str, np.ndarray]


class Peer:
    packages: tuple[str, ...] = ()
    syncs = False  # its saves are durable when `finish` returns

    def __init__(self, folder: str) -> None:
        self.folder = folder

    def open(self, state: State) -> None:
        """Prepares saves of this state, which the trainer changes in place."""
        self.state = state

    def renew(self) -> None:
        """Takes the values that the state has now, before a measured save."""

    def changed(self, rows: np.ndarray) -> None:
        """Learns which rows have changed, as a part of the save."""

    def save(self, step: int) -> None:
        """Returns when the state may change."""
        raise NotImplementedError

    def finish(self) -> None:
        """Waits until the checkpoint is written."""

    def load(self, step: int, targets: State) -> None:
        raise NotImplementedError

    def close(self) -> None:
        """Ends threads and processes."""

    def path(self, step: int) -> str:
        return os.path.join(self.folder, f"step-{step}")

    def new_folder(self, step: int) -> str:
        os.makedirs(self.path(step))
        return self.path(step)


def tensors(state: State) -> dict[str, Any]:
    import torch

    return {name: torch.from_numpy(array) for name, array in state.items()}


class Numpy(Peer):
    """A file for each array."""

    packages = ("numpy",)

    def save(self, step):
        folder = self.new_folder(step)
        for name, array in self.state.items():
            np.save(f"{folder}/{name}.npy", array)

    def load(self, step, targets):
        for name, target in targets.items():
            np.copyto(target, np.load(f"{self.path(step)}/{name}.npy", mmap_mode="r"))


class TorchSave(Peer):
    packages = ("torch",)

    def save(self, step):
        import torch

        torch.save(tensors(self.state), self.new_folder(step) + "/state.pt")

    def load(self, step, targets):
        import torch

        path = self.path(step) + "/state.pt"
        loaded = torch.load(path, mmap=True, weights_only=True)
        for name, target in tensors(targets).items():
            target.copy_(loaded[name])


class Safetensors(Peer):
    packages = ("safetensors", "torch")

    def save(self, step):
        from safetensors.torch import save_file

        path = self.new_folder(step) + "/state.safetensors"
        save_file(tensors(self.state), path)

    def load(self, step, targets):
        from safetensors import safe_open

        path = self.path(step) + "/state.safetensors"
        with safe_open(path, framework="pt") as loaded:
            for name, target in tensors(targets).items():
                target.copy_(loaded.get_tensor(name))


class Dcp(Peer):
    """torch.distributed.checkpoint, with a thread for each core."""

    packages = ("torch",)

    def writer(self, step):
        import torch.distributed.checkpoint as dcp

        return dcp.FileSystemWriter(self.path(step), thread_count=os.cpu_count() or 1)

    def save(self, step):
        import torch.distributed.checkpoint as dcp

        dcp.save(tensors(self.state), storage_writer=self.writer(step), no_dist=True)

    def load(self, step, targets):
        import torch.distributed.checkpoint as dcp

        reader = dcp.FileSystemReader(self.path(step))
        dcp.load(tensors(targets), storage_reader=reader, no_dist=True)


class DcpAsync(Dcp):
    def open(self, state):
        import torch.distributed as dist

        super().open(state)
        if not dist.is_initialized():  # for the warm-up
            dist.init_process_group(
                "gloo", store=dist.HashStore(), rank=0, world_size=1
            )

    def save(self, step):
        import torch.distributed.checkpoint as dcp

        self.future = dcp.async_save(
            tensors(self.state), storage_writer=self.writer(step)
        )

    def finish(self):
        self.future.result()


class TorchCheckpointing(Peer):
    """Its asynchronous saves, which a process writes from shared memory. Without its
    direct I/O, whose unaligned writes ext4 refuses."""

    packages = ("torch_checkpointing", "torch")

    def open(self, state):
        super().open(state)
        from torch_checkpointing import CheckpointManager
        from torch_checkpointing.storage.filesystem import LocalFileSystemStorageConfig

        config = CheckpointManager.Config.with_async_save()
        config.storage_config = LocalFileSystemStorageConfig(use_direct_io=False)
        self.manager = CheckpointManager(config)
        with tempfile.TemporaryDirectory(prefix="peers-") as folder:  # starts it
            self.manager.save(folder + "/0", {"state": tensors({})}).result()

    def save(self, step):
        path = self.path(step)
        self.future = self.manager.save(path, {"state": tensors(self.state)})
        with self.manager.lock():  # waits until the state is copied
            pass

    def finish(self):
        self.future.result()

    def load(self, step, targets):
        self.manager.load(self.path(step), into={"state": tensors(targets)})

    def close(self):
        self.manager.close()


class Orbax(Peer):
    """Asynchronous saves of arrays of JAX, which do not change: training makes new
    ones."""

    packages = ("orbax.checkpoint", "jax")
    ocdbt = False

    def open(self, state):
        import orbax.checkpoint as ocp

        super().open(state)
        handler = ocp.PyTreeCheckpointHandler(use_ocdbt=self.ocdbt)
        self.checkpointer = ocp.AsyncCheckpointer(handler)
        self.renew()

    def renew(self):
        import jax.numpy as jnp

        self.arrays = {name: jnp.array(array) for name, array in self.state.items()}

    def save(self, step):
        import orbax.checkpoint as ocp

        arguments = ocp.args.PyTreeSave(self.arrays)
        self.checkpointer.save(self.path(step), args=arguments)

    def finish(self):
        self.checkpointer.wait_until_finished()

    def load(self, step, targets):
        import orbax.checkpoint as ocp

        kinds = {name: ocp.RestoreArgs(restore_type=np.ndarray) for name in targets}
        arguments = ocp.args.PyTreeRestore(restore_args=kinds)
        loaded = self.checkpointer.restore(self.path(step), args=arguments)
        for name, target in targets.items():
            np.copyto(target, loaded[name])

    def close(self):
        self.checkpointer.close()


class OrbaxOcdbt(Orbax):
    ocdbt = True


class TensorStore(Peer):
    """zarr3 without compression, in chunks of at most 64 MiB."""

    packages = ("tensorstore",)

    def array(self, step, name, like=None):
        import tensorstore as ts

        spec: dict[str, Any] = {
            "driver": "zarr3",
            "kvstore": {"driver": "file", "path": f"{self.path(step)}/{name}"},
        }
        if like is None:
            return ts.open(spec)
        row = max(1, like[:1].nbytes)
        rows = min(max(1, (64 << 20) // row), len(like))
        chunk = {"chunk_shape": [rows, *like.shape[1:]]}
        spec["metadata"] = {
            "shape": list(like.shape),
            "data_type": str(like.dtype),
            "chunk_grid": {"name": "regular", "configuration": chunk},
        }
        return ts.open(spec, create=True)

    def save(self, step):
        opened = [(self.array(step, n, a), a) for n, a in self.state.items()]
        self.writes = [future.result().write(array) for future, array in opened]
        for write in self.writes:
            write.copy.result()

    def finish(self):
        for write in self.writes:
            write.commit.result()

    def load(self, step, targets):
        import tensorstore as ts

        opened = [(self.array(step, n), array) for n, array in targets.items()]
        reads = [
            ts.array(array, copy=False).write(future.result())
            for future, array in opened
        ]
        for read in reads:
            read.commit.result()


class Ckptdb(Peer):
    """A manager. The table is an `ArrayTable`, of whose changes it writes only
    those."""

    packages = ("ckptdb",)
    syncs = True

    def make(self, state: State, **options: Any) -> None:
        import ckptdb

        values: dict[str, Any] = dict(state)
        if "embedding" in state:
            values = {"table": ckptdb.ArrayTable(state)}
            self.table = values["table"]
        save = ckptdb.save_every_n_steps(1)
        self.manager = ckptdb.Manager(self.folder, values, save=save, **options)

    def open(self, state):
        self.make(state)

    def changed(self, rows):
        self.table.mark(rows)

    def save(self, step):
        self.manager.step_to(step)

    def finish(self):
        self.manager.wait_until_finished()

    def load(self, step, targets):
        self.make(targets, read_only=True)
        self.manager.restore(step)

    def close(self):
        self.manager.close()


PEERS: dict[str, type[Peer]] = {
    "ckptdb": Ckptdb,
    "torch.save": TorchSave,
    "safetensors": Safetensors,
    "DCP": Dcp,
    "DCP async": DcpAsync,
    "torch_checkpointing": TorchCheckpointing,
    "Orbax": Orbax,
    "Orbax OCDBT": OrbaxOcdbt,
    "TensorStore": TensorStore,
    "numpy": Numpy,
}


def missing_packages(peer: type[Peer]) -> list[str]:
    missing = []
    for package in peer.packages:
        try:
            found = importlib.util.find_spec(package) is not None
        except (ImportError, ValueError):
            found = False
        if not found:
            missing.append(package)
    return missing
