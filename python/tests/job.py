# SPDX-License-Identifier: Apache-2.0
"""Jobs of several ranks, each a process with torch.distributed over gloo."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys
import textwrap
import time

HEAD = """
import os, sys, time
import torch
import torch.distributed as dist
import ckptdb
rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
torch.set_num_threads(1)
dist.init_process_group("gloo")
"""
# Programs that exited with an open gloo group have sometimes aborted.
TAIL = """
if dist.is_initialized():
    dist.destroy_process_group()
"""


class Job:
    """Ranks that run the same code. As under torchrun, their store lives in another
    process, here the test's, so that the end of rank 0 does not end it; and the
    system chooses its port."""

    def __init__(self, folder: pathlib.Path, world: int, code: str, **variables):
        from torch.distributed import TCPStore

        self._store = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
        head = "".join(f"{name} = {value!r}\n" for name, value in variables.items())
        self._folder = folder / f"job-{time.monotonic_ns()}"
        self._folder.mkdir()
        script = self._folder / "script.py"
        script.write_text(head + HEAD + textwrap.dedent(code) + TAIL)
        self.processes = []
        for rank in range(world):
            environment = {
                **os.environ,
                "MASTER_ADDR": "127.0.0.1",
                "MASTER_PORT": str(self._store.port),
                "TORCHELASTIC_USE_AGENT_STORE": "True",
                "RANK": str(rank),
                "WORLD_SIZE": str(world),
                "OMP_NUM_THREADS": "1",
            }
            with self._output(rank).open("w") as output:
                self.processes.append(
                    subprocess.Popen(
                        [sys.executable, "-X", "faulthandler", "-u", str(script)],
                        stdout=output,
                        stderr=subprocess.STDOUT,
                        env=environment,
                    )
                )

    def _output(self, rank: int) -> pathlib.Path:
        return self._folder / f"rank-{rank}"

    def printed(self, rank: int) -> str:
        return self._output(rank).read_text()

    def await_line(self, rank: int, line: str, timeout: float = 60) -> None:
        end = time.monotonic() + timeout
        while line not in self.printed(rank).splitlines():
            assert self.processes[rank].poll() is None, self.printed(rank)
            assert time.monotonic() < end, self.printed(rank)
            time.sleep(0.01)

    def wait(self, timeout: float = 120) -> list[int]:
        """The exit status of each rank."""
        end = time.monotonic() + timeout
        try:
            return [p.wait(max(0.0, end - time.monotonic())) for p in self.processes]
        except subprocess.TimeoutExpired:
            raise AssertionError(
                "\n".join(self.printed(r) for r in range(len(self.processes)))
            ) from None
        finally:
            self.end()

    def end(self) -> None:
        for process in self.processes:
            process.kill()
            process.wait()
        self._store = None  # and its thread, for which a forked child would wait


def run(folder: pathlib.Path, world: int, code: str, **variables) -> list[str]:
    """What each rank printed. All must succeed."""
    job = Job(folder, world, code, **variables)
    codes = job.wait()
    printed = [job.printed(rank) for rank in range(world)]
    assert codes == [0] * world, "\n".join(printed)
    return printed
