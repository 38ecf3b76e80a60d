"""Pictures that were kept as JPEG: what its blocks add is smoothed away, what parts two things stays.

JPEG keeps squares of 8 x 8 pixels, and colours of 16 x 16, by a few waves each (ITU-T T.81). What is lost shows as
steps at the squares' borders and as ripples beside edges, and either may part one thing in two. A bilateral filter
(Tomasi and Manduchi 1998) averages neighbours of like colour that lie at like depth, so that nothing runs over an edge.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from embodied.types import FloatArray

REACH = 4
"""Neighbours are at most so many pixels away: half a square."""
PASSES = 2
ALIKE, TINT_ALIKE = 20.0, 40.0
"""Differences of brightness, and of both colour channels together, in 256 steps, at which a neighbour counts 1/e; more
of colour, which JPEG keeps less of..."""
DEPTH_ALIKE = 0.01
"""... and that of depth, as a share of it."""
_Slices = tuple[slice, slice]


def without_blocks(rgb: NDArray[np.uint8], depth_m: FloatArray | None) -> NDArray[np.uint8]:
    """The picture (H, W, 3) smoothed within what has one colour and one depth; depth (H, W) in metres, NaN unknown."""
    channels = np.moveaxis(np.asarray(Image.fromarray(rgb).convert("YCbCr")), 2, 0).astype(np.float32)
    places = np.zeros(rgb.shape[:2], np.float32)
    if depth_m is not None:
        places = np.log(np.maximum(np.nan_to_num(depth_m), 1e-3)).astype(np.float32) / DEPTH_ALIKE
    for _ in range(PASSES):
        channels = _averaged(channels, places)
    bytes_ = np.clip(np.rint(channels), 0, 255).astype(np.uint8)
    return np.asarray(Image.fromarray(np.moveaxis(bytes_, 0, 2).copy(), "YCbCr").convert("RGB"))


def _averaged(channels: FloatArray, places: FloatArray) -> FloatArray:
    """One pass over (3, H, W) channels. A pair of pixels has one weight, so each is visited once."""
    total, weights = channels.copy(), np.ones(places.shape, np.float32)
    for one, other in _pairs(places.shape):
        apart = np.abs(channels[:, *one] - channels[:, *other])
        light, tint = apart[0] / ALIKE, (apart[1] + apart[2]) / TINT_ALIKE
        far = places[one] - places[other]
        weight = np.exp(-(light * light + tint * tint + far * far))
        total[:, *one] += weight * channels[:, *other]
        total[:, *other] += weight * channels[:, *one]
        weights[one] += weight
        weights[other] += weight
    return total / weights


def _pairs(shape: tuple[int, ...]) -> Iterator[tuple[_Slices, _Slices]]:
    """Where all pixels lie that have a neighbour at a step, and where these neighbours lie, for half of all steps."""
    height, width = shape
    for down in range(min(REACH, height - 1) + 1):
        most = min(REACH, width - 1)
        for right in range(-most if down else 1, most + 1):
            left = max(-right, 0)
            columns = width - abs(right)
            one = (slice(0, height - down), slice(left, left + columns))
            other = (slice(down, height), slice(left + right, left + right + columns))
            yield one, other
