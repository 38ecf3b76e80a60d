"""Unit coordinates: each action number as x in (0, 1) between its limits, for the policy's law whichever it is.

Entropies and log-probabilities are in unit coordinates too, where the uniform law has entropy 0; `width_log_prob` adds
the width of the limits for reports.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

MARGIN = 1e-6
"""Densities are taken at [MARGIN, 1 - MARGIN]: both ends are exact neighbours of 0 and 1 that float32 tells apart, so
that log(x) and log(1 - x) stay finite."""


def target_entropy(action_width: int) -> float:
    """-A - A ln 2: the usual target -A of SAC on [-1, 1], moved to unit coordinates."""
    return -action_width * (1.0 + math.log(2.0))


def to_action(unit: Tensor, low: Tensor, high: Tensor) -> Tensor:
    """Unit coordinates to action units."""
    return low + unit * (high - low)


def to_unit(action: Tensor, low: Tensor, high: Tensor) -> Tensor:
    """Action units to unit coordinates, clamped to [0, 1]."""
    return ((action - low) / (high - low)).clamp(0.0, 1.0)


def width_log_prob(unit_log_prob: Tensor, low: Tensor, high: Tensor) -> Tensor:
    """The log-density in action units, for reports: the unit one minus the log of the limits' volume."""
    return unit_log_prob - torch.log(high - low).sum()
