"""Second thoughts about parts of a blob: faces of one thing joined again, two levels of one colour parted."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from embodied.types import BoolArray, FloatArray
from vlm_describer.locate_cloud import Cloud
from vlm_describer.locate_surfaces import outline

LabelArray = NDArray[np.int32]
Array = NDArray[np.float64]

CHROMA_APART = 0.28
"""A top and sides whose chroma differs by more (sum over channels) are different things..."""
SIDE_CHROMA_APART = 0.16
SIDE_LIGHT_APART = 1.7
"""... and so are two parts with sides of their own that differ by more than these (the second a factor)."""
HUE_APART = 0.45
"""A top without sides and sides without a top are one thing unless their hues differ by more: light whitens tops."""
_CHROMA_FLOOR = 0.03
_SIDE_FLOOR = 0.10
"""Added to the sums of channels: dark sides show what little light others give them."""
_RIM_M = 0.03
"""A tray's rim is lower."""
_RIM_NEAR_M = 0.015
_RIM_REACH_M = 0.045
"""A low camera sees of a tray's near side the outside, and of its floor not what lies behind that side."""
_LEAST_NEAR, _RIM_CHROMA = 0.3, 0.06
"""Share of a rim that lies next to the floor where the rest is only within reach, and how alike its colour is then."""
_WITHIN_CHROMA = 0.12
_FLAT_CHROMA = 0.08
_FLAT_HEIGHT_M = 0.0008
_COVERED = 0.8
"""Share of a part that must lie within another's outline, seen from above, to be its side."""
_SIDE = 0.5
_TOP = 0.9
_LEAST_SIDE = 8
_LEVEL_APART_M = 0.012
_LEVEL_BAND_M = 0.004
_LEVEL_SHARE = 0.12


@dataclass(frozen=True)
class _Face:
    """A part as the rules below see it."""

    x: FloatArray
    y: FloatArray
    hull: Array | None
    chroma: FloatArray
    hue: FloatArray
    """Shares of the channels after white is taken out."""
    side_chroma: FloatArray | None
    side_light: float
    side_heights: tuple[float, float]
    """Of the middle four fifths of the sides' pixels."""
    top: float | None
    """Height of its level pixels."""
    pixel_m: float


def join_faces(labels: LabelArray, touching: list[tuple[int, int]], cloud: Cloud) -> LabelArray:
    """Labels in which a part that is the side of a part of its own colour belongs to it.

    Args:
        labels: (h, w), 0 outside.
        touching: Pairs of labels that meet without a jump of depth.
        cloud: The points.
    """
    faces: dict[int, _Face] = {}
    parent: dict[int, int] = {}

    def root(k: int) -> int:
        while parent.get(k, k) != k:
            k = parent[k]
        return k

    flat_labels = labels.ravel()
    for pair in touching:
        for k in pair:
            if k not in faces:
                faces[k] = _face(np.flatnonzero(flat_labels == k), cloud)
        if root(pair[0]) != root(pair[1]) and _one_thing(faces[pair[0]], faces[pair[1]]):
            parent[root(pair[1])] = root(pair[0])
    if not parent:
        return labels
    table = np.arange(int(labels.max()) + 1, dtype=np.int32)
    for k in faces:
        table[k] = root(k)
    return table[labels]


def _face(rows: NDArray[np.intp], cloud: Cloud) -> _Face:
    rows = rows[:: max(1, len(rows) // 500)]
    points = cloud.points.reshape(3, -1)[:, rows]
    steep = cloud.up.ravel()[rows]
    pixel = float(np.median(cloud.pixel_m.ravel()[rows]))
    level = steep > _TOP
    topped = level.sum() >= max(_LEAST_SIDE, 0.1 * len(rows))
    top = float(np.median(points[2][level])) if topped else None
    # Normals at the rim of a top look like those of a side.
    lower = points[2] < (np.inf if top is None else top - max(0.005, 1.5 * pixel))
    side = rows[(steep < _SIDE) & lower]
    shaded = len(side) >= _LEAST_SIDE
    return _Face(
        x=points[0],
        y=points[1],
        hull=outline(points[0], points[1]),
        chroma=_share(cloud, rows),
        hue=_hue(cloud, rows),
        side_chroma=_share(cloud, side, _SIDE_FLOOR) if shaded else None,
        side_light=float(np.median(cloud.brightness.ravel()[side])) + 0.01 if shaded else 0.0,
        side_heights=_range(points[2][(steep < _SIDE) & lower]) if shaded else (0.0, 0.0),
        top=top,
        pixel_m=pixel,
    )


def _range(z: FloatArray) -> tuple[float, float]:
    ordered = np.sort(z)
    tenth = len(ordered) // 10
    return float(ordered[tenth]), float(ordered[-1 - tenth])


def _share(cloud: Cloud, rows: NDArray[np.intp], floor: float = _CHROMA_FLOOR) -> FloatArray:
    colour = np.median(cloud.rgb.reshape(3, -1)[:, rows], axis=1)
    return colour / (colour.sum() + np.float32(floor))


def _hue(cloud: Cloud, rows: NDArray[np.intp]) -> FloatArray:
    colour = np.median(cloud.rgb.reshape(3, -1)[:, rows], axis=1)
    colour = colour - colour.min()
    return colour / (colour.sum() + np.float32(_CHROMA_FLOOR))


def _one_thing(one: _Face, other: _Face) -> bool:
    """Whether one part is a side of the other: of its colour, and within its outline seen from above."""
    if one.side_chroma is not None and other.side_chroma is not None:
        ratio = one.side_light / other.side_light
        low, high = max(one.side_heights[0], other.side_heights[0]), min(one.side_heights[1], other.side_heights[1])
        # Side by side they are faces turned differently to the light, one above the other they are not.
        if high <= low and max(ratio, 1 / ratio) > SIDE_LIGHT_APART:
            return False
        if float(np.abs(one.side_chroma - other.side_chroma).sum()) > SIDE_CHROMA_APART:
            return False
    elif float(np.abs(one.chroma - other.chroma).sum()) > CHROMA_APART and not _top_and_side(one, other):
        return False
    if one.top is not None and other.top is not None and abs(one.top - other.top) > _LEVEL_APART_M:
        return False
    margin = max(1.5 * one.pixel_m, 0.004)
    return _covers(one, other, margin) or _covers(other, one, margin)


def _top_and_side(one: _Face, other: _Face) -> bool:
    """Whether one part is a mere top, the other mere sides, and white light alone can explain that they differ."""
    top, side = (one, other) if one.top is not None else (other, one)
    mere = top.top is not None and top.side_chroma is None and side.top is None and side.side_chroma is not None
    return mere and float(np.abs(one.hue - other.hue).sum()) < HUE_APART


def _covers(above: _Face, part: _Face, margin: float) -> bool:
    if above.hull is None:
        return False
    return float(inside_hull(above.hull, part.x, part.y, margin).mean()) > _COVERED


def inside_hull(hull: Array, x: FloatArray | Array, y: FloatArray | Array, margin: float) -> NDArray[np.bool_]:
    """Whether points lie within a convex anticlockwise outline (K, 2) grown by a margin."""
    following = np.roll(hull, -1, axis=0) - hull
    length = np.maximum(np.hypot(following[:, 0], following[:, 1]), 1e-9)
    normal = np.stack([-following[:, 1], following[:, 0]]) / length
    xy = np.stack([np.ravel(x), np.ravel(y)], axis=1)
    distance = xy @ normal - (hull * normal.T).sum(axis=1)
    return (distance >= -margin).all(axis=1).reshape(np.shape(x))


def part_levels(labels: LabelArray, cloud: Cloud) -> LabelArray:
    """Labels in which a part with two level tops at different heights, one over the other, is two things."""
    parted = labels
    following = int(labels.max()) + 1
    flat = labels.ravel()
    counts = np.bincount(flat)
    for k in range(1, len(counts)):
        if counts[k] < 40:
            continue
        rows = np.flatnonzero(flat == k)
        upper = _upper_rows(rows, cloud)
        if upper is not None:
            parted = parted.copy() if parted is labels else parted
            parted.ravel()[upper] = following
            following += 1
    return parted


def _upper_rows(rows: NDArray[np.intp], cloud: Cloud) -> NDArray[np.intp] | None:
    """Of a part's pixels those of the thing that stands on the rest; None where there is one level only."""
    x, y, z = cloud.points.reshape(3, -1)[:, rows]
    level = cloud.up.ravel()[rows] > _TOP
    if level.sum() < 16:
        return None
    pixel = float(np.median(cloud.pixel_m.ravel()[rows]))
    top = float(np.sort(z[level])[-max(3, int(level.sum()) // 20) :].mean())
    high = level & (np.abs(z - top) < _LEVEL_BAND_M)
    rest = z[level & (z < top - _LEVEL_APART_M)]
    if high.sum() < max(8, _LEVEL_SHARE * level.sum()) or len(rest) < max(8, _LEVEL_SHARE * level.sum()):
        return None
    counts, edges = np.histogram(rest, bins=np.arange(rest.min() - 0.002, rest.max() + 0.006, 0.004))
    best = int(np.argmax(counts))
    lower = float(edges[best] + 0.002)
    if counts[best] < max(8, 0.5 * len(rest)):
        return None
    hull = outline(x[high], y[high])
    if hull is None:
        return None
    above = (z > lower + 0.004) & inside_hull(hull, x, y, 2 * pixel)
    # A lower level that lies wholly outside the upper top's outline is a step, not something beneath.
    return rows[above] if above.sum() >= 12 and (~above).sum() >= 12 else None


def join_flats(labels: LabelArray, cloud: Cloud, over: FloatArray, covered: NDArray[np.bool_]) -> LabelArray:
    """Labels in which parts of one flat thing, parted by what stands before or on it, are one.

    Args:
        labels: (h, w) of flat parts, 0 outside.
        cloud: The points.
        over: (h, w) heights over the surface.
        covered: (h, w) pixels that show something raised.
    """
    numbers = [int(k) for k in np.unique(labels) if k > 0]
    rows = {k: np.flatnonzero(labels.ravel() == k) for k in numbers}
    colour = {k: _share(cloud, rows[k]) for k in numbers}
    height = {k: float(np.median(over.ravel()[rows[k]])) for k in numbers}
    joined = labels
    for position, one in enumerate(numbers):
        for other in numbers[position + 1 :]:
            alike = float(np.abs(colour[one] - colour[other]).sum()) < _FLAT_CHROMA
            if alike and abs(height[one] - height[other]) < _FLAT_HEIGHT_M and _parted(rows[one], rows[other], covered):
                joined = joined.copy() if joined is labels else joined
                joined[joined == joined.ravel()[rows[other][0]]] = joined.ravel()[rows[one][0]]
    return joined


def join_rims(
    flats: list[BoolArray], solids: list[BoolArray], cloud: Cloud, over: FloatArray
) -> tuple[list[BoolArray], list[BoolArray]]:
    """Masks of flat and of solid parts in which low ridges along a flat part's outline, of its colour, are its rim, and
    what lies within such an outline is of it too where it has its colour."""
    flats, kept = list(flats), []
    points = cloud.points.reshape(3, -1)
    colours = [_share(cloud, np.flatnonzero(mask)) for mask in flats]
    hulls = [outline(points[0][mask.ravel()], points[1][mask.ravel()]) for mask in flats]
    for solid in solids:
        rows = np.flatnonzero(solid)
        home = None
        if float(np.quantile(over.ravel()[rows], 0.95)) < _RIM_M:
            colour = _share(cloud, rows)
            for k, hull in enumerate(hulls):
                apart = float(np.abs(colour - colours[k]).sum())
                if hull is None or apart >= SIDE_CHROMA_APART:
                    continue
                x, y = points[0][rows], points[1][rows]
                if _along(hull, x, y) or (apart < _RIM_CHROMA and _partly_along(hull, x, y)):
                    home = k
        if home is None:
            kept.append(solid)
        else:
            flats[home] = flats[home] | solid
    return _without_inner(flats, cloud), kept


def _without_inner(flats: list[BoolArray], cloud: Cloud) -> list[BoolArray]:
    """Flat parts, each with the smaller ones of its colour that lie within its outline: a floor that things stand on or
    throw shadows on is seen in pieces."""
    points = cloud.points.reshape(3, -1)
    order = sorted(range(len(flats)), key=lambda k: -int(flats[k].sum()))
    kept: list[BoolArray] = []
    for k in order:
        rows = np.flatnonzero(flats[k])
        colour, x, y = _share(cloud, rows), points[0][rows], points[1][rows]
        for index, large in enumerate(kept):
            own = np.flatnonzero(large)
            hull = outline(points[0][own], points[1][own])
            alike = float(np.abs(colour - _share(cloud, own)).sum()) < _WITHIN_CHROMA
            if hull is not None and alike and float(inside_hull(hull, x, y, 0.0).mean()) > _COVERED:
                kept[index] = large | flats[k]
                break
        else:
            kept.append(flats[k])
    return kept


def _along(hull: Array, x: FloatArray, y: FloatArray) -> bool:
    """Whether nearly all points lie near a convex outline, inside or outside."""
    near = inside_hull(hull, x, y, _RIM_NEAR_M) & ~inside_hull(hull, x, y, -_RIM_NEAR_M)
    return float(near.mean()) > _COVERED


def _partly_along(hull: Array, x: FloatArray, y: FloatArray) -> bool:
    """Whether points begin along a convex outline and go on outside, no farther than a tray's side hides its floor."""
    near, inner = inside_hull(hull, x, y, _RIM_NEAR_M), inside_hull(hull, x, y, -_RIM_NEAR_M)
    reached = inside_hull(hull, x, y, _RIM_REACH_M)
    return bool(near.mean() > _LEAST_NEAR and not inner.any() and reached.all())


def _parted(one: NDArray[np.intp], other: NDArray[np.intp], covered: NDArray[np.bool_]) -> bool:
    """Whether something raised lies all the way between two parts where they come nearest in the picture."""
    width = covered.shape[1]
    first = np.stack([one // width, one % width], axis=1)[:: max(1, len(one) // 200)]
    second = np.stack([other // width, other % width], axis=1)[:: max(1, len(other) // 200)]
    distance = np.abs(first[:, None] - second[None]).sum(axis=2)
    a, b = np.unravel_index(int(np.argmin(distance)), distance.shape)
    share = np.linspace(0.2, 0.8, 7)[:, None]
    between = np.rint(first[a] + share * (second[b] - first[a])).astype(int)
    return bool(covered[between[:, 0], between[:, 1]].mean() > 0.6)
