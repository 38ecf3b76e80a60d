"""The laws that a policy may draw its actions from, by name: `sac.law`."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any, Protocol, TypeVar

import torch
from torch import Tensor

from embodied.errors import unknown_name
from embodied.learning import beta, compiled_beta
from embodied.learning.kumaraswamy import KumaraswamyLaw
from embodied.learning.tanh_gaussian import TanhLaw


class Draw(Protocol):
    """Actions drawn, their densities, and whatever else the law's `raw_gradient` needs."""

    @property
    def unit(self) -> Tensor:
        """(B, A) actions in unit coordinates."""
        ...

    @property
    def log_prob(self) -> Tensor:
        """(B,) log-density in unit coordinates."""
        ...

    def rows(self, first: int, last: int) -> Draw:
        """Some of the rows alone."""
        ...


D = TypeVar("D")


class Law(Protocol[D]):
    """What a policy's head outputs, two numbers for each of the action, mean as a law on unit coordinates."""

    def centre(self, raw: Tensor) -> Tensor:
        """The deterministic action: raw (..., 2A) to unit coordinates (..., A)."""
        ...

    def sample(self, raw: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """A draw that autograd's gradients flow through: raw (..., 2A) to unit coordinates (..., A)."""
        ...

    def log_prob(self, raw: Tensor, unit: Tensor) -> Tensor:
        """Log-density in unit coordinates, summed over A: raw (..., 2A), unit (..., A), shape (...) out."""
        ...

    def draw(self, raw: Tensor, generator: torch.Generator | None = None) -> D:
        """A draw and its log-density, without autograd: raw of shape (B, 2A)."""
        ...

    def raw_gradient(self, drawn: D, unit_slope: Tensor, log_prob_slope: float) -> Tensor:
        """Gradient of a loss by raw, (B, 2A), from its slopes by `drawn.unit`, (B, A), and by `drawn.log_prob`."""
        ...


class BetaLaw:
    """See `beta`; drawn and differentiated by C code where that is given."""

    def __init__(self, limit: float, code: ctypes.CDLL | None = None) -> None:
        """Args:
        limit: Supremum of alpha + beta.
        code: From `native.library`.
        """
        self.limit = limit
        self._code = code

    def centre(self, raw: Tensor) -> Tensor:
        """The mean."""
        return beta.mean(*beta.concentrations(raw, self.limit))

    def sample(self, raw: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """See `beta.sample`."""
        return beta.sample(*beta.concentrations(raw, self.limit), generator=generator)

    def log_prob(self, raw: Tensor, unit: Tensor) -> Tensor:
        """See `beta.log_prob`."""
        return beta.log_prob(unit, *beta.concentrations(raw, self.limit))

    def draw(self, raw: Tensor, generator: torch.Generator | None = None) -> beta.Draw:
        """See `beta.draw`; the C code's draws are others from the same law."""
        if self._code is None:
            return beta.draw(raw, self.limit, generator)
        return compiled_beta.draw(self._code, raw, self.limit, generator)

    def raw_gradient(self, drawn: beta.Draw, unit_slope: Tensor, log_prob_slope: float) -> Tensor:
        """See `beta.raw_gradient`."""
        if self._code is None:
            return beta.raw_gradient(drawn, unit_slope, log_prob_slope, self.limit)
        return compiled_beta.raw_gradient(self._code, drawn, unit_slope, log_prob_slope, self.limit)


LAWS: dict[str, Callable[[float, ctypes.CDLL | None], Law[Any]]] = {
    "beta": BetaLaw,
    "tanh": lambda limit, code: TanhLaw(),
    "kumaraswamy": lambda limit, code: KumaraswamyLaw(limit),
}


def make_law(name: str, limit: float, code: ctypes.CDLL | None = None) -> Law[Any]:
    """A law by name.

    Args:
        name: One of `LAWS`.
        limit: `PolicyShape.max_concentration`; the squashed Gaussian has none.
        code: From `native.library`; only Beta's law is compiled.

    Raises:
        UserError: No such law.
    """
    if name not in LAWS:
        raise unknown_name("action law", name, LAWS)
    return LAWS[name](limit, code)
