# SPDX-License-Identifier: Apache-2.0
"""The commands `python -m ckptdb.torch.import` and `python -m ckptdb.torch.export`."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable

from .._exit_codes import Parser, exit_code, step_number, text_of
from ._files import Report, export_checkpoint, import_checkpoint

# Arguments that errors name, as options.
_OPTIONS = {"overwrite=True": "--overwrite", "allow_pickle=True": "--allow-pickle"}
_ARGUMENT = re.compile("|".join(_OPTIONS))


def _run(call: Callable[[], Report], done: str) -> int:
    try:
        print(f"{done}: {call()}")
    except (Exception, KeyboardInterrupt) as error:
        text = _ARGUMENT.sub(lambda name: _OPTIONS[name[0]], text_of(error))
        print(f"error: {text}", file=sys.stderr)
        return exit_code(error)
    return 0


def _parser(name: str, description: str) -> argparse.ArgumentParser:
    parser = Parser(prog=f"python -m ckptdb.torch.{name}", description=description)
    parser.add_argument("--store", required=True, help="folder of the store")
    parser.add_argument("--overwrite", action="store_true", help="replace what exists")
    parser.add_argument(
        "--allow-pickle", action="store_true", help="execute code from the checkpoint"
    )
    return parser


def run_import(arguments: list[str] | None = None) -> int:
    parser = _parser("import", "Saves a checkpoint of PyTorch as a step of a store.")
    parser.add_argument("source", help="folder of DCP, FILE.pt or FILE.safetensors")
    parser.add_argument(
        "--step", type=step_number, required=True, help="number of the step"
    )
    args = parser.parse_args(arguments)
    return _run(
        lambda: import_checkpoint(
            args.source,
            args.store,
            args.step,
            overwrite=args.overwrite,
            allow_pickle=args.allow_pickle,
        ),
        f"imported as step {args.step}",
    )


def run_export(arguments: list[str] | None = None) -> int:
    parser = _parser("export", "Writes a step of a store as a checkpoint of PyTorch.")
    parser.add_argument(
        "target",
        help="folder of DCP (a name without suffix), FILE.pt or FILE.safetensors",
    )
    parser.add_argument("--step", type=step_number, help="default: the step saved last")
    args = parser.parse_args(arguments)
    return _run(
        lambda: export_checkpoint(
            args.store,
            args.target,
            args.step,
            overwrite=args.overwrite,
            allow_pickle=args.allow_pickle,
        ),
        f"exported to {args.target}",
    )
