"""The point mazes give Gymnasium-Robotics' numbers, as continuing tasks whose target stays."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import pytest

from embodied.types import Goal
from robots.base import load_gymnasium
from robots.maze import TASKS, PointMazeEnv


@pytest.mark.parametrize("task", TASKS)
def test_numbers_equal_gymnasiums(task: str) -> None:
    ours = PointMazeEnv(task)
    theirs = load_gymnasium().make(TASKS[task], continuing_task=True, reset_target=False)
    rng, horizon = np.random.default_rng(0), ours.spec.horizon
    fastest = 0.0
    for seed, steps in ((0, horizon), (1_000_003, 40), (2_000_000, horizon), (0, 40)):
        observation = ours.reset(seed)
        raw, _ = theirs.reset(seed=seed)
        np.testing.assert_array_equal(ours.goal.value[:2], raw["desired_goal"].astype(np.float32))
        force = rng.uniform(-1, 1, 2)
        for index in range(steps):
            np.testing.assert_array_equal(observation.state, raw["observation"].astype(np.float32))
            np.testing.assert_array_equal(observation.achieved[0, :2], raw["achieved_goal"].astype(np.float32))
            if index % 60 == 0:
                force = rng.uniform(-1.3, 1.3, 2)
            action = (force + rng.normal(0, 0.1, 2)).astype(np.float32)
            step = ours.step(action)
            raw, reward, terminated, truncated, info = theirs.step(action)
            observation = step.observation
            assert step.reward == reward
            assert step.terminated == terminated
            assert step.truncated == truncated == (index == horizon - 1)
            assert step.success == info["success"]
            fastest = max(fastest, float(np.abs(observation.state[2:]).max()))
        np.testing.assert_array_equal(ours.data.qpos, theirs.unwrapped.data.qpos)
        np.testing.assert_array_equal(ours.data.qvel, theirs.unwrapped.data.qvel)
    assert fastest > 1.0, "the walls must have been met"
    theirs.close()
    ours.close()


@pytest.mark.parametrize("speed", [5.0, 5.1, 80.0])
def test_speed_is_limited_before_a_step_as_gymnasium_does(speed: float) -> None:
    ours = PointMazeEnv("point_umaze")
    theirs = load_gymnasium().make(TASKS["point_umaze"], continuing_task=True, reset_target=False)
    ours.reset(0)
    theirs.reset(seed=0)
    for data in (ours.data, theirs.unwrapped.data):
        data.qvel[:] = (speed, -speed)
    action = np.float32([0.3, -0.2])
    observation = ours.step(action).observation
    raw, *_ = theirs.step(action)
    np.testing.assert_array_equal(observation.state, raw["observation"].astype(np.float32))
    assert np.abs(observation.state[2:]).max() < 5.1
    theirs.close()
    ours.close()


def test_goal_is_planar() -> None:
    env = PointMazeEnv("point_umaze")
    observation = env.reset(0)
    np.testing.assert_array_equal(env.goal.mask, [True, True, False])
    assert env.goal.value[2] == 0.0
    assert observation.achieved[0, 2] == 0.0
    env.close()


def test_horizons_are_the_registered_ones() -> None:
    for task, horizon in (("point_umaze", 300), ("point_medium", 600), ("point_large", 800)):
        env = PointMazeEnv(task)
        assert env.spec.horizon == horizon
        assert env.spec.control_hz == 100.0
        env.close()


def test_reaching_the_goal_neither_ends_the_episode_nor_moves_the_target() -> None:
    env = PointMazeEnv("point_umaze")
    env.reset(0)
    goal = env.goal
    env._env.point_env.set_state(goal.value[:2].astype(float), np.zeros(2))
    steps = [env.step(np.zeros(2, dtype=np.float32)) for _ in range(5)]
    assert all(step.success and step.reward == 1.0 and not step.terminated for step in steps)
    np.testing.assert_array_equal(env.goal.value, goal.value)
    env.close()


def test_a_goal_from_outside_is_pursued() -> None:
    env = PointMazeEnv("point_umaze")
    start = env.reset(0).achieved[0]
    env.set_goal(Goal("robot", start + np.array([0.44, 0.0, 9.0], dtype=np.float32), env.goal.mask))
    assert env.step(np.zeros(2, dtype=np.float32)).success
    env.set_goal(Goal("robot", start + np.array([0.46, 0.0, 0.0], dtype=np.float32), env.goal.mask))
    assert not env.step(np.zeros(2, dtype=np.float32)).success
    env.close()


def test_no_file_is_left_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    PointMazeEnv("point_umaze").close()
    assert list(tmp_path.iterdir()) == []
