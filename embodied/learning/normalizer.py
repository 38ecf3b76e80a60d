"""Running mean and variance of the policy's inputs, as a module that is saved and exported with the policy."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn


class Normalizer(nn.Module):
    """(x - mean) / std, clipped. Statistics change in `update` only; `forward` never touches them.

    Moments are merged in float64 (Chan, Golub and LeVeque 1979: pairwise update of mean and sum of squared deviations),
    which neither overflows nor cancels; `forward` uses their float32 copies.
    """

    def __init__(self, width: int, clip: float = 5.0, min_std: float = 1e-3) -> None:
        """Args:
        width: Length of an input vector.
        clip: Normalised values are kept within [-clip, clip].
        min_std: Least standard deviation that is divided by, in input units: a constant input stays near 0.
        """
        super().__init__()
        self.clip = clip
        self.min_std = min_std
        self.register_buffer("count", torch.zeros((), dtype=torch.float64))
        self.register_buffer("exact_mean", torch.zeros(width, dtype=torch.float64))
        self.register_buffer("deviations", torch.zeros(width, dtype=torch.float64))
        self.register_buffer("mean", torch.zeros(width))
        self.register_buffer("scale", torch.ones(width))

    def forward(self, vector: Tensor) -> Tensor:
        """Shape (..., width) to the same shape."""
        return ((vector - self.mean) * self.scale).clamp(-self.clip, self.clip)

    @torch.no_grad()
    def update(self, rows: NDArray[np.floating]) -> None:
        """Take in rows of shape (N, width)."""
        if len(rows) == 0:
            return
        values = np.asarray(rows, dtype=np.float64)
        mean = values.mean(0)
        deviations = torch.from_numpy(np.square(values - mean).sum(0))
        total = self.count + len(values)
        delta = torch.from_numpy(mean) - self.exact_mean
        self.deviations += deviations + delta.square() * (self.count * len(values) / total)
        self.exact_mean += delta * (len(values) / total)
        self.count.copy_(total)
        self.mean.copy_(self.exact_mean)
        self.scale.copy_(1.0 / (self.deviations / total).sqrt().clamp_min(self.min_std))
