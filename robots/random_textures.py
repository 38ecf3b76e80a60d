"""Random textures of table tops and floors: MuJoCo's own, and pictures made here from a seed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from embodied.rng import child_generator

Triple = tuple[float, float, float]
Weights = NDArray[np.float64]

SIDE_PX = 128
BUILTIN = ("checker", "gradient", "marks")
"""Families that MuJoCo makes itself: squares, a slow change, one colour with random dots."""


@dataclass(frozen=True)
class Texture:
    """A picture between two colours."""

    name: str
    family: str
    """One of BUILTIN or of FAMILIES."""
    rgb1: Triple
    rgb2: Triple
    seed: int

    @property
    def xml(self) -> str:
        """Its MJCF element."""
        if self.family not in BUILTIN:
            return f'<texture name="{self.name}" type="2d" file="{self.name}.png"/>'
        one, two = (" ".join(f"{v:.4f}" for v in rgb) for rgb in (self.rgb1, self.rgb2))
        look = f'builtin="{self.family}" rgb1="{one}" rgb2="{two}"'
        if self.family == "marks":
            look = f'builtin="flat" rgb1="{one}" rgb2="{one}" mark="random" markrgb="{two}" random="0.02"'
        return f'<texture name="{self.name}" type="2d" {look} width="{SIDE_PX}" height="{SIDE_PX}"/>'

    def write(self, folder: Path) -> None:
        """The PNG that `xml` names; nothing where MuJoCo makes it."""
        if self.family not in BUILTIN:
            Image.fromarray(self.picture()).save(folder / f"{self.name}.png")

    def picture(self) -> NDArray[np.uint8]:
        """(128, 128, 3)"""
        weights = np.clip(FAMILIES[self.family](child_generator(self.seed, self.family)), 0.0, 1.0)[..., None]
        colours = (1.0 - weights) * np.asarray(self.rgb1) + weights * np.asarray(self.rgb2)
        return np.round(255.0 * colours).astype(np.uint8)


def _grid() -> tuple[Weights, Weights]:
    """Rows and columns from 0 to 1, (128, 128) each."""
    steps = np.arange(SIDE_PX) / SIDE_PX
    return np.meshgrid(steps, steps, indexing="ij")


def _smooth_noise(rng: np.random.Generator, cells: int) -> Weights:
    """Random values at the corners of a grid of cells, linear between them, without seams."""
    corners = rng.random((cells, cells))
    place = np.arange(SIDE_PX) * cells / SIDE_PX
    low = place.astype(int)
    part, high = place - low, (low + 1) % cells
    rows = corners[low] * (1 - part)[:, None] + corners[high] * part[:, None]
    return rows[:, low] * (1 - part) + rows[:, high] * part


def _noise(rng: np.random.Generator) -> Weights:
    return 0.6 * _smooth_noise(rng, 4) + 0.3 * _smooth_noise(rng, 16) + 0.1 * rng.random((SIDE_PX, SIDE_PX))


def _wood(rng: np.random.Generator) -> Weights:
    rows, _ = _grid()
    rings = rows * rng.integers(4, 9) + 0.5 * _smooth_noise(rng, 4) + 0.08 * _smooth_noise(rng, 32)
    return 0.5 + 0.5 * np.sin(2 * np.pi * rings)


def _speckle(rng: np.random.Generator) -> Weights:
    return (rng.random((SIDE_PX, SIDE_PX)) < 0.12).astype(float) * rng.random((SIDE_PX, SIDE_PX))


def _stripes(rng: np.random.Generator) -> Weights:
    rows, columns = _grid()
    along = rows if rng.random() < 0.5 else rows + columns
    return (np.mod(along * rng.integers(3, 9), 1.0) < rng.uniform(0.3, 0.7)).astype(float)


def _bricks(rng: np.random.Generator) -> Weights:
    rows, columns = _grid()
    count, joint = int(rng.integers(2, 5)) * 2, 0.08
    shifted = columns * count / 2 + 0.5 * np.mod(np.floor(rows * count), 2)
    return ((np.mod(rows * count, 1.0) < joint) | (np.mod(shifted, 1.0) < joint / 2)).astype(float)


def _marble(rng: np.random.Generator) -> Weights:
    rows, columns = _grid()
    folds = _smooth_noise(rng, 4) + 0.5 * _smooth_noise(rng, 8) + 0.25 * _smooth_noise(rng, 16)
    return np.abs(np.sin(np.pi * (2 * rows + columns + 2.0 * folds))) ** 3


def _dots(rng: np.random.Generator) -> Weights:
    rows, columns = _grid()
    count = int(rng.integers(4, 9))
    return (np.hypot(np.mod(rows * count, 1.0) - 0.5, np.mod(columns * count, 1.0) - 0.5) < 0.28).astype(float)


FAMILIES: dict[str, Callable[[np.random.Generator], Weights]] = {
    "noise": _noise, "wood": _wood, "speckle": _speckle,
    "stripes": _stripes, "bricks": _bricks, "marble": _marble, "dots": _dots,
}  # fmt: skip
"""Each gives the share of the second colour in every pixel, (128, 128)."""
