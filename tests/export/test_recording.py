from __future__ import annotations

from collections.abc import Callable

import numpy as np

from embodied.binding import InputBinder
from embodied.export.recording import record_steps
from embodied.learning.controller import TorchController
from embodied.protocols import Env


def test_whole_episodes_until_enough_steps(drift_env: Env, trained_like: Callable[[Env, int], TorchController]) -> None:
    recorded = record_steps(drift_env, trained_like(drift_env, 0), seed=5, min_steps=61)
    assert len(recorded) == 90  # three episodes of 30
    assert np.bincount(recorded.episode).tolist() == [30, 30, 30]
    # The third number of the state is the step's index: the observation that the action answers, not the next one.
    assert np.array_equal(recorded.observation[:, 2], np.tile(np.arange(30), 3))


def test_rows_are_what_the_controller_saw_and_said(
    drift_env: Env, trained_like: Callable[[Env, int], TorchController]
) -> None:
    controller = trained_like(drift_env, 0)
    recorded = record_steps(drift_env, controller, seed=5, episodes=2)
    assert len(recorded) == 60
    observation = drift_env.reset(6)
    vector, goal = InputBinder(controller.manifest)(observation, drift_env.goal)
    assert np.array_equal(recorded.observation[30], vector)
    assert np.array_equal(recorded.goal[30], goal)
    assert goal[2] == 0.0  # masked out
    assert np.array_equal(recorded.action[30], controller.act(observation, drift_env.goal))


def test_seeds(drift_env: Env, trained_like: Callable[[Env, int], TorchController]) -> None:
    controller = trained_like(drift_env, 0)
    first, again, other = (record_steps(drift_env, controller, seed, episodes=1) for seed in (1, 1, 2))
    assert np.array_equal(first.action, again.action)
    assert not np.array_equal(first.goal, other.goal)
