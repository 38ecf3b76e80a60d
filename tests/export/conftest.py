from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch

from embodied.learning.controller import TorchController, manifest_of
from embodied.learning.networks import PolicyModule, PolicyShape
from embodied.protocols import Env
from embodied.spec import EnvSpec, Layout, Term
from embodied.types import FloatArray, Goal, Observation, Outcome, Step


class DriftEnv:
    """A point that drifts with the action for 30 steps; features of widely different size, one entity beside the robot.

    The state is (position, step index, a large constant), so that steps can be told apart and the normalizer matters.
    """

    def __init__(self) -> None:
        layout = Layout(
            robot=(Term("position", 2, "m"), Term("clock", 1, "1"), Term("pressure", 1, "Pa")),
            entity=(Term("offset", 2, "m"),),
            goal=(Term("place", 3, "m"),),
            entities=("robot", "ball"),
        )
        self.spec = EnvSpec(
            task="drift",
            robot="point",
            layout=layout,
            actions=(Term("push", 2, "0.1 m"), Term("grip", 1, "N")),
            action_low=(-1.0, -1.0, 0.0),
            action_high=(1.0, 1.0, 5.0),
            horizon=30,
            control_hz=20.0,
            tolerance=0.1,
            success_rule="last",
            reward_range=(-1.0, 0.0),
            goal_entity="ball",
            skills=("push",),
        )

    @property
    def goal(self) -> Goal:
        return Goal("ball", self._goal, np.array([True, True, False]))

    def reward(self, achieved: FloatArray, goal: FloatArray, mask: FloatArray) -> Outcome:
        near = np.linalg.norm((achieved - goal) * mask, axis=-1) <= self.spec.tolerance
        return Outcome(near.astype(np.float32) - 1.0, np.zeros(len(near), bool), near)

    def reset(self, seed: int) -> Observation:
        generator = np.random.default_rng(seed)
        self._position, self._count = generator.normal(size=2), 0
        self._goal = np.append(generator.normal(size=2), 7.0).astype(np.float32)
        return self._observe()

    def step(self, action: FloatArray) -> Step:
        action = np.clip(action, self.spec.action_low, self.spec.action_high).astype(np.float32)
        self._position = self._position + 0.1 * action[:2]
        self._count += 1
        observation = self._observe()
        outcome = self.reward(observation.achieved[1:], self._goal[None], self.goal.mask[None])
        return Step(
            observation,
            action,
            float(outcome.reward[0]),
            False,
            self._count == self.spec.horizon,
            bool(outcome.success[0]),
        )

    def close(self) -> None: ...

    def _observe(self) -> Observation:
        achieved = np.zeros((2, 3), np.float32)
        achieved[:, :2] = self._position
        features = np.stack([np.zeros(2), self._position - self._goal[:2]]).astype(np.float32)
        state = np.array([*self._position, self._count, 101_325.0 + self._count], np.float32)
        return Observation(state, features, achieved, self.spec.layout)


@pytest.fixture
def drift_env() -> DriftEnv:
    return DriftEnv()


@pytest.fixture(scope="session")
def trained_like() -> Callable[..., TorchController]:
    """A policy with weights of trained size and a normalizer that has seen uneven data."""

    def build(env: Env, seed: int, law: str = "beta") -> TorchController:
        torch.set_num_threads(1)
        manifest, layout = manifest_of(env.spec), env.spec.layout
        width = layout.state_width + layout.entity_width
        module = PolicyModule(
            PolicyShape(width, layout.goal_width, manifest.action_low, manifest.action_high, (64, 64), law=law)
        )
        module.initialise(torch.Generator().manual_seed(seed))
        with torch.no_grad():
            module.head.weight.mul_(100.0)
        generator = np.random.default_rng(seed)
        rows = [np.concatenate([*_vectors(env, generator)]) for _ in range(200)]
        module.normalizer.update(np.asarray(rows))
        return TorchController(module, manifest)

    return build


def _vectors(env: Env, generator: np.random.Generator) -> tuple[FloatArray, FloatArray, FloatArray]:
    observation = env.reset(int(generator.integers(1 << 30)))
    row = observation.layout.entity_index(env.goal.entity)
    return observation.state, observation.entities[row], np.where(env.goal.mask, env.goal.value, 0.0)
