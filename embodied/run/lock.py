"""One process to a run folder."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path
from types import TracebackType

from embodied.errors import UserError

LOCK_FILE = ".lock"


class RunLock:
    """Held while a run writes into its folder; the system lets go of it when the process ends, however it ends."""

    def __init__(self, run_dir: Path) -> None:
        """
        Raises:
            UserError: Another process holds it, or the folder cannot be made.
        """
        try:
            run_dir.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UserError(f"cannot make the folder '{run_dir}': {error.strerror}; choose another run_dir=") from None
        self._fd = os.open(run_dir / LOCK_FILE, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(self._fd)
            raise UserError(f"another process trains in '{run_dir}': wait for it, or choose another run_dir=") from None

    def __enter__(self) -> RunLock:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        os.close(self._fd)
