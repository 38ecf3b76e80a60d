"""Upright forms fitted to visible points: box with yaw, cylinder, ball. Lengths in metres, level frame, z up.

A single view shows the top and the sides that face the camera. Seen from above, all of these lie on the form's
outline, so the outline is fitted in the horizontal plane; the height comes from the top and the support below.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import ConvexHull, QhullError

Array = NDArray[np.float64]

FLAT_M = 0.006
"""Things at most so high are flat."""
_ANGLES = np.radians(np.arange(0.0, 90.0, 3.0))
_AHEAD = 0.6
"""Cosine from which a side counts as facing the camera, or away from it."""
_GROWTH = 0.2
"""Of a pixel's trace that an outline lies beyond the outermost pixel centres: of many, one is near the border."""
_FINE = np.radians(np.arange(-2.25, 2.3, 0.75))
_BALL_MARGIN = 0.7
"""A ball must explain the points so much better than a form with a flat top."""
_ROUND_MARGIN = 0.85
"""A circle must explain the outline so much better than a rectangle, which has two parameters more."""


@dataclass(frozen=True)
class Visible:
    """What is seen of one thing."""

    points: Array
    """(N, 3)"""
    edge: NDArray[np.bool_]
    """(N,) on the outline of the mask and not where something nearer cuts it off."""
    hidden: NDArray[np.bool_]
    """(N,) on the outline of the mask where something nearer cuts it off."""
    bottom: float
    """Height of what it stands on, or of its lowest point."""
    pixel_m: float
    """Size of a pixel across the line of sight."""
    eye: Array
    """(3,) the camera."""
    flat: bool = False
    """Known to lie flat, though it may have a rim."""


@dataclass(frozen=True)
class Form:
    """A fitted form."""

    shape: str
    """box, cylinder, ball or other."""
    center: Array
    """(3,)"""
    size: tuple[float, float, float]
    """Length, width, height along its own axes."""
    yaw: float
    residual: float
    """Mean distance of the points from its surface, in pixels."""

    def half_extents(self) -> tuple[float, float, float]:
        """Half of the box round it along the level frame's axes."""
        length, width, height = (s / 2 for s in self.size)
        if self.shape != "box":
            return float(length), float(width), float(height)
        c, s = abs(np.cos(self.yaw)), abs(np.sin(self.yaw))
        return float(c * length + s * width), float(s * length + c * width), height


def fit_forms(seen: Visible) -> dict[str, Form]:
    """Box, cylinder and ball for the points, by name; without the ball where the points do not determine one."""
    top = top_height(seen.points[:, 2])
    border = _border(seen, top)
    forms = {"box": _box(seen, border, top), "cylinder": _cylinder(seen, border, top)}
    if top - seen.bottom > FLAT_M and not seen.flat:
        ball = _ball(seen)
        if ball is not None:
            forms["ball"] = ball
    return forms


def choose(forms: dict[str, Form]) -> Form:
    """The form that explains the points best; the simpler ones have to be clearly better."""
    best = forms["box"]
    if forms["cylinder"].residual < _ROUND_MARGIN * best.residual:
        best = forms["cylinder"]
    if "ball" in forms and forms["ball"].residual < _BALL_MARGIN * best.residual:
        best = forms["ball"]
    return best


def round_box(seen: Visible) -> Form:
    """The box along the level frame's axes round what is seen: for what none of the forms is like."""
    low, high = seen.points.min(axis=0), seen.points.max(axis=0)
    size = high - low
    return Form("other", (low + high) / 2, (float(size[0]), float(size[1]), float(size[2])), 0.0, 10.0)


def top_height(z: Array) -> float:
    """Height of the top: the middle of the highest tenth."""
    highest = np.sort(z)[-max(3, len(z) // 10) :]
    return float(np.median(highest))


def _border(seen: Visible, top: float) -> Array:
    """(M, 2) points on the outline seen from above: edges of the mask, and sides."""
    xy = seen.points[:, :2]
    if seen.flat or top - seen.bottom <= FLAT_M:
        chosen = seen.edge & ~seen.hidden & _outermost(xy, 2.0 * seen.pixel_m)
    else:
        side = seen.points[:, 2] < top - max(0.004, 0.15 * (top - seen.bottom))
        chosen = (side | seen.edge) & ~seen.hidden
    return xy[chosen] if chosen.sum() >= 6 else xy


def _outermost(xy: Array, margin: float) -> NDArray[np.bool_]:
    """Points within a margin of their convex hull's border: edges round what stands on a flat thing are not there."""
    try:
        hull = ConvexHull(xy)
    except (QhullError, ValueError):
        return np.ones(len(xy), dtype=bool)
    depth = -(xy @ hull.equations[:, :2].T + hull.equations[:, 2])
    return depth.min(axis=1) <= margin


def _box(seen: Visible, border: Array, top: float) -> Form:
    xy = seen.points[:, :2]
    coarse = _costs(xy, border, _ANGLES)
    angle = _ANGLES[int(np.argmin(coarse))]
    fine = _costs(xy, border, angle + _FINE)
    angle = float((angle + _FINE)[int(np.argmin(fine))])
    u, v = np.array([np.cos(angle), np.sin(angle)]), np.array([-np.sin(angle), np.cos(angle)])
    low, high = np.array([(xy @ u).min(), (xy @ v).min()]), np.array([(xy @ u).max(), (xy @ v).max()])
    low, high = _grown(seen, low, high, u, v)
    low, high = _completed(seen, low, high, u, v)
    middle, size = (low + high) / 2, high - low
    centre = np.array([*(middle[0] * u + middle[1] * v), (top + seen.bottom) / 2])
    distance = _rectangle_distance(border, angle)
    residual = _solid_residual(seen, top, _rectangle_distance(xy, angle), distance)
    if size[1] > size[0]:
        size, angle = size[::-1], angle + np.pi / 2
    yaw = float(np.arctan2(np.sin(2 * angle), np.cos(2 * angle)) / 2)
    height = max(top - seen.bottom, 0.0)
    return Form("box", centre, (float(size[0]), float(size[1]), height), yaw, residual)


def _costs(xy: Array, border: Array, angles: Array) -> Array:
    """(K,) for each turn of a rectangle round the points: mean distance of the border from its nearest side, and a
    little of its area's root, which decides where every point is near a side."""
    turns = np.stack([np.cos(angles), np.sin(angles)])
    across = np.stack([-np.sin(angles), np.cos(angles)])
    u, v = xy @ turns, xy @ across
    low_u, high_u, low_v, high_v = u.min(0), u.max(0), v.min(0), v.max(0)
    bu, bv = border @ turns, border @ across
    nearest = np.minimum(np.minimum(bu - low_u, high_u - bu), np.minimum(bv - low_v, high_v - bv))
    return nearest.mean(0) + 0.05 * np.sqrt((high_u - low_u) * (high_v - low_v))


def _rectangle_distance(xy: Array, angle: float) -> Array:
    u = xy @ (np.cos(angle), np.sin(angle))
    v = xy @ (-np.sin(angle), np.cos(angle))
    return np.minimum(np.minimum(u - u.min(), u.max() - u), np.minimum(v - v.min(), v.max() - v))


def _growth(seen: Visible, normal: Array) -> float:
    """How far the outline lies beyond the outermost pixel centres in a horizontal direction: a part of a pixel's
    trace, nothing where the side itself is seen."""
    middle = seen.points.mean(axis=0)
    ray = seen.eye - middle
    flat = float(np.hypot(ray[0], ray[1]))
    towards = ray[:2] / flat if flat > 1e-6 else np.zeros(2)
    rise = max(float(ray[2]) / float(np.linalg.norm(ray)), 0.15)
    along = float(normal @ towards)
    across = float(np.sqrt(max(0.0, 1.0 - along * along))) if flat > 1e-6 else 1.0
    tall = seen.points[:, 2].max() - seen.bottom > 2 * seen.pixel_m
    depth = max(-along, 0.0) / rise if tall else abs(along) / rise
    return _GROWTH * seen.pixel_m * float(np.hypot(across, depth))


def _grown(seen: Visible, low: Array, high: Array, u: Array, v: Array) -> tuple[Array, Array]:
    outwards = [_growth(seen, n) for n in (-u, u, -v, v)]
    return low - (outwards[0], outwards[2]), high + (outwards[1], outwards[3])


def _completed(seen: Visible, low: Array, high: Array, u: Array, v: Array) -> tuple[Array, Array]:
    """Where something nearer cuts a side off, the shorter extent is drawn out there to the length of the other."""
    if seen.hidden.sum() < 3:
        return low, high
    low, high = low.copy(), high.copy()
    cut, size = seen.points[seen.hidden, :2], high - low
    towards = seen.eye[:2] - seen.points[:, :2].mean(axis=0)
    towards /= max(float(np.linalg.norm(towards)), 1e-6)
    for axis, direction in enumerate((u, v)):
        missing = size[1 - axis] - size[axis]
        if missing <= 0.0:
            continue
        along = float(direction @ towards)
        place = (cut @ direction - low[axis]) / max(size[axis], 1e-6)
        if abs(along) > _AHEAD:
            # What is nearer, or stands on it, leaves the side that faces the camera in sight.
            share = 1.0 if along < 0.0 else 0.0
        else:
            share = float((place > 0.7).mean() > 0.5) if (place > 0.7).any() or (place < 0.3).any() else 0.5
        high[axis] += share * missing
        low[axis] -= (1.0 - share) * missing
    return low, high


def _cylinder(seen: Visible, border: Array, top: float) -> Form:
    """Circle by Kasa's linear fit, then three Gauss-Newton steps on the distances."""
    border = _moved_out(seen, border)
    middle = border.mean(axis=0)
    local = border - middle
    columns = np.column_stack([2 * local, np.ones(len(local))])
    x, y, k = np.linalg.lstsq(columns, (local * local).sum(axis=1), rcond=None)[0]
    radius = float(np.sqrt(max(k + x * x + y * y, 1e-8)))
    for _ in range(3):
        offset = local - (x, y)
        distance = np.maximum(np.linalg.norm(offset, axis=1), 1e-9)
        jacobian = np.column_stack([-offset / distance[:, None], -np.ones(len(local))])
        step = np.linalg.lstsq(jacobian, -(distance - radius), rcond=None)[0]
        x, y, radius = float(x + step[0]), float(y + step[1]), float(radius + step[2])
    reach = float(np.ptp(border, axis=0).max())
    if not 0.0 < radius < 2 * reach:
        x, y, radius = 0.0, 0.0, reach / 2
    centre2 = middle + (x, y)
    outline = np.abs(np.linalg.norm(border - centre2, axis=1) - radius)
    beyond = np.abs(np.linalg.norm(seen.points[:, :2] - centre2, axis=1) - radius)
    residual = _solid_residual(seen, top, beyond, outline)
    height = max(top - seen.bottom, 0.0)
    centre = np.array([*centre2, (top + seen.bottom) / 2])
    return Form("cylinder", centre, (2 * radius, 2 * radius, height), 0.0, residual)


def _moved_out(seen: Visible, border: Array) -> Array:
    """Outline points (M, 2), those on the far side moved out by the half pixel by which centres of pixels fall short:
    sides that face the camera are met where they are."""
    middle = border.mean(axis=0)
    ray = seen.eye - np.array([*middle, seen.bottom])
    flat = float(np.hypot(ray[0], ray[1]))
    away = -ray[:2] / flat if flat > 1e-6 else np.zeros(2)
    rise = max(float(ray[2]) / float(np.linalg.norm(ray)), 0.2)
    outwards = border - middle
    outwards /= np.maximum(np.linalg.norm(outwards, axis=1, keepdims=True), 1e-9)
    along = outwards @ away
    across = outwards - along[:, None] * away
    trace = across + np.where(along > 0.0, along / rise, 0.0)[:, None] * away
    return border + 0.5 * seen.pixel_m * trace


def _solid_residual(seen: Visible, top: float, beyond: Array, outline: Array) -> float:
    """Mean distance of all points from top or sides, plus that of the outline, in pixels."""
    surface = np.minimum(np.abs(seen.points[:, 2] - top), beyond)
    return float(surface.mean() + outline.mean()) / max(seen.pixel_m, 5e-4)


def _ball(seen: Visible) -> Form | None:
    """A ball that stands on the support. With z over it, x^2 + y^2 + z^2 = 2 x cx + 2 y cy + 2 z r + k is linear."""
    middle = seen.points.mean(axis=0)
    x, y = (seen.points[:, :2] - middle[:2]).T
    z = seen.points[:, 2] - seen.bottom
    columns = np.column_stack([2 * x, 2 * y, 2 * z, np.ones(len(x))])
    cx, cy, radius, _ = np.linalg.lstsq(columns, x * x + y * y + z * z, rcond=None)[0]
    reach = float(np.ptp(seen.points, axis=0).max())
    if not 0.3 * reach < radius < 2 * reach:
        return None
    centre = np.array([cx + middle[0], cy + middle[1], seen.bottom + radius])
    distance = np.abs(np.linalg.norm(seen.points - centre, axis=1) - radius)
    # Twice: a solid with a flat top is judged by its outline as well.
    residual = 2 * float(distance.mean()) / max(seen.pixel_m, 5e-4)
    return Form("ball", centre, (2 * radius, 2 * radius, 2 * radius), 0.0, residual)
