"""The squashed Gaussian on a robot's action limits (Haarnoja et al. 2018, arXiv 1812.05905, appendix C).

A normal number z is squashed to unit coordinates, x = (1 + tanh z) / 2, so that the action on [-1, 1] is tanh z.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from embodied.learning.unit import MARGIN

LOG_STD = -5.0, 2.0
"""Bounds of the log standard deviation of z."""
_CONSTANT = 0.5 * math.log(2.0 * math.pi) + math.log(2.0)


@dataclass(frozen=True)
class Draw:
    """Actions drawn from the laws that a head asked for, and what their gradient needs."""

    raw: Tensor
    """(B, 2A) head outputs."""
    offset: Tensor
    """(B, A) z minus its mean."""
    unit: Tensor
    """(B, A) actions in unit coordinates."""
    log_prob: Tensor
    """(B,) log-density in unit coordinates."""

    def rows(self, first: int, last: int) -> Draw:
        """Some of the rows alone."""
        part = slice(first, last)
        return Draw(self.raw[part], self.offset[part], self.unit[part], self.log_prob[part])


class TanhLaw:
    """Normal numbers of any mean, with a standard deviation that is bounded, squashed by tanh."""

    def centre(self, raw: Tensor) -> Tensor:
        """tanh of the mean, in unit coordinates: also the median, because tanh keeps the order.

        The mean has no closed form.
        """
        return torch.sigmoid(2.0 * parameters(raw)[0])

    def sample(self, raw: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """A draw that gradients flow through: raw (..., 2A) to unit coordinates (..., A)."""
        mean, log_std = parameters(raw)
        return torch.sigmoid(2.0 * (mean + torch.exp(log_std) * _noise(mean, generator)))

    def log_prob(self, raw: Tensor, unit: Tensor) -> Tensor:
        """Log-density at unit coordinates, see `log_prob`: raw (..., 2A), unit (..., A), shape (...) out."""
        return log_prob(unit, *parameters(raw))

    @torch.no_grad()
    def draw(self, raw: Tensor, generator: torch.Generator | None = None) -> Draw:
        """`sample` and its log-density in one, for `raw_gradient`: raw of shape (B, 2A).

        The density is that of z itself, not of the rounded x: with dx/dz = 2 / ((1 + exp(-2z)) (1 + exp(2z))),

            ln(dx/dz) = ln 2 - 2 |z| - 2 softplus(-2 |z|)

        which neither overflows nor cancels, however far out z lies.
        """
        mean, log_std = parameters(raw)
        noise = _noise(mean, generator)
        offset = torch.exp(log_std) * noise
        z = mean + offset
        far = 2.0 * z.abs()
        density = far + 2.0 * F.softplus(-far) - log_std - 0.5 * noise.square() - _CONSTANT
        return Draw(raw, offset, torch.sigmoid(2.0 * z), density.sum(-1))

    @torch.no_grad()
    def raw_gradient(self, drawn: Draw, unit_slope: Tensor, log_prob_slope: Tensor | float) -> Tensor:
        """Gradient with respect to the head's outputs, as autograd finds it through the draw and its density.

        At fixed noise: dx/dz = 2 x (1 - x); d ln p/dz = 2 tanh z = 4 x - 2; dz/d mean = 1 and dz/d ln s = z - mean; ln
        p falls by ln s besides.

        Args:
            drawn: The draw.
            unit_slope: Of the loss by `drawn.unit`, (B, A).
            log_prob_slope: Of the loss by `drawn.log_prob`: one number or (B, 1).

        Returns:
            Shape (B, 2A).
        """
        x = drawn.unit
        by_mean = unit_slope * (2.0 * x * (1.0 - x)) + log_prob_slope * (4.0 * x - 2.0)
        low, high = LOG_STD
        free = drawn.raw[:, x.shape[1] :]
        chain = torch.sigmoid(free - low) * torch.sigmoid(high - low - F.softplus(free - low))
        return torch.cat((by_mean, (by_mean * drawn.offset - log_prob_slope) * chain), 1)


def parameters(raw: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and log standard deviation of z.

    The second half v of the head's outputs is the log standard deviation, held within `LOG_STD` = (l, h) smoothly, as
    Chua et al. 2018 (arXiv 1805.12114, appendix A.1) hold log-variances, so that gradients never vanish at once:

        w = l + softplus(v - l),   ln s = h - softplus(h - w)

    which is v to within 0.13 between -3 and 0. (The lower bound is undercut by at most softplus(l - h) = 0.0009.)

    Args:
        raw: Head output, shape (..., 2A): first the means, then v.

    Returns:
        Each of shape (..., A).
    """
    width = raw.shape[-1] // 2
    low, high = LOG_STD
    raised = low + F.softplus(raw[..., width:] - low)
    return raw[..., :width], high - F.softplus(high - raised)


def log_prob(unit: Tensor, mean: Tensor, log_std: Tensor) -> Tensor:
    """Log-density in unit coordinates, summed over the last axis.

    With z = artanh(2x - 1) = (ln x - ln(1 - x)) / 2: ln N(z; mean, s) - ln 2 - ln x - ln(1 - x); x is clamped to
    [MARGIN, 1 - MARGIN] first, because z is infinite at 0 and 1.

    Args:
        unit: Shape (..., A), in [0, 1].
        mean: Of z, shape (..., A).
        log_std: Of z, shape (..., A).

    Returns:
        Shape (...).
    """
    x = unit.clamp(MARGIN, 1.0 - MARGIN)
    log_x, log_rest = torch.log(x), torch.log1p(-x)
    noise = (0.5 * (log_x - log_rest) - mean) * torch.exp(-log_std)
    return (-0.5 * noise.square() - log_std - _CONSTANT - log_x - log_rest).sum(-1)


def _noise(like: Tensor, generator: torch.Generator | None) -> Tensor:
    return torch.randn(like.shape, generator=generator, dtype=like.dtype)
