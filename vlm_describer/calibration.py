"""How sure is sure: confidences that mean what they say, and the threshold below which nothing is claimed.

Names are scaled by one temperature for each group of them, facts by a line through their log-odds; both as in Guo et
al. 2017, "On Calibration of Modern Neural Networks" (arXiv 1706.04599), which also defines the expected calibration
error.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize, minimize_scalar
from scipy.special import log_softmax, logit, softmax

from embodied.errors import IntegrityError, UserError
from embodied.types import BoolArray, FloatArray

CALIBRATION = "calibration.json"
"""Its file in a fitted model's folder."""
BINS = 15
PRECISION = 0.95
"""Wanted of what is claimed."""
_EDGE = 1e-6
Array = NDArray[np.float64]


@dataclass(frozen=True)
class Reliability:
    """How often claims of about one confidence are right."""

    confidence: tuple[float, ...]
    """Mean of each bin that holds any claim; bins divide [0, 1] evenly."""
    accuracy: tuple[float, ...]
    count: tuple[int, ...]

    @property
    def error(self) -> float:
        """Expected calibration error: mean distance between confidence and accuracy, weighted by counts; at least 0."""
        total = sum(self.count)
        gaps = (n * abs(c - a) for c, a, n in zip(self.confidence, self.accuracy, self.count, strict=True))
        return sum(gaps) / total if total else 0.0


@dataclass(frozen=True)
class Calibration:
    """What is done to a describer's raw confidences; by default nothing."""

    model: str = ""
    """Identity of the model that it was made for."""
    temperatures: Mapping[str, float] = field(default_factory=dict)
    """Of each group of names: logits are divided by it."""
    lines: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    """Slope and offset of each predicate's log-odds."""
    thresholds: Mapping[str, float] = field(default_factory=dict)
    """Least probability of a claim, by predicate or group of names."""
    errors: Mapping[str, float] = field(default_factory=dict)
    """Expected calibration error of each on the frames that judged it."""

    def names(self, group: str, logits: FloatArray) -> Array:
        """Probabilities (..., K) of a group's names."""
        scaled: Array = softmax(np.asarray(logits, dtype=np.float64) / self.temperatures.get(group, 1.0), axis=-1)
        return scaled

    def fact(self, predicate: str, probability: float) -> float:
        """The probability of a fact."""
        slope, offset = self.lines.get(predicate, (1.0, 0.0))
        # Some hundred questions a frame: numpy's and SciPy's functions take ten times as long for one number.
        chance = min(max(probability, _EDGE), 1 - _EDGE)
        odds = slope * math.log(chance / (1 - chance)) + offset
        return 1 / (1 + math.exp(-odds)) if odds >= 0 else 1 - 1 / (1 + math.exp(odds))

    def threshold(self, name: str, default: float = 0.5) -> float:
        """Least probability of a claim."""
        return self.thresholds.get(name, default)

    def save(self, path: Path) -> None:
        """As JSON."""
        path.write_text(json.dumps(asdict(self), indent=1) + "\n", "utf-8")


def load_calibration(path: Path, model: str) -> Calibration:
    """The calibration in a file, which has to be of this model.

    Raises:
        UserError: There is no such file, or it was made for another model.
        IntegrityError: It is no calibration.
    """
    try:
        data = json.loads(path.read_text("utf-8"))
        data["lines"] = {name: (float(a), float(b)) for name, (a, b) in data["lines"].items()}
        found = Calibration(**data)
    except OSError:
        raise UserError(f"there is no calibration at {path}; make it with: embodied fit describer=clip") from None
    except (ValueError, TypeError, KeyError, AttributeError):
        raise IntegrityError(f"{path} is no calibration; make it again with: embodied fit describer=clip") from None
    if found.model != model:
        raise UserError(f"{path} was made for {found.model or 'no model'}, not for {model}; calibrate again")
    return found


def reliability(probability: FloatArray, right: BoolArray, bins: int = BINS) -> Reliability:
    """Claims of probability (N,), and whether each was right, in evenly spaced bins."""
    index = np.minimum((np.asarray(probability) * bins).astype(int), bins - 1)
    held = [index == bin_ for bin_ in range(bins) if np.any(index == bin_)]
    return Reliability(
        tuple(float(np.mean(probability[rows])) for rows in held),
        tuple(float(np.mean(right[rows])) for rows in held),
        tuple(int(rows.sum()) for rows in held),
    )


def fit_temperature(logits: FloatArray, labels: NDArray[np.int64]) -> float:
    """The temperature in [0.05, 20] that makes the labels (N,) most likely under logits (N, K) divided by it."""
    rows = np.arange(len(labels))

    def loss(log_temperature: float) -> float:
        scaled = np.asarray(logits, dtype=np.float64) / np.exp(log_temperature)
        return float(-np.mean(log_softmax(scaled, axis=1)[rows, labels]))

    return float(np.exp(minimize_scalar(loss, bounds=(np.log(0.05), np.log(20.0)), method="bounded").x))


def fit_line(probability: FloatArray, truth: BoolArray) -> tuple[float, float]:
    """Slope, at least 0, and offset of the log-odds that make the truth (N,) most likely; a weak prior keeps them near
    1 and 0 where there are few examples or all are alike."""
    odds, target = logit(np.clip(probability, _EDGE, 1 - _EDGE)), np.asarray(truth, dtype=np.float64)

    def loss(line: Array) -> float:
        scaled = line[0] * odds + line[1]
        likelihood = np.sum(np.logaddexp(0.0, scaled) - target * scaled)
        return float(likelihood + (line[0] - 1.0) ** 2 + 0.1 * line[1] ** 2)

    found = minimize(loss, np.array([1.0, 0.0]), method="L-BFGS-B", bounds=[(0.0, 20.0), (-10.0, 10.0)]).x
    return float(found[0]), float(found[1])


def threshold_for(probability: FloatArray, right: BoolArray, precision: float = PRECISION, least: float = 0.5) -> float:
    """The smallest probability, at least `least`, above which claims are right as often as `precision` asks; 1 where
    none is."""
    order = np.argsort(-np.asarray(probability), kind="stable")
    chances, truths = np.asarray(probability)[order], np.asarray(right)[order]
    share = np.cumsum(truths) / np.arange(1, len(truths) + 1)
    last_of_equals = np.append(chances[1:] != chances[:-1], True) if len(chances) else np.zeros(0, bool)
    good = np.flatnonzero((share >= precision) & last_of_equals & (chances >= least))
    if not len(good):
        return 1.0
    end = good[-1]
    return float(
        least if end + 1 == len(chances) or chances[end + 1] < least else (chances[end] + chances[end + 1]) / 2
    )
