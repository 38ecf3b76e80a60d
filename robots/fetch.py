"""Gymnasium-Robotics' Fetch tasks (`Fetch*-v4`): same resets, dynamics, numbers and tolerance, without its wrappers.

https://robotics.farama.org/envs/fetch/ ; Plappert et al. 2018, arXiv 1802.09464. The robot's base frame B is chosen to
be Gymnasium's world there, so that observations equal Gymnasium's numbers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import mujoco
import numpy as np

from embodied.errors import UserError, unknown_name
from embodied.spec import EnvSpec
from embodied.types import GRIPPER, BaseFrame, FloatArray, Goal, Observation
from robots.base import FETCH, fetch_task_spec, load_gymnasium
from robots.fetch_arm import euler_angles
from robots.goal_scene import GoalScene, Simulation
from robots.rewards import NegativeSparseReward

OBJECT = "object0"

_SCALES = np.array([0.05, 0.05, 0.05, 1.0], dtype=np.float32)
"""`pos_ctrl *= 0.05` in `BaseFetchEnv._set_action`, on a float32 array."""
_GRIP_QUATERNION = np.array([1.0, 0.0, 1.0, 0.0])
"""The fixed rotation of the end effector there."""


@dataclass(frozen=True)
class FetchTask:
    """One of the Fetch tasks."""

    env_id: str
    has_object: bool
    skills: tuple[str, ...]


TASKS = {
    "fetch_reach": FetchTask("FetchReach-v4", False, ("reach", "touch", "hold")),
    "fetch_push": FetchTask("FetchPush-v4", True, ("push",)),
    "fetch_pick_place": FetchTask("FetchPickAndPlace-v4", True, ("pick", "place", "push")),
    "fetch_slide": FetchTask("FetchSlide-v4", True, ()),
}


class FetchEnv(GoalScene):
    """A Fetch task as a `SceneEnv`.

    State (10,): grip position, finger positions, grip velocity, finger velocities. Entities: `gripper` and, where the
    task has one, `object0`, each with 16 features (`robots.base.entity_rows`). Goals are positions in metres. Actions
    are within ±1: a move of the grip in units of 0.05 m and the fingers.

    Gymnasium's own environment builds the model and begins the episodes; steps are taken on its model and data, with
    the arithmetic of `MujocoFetchEnv` in the same order and precision.
    """

    def __init__(self, task: str) -> None:
        if task not in TASKS:
            raise unknown_name("task", task, TASKS)
        self._task = TASKS[task]
        self._env = env = _make(self._task.env_id)
        spec = _make_spec(task, self._task, env)
        marker = ("target0", [0, 1, 2])
        simulation = Simulation(env.model, env.data, BaseFrame(), FETCH)
        super().__init__(simulation, spec, NegativeSparseReward(spec.tolerance), marker)
        self._seed = load_gymnasium().Env.reset
        self._arm = _Arm(env)
        self._block = _Block(env) if self._task.has_object else None
        self._features = np.zeros((1, 0), dtype=np.float32)

    def close(self) -> None:
        """Frees the renderer and the simulation."""
        super().close()
        self._env.close()

    def _begin(self, seed: int) -> tuple[Observation, Goal]:
        """Gymnasium's episode for this seed: the steps of `BaseRobotEnv.reset`, without its observation."""
        env = self._env
        self._seed(env, seed=seed)
        while not env._reset_sim():
            pass
        return self._observe(), Goal(self.spec.goal_entity, env._sample_goal(), np.ones(3, dtype=bool))

    def _simulate(self, action: FloatArray) -> None:
        self._arm.step(action)

    def _observe(self) -> Observation:
        arm, block = self._arm, self._block
        gx, gy, gz = grip = arm.grip.tolist()
        u, v, w = arm.velocity()
        left, right = arm.fingers.tolist()
        closing, opening = arm.finger_speeds.tolist()
        period = arm.period_s
        state = (gx, gy, gz, left, right, u, v, w, closing * period, opening * period)
        if block is None:
            numbers = np.array((*state, *grip), dtype=np.float32)
            return Observation(numbers[:10], self._features, numbers[10:].reshape(1, 3), self._layout)
        x, y, z = place = block.position.tolist()
        (a, b, c), (d, e, f) = block.velocities()
        moving = (a - u, b - v, c - w, d, e, f)
        row = (x, y, z, x - gx, y - gy, z - gz, *euler_angles(block.matrix.tolist()), *moving)
        # The gripper's row shows the only object there is, as `robots.base.entity_rows` has it.
        numbers = np.array((*state, *row, 1.0, *row, 0.0, *grip, *place), dtype=np.float32)
        return Observation(numbers[:10], numbers[10:42].reshape(2, 16), numbers[42:].reshape(2, 3), self._layout)


class _Arm:
    """The arm in Gymnasium's Fetch model: `MujocoFetchEnv._set_action`, `_step_callback` and what `_get_obs` reads.

    Views into the simulation's arrays are taken once; MuJoCo never moves them.
    """

    def __init__(self, env: Any) -> None:
        self._model, self._data = model, data = env.model, env.data
        self._substeps, self.period_s = env.n_substeps, env.dt
        self._blocked = bool(env.block_gripper)
        hand, mocap = model.body("robot0:gripper_link").id, int(model.body_mocapid[model.body("robot0:mocap").id])
        self._hand_position, self._hand_quaternion = data.xpos[hand], data.xquat[hand]
        self._lead_position, self._lead_quaternion = data.mocap_pos[mocap], data.mocap_quat[mocap]
        last = max(j for j in range(model.njnt) if model.joint(j).name.startswith("robot0:"))
        position, speed = int(model.jnt_qposadr[last]), int(model.jnt_dofadr[last])
        self.fingers, self.finger_speeds = data.qpos[position - 1 : position + 1], data.qvel[speed - 1 : speed + 1]
        # The left finger's joint is the later one; its actuator, where there are any, is the first.
        self._driven = self.fingers[::-1] if model.nu else None
        self._qvel, self._ctrl = data.qvel, data.ctrl
        self._site = model.site("robot0:grip").id
        self.grip = data.site_xpos[self._site]
        self._jacobian = np.zeros((3, model.nv))

    def step(self, action: FloatArray) -> None:
        """One control period, after which the positions that are observed are those that Gymnasium observes."""
        model, data = self._model, self._data
        np.add(self._hand_position, (action * _SCALES)[:3], out=self._lead_position)
        np.add(self._hand_quaternion, _GRIP_QUATERNION, out=self._lead_quaternion)
        if self._driven is not None:
            np.add(self._driven, 0.0 if self._blocked else float(action[3]), out=self._ctrl)
        mujoco.mj_step(model, data, self._substeps)
        if self._blocked:
            self.fingers[:] = 0.0
            # Gymnasium calls mj_forward here; nothing beyond positions and motion axes is read before the next step.
            mujoco.mj_kinematics(model, data)
            mujoco.mj_comPos(model, data)

    def velocity(self) -> list[float]:
        """Of the grip, (3,), in m per control period."""
        mujoco.mj_jacSite(self._model, self._data, self._jacobian, None, self._site)
        x, y, z = self._jacobian.dot(self._qvel).tolist()
        period = self.period_s
        return [x * period, y * period, z * period]


class _Block:
    """The object in Gymnasium's Fetch model: what `MujocoFetchEnv._get_obs` reads of it."""

    def __init__(self, env: Any) -> None:
        self._model, self._data, self._period_s = env.model, env.data, env.dt
        self._site = self._model.site(OBJECT).id
        self.position, self.matrix = self._data.site_xpos[self._site], self._data.site_xmat[self._site]
        self._qvel = self._data.qvel
        self._linear, self._angular = np.zeros((3, self._model.nv)), np.zeros((3, self._model.nv))

    def velocities(self) -> tuple[list[float], list[float]]:
        """Linear and angular, (3,) each, in m and rad per control period."""
        mujoco.mj_jacSite(self._model, self._data, self._linear, self._angular, self._site)
        period = self._period_s
        x, y, z = self._linear.dot(self._qvel).tolist()
        a, b, c = self._angular.dot(self._qvel).tolist()
        return [x * period, y * period, z * period], [a * period, b * period, c * period]


def _make_spec(name: str, task: FetchTask, env: Any) -> EnvSpec:
    return fetch_task_spec(
        name,
        entities=(GRIPPER, OBJECT) if task.has_object else (GRIPPER,),
        goal_entity=OBJECT if task.has_object else GRIPPER,
        horizon=int(load_gymnasium().spec(task.env_id).max_episode_steps),
        control_hz=1.0 / round(float(env.dt), 9),
        tolerance=float(env.distance_threshold),
        skills=task.skills,
        featured=task.has_object,
    )


def _make(env_id: str) -> Any:
    try:
        return load_gymnasium().make(env_id, disable_env_checker=True).unwrapped
    except AssertionError:
        raise UserError(
            f"{env_id} does not run with mujoco {mujoco.__version__}: install a version from 3.8 on and below 3.12 "
            "(pip install 'mujoco>=3.8,<3.12')"
        ) from None
