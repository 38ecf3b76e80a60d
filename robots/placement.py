"""Where an arm stands in a scene that has none, and frame B, which follows from it.

The rule: the *work surface* is the static box (or plane, or upright cylinder) under the free bodies. The base stands
before a long side and looks along the surface's shorter horizontal extent; surface centre and height relative to the
base are those of Gymnasium-Robotics' FetchPush. So a policy trained there sees the numbers that it knows.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import mujoco
import numpy as np
from numpy.typing import NDArray

from embodied.errors import JobFailed, SceneError, UserError
from embodied.types import BaseFrame
from robots.base import FETCH
from robots.shapes import flat_top, mesh_points

Array = NDArray[np.float64]
Base = tuple[float, float, float, float]
"""x, y, z in metres (world) and yaw in degrees."""

FETCH_BASE_M = (0.6919, 0.7441, 0.0)
"""FetchPush's `robot0:base_link` in its world, which is frame B there: 0.2869 + 0.405, 0.2641 + 0.48, 0."""
SURFACE_FROM_BASE_M = (0.6081, 0.0059, 0.40)
"""FetchPush's table centre, and the height of its top, from the base link: (1.3, 0.75, 0.4) - FETCH_BASE_M."""

FETCH_BODY_BOXES = (
    (-0.29, 0.29, -0.265, 0.265, 0.01, 0.36),
    (-0.275, 0.09, -0.172, 0.172, 0.36, 0.985),
    (-0.16, 0.165, -0.145, 0.145, 0.975, 1.10),
)
"""Boxes round the meshes of base, torso and head, from the base link: x, x, y, y, z, z in metres."""

MAX_PUSH_BACK_M = 0.45
"""Further back the middle of the surface is out of Fetch's reach."""
PUSH_STEP_M = 0.01
GRID_M = 0.03
CLEARANCE_M = GRID_M / 2

SUNK_M = 0.02
"""How far the base may stand under a floor before it is told."""

UPRIGHT_COS = math.cos(math.radians(5.0))
"""A top that leans more than this is no work surface."""
SQUARE_TOLERANCE = 1e-3
"""Relative difference of the horizontal extents up to which a surface counts as square."""
MAX_SURFACE_M = 20.0
"""A surface wider than this was drawn in other units."""
MIN_ZONE_SURFACE_M = 0.30
"""A zone (static body with a site) whose top is narrower than this is a tray on the surface, not the surface."""


@dataclass(frozen=True)
class WorkSurface:
    """The top that the free bodies rest on."""

    geom: int
    name: str
    """Name of its body, else of its geom."""
    center: tuple[float, float, float]
    """Middle of the top, in the world, metres; of an endless plane: under the middle of the free bodies."""
    axes: tuple[tuple[float, float], tuple[float, float]]
    """Horizontal directions of its frame's first and second horizontal axis, in the world."""
    half_extents: tuple[float, float]
    """Along these axes, metres; inf for an endless plane."""
    endless: bool

    @property
    def height_m(self) -> float:
        """World height of the top."""
        return self.center[2]


@dataclass(frozen=True)
class Placement:
    """Where the arm stands, and why."""

    position_m: tuple[float, float, float]
    """Of the base link, in the world."""
    yaw_rad: float
    surface: WorkSurface | None
    """None where the base was given by hand and nothing lies under the free bodies."""
    notes: tuple[str, ...] = ()
    """What is worth telling: pushed back, stands in something, ..."""

    @property
    def frame(self) -> BaseFrame:
        """Frame B: in it the base link is where FetchPush has it."""
        return frame_of_base(self.position_m, self.yaw_rad)


def frame_of_base(position_m: tuple[float, float, float], yaw_rad: float) -> BaseFrame:
    """Frame B of an arm whose base link stands here: p_B = R(-yaw) (p - base) + FETCH_BASE_M."""
    turned = BaseFrame(yaw_rad=yaw_rad).rotation @ np.asarray(FETCH_BASE_M)
    x, y, z = (float(v) for v in np.asarray(position_m, dtype=float) - turned)
    return BaseFrame((x, y, z), yaw_rad)


def place_arm(model: mujoco.MjModel, data: mujoco.MjData, base_override: Base | None = None) -> Placement:
    """Where the Fetch arm stands in this scene (which has no robot), from the poses in `data`.

    Args:
        base_override: Base link by hand: x, y, z (m, world) and yaw (degrees). It is taken as it is.

    Raises:
        JobFailed: `unreachable`: no work surface, or no place for the base before it.
        UserError: A base that is not four finite numbers.
    """
    surface = find_surface(model, data)
    if base_override is not None:
        return _placed_by_hand(model, data, surface, base_override)
    problem = no_place_for_arm(model, surface)
    if surface is None or problem:
        raise JobFailed("unreachable", f"{problem}; or give base=x,y,z,yaw_deg")
    return _pushed_clear(model, data, surface, _rule(surface))


def no_place_for_arm(model: mujoco.MjModel, surface: WorkSurface | None) -> str:
    """Why an arm finds no place before this surface of a scene, and what to do about it; empty where it may."""
    arm = (FETCH.base_body, *FETCH.gripper_bodies)
    if all(mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_BODY, name) >= 0 for name in arm):
        return "the scene has a Fetch arm of its own: take it out, or use one of the fetch_* tasks"
    if not free_bodies(model):
        return "no body of the scene has a free joint, so there is nothing to handle: give one a <freejoint/>"
    if surface is None:
        return (
            "under the scene's free bodies lies no level top that is static and collides (box, cylinder, mesh or "
            "plane): put them on one"
        )
    if surface.endless:
        return f"the objects lie on the plane '{surface.name}', and no arm stands 0.40 m under it: raise them on a box"
    if 2 * min(surface.half_extents) > MAX_SURFACE_M:
        a, b = (2 * half for half in surface.half_extents)
        return f"'{surface.name}' is {a:.0f} x {b:.0f} m large, while lengths in MJCF are metres: make it smaller"
    return ""


def frame_for_scene(model: mujoco.MjModel, data: mujoco.MjData, base: Base | None = None) -> BaseFrame:
    """Frame B of a scene without a robot: as if the arm stood there, else the pose of the site `start`, else the world.

    Raises:
        UserError: A base that is not four finite numbers.
    """
    surface = find_surface(model, data)
    if base is not None:
        return _placed_by_hand(model, data, surface, base).frame
    if surface is not None:
        try:
            return place_arm(model, data).frame
        except JobFailed:
            return _rule(surface).frame
    start = mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_SITE, "start")
    if start >= 0:
        x, y, z = (float(v) for v in data.site_xpos[start])
        return BaseFrame((x, y, z), 0.0)
    return BaseFrame()


def free_bodies(model: mujoco.MjModel) -> list[int]:
    """Ids of the bodies with a free joint."""
    return [int(b) for b in model.jnt_bodyid[model.jnt_type == mujoco.mjtJoint.mjJNT_FREE]]


def is_static(model: mujoco.MjModel, body: int) -> bool:
    """Whether a body is welded to the world (mocap bodies are moved by somebody, so they are not)."""
    return bool(model.body_weldid[body] == 0 and model.body_mocapid[model.body_rootid[body]] < 0)


def find_surface(model: mujoco.MjModel, data: mujoco.MjData) -> WorkSurface | None:
    """The static top under most free bodies (a ray cast down from each; ties: the larger one); None without any."""
    points = [_middle(model, data, body) for body in free_bodies(model)]
    tops = list(_tops(model, data, points))
    hits: dict[int, int] = {}
    for point in points:
        under = [i for i, top in enumerate(tops) if top.height_m <= point[2] + 1e-6 and _covers(top, point)]
        if under:
            nearest = max(under, key=lambda i: (tops[i].height_m, -i))
            hits[nearest] = hits.get(nearest, 0) + 1
    if not hits:
        return None
    best = max(hits, key=lambda i: (hits[i], tops[i].half_extents[0] * tops[i].half_extents[1], -i))
    return tops[best]


def _middle(model: mujoco.MjModel, data: mujoco.MjData, body: int) -> Array:
    """Middle of the geoms of a body and of what hangs on it; the body's origin where there are none."""
    geoms = np.flatnonzero(model.body_rootid[model.geom_bodyid] == body)
    return data.geom_xpos[geoms].mean(axis=0) if geoms.size else data.xpos[body]


def _covers(top: WorkSurface, point: Array) -> bool:
    offset = point[:2] - np.asarray(top.center[:2])
    return all(abs(offset @ np.asarray(a)) <= half for a, half in zip(top.axes, top.half_extents, strict=True))


def _tops(model: mujoco.MjModel, data: mujoco.MjData, points: list[Array]) -> Iterator[WorkSurface]:
    """Every upright static box, cylinder, mesh and plane that things can rest on."""
    zones = set(model.site_bodyid.tolist()) - {0}
    for geom in range(model.ngeom):
        body = int(model.geom_bodyid[geom])
        collides = model.geom_contype[geom] or model.geom_conaffinity[geom]
        if not (collides and is_static(model, body)):
            continue
        top = _top_of(model, data, geom, points)
        if top is None or (body in zones and 2 * min(top.half_extents) < MIN_ZONE_SURFACE_M):
            continue
        yield top


def _mesh_top(model: mujoco.MjModel, data: mujoco.MjData, geom: int) -> WorkSurface | None:
    """The level top of a mesh, which collides as its convex hull."""
    rotation = data.geom_xmat[geom].reshape(3, 3)
    vertices = data.geom_xpos[geom] + mesh_points(model, int(model.geom_dataid[geom])) @ rotation.T
    top = flat_top(vertices)
    if top is None:
        return None
    (x, y), axes, half = top
    return WorkSurface(geom, _name(model, geom), (x, y, float(vertices[:, 2].max())), axes, half, False)


def _name(model: mujoco.MjModel, geom: int) -> str:
    name = model.body(int(model.geom_bodyid[geom])).name if model.geom_bodyid[geom] else ""
    return name or model.geom(geom).name or f"geom {geom}"


def _top_of(model: mujoco.MjModel, data: mujoco.MjData, geom: int, points: list[Array]) -> WorkSurface | None:
    kind, size = model.geom_type[geom], model.geom_size[geom]
    if kind == mujoco.mjtGeom.mjGEOM_MESH:
        return _mesh_top(model, data, geom)
    rotation, center = data.geom_xmat[geom].reshape(3, 3), data.geom_xpos[geom].copy()
    up = int(np.argmax(np.abs(rotation[2])))
    if abs(rotation[2, up]) < UPRIGHT_COS:
        return None
    endless = kind == mujoco.mjtGeom.mjGEOM_PLANE
    if endless:
        if up != 2 or rotation[2, 2] < 0:
            return None
        half = (math.inf, math.inf)
        center[:2] = np.mean(points, axis=0)[:2] if points else center[:2]
        first, second = 0, 1
    elif kind == mujoco.mjtGeom.mjGEOM_BOX:
        first, second = (i for i in range(3) if i != up)
        half = (float(size[first]), float(size[second]))
        center[2] += size[up]
    elif kind == mujoco.mjtGeom.mjGEOM_CYLINDER and up == 2:
        first, second = 0, 1
        half = (float(size[0]), float(size[0]))
        center[2] += size[1]
    else:
        return None
    axes = _unit(rotation[:2, first]), _unit(rotation[:2, second])
    x, y, z = (float(v) for v in center)
    return WorkSurface(geom, _name(model, geom), (x, y, z), axes, half, endless)


def _unit(vector: Array) -> tuple[float, float]:
    x, y = vector / np.linalg.norm(vector)
    return float(x), float(y)


def _rule(surface: WorkSurface) -> Placement:
    """The base before the surface, before any thought of what else stands there."""
    a, b = surface.half_extents
    square = surface.endless or abs(a - b) <= SQUARE_TOLERANCE * max(a, b)
    along = np.asarray(surface.axes[0] if square or a < b else surface.axes[1])
    normal = -along if square else _facing_minus_x(along)
    yaw = math.atan2(-normal[1], -normal[0])
    forward, left, height = SURFACE_FROM_BASE_M
    x, y = np.asarray(surface.center[:2]) - BaseFrame(yaw_rad=yaw).rotation[:2, :2] @ (forward, left)
    return Placement((float(x), float(y), surface.height_m - height), yaw, surface)


def _facing_minus_x(axis: Array) -> Array:
    """The one of `axis`, `-axis` that points most to world -x; where neither does, to -y."""
    key = axis[0] if abs(axis[0]) > 1e-6 else axis[1]
    return -axis if key > 0 else axis


def _placed_by_hand(model: mujoco.MjModel, data: mujoco.MjData, surface: WorkSurface | None, base: Base) -> Placement:
    numbers = np.asarray(base, dtype=float).ravel()
    if numbers.shape != (4,) or not np.isfinite(numbers).all() or np.abs(numbers[:3]).max() > 1e3:
        raise UserError("base must be four finite numbers: x,y,z in metres (within 1000) and yaw in degrees")
    x, y, z, yaw = (float(v) for v in numbers)
    position, yaw_rad = (x, y, z), math.remainder(math.radians(yaw), 2 * math.pi)
    blocked = _in_the_way(model, data, position, yaw_rad)
    notes = (f"the base stands in {', '.join(blocked)}",) if blocked else ()
    return Placement(position, yaw_rad, surface, (*notes, *_sunk(model, data, position)))


def _pushed_clear(model: mujoco.MjModel, data: mujoco.MjData, surface: WorkSurface, wanted: Placement) -> Placement:
    """The nearest placement straight back from the wanted one where base, torso and head touch nothing static."""
    back = BaseFrame(yaw_rad=wanted.yaw_rad).rotation @ (-1.0, 0.0, 0.0)
    first: list[str] = []
    for step in range(round(MAX_PUSH_BACK_M / PUSH_STEP_M) + 1):
        x, y, z = (float(v) for v in np.asarray(wanted.position_m) + step * PUSH_STEP_M * back)
        blocked = _in_the_way(model, data, (x, y, z), wanted.yaw_rad)
        first = first or blocked
        if not blocked:
            note = f"the base was pushed back {step * PUSH_STEP_M:.2f} m, clear of {', '.join(first)}"
            notes = (*((note,) if step else ()), *_sunk(model, data, (x, y, z)))
            return Placement((x, y, z), wanted.yaw_rad, surface, notes)
    raise JobFailed(
        "unreachable",
        f"{', '.join(first)} stands where the arm's base would, up to {MAX_PUSH_BACK_M} m back; "
        "move it, or give base=x,y,z,yaw_deg",
    )


def _sunk(model: mujoco.MjModel, data: mujoco.MjData, position: tuple[float, float, float]) -> tuple[str, ...]:
    """A note for each level plane that the base link stands well under: a low table asks for it."""
    notes = []
    for geom in np.flatnonzero(model.geom_type == mujoco.mjtGeom.mjGEOM_PLANE):
        depth = float(data.geom_xpos[geom][2]) - position[2]
        if data.geom_xmat[geom][8] > UPRIGHT_COS and depth > SUNK_M:
            notes.append(f"the base stands {depth:.2f} m under the plane '{model.geom(geom).name or f'geom {geom}'}'")
    return tuple(notes)


def _body_points() -> Array:
    """A grid through base, torso and head, from the base link, (N, 3)."""
    blocks = []
    for x0, x1, y0, y1, z0, z1 in FETCH_BODY_BOXES:
        axes = [np.linspace(lo, hi, math.ceil((hi - lo) / GRID_M) + 1) for lo, hi in ((x0, x1), (y0, y1), (z0, z1))]
        blocks.append(np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, 3))
    return np.concatenate(blocks)


_POINTS = _body_points()


def _in_the_way(
    model: mujoco.MjModel, data: mujoco.MjData, position: tuple[float, float, float], yaw: float
) -> list[str]:
    """Names of the static geoms that reach into base, torso or head; planes (the floor) do not count."""
    points = _POINTS @ BaseFrame(yaw_rad=yaw).rotation.T + np.asarray(position)
    middle, reach = points.mean(axis=0), np.linalg.norm(points - points.mean(axis=0), axis=1).max()
    names: list[str] = []
    for geom in range(model.ngeom):
        body = int(model.geom_bodyid[geom])
        collides = model.geom_contype[geom] or model.geom_conaffinity[geom]
        plane = model.geom_type[geom] == mujoco.mjtGeom.mjGEOM_PLANE
        if plane or not collides or not is_static(model, body):
            continue
        if np.linalg.norm(data.geom_xpos[geom] - middle) > reach + model.geom_rbound[geom] + CLEARANCE_M:
            continue
        if _inside(model, data, geom, points).any():
            name = model.geom(geom).name or (model.body(body).name if body else "") or f"geom {geom}"
            names.append(f"'{name}'")
    return list(dict.fromkeys(names))


def _inside(model: mujoco.MjModel, data: mujoco.MjData, geom: int, points: Array) -> NDArray[np.bool_]:
    """Which points lie in the geom grown by the clearance; meshes count as their bounding boxes."""
    local = (points - data.geom_xpos[geom]) @ data.geom_xmat[geom].reshape(3, 3)
    size, kind = model.geom_size[geom], model.geom_type[geom]
    if kind == mujoco.mjtGeom.mjGEOM_SPHERE:
        return np.linalg.norm(local, axis=1) <= size[0] + CLEARANCE_M
    if kind in (mujoco.mjtGeom.mjGEOM_CYLINDER, mujoco.mjtGeom.mjGEOM_CAPSULE):
        end = size[1] + (size[0] if kind == mujoco.mjtGeom.mjGEOM_CAPSULE else 0.0)
        round_in = np.linalg.norm(local[:, :2], axis=1) <= size[0] + CLEARANCE_M
        return round_in & (np.abs(local[:, 2]) <= end + CLEARANCE_M)
    center, half = model.geom_aabb[geom, :3], model.geom_aabb[geom, 3:]
    return (np.abs(local - center) <= half + CLEARANCE_M).all(axis=1)


def substeps(model: mujoco.MjModel, period_s: float) -> int:
    """Physics steps in one control period.

    Raises:
        SceneError: The period is no integer multiple of the scene's timestep.
    """
    count = round(period_s / model.opt.timestep)
    if count < 1 or abs(count * model.opt.timestep - period_s) > 1e-9:
        raise SceneError(
            f"the scene's timestep {model.opt.timestep:g} s does not divide the control period {period_s:g} s; "
            f"use one that does, such as 0.002"
        )
    return count
