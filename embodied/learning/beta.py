"""The Beta distribution on a robot's action limits.

A Beta law has bounded support, so that no sample has to be squashed or clipped to the robot's limits (Chou et al. 2017,
"Improving stochastic policy gradients in continuous control with deep RL using the Beta distribution"; with SAC: Della
Libera 2024, arXiv 2409.04971). Everything here lives in unit coordinates, see `embodied.learning.unit`.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from embodied.learning.unit import MARGIN

MAX_CONCENTRATION = 1000.0
"""Supremum of alpha + beta; beyond about 1e3 float32 log-probabilities drift (4e-4 at 1e3, 0.01 at 1e4)."""


def concentrations(raw: Tensor, limit: float = MAX_CONCENTRATION) -> tuple[Tensor, Tensor]:
    """alpha and beta, both > 1 (one mode, finite density), with alpha + beta smoothly below `limit`.

    With a = softplus(u), b = softplus(v) and C = limit - 2:

        k = 1 / (1 + (a + b) / C),   alpha = 1 + k a,   beta = 1 + k b

    so alpha + beta = 2 + C (a + b) / (C + a + b) < limit. The mode a / (a + b) is kept exactly, the mean to within
    1 / C. (Scaling alpha and beta themselves would keep the mean exactly, but not alpha, beta > 1.)

    Args:
        raw: Head output, shape (..., 2A): first u, then v.
        limit: Supremum of alpha + beta.

    Returns:
        alpha and beta, each of shape (..., A).
    """
    excess = F.softplus(raw)
    width = raw.shape[-1] // 2
    first, second = excess[..., :width], excess[..., width:]
    scale = 1.0 + (first + second) / (limit - 2.0)
    return 1.0 + first / scale, 1.0 + second / scale


def mean(alpha: Tensor, beta: Tensor) -> Tensor:
    """alpha / (alpha + beta), in unit coordinates."""
    return alpha / (alpha + beta)


def sample(alpha: Tensor, beta: Tensor, generator: torch.Generator | None = None) -> Tensor:
    """A draw that gradients flow through (implicit reparameterisation, Figurnov et al. 2018).

    x = g1 / (g1 + g2) with gamma draws g1, g2: `torch._standard_gamma` takes a generator and has the implicit gradient,
    which `torch.distributions.Beta` has too, but without a generator. Clamped draws pass no gradient.

    Returns:
        Unit coordinates within [MARGIN, 1 - MARGIN], of alpha's shape.
    """
    both = torch._standard_gamma(torch.stack((alpha, beta)), generator=generator)
    return (both[0] / (both[0] + both[1])).clamp(MARGIN, 1.0 - MARGIN)


def log_prob(unit: Tensor, alpha: Tensor, beta: Tensor) -> Tensor:
    """Log-density in unit coordinates, summed over the last axis.

    (alpha - 1) ln x + (beta - 1) ln(1 - x) - ln B(alpha, beta); x is clamped to [MARGIN, 1 - MARGIN] first, because at
    exactly 0 or 1 the density is 0 and its logarithm -inf.

    Args:
        unit: Shape (..., A), in [0, 1].
        alpha: Shape (..., A).
        beta: Shape (..., A).

    Returns:
        Shape (...).
    """
    x = unit.clamp(MARGIN, 1.0 - MARGIN)
    density = (alpha - 1.0) * torch.log(x) + (beta - 1.0) * torch.log1p(-x)
    return (density - log_beta(alpha, beta)).sum(-1)


@dataclass(frozen=True)
class Draw:
    """Actions drawn from the laws that a head asked for, and what their gradient needs."""

    raw: Tensor
    """(B, 2A) head outputs."""
    both: Tensor
    """(2, B, A) alpha and beta."""
    gammas: Tensor
    """(2, B, A) the gamma draws that the action is made of."""
    unit: Tensor
    """(B, A) actions in unit coordinates."""
    log_prob: Tensor
    """(B,) log-density in unit coordinates."""

    def rows(self, first: int, last: int) -> Draw:
        """Some of the rows alone."""
        both, gammas = self.both[:, first:last], self.gammas[:, first:last]
        return Draw(self.raw[first:last], both, gammas, self.unit[first:last], self.log_prob[first:last])


@torch.no_grad()
def draw(raw: Tensor, limit: float = MAX_CONCENTRATION, generator: torch.Generator | None = None) -> Draw:
    """`concentrations`, `sample` and `log_prob` in one, for `raw_gradient`: raw of shape (B, 2A)."""
    both = torch.stack(concentrations(raw, limit))
    gammas = torch._standard_gamma(both, generator=generator)
    unit = (gammas[0] / (gammas[0] + gammas[1])).clamp_(MARGIN, 1.0 - MARGIN)
    return Draw(raw, both, gammas, unit, log_prob(unit, *both))


@torch.no_grad()
def raw_gradient(drawn: Draw, unit_slope: Tensor, log_prob_slope: Tensor | float, limit: float) -> Tensor:
    """Gradient with respect to the head's outputs, as autograd finds it through `sample` and `log_prob`.

    With x = g1 / (g1 + g2): dx/dg1 = (1 - x) / (g1 + g2), dx/dg2 = -x / (g1 + g2); dg/dalpha is implicit (Figurnov et
    al. 2018); d ln p/dx = (alpha - 1) / x - (beta - 1) / (1 - x); d ln p/dalpha = ln x - psi(alpha) + psi(alpha +
    beta).

    Args:
        drawn: The draw.
        unit_slope: Of the loss by `drawn.unit`, (B, A).
        log_prob_slope: Of the loss by `drawn.log_prob`: one number or (B, 1).
        limit: As in `concentrations`.

    Returns:
        Shape (B, 2A).
    """
    (alpha, beta), x = drawn.both, drawn.unit
    rest = 1.0 - x
    slope = unit_slope + log_prob_slope * ((alpha - 1.0) / x - (beta - 1.0) / rest)
    slope = slope * ((x > MARGIN) & (x < 1.0 - MARGIN)) / drawn.gammas.sum(0)
    through_x = torch.stack((slope * rest, -slope * x))
    through_x *= torch._standard_gamma_grad(drawn.both, drawn.gammas)
    psi = torch.digamma(torch.cat((drawn.both, (alpha + beta)[None])))
    density = torch.stack((torch.log(x), torch.log1p(-x))) - psi[:2] + psi[2]
    return _through_head(drawn.raw, through_x + log_prob_slope * density, limit)


def _through_head(raw: Tensor, gradient: Tensor, limit: float) -> Tensor:
    """Backward through `concentrations`: raw (B, 2A), gradient (2, B, A) by alpha and beta, to (B, 2A).

    With s = 1 + (a + b) / C: d alpha/da = 1 / s - a / (s^2 C), d alpha/db = -a / (s^2 C), and the same with the letters
    changed; da/du is the logistic function.
    """
    width = raw.shape[-1] // 2
    excess = torch.stack(F.softplus(raw).split(width, 1))
    scale = 1.0 + excess.sum(0) / (limit - 2.0)
    shared = (gradient * excess).sum(0) / (scale * (limit - 2.0))
    return torch.cat(tuple((gradient - shared) / scale), 1) * torch.sigmoid(raw)


def log_beta(alpha: Tensor, beta: Tensor) -> Tensor:
    """ln B(alpha, beta), element by element."""
    return torch.lgamma(alpha) + torch.lgamma(beta) - torch.lgamma(alpha + beta)


def entropy(alpha: Tensor, beta: Tensor) -> Tensor:
    """Differential entropy in unit coordinates, summed over the last axis; at most 0, the uniform law's.

    ln B - (alpha - 1) psi(alpha) - (beta - 1) psi(beta) + (alpha + beta - 2) psi(alpha + beta).
    """
    total = alpha + beta
    terms = (
        log_beta(alpha, beta)
        - (alpha - 1.0) * torch.digamma(alpha)
        - (beta - 1.0) * torch.digamma(beta)
        + (total - 2.0) * torch.digamma(total)
    )
    return terms.sum(-1)
