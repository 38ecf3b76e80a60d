"""Gymnasium-Robotics' point mazes (`PointMaze_*-v3`) as continuing tasks whose target stays where it is.

https://robotics.farama.org/envs/maze/point_maze/ ; Fu et al. 2020, arXiv 2004.07219. Frame B is the world.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import mujoco
import numpy as np
from numpy.typing import NDArray

from embodied.errors import unknown_name
from embodied.spec import EnvSpec, Layout
from embodied.types import BaseFrame, FloatArray, Frame, Goal, Observation, SceneState, Step
from robots.base import (
    POINT,
    POINT_ACTIONS,
    POINT_STATE_TERMS,
    POSITION_GOAL,
    Snapshot,
    clip_action,
    load_gymnasium,
    no_goal,
)
from robots.rendering import SceneRenderer
from robots.rewards import PositiveSparseReward

ROBOT = "robot"
TOLERANCE_M = 0.45
"""Gymnasium-Robotics writes this distance into its reward function; it has no name there."""
PLANAR = (True, True, False)

TASKS = {
    "point_umaze": "PointMaze_UMaze-v3",
    "point_medium": "PointMaze_Medium-v3",
    "point_large": "PointMaze_Large-v3",
}


class PointMazeEnv:
    """A point mass in a maze as a `SceneEnv`.

    State (4,): position in m and velocity in m/s, x and y. One entity, `robot`, without features. Goals are positions
    with z masked out; z of the achieved position is 0. Actions are forces within ±1, in units of 100 N.
    """

    def __init__(self, task: str) -> None:
        if task not in TASKS:
            raise unknown_name("task", task, TASKS)
        self._env = _make(TASKS[task])
        self.model: mujoco.MjModel = self._env.model
        self.data: mujoco.MjData = self._env.data
        self.frame = BaseFrame()
        self.spec = _make_spec(task, 1.0 / round(float(self._env.point_env.dt), 9))
        self.reward = PositiveSparseReward(self.spec.tolerance)
        self._goal = no_goal(ROBOT, self.spec.layout.goal_width)
        self._steps = 0
        self._snapshot = Snapshot(self.model)
        self._renderer = SceneRenderer(self.model)
        self._target_site = self.model.site("target").id
        self._reader: Any = None

    @property
    def goal(self) -> Goal:
        """The goal of the current episode; before the first it says nothing (its mask is false)."""
        return self._goal

    def reset(self, seed: int) -> Observation:
        """Gymnasium's episode for this seed."""
        raw, _ = self._env.reset(seed=seed)
        self._steps = 0
        self.set_goal(Goal(ROBOT, np.append(raw["desired_goal"], 0.0), np.array(PLANAR)))
        return self._observation(raw)

    def step(self, action: FloatArray) -> Step:
        """One control period of 0.01 s; an episode goes on after its time limit for as long as it is stepped."""
        goal = self.goal
        executed = clip_action(action, self.spec)
        raw, _, _, _, _ = self._env.step(executed)
        self._steps += 1
        observation = self._observation(raw)
        outcome = self.reward(observation.achieved, goal.value[None], goal.mask[None])
        return Step(
            observation=observation,
            action=executed,
            reward=float(outcome.reward[0]),
            terminated=False,
            truncated=self._steps >= self.spec.horizon,
            success=bool(outcome.success[0]),
        )

    def set_goal(self, goal: Goal) -> None:
        """Pursue this goal from now on."""
        self.spec.layout.entity_index(goal.entity)
        self._goal = goal

    def scene_state(self) -> SceneState:
        """The scene at the simulation's present qpos and qvel."""
        if self._reader is None:
            from robots.scene_state import SceneReader

            self._reader = SceneReader(self.model, self.frame, POINT)
        return self._reader.read(self._snapshot.of(self.data))

    def render(self, camera: str | None = None, width: int = 320, height: int = 240, depth: bool = False) -> Frame:
        """A picture, from above unless a camera is named, with the goal as a red ball; nothing is changed by it."""
        data = self._snapshot.of(self.data)
        if self._goal.mask[:2].all():
            data.site_xpos[self._target_site, :2] = self._goal.value[:2]
        return self._renderer.render(data, camera, width, height, depth)

    def close(self) -> None:
        """Frees the renderer and the simulation."""
        self._renderer.close()
        self._env.close()

    def _observation(self, raw: dict[str, NDArray[np.float64]]) -> Observation:
        achieved = np.append(raw["achieved_goal"], 0.0).astype(np.float32)[None]
        entities = np.zeros((1, 0), dtype=np.float32)
        return Observation(raw["observation"].astype(np.float32), entities, achieved, self.spec.layout)


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
