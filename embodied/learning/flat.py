"""A module's parameters as views of one tensor, so that a step of the optimiser is one call."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.optim.adam import adam

from embodied.learning.native import library


class FlatParameters:
    """All parameters of a module side by side in one vector, and their gradients in another.

    The module's parameters become views of `values`, so whatever writes to one (an optimiser, `load_state_dict`) writes
    to the other; names and shapes in `state_dict` stay what they were. No parameter asks autograd for a gradient
    afterwards: gradients are written into `gradients` by hand.
    """

    def __init__(self, module: nn.Module) -> None:
        parameters = list(module.parameters())
        self.values = torch.cat([parameter.detach().reshape(-1) for parameter in parameters])
        self.gradients = torch.zeros_like(self.values)
        self._places: dict[int, tuple[int, int]] = {}
        first = 0
        for parameter in parameters:
            last = first + parameter.numel()
            parameter.requires_grad_(False)
            parameter.data = self.values[first:last].view(parameter.shape)
            self._places[id(parameter)] = first, last
            first = last
        self._parameters = parameters

    def gradient(self, parameter: Tensor) -> Tensor:
        """The part of `gradients` that belongs to this parameter, in its shape."""
        first, last = self._places[id(parameter)]
        return self.gradients[first:last].view(parameter.shape)


class FlatAdam:
    """Adam (Kingma and Ba 2015, arXiv 1412.6980) on a vector, with torch's own step and defaults."""

    def __init__(self, values: Tensor, gradients: Tensor, step_size: float, compiled: bool = True) -> None:
        """Args:
        values: (P,), changed in place.
        gradients: (P,), read at each step.
        step_size: Adam's alpha.
        compiled: Use compiled code where there is some.
        """
        self._code = library() if compiled else None
        self._values, self._gradients, self._step_size = values, gradients, step_size
        self._mean, self._square = torch.zeros_like(values), torch.zeros_like(values)
        self._steps = torch.zeros(())

    @torch.no_grad()
    def step(self) -> None:
        """One step against the gradient."""
        if self._code is not None:
            self._steps += 1
            vectors = self._values, self._gradients, self._mean, self._square
            pointers = (vector.data_ptr() for vector in vectors)
            self._code.adam(*pointers, self._values.numel(), self._steps.item(), self._step_size)
            return
        adam(
            [self._values],
            [self._gradients],
            [self._mean],
            [self._square],
            [],
            [self._steps],
            fused=True,
            amsgrad=False,
            beta1=0.9,
            beta2=0.999,
            lr=self._step_size,
            weight_decay=0.0,
            eps=1e-8,
            maximize=False,
        )

    def state(self) -> dict[str, Tensor]:
        """Running moments and the number of steps, by name."""
        return {"mean": self._mean, "square": self._square, "steps": self._steps}

    def restore(self, state: dict[str, Tensor]) -> None:
        """Undo `state`.

        Raises:
            KeyError: Something is missing.
            RuntimeError: Another number of parameters.
        """
        for name, tensor in self.state().items():
            if state[name].shape != tensor.shape:
                raise RuntimeError(f"{name} has another shape")
            tensor.copy_(state[name])
