"""Sparse rewards of goal space, vectorised: the same function for one step and for a million relabelled ones."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from embodied.types import BoolArray, FloatArray, Goal, Outcome

Wish = Sequence[tuple[int, float]]
"""The masked components of a goal: which, and what it should be."""


def wish_of(goal: Goal) -> Wish:
    """A goal as single steps are judged by it."""
    return [(index, value) for index, value in enumerate(goal.value.tolist()) if goal.mask[index]]


def masked_distance(achieved: FloatArray, goal: FloatArray, mask: BoolArray) -> NDArray[np.float64]:
    """Euclidean distance over the masked components, in float64; arguments (..., G), result (...)."""
    difference = np.asarray(achieved, dtype=np.float64) - np.asarray(goal, dtype=np.float64)
    return np.sqrt(np.sum(np.square(np.where(mask, difference, 0.0)), axis=-1))


def wish_distance(achieved: Sequence[float], wish: Wish) -> float:
    """`masked_distance` of one pair, bit for bit, without arrays: a twentieth of its time."""
    total = 0.0
    for index, value in wish:
        difference = achieved[index] - value
        total += difference * difference
    return math.sqrt(total)


@dataclass(frozen=True)
class NegativeSparseReward:
    """-1 while the distance exceeds the tolerance, else 0; success strictly within it, as in Gymnasium's Fetch."""

    tolerance: float
    """In goal units."""

    def __call__(self, achieved: FloatArray, goal: FloatArray, mask: BoolArray) -> Outcome:
        """All of shape (N, G)."""
        distance = masked_distance(achieved, goal, mask)
        reward = np.where(distance > self.tolerance, np.float32(-1.0), np.float32(0.0))
        return Outcome(reward, np.zeros(distance.shape, dtype=bool), distance < self.tolerance)

    def of_step(self, achieved: Sequence[float], wish: Wish) -> tuple[float, bool]:
        """Reward and success of one pair, the same numbers; `achieved` are the G float32 values as Python's floats."""
        distance = wish_distance(achieved, wish)
        return -1.0 if distance > self.tolerance else 0.0, distance < self.tolerance


@dataclass(frozen=True)
class PositiveSparseReward:
    """1 while the distance is at most the tolerance, else 0; success the same, as in Gymnasium-Robotics' mazes."""

    tolerance: float
    """In goal units."""

    def __call__(self, achieved: FloatArray, goal: FloatArray, mask: BoolArray) -> Outcome:
        """All of shape (N, G)."""
        success = masked_distance(achieved, goal, mask) <= self.tolerance
        return Outcome(success.astype(np.float32), np.zeros(success.shape, dtype=bool), success)

    def of_step(self, achieved: Sequence[float], wish: Wish) -> tuple[float, bool]:
        """Reward and success of one pair, the same numbers; `achieved` are the G float32 values as Python's floats."""
        success = wish_distance(achieved, wish) <= self.tolerance
        return float(success), success
