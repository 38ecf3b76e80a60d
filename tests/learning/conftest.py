"""Episodes in which every number says where it comes from."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch

from embodied.spec import EnvSpec, Layout, Term
from embodied.types import Episode, Outcome

LOW, HIGH = (-1.0, -2.0), (1.0, 0.5)


def _spec() -> EnvSpec:
    layout = Layout(
        robot=(Term("episode", 1), Term("clock", 1)),
        entity=(Term("mark", 1),),
        goal=(Term("episode", 1), Term("clock", 1), Term("height", 1)),
        entities=("hand", "block"),
    )
    return EnvSpec(
        task="counting",
        robot="gym",
        layout=layout,
        actions=(Term("push", 2),),
        action_low=LOW,
        action_high=HIGH,
        horizon=8,
        control_hz=10.0,
        tolerance=0.1,
        success_rule="last",
        reward_range=(-1.0, 0.0),
        goal_entity="block",
    )


def _episode(number: int, length: int, goal_clock: float = 100.0) -> Episode:
    """State (number, t); achieved of entity e at t: (number, t + e / 2, 7); features 10 e + t; height is masked out."""
    clock = np.arange(length + 1, dtype=np.float32)
    state = np.stack([np.full(length + 1, number, np.float32), clock], 1)
    entity = np.arange(2, dtype=np.float32)
    achieved = np.zeros((length + 1, 2, 3), np.float32)
    achieved[..., 0], achieved[..., 1], achieved[..., 2] = number, clock[:, None] + entity / 2, 7.0
    return Episode(
        state=state,
        entities=(10 * entity + clock[:, None])[..., None].astype(np.float32),
        achieved=achieved,
        goal_entity=np.ones(length, np.int32),
        goal_value=np.tile(np.array([number, goal_clock, 0.0], np.float32), (length, 1)),
        goal_mask=np.tile(np.array([True, True, False]), (length, 1)),
        action=np.tile(np.array([0.25, -0.5], np.float32), (length, 1)),
        interval=np.tile(np.array([LOW, HIGH], np.float32), (length, 1, 1)),
        reward=np.full(length, -5.0, np.float32),
        terminated=np.zeros(length, bool),
        truncated=np.arange(length) == length - 1,
        success=np.zeros(length, bool),
        subgoal_id=np.zeros(length, np.int32),
    )


def _reward(achieved: np.ndarray, goal: np.ndarray, mask: np.ndarray) -> Outcome:
    """Success, and termination with it, where the masked components agree."""
    success = np.linalg.norm(np.where(mask, achieved - goal, 0.0), axis=-1) < 0.1
    return Outcome(reward=success.astype(np.float32) - 1.0, terminated=success, success=success)


@pytest.fixture(autouse=True, scope="session")
def _one_thread() -> None:
    torch.set_num_threads(1)


@pytest.fixture
def spec() -> EnvSpec:
    return _spec()


@pytest.fixture
def make_episode() -> Callable[..., Episode]:
    return _episode


@pytest.fixture
def reward() -> Callable[[np.ndarray, np.ndarray, np.ndarray], Outcome]:
    return _reward
