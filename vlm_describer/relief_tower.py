"""A small network that sees a thing's form: its relief, as `crops.relief` gives it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from embodied.errors import IntegrityError
from embodied.types import FloatArray

WIDTH = 64
"""Of the vector for a relief."""
_CHANNELS = (4, 24, 32, 48)


class ReliefTower(nn.Module):
    """Three strided convolutions and a linear layer."""

    def __init__(self) -> None:
        super().__init__()
        stages = []
        for narrow, wide in zip(_CHANNELS[:-1], _CHANNELS[1:], strict=True):
            stages += [nn.Conv2d(narrow, wide, 3, stride=2, padding=1, bias=False), nn.BatchNorm2d(wide), nn.ReLU()]
        self.layers = nn.Sequential(*stages, nn.Flatten(), nn.Linear(16 * _CHANNELS[-1], WIDTH), nn.ReLU())

    def forward(self, reliefs: Tensor) -> Tensor:
        """(N, 4, RELIEF, RELIEF) from `prepared` to (N, WIDTH)."""
        found: Tensor = self.layers(reliefs)
        return found

    @torch.no_grad()
    def vectors(self, reliefs: NDArray[np.uint8]) -> FloatArray:
        """(N, RELIEF, RELIEF, 4) bytes to (N, WIDTH), one by one like: what stands beside a relief changes nothing."""
        if not len(reliefs):
            return np.zeros((0, WIDTH), dtype=np.float32)
        return np.asarray(self.eval()(prepared(reliefs)), dtype=np.float32)


def prepared(reliefs: NDArray[np.uint8]) -> Tensor:
    """Offsets in [-1, 1], 0 where the thing is not, and where it is as 0 or 1: (N, 4, RELIEF, RELIEF)."""
    bytes_ = torch.from_numpy(np.ascontiguousarray(reliefs)).permute(0, 3, 1, 2).float()
    there = bytes_[:, 3:] / 255
    return torch.cat([(bytes_[:, :3] / 127.5 - 1.0) * there, there], dim=1)


def mirrored(reliefs: Tensor, chosen: Tensor) -> Tensor:
    """Those that are chosen (N,) seen in a mirror: columns backwards, left for right."""
    other = reliefs.flip(3) * torch.tensor([1.0, -1.0, 1.0, 1.0])[:, None, None]
    return torch.where(chosen[:, None, None, None], other, reliefs)


def save_relief_tower(tower: ReliefTower, path: Path) -> None:
    """As safetensors."""
    from safetensors.torch import save_file

    save_file({name: value.contiguous() for name, value in tower.state_dict().items()}, path)


def load_relief_tower(path: Path) -> ReliefTower:
    """What `save_relief_tower` wrote.

    Raises:
        IntegrityError: The file is missing or holds something else.
    """
    from safetensors.torch import load_file

    tower = ReliefTower()
    try:
        tower.load_state_dict(load_file(path))
    except Exception as error:  # safetensors has an error of its own that is no OSError
        raise IntegrityError(f"{path} holds no relief tower ({type(error).__name__}); fit the model again") from None
    return tower.eval()
