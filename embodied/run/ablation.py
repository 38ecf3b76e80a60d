"""What an ablation runs, and what its rows say: variants of one training, each compared with the first of them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any, Protocol

from embodied.errors import UserError

BASE = "base"
"""The variant that changes nothing."""
NEVER = float("inf")
METRICS = {"success_rate": 1, "mean_success": 1, "steps_to_0.9": -1, "cpu_s_to_0.9": -1}
"""What variants are compared by, and whether more of it is better (1) or less (-1)."""
_JOINT = re.compile(r"\+(?=[A-Za-z_])")
"""Between the parts of a variant; the plus of `1e+3` is none."""


@dataclass(frozen=True)
class Variant:
    """Settings that differ from the common ones."""

    name: str
    words: tuple[tuple[str, str], ...]
    """Keys of a training with their values as text."""


@dataclass(frozen=True)
class Estimate:
    """A statistic with its 95 % interval; None stands for never."""

    value: float | None
    low: float | None
    high: float | None


class Estimator(Protocol):
    """Statistics with intervals (Agarwal et al. 2021, arXiv 2108.13264)."""

    def iqm(self, values: Sequence[float]) -> Estimate:
        """Interquartile mean."""
        ...

    def difference(self, first: Sequence[float], second: Sequence[float]) -> Estimate:
        """Interquartile mean of the first less that of the second."""
        ...

    def improvement(self, first: Sequence[float], second: Sequence[float]) -> Estimate:
        """Probability that a run of the first has a greater value than one of the second."""
        ...


def parse_variant(text: str, deltas: Mapping[str, Mapping[str, Any]]) -> Variant:
    """A variant from its name: parts joined by `+`, each `key=value` or the name of a delta, or `base` alone.

    Args:
        text: As the user wrote it.
        deltas: Nested settings by name.

    Raises:
        UserError: A part that is neither, or a key that two parts set.
    """
    words: dict[str, str] = {}
    for part in _JOINT.split(text):
        name, sign, value = part.partition("=")
        if sign:
            new = {name: value}
        elif part in deltas:
            new = dict(flatten(deltas[part]))
        elif part == BASE:
            new = {}
        else:
            known = ", ".join(sorted({BASE, *deltas}))
            raise UserError(f"variant '{text}': '{part}' is neither key=value nor one of: {known}")
        twice = words.keys() & new.keys()
        if twice:
            raise UserError(f"variant '{text}' sets {', '.join(sorted(twice))} twice")
        words |= new
    return Variant(text, tuple(words.items()))


def flatten(settings: Mapping[str, Any], prefix: str = "") -> list[tuple[str, str]]:
    """Nested settings as `group.key`, value pairs, values as the command line writes them."""
    pairs = []
    for name, value in settings.items():
        if isinstance(value, Mapping):
            pairs += flatten(value, f"{prefix}{name}.")
        else:
            pairs.append((f"{prefix}{name}", _written(value)))
    return pairs


def _written(value: Any) -> str:
    if isinstance(value, list | tuple):
        return f"[{','.join(map(_written, value))}]"
    if isinstance(value, bool):
        return str(value).lower()
    return "null" if value is None else str(value)


def value_of(row: Mapping[str, Any], metric: str) -> float:
    """A row's value; what was never reached is infinite."""
    value = row[metric]
    return NEVER if value is None else float(value)


def values_of(rows: Sequence[Mapping[str, Any]], metric: str) -> list[float]:
    """One value a run."""
    return [value_of(row, metric) for row in rows]


def middle(values: Sequence[float]) -> float | None:
    """The median; None where that is never."""
    return finite(median(values))


def finite(value: float) -> float | None:
    """The number, or None for never."""
    return value if abs(value) < NEVER else None


def comparisons(rows: Sequence[Mapping[str, Any]], estimator: Estimator | None) -> list[dict[str, Any]]:
    """Each variant against the first: a flat object for each metric of `METRICS`.

    Args:
        rows: Of runs, with `variant` and the metrics (a metric that some lack is left out); those of the first variant
            come first.
        estimator: None: medians only.
    """
    names = list(dict.fromkeys(row["variant"] for row in rows))
    of = {name: [row for row in rows if row["variant"] == name] for name in names}
    made = []
    for name in names[1:]:
        for metric, sign in METRICS.items():
            if not all(metric in row for row in of[name] + of[names[0]]):
                continue
            ours, base = values_of(of[name], metric), values_of(of[names[0]], metric)
            row = {
                "variant": name, "against": names[0], "metric": metric, "runs": len(ours), "runs_against": len(base),
                "median": middle(ours), "median_against": middle(base),
            }  # fmt: skip
            made.append(row if estimator is None else {**row, **_estimated(ours, base, sign, estimator)})
    return made


def _estimated(ours: Sequence[float], base: Sequence[float], sign: int, estimator: Estimator) -> dict[str, Any]:
    gain = estimator.improvement([sign * value for value in ours], [sign * value for value in base])
    difference = estimator.difference(ours, base)
    return {
        "improvement_probability": gain.value, "improvement_low": gain.low, "improvement_high": gain.high,
        "iqm": estimator.iqm(ours).value, "iqm_against": estimator.iqm(base).value,
        "iqm_difference": difference.value, "iqm_difference_low": difference.low,
        "iqm_difference_high": difference.high,
    }  # fmt: skip
