from __future__ import annotations

import pytest
import torch

from embodied.learning import losses


def test_one_target_by_hand() -> None:
    target = losses.critic_target(
        reward=torch.tensor([-1.0, -1.0, 0.0, -1.0]),
        terminated=torch.tensor([0.0, 0.0, 1.0, 0.0]),
        next_values=torch.tensor([[-3.0, -30.0, -2.0, 4.0], [-2.5, -12.0, -1.0, 2.0]]),
        next_log_prob=torch.tensor([2.0, -1.0, 5.0, 0.5]),
        temperature=torch.tensor(0.1),
        gamma=0.9,
        bounds=losses.value_bounds((-1.0, 0.0), 0.9),
    )
    # Bounds: -1 / (1 - 0.9) = -10 to 0.
    # Row 0: -1 + 0.9 (min(-3, -2.5) - 0.1 * 2)         = -1 + 0.9 * -3.2   = -3.88
    # Row 1: min -30 is clamped to -10: -1 + 0.9 (-10 + 0.1)                = -9.91
    # Row 2: terminated, nothing is bootstrapped:                            =  0
    # Row 3: min 2 is clamped to 0: -1 + 0.9 (0 - 0.1 * 0.5) = -1 - 0.045   = -1.045
    torch.testing.assert_close(target, torch.tensor([-3.88, -9.91, 0.0, -1.045]))


def test_without_a_known_range_nothing_is_clamped() -> None:
    assert losses.value_bounds(None, 0.9) is None
    target = losses.critic_target(
        torch.tensor([0.0]), torch.tensor([0.0]), torch.tensor([[500.0]]), torch.zeros(1), torch.tensor(0.0), 0.5, None
    )
    assert target.item() == 250.0


@pytest.mark.parametrize(
    ("reward_range", "bounds"),
    [((-1.0, 0.0), (-10.0, 0.0)), ((0.0, 1.0), (0.0, 10.0)), ((2.0, 3.0), (2.0, 30.0)), ((-3.0, -2.0), (-30.0, -2.0))],
)
def test_bounds_cover_returns_of_one_step_and_of_endless_ones(
    reward_range: tuple[float, float], bounds: tuple[float, float]
) -> None:
    assert losses.value_bounds(reward_range, 0.9) == pytest.approx(bounds)


def test_critic_loss_sums_over_members_and_averages_over_rows() -> None:
    # Member 0: (1 + 4) / 2 = 2.5; member 1: (0 + 9) / 2 = 4.5.
    assert losses.critic_loss(torch.tensor([[1.0, 2.0], [0.0, 3.0]]), torch.zeros(2)).item() == 7.0


def test_actor_loss_takes_the_least_value() -> None:
    loss = losses.actor_loss(torch.tensor([[1.0, 5.0], [2.0, 3.0]]), torch.tensor([1.0, -1.0]), torch.tensor(0.5))
    # ((0.5 - 1) + (-0.5 - 3)) / 2 = -2
    assert loss.item() == -2.0


@pytest.mark.parametrize(("entropy", "sign"), [(-8.0, -1.0), (-1.0, 1.0)])
def test_the_temperature_rises_while_the_entropy_is_below_its_target(entropy: float, sign: float) -> None:
    log_temperature = torch.zeros((), requires_grad=True)
    losses.temperature_loss(log_temperature, torch.full((4,), -entropy), -4.0).backward()
    assert torch.sign(log_temperature.grad).item() == sign


def test_slopes_are_the_gradients_of_their_losses() -> None:
    generator = torch.Generator().manual_seed(0)
    values = torch.randn(3, 6, generator=generator, requires_grad=True)
    target, log_prob = torch.randn(6, generator=generator), torch.randn(6, generator=generator)
    (by_critics,) = torch.autograd.grad(losses.critic_loss(values, target), values)
    torch.testing.assert_close(losses.critic_slopes(values.detach(), target), by_critics)
    (by_actor,) = torch.autograd.grad(losses.actor_loss(values, log_prob, torch.tensor(0.5)), values)
    torch.testing.assert_close(losses.actor_slopes(values.detach()), by_actor)
    log_temperature = torch.tensor(-1.0, requires_grad=True)
    (by_temperature,) = torch.autograd.grad(losses.temperature_loss(log_temperature, log_prob, -4.0), log_temperature)
    torch.testing.assert_close(losses.temperature_slope(log_prob.mean(), -4.0), by_temperature)
