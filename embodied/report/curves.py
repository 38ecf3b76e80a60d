"""Learning curves of several systems over one another."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes

AXES = {"env_steps": "environment steps", "cpu_train_s": "CPU-seconds of training"}


def success_curves(path: Path, points: Sequence[Mapping[str, Any]], floor: float, title: str) -> Path:
    """Success rate against environment steps and against processor seconds (logarithmic), side by side.

    A thin line for each run; the thick one is the median over a system's runs as far as all of them go.

    Args:
        path: PNG file to write.
        points: One for each evaluation: `system`, `seed`, `env_steps`, `cpu_train_s`, `success_rate`.
        floor: Success rate without acting, drawn dotted.
        title: Heading.
    """
    systems = list(dict.fromkeys(point["system"] for point in points))
    figure, both = plt.subplots(1, 2, figsize=(11.0, 4.2), dpi=110, sharey=True)
    for axes, (key, label) in zip(both, AXES.items(), strict=True):
        for number, system in enumerate(systems):
            _draw(axes, _runs(points, system, key), f"C{number % 10}", system)
        axes.axhline(floor, color="grey", linestyle=":", linewidth=1)
        axes.set(xlabel=label, ylim=(-0.03, 1.03))
        axes.grid(alpha=0.3)
    both[0].set_ylabel("success rate")
    both[1].set_xscale("log")
    if systems:
        both[0].legend(fontsize=8, loc="upper left")
    figure.suptitle(title)
    figure.tight_layout()
    figure.savefig(path)
    plt.close(figure)
    return path


def _runs(points: Sequence[Mapping[str, Any]], system: str, key: str) -> list[np.ndarray]:
    """A system's runs, each (2, N): the axis and the success rate, in the order of the axis."""
    runs: dict[Any, list[tuple[float, float]]] = {}
    for point in points:
        if point["system"] == system:
            runs.setdefault(point["seed"], []).append((point[key], point["success_rate"]))
    return [np.array(sorted(run)).T for run in runs.values()]


def median_curve(runs: Sequence[np.ndarray]) -> np.ndarray:
    """The median over runs (2, N) where all of them have points, between which they are straight; (2, M)."""
    begin, end = max(run[0, 0] for run in runs), min(run[0, -1] for run in runs)
    places = np.unique(np.concatenate([run[0] for run in runs]))
    places = places[(places >= begin) & (places <= end)]
    return np.array([places, np.median([np.interp(places, *run) for run in runs], axis=0)])


def _draw(axes: Axes, runs: Sequence[np.ndarray], colour: str, label: str) -> None:
    for run in runs:
        axes.plot(*run, color=colour, linewidth=0.8, alpha=0.5)
    axes.plot(*median_curve(runs), color=colour, linewidth=2.2, label=f"{label} ({len(runs)})")
