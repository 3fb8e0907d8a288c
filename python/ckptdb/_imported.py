# SPDX-License-Identifier: Apache-2.0
"""Checks of imported folders: links and paths must not lead outside, and damage raises
an error that names the file."""

from __future__ import annotations

import contextlib
import errno
import os
import pathlib
from collections.abc import Iterator

from . import _core
from ._errors import DataLoss, Error, InvalidArgument


def check_inside(folder: pathlib.Path, name: str) -> None:
    """Raises InvalidArgument if a file that the folder's content names lies outside of
    the folder after all links are resolved."""
    inside, path = folder.resolve(), (folder / name).resolve()
    if not path.is_relative_to(inside):
        raise InvalidArgument(
            f'"{folder / name}" is a path out of the folder, to "{path}"; if you trust '
            'it, copy the folder with "cp -rL", which replaces links by files, and '
            "import the copy"
        )


def check_links(folder: pathlib.Path) -> None:
    """Checks all links in the folder in the same way."""
    for path, folders, files in os.walk(folder):
        for each in folders + files:
            file = pathlib.Path(path, each)
            if file.is_symlink():
                check_inside(folder, str(file.relative_to(folder)))


_OF_THE_MACHINE = frozenset(
    (errno.EIO, errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ESTALE)
)


@contextlib.contextmanager
def as_damage(path: pathlib.Path, kind: str) -> Iterator[None]:
    """Converts exceptions, which can be of any class for damaged bytes, to DataLoss;
    not those of the machine."""
    try:
        yield
    except (Error, ImportError, MemoryError, PermissionError):
        raise
    except Exception as error:
        if isinstance(error, OSError) and error.errno in _OF_THE_MACHINE:
            raise
        text = " ".join(str(error).split())
        raise DataLoss(
            f'"{path}" is not {kind}: {type(error).__name__}: {text}'
        ) from error


@contextlib.contextmanager
def new_store(path: str) -> Iterator[None]:
    """If the body raises, removes the store that it created and closed. An existing
    store, a folder that is not empty, and a store that another process owns stay
    unchanged. Raises InvalidArgument for a folder below that of a store, which removes
    files that it does not know."""
    created = _core.NewStore(path)
    try:
        yield
        created.keep()
    finally:
        created.end()
