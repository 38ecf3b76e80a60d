"""A progress bar on stderr: rate, success, time left."""

from __future__ import annotations

import sys
from typing import Any


class ProgressBar:
    """A thin layer over tqdm; without it, or where nothing shall be shown, only `say` prints."""

    def __init__(self, total: int, done: int, shown: bool, unit: str = "step", name: str = "") -> None:
        self._bar = _tqdm(total, done, unit, name) if shown else None
        self._shown: dict[str, str] = {}

    def advance(self) -> None:
        """One unit more."""
        if self._bar is not None:
            self._bar.update()

    def show(self, **values: float | None) -> None:
        """Shares to show beside the bar; None leaves the last one."""
        self._shown |= {name: f"{value:.0%}" for name, value in values.items() if value is not None}
        if self._bar is not None:
            self._bar.set_postfix(self._shown, refresh=False)

    def say(self, line: str) -> None:
        """A line of its own."""
        if self._bar is not None:
            self._bar.clear()
        print(line, file=sys.stderr, flush=True)

    def close(self) -> None:
        """Leave the bar as it is."""
        if self._bar is not None:
            self._bar.close()


def _tqdm(total: int, done: int, unit: str, name: str) -> Any:
    try:
        from tqdm import tqdm
    except ImportError:
        return None
    seconds = 0.5 if sys.stderr.isatty() else 10.0
    return tqdm(
        desc=name or None, total=total, initial=done, unit=unit, file=sys.stderr, dynamic_ncols=True,
        mininterval=seconds,
    )  # fmt: skip
