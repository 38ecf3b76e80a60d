"""A frame as points in a level frame: x, y horizontal, z up.

Where the camera's pose is known the level frame is B. Else it is made from the dominant plane (RANSAC): origin at the
camera, z along the plane's normal on the camera's side, x where the camera looks, y to its left.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from embodied.types import BaseFrame, BoolArray, FloatArray, Frame
from vlm_describer.frames import FARTHEST_M

WORK_PIXELS = 320 * 240
"""Larger pictures are thinned out by a whole number until they have about so many pixels."""
_SKY_M = 8.0
_SKY_TIMES = 5.0
"""The farthest distance is a clipping plane where it is beyond 8 m and so many times as far as what else is seen."""
CHROMA_FLOOR = 0.10
"""Added to the sum of the channels, so that dark pixels have little chroma."""
_TRIES = 200
_SAMPLE = 1500
_PLANE_BAND = 0.006
"""Inliers of a plane lie within this share of their distance."""
_LEAST_SHARE = 0.08
"""Of the readings, that a dominant plane must explain."""


@dataclass(frozen=True)
class Cloud:
    """The thinned picture, h x w, with its points."""

    points: FloatArray
    """(3, h, w) level frame, metres; anything where not valid."""
    depth: FloatArray
    """(h, w) along the optical axis, 0 where not valid."""
    valid: BoolArray
    """(h, w)"""
    rgb: FloatArray
    """(3, h, w) in [0, 1]."""
    brightness: FloatArray
    """(h, w) sum of the three."""
    chroma: FloatArray
    """(3, h, w) each channel's share of the sum: what shading leaves alone, little where it is dark."""
    up: FloatArray
    """(h, w) upward component of the normals, see `up_component`."""
    pixel_m: FloatArray
    """(h, w) size that a pixel covers across the line of sight."""
    level_from_camera: NDArray[np.float64]
    """(4, 4)"""
    stride: int

    @property
    def eye(self) -> NDArray[np.float64]:
        """The camera in the level frame, (3,)."""
        return self.level_from_camera[:3, 3]


def make_cloud(frame: Frame, base: BaseFrame) -> Cloud | None:
    """The points of a checked frame with depth and intrinsics; None where it has no pose and no dominant plane."""
    assert frame.depth_m is not None
    assert frame.intrinsics is not None
    height, width = frame.depth_m.shape
    stride = max(1, round((height * width / WORK_PIXELS) ** 0.5))
    depth = frame.depth_m[::stride, ::stride]
    valid = _readings(depth)
    depth = np.where(valid, depth, np.float32(0.0))
    fx, fy, cx, cy = (float(frame.intrinsics[i, j]) for i, j in ((0, 0), (1, 1), (0, 2), (1, 2)))
    across = ((np.arange(0, width, stride) - cx) / fx).astype(np.float32)
    down = ((np.arange(0, height, stride) - cy) / fy).astype(np.float32)
    level = _level_from_camera(frame, base, depth, valid, across, down)
    if level is None:
        return None
    turn, origin = level[:3, :3].astype(np.float32), level[:3, 3].astype(np.float32)
    points = np.empty((3, *depth.shape), dtype=np.float32)
    for axis in range(3):
        ray = turn[axis, 0] * across[None, :] + (turn[axis, 1] * down + turn[axis, 2])[:, None]
        np.multiply(ray, depth, out=points[axis])
        points[axis] += origin[axis]
    rgb = np.moveaxis(frame.rgb[::stride, ::stride], 2, 0).astype(np.float32) * np.float32(1 / 255)
    brightness = rgb[0] + rgb[1] + rgb[2]
    return Cloud(
        points=points,
        depth=depth,
        valid=valid,
        rgb=rgb,
        brightness=brightness,
        chroma=rgb / (brightness + np.float32(CHROMA_FLOOR)),
        up=up_component(points, valid),
        pixel_m=depth * np.float32(stride / min(fx, fy)),
        level_from_camera=level,
        stride=stride,
    )


def up_component(points: FloatArray, valid: BoolArray, reach: int = 2) -> FloatArray:
    """|z| of the unit normal at each pixel, from differences over 2 * reach pixels; 0 where there is none. (h, w)"""
    up = np.zeros(valid.shape, dtype=np.float32)
    r = reach
    if min(valid.shape) <= 2 * r:
        return up
    middle, wide = slice(r, -r), 2 * r
    du = points[:, middle, wide:] - points[:, middle, :-wide]
    dv = points[:, wide:, middle] - points[:, :-wide, middle]
    nx = du[1] * dv[2] - du[2] * dv[1]
    ny = du[2] * dv[0] - du[0] * dv[2]
    nz = du[0] * dv[1] - du[1] * dv[0]
    whole = valid[middle, wide:] & valid[middle, :-wide] & valid[wide:, middle] & valid[:-wide, middle]
    square = nx * nx + ny * ny + nz * nz
    up[middle, middle] = np.where(whole, np.abs(nz) / np.sqrt(np.maximum(square, 1e-20)), 0.0)
    return up


def _readings(depth: FloatArray) -> BoolArray:
    """(h, w) where there is a reading: finite, positive, and no clipping plane far behind everything."""
    valid = np.isfinite(depth) & (depth > 0.0) & (depth < FARTHEST_M)
    if not valid.any():
        return valid
    farthest = float(depth[valid].max())
    if farthest > _SKY_M:
        nearer = valid & (depth < farthest * (1.0 - 1e-5))
        if not nearer.any() or farthest > _SKY_TIMES * float(np.median(depth[nearer])):
            return nearer
    return valid


def _level_from_camera(
    frame: Frame, base: BaseFrame, depth: FloatArray, valid: BoolArray, across: FloatArray, down: FloatArray
) -> NDArray[np.float64] | None:
    level = np.eye(4)
    if frame.world_from_camera is not None:
        pose = frame.world_from_camera
        level[:3, :3] = base.rotation.T @ pose[:3, :3]
        level[:3, 3] = base.to_base(pose[:3, 3])
        return level
    rows, columns = np.nonzero(valid)
    if len(rows) < 50:
        return None
    chosen = np.linspace(0, len(rows) - 1, _SAMPLE).astype(int) if len(rows) > _SAMPLE else np.arange(len(rows))
    z = depth[rows, columns][chosen].astype(np.float64)
    points = np.stack([across[columns[chosen]] * z, down[rows[chosen]] * z, z], axis=1)
    normal = dominant_normal(points)
    return None if normal is None else _level_from_normal(normal)


def dominant_normal(points: NDArray[np.float64], seed: int = 0) -> NDArray[np.float64] | None:
    """Unit normal of the plane that explains most points (N, 3), towards the camera at the origin; None without one.

    RANSAC (Fischler and Bolles, 1981), then least squares on the inliers. Planes whose normal points down in the
    picture (a camera that stands on its head, a ceiling) are left out.
    """
    rng = np.random.default_rng(seed)
    triples = points[rng.integers(0, len(points), (_TRIES, 3))]
    normals = np.cross(triples[:, 1] - triples[:, 0], triples[:, 2] - triples[:, 0])
    length = np.linalg.norm(normals, axis=1)
    normals, anchors = normals[length > 1e-9], triples[length > 1e-9, 0]
    if not len(normals):
        return None
    normals /= np.linalg.norm(normals, axis=1, keepdims=True)
    offsets = np.einsum("ij,ij->i", normals, anchors)
    normals, offsets = normals * -np.sign(offsets)[:, None], -np.abs(offsets)
    usable = (normals[:, 1] < 0.1) & ((normals[:, 1] < -0.25) | (normals[:, 2] < -0.25))
    band = _PLANE_BAND * np.linalg.norm(points, axis=1)
    counts = (np.abs(points @ normals.T - offsets) < band[:, None]).sum(axis=0) * usable
    best = int(np.argmax(counts))
    if counts[best] < _LEAST_SHARE * len(points):
        return None
    normal, offset = normals[best], offsets[best]
    for _ in range(3):
        inliers = points[np.abs(points @ normal - offset) < band]
        middle = inliers.mean(axis=0)
        fitted = np.linalg.svd(inliers - middle, full_matrices=False)[2][2]
        normal = fitted * -np.sign(fitted @ middle)
        offset = float(normal @ middle)
    return normal


def _level_from_normal(normal: NDArray[np.float64]) -> NDArray[np.float64]:
    """Rotation into z along the normal, x along the optical axis (looking straight down: the picture's up)."""
    ahead = np.array([0.0, 0.0, 1.0])
    if abs(normal @ ahead) > 0.98:
        ahead = np.array([0.0, -1.0, 0.0])
    x = ahead - (ahead @ normal) * normal
    x /= np.linalg.norm(x)
    level = np.eye(4)
    level[:3, :3] = np.stack([x, np.cross(normal, x), normal])
    return level
