# SPDX-License-Identifier: Apache-2.0
"""Progress bars, where tqdm is installed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def bar_class() -> Any:
    """tqdm's class, or None."""
    try:
        from tqdm.auto import tqdm
    except ImportError:
        return None
    return tqdm


class ByteBar:
    """A bar for one call after another, which begins with the call's first report."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._bar: Any = None

    def report(self) -> Callable[[int, int], None] | None:
        """The function that the library calls with bytes done and total bytes."""
        make = bar_class()
        if make is None:
            return None

        def show(done: int, total: int) -> None:
            bar = self._bar
            if bar is not None and (done < bar.n or total != bar.total):
                self.close()  # of a call that failed
            if self._bar is None:
                self._bar = make(
                    desc=self._text, total=total, unit="B", unit_scale=True
                )
            self._bar.update(done - self._bar.n)
            if done >= total:
                self.close()

        return show

    def close(self) -> None:
        bar, self._bar = self._bar, None
        if bar is not None:
            bar.close()
