"""Random cameras that show a whole area."""

from __future__ import annotations

import math
from dataclasses import dataclass

import mujoco
import numpy as np
from numpy.typing import NDArray

from robots.random_scene import Area, CameraPose

Array = NDArray[np.float64]

ASPECT = 4 / 3
"""Width of the pictures over their height."""
_MARGIN = 0.97
"""Share of the picture within which the area's corners lie."""
_TRIES = 100


@dataclass(frozen=True)
class CameraRange:
    """Where cameras are drawn from. Distances are from the middle of the area."""

    elevation_deg: tuple[float, float]
    """How far down it looks; 90 is straight down."""
    fov_deg: tuple[float, float]
    """Vertical."""
    distance_m: tuple[float, float]
    slack: float = 1.6
    """At most so many times as far away as it must be to see the whole area."""


def draw_camera(
    rng: np.random.Generator, area: Area, ranges: CameraRange, away_from_deg: float | None = None
) -> CameraPose | None:
    """A camera from these ranges that has the whole area in its picture, None where none was found.

    Args:
        away_from_deg: Azimuth (world) of where the robot stands: no oblique picture is taken from there.
    """
    for _ in range(_TRIES):
        fov = float(rng.uniform(*ranges.fov_deg))
        azimuth, elevation = math.radians(rng.uniform(0, 360)), math.radians(rng.uniform(*ranges.elevation_deg))
        if away_from_deg is not None and elevation < math.radians(70.0):
            off = abs(math.remainder(azimuth - math.radians(away_from_deg), 2 * math.pi))
            if off < math.radians(65.0):
                continue
        axes = _axes(azimuth, elevation, math.radians(rng.uniform(-4.0, 4.0)))
        nearest = _fitting_distance(area, axes, fov)
        low, high = max(ranges.distance_m[0], nearest), min(ranges.distance_m[1], ranges.slack * nearest)
        if low <= high:
            distance = float(rng.uniform(low, high))
            return _aimed(rng, area, axes, (fov, distance, nearest))
    return None


def _aimed(rng: np.random.Generator, area: Area, axes: Array, numbers: tuple[float, float, float]) -> CameraPose:
    """The camera so far from the area, its middle moved about in the picture as far as there is room."""
    fov, distance, nearest = numbers
    room = 0.5 * (distance - nearest) * math.tan(math.radians(fov) / 2)
    aim = np.asarray(area.center_m) + axes[:, 0] * rng.uniform(-room, room) + axes[:, 1] * rng.uniform(-room, room)
    place = aim + distance * axes[:, 2]
    quaternion = np.zeros(4)
    mujoco.mju_mat2Quat(quaternion, axes.ravel())
    x, y, z = (float(v) for v in place)
    w, i, j, k = (float(v) for v in quaternion)
    return CameraPose((x, y, z), (w, i, j, k), fov)


def _axes(azimuth: float, elevation: float, roll: float) -> Array:
    """world_from_camera rotation, (3, 3), columns right, up, back; the camera stands in the azimuth's direction."""
    back = np.array(
        [math.cos(elevation) * math.cos(azimuth), math.cos(elevation) * math.sin(azimuth), math.sin(elevation)]
    )
    right = np.array([-math.sin(azimuth), math.cos(azimuth), 0.0])
    up = np.cross(back, right)
    c, s = math.cos(roll), math.sin(roll)
    return np.column_stack([c * right + s * up, c * up - s * right, back])


def _fitting_distance(area: Area, axes: Array, fov_deg: float) -> float:
    """From how far the area's corners are just in the picture when its middle is in the middle."""
    x, y = area.half_m
    corners = np.array([area.to_world(a * x, b * y) for a in (-1, 1) for b in (-1, 1)]) - np.asarray(area.center_m)
    tangent = math.tan(math.radians(fov_deg) / 2) * _MARGIN
    local = corners @ axes
    needed = np.maximum(np.abs(local[:, 1]) / tangent, np.abs(local[:, 0]) / (tangent * ASPECT))
    return float(np.max(needed + local[:, 2]))
