"""Metrics of a run: one flat JSON object a line, and TensorBoard where it is asked for; and the run's clock."""

from __future__ import annotations

import importlib
import json
import os
import resource
import time
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from embodied.errors import IntegrityError, UserError

LOGGERS = ("jsonl", "tensorboard")
CLOCK_KEYS = ("wall_s", "cpu_s", "cpu_train_s", "steps_per_s", "checkpoint_s")
"""Keys that differ between two runs of one seed; every other one is equal bit for bit."""


class RunClock:
    """Wall and processor time, and the processor time that training alone has taken."""

    def __init__(self, wall_s: float = 0.0, cpu_s: float = 0.0, cpu_train_s: float = 0.0) -> None:
        """Args:
        wall_s: Already spent before a resumed run.
        cpu_s: Likewise.
        cpu_train_s: Likewise.
        """
        self._wall = time.perf_counter() - wall_s
        self._earlier_cpu = cpu_s
        self._train = process_cpu_s() - cpu_train_s

    @property
    def wall_s(self) -> float:
        """Seconds since the start."""
        return time.perf_counter() - self._wall

    @property
    def cpu_s(self) -> float:
        """User and system time of the process and its children, imports included."""
        return self._earlier_cpu + process_cpu_s() + _children_s() - _INHERITED_S

    @property
    def cpu_train_s(self) -> float:
        """User and system time since the start, without what was paused."""
        return process_cpu_s() - self._train

    @contextmanager
    def paused(self) -> Iterator[None]:
        """What happens inside does not count as training."""
        before = process_cpu_s()
        try:
            yield
        finally:
            self._train += process_cpu_s() - before


def _children_s() -> float:
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return children.ru_utime + children.ru_stime


_INHERITED_S = _children_s()
"""What children of the process had used before this program took it over (a shell that ends in `exec`)."""


def process_cpu_s() -> float:
    """User and system time of this process."""
    return time.process_time()


class MetricsWriter:
    """Appends rows to `metrics.jsonl`; the first keys are `step`, `wall_s`, `cpu_s`.

    `begin` or `restore` opens the file. A checkpoint notes its length and CRC-32, so that a resumed run continues
    exactly behind the rows that the checkpoint knows.
    """

    def __init__(self, run_dir: Path, logger: str = "jsonl") -> None:
        """
        Args:
            run_dir: The run's folder.
            logger: `jsonl`, or `tensorboard` for event files beside it.
        """
        if logger not in LOGGERS:
            raise UserError(f"unknown logger '{logger}'; valid: {', '.join(LOGGERS)}")
        self.path = run_dir / "metrics.jsonl"
        self._board = _tensorboard(run_dir) if logger == "tensorboard" else None
        self._fd, self._length, self._crc = -1, 0, 0

    def begin(self) -> None:
        """An empty file."""
        self._open(0, 0)

    def state(self) -> dict[str, int]:
        """For a checkpoint; what was written is on the disk afterwards."""
        os.fsync(self._fd)
        return {"length": self._length, "crc32": self._crc}

    def restore(self, state: Mapping[str, int]) -> None:
        """Back to where `state` was taken; later rows are cut off.

        Raises:
            IntegrityError: The rows that the checkpoint knows are not all there, or were changed.
        """
        try:
            known = self.path.read_bytes()[: state["length"]]
        except FileNotFoundError:
            raise IntegrityError(f"{self.path} is missing") from None
        if len(known) < state["length"] or zlib.crc32(known) != state["crc32"]:
            raise IntegrityError(f"{self.path} is damaged or was edited: its rows are not those that were written")
        self._open(state["length"], state["crc32"])

    def write(self, step: int, clock: RunClock, values: Mapping[str, Any]) -> None:
        """One row; `values` must be flat."""
        row = {"step": step, "wall_s": round(clock.wall_s, 3), "cpu_s": round(clock.cpu_s, 3), **values}
        data = (json.dumps(row) + "\n").encode()
        write_all(self._fd, data)
        self._length, self._crc = self._length + len(data), zlib.crc32(data, self._crc)
        if self._board is not None:
            for key, value in values.items():
                self._board.add_scalar(key, value, step)

    def close(self) -> None:
        """Close."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
        if self._board is not None:
            self._board.close()
            self._board = None

    def _open(self, length: int, crc: int) -> None:
        if self._fd < 0:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._fd = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        os.ftruncate(self._fd, length)
        self._length, self._crc = length, crc


class RunningMean:
    """Means of dictionaries of floats, by key."""

    def __init__(self) -> None:
        self._sums: dict[str, float] = {}
        self._count = 0

    def add(self, values: Mapping[str, float]) -> None:
        """Take in one dictionary; every one must have the keys of the first."""
        if self._count and values.keys() != self._sums.keys():
            raise ValueError(f"keys changed from {sorted(self._sums)} to {sorted(values)}")
        for key, value in values.items():
            self._sums[key] = self._sums.get(key, 0.0) + value
        self._count += 1

    def state(self) -> dict[str, Any]:
        """JSON values, for a checkpoint."""
        return {"sums": dict(self._sums), "count": self._count}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Undo `state`."""
        self._sums, self._count = dict(state["sums"]), state["count"]

    def take(self) -> dict[str, float]:
        """The means since the last call; empty where nothing was added."""
        means = {key: value / self._count for key, value in self._sums.items()}
        self._sums, self._count = {}, 0
        return means


def write_all(fd: int, data: bytes) -> None:
    """All of it, unbuffered: an error (disk full) comes here and not when the file is closed."""
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def _tensorboard(run_dir: Path) -> Any:
    try:
        module = importlib.import_module("tensorboard.summary")
    except ImportError as error:
        raise UserError("logger=tensorboard needs the package tensorboard: pip install tensorboard") from error
    return module.Writer(str(run_dir / "tensorboard"))
