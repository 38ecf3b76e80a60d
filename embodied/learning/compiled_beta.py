"""`beta.draw` and `beta.raw_gradient` by C code: see `native.py`. The law is the same, the draws are others."""

from __future__ import annotations

import ctypes

import torch
from torch import Tensor

from embodied.learning.beta import MAX_CONCENTRATION, Draw


def draw(
    code: ctypes.CDLL, raw: Tensor, limit: float = MAX_CONCENTRATION, generator: torch.Generator | None = None
) -> Draw:
    """As `beta.draw`, with gamma draws of our own: raw of shape (B, 2A)."""
    raw = raw.contiguous()
    rows, width = len(raw), raw.shape[1] // 2
    both, work = torch.empty(2, rows, width), torch.empty_like(raw)
    plane = rows * width
    code.concentrations(raw.data_ptr(), rows, width, limit, both.data_ptr(), plane, work.data_ptr())
    gammas = draw_gammas(code, both, generator)
    unit, log_prob = torch.empty(rows, width), torch.empty(rows)
    code.density(
        *(both.data_ptr(), gammas.data_ptr(), rows, width, plane),
        *(unit.data_ptr(), log_prob.data_ptr(), work.data_ptr()),
    )
    return Draw(raw, both, gammas, unit, log_prob)


def draw_gammas(code: ctypes.CDLL, shapes: Tensor, generator: torch.Generator | None = None) -> Tensor:
    """One gamma draw for each shape, all at least 1; rejected ones, at most one in twenty, are drawn again."""
    shapes, drawn = shapes.contiguous(), torch.empty(shapes.shape)
    count, spare = shapes.numel(), 16 + shapes.numel() // 8
    normal, uniform = torch.randn(count + spare, generator=generator), torch.rand(count + spare, generator=generator)
    pointers = shapes.data_ptr(), normal.data_ptr(), uniform.data_ptr(), count, spare, drawn.data_ptr()
    if code.gammas(*pointers):
        again = drawn < 0.0
        drawn[again] = draw_gammas(code, shapes[again], generator)
    return drawn


def raw_gradient(code: ctypes.CDLL, drawn: Draw, unit_slope: Tensor, log_prob_slope: float, limit: float) -> Tensor:
    """As `beta.raw_gradient`, shape (B, 2A), for one number as `log_prob_slope`."""
    rows, width = drawn.unit.shape
    by_shape = torch._standard_gamma_grad(drawn.both, drawn.gammas).contiguous()
    unit_slope, result = unit_slope.contiguous(), torch.empty(rows, 2 * width)
    work = torch.empty(4, rows, width)
    code.raw_gradient(
        *(part.data_ptr() for part in (drawn.raw, drawn.both, drawn.gammas, drawn.unit, by_shape, unit_slope)),
        *(log_prob_slope, limit, rows, width, drawn.both.stride(0)),
        *(result.data_ptr(), work.data_ptr()),
    )
    return result
