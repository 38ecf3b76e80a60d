"""Metrics of a run: one flat JSON object a line, and TensorBoard where it is asked for; and the run's clock."""

from __future__ import annotations

import importlib
import json
import resource
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from embodied.errors import UserError

LOGGERS = ("jsonl", "tensorboard")
CLOCK_KEYS = ("wall_s", "cpu_s", "cpu_train_s", "steps_per_s")
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
        children = resource.getrusage(resource.RUSAGE_CHILDREN)
        return self._earlier_cpu + process_cpu_s() + children.ru_utime + children.ru_stime

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


def process_cpu_s() -> float:
    """User and system time of this process."""
    return time.process_time()


class MetricsWriter:
    """Appends rows to `metrics.jsonl`; the first keys are `step`, `wall_s`, `cpu_s`."""

    def __init__(self, run_dir: Path, logger: str = "jsonl", keep_until: int | None = None) -> None:
        """Args:
        run_dir: The run's folder, made if needed.
        logger: `jsonl`, or `tensorboard` for event files beside it.
        keep_until: Keep an earlier run's rows up to this step; None: start an empty file.
        """
        if logger not in LOGGERS:
            raise UserError(f"unknown logger '{logger}'; valid: {', '.join(LOGGERS)}")
        run_dir.mkdir(parents=True, exist_ok=True)
        path = run_dir / "metrics.jsonl"
        self._board = _tensorboard(run_dir) if logger == "tensorboard" else None
        kept = _rows_until(path, keep_until) if keep_until is not None and path.exists() else []
        self._file = path.open("w", encoding="utf-8")
        self._file.writelines(kept)

    def write(self, step: int, clock: RunClock, values: Mapping[str, Any]) -> None:
        """One row; `values` must be flat."""
        row = {"step": step, "wall_s": round(clock.wall_s, 3), "cpu_s": round(clock.cpu_s, 3), **values}
        self._file.write(json.dumps(row) + "\n")
        self._file.flush()
        if self._board is not None:
            for key, value in values.items():
                self._board.add_scalar(key, value, step)

    def close(self) -> None:
        """Flush and close."""
        self._file.close()
        if self._board is not None:
            self._board.close()


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

    def take(self) -> dict[str, float]:
        """The means since the last call; empty where nothing was added."""
        means = {key: value / self._count for key, value in self._sums.items()}
        self._sums, self._count = {}, 0
        return means


def _rows_until(path: Path, step: int) -> list[str]:
    kept = []
    for line in path.read_text(encoding="utf-8").splitlines(keepends=True):
        try:
            row = json.loads(line)
        except ValueError:
            break
        if row["step"] > step:
            break
        kept.append(line)
    return kept


def _tensorboard(run_dir: Path) -> Any:
    try:
        module = importlib.import_module("tensorboard.summary")
    except ImportError as error:
        raise UserError("logger=tensorboard needs the package tensorboard: pip install tensorboard") from error
    return module.Writer(str(run_dir / "tensorboard"))
