from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from embodied.errors import UserError
from embodied.learning import beta
from embodied.learning.laws import LAWS
from embodied.learning.networks import CriticEnsemble, PolicyModule, PolicyShape

SHAPE = PolicyShape(observation_width=5, goal_width=3, action_low=(-1.0, -2.0), action_high=(1.0, 0.5), hidden=(16, 16))


def _generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def _policy(law: str = "beta") -> PolicyModule:
    policy = PolicyModule(replace(SHAPE, law=law))
    policy.initialise(_generator())
    policy.normalizer.update(np.random.default_rng(0).normal(2.0, 3.0, (100, 8)))
    return policy


@pytest.mark.parametrize("law", LAWS)
def test_actions_stay_inside_the_limits_whatever_comes_in(law: str) -> None:
    policy = _policy(law)
    with torch.no_grad():
        policy.head.weight.mul_(1e4)
        action = policy(torch.randn(500, 5) * 1e6, torch.randn(500, 3) * 1e6)
    low, high = torch.tensor(SHAPE.action_low), torch.tensor(SHAPE.action_high)
    # What tanh and Kumaraswamy's law come to far out is rounded to the limit itself.
    assert ((action > low) if law == "beta" else (action >= low)).all()
    assert ((action < high) if law == "beta" else (action <= high)).all()
    assert action.std(0).min() > 0.1


@pytest.mark.parametrize("law", LAWS)
def test_a_fresh_policy_acts_near_the_middle_of_the_limits(law: str) -> None:
    action = _policy(law)(torch.randn(50, 5), torch.randn(50, 3))
    assert (action - torch.tensor([0.0, -0.75])).abs().max() < 0.15


def test_forward_is_the_centre_of_the_law_on_the_limits() -> None:
    observation, goal = torch.randn(7, 5), torch.randn(7, 3)
    policy = _policy()
    alpha, second = beta.concentrations(policy.raw(policy.features(observation, goal)))
    low, width = torch.tensor([-1.0, -2.0]), torch.tensor([2.0, 2.5])
    torch.testing.assert_close(policy(observation, goal), low + alpha / (alpha + second) * width)
    policy = _policy("tanh")
    mean = policy.raw(policy.features(observation, goal))[:, :2]
    torch.testing.assert_close(policy(observation, goal), low + (1.0 + torch.tanh(mean)) / 2.0 * width)


def test_a_law_that_is_unknown_is_refused() -> None:
    with pytest.raises(UserError, match="unknown action law 'gauss'; valid: beta, kumaraswamy, tanh"):
        _policy("gauss")


@pytest.mark.parametrize("layer_norm", [False, True])
def test_the_ensemble_equals_its_members_one_by_one(layer_norm: bool) -> None:
    critic = CriticEnsemble(3, 6, (16, 8), layer_norm)
    critic.initialise(_generator())
    with torch.no_grad():
        for parameter in critic.parameters():
            parameter.add_(0.1 * torch.randn(parameter.shape, generator=_generator(1)))
    features, unit = torch.randn(10, 4), torch.rand(10, 2)
    values = critic(features, unit)
    assert values.shape == (3, 10)
    for member in range(3):
        hidden = torch.cat((features, 2 * unit - 1), -1)
        for index in range(3):
            hidden = F.linear(hidden, critic.weights[index][member].T, critic.biases[index][member, 0])
            if index < 2:
                if layer_norm:
                    width = hidden.shape[-1:]
                    hidden = F.layer_norm(
                        hidden, width, critic.gains[index][member, 0], critic.shifts[index][member, 0]
                    )
                hidden = torch.relu(hidden)
        torch.testing.assert_close(values[member], hidden.squeeze(-1), rtol=1e-4, atol=1e-5)


def test_members_differ_and_a_seed_repeats_them() -> None:
    first, again, other = (CriticEnsemble(2, 6, (16,), False) for _ in range(3))
    first.initialise(_generator(3))
    again.initialise(_generator(3))
    other.initialise(_generator(4))
    assert not torch.equal(first.weights[0][0], first.weights[0][1])
    assert torch.equal(first.weights[0], again.weights[0])
    assert not torch.equal(first.weights[0], other.weights[0])
