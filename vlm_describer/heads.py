"""Small perceptrons that name a thing from what a tower saw and what geometry says; applied in numpy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from embodied.errors import IntegrityError
from embodied.types import BoolArray, FloatArray

HIDDEN = 96
"""Width of the one hidden layer."""
_PARTS = ("mean", "scale", "in_weight", "in_bias", "out_weight", "out_bias")


@dataclass(frozen=True)
class Head:
    """Standardised inputs, one hidden layer with relu, logits."""

    mean: FloatArray
    """(I,)"""
    scale: FloatArray
    """(I,) what inputs less their mean are divided by."""
    in_weight: FloatArray
    """(I, H)"""
    in_bias: FloatArray
    out_weight: FloatArray
    """(H, K)"""
    out_bias: FloatArray

    def logits(self, inputs: FloatArray) -> FloatArray:
        """(N, I) to (N, K)."""
        hidden = np.maximum((inputs - self.mean) / self.scale @ self.in_weight + self.in_bias, 0.0)
        return np.asarray(hidden @ self.out_weight + self.out_bias, dtype=np.float32)


def fit_head(
    inputs: FloatArray, labels: NDArray[np.int64], classes: int, seed: int, epochs: int = 60, decay: float = 0.05
) -> Head:
    """A head for the rows whose label is not negative: (N, I) and (N,); AdamW, a cosine schedule, balanced classes."""
    import torch
    from torch import nn

    known = labels >= 0
    x, y = inputs[known], labels[known]
    mean, scale = x.mean(axis=0), np.maximum(x.std(axis=0), 1e-3)
    generator = torch.Generator().manual_seed(seed)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        net = nn.Sequential(nn.Linear(x.shape[1], HIDDEN), nn.ReLU(), nn.Dropout(0.2), nn.Linear(HIDDEN, classes))
        counts = np.bincount(y, minlength=classes)
        weights = torch.from_numpy(1.0 / np.sqrt(np.maximum(counts, 20))).float()
        loss = nn.CrossEntropyLoss(weight=weights / weights.mean(), label_smoothing=0.02)
        optimiser = torch.optim.AdamW(net.parameters(), lr=3e-3, weight_decay=decay)
        steps = epochs * max(1, len(y) // 128)
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, steps)
        data, target = torch.from_numpy(((x - mean) / scale).astype(np.float32)), torch.from_numpy(y)
        for _ in range(steps):
            rows = torch.randint(len(y), (128,), generator=generator)
            optimiser.zero_grad()
            loss(net(data[rows]), target[rows]).backward()
            optimiser.step()
            schedule.step()
    parts = [layer.detach().numpy() for layer in (net[0].weight, net[0].bias, net[3].weight, net[3].bias)]
    return Head(mean.astype(np.float32), scale.astype(np.float32), parts[0].T, parts[1], parts[2].T, parts[3])


def save_heads(heads: Mapping[str, Head], path: Path) -> None:
    """By name, as safetensors."""
    from safetensors.numpy import save_file

    tensors = {f"{name}.{part}": getattr(head, part) for name, head in heads.items() for part in _PARTS}
    save_file({name: np.ascontiguousarray(value, dtype=np.float32) for name, value in tensors.items()}, path)


def load_heads(path: Path) -> dict[str, Head]:
    """What `save_heads` wrote.

    Raises:
        IntegrityError: The file is missing or holds no heads.
    """
    from safetensors.numpy import load_file

    try:
        tensors = load_file(path)
        names = sorted({key.rsplit(".", 1)[0] for key in tensors})
        return {name: Head(*(tensors[f"{name}.{part}"] for part in _PARTS)) for name in names}
    except Exception as error:  # safetensors has an error of its own that is no OSError
        raise IntegrityError(f"{path} holds no heads ({type(error).__name__}); fit the model again") from None


def split_groups(group: NDArray[np.int64], share: float, seed: int) -> BoolArray:
    """Rows of about this share of the groups, whole groups only."""
    names = np.unique(group)
    chosen = names[np.random.default_rng(seed).random(len(names)) < share]
    return np.isin(group, chosen)
