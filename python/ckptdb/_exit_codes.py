# SPDX-License-Identifier: Apache-2.0
"""The exit codes of the command `ckptdb`, docs/tool.md, for commands in Python."""

from __future__ import annotations

import argparse
from typing import NoReturn

from ._errors import DataLoss, Error, InvalidArgument, NotFound, Unavailable

USAGE_ERROR, NOT_FOUND, DAMAGED, BUSY, FAILED = 1, 2, 3, 4, 5


def exit_code(error: BaseException) -> int:
    """The exit code of a command that failed with `error`."""
    if isinstance(error, InvalidArgument):
        return USAGE_ERROR
    if isinstance(error, (NotFound, FileNotFoundError)):
        return NOT_FOUND
    if isinstance(error, DataLoss):
        return DAMAGED
    if isinstance(error, Unavailable) and error.holder is not None:
        return BUSY
    return FAILED


def text_of(error: BaseException) -> str:
    """The text that a command prints for an error."""
    if isinstance(error, KeyboardInterrupt):
        return "interrupted; nothing was written"
    if isinstance(error, ImportError):
        return f"{error}; install the package"
    return str(error) if isinstance(error, (Error, OSError)) else repr(error)


class Parser(argparse.ArgumentParser):
    """Exits with `USAGE_ERROR` for a wrong argument."""

    def error(self, message: str) -> NoReturn:
        self.exit(USAGE_ERROR, f"{self.prog}: {message}\nSee {self.prog} --help.\n")


def step_number(text: str) -> int:
    """A step, for an argument's `type`."""
    if not text.isascii() or not text.isdigit() or int(text) >= 2**63:
        raise argparse.ArgumentTypeError(f'"{text}" is not a step: 0 to 2^63 - 1')
    return int(text)
