"""The Fetch tasks give Gymnasium's numbers."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from embodied.errors import UserError
from embodied.spec import term_indices
from embodied.types import Goal, Observation
from robots.base import load_gymnasium
from robots.fetch import TASKS, FetchEnv

GYMNASIUM_ORDER = (
    "grip_pos", "object_pos", "object_rel_pos", "gripper_state", "object_rot", "object_velp", "object_velr",
    "grip_velp", "gripper_vel",
)  # fmt: skip
"""The order of Gymnasium-Robotics' `_get_obs`, fetch_env.py."""


def in_gymnasium_order(observation: Observation) -> NDArray[np.float32]:
    layout, parts = observation.layout, []
    names = {term.name: (term, layout.robot, observation.state) for term in layout.robot}
    names |= {term.name: (term, layout.entity, observation.entities[-1]) for term in layout.entity}
    for name in GYMNASIUM_ORDER:
        if name in names:
            term, terms, values = names[name]
            parts.append(values[term_indices([term], terms, "any")])
    return np.concatenate(parts)


def towards_object(observation: Observation, rng: np.random.Generator) -> NDArray[np.float32]:
    """A random action, half of the time one that drives the gripper into the object; some beyond the limits."""
    action = rng.uniform(-1.3, 1.3, 4)
    if len(observation.achieved) > 1 and rng.random() < 0.5:
        action[:3] = 10.0 * (observation.achieved[1] - observation.achieved[0]) + rng.normal(0, 0.1, 3)
    return action.astype(np.float32)


@pytest.mark.parametrize("task", TASKS)
def test_numbers_equal_gymnasiums(task: str) -> None:
    """Whole episodes to the time limit, a seed twice, and one broken off: what came before must not matter."""
    ours = FetchEnv(task)
    theirs = load_gymnasium().make(TASKS[task].env_id)
    rng = np.random.default_rng(0)
    moved = 0.0
    for seed, steps in ((0, 50), (1_000_003, 17), (2_000_000, 50), (0, 50)):
        observation = ours.reset(seed)
        start = observation.achieved[-1]
        raw, _ = theirs.reset(seed=seed)
        np.testing.assert_array_equal(ours.goal.value, raw["desired_goal"].astype(np.float32))
        for index in range(steps):
            np.testing.assert_array_equal(in_gymnasium_order(observation), raw["observation"].astype(np.float32))
            np.testing.assert_array_equal(observation.achieved[-1], raw["achieved_goal"].astype(np.float32))
            action = towards_object(observation, rng)
            step = ours.step(action)
            raw, reward, terminated, truncated, info = theirs.step(action)
            observation = step.observation
            assert step.reward == reward
            assert step.terminated == terminated
            assert step.truncated == truncated == (index == 49)
            assert step.success == bool(info["is_success"])
        np.testing.assert_array_equal(ours.data.qpos, theirs.unwrapped.data.qpos)
        np.testing.assert_array_equal(ours.data.qvel, theirs.unwrapped.data.qvel)
        moved = max(moved, float(np.linalg.norm(observation.achieved[-1] - start)))
    assert moved > 0.02, "the object must have been touched"
    theirs.close()
    ours.close()


def test_achieved_holds_gripper_and_object() -> None:
    env = FetchEnv("fetch_push")
    observation = env.reset(0)
    assert observation.layout.entities == ("gripper", "object0")
    np.testing.assert_array_equal(observation.achieved[0], observation.state[:3])
    np.testing.assert_array_equal(observation.achieved[1], observation.entities[1, :3])
    np.testing.assert_array_equal(observation.entities[0, :15], observation.entities[1, :15])
    assert observation.entities[:, 15].tolist() == [1.0, 0.0]
    np.testing.assert_allclose(
        observation.entities[1, 3:6], observation.achieved[1] - observation.achieved[0], atol=1e-6
    )
    env.close()


def test_spec_comes_from_gymnasium() -> None:
    env = FetchEnv("fetch_reach")
    assert env.spec.horizon == 50
    assert env.spec.control_hz == 25.0
    assert env.spec.tolerance == 0.05
    env.close()


def test_stepping_goes_on_after_the_time_limit() -> None:
    env = FetchEnv("fetch_reach")
    env.reset(0)
    flags = [env.step(np.zeros(4, dtype=np.float32)).truncated for _ in range(53)]
    assert flags == [False] * 49 + [True] * 4
    env.reset(0)
    assert not env.step(np.zeros(4, dtype=np.float32)).truncated
    env.close()


def test_a_goal_for_the_gripper_in_a_task_about_an_object() -> None:
    env = FetchEnv("fetch_push")
    observation = env.reset(0)
    env.set_goal(Goal("gripper", observation.achieved[0] + np.float32(0.2), np.array([False, False, True])))
    height = observation.achieved[0, 2]
    step = env.step(np.zeros(4, dtype=np.float32))
    assert step.reward == -1.0
    for _ in range(15):
        step = env.step(np.array([1.0, 0.0, 1.0, 0.0], dtype=np.float32))
        reached = abs(step.observation.achieved[0, 2] - height - 0.2) < 0.05
        assert step.success == reached
        if reached:
            break
    assert step.reward == 0.0
    env.close()


def test_a_picture_shows_the_goal() -> None:
    env = FetchEnv("fetch_reach")
    env.reset(0)
    with_goal = env.render(width=160, height=160).rgb.astype(int)
    red = (with_goal[..., 0] > 150) & (with_goal[..., 1] < 80) & (with_goal[..., 2] < 80)
    assert red.sum() >= 3
    env.set_goal(Goal("gripper", np.array([0.0, 0.0, -5.0], dtype=np.float32), np.ones(3, dtype=bool)))
    moved = env.render(width=160, height=160).rgb.astype(int)
    assert (with_goal != moved).any()
    env.close()


def test_a_mujoco_that_gymnasium_cannot_use_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    gymnasium = load_gymnasium()

    def fail(*args: object, **kwargs: object) -> None:
        raise AssertionError

    monkeypatch.setattr(gymnasium, "make", fail)
    with pytest.raises(UserError, match=r"pip install 'mujoco>=3.8,<3.12'"):
        FetchEnv("fetch_reach")


def test_unknown_fetch_task() -> None:
    with pytest.raises(UserError, match="did you mean 'fetch_slide'"):
        FetchEnv("fetch_slid")
