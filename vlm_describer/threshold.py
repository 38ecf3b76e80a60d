"""A baseline: patches of one colour are things. What a first attempt without models and fitting does."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage

from embodied.colours import COLOURS, REFERENCES, lab
from embodied.types import BaseFrame, BoolArray, Frame
from vlm_describer.examples import KINDS, SCENES, SIZES
from vlm_describer.located import COLOUR_STATISTICS, SHAPES, Item, Located
from vlm_describer.naming import Names

LEAST_PIXELS, MOST_SHARE = 30, 0.05
"""Of a patch that is a thing: larger ones are surfaces."""
SURE = 5.0
"""Logit of what it says; it is never in doubt."""
_LABS = lab(np.array([rgb for _, rgb in REFERENCES]))
_NAMES = np.array([COLOURS.index(name) for name, _ in REFERENCES])


class ThresholdLooker:
    """Nearest reference colour of each pixel, connected patches, `block` for everything."""

    identity = "threshold"

    def look(self, frame: Frame, base: BaseFrame | None) -> tuple[Located, Names]:
        """As `Looker.look`; nothing without depth and pose."""
        base = base or BaseFrame()
        named = nearest_colours(frame.rgb)
        items: list[Item] = []
        colours: list[int] = []
        if frame.depth_m is not None and frame.intrinsics is not None and frame.world_from_camera is not None:
            points = _points(frame)
            for colour in range(len(COLOURS)):
                patches, count = ndimage.label(named == colour)
                for index in range(1, count + 1):
                    mask = patches == index
                    if LEAST_PIXELS <= mask.sum() <= MOST_SHARE * mask.size:
                        items.append(_item(f"obj{len(items)}", mask, points[mask], frame.rgb[mask], base))
                        colours.append(colour)
        located = Located(tuple(items), (), "world", base)
        found = {group: np.zeros((len(items), count), np.float32) for group, count in _WIDTHS.items()}
        found["kinds"][:, KINDS.index("block")] = SURE
        found["colours"][np.arange(len(items)), colours] = SURE
        scene = np.zeros(len(SCENES), np.float32)
        scene[SCENES.index("table")] = SURE
        return located, Names(found, scene)


_WIDTHS = {"kinds": len(KINDS), "colours": len(COLOURS), "sizes": len(SIZES)}


def nearest_colours(rgb: NDArray[np.uint8]) -> NDArray[np.int64]:
    """The canonical colour of each pixel, (H, W) in COLOURS; by 32 levels a channel."""
    coarse = (rgb >> 3).reshape(-1, 3).astype(np.int64)
    keys, inverse = np.unique(coarse @ (1, 32, 1024), return_inverse=True)
    values = np.stack([keys % 32, keys // 32 % 32, keys // 1024], axis=1) * 8.0 + 4.0
    distances = np.linalg.norm(lab(values / 255)[:, None] - _LABS, axis=2)
    names: NDArray[np.int64] = _NAMES[distances.argmin(axis=1)][inverse].reshape(rgb.shape[:2])
    return names


def _points(frame: Frame) -> NDArray[np.float64]:
    """World points of every pixel, (H, W, 3)."""
    assert frame.depth_m is not None
    assert frame.intrinsics is not None
    assert frame.world_from_camera is not None
    rows, columns = np.indices(frame.depth_m.shape)
    x = (columns - frame.intrinsics[0, 2]) / frame.intrinsics[0, 0]
    y = (rows - frame.intrinsics[1, 2]) / frame.intrinsics[1, 1]
    camera = np.stack([x, y, np.ones_like(x)], axis=-1) * frame.depth_m[..., None]
    return np.asarray(camera @ frame.world_from_camera[:3, :3].T + frame.world_from_camera[:3, 3])


def _item(name: str, mask: BoolArray, points: NDArray[np.float64], rgb: NDArray[np.uint8], base: BaseFrame) -> Item:
    rows, columns = np.flatnonzero(mask.any(axis=1)), np.flatnonzero(mask.any(axis=0))
    in_b = np.array([base.to_base(point) for point in points])
    low, high = np.percentile(in_b, (2, 98), axis=0)
    centre, half = (low + high) / 2, (high - low) / 2
    colour = tuple(float(v) for v in np.median(rgb, axis=0) / 255)
    return Item(
        id=name,
        mask=mask,
        box_px=(int(columns[0]), int(rows[0]), int(columns[-1]), int(rows[-1])),
        pixels=int(mask.sum()),
        colour=(colour[0], colour[1], colour[2]),
        colour_features=np.zeros(len(COLOUR_STATISTICS), np.float32),
        points_m=points.astype(np.float32),
        position_m=_triple(base.to_world(centre)),
        center_b_m=_triple(centre),
        half_extents_m=_triple(half),
        yaw_rad=0.0,
        size_m=_triple(2 * half),
        covariance_m2=np.eye(3) * 1e-4,
        shape="box",
        shape_scores=dict.fromkeys(SHAPES, 0.0),
        flat=False,
        cut=False,
        occluded=False,
        rests_on=None,
        role_hint="thing",
        confidence=0.5,
    )


def _triple(values: NDArray[np.float64]) -> tuple[float, float, float]:
    x, y, z = (float(value) for value in values)
    return x, y, z
