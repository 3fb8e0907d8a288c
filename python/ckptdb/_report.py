# SPDX-License-Identifier: Apache-2.0
"""A page about a store."""

from __future__ import annotations

import os

from . import _core


def report(
    store: str | os.PathLike[str],
    out: str | os.PathLike[str],
    *,
    statistics: str | os.PathLike[str] = "",
    force: bool = False,
) -> None:
    """Writes one HTML file about the store in the folder `store`, which a trainer may
    have open: steps, metrics, bytes, sizes, distributions and what is wrong, as `ckptdb
    report` does. The page needs no network. `statistics` is the file of the manager's
    `statistics_path`. Raises AlreadyExists if `out` exists, unless `force` is set."""
    _core.write_report(os.fspath(store), os.fspath(out), os.fspath(statistics), force)
