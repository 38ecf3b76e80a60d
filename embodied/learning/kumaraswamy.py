"""Kumaraswamy's law on a robot's action limits: much like Beta's, but drawn from one uniform number by its inverse.

F(x) = 1 - (1 - x^a)^b on (0, 1) (Kumaraswamy 1980; Jones 2009, "Kumaraswamy's distribution: a beta-type distribution
with some tractability advantages"). b is kept as its logarithm and 1 - exp(-t) is never formed by subtraction: a law
that is narrow in the middle has b of 1e10 and more, where the usual formulas lose all digits (Wasserman and Mateos
2024, "Stabilizing the Kumaraswamy distribution", arXiv 2410.00660).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from embodied.learning.unit import MARGIN

_LN_2 = math.log(2.0)


@dataclass(frozen=True)
class Draw:
    """Actions drawn from the laws that a head asked for, and what their gradient needs."""

    raw: Tensor
    """(B, 2A) head outputs."""
    a: Tensor
    """(B, A)."""
    log_b: Tensor
    """(B, A)."""
    exponential: Tensor
    """(B, A) -ln(1 - u) of the uniform numbers u that the actions are made of."""
    log_unit: Tensor
    """(B, A) ln x."""
    unit: Tensor
    """(B, A) actions x in unit coordinates."""
    log_prob: Tensor
    """(B,) log-density in unit coordinates."""

    def rows(self, first: int, last: int) -> Draw:
        """Some of the rows alone."""
        parts = self.raw, self.a, self.log_b, self.exponential, self.log_unit, self.unit, self.log_prob
        return Draw(*(part[first:last] for part in parts))


class KumaraswamyLaw:
    """Kumaraswamy's law with a, b > 1 and no narrower than the Beta law of the same `limit`, give or take."""

    def __init__(self, limit: float) -> None:
        """Args:
        limit: See `parameters`.
        """
        self.limit = limit

    def centre(self, raw: Tensor) -> Tensor:
        """The median (1 - 2^(-1/b))^(1/a), shape (..., A).

        The mean, b B(1 + 1/a, b), would need the gamma function, which ONNX has not; the median is closed, and the draw
        that u = 1/2 gives.
        """
        return torch.exp(_log_quantile(_LN_2, *parameters(raw, self.limit)))

    def sample(self, raw: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """A draw that gradients flow through: raw (..., 2A) to unit coordinates (..., A)."""
        a, log_b = parameters(raw, self.limit)
        return torch.exp(_log_quantile(_exponential(a, generator), a, log_b))

    def log_prob(self, raw: Tensor, unit: Tensor) -> Tensor:
        """Log-density at unit coordinates, see `log_prob`: raw (..., 2A), unit (..., A), shape (...) out."""
        return log_prob(unit, *parameters(raw, self.limit))

    @torch.no_grad()
    def draw(self, raw: Tensor, generator: torch.Generator | None = None) -> Draw:
        """`sample` and its log-density in one, for `raw_gradient`: raw of shape (B, 2A).

        With e = -ln(1 - u), (b - 1) ln(1 - x^a) = -(1 - 1/b) e, whatever x is rounded to.
        """
        a, log_b = parameters(raw, self.limit)
        exponential = _exponential(a, generator)
        log_unit = _log_quantile(exponential, a, log_b)
        density = torch.log(a) + log_b + (a - 1.0) * log_unit + torch.expm1(-log_b) * exponential
        return Draw(raw, a, log_b, exponential, log_unit, torch.exp(log_unit), density.sum(-1))

    @torch.no_grad()
    def raw_gradient(self, drawn: Draw, unit_slope: Tensor, log_prob_slope: Tensor | float) -> Tensor:
        """Gradient with respect to the head's outputs, as autograd finds it through the draw and its density.

        At fixed e, with t = e / b and h = t / (exp(t) - 1): d ln x/da = -ln x / a and d ln x/d ln b = -h / a;
        d ln p/da = (1 + ln x) / a and d ln p/d ln b = 1 - t - h (a - 1) / a.

        Args:
            drawn: The draw.
            unit_slope: Of the loss by `drawn.unit`, (B, A).
            log_prob_slope: Of the loss by `drawn.log_prob`: one number or (B, 1).

        Returns:
            Shape (B, 2A).
        """
        a, log_b, log_unit = drawn.a, drawn.log_b, drawn.log_unit
        t = drawn.exponential * torch.exp(-log_b)
        h = t / torch.expm1(t)
        through_x = unit_slope * drawn.unit
        by_a = (log_prob_slope * (1.0 + log_unit) - through_x * log_unit) / a
        by_log_b = log_prob_slope * (1.0 - t - h) + h * (log_prob_slope - through_x) / a
        return _through_head(drawn.raw, a, log_b, by_a, by_log_b, self.limit)


def parameters(raw: Tensor, limit: float) -> tuple[Tensor, Tensor]:
    """a and ln b, with a, b > 1: one mode and a finite density, as Beta's alpha, beta > 1.

    With p = softplus(u), q = softplus(v) and C = limit:

        a = 1 + 1 / (1 / p + 1 / (C - 2)),   ln b = 1 / (1 / q + 1 / sqrt(C) + 1 / (a ln(C - 1)))

    q is ln b and not b - 1, because the median lies near b^(-1/a): to be narrow in the middle b has to grow
    exponentially with a. The bounds are Beta's of the same limit: where a = 1 or b = 1 Kumaraswamy's law is Beta's, and
    a and b stay below C - 1 there; the median stays above about 1 / C; and for a median of 1/4, where the narrowest
    Beta law, of standard deviation sqrt(3 / 16 / C), takes the greatest b, ln b is about sqrt(C) (x spreads by about
    1.28 x / a). raw = 0 gives a = 1.7, b = 1.9, a softly peaked law with its median at 0.50.

    Args:
        raw: Head output, shape (..., 2A): first u, then v.
        limit: C, at least 4.

    Returns:
        Each of shape (..., A).
    """
    width = raw.shape[-1] // 2
    free = F.softplus(raw)
    first, second = free[..., :width], free[..., width:]
    a = 1.0 + first / (1.0 + first / (limit - 2.0))
    return a, second / (1.0 + second * (_rate(limit) + 1.0 / (a * math.log(limit - 1.0))))


def log_prob(unit: Tensor, a: Tensor, log_b: Tensor) -> Tensor:
    """Log-density in unit coordinates, summed over the last axis.

    ln a + ln b + (a - 1) ln x + (b - 1) ln(1 - x^a); x is clamped to [MARGIN, 1 - MARGIN] first, because the density is
    0 at both ends and its logarithm -inf.

    Args:
        unit: Shape (..., A), in [0, 1].
        a: Shape (..., A).
        log_b: Shape (..., A).

    Returns:
        Shape (...).
    """
    log_x = torch.log(unit.clamp(MARGIN, 1.0 - MARGIN))
    density = torch.log(a) + log_b + (a - 1.0) * log_x + torch.expm1(log_b) * log1mexp(-a * log_x)
    return density.sum(-1)


def log1mexp(t: Tensor) -> Tensor:
    """ln(1 - exp(-t)) for t > 0 to full precision (Maechler 2012, "Accurately computing log(1 - exp(-|a|))")."""
    return torch.where(t < _LN_2, torch.log(-torch.expm1(-t)), torch.log1p(-torch.exp(-t)))


def _log_quantile(exponential: Tensor | float, a: Tensor, log_b: Tensor) -> Tensor:
    """ln x where F(x) = u, from e = -ln(1 - u): ln(1 - exp(-e / b)) / a.

    1 - exp(-t) = 2 g / (1 + g) with g = tanh(t / 2): to full precision as by expm1, which ONNX has not. (`log1mexp`
    says more where the result is close to 0; here its absolute error counts.)
    """
    g = torch.tanh(0.5 * exponential * torch.exp(-log_b))
    return torch.log(2.0 * g / (1.0 + g)) / a


def _exponential(like: Tensor, generator: torch.Generator | None) -> Tensor:
    """-ln(1 - u), of `like`'s shape; u is kept off 0, where ln x would be -inf."""
    uniform = torch.rand(like.shape, generator=generator, dtype=like.dtype)
    return -torch.log1p(-uniform.clamp_min_(0.25 * torch.finfo(like.dtype).eps))


def _through_head(raw: Tensor, a: Tensor, log_b: Tensor, by_a: Tensor, by_log_b: Tensor, limit: float) -> Tensor:
    """Backward through `parameters`: raw (B, 2A), gradients (B, A) by a and ln b, to (B, 2A).

    With m = ln(C - 1): da/dp = 1 / (1 + p / (C - 2))^2; d ln b/dq = 1 / (1 + q (1 / sqrt(C) + 1 / (a m)))^2;
    d ln b/da = (ln b / a)^2 / m; dp/du is the logistic function.
    """
    most = math.log(limit - 1.0)
    first, second = F.softplus(raw).chunk(2, 1)
    by_a = by_a + by_log_b * (log_b / a).square() / most
    by_first = by_a / (1.0 + first / (limit - 2.0)).square()
    by_second = by_log_b / (1.0 + second * (_rate(limit) + 1.0 / (a * most))).square()
    return torch.cat((by_first, by_second), 1) * torch.sigmoid(raw)


def _rate(limit: float) -> float:
    return 1.0 / math.sqrt(limit)
