"""The picture of one thing, and what geometry says of it, as a namer takes them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import binary_dilation

from embodied.types import FloatArray, Frame
from vlm_describer.located import COLOUR_STATISTICS, SHAPES, Item, Located

WINDOW_M = 0.14
"""Side of the square that a crop shows at the thing's distance, so that a large thing looks large..."""
MARGIN = 1.25
"""... unless the thing needs more: then so many times its longer side in the picture."""
GREY = 127.0
DIMMED = 0.5
"""Share of grey in what is not the thing."""
FEATURES = (
    "length", "width", "height", "width_to_length", "height_to_length", *(f"score_{shape}" for shape in SHAPES),
    "flat", "cut", "occluded", "map", "on_item", "pixels", *COLOUR_STATISTICS,
)  # fmt: skip
"""Names of what `features` gives."""


def crop(frame: Frame, item: Item, side: int) -> NDArray[np.uint8]:
    """The thing in the middle of a square picture (side, side, 3), its surroundings dimmed."""
    from PIL import Image

    left, top, right, bottom = item.box_px
    half = max(_window_px(frame, item), MARGIN * max(right - left, bottom - top)) / 2
    centre_x, centre_y = (left + right) / 2, (top + bottom) / 2
    rows, columns = frame.rgb.shape[:2]
    x0, y0 = int(np.floor(centre_x - half)), int(np.floor(centre_y - half))
    size = max(int(np.ceil(2 * half)), 2)
    window = np.full((size, size, 3), GREY)
    inside = (slice(max(y0, 0), min(y0 + size, rows)), slice(max(x0, 0), min(x0 + size, columns)))
    there = frame.rgb[inside].astype(np.float64)
    other = ~binary_dilation(item.mask[inside])
    there[other] = DIMMED * GREY + (1 - DIMMED) * there[other]
    window[inside[0].start - y0 : inside[0].stop - y0, inside[1].start - x0 : inside[1].stop - x0] = there
    picture = Image.fromarray(np.rint(window).astype(np.uint8))
    return np.asarray(picture.resize((side, side), Image.Resampling.BILINEAR))


def features(item: Item, located: Located) -> FloatArray:
    """(F,) named by `FEATURES`: sizes in decimetres, shares in [0, 1], pixels as a logarithm."""
    length, width, height = (10.0 * value for value in item.size_m)
    longest = max(length, 1e-3)
    flags = (item.flat, item.cut, item.occluded, located.map_view, _on_item(item, located))
    values = [
        *np.minimum((length, width, height), 30.0),
        width / longest,
        min(height / longest, 10.0),
        *(item.shape_scores[shape] for shape in SHAPES),
        *map(float, flags),
        float(np.log1p(item.pixels)),
        *item.colour_features,
    ]
    return np.asarray(values, dtype=np.float32)


def _window_px(frame: Frame, item: Item) -> float:
    if frame.intrinsics is None or frame.depth_m is None:
        return 0.0
    depth = frame.depth_m[item.mask]
    depth = depth[np.isfinite(depth) & (depth > 0)]
    return float(WINDOW_M * frame.intrinsics[0, 0] / np.median(depth)) if len(depth) else 0.0


def _on_item(item: Item, located: Located) -> bool:
    return item.rests_on is not None and any(other.id == item.rests_on for other in located.items)
