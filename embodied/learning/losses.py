"""The losses of soft actor-critic (Haarnoja et al. 2018, arXiv 1812.05905) as pure functions of tensors.

Log-probabilities and entropies are in unit coordinates (see `embodied.learning.unit`).
"""

from __future__ import annotations

from torch import Tensor


def value_bounds(reward_range: tuple[float, float] | None, gamma: float) -> tuple[float, float] | None:
    """Least and greatest discounted return, from the range of one step's reward.

    A return is a sum of between one and endlessly many rewards: its extremes are r or r / (1 - gamma), whichever is
    farther out. None where the range is not known: then targets are not clamped.
    """
    if reward_range is None:
        return None
    low, high = reward_range
    return min(low, low / (1.0 - gamma)), max(high, high / (1.0 - gamma))


def critic_target(
    reward: Tensor,
    terminated: Tensor,
    next_values: Tensor,
    next_log_prob: Tensor,
    temperature: Tensor,
    gamma: float | Tensor,
    bounds: tuple[float, float] | None,
) -> Tensor:
    """r + gamma (1 - terminated) (clamp(min_i Q_i(s', a'), bounds) - temperature ln pi(a' | s')).

    The bootstrapped value is clamped before the entropy term is added (bounded Q: arXiv 2312.05787): what no policy can
    earn is no target either.

    Args:
        reward: Shape (B,).
        terminated: Shape (B,), 1.0 where the task ended; a time limit does not end it.
        next_values: Target critics at the next observation and a fresh action, shape (N, B).
        next_log_prob: Of that action, shape (B,).
        temperature: Scalar.
        gamma: Discount of what follows, one number or of shape (B,).
        bounds: From `value_bounds`.

    Returns:
        Shape (B,).
    """
    value = next_values.amin(0)
    if bounds is not None:
        value = value.clamp(*bounds)
    return reward + gamma * (1.0 - terminated) * (value - temperature * next_log_prob)


def critic_loss(values: Tensor, target: Tensor) -> Tensor:
    """Mean squared error, summed over the N critics: values (N, B), target (B,), scalar out."""
    return (values - target).square().mean(-1).sum()


def critic_slopes(values: Tensor, target: Tensor) -> Tensor:
    """Gradient of `critic_loss` by the values, (N, B)."""
    return (values - target) * (2.0 / values.shape[1])


def actor_loss(values: Tensor, log_prob: Tensor, temperature: Tensor | float) -> Tensor:
    """E[temperature ln pi(a | s) - min_i Q_i(s, a)]: values (N, B), log_prob (B,), scalar out."""
    return (temperature * log_prob - values.amin(0)).mean()


def actor_slopes(values: Tensor) -> Tensor:
    """Gradient of `actor_loss` by the values, (N, B): -1 / B for the least value of each column, else 0.

    Equal ones share it, as in autograd's own gradient of `amin`.
    """
    least = (values == values.amin(0)).float()
    return least / (least.sum(0) * -values.shape[1])


def temperature_loss(log_temperature: Tensor, log_prob: Tensor, target_entropy: float) -> Tensor:
    """-ln(temperature) E[ln pi + target]: the temperature rises while the entropy is below its target.

    Args:
        log_temperature: Scalar, the parameter.
        log_prob: Shape (B,), detached here.
        target_entropy: In unit coordinates.
    """
    return -log_temperature * (log_prob.detach().mean() + target_entropy)


def temperature_slope(mean_log_prob: Tensor, target_entropy: float) -> Tensor:
    """Gradient of `temperature_loss` by the log-temperature; both arguments as there, the mean of ln pi as a scalar."""
    return -(mean_log_prob + target_entropy)
