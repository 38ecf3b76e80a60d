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
RELIEF = 32
"""Side of a relief."""
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


def relief(frame: Frame, item: Item, located: Located) -> NDArray[np.uint8]:
    """The thing's visible surface as (RELIEF, RELIEF, 4) bytes: how far each point lies from the middle of what shows,
    away from the camera, to the left and up, in units of the largest of these; and where the thing is.

    The picture's rows and columns are the crop's. Zero everywhere where there is no depth.
    """
    found = np.zeros((RELIEF, RELIEF, 4), dtype=np.uint8)
    if frame.depth_m is None or frame.intrinsics is None or located.level_from_camera is None:
        return found
    left, top, right, bottom = item.box_px
    half = max(right - left, bottom - top, 2) / 2 + 0.5
    steps = (np.arange(RELIEF) + 0.5) / RELIEF * 2 * half - half
    rows = np.clip(np.rint((top + bottom) / 2 + steps).astype(int), 0, frame.rgb.shape[0] - 1)
    columns = np.clip(np.rint((left + right) / 2 + steps).astype(int), 0, frame.rgb.shape[1] - 1)
    depth = frame.depth_m[np.ix_(rows, columns)].astype(np.float64)
    there = item.mask[np.ix_(rows, columns)] & np.isfinite(depth) & (depth > 0)
    if not there.any():
        return found
    points = _level_points(frame, rows, columns, np.where(there, depth, 1.0), located.level_from_camera)
    offset = points - np.median(points[there], axis=0)
    offset /= max(float(np.percentile(np.abs(offset[there]), 98)), 1e-4)
    found[..., :3] = np.where(there[..., None], np.rint(127.5 + 127.5 * np.clip(offset, -1.0, 1.0)), 0)
    found[..., 3] = 255 * there
    return found


def _level_points(
    frame: Frame,
    rows: NDArray[np.int64],
    columns: NDArray[np.int64],
    depth: NDArray[np.float64],
    level: NDArray[np.float64],
) -> NDArray[np.float64]:
    """(R, C, 3) points, turned about the vertical so that x is where the camera looks, or where its top points."""
    assert frame.intrinsics is not None
    fx, fy, cx, cy = (float(frame.intrinsics[i, j]) for i, j in ((0, 0), (1, 1), (0, 2), (1, 2)))
    across, down = np.meshgrid((columns - cx) / fx, (rows - cy) / fy)
    points = np.stack([across * depth, down * depth, depth], axis=-1) @ level[:3, :3].T
    ahead = level[:2, 2] if np.hypot(*level[:2, 2]) > 0.2 else -level[:2, 1]
    x, y = ahead / max(float(np.hypot(*ahead)), 1e-9)
    return points @ np.array([[x, -y, 0.0], [y, x, 0.0], [0.0, 0.0, 1.0]])


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
