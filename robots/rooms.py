"""Any MJCF scene with a site `start`, and a ball in it that forces push along x and y: a `SceneEnv` to drive in.

The ball is that of Gymnasium-Robotics' point mazes (radius, density, damping, motors), so that a controller trained
there meets the same dynamics. Frame B is the pose of the site, x along the world's.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import mujoco
import numpy as np
from numpy.typing import NDArray

from embodied.errors import JobFailed, SceneError
from embodied.spec import EnvSpec, Layout
from embodied.types import BaseFrame, FloatArray, Goal, Observation
from robots.assembly import build_point_scene
from robots.base import POINT_ACTIONS, POINT_STATE_TERMS, POSITION_GOAL
from robots.goal_scene import GoalScene, Simulation
from robots.maze import MAX_SPEED, PLANAR, ROBOT, TOLERANCE_M
from robots.placement import Placement, substeps
from robots.rewards import PositiveSparseReward
from robots.scene import SceneFile, scene_file, scene_model

START = "start"
RADIUS_M = 0.1
ABOVE_FLOOR_M = 0.05
"""The ball hangs so far above the floor under the site: its slide joints carry it."""
CONTROL_PERIOD_S = 0.01
HORIZON = 1000
CELL_M = 0.1
MOST_CELLS = 400
"""Along one side of a floor; larger ones get larger cells."""
LEVELS = 6
"""Clearances that are told apart, in cells."""
STUCK_M = 0.005
"""A ball that is this deep in something cannot stand there."""


@dataclass(frozen=True)
class Floor:
    """Where the robot can stand, on a grid in B."""

    corner_m: tuple[float, float]
    """Centre of cell [0, 0]."""
    cell_m: float
    clearance: NDArray[np.int8]
    """(X, Y): 0 where something is in the way, else cells to the nearest such place, at most 6."""
    movable: tuple[str, ...] = ()
    """Bodies with joints that stand in the way as they are now: doors."""


class RoomsEnv(GoalScene):
    """A scene with the ball in it.

    State (4,): position in m and velocity in m/s, x and y in B. One entity, `robot`. Goals are positions with z masked
    out. Actions are forces within 1 of either sign, in units of 100 N.

    Args:
        scene: A shipped scene's name or a path to an MJCF file.
        out_dir: Where `scene_compiled.xml` and its assets are written; a temporary folder without it.

    Raises:
        SceneError: The scene cannot be used.
        JobFailed: `unreachable`: there is no site `start`, or no room for the robot there.
    """

    def __init__(self, scene: str | Path | SceneFile, out_dir: Path | None = None) -> None:
        file = scene_file(scene)
        self.scene_path = file.path
        start, floor_m = start_of(file)
        at = (start[0], start[1], floor_m + RADIUS_M + ABOVE_FLOOR_M)
        self._scene = built = build_point_scene(file, at, RADIUS_M, out_dir)
        frame = BaseFrame(start, 0.0)
        self.compiled_scene: Path = built.path
        self.placement = Placement(at, 0.0, None)
        super().__init__(
            Simulation(built.model, mujoco.MjData(built.model), frame, built.robot),
            _spec(), PositiveSparseReward(TOLERANCE_M),
        )  # fmt: skip
        body = self.model.body(built.robot.base_body).id
        joint = int(self.model.body_jntadr[body])
        self._qpos, self._qvel = int(self.model.jnt_qposadr[joint]), int(self.model.jnt_dofadr[joint])
        self._motors = [self.model.actuator(f"{built.robot.body_prefix}motor_{axis}").id for axis in "xy"]
        self._geom = int(self.model.body_geomadr[body])
        self._substeps = substeps(self.model, CONTROL_PERIOD_S)
        self._features = np.zeros((1, 0), dtype=np.float32)

    def record(self) -> tuple[float, NDArray[np.float64], NDArray[np.float64]]:
        """(time in s, qpos, qvel) now."""
        return float(self.data.time), self.data.qpos.copy(), self.data.qvel.copy()

    def close(self) -> None:
        """Frees the renderer and the files of the compiled scene."""
        super().close()
        if self._scene.folder is not None:
            self._scene.folder.cleanup()

    def floor(self) -> Floor:
        """Where the ball can stand as everything else is now, found by collisions of the ball itself."""
        open_, corner, cell = self._stands()
        doors = self._doors()
        if doors:
            affinity = self.model.geom_contype.copy(), self.model.geom_conaffinity.copy()
            ids = [g for g in range(self.model.ngeom) if int(self.model.geom_bodyid[g]) in doors]
            self.model.geom_contype[ids] = self.model.geom_conaffinity[ids] = 0
            without, _, _ = self._stands()
            self.model.geom_contype[:], self.model.geom_conaffinity[:] = affinity
            doors = doors if (without & ~open_).any() else {}
        return Floor(corner, cell, clearance_of(open_), tuple(doors.values()))

    def _doors(self) -> dict[int, str]:
        """Bodies that joints move, the ball and free bodies left out: id to name."""
        free = set(self.model.jnt_bodyid[self.model.jnt_type == mujoco.mjtJoint.mjJNT_FREE].tolist())
        found = {}
        for body in range(1, self.model.nbody):
            root = int(self.model.body_rootid[body])
            name = self.model.body(body).name
            moved = self.model.body_weldid[body] != 0 and root not in free
            if moved and not name.startswith(self.robot.body_prefix):
                found[body] = name
        return found

    def _stands(self) -> tuple[NDArray[np.bool_], tuple[float, float], float]:
        """(X, Y) cells in which the ball touches nothing, the first one's centre in B, and their size."""
        data = self._simulation.snapshot.of(self.data)
        low, high = self._span(data)
        cell = max(CELL_M, float(np.max(high - low)) / MOST_CELLS)
        counts = np.ceil((high - low) / cell).astype(int) + 1
        free = np.ones(tuple(counts), dtype=bool)
        contact, x, y = data.contact, low[0], low[1]
        for i in range(counts[0]):
            for j in range(counts[1]):
                data.qpos[self._qpos : self._qpos + 2] = x + i * cell, y + j * cell
                mujoco.mj_kinematics(self.model, data)
                mujoco.mj_comPos(self.model, data)
                mujoco.mj_collision(self.model, data)
                free[i, j] = not (contact.geom == self._geom).any()
        return free, (float(x), float(y)), cell

    def _span(self, data: mujoco.MjData) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Lowest and highest x, y in B of all that has a size, and of the ball."""
        points = [data.geom_xpos[self._geom][:2]]
        for geom in range(self.model.ngeom):
            if self.model.geom_type[geom] not in (mujoco.mjtGeom.mjGEOM_PLANE, mujoco.mjtGeom.mjGEOM_HFIELD):
                radius = self.model.geom_rbound[geom]
                points += [data.geom_xpos[geom][:2] - radius, data.geom_xpos[geom][:2] + radius]
        origin = np.asarray(self.frame.origin_m[:2])
        low, high = np.min(points, axis=0) - origin, np.max(points, axis=0) - origin
        return low, high

    def _begin(self, seed: int) -> tuple[Observation, Goal]:
        """The scene as its file has it, the ball at rest on the site; the goal is to stay there."""
        del seed
        mujoco.mj_resetData(self.model, self.data)
        mujoco.mj_forward(self.model, self.data)
        deep = min((c.dist for c in self.data.contact if self._geom in (c.geom1, c.geom2)), default=0.0)
        if deep < -STUCK_M:
            raise JobFailed("unreachable", f"the robot has no room at the site '{START}': something stands there")
        observation = self._observe()
        return observation, Goal(ROBOT, observation.achieved[0], np.array(PLANAR))

    def _simulate(self, action: FloatArray) -> None:
        speed = self.data.qvel[self._qvel : self._qvel + 2]
        np.clip(speed, -MAX_SPEED, MAX_SPEED, out=speed)
        self.data.ctrl[self._motors] = action
        mujoco.mj_step(self.model, self.data, self._substeps)
        if not np.isfinite(self.data.qpos).all():
            raise SceneError("the simulation of the scene became unstable; use a timestep of 0.01 or less")

    def _observe(self) -> Observation:
        x, y = (float(v) for v in self.data.qpos[self._qpos : self._qpos + 2])
        u, v = (float(v) for v in self.data.qvel[self._qvel : self._qvel + 2])
        numbers = np.array((x, y, 0.0, x, y, u, v), dtype=np.float32)
        return Observation(numbers[3:], self._features, numbers[None, :3], self._layout)


def start_of(scene: SceneFile) -> tuple[tuple[float, float, float], float]:
    """World position of the site `start`, and the height of the floor under it (the site's own where there is none).

    Raises:
        JobFailed: `unreachable`: there is no such site.
    """
    model = scene_model(scene)
    data = mujoco.MjData(model)
    mujoco.mj_forward(model, data)
    site = mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_SITE, START)
    if site < 0:
        raise JobFailed("unreachable", f"the point robot needs a site '{START}' in the scene to begin at")
    x, y, z = (float(v) for v in data.site_xpos[site])
    hit = np.zeros(1, dtype=np.int32)
    fall = mujoco.mj_ray(model, data, np.array([x, y, z]), np.array([0, 0, -1.0]), None, 1, -1, hit)
    return (x, y, z), z - max(fall, 0.0)


def clearance_of(free: NDArray[np.bool_]) -> NDArray[np.int8]:
    """For each cell how many rings of free cells lie round it, itself counted, at most `LEVELS`; 0 where taken."""
    level, found = free, free.astype(np.int8)
    for _ in range(LEVELS - 1):
        padded = np.pad(level, 1, constant_values=False)
        parts = [padded[i : i + free.shape[0], j : j + free.shape[1]] for i in range(3) for j in range(3)]
        level = np.logical_and.reduce(parts)
        found += level
    return found


def _spec() -> EnvSpec:
    return EnvSpec(
        task="rooms",
        robot="point",
        layout=Layout(robot=POINT_STATE_TERMS, entity=(), goal=POSITION_GOAL, entities=(ROBOT,)),
        actions=POINT_ACTIONS,
        action_low=(-1.0, -1.0),
        action_high=(1.0, 1.0),
        horizon=HORIZON,
        control_hz=1.0 / CONTROL_PERIOD_S,
        tolerance=TOLERANCE_M,
        success_rule="any",
        reward_range=(0.0, 1.0),
        goal_entity=ROBOT,
        skills=("go_to", "hold"),
    )
