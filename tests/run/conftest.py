"""A task small enough to be learned in seconds, and controllers that need no learning."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch

from embodied.learning.controller import manifest_of
from embodied.spec import EnvSpec, Layout, Term
from embodied.types import FloatArray, Goal, Observation, Outcome, PolicyManifest, Step

POSITION = (Term("position", 2),)
LAYOUT = Layout(robot=POSITION, entity=(), goal=POSITION, entities=("point",))
MASK = np.ones(2, bool)


def _reward(achieved: FloatArray, goal: FloatArray, mask: FloatArray) -> Outcome:
    success = np.linalg.norm(np.where(mask, achieved - goal, 0.0), axis=-1) < 0.15
    return Outcome(success.astype(np.float32) - 1.0, np.zeros(len(success), bool), success)


class PointMass:
    """A point in [-1, 1]^2 that moves by at most 0.25 per axis and step; the goal is a place."""

    def __init__(self, horizon: int = 12, success_rule: str = "last", ends_at_goal: bool = False) -> None:
        self.spec = EnvSpec(
            task="point_mass",
            robot="gym",
            layout=LAYOUT,
            actions=(Term("move", 2),),
            action_low=(-1.0, -1.0),
            action_high=(1.0, 1.0),
            horizon=horizon,
            control_hz=10.0,
            tolerance=0.15,
            success_rule=success_rule,
            reward_range=(-1.0, 0.0),
            goal_entity="point",
        )
        self.reward = _reward
        self.ends_at_goal = ends_at_goal
        self.seeds: list[int] = []
        self.closed = False

    @property
    def goal(self) -> Goal:
        return Goal("point", self._goal, MASK)

    def reset(self, seed: int) -> Observation:
        self.seeds.append(seed)
        rng = np.random.default_rng(seed)
        self._goal = rng.uniform(-1, 1, 2).astype(np.float32)
        self._position = rng.uniform(-1, 1, 2).astype(np.float32)
        self._clock = 0
        return self._observe()

    def step(self, action: FloatArray) -> Step:
        sent = np.clip(action, -1.0, 1.0).astype(np.float32)
        self._position = np.clip(self._position + 0.25 * sent, -1, 1).astype(np.float32)
        self._clock += 1
        outcome = _reward(self._position[None], self._goal[None], MASK[None])
        success = bool(outcome.success[0])
        return Step(
            observation=self._observe(),
            action=sent,
            reward=float(outcome.reward[0]),
            terminated=self.ends_at_goal and success,
            truncated=self._clock == self.spec.horizon,
            success=success,
        )

    def close(self) -> None:
        self.closed = True

    def _observe(self) -> Observation:
        position = self._position.copy()
        return Observation(position, np.zeros((1, 0), np.float32), position[None], LAYOUT)


class Scripted:
    """Goes straight to the goal, or stays where it is."""

    def __init__(self, spec: EnvSpec, gain: float = 4.0) -> None:
        self.manifest: PolicyManifest = manifest_of(spec)
        self.gain = gain

    def act(self, observation: Observation, goal: Goal) -> FloatArray:
        return np.clip(self.gain * (goal.value - observation.state), -1, 1).astype(np.float32)


@pytest.fixture(autouse=True, scope="session")
def _one_thread() -> None:
    torch.set_num_threads(1)


@pytest.fixture
def make_point_mass() -> Callable[..., PointMass]:
    return PointMass


@pytest.fixture
def make_scripted() -> Callable[..., Scripted]:
    return Scripted
