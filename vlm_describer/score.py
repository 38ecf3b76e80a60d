"""Counts of what a describer got right, and the numbers that they come to."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from vlm_describer.calibration import reliability

ANSWERS = ("yes", "no", "open")
"""What is said of a question about a fact; `open`: it is not answered."""
CELLS = tuple(f"{truth}_{answer}" for truth in ("true", "false") for answer in ANSWERS)
"""Of a predicate's confusion matrix, truth first."""
NAMINGS = ("both", "kind", "colour")


@dataclass
class Naming:
    """Things called by a name that is right, by one that is wrong, and things that were not called by theirs."""

    right: int = 0
    wrong: int = 0
    """Named things that are not there, or are called something else."""
    missed: int = 0

    @property
    def precision(self) -> float:
        """Of what is named; NaN where nothing is."""
        return share(self.right, self.right + self.wrong)

    @property
    def recall(self) -> float:
        """Of what is there; NaN where nothing is."""
        return share(self.right, self.right + self.missed)

    @property
    def f1(self) -> float:
        """2 right / (2 right + wrong + missed); 1 where there is nothing and nothing is said."""
        total = 2 * self.right + self.wrong + self.missed
        return 2 * self.right / total if total else 1.0


@dataclass
class Score:
    """Counts over frames."""

    namings: dict[str, Naming] = field(default_factory=lambda: {name: Naming() for name in NAMINGS})
    unsure: int = 0
    """Of the missed: found, and left unnamed."""
    errors_m: list[float] = field(default_factory=list)
    facts: dict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    """By predicate, by `CELLS`."""
    confusion: Counter[tuple[str, str]] = field(default_factory=Counter)
    """(true, said) names of matched things."""
    chances: dict[str, list[tuple[float, bool]]] = field(default_factory=lambda: defaultdict(list))
    """Probability and truth of every claim, by what it is about."""
    cpu_s: list[float] = field(default_factory=list)

    def answer(self, predicate: str, truth: bool, answer: str) -> None:
        """One more answered (or not answered) question."""
        self.facts[predicate][f"{str(truth).lower()}_{answer}"] += 1

    def summary(self) -> dict[str, Any]:
        """One flat object: shares, positions in metres, CPU milliseconds a frame, calibration errors `ece_<group>`."""
        both = self.namings["both"]
        found: dict[str, Any] = {
            "f1": both.f1,
            "precision": both.precision,
            "recall": both.recall,
            "kind_f1": self.namings["kind"].f1,
            "colour_f1": self.namings["colour"].f1,
            "unnamed": share(self.unsure, both.right + both.missed),
            "things": both.right + both.missed,
            "position_median_m": _percentile(self.errors_m, 50),
            "position_p95_m": _percentile(self.errors_m, 95),
            "cpu_ms": 1e3 * _percentile(self.cpu_s, 50),
            "cpu_p95_ms": 1e3 * _percentile(self.cpu_s, 95),
        }
        for name, counts in sorted(self.facts.items()):
            cells = {cell: counts[cell] for cell in CELLS}
            found |= {f"{name}_{key}": value for key, value in {**rates(cells), **cells}.items()}
        for name, claims in sorted(self.chances.items()):
            chances, truths = np.array([c for c, _ in claims]), np.array([t for _, t in claims])
            found[f"ece_{name}"] = reliability(chances, truths).error
        return found


def rates(cells: Mapping[str, int]) -> dict[str, float]:
    """What a confusion matrix (`CELLS`) comes to; NaN where there is nothing to divide by.

    `accuracy` and `precision` are of what is answered, `abstention` is the share of questions that are not, and what is
    true and left open counts against `recall`.
    """
    right, answered = cells["true_yes"] + cells["false_no"], sum(n for key, n in cells.items() if "open" not in key)
    there = sum(n for key, n in cells.items() if key.startswith("true"))
    return {
        "accuracy": share(right, answered),
        "abstention": share(sum(cells.values()) - answered, sum(cells.values())),
        "precision": share(cells["true_yes"], cells["true_yes"] + cells["false_yes"]),
        "recall": share(cells["true_yes"], there),
    }


def share(part: int, whole: int) -> float:
    """part / whole, NaN where the whole is 0."""
    return part / whole if whole else float("nan")


def _percentile(values: list[float], percent: float) -> float:
    return float(np.percentile(values, percent)) if values else float("nan")
