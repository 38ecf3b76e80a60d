from __future__ import annotations

import math

import pytest
import torch
from torch.distributions import AffineTransform, Beta, TransformedDistribution

from embodied.learning import beta, unit


def test_target_entropy_is_minus_the_width_on_minus_one_to_one() -> None:
    # A density on [-1, 1] is half the unit one: its entropy is larger by ln 2 per number.
    assert unit.target_entropy(4) + 4 * math.log(2.0) == pytest.approx(-4.0)


def test_width_log_prob_is_the_density_on_the_limits() -> None:
    low, high = torch.tensor([-1.0, -2.0]), torch.tensor([1.0, 0.5])
    alpha, second = torch.tensor([2.0, 3.0]), torch.tensor([4.0, 1.5])
    scaled = TransformedDistribution(Beta(alpha, second), AffineTransform(low, high - low))
    x = torch.tensor([0.3, 0.8])
    ours = unit.width_log_prob(beta.log_prob(x, alpha, second), low, high)
    assert ours.item() == pytest.approx(scaled.log_prob(unit.to_action(x, low, high)).sum().item(), abs=1e-5)
    torch.testing.assert_close(unit.to_unit(unit.to_action(x, low, high), low, high), x)
    assert unit.to_unit(torch.tensor([9.0, -9.0]), low, high).tolist() == [1.0, 0.0]
