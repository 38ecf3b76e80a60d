"""What shapes mean: exact extents of geoms and sites along given axes, and the canonical kind of a thing."""

from __future__ import annotations

import re
from typing import Literal

import mujoco
import numpy as np
from numpy.typing import NDArray

from embodied.types import EntityRole

Array = NDArray[np.float64]
ShapeName = Literal["box", "cylinder", "sphere", "capsule", "ellipsoid"]

_G = mujoco.mjtGeom
SHAPE_NAMES: dict[int, ShapeName] = {
    int(_G.mjGEOM_BOX): "box",
    int(_G.mjGEOM_CYLINDER): "cylinder",
    int(_G.mjGEOM_SPHERE): "sphere",
    int(_G.mjGEOM_CAPSULE): "capsule",
    int(_G.mjGEOM_ELLIPSOID): "ellipsoid",
}

FLAT_RATIO = 0.3
"""A box or cylinder is flat when its height is at most this part of its narrower width."""
TALL_RATIO = 1.5
"""A standing cylinder is a pillar when its height is at least this multiple of its width."""
LEVEL_M = 0.002
"""Corners of a top are level within this."""
FILLED = 0.6
"""Share of its rectangle that a top fills at least (a round one: pi / 4), and of the whole body's outline."""
THIN_RATIO = 0.25
"""An upright box is a wall when its thickness is at most this part of its length and of its height."""


def half_extents(shape: str, size: Array, rotation: Array) -> Array:
    """Half extents, along the axes that `rotation` (axes_from_shape, (3, 3)) leads to, of a shape about its middle.

    The support function of each shape: a box |R| s; a cylinder r sqrt(1 - a^2) + h |a| with a its axis; a sphere r;
    a capsule r + h |a|; an ellipsoid sqrt((R s)^2 summed).

    Args:
        size: MuJoCo's size parameters, (3,): half extents, or radius and half length.
    """
    axis = np.abs(rotation[:, 2])
    if shape == "box":
        return np.abs(rotation) @ size
    if shape == "cylinder":
        return size[0] * np.sqrt(np.maximum(0.0, 1.0 - axis * axis)) + size[1] * axis
    if shape == "sphere":
        return np.full(3, size[0])
    if shape == "capsule":
        return size[0] + size[1] * axis
    if shape == "ellipsoid":
        return np.sqrt(np.square(rotation * size).sum(axis=1))
    raise ValueError(f"no support function for a {shape}")


class Extent:
    """Least and greatest coordinates of one geom along the axes of frame B; what does not move is looked up once."""

    def __init__(self, model: mujoco.MjModel, geom: int) -> None:
        kind = int(model.geom_type[geom])
        self.geom = geom
        self._shape = SHAPE_NAMES.get(kind)
        self._size = model.geom_size[geom].copy()
        self._points: Array | None = None
        if kind == _G.mjGEOM_MESH:
            self._points = mesh_points(model, int(model.geom_dataid[geom]))
        elif kind == _G.mjGEOM_PLANE:
            x, y = (float(s) or float(model.stat.extent) for s in self._size[:2])
            self._shape, self._size = "box", np.array([x, y, 0.0])
        elif self._shape is None:
            self._points = _corners(model.geom_aabb[geom])

    def bounds(self, data: mujoco.MjData, world_from_b: Array) -> tuple[Array, Array]:
        """(low, high) of the geom along B's axes, in the world's origin: each (3,), metres."""
        rotation = world_from_b.T @ data.geom_xmat[self.geom].reshape(3, 3)
        center = world_from_b.T @ data.geom_xpos[self.geom]
        if self._points is not None:
            points = self._points @ rotation.T
            return center + points.min(axis=0), center + points.max(axis=0)
        half = half_extents(str(self._shape), self._size, rotation)
        return center - half, center + half


def mesh_points(model: mujoco.MjModel, mesh: int) -> Array:
    """Vertices of the mesh's convex hull where MuJoCo made one, else all of them, (N, 3)."""
    start, count = int(model.mesh_vertadr[mesh]), int(model.mesh_vertnum[mesh])
    vertices = model.mesh_vert[start : start + count].astype(np.float64)
    graph = int(model.mesh_graphadr[mesh])
    if graph < 0:
        return vertices
    hull = int(model.mesh_graph[graph])
    return vertices[model.mesh_graph[graph + 2 + hull : graph + 2 + 2 * hull]]


def flat_top(
    points: Array,
) -> tuple[tuple[float, float], tuple[tuple[float, float], tuple[float, float]], tuple[float, float]] | None:
    """The level top of a convex body as a rectangle: its middle (x, y), its two directions and half extents along them.

    The smallest rectangle round a convex polygon has a side along one of the polygon's (Freeman and Shapira 1975,
    Determining the minimum-area encasing rectangle for an arbitrary closed curve).

    Args:
        points: Corners of the body, (N, 3), z up, metres.

    Returns:
        None where the highest corners span no polygon that fills most of its rectangle, or one much smaller than the
        body itself.
    """
    corners = _polygon(points[points[:, 2] >= points[:, 2].max() - LEVEL_M][:, :2])
    if len(corners) < 3:
        return None
    sides = np.roll(corners, -1, axis=0) - corners
    (x, y), (u, v) = corners.T, np.roll(corners, -1, axis=0).T
    area = 0.5 * abs(float(x @ v - u @ y))
    best: tuple[float, Array, Array, Array] | None = None
    for side in sides / np.linalg.norm(sides, axis=1, keepdims=True):
        axes = np.array([side, [-side[1], side[0]]])
        along = corners @ axes.T
        low, high = along.min(axis=0), along.max(axis=0)
        size = float(np.prod(high - low))
        if best is None or size < best[0]:
            best = size, axes, low, high
    assert best is not None
    size, axes, low, high = best
    whole = float(np.prod(np.ptp(points @ np.pad(axes, ((0, 0), (0, 1))).T, axis=0)))
    if area < FILLED * size or size < FILLED * whole:
        return None
    middle, (a, b) = axes.T @ ((low + high) / 2), (high - low) / 2
    (p, q), (r, s) = axes.tolist()
    return (float(middle[0]), float(middle[1])), ((p, q), (r, s)), (float(a), float(b))


def _polygon(points: Array) -> Array:
    """Corners of the convex hull of points of the plane, (N, 2), counter-clockwise (Andrew 1979, monotone chain)."""
    ordered = [tuple(p) for p in np.unique(np.round(points, 6), axis=0)]
    if len(ordered) < 3:
        return np.asarray(ordered)
    halves = []
    for way in (ordered, ordered[::-1]):
        chain: list[tuple[float, float]] = []
        for x, y in way:
            while len(chain) > 1:
                (p, q), (r, s) = chain[-2], chain[-1]
                if (r - p) * (y - q) - (s - q) * (x - p) > 0:
                    break
                chain.pop()
            chain.append((x, y))
        halves += chain[:-1]
    return np.asarray(halves)


def _corners(aabb: Array) -> Array:
    signs = np.array([[x, y, z] for x in (-1, 1) for y in (-1, 1) for z in (-1, 1)], dtype=np.float64)
    return aabb[:3] + signs * aabb[3:]


def kind_of(model: mujoco.MjModel, geoms: list[int], role: EntityRole, name: str, sites: list[int]) -> str:
    """The canonical kind of a body, from its largest geom (a zone without geoms: its site), or `thing`.

    Objects: a box is a block, or a plate when flat; a cylinder a cylinder, or a disc when flat; a capsule a cylinder;
    a sphere or ellipsoid a ball. Zones: a box is a tray, a cylinder or sphere a disc. Landmarks: as objects, but a
    standing tall cylinder is a pillar and a thin upright box a wall. A landmark whose name has the word `door` or
    `wall` is one. Places have the kind `place`.
    """
    if role == "place":
        return "place"
    words = re.split(r"[^a-z]+", name.lower())
    if role == "landmark":
        for word in ("door", "wall"):
            if word in words:
                return word
    if geoms:
        geom = max(geoms, key=lambda g: (float(np.prod(model.geom_aabb[g, 3:] + 1e-4)), -g))
        shape, size = SHAPE_NAMES.get(int(model.geom_type[geom])), model.geom_size[geom]
    else:
        shape, size = SHAPE_NAMES.get(int(model.site_type[sites[0]])), model.site_size[sites[0]]
    if role == "zone":
        return {"box": "tray", "cylinder": "disc", "sphere": "disc"}.get(str(shape), "thing")
    return _solid_kind(shape, size, role == "landmark")


def _solid_kind(shape: ShapeName | None, size: Array, fixed: bool) -> str:
    if shape == "box":
        a, b, c = sorted(float(s) for s in size)
        if fixed and size[2] > a and a <= THIN_RATIO * min(b, c):
            return "wall"
        return "plate" if a <= FLAT_RATIO * b else "block"
    if shape in ("cylinder", "capsule"):
        height, width = float(size[1]), float(size[0])
        if fixed and height >= TALL_RATIO * width:
            return "pillar"
        return "disc" if shape == "cylinder" and height <= FLAT_RATIO * width else "cylinder"
    return "ball" if shape in ("sphere", "ellipsoid") else "thing"
