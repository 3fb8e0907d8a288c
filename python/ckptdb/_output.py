# SPDX-License-Identifier: Apache-2.0
"""Folders that exports write to, as the command `ckptdb export` treats them."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pathlib
from collections.abc import Iterator

from ._errors import FailedPrecondition

PART = ".ckptdb-part"  # the suffix of files that are being written


@contextlib.contextmanager
def output_folder(path: str | os.PathLike[str]) -> Iterator[pathlib.Path]:
    """Makes a folder, excludes other exports to it, and removes the files that a killed
    one left. Raises FailedPrecondition while another export writes to it."""
    folder = pathlib.Path(path)
    folder.mkdir(parents=True, exist_ok=True)
    lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise FailedPrecondition(
                f'another export is writing to "{folder}"; wait until it has ended, or '
                "choose another folder"
            ) from None
        except OSError:
            pass  # this file system has no locks of folders
        else:
            for part in folder.glob(f".*{PART}"):
                if part.is_file() and not part.is_symlink():
                    part.unlink()
        yield folder
    finally:
        os.close(lock)


def part_of(path: pathlib.Path) -> pathlib.Path:
    """The name of a file until it is whole."""
    return path.with_name(f".{path.name}{PART}")


def sync(path: pathlib.Path) -> None:
    """Makes a file, or the names in a folder, durable."""
    file = os.open(path, os.O_RDONLY)
    try:
        os.fsync(file)
    finally:
        os.close(file)
