"""What networks and batches take in memory, estimated before anything is reserved."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

FLOAT_BYTES = 4
TRAINED_COPIES = 6
"""Of a trained parameter: value, gradient, Adam's two moments, and two arrangements for products."""
TARGET_COPIES = 3
"""Of a target critic's: value, gradient, and an arrangement for products."""


def network_bytes(inputs: int, actions: int, hidden: Sequence[int], critics: int) -> int:
    """Memory of policy, critics and target critics with their optimisers, normalisation left out.

    Args:
        inputs: Numbers that the policy sees.
        actions: Width of an action, A; the policy's head has 2 A outputs.
        hidden: Widths of the hidden layers.
        critics: Members of the ensemble.
    """
    policy = _parameters((inputs, *hidden, 2 * actions))
    critic = critics * _parameters((inputs + actions, *hidden, 1))
    return FLOAT_BYTES * (TRAINED_COPIES * (policy + critic) + TARGET_COPIES * critic)


def batch_row_bytes(inputs: int, goal: int, hidden: Sequence[int], critics: int, steps_ahead: int) -> int:
    """Memory that an update takes for each transition of its batch.

    The policy sees the observation before and after it, each critic one; what the layers put out is kept for the
    backward pass. Goals are looked at in as many rows as rewards are summed and settling is waited for.

    Args:
        inputs: Numbers that the policy sees.
        goal: Numbers of a goal.
        hidden: Widths of the hidden layers.
        critics: Members of the ensemble.
        steps_ahead: Rows of the episode that are looked at for a transition.
    """
    activations = (2 + critics) * sum(hidden) + 4 * inputs
    # Achieved and desired in float32, a row number, reward, and two flags.
    looked_at = steps_ahead * (2 * goal * FLOAT_BYTES + 8 + 4 + 2)
    return FLOAT_BYTES * activations + looked_at


def _parameters(widths: Sequence[int]) -> int:
    return sum((before + 1) * after for before, after in pairwise(widths))
