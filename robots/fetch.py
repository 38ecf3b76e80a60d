"""Gymnasium-Robotics' Fetch tasks (`Fetch*-v4`): same resets, dynamics, numbers and tolerance, without its wrappers.

https://robotics.farama.org/envs/fetch/ ; Plappert et al. 2018, arXiv 1802.09464. The robot's base frame B is chosen to
be Gymnasium's world there, so that observations equal Gymnasium's numbers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import mujoco
import numpy as np
from numpy.typing import NDArray

from embodied.errors import UserError, unknown_name
from embodied.spec import EnvSpec, Layout
from embodied.types import GRIPPER, BaseFrame, FloatArray, Frame, Goal, Observation, SceneState, Step
from robots.base import (
    ENTITY_TERMS,
    FETCH,
    FETCH_ACTIONS,
    FETCH_STATE_TERMS,
    POSITION_GOAL,
    Snapshot,
    clip_action,
    entity_rows,
    load_gymnasium,
    no_goal,
)
from robots.rendering import SceneRenderer
from robots.rewards import NegativeSparseReward

OBJECT = "object0"

_STATE_WITH_OBJECT = np.r_[0:3, 9:11, 20:23, 23:25]
_OBJECT_COLUMNS = np.r_[3:9, 11:20]
"""Where Gymnasium's 25 numbers hold the robot's terms and the object's; without an object there are only the former."""


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


class FetchEnv:
    """A Fetch task as a `SceneEnv`.

    State (10,): grip position, finger positions, grip velocity, finger velocities. Entities: `gripper` and, where the
    task has one, `object0`, each with 16 features (`robots.base.entity_rows`). Goals are positions in metres. Actions
    are within ±1: a move of the grip in units of 0.05 m and the fingers.
    """

    def __init__(self, task: str) -> None:
        if task not in TASKS:
            raise unknown_name("task", task, TASKS)
        self._task = TASKS[task]
        self._env = _make(self._task.env_id)
        self.model: mujoco.MjModel = self._env.model
        self.data: mujoco.MjData = self._env.data
        self.frame = BaseFrame()
        self.spec = self._make_spec(task)
        self.reward = NegativeSparseReward(self.spec.tolerance)
        self._goal_row = 0
        self._goal = no_goal(self.spec.goal_entity, self.spec.layout.goal_width)
        self._steps = 0
        self._snapshot = Snapshot(self.model)
        self._renderer = SceneRenderer(self.model)
        self._target_site = self.model.site("target0").id
        self._reader: Any = None

    @property
    def goal(self) -> Goal:
        """The goal of the current episode; before the first it says nothing (its mask is false)."""
        return self._goal

    def reset(self, seed: int) -> Observation:
        """Gymnasium's episode for this seed."""
        raw, _ = self._env.reset(seed=seed)
        self._steps = 0
        self.set_goal(Goal(self.spec.goal_entity, raw["desired_goal"], np.ones(3, dtype=bool)))
        return self._observation(raw)

    def step(self, action: FloatArray) -> Step:
        """One control period of 0.04 s; an episode goes on after its time limit for as long as it is stepped."""
        goal = self.goal
        executed = clip_action(action, self.spec)
        raw, _, _, _, _ = self._env.step(executed)
        self._steps += 1
        observation = self._observation(raw)
        outcome = self.reward(observation.achieved[[self._goal_row]], goal.value[None], goal.mask[None])
        return Step(
            observation=observation,
            action=executed,
            reward=float(outcome.reward[0]),
            terminated=False,
            truncated=self._steps >= self.spec.horizon,
            success=bool(outcome.success[0]),
        )

    def set_goal(self, goal: Goal) -> None:
        """Pursue this goal, of any entity, from now on."""
        self._goal_row = self.spec.layout.entity_index(goal.entity)
        self._goal = goal

    def scene_state(self) -> SceneState:
        """The scene at the simulation's present qpos and qvel."""
        if self._reader is None:
            from robots.scene_state import SceneReader

            self._reader = SceneReader(self.model, self.frame, FETCH)
        return self._reader.read(self._snapshot.of(self.data))

    def render(self, camera: str | None = None, width: int = 320, height: int = 240, depth: bool = False) -> Frame:
        """A picture, with the goal as a red ball where it is a position; the simulation is not touched."""
        data = self._snapshot.of(self.data)
        if self._goal.mask.all():
            data.site_xpos[self._target_site] = self.frame.to_world(self._goal.value.astype(np.float64))
        return self._renderer.render(data, camera, width, height, depth)

    def close(self) -> None:
        """Frees the renderer and the simulation."""
        self._renderer.close()
        self._env.close()

    def _observation(self, raw: dict[str, NDArray[np.float64]]) -> Observation:
        numbers = raw["observation"].astype(np.float32)
        if not self._task.has_object:
            achieved = raw["achieved_goal"].astype(np.float32)[None]
            return Observation(numbers, np.zeros((1, 0), dtype=np.float32), achieved, self.spec.layout)
        entities = entity_rows(numbers[None, _OBJECT_COLUMNS])
        achieved = np.stack([numbers[:3], raw["achieved_goal"].astype(np.float32)])
        return Observation(numbers[_STATE_WITH_OBJECT], entities, achieved, self.spec.layout)

    def _make_spec(self, task: str) -> EnvSpec:
        has_object = self._task.has_object
        layout = Layout(
            robot=FETCH_STATE_TERMS,
            entity=ENTITY_TERMS if has_object else (),
            goal=POSITION_GOAL,
            entities=(GRIPPER, OBJECT) if has_object else (GRIPPER,),
        )
        return EnvSpec(
            task=task,
            robot=FETCH.name,
            layout=layout,
            actions=FETCH_ACTIONS,
            action_low=(-1.0,) * 4,
            action_high=(1.0,) * 4,
            horizon=int(load_gymnasium().spec(self._task.env_id).max_episode_steps),
            control_hz=1.0 / round(float(self._env.dt), 9),
            tolerance=float(self._env.distance_threshold),
            success_rule="last",
            reward_range=(-1.0, 0.0),
            goal_entity=OBJECT if has_object else GRIPPER,
            skills=self._task.skills,
        )


def _make(env_id: str) -> Any:
    try:
        return load_gymnasium().make(env_id, disable_env_checker=True).unwrapped
    except AssertionError:
        raise UserError(
            f"{env_id} does not run with mujoco {mujoco.__version__}: install a version from 3.8 on and below 3.12 "
            "(pip install 'mujoco>=3.8,<3.12')"
        ) from None
