"""A measurement in a process of its own, so that its processor seconds are its own."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

_PR_SET_PDEATHSIG = 1
_LIBC = ctypes.CDLL(None)


@dataclass(frozen=True)
class Ended:
    """How a child ended."""

    code: int
    out: str
    last_words: str
    """The last line on its stderr."""


def run_child(words: Sequence[str], log: Path) -> Ended:
    """Runs `python -m <words>` on one thread, its stderr in the file `log`, and waits.

    A Ctrl-C is passed on once, the child's own saving is waited for, and it goes on as KeyboardInterrupt; a second one
    ends the child. When this process dies the child dies with it.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    threads = {f"{name}_NUM_THREADS": "1" for name in ("OMP", "OPENBLAS", "MKL")}
    with log.open("ab") as file:
        child = subprocess.Popen(
            [sys.executable, "-m", *words], stdout=subprocess.PIPE, stderr=file, stdin=subprocess.DEVNULL, text=True,
            env={**os.environ, **threads}, start_new_session=True, preexec_fn=_die_with_parent,
        )  # fmt: skip
        try:
            out, _ = child.communicate()
        except KeyboardInterrupt:
            child.send_signal(signal.SIGINT)
            try:
                child.communicate()
            finally:
                child.kill()
                child.wait()
            raise
    return Ended(child.returncode, out, _last_line(log))


def _die_with_parent() -> None:
    """Linux's `prctl(PR_SET_PDEATHSIG)`, prctl(2); elsewhere an orphan runs to its end."""
    if sys.platform == "linux":
        _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _last_line(log: Path) -> str:
    lines = [line.strip() for line in log.read_text("utf-8", "replace").replace("\r", "\n").splitlines()]
    return next((line for line in reversed(lines) if line), "")
