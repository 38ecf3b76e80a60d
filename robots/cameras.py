"""Which camera looks at a scene: one of the scene's own, or a free one that shows the whole work area."""

from __future__ import annotations

import mujoco
import numpy as np
from numpy.typing import NDArray

from embodied.errors import unknown_name
from robots.base import FETCH

FREE = "free"
"""The name under which the free camera can be asked for."""

_SHAPELESS = (mujoco.mjtGeom.mjGEOM_PLANE, mujoco.mjtGeom.mjGEOM_HFIELD)
_TABLE_VIEW = (150.0, -35.0)
"""Azimuth and elevation in degrees: from the front and the robot's left, looking down on a table."""
_MAP_VIEW = (90.0, -89.0)
"""From above, world +x to the right and +y up."""
_MAP_FLATNESS = 0.15
"""A work area lower than this share of its longer side..."""
_MAP_SIZE_M = 2.5
"""... and longer than this is looked at from above: walls would hide what lies between them."""
_REACH_M = 0.05
"""Static geoms this near to a free body carry or hold it and belong to the work area."""


def camera_name(model: mujoco.MjModel, index: int) -> str:
    """The camera's name; empty where it has none."""
    return model.camera(index).name


def scene_cameras(model: mujoco.MjModel) -> tuple[str, ...]:
    """Names of the fixed cameras that are not part of the robot, in model order."""
    names = []
    for index in range(model.ncam):
        body = model.body(int(model.cam_bodyid[index])).name
        if camera_name(model, index) and not body.startswith(FETCH.body_prefix):
            names.append(camera_name(model, index))
    return tuple(names)


def resolve_camera(model: mujoco.MjModel, name: str) -> mujoco.MjvCamera:
    """The model's fixed camera of this name.

    Raises:
        UserError: No camera has the name; the message lists those there are, and `free`.
    """
    names = [camera_name(model, index) for index in range(model.ncam)]
    if name not in names or not name:
        raise unknown_name("camera", name, {n for n in names if n} | {FREE})
    camera = mujoco.MjvCamera()
    camera.type = mujoco.mjtCamera.mjCAMERA_FIXED
    camera.fixedcamid = names.index(name)
    return camera


def choose_camera(model: mujoco.MjModel, data: mujoco.MjData, name: str | None) -> tuple[mujoco.MjvCamera, str]:
    """The camera for `name` and what it is called: None is the scene's first own camera, else the free one."""
    if name is None:
        name = next(iter(scene_cameras(model)), FREE)
    if name == FREE and FREE not in (camera_name(model, i) for i in range(model.ncam)):
        return default_camera(model, data), FREE
    return resolve_camera(model, name), name


def default_camera(model: mujoco.MjModel, data: mujoco.MjData) -> mujoco.MjvCamera:
    """A free camera that shows the whole work area; `data` must hold positions (`mj_forward`).

    The work area is the box round the free bodies and what carries them, else round everything static, and the
    gripper where there is one. It is fitted into a square picture, so it fits into any wider one.
    """
    low, high = _work_area(model, data)
    size = high - low
    flat = size[2] < _MAP_FLATNESS * max(size[0], size[1]) and max(size[0], size[1]) > _MAP_SIZE_M
    camera = mujoco.MjvCamera()
    camera.type = mujoco.mjtCamera.mjCAMERA_FREE
    camera.azimuth, camera.elevation = _MAP_VIEW if flat else _TABLE_VIEW
    camera.lookat[:] = (low + high) / 2
    camera.distance = _fitting_distance(size / 2, camera.azimuth, camera.elevation, model.vis.global_.fovy)
    return camera


def _fitting_distance(half: NDArray[np.float64], azimuth: float, elevation: float, fovy: float) -> float:
    """How far from a box's centre a camera sees its 8 corners, with a margin."""
    az, el = np.radians([azimuth, elevation])
    forward = np.array([np.cos(el) * np.cos(az), np.cos(el) * np.sin(az), np.sin(el)])
    right = np.array([np.sin(az), -np.cos(az), 0.0])
    up = np.cross(right, forward)
    corners = np.array([[x, y, z] for x in (-1, 1) for y in (-1, 1) for z in (-1, 1)]) * half
    lateral = np.maximum(np.abs(corners @ right), np.abs(corners @ up))
    return float(1.08 * np.max(lateral / np.tan(np.radians(fovy) / 2) - corners @ forward))


def _work_area(model: mujoco.MjModel, data: mujoco.MjData) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    shaped = [g for g in range(model.ngeom) if _counts(model, g)]
    free = [g for g in shaped if _is_free(model, g)]
    boxes = {g: _geom_box(model, data, g) for g in shaped}
    static = [g for g in shaped if model.body_weldid[model.geom_bodyid[g]] == 0]
    if free:
        moving = [boxes[g] for g in free]
        static = [g for g in static if any(_near(boxes[g], box) for box in moving)]
    chosen = [boxes[g] for g in (*free, *static)]
    grip = mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_SITE, FETCH.grip_site)
    if grip >= 0:
        chosen.append((data.site_xpos[grip] - 0.1, data.site_xpos[grip] + 0.1))
    if not chosen:
        center, extent = np.array(model.stat.center), max(float(model.stat.extent), 0.1) / 2
        return center - extent, center + extent
    lows, highs = zip(*chosen, strict=True)
    return np.min(lows, axis=0), np.max(highs, axis=0)


def _counts(model: mujoco.MjModel, geom: int) -> bool:
    if model.geom_type[geom] in _SHAPELESS:
        return False
    return not model.body(int(model.geom_bodyid[geom])).name.startswith(FETCH.body_prefix)


def _is_free(model: mujoco.MjModel, geom: int) -> bool:
    root = model.body_rootid[model.geom_bodyid[geom]]
    joint = model.body_jntadr[root]
    return joint >= 0 and model.jnt_type[joint] == mujoco.mjtJoint.mjJNT_FREE


def _geom_box(model: mujoco.MjModel, data: mujoco.MjData, geom: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    rotation = data.geom_xmat[geom].reshape(3, 3)
    center = data.geom_xpos[geom] + rotation @ model.geom_aabb[geom, :3]
    half = np.abs(rotation) @ model.geom_aabb[geom, 3:]
    return center - half, center + half


def _near(
    a: tuple[NDArray[np.float64], NDArray[np.float64]], b: tuple[NDArray[np.float64], NDArray[np.float64]]
) -> bool:
    return bool(np.all(a[0] <= b[1] + _REACH_M) and np.all(b[0] <= a[1] + _REACH_M))
