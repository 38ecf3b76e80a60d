from __future__ import annotations

import math

import pytest
import torch
from torch.distributions import Beta

from embodied.learning import beta, compiled_beta
from embodied.learning.native import library

ENDS = [(1.0, 1.0), (1.0001, 1.5), (2.0, 5.0), (40.0, 3.0), (1.0, 990.0), (499.0, 499.0), (990.0, 1.001)]


def _pair(alpha: float, second: float, dtype: torch.dtype = torch.float32) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.full((1,), alpha, dtype=dtype), torch.full((1,), second, dtype=dtype)


@pytest.mark.parametrize("ends", ENDS)
def test_log_prob_in_float32_follows_the_closed_form_in_float64(ends: tuple[float, float]) -> None:
    exact = Beta(*_pair(*ends, torch.float64))
    x = exact.sample((500,)).clamp(1e-6, 1 - 1e-6)
    ours = beta.log_prob(x.float(), *_pair(*ends))
    # float32 x carries an error of 6e-8, which the slope of the log-density, up to 1e3 / x, makes visible at the ends.
    slope = ((ends[0] - 1) / x - (ends[1] - 1) / (1 - x)).abs().squeeze(-1)
    assert ((ours.double() - exact.log_prob(x).squeeze(-1)).abs() <= 1e-3 + 2e-7 * slope).all()


@pytest.mark.parametrize("ends", ENDS)
def test_log_prob_is_finite_on_the_limits_themselves(ends: tuple[float, float]) -> None:
    for x in (0.0, 1.0):
        assert torch.isfinite(beta.log_prob(torch.full((1,), x), *_pair(*ends)))


def test_the_clamp_acts_in_float32_at_both_ends() -> None:
    upper, lower = torch.tensor(1.0 - beta.MARGIN), torch.tensor(beta.MARGIN)
    assert upper < 1.0
    assert lower > 0.0
    # Mass at the ends: without the clamp about 1 in 300 of these draws rounds to exactly 1.0.
    x = beta.sample(torch.full((300_000,), 990.0), torch.full((300_000,), 1e-3), torch.Generator().manual_seed(0))
    assert (x == upper).any()
    assert x.max() <= upper
    assert beta.sample(torch.full((300_000,), 1e-3), torch.full((300_000,), 990.0)).min() >= lower


@pytest.mark.parametrize("ends", ENDS)
def test_samples_have_the_moments_of_the_law(ends: tuple[float, float]) -> None:
    alpha, second = ends
    draws = beta.sample(torch.full((100_000,), alpha), torch.full((100_000,), second), torch.Generator().manual_seed(1))
    exact = Beta(torch.tensor(alpha).double(), torch.tensor(second).double())
    assert abs(draws.double().mean() - exact.mean) < 5 * exact.stddev / math.sqrt(100_000) + 2e-6
    assert draws.double().std() == pytest.approx(exact.stddev.item(), rel=0.03)


def test_draws_come_from_the_generator_alone() -> None:
    alpha = torch.full((4,), 2.0)
    before = torch.get_rng_state()
    first, again = (beta.sample(alpha, alpha, torch.Generator().manual_seed(5)) for _ in range(2))
    other = beta.sample(alpha, alpha, torch.Generator().manual_seed(6))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    assert torch.equal(before, torch.get_rng_state())


def _gamma_at(shape: torch.Tensor, quantile: torch.Tensor, start: torch.Tensor) -> torch.Tensor:
    """Newton's method on the regularised incomplete gamma function, float64."""
    g = start.clone()
    for _ in range(60):
        density = torch.exp((shape - 1) * torch.log(g) - g - torch.lgamma(shape))
        g = (g - (torch.special.gammainc(shape, g) - quantile) / density).clamp_min(1e-12)
    return g


@pytest.mark.parametrize("ends", [(1.05, 1.2), (2.0, 5.0), (30.0, 12.0), (300.0, 150.0)])
def test_sample_gradient_equals_finite_differences_of_the_quantiles(ends: tuple[float, float]) -> None:
    alpha, second = (torch.full((16,), end, requires_grad=True) for end in ends)
    beta.sample(alpha, second, torch.Generator().manual_seed(2)).sum().backward()
    shapes = torch.stack((alpha, second)).detach()
    draws = torch._standard_gamma(shapes, generator=torch.Generator().manual_seed(2)).double()
    shapes = shapes.double()
    quantiles = torch.special.gammainc(shapes, draws)

    def at(step_alpha: float, step_beta: float) -> torch.Tensor:
        moved = shapes + torch.tensor([[step_alpha], [step_beta]], dtype=torch.float64)
        g = _gamma_at(moved, quantiles, draws)
        return g[0] / (g[0] + g[1])

    h = 1e-4
    torch.testing.assert_close(alpha.grad.double(), (at(h, 0) - at(-h, 0)) / (2 * h), rtol=2e-3, atol=2e-6)
    torch.testing.assert_close(second.grad.double(), (at(0, h) - at(0, -h)) / (2 * h), rtol=2e-3, atol=2e-6)


@pytest.mark.parametrize("ends", ENDS)
def test_entropy_is_the_closed_form_and_at_most_the_uniform_laws(ends: tuple[float, float]) -> None:
    ours = beta.entropy(*_pair(*ends)).item()
    assert ours == pytest.approx(Beta(*_pair(*ends, torch.float64)).entropy().item(), abs=2e-3)
    assert ours <= 1e-6


def test_concentrations_stay_between_one_and_the_limit_and_keep_mode_and_mean() -> None:
    raw = torch.cartesian_prod(*[torch.tensor([-1e4, -3.0, 0.0, 2.0, 60.0, 700.0, 1e5])] * 2)
    alpha, second = (part.squeeze(-1) for part in beta.concentrations(raw))
    free_alpha, free_beta = (1.0 + torch.nn.functional.softplus(raw.double())).unbind(-1)
    assert (torch.minimum(alpha, second) >= 1.0).all()
    assert (alpha + second <= beta.MAX_CONCENTRATION).all()
    wide = (free_alpha - 1 > 1e-3) & (free_beta - 1 > 1e-3)
    mode, free_mode = ((a - 1) / (a + b - 2) for a, b in ((alpha.double(), second.double()), (free_alpha, free_beta)))
    torch.testing.assert_close(mode[wide], free_mode[wide], atol=1e-4, rtol=1e-4)
    moved = (beta.mean(alpha, second).double() - beta.mean(free_alpha, free_beta)).abs()
    assert moved.max() <= 1.0 / (beta.MAX_CONCENTRATION - 2.0)
    # Small concentrations pass unchanged: at a + b = 1 the cap takes a thousandth of the excess.
    small = beta.concentrations(torch.tensor([0.0, 0.0]))[0].item()
    assert small == pytest.approx(1.0 + math.log(2.0), abs=2e-3)


def test_concentrations_have_finite_gradients_far_out() -> None:
    raw = torch.tensor([[1e5, -1e4, 1e5, 1e5]], requires_grad=True)
    alpha, second = beta.concentrations(raw)
    (alpha.sum() + second.log().sum()).backward()
    assert torch.isfinite(raw.grad).all()


def test_a_draws_gradient_is_autograds() -> None:
    """Through softplus, the limit, the draw, its clamp and the density; the last row is drawn at the margin."""
    raw = torch.tensor([[0.5, -1.0, 2.0, 0.1], [30.0, 3.0, -4.0, 6.0], [-9.0, 2.0, 900.0, 1.0]], requires_grad=True)
    slopes, limit = torch.tensor([[1.0, -2.0], [0.5, 3.0], [2.0, 1.0]]), 50.0
    drawn = beta.draw(raw.detach(), limit, torch.Generator().manual_seed(0))
    law = beta.concentrations(raw, limit)
    unit = beta.sample(*law, generator=torch.Generator().manual_seed(0))
    density = beta.log_prob(unit, *law)
    assert torch.equal(drawn.unit, unit.detach())
    torch.testing.assert_close(drawn.log_prob, density.detach())
    (expected,) = torch.autograd.grad((unit * slopes).sum() + 0.3 * density.sum(), raw)
    found = beta.raw_gradient(drawn, slopes, 0.3, limit)
    assert expected.abs().min() > 0
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-6)
    part = beta.raw_gradient(drawn.rows(1, 3), slopes[1:], 0.3, limit)
    torch.testing.assert_close(part, expected[1:], rtol=1e-4, atol=1e-6)


def test_clamped_draws_pass_no_gradient() -> None:
    both = torch.tensor([[[2.0]], [[3.0]]])
    unit = torch.tensor([[beta.MARGIN]])
    drawn = beta.Draw(torch.zeros(1, 2), both, torch.tensor([[[1e-9]], [[1.0]]]), unit, torch.zeros(1))
    steep = beta.raw_gradient(drawn, torch.tensor([[1e3]]), 0.0, 50.0)
    assert not steep.any()


compiled = pytest.mark.skipif(library() is None, reason="needs a C compiler")


def _raw(rows: int = 400) -> torch.Tensor:
    """Head outputs from laws that are nearly uniform to ones that the limit holds."""
    generator = torch.Generator().manual_seed(1)
    spread = torch.tensor([1.0, 8.0, 60.0]).repeat_interleave(rows // 4).repeat(2)[:rows, None]
    return spread * torch.randn(rows, 6, generator=generator)


@compiled
@pytest.mark.parametrize("limit", [50.0, 1000.0])
def test_compiled_laws_densities_and_gradients_are_the_same(limit: float) -> None:
    raw = _raw()
    drawn = compiled_beta.draw(library(), raw, limit, torch.Generator().manual_seed(0))
    law = beta.concentrations(raw.double(), limit)
    torch.testing.assert_close(drawn.both, torch.stack(law).float(), rtol=1e-5, atol=1e-5)
    exact = beta.log_prob(drawn.unit.double(), *(part.double() for part in drawn.both))
    torch.testing.assert_close(drawn.log_prob, exact.float(), rtol=2e-4, atol=2e-4)
    inside = drawn.gammas / drawn.gammas.sum(0)
    torch.testing.assert_close(drawn.unit, inside[0].clamp(beta.MARGIN, 1.0 - beta.MARGIN))
    slopes = torch.randn(raw.shape[0], 3, generator=torch.Generator().manual_seed(2))
    for part, own in ((drawn, slopes), (drawn.rows(7, 90), slopes[7:90])):
        expected = beta.raw_gradient(part, own, 0.3, limit)
        found = compiled_beta.raw_gradient(library(), part, own, 0.3, limit)
        torch.testing.assert_close(found, expected, rtol=1e-3, atol=1e-4)


@compiled
@pytest.mark.parametrize("shape", [1.0, 1.3, 4.0, 300.0])
def test_compiled_gamma_draws_follow_their_law(shape: float) -> None:
    """Kolmogorov-Smirnov: the greatest distance of 200,000 draws from their law stays below 1.95 / sqrt(n) 999 times
    in 1,000."""
    drawn = compiled_beta.draw_gammas(library(), torch.full((200_000,), shape), torch.Generator().manual_seed(3))
    assert (drawn > 0).all()
    law = torch.special.gammainc(torch.tensor(shape, dtype=torch.float64), drawn.double().sort().values)
    ranks = torch.linspace(0.0, 1.0, len(drawn) + 1, dtype=torch.float64)
    distance = torch.maximum((law - ranks[:-1]).max(), (ranks[1:] - law).max())
    assert distance < 1.95 / len(drawn) ** 0.5


@compiled
def test_compiled_draws_come_from_the_generator_alone() -> None:
    one, same, other = (
        compiled_beta.draw(library(), _raw(), 1000.0, torch.Generator().manual_seed(seed)).unit for seed in (0, 0, 1)
    )
    assert torch.equal(one, same)
    assert not torch.equal(one, other)


@compiled
def test_compiled_draws_from_no_numbers_are_no_numbers() -> None:
    """A policy that has come apart says so instead of being drawn from for ever."""
    raw = _raw()
    raw[3, 1] = torch.nan
    drawn = compiled_beta.draw(library(), raw, 1000.0, torch.Generator().manual_seed(0))
    assert drawn.log_prob.isnan().nonzero().flatten().tolist() == [3]
