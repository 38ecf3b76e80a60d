"""Horizontal planes in a cloud: the work surface, the floor, others."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage
from scipy.spatial import ConvexHull, QhullError

from embodied.types import BoolArray, FloatArray
from vlm_describer.locate_cloud import Cloud

MAP_HEIGHT_M = 3.5
"""A camera so far above a plane sees a map rather than a table."""
BAND_M = 0.006
"""What lies so near a plane belongs to it, or lies flat on it."""
_BIN_M = 0.004
_PLANES = 5
_LEAST_SHARE = 0.015
"""Of the picture, that a surface covers."""
_LEAST_RADIUS_M = 0.09
"""Radius of a circle that fits into a surface: a thing's top is smaller."""
_LEVEL = 0.93
"""Upward component of normals on level ground: 21 degrees."""
_TILT = 0.06
"""Largest slope that a plane is fitted with: what an error of the pose explains."""
_COARSE = 4
"""Sizes of regions are judged on every fourth pixel."""


@dataclass(frozen=True)
class Plane:
    """A horizontal plane z = a x + b y + c in the level frame, and the pixels that show it."""

    coefficients: tuple[float, float, float]
    region: BoolArray
    """(h, w) main region."""
    hull: NDArray[np.float64]
    """(K, 2) outline of the region, anticlockwise."""
    noise_m: float
    pixels: int
    height_m: float
    """At the middle of the hull."""

    def height_over(self, points: FloatArray) -> FloatArray:
        """Height of points (3, ...) above the plane."""
        a, b, c = (np.float32(v) for v in self.coefficients)
        return points[2] - (a * points[0] + b * points[1] + c)

    def inside(self, x: FloatArray, y: FloatArray, margin_m: float) -> BoolArray:
        """Whether points lie within the outline grown by a margin."""
        result = np.ones(np.shape(x), dtype=bool)
        for (x0, y0), (x1, y1) in zip(self.hull, np.roll(self.hull, -1, axis=0), strict=True):
            length = float(np.hypot(x1 - x0, y1 - y0))
            a, b = np.float32((y0 - y1) / length), np.float32((x1 - x0) / length)
            result &= a * x + b * y >= np.float32(a * x0 + b * y0 - margin_m)
        return result


def find_planes(cloud: Cloud) -> list[Plane]:
    """Surfaces, the most seen first."""
    level = cloud.valid & (cloud.up > _LEVEL)
    if level.sum() < 40:
        return []
    z = cloud.points[2]
    far = float(np.median(cloud.depth[level]))
    width = max(_BIN_M, 0.0015 * far)
    open_pixels = level.copy()
    found: list[Plane] = []
    for _ in range(3 * _PLANES):
        height = _peak(z[open_pixels], width)
        if height is None or len(found) == _PLANES:
            break
        plane = _plane_at(cloud, level, height, width)
        near = np.abs(z - height) < 2 * width
        if plane is not None:
            near |= np.abs(plane.height_over(cloud.points)) < 2.5 * width
            found.append(plane)
        open_pixels &= ~near
        if open_pixels.sum() < _LEAST_SHARE * level.size:
            break
    return sorted(found, key=lambda p: -p.pixels)


def work_plane(planes: list[Plane], cloud: Cloud) -> Plane | None:
    """The plane that things are handled on: on a map the largest; else the largest that is not the lowest, if any
    above it is large enough."""
    if not planes:
        return None
    if is_map(planes, cloud):
        return planes[0]
    lowest = min(planes, key=lambda p: p.height_m)
    above = [p for p in planes if p is not lowest and p.height_m - lowest.height_m > 0.02]
    return max(above, key=lambda p: p.pixels) if above else lowest


def is_map(planes: list[Plane], cloud: Cloud) -> bool:
    """Whether the camera stands so far above what it mostly sees that this is a map."""
    return bool(planes) and float(cloud.eye[2]) - planes[0].height_m > MAP_HEIGHT_M


def _peak(heights: FloatArray, width: float) -> float | None:
    """The height at which most of the pixels lie; None where too few are left."""
    if len(heights) < 40:
        return None
    low = float(heights.min())
    bins = ((heights - low) / width).astype(np.int32)
    keep = bins < 20_000
    counts = np.bincount(bins[keep])
    smooth = np.convolve(np.pad(counts, 1), (1, 2, 1), mode="valid")
    centre = low + (int(np.argmax(smooth)) + 0.5) * width
    near = heights[np.abs(heights - centre) < 1.5 * width]
    return float(np.median(near)) if len(near) else None


def _plane_at(cloud: Cloud, level: BoolArray, height: float, width: float) -> Plane | None:
    """The plane near this height, or None where what lies there is too small for a surface."""
    z = cloud.points[2]
    seeds = level & (np.abs(z - height) < 1.5 * width)
    coefficients = _fit(cloud.points, seeds, height)
    a, b, c = coefficients
    over = z - (np.float32(a) * cloud.points[0] + np.float32(b) * cloud.points[1] + np.float32(c))
    region = cloud.valid & (np.abs(over) < max(BAND_M, 1.2 * width))
    region = _main_region(region, cloud)
    if region is None:
        return None
    inliers = region & level
    if inliers.sum() < 30:
        return None
    hull = outline(cloud.points[0][region], cloud.points[1][region])
    if hull is None:
        return None
    noise = 1.4826 * float(np.median(np.abs(over[inliers])))
    middle = (hull.min(axis=0) + hull.max(axis=0)) / 2
    return Plane(coefficients, region, hull, noise, int(region.sum()), a * middle[0] + b * middle[1] + c)


def _fit(points: FloatArray, seeds: BoolArray, height: float) -> tuple[float, float, float]:
    """a, b, c of the plane through the seeds by least squares, level where the fit is steep or there are few seeds."""
    rows = np.flatnonzero(seeds.ravel())
    if len(rows) < 60:
        return 0.0, 0.0, height
    rows = rows[:: max(1, len(rows) // 2000)]
    flat = points.reshape(3, -1)[:, rows].astype(np.float64)
    middle = flat.mean(axis=1, keepdims=True)
    solution = (0.0, 0.0, float(np.median(flat[2])))
    kept = flat
    for _ in range(3):
        columns = np.stack([kept[0] - middle[0], kept[1] - middle[1], np.ones(kept.shape[1])], axis=1)
        a, b, c = np.linalg.lstsq(columns, kept[2], rcond=None)[0]
        if np.hypot(a, b) > _TILT:
            return 0.0, 0.0, height
        solution = (float(a), float(b), float(c - a * middle[0, 0] - b * middle[1, 0]))
        residual = np.abs(flat[2] - (solution[0] * flat[0] + solution[1] * flat[1] + solution[2]))
        bound = max(3 * float(np.median(residual)), 1e-4)
        kept = flat[:, residual <= bound]
    return solution


def _main_region(region: BoolArray, cloud: Cloud) -> BoolArray | None:
    """The largest connected part and others of some size; None where no circle of a surface's size fits into it."""
    labels, count = ndimage.label(region)
    if count == 0:
        return None
    sizes = np.bincount(labels.ravel())
    sizes[0] = 0
    largest = int(sizes.max())
    if largest < _LEAST_SHARE * region.size:
        return None
    kept = (sizes > 0.1 * largest)[labels]
    main = (labels == int(np.argmax(sizes)))[::_COARSE, ::_COARSE]
    if not main.any():
        return None
    inscribed = ndimage.distance_transform_edt(np.pad(ndimage.binary_fill_holes(main), 1))[1:-1, 1:-1]
    scale = cloud.pixel_m[::_COARSE, ::_COARSE] * _COARSE
    middle = cloud.points[:, ::_COARSE, ::_COARSE][:, main].mean(axis=1)
    ray = cloud.eye - middle
    # A slanted view shortens one direction: the mean of both counts.
    rise = max(float(ray[2]) / float(np.linalg.norm(ray)), 0.1)
    radius = inscribed * scale / np.float32(rise**0.5)
    return kept if float(radius[main].max(initial=0.0)) >= _LEAST_RADIUS_M else None


def outline(x: FloatArray, y: FloatArray, corners: int = 12) -> NDArray[np.float64] | None:
    """Convex outline of points, (K, 2) anticlockwise with about `corners` corners; None where they have no area."""
    step = max(1, len(x) // 2000)
    xy = np.stack([x[::step], y[::step]])
    if xy.shape[1] < 3:
        return None
    directions = np.linspace(0.0, 2 * np.pi, 4 * corners, endpoint=False)
    # Directions in rows: along columns the search for the farthest point takes four times as long.
    extreme = np.unique(np.argmax(_unit(directions).astype(np.float32).T @ xy, axis=1))
    xy = xy.T[extreme].astype(np.float64)
    try:
        hull = ConvexHull(xy)
    except (QhullError, ValueError):
        return None
    return xy[hull.vertices]


def _unit(angles: NDArray[np.float64]) -> NDArray[np.float64]:
    """(2, N) unit vectors."""
    return np.stack([np.cos(angles), np.sin(angles)])
