"""What `bench suite=learning` and `ablate` share: one training in a child process, and its result as a flat row."""

from __future__ import annotations

import json
import signal
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from embodied.errors import JobFailed
from embodied.run.config import TrainConfig

from .child import run_child
from .table import Row

COUNTS = ("env_steps", "updates", "sample_updates", "cpu_train_s", "cpu_s", "wall_s", "stopped_at")


def training_words(settings: Mapping[str, Any], loop: TrainConfig, run_dir: Path) -> list[str]:
    """`embodied train` of these settings, seed and lengths, taken up again where its folder holds a run."""
    limit = {} if loop.max_cpu_s is None else {"loop.max_cpu_s": loop.max_cpu_s}
    pairs = {
        **settings, "seed": loop.seed, "total_steps": loop.total_steps, **limit, "run_dir": run_dir, "resume": "auto",
    }  # fmt: skip
    return ["embodied_launch", "train", *(f"{name}={value}" for name, value in pairs.items())]


def result_of(words: Sequence[str], log: Path, path: Path) -> dict[str, Any]:
    """Runs a child that writes the result file `path`, and reads it.

    Raises:
        JobFailed: The child failed or was ended by a signal; ends with where its words are.
    """
    path.unlink(missing_ok=True)
    ended = run_child(words, log)
    if ended.code != 0 or not path.is_file():
        said = _signal_name(-ended.code) if ended.code < 0 else ended.last_words or f"exit code {ended.code}"
        raise JobFailed("failed", f"{path.parent.name} failed ({said}); more in {log}")
    return json.loads(path.read_text("utf-8"))


def _signal_name(number: int) -> str:
    """A signal in words; the last line of a log says nothing of it."""
    try:
        return f"ended by {signal.Signals(number).name}"
    except ValueError:
        return f"ended by signal {number}"


def row_of(result: Mapping[str, Any], loop: TrainConfig) -> Row:
    """A training's result, flat, with its limits; null where a success rate was never reached."""
    reached = {
        f"{kind}_{threshold}": value for kind in ("steps_to", "cpu_s_to") for threshold, value in result[kind].items()
    }
    counts = {name: result[name] for name in COUNTS}
    seen = [point["success_rate"] for point in result["evaluations"]]
    mean = sum(seen) / len(seen) if seen else None
    success = {**success_of(result), "mean_success": mean}
    return {**reached, **success, **counts, "total_steps": loop.total_steps, "max_cpu_s": loop.max_cpu_s}


def success_of(result: Mapping[str, Any]) -> Row:
    """Success of an evaluation, flat, with its 95 % interval."""
    low, high = result["success_ci95"]
    rates = {name: result[name] for name in ("success_rate", "success_final", "success_any", "episodes")}
    return {**rates, "success_low": low, "success_high": high}


def says_all(row: Row, loop: TrainConfig) -> bool:
    """Whether a row says all that a run of this length could: it took all steps, or as much time."""
    if row["env_steps"] >= loop.total_steps:
        return True
    limit = float("inf") if row["max_cpu_s"] is None else row["max_cpu_s"]
    return row["stopped_at"] is not None and loop.max_cpu_s is not None and limit >= loop.max_cpu_s
