"""Ctrl-C between two steps, not in the middle of one."""

from __future__ import annotations

import signal
import threading
from types import FrameType
from typing import Any


class InterruptGuard:
    """Remembers the first Ctrl-C until `check` is called; a second one acts at once.

    Outside the main thread, where Python allows no signal handlers, it does nothing.
    """

    def __init__(self) -> None:
        self._asked = False
        self._previous: Any = None

    def __enter__(self) -> InterruptGuard:
        if threading.current_thread() is threading.main_thread():
            self._previous = signal.signal(signal.SIGINT, self._handle)
        return self

    def __exit__(self, *_: object) -> None:
        if self._previous is not None:
            signal.signal(signal.SIGINT, self._previous)

    def check(self) -> None:
        """Raise the KeyboardInterrupt that was asked for."""
        if self._asked:
            raise KeyboardInterrupt

    def _handle(self, _: int, __: FrameType | None) -> None:
        if self._asked:
            raise KeyboardInterrupt
        self._asked = True
