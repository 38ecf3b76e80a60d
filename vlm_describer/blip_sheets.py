"""What sim-blip is shown of a located thing: one square picture, put together from its crop and its relief.

BLIP sees three channels and one picture. Form shows in depth far better than in colour, so the upper half holds the
thing as it looks, whole and near, and the lower half its visible surface as colours, and its outline.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from vlm_describer.crops import RELIEF
from vlm_describer.naming import SIDE

TILE = SIDE // 2
"""Side of each of the four tiles."""
NEUTRAL = 128
"""Of a surface's colours: where the thing is not, and in the middle of what shows of it."""
MOST_MOVED = (SIDE - TILE) // 2
"""How far the near tile can be moved at most."""
Pictures = NDArray[np.uint8]

assert RELIEF == TILE


def sheets(crops: Pictures, reliefs: Pictures, across: int = 0, down: int = 0) -> Pictures:
    """Pictures (N, SIDE, SIDE, 3) of crops (N, SIDE, SIDE, 3) and reliefs (N, RELIEF, RELIEF, 4), see `crops`.

    From the upper left: the crop at half its size, its middle at full size, the surface (how far away, left and up as
    red, green and blue), the outline in white.

    Args:
        crops: The things' crops.
        reliefs: Their reliefs, zero where there is no depth.
        across: Pixels by which the second tile is moved to the right, at most `MOST_MOVED`.
        down: Pixels by which it is moved down.
    """
    count = len(crops)
    found = np.empty((count, SIDE, SIDE, 3), dtype=np.uint8)
    halves = crops.reshape(count, TILE, 2, TILE, 2, 3).mean(axis=(2, 4))
    left, top = MOST_MOVED + across, MOST_MOVED + down
    found[:, :TILE, :TILE] = np.rint(halves)
    found[:, :TILE, TILE:] = crops[:, top : top + TILE, left : left + TILE]
    found[:, TILE:, :TILE] = np.where(reliefs[..., 3:] > 0, reliefs[..., :3], NEUTRAL)
    found[:, TILE:, TILE:] = reliefs[..., 3:]
    return found


def mirrored(crops: Pictures, reliefs: Pictures, chosen: NDArray[np.bool_]) -> tuple[Pictures, Pictures]:
    """Crops and reliefs, those that are chosen (N,) as a mirror shows them: what lies left lies right."""
    other = reliefs[:, :, ::-1].copy()
    other[..., 1] = np.where(other[..., 3] > 0, 255 - other[..., 1], 0)
    rows = chosen[:, None, None, None]
    return np.where(rows, crops[:, :, ::-1], crops), np.where(rows, other, reliefs)
