"""What the environments of this package that are MuJoCo scenes with goals have in common.

A step costs little more than its physics: nothing is looked up by name, no dictionary is made, and single pairs of
goals are judged without arrays.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import cached_property
from typing import Protocol

import mujoco
import numpy as np

from embodied.protocols import GoalReward
from embodied.spec import EnvSpec
from embodied.types import BaseFrame, BoolArray, FloatArray, Frame, Goal, Observation, Outcome, SceneState, Step
from robots.base import ActionLimits, RobotModel, Snapshot, no_goal
from robots.rendering import SceneRenderer
from robots.rewards import Wish, wish_of
from robots.scene_state import SceneReader


class SparseReward(Protocol):
    """A reward that judges a million pairs or, without arrays, one."""

    def __call__(self, achieved: FloatArray, goal: FloatArray, mask: BoolArray) -> Outcome: ...

    def of_step(self, achieved: Sequence[float], wish: Wish) -> tuple[float, bool]: ...


class Simulation:
    """A model with a robot in its present state, and how it is read and shown; what that needs is made at first use.

    Args:
        model: The physics.
        data: Its present state.
        frame: Frame B in the world.
        robot: Whose bodies they are.
    """

    def __init__(self, model: mujoco.MjModel, data: mujoco.MjData, frame: BaseFrame, robot: RobotModel) -> None:
        self.model, self.data, self.frame, self.robot = model, data, frame, robot
        self.renderer = SceneRenderer(model)

    @cached_property
    def reader(self) -> SceneReader:
        """Reads scene states off data of this model."""
        return SceneReader(self.model, self.frame, self.robot)

    @cached_property
    def snapshot(self) -> Snapshot:
        """Data of this model beside the simulation's own."""
        return Snapshot(self.model)


class GoalScene(ABC):
    """A `SceneEnv` over MuJoCo models; a robot adds how it is reset, moved and observed.

    Args:
        simulation: Where it begins; most stay there for as long as they live.
        spec: The task.
        reward: Its reward.
        marker: The site by which pictures show a goal, and the components that the goal must speak of for that.
    """

    def __init__(
        self,
        simulation: Simulation,
        spec: EnvSpec,
        reward: SparseReward,
        marker: tuple[str, list[int]] | None = None,
    ) -> None:
        self.spec, self._judged = spec, reward.of_step
        self.reward: GoalReward = reward
        self._move_to(simulation)
        self._limits = ActionLimits(spec)
        self._marker = None if marker is None else (simulation.model.site(marker[0]).id, marker[1])
        self._steps, self._horizon, self._layout = 0, spec.horizon, spec.layout
        self.set_goal(no_goal(spec.goal_entity, spec.layout.goal_width))

    @property
    def goal(self) -> Goal:
        """The goal of the current episode; before the first it says nothing (its mask is false)."""
        return self._goal

    def set_goal(self, goal: Goal) -> None:
        """Pursue this goal, of any entity, from now on."""
        self._goal_row = self.spec.layout.entity_index(goal.entity)
        self._goal, self._wish = goal, wish_of(goal)

    def reset(self, seed: int) -> Observation:
        """The task's episode for this seed."""
        observation, goal = self._begin(seed)
        self._steps = 0
        self.set_goal(goal)
        return observation

    def step(self, action: FloatArray) -> Step:
        """One control period; an episode goes on after its time limit for as long as it is stepped."""
        return self.advance(self._limits(action))

    def advance(self, action: FloatArray) -> Step:
        """`step` for an action that is known to be within the limits, and that nobody else will change."""
        self._simulate(action)
        self._steps += 1
        observation = self._observe()
        reward, success = self._judged(observation.achieved[self._goal_row].tolist(), self._wish)
        return Step(observation, action, reward, False, self._steps >= self._horizon, success)

    def scene_state(self) -> SceneState:
        """The scene at the simulation's present qpos and qvel."""
        return self._simulation.reader.read(self._shown())

    def render(self, camera: str | None = None, width: int = 320, height: int = 240, depth: bool = False) -> Frame:
        """A picture, with the goal marked where the task has a marker for it; the simulation is not touched."""
        data = self._shown()
        if self._marker is not None:
            site, components = self._marker
            if all(self._goal.mask[component] for component in components):
                place = self.frame.to_world(self._goal.value.astype(np.float64))
                data.site_xpos[site, components] = place[components]
        return self._simulation.renderer.render(data, camera, width, height, depth)

    def close(self) -> None:
        """Frees the renderer."""
        self._simulation.renderer.close()

    @abstractmethod
    def _begin(self, seed: int) -> tuple[Observation, Goal]:
        """Bring the simulation to an episode's start: what is seen there, and the episode's goal."""

    @abstractmethod
    def _simulate(self, action: FloatArray) -> None:
        """Let one control period pass under an action (A,) that is within the limits."""

    @abstractmethod
    def _observe(self) -> Observation:
        """What the simulation shows now, in arrays of its own."""

    def _shown(self) -> mujoco.MjData:
        """The present state with positions and contacts that belong to it."""
        return self._simulation.snapshot.of(self.data)

    def _move_to(self, simulation: Simulation) -> None:
        """Go on in this simulation."""
        self._simulation = simulation
        self.model, self.data = simulation.model, simulation.data
        self.frame, self.robot = simulation.frame, simulation.robot
