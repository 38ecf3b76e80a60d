"""Gymnasium-Robotics' point mazes (`PointMaze_*-v3`) as continuing tasks whose target stays where it is.

https://robotics.farama.org/envs/maze/point_maze/ ; Fu et al. 2020, arXiv 2004.07219. Frame B is the world.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import mujoco
import numpy as np

from embodied.errors import unknown_name
from embodied.spec import EnvSpec, Layout
from embodied.types import BaseFrame, FloatArray, Goal, Observation
from robots.base import POINT, POINT_ACTIONS, POINT_STATE_TERMS, POSITION_GOAL, load_gymnasium
from robots.goal_scene import GoalScene, Simulation
from robots.rewards import PositiveSparseReward

ROBOT = "robot"
TOLERANCE_M = 0.45
"""Gymnasium-Robotics writes this distance into its reward function; it has no name there."""
MAX_SPEED = 5.0
"""`PointEnv._clip_velocity`, m/s along x and along y."""
PLANAR = (True, True, False)

TASKS = {
    "point_umaze": "PointMaze_UMaze-v3",
    "point_medium": "PointMaze_Medium-v3",
    "point_large": "PointMaze_Large-v3",
}


class PointMazeEnv(GoalScene):
    """A point mass in a maze as a `SceneEnv`.

    State (4,): position in m and velocity in m/s, x and y. One entity, `robot`, without features. Goals are positions
    with z masked out; z of the achieved position is 0. Actions are forces within ±1, in units of 100 N.

    Gymnasium-Robotics' environment builds the model and begins the episodes; steps are taken on its model and data as
    `PointEnv.step` takes them.
    """

    def __init__(self, task: str) -> None:
        if task not in TASKS:
            raise unknown_name("task", task, TASKS)
        self._env = env = _make(TASKS[task])
        spec = _make_spec(task, 1.0 / round(float(env.point_env.dt), 9))
        reward, marker = PositiveSparseReward(spec.tolerance), ("target", [0, 1])
        super().__init__(Simulation(env.model, env.data, BaseFrame(), POINT), spec, reward, marker)
        self._qpos, self._qvel, self._ctrl = env.data.qpos, env.data.qvel, env.data.ctrl
        self._features = np.zeros((1, 0), dtype=np.float32)

    def close(self) -> None:
        """Frees the renderer and the simulation."""
        super().close()
        self._env.close()

    def _begin(self, seed: int) -> tuple[Observation, Goal]:
        """Gymnasium's episode for this seed."""
        raw, _ = self._env.reset(seed=seed)
        return self._observe(), Goal(ROBOT, np.append(raw["desired_goal"], 0.0), np.array(PLANAR))

    def _simulate(self, action: FloatArray) -> None:
        x, y = self._qvel.tolist()
        if not (-MAX_SPEED <= x <= MAX_SPEED and -MAX_SPEED <= y <= MAX_SPEED):
            np.clip(self._qvel, -MAX_SPEED, MAX_SPEED, out=self._qvel)
        self._ctrl[:] = action
        mujoco.mj_step(self.model, self.data)

    def _observe(self) -> Observation:
        x, y = self._qpos.tolist()
        numbers = np.array((x, y, 0.0, x, y, *self._qvel.tolist()), dtype=np.float32)
        return Observation(numbers[3:], self._features, numbers[None, :3], self._layout)


def _make(env_id: str) -> Any:
    make = load_gymnasium().make
    env = make(env_id, disable_env_checker=True, continuing_task=True, reset_target=False).unwrapped
    # Gymnasium-Robotics writes the maze to the folder for temporary files and leaves it there.
    Path(env.tmp_xml_file_path).unlink(missing_ok=True)
    return env


def _make_spec(task: str, control_hz: float) -> EnvSpec:
    return EnvSpec(
        task=task,
        robot=POINT.name,
        layout=Layout(robot=POINT_STATE_TERMS, entity=(), goal=POSITION_GOAL, entities=(ROBOT,)),
        actions=POINT_ACTIONS,
        action_low=(-1.0, -1.0),
        action_high=(1.0, 1.0),
        horizon=int(load_gymnasium().spec(TASKS[task]).max_episode_steps),
        control_hz=control_hz,
        tolerance=TOLERANCE_M,
        success_rule="any",
        reward_range=(0.0, 1.0),
        goal_entity=ROBOT,
        skills=("go_to", "hold"),
    )
