"""What every law of `laws.LAWS` has to hold, and the two beside Beta in particular."""

from __future__ import annotations

import math
from itertools import product
from typing import Any

import pytest
import torch
from torch.distributions import AffineTransform, Beta, Kumaraswamy, Normal, TanhTransform, TransformedDistribution

from embodied.learning import beta, kumaraswamy, tanh_gaussian
from embodied.learning.laws import LAWS, Law, make_law
from embodied.learning.native import library
from embodied.learning.unit import MARGIN

LIMIT = 1000.0
NEW = ("tanh", "kumaraswamy")
HEADS = {
    "beta": [(0.0, 0.0), (0.7, -0.4), (-3.0, -2.0), (2.0, 3.0), (60.0, 9.0)],
    "tanh": [(0.0, 0.0), (0.7, -0.4), (-3.0, -2.0), (-0.5, 0.5), (1.5, -9.0)],
    "kumaraswamy": [(0.0, 0.0), (0.7, -0.4), (-3.0, -2.0), (2.0, 3.0), (60.0, 90.0)],
}
"""Pairs of head outputs for one action number, from nearly uniform laws to the narrow one that is the last."""
CASES = [(name, head) for name, heads in HEADS.items() for head in heads]
NEW_CASES = [(name, head) for name, head in CASES if name != "beta"]
FAR = [-1e4, -50.0, 0.0, 50.0, 1e4]


def _law(name: str) -> Law[Any]:
    return make_law(name, LIMIT)


def _raw(*heads: tuple[float, float], dtype: torch.dtype = torch.float64) -> torch.Tensor:
    return torch.tensor(heads, dtype=dtype)


def _seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def _cdf(name: str, raw: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    """Of one action number: raw (2,), x (N,), float64."""
    if name == "tanh":
        mean, log_std = tanh_gaussian.parameters(raw)
        return Normal(mean, log_std.exp()).cdf(torch.atanh(2.0 * x - 1.0))
    a, log_b = kumaraswamy.parameters(raw, LIMIT)
    return -torch.expm1(log_b.exp() * torch.log1p(-(x**a)))


@pytest.mark.parametrize(("name", "head"), CASES)
def test_a_density_integrates_to_one(name: str, head: tuple[float, float]) -> None:
    """By the trapezoidal rule over y, x = 1 / (1 + exp(-y)), whose far ends the clamped margins leave out."""
    y = torch.linspace(-13.5, 13.5, 40_001, dtype=torch.float64)
    x = torch.sigmoid(y)
    density = torch.exp(_law(name).log_prob(_raw(head).expand(len(y), 2), x[:, None]))
    assert torch.trapezoid(density * x * (1.0 - x), y).item() == pytest.approx(1.0, abs=5e-5)


@pytest.mark.parametrize(("name", "head"), [case for case in NEW_CASES if case[1] != (60.0, 90.0)])
def test_log_prob_is_the_one_that_torch_has(name: str, head: tuple[float, float]) -> None:
    raw, x = _raw(head), torch.linspace(0.02, 0.98, 97, dtype=torch.float64)
    if name == "tanh":
        mean, log_std = tanh_gaussian.parameters(raw)
        squash = [TanhTransform(), AffineTransform(0.5, 0.5)]
        exact: Any = TransformedDistribution(Normal(mean, log_std.exp()), squash)
    else:
        a, log_b = kumaraswamy.parameters(raw, LIMIT)
        # Its formula loses digits for the narrow law, which the integral above is for.
        exact = Kumaraswamy(a, log_b.exp())
    ours = _law(name).log_prob(raw.expand(97, 2), x[:, None])
    torch.testing.assert_close(ours, exact.log_prob(x[:, None]).squeeze(-1), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(("name", "head"), NEW_CASES)
def test_draws_follow_their_law(name: str, head: tuple[float, float]) -> None:
    """Kolmogorov-Smirnov: the greatest distance of 200,000 draws from their law stays below 1.95 / sqrt(n) 999 times
    in 1,000."""
    raw = _raw(head, dtype=torch.float32)
    x = _law(name).draw(raw.expand(200_000, 2), _seeded(3)).unit.double().squeeze(-1).sort().values
    law = _cdf(name, raw[0].double(), x)
    ranks = torch.linspace(0.0, 1.0, len(x) + 1, dtype=torch.float64)
    assert torch.maximum((law - ranks[:-1]).max(), (ranks[1:] - law).max()) < 1.95 / len(x) ** 0.5


@pytest.mark.parametrize("name", LAWS)
def test_a_draws_gradient_is_autograds(name: str) -> None:
    """Through the head's map, the draw and the density; also of some rows alone."""
    law, free = _law(name), torch.randn(40, 6, generator=_seeded(1), dtype=torch.float64)
    free = free - torch.tensor(3 * [0.0] + 3 * [1.5]) if name == "tanh" else 3.0 * free
    slopes = torch.randn(40, 3, generator=_seeded(2), dtype=torch.float64)
    drawn, raw = law.draw(free, _seeded()), free.clone().requires_grad_(True)
    unit = law.sample(raw, _seeded())
    density = law.log_prob(raw, unit)
    torch.testing.assert_close(drawn.unit, unit.detach())
    torch.testing.assert_close(drawn.log_prob, density.detach())
    assert (unit - 0.5).abs().max() < 0.5 - 2.0 * MARGIN, "none may be clamped, which autograd would see"
    (expected,) = torch.autograd.grad((unit * slopes).sum() + 0.3 * density.sum(), raw)
    assert expected.abs().min() > 0
    near = {"rtol": 1e-4, "atol": 1e-5} if name == "beta" else {"rtol": 1e-7, "atol": 1e-9}
    torch.testing.assert_close(law.raw_gradient(drawn, slopes, 0.3), expected, **near)
    part = law.raw_gradient(drawn.rows(7, 19), slopes[7:19], 0.3)
    torch.testing.assert_close(part, expected[7:19], **near)


@pytest.mark.parametrize("name", NEW)
def test_float32_draws_are_as_dense_as_float64_says(name: str) -> None:
    """The same law at the draw itself; margins aside, where `log_prob` is asked at the margin."""
    law, free = _law(name), 3.0 * torch.randn(4000, 2, generator=_seeded(1))
    drawn = law.draw(free, _seeded())
    x = drawn.unit.double()
    inside = ((x > 1e-3) & (x < 1.0 - 1e-3)).squeeze(-1)
    assert inside.float().mean() > 0.5
    exact = law.log_prob(free.double(), x)
    torch.testing.assert_close(drawn.log_prob[inside].double(), exact[inside], rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("name", LAWS)
def test_all_is_finite_however_far_out_the_head_lies(name: str, compiled: bool) -> None:
    law = make_law(name, LIMIT, library() if compiled else None)
    raw = _raw(*product(FAR, FAR), dtype=torch.float32).repeat(200, 1)
    drawn = law.draw(raw, _seeded())
    assert torch.isfinite(drawn.log_prob).all()
    for unit in (drawn.unit, law.centre(raw), law.sample(raw, _seeded(1))):
        assert ((unit >= 0.0) & (unit <= 1.0)).all()
    assert torch.isfinite(law.raw_gradient(drawn, torch.ones_like(drawn.unit), 0.3)).all()
    for end in (0.0, 1.0):
        assert torch.isfinite(law.log_prob(raw, torch.full_like(drawn.unit, end))).all()


@pytest.mark.parametrize("name", LAWS)
def test_draws_come_from_the_generator_alone(name: str) -> None:
    raw, before = torch.zeros(30, 4), torch.get_rng_state()
    one, same, other = (_law(name).draw(raw, _seeded(seed)).unit for seed in (5, 5, 6))
    assert torch.equal(one, same)
    assert not torch.equal(one, other)
    assert torch.equal(before, torch.get_rng_state())


@pytest.mark.parametrize(("name", "head"), NEW_CASES)
def test_the_centre_is_the_median(name: str, head: tuple[float, float]) -> None:
    raw = _raw(head)
    assert _cdf(name, raw[0], _law(name).centre(raw)[0]).item() == pytest.approx(0.5, abs=1e-9)


def test_the_squashed_gaussians_width_is_what_the_head_says_within_bounds() -> None:
    low, high = tanh_gaussian.LOG_STD
    v = torch.linspace(-40.0, 40.0, 801, dtype=torch.float64)
    mean, log_std = tanh_gaussian.parameters(torch.stack((torch.full_like(v, 7.0), v), -1))
    assert (mean == 7.0).all()
    assert (log_std.diff() >= 0.0).all()
    assert low - 1e-3 < log_std.min() < low + 1e-3
    assert high - 1e-3 < log_std.max() <= high
    between = (v >= -3.0) & (v <= 0.0)
    assert (log_std.squeeze(-1) - v)[between].abs().max() < 0.13


def test_kumaraswamys_law_has_one_mode_and_starts_in_the_middle() -> None:
    a, log_b = kumaraswamy.parameters(_raw(*product(FAR, FAR)), LIMIT)
    assert ((a >= 1.0) & (a < LIMIT - 1.0)).all()
    assert (log_b >= 0.0).all()
    assert _law("kumaraswamy").centre(_raw((0.0, 0.0))).item() == pytest.approx(0.5, abs=5e-3)


@pytest.mark.parametrize("head", [(-60.0, 1e6), (1e6, -60.0)])
def test_where_kumaraswamys_law_is_betas_it_is_within_betas_bound(head: tuple[float, float]) -> None:
    """a = 1 or b = 1: the same density as Beta(1, b) or Beta(a, 1), whose concentration stays below the limit."""
    a, log_b = kumaraswamy.parameters(_raw(head), LIMIT)
    same = Beta(a.squeeze(), log_b.exp().squeeze())
    x = torch.linspace(0.01, 0.99, 99, dtype=torch.float64)
    torch.testing.assert_close(kumaraswamy.log_prob(x[:, None], a, log_b), same.log_prob(x), rtol=1e-6, atol=1e-6)
    assert (a + log_b.exp()).item() < LIMIT


@pytest.mark.parametrize("middle", [0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95])
def test_kumaraswamys_law_can_be_about_as_narrow_as_betas_anywhere(middle: float) -> None:
    """Widths are between the 16th and the 84th of 100 quantiles, of the narrowest law with this median."""
    u = torch.linspace(-20.0, 1e4, 4001, dtype=torch.float64)
    raw = torch.cat([torch.stack((u, torch.full_like(u, v)), -1) for v in torch.logspace(-2, 5, 400).tolist()])
    a, log_b = kumaraswamy.parameters(raw, LIMIT)
    tail = -torch.log1p(-torch.tensor([0.16, 0.5, 0.84], dtype=torch.float64))
    quantiles = torch.exp(kumaraswamy.log1mexp(tail * torch.exp(-log_b)) / a)
    there = (quantiles[:, 1] - middle).abs() < 5e-3
    narrowest = (quantiles[there, 2] - quantiles[there, 0]).min().item()
    betas = 2.0 * math.sqrt(middle * (1.0 - middle) / (LIMIT + 1.0))
    assert 0.2 * betas < narrowest < 1.5 * betas


def test_the_c_code_draws_betas_law_alone() -> None:
    assert type(make_law("beta", LIMIT, library()).draw(torch.zeros(2, 2), _seeded())) is beta.Draw
