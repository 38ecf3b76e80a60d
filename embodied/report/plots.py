"""Plots of result files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt


def learning_curve(path: Path, evaluations: Sequence[Mapping[str, Any]], title: str) -> Path:
    """Success rate against environment steps, with CPU seconds on a second axis above.

    Args:
        path: PNG file to write.
        evaluations: The `evaluations` of a training's result.json.
        title: Heading of the plot.
    """
    steps = [row["env_steps"] for row in evaluations]
    rates = [row["success_rate"] for row in evaluations]
    seconds = [row["cpu_train_s"] for row in evaluations]
    figure, axes = plt.subplots(figsize=(6.4, 4.0), dpi=110)
    axes.plot(steps, rates, marker="o", color="#1a6fb5")
    axes.set(xlabel="environment steps", ylabel="success rate", ylim=(-0.03, 1.03), title=title)
    axes.grid(alpha=0.3)
    if len(steps) > 1 and seconds[-1] > 0:
        above = axes.secondary_xaxis("top")
        above.set_xticks(steps[:: max(1, len(steps) // 6)])
        above.set_xticklabels([f"{s:.0f} s" for s in seconds[:: max(1, len(steps) // 6)]], fontsize=8)
    figure.tight_layout()
    figure.savefig(path)
    plt.close(figure)
    return path
