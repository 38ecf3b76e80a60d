"""What every registered task promises. A new task is tested here by being registered."""

from __future__ import annotations

import json
import runpy
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from embodied.errors import LayoutError, UserError
from embodied.protocols import Env, SceneEnv
from embodied.spec import width_of
from embodied.types import SKILLS, Goal, Observation, Step
from robots.base import CheckedEnv, ObservationCheck, SpaceError
from robots.fetch import FetchEnv
from robots.registry import make_env, spec_of, task_names

TASKS = (*task_names(), "gym:FetchReach-v4")
DIGEST_SCRIPT = Path(__file__).with_name("trajectory_digest.py")


@pytest.fixture(scope="module", params=TASKS)
def env(request: pytest.FixtureRequest) -> Iterator[CheckedEnv]:
    environment = make_env(request.param)
    yield environment
    environment.close()


@pytest.fixture(scope="module")
def digest() -> Any:
    return runpy.run_path(str(DIGEST_SCRIPT))["digest"]


def rollout(env: Env, seed: int, count: int, scale: float = 1.5) -> tuple[list[Observation], list[Step], list[Any]]:
    """Observations (count + 1), steps and the actions that were sent, which go beyond the limits."""
    rng = np.random.default_rng(seed)
    low, high = np.array(env.spec.action_low), np.array(env.spec.action_high)
    observations, steps, sent = [env.reset(seed)], [], []
    for _ in range(count):
        sent.append((scale * rng.uniform(low, high)).astype(np.float32))
        steps.append(env.step(sent[-1]))
        observations.append(steps[-1].observation)
    return observations, steps, sent


def test_is_an_env(env: CheckedEnv) -> None:
    assert isinstance(env, Env)
    assert isinstance(env, SceneEnv) != env.spec.task.startswith("gym:")


def test_spec_is_coherent(env: CheckedEnv) -> None:
    spec = env.spec
    assert spec.goal_entity in spec.layout.entities
    assert len(spec.action_low) == len(spec.action_high) == width_of(spec.actions) == spec.action_width
    assert all(low < high for low, high in zip(spec.action_low, spec.action_high, strict=True))
    assert spec.horizon > 0
    assert spec.control_hz > 0
    assert spec.tolerance > 0
    assert set(spec.skills) <= set(SKILLS)
    assert spec.success_rule in ("last", "any")
    assert spec_of(spec.task) == spec


def test_shapes_and_numbers(env: CheckedEnv) -> None:
    layout, count = env.spec.layout, len(env.spec.layout.entities)
    observations, steps, _ = rollout(env, 1, 30)
    for observation in observations:
        assert observation.layout == layout
        assert observation.state.shape == (layout.state_width,)
        assert observation.entities.shape == (count, layout.entity_width)
        assert observation.achieved.shape == (count, layout.goal_width)
        for array in (observation.state, observation.entities, observation.achieved):
            assert array.dtype == np.float32
            assert np.isfinite(array).all()
    assert env.goal.value.shape == (layout.goal_width,)
    assert np.isfinite(env.goal.value).all()
    assert env.goal.mask.any()
    assert all(np.isfinite(step.reward) for step in steps)
    if env.spec.reward_range is not None:
        low, high = env.spec.reward_range
        assert all(low <= step.reward <= high for step in steps)


def test_executed_action_is_the_clip_of_what_was_sent(env: CheckedEnv) -> None:
    _, steps, sent = rollout(env, 2, 10)
    low, high = np.float32(env.spec.action_low), np.float32(env.spec.action_high)
    clipped = 0
    for step, action in zip(steps, sent, strict=True):
        np.testing.assert_array_equal(step.action, np.clip(action, low, high))
        clipped += not np.array_equal(step.action, action)
    assert clipped > 0


def test_same_seed_same_trajectory(env: CheckedEnv, digest: Any) -> None:
    first = digest(env, 5)
    other = digest(env, 6)
    assert digest(env, 5) == first
    assert other != first
    twin = make_env(env.spec.task)
    assert digest(twin, 5) == first
    twin.close()


def test_same_trajectory_in_a_fresh_process(digest: Any) -> None:
    command = [sys.executable, str(DIGEST_SCRIPT), *TASKS]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    fresh = json.loads(done.stdout)
    for task in TASKS:
        here = make_env(task)
        assert fresh[task] == digest(here, 11), task
        here.close()


def test_looking_does_not_change_what_happens(env: CheckedEnv) -> None:
    action = np.float32(env.spec.action_high) * np.float32(0.5)
    env.reset(3)
    plain = [env.step(action).observation.state for _ in range(6)]
    env.reset(3)
    for state in plain:
        if isinstance(env, SceneEnv):
            env.scene_state()
        env.render(width=32, height=32)
        np.testing.assert_array_equal(env.step(action).observation.state, state)


def test_reward_is_the_reward_function_of_achieved_and_goal(env: CheckedEnv) -> None:
    _, steps, _ = rollout(env, 4, min(env.spec.horizon, 60))
    goal = env.goal
    row = env.spec.layout.entity_index(goal.entity)
    achieved = np.stack([step.observation.achieved[row] for step in steps])
    goals = np.broadcast_to(goal.value, achieved.shape)
    masks = np.broadcast_to(goal.mask, achieved.shape)
    batch = env.reward(achieved, goals, masks)
    np.testing.assert_array_equal(batch.reward, np.float32([step.reward for step in steps]))
    np.testing.assert_array_equal(batch.terminated, [step.terminated for step in steps])
    np.testing.assert_array_equal(batch.success, [step.success for step in steps])
    for index in range(len(steps)):
        single = env.reward(achieved[index : index + 1], goals[index : index + 1], masks[index : index + 1])
        assert single.reward[0] == batch.reward[index]
        assert single.terminated[0] == batch.terminated[index]
        assert single.success[0] == batch.success[index]


def test_reward_of_goals_that_are_met_and_missed(env: CheckedEnv) -> None:
    env.reset(0)
    value, mask = env.goal.value, env.goal.mask
    achieved = np.stack([value, value + np.where(mask, np.float32(10.0), np.float32(0.0))])
    outcome = env.reward(achieved, np.stack([value, value]), np.stack([mask, mask]))
    np.testing.assert_array_equal(outcome.success, [True, False])
    assert outcome.reward[0] > outcome.reward[1]
    if env.spec.reward_range is not None:
        assert (outcome.reward[1], outcome.reward[0]) == env.spec.reward_range


def test_truncated_exactly_at_the_horizon_and_never_terminated(env: CheckedEnv) -> None:
    for seed in (7, 8):
        _, steps, _ = rollout(env, seed, env.spec.horizon)
        assert [step.truncated for step in steps] == [False] * (env.spec.horizon - 1) + [True]
        assert not any(step.terminated for step in steps)


def test_headless_frame_shows_something(env: CheckedEnv) -> None:
    env.reset(0)
    frame = env.render(width=96, height=72, depth=True)
    assert frame.rgb.shape == (72, 96, 3)
    assert frame.rgb.dtype == np.uint8
    assert frame.rgb.mean() > 10
    assert frame.rgb.std() > 5
    assert frame.depth_m is not None
    assert frame.depth_m.shape == (72, 96)
    assert frame.depth_m.min() > 0
    assert frame.intrinsics is not None
    assert frame.world_from_camera is not None


def test_unknown_camera_is_one_line(env: CheckedEnv) -> None:
    env.reset(0)
    with pytest.raises(UserError, match="unknown camera 'kitchen'") as caught:
        env.render(camera="kitchen")
    assert "\n" not in str(caught.value)


def test_set_goal_changes_reward_and_success(env: CheckedEnv) -> None:
    if not isinstance(env, SceneEnv):
        pytest.skip("goals of foreign environments are their own")
    observation = env.reset(9)
    entity = env.spec.layout.entities[0]
    mask = env.goal.mask
    env.set_goal(Goal(entity, observation.achieved[0], mask))
    assert env.goal.entity == entity
    assert env.step(np.zeros(env.spec.action_width, dtype=np.float32)).success
    far = observation.achieved[0] + np.where(mask, np.float32(5.0), np.float32(0.0))
    env.set_goal(Goal(entity, far, mask))
    assert not env.step(np.zeros(env.spec.action_width, dtype=np.float32)).success
    env.reset(9)
    assert not np.array_equal(env.goal.value, far)


def test_scene_state_reads_the_scene(env: CheckedEnv) -> None:
    if not isinstance(env, SceneEnv):
        pytest.skip("foreign environments are not read")
    observation = env.reset(9)
    state = env.scene_state()
    assert state.robot == env.spec.robot
    if "gripper" in env.spec.layout.entities:
        gripper = observation.achieved[env.spec.layout.entity_index("gripper")]
        assert state.gripper_position_m is not None
        np.testing.assert_allclose(state.frame.to_base(np.array(state.gripper_position_m)), gripper, atol=2e-3)
    for name in set(env.spec.layout.entities) - {"gripper", "robot"}:
        achieved = observation.achieved[env.spec.layout.entity_index(name)]
        np.testing.assert_allclose(state.entity(name).center_b_m, achieved, atol=2e-3)


def test_wrong_actions_and_goals_are_refused(env: CheckedEnv) -> None:
    env.reset(0)
    width = env.spec.action_width
    with pytest.raises(SpaceError, match=rf"action is not finite; got dtype float32, shape \({width},\), range"):
        env.step(np.full(width, np.nan, dtype=np.float32))
    with pytest.raises(SpaceError, match="action should be a float32 array of shape"):
        env.step(np.zeros(width + 1, dtype=np.float32))
    if isinstance(env, SceneEnv):
        goal = env.goal
        with pytest.raises(LayoutError, match="no entity 'moon' here"):
            env.set_goal(Goal("moon", goal.value, goal.mask))
        with pytest.raises(SpaceError, match=r"goal.value should be"):
            env.set_goal(Goal(goal.entity, np.zeros(7, dtype=np.float32), np.ones(7, dtype=bool)))


def test_step_before_reset_is_refused() -> None:
    for task in TASKS:
        fresh = make_env(task)
        assert not fresh.goal.mask.any()
        with pytest.raises(SpaceError, match="call reset"):
            fresh.step(np.zeros(fresh.spec.action_width, dtype=np.float32))
        fresh.close()


def test_negative_seed_is_refused_and_closing_twice_is_fine() -> None:
    for task in TASKS:
        fresh = make_env(task)
        with pytest.raises(UserError, match="seed must be 0 or more, got -1"):
            fresh.reset(-1)
        fresh.close()
        fresh.close()


def test_unknown_task_names_the_near_miss_and_the_valid_ones() -> None:
    with pytest.raises(UserError, match=r"unknown task 'fetch_rech' \(did you mean 'fetch_reach'\?\)") as caught:
        make_env("fetch_rech")
    assert "point_umaze" in str(caught.value)
    assert "gym:<id>" in str(caught.value)


class _Faulty:
    """An environment whose observation goes wrong on demand."""

    def __init__(self, inner: CheckedEnv, fault: str) -> None:
        self._inner, self._fault = inner, fault
        self.spec, self.reward = inner.spec, inner.reward

    @property
    def goal(self) -> Goal:
        return self._inner.goal

    def reset(self, seed: int) -> Observation:
        return self._inner.reset(seed)

    def step(self, action: Any) -> Step:
        step = self._inner.step(action)
        o = step.observation
        broken = {
            "nan": lambda: Observation(o.state * np.float32("nan"), o.entities, o.achieved, o.layout),
            "dtype": lambda: Observation(o.state.astype(np.float64), o.entities, o.achieved, o.layout),
            "shape": lambda: Observation(o.state, o.entities, o.achieved[:, :2], o.layout),
        }[self._fault]()
        return Step(broken, step.action, step.reward, step.terminated, step.truncated, step.success)

    def close(self) -> None:
        self._inner.close()


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ("nan", r"fetch_reach: observation.state is not finite; got dtype float32, shape \(10,\), range \[nan"),
        ("dtype", r"observation.state should be a float32 array of shape \(10,\); got dtype float64"),
        ("shape", r"observation.achieved should be a float32 array of shape \(1, 3\); .* shape \(1, 2\), range \[0\.7"),
    ],
)
def test_check_names_key_dtype_shape_and_range(fault: str, message: str) -> None:
    broken = CheckedEnv(_Faulty(make_env("fetch_reach"), fault))
    broken.reset(0)
    with pytest.raises(SpaceError, match=message):
        broken.step(np.zeros(4, dtype=np.float32))
    broken.close()


@pytest.mark.parametrize("number", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("part", ["state", "entities", "achieved"])
def test_one_number_that_is_none_is_found_wherever_it_is(part: str, number: float) -> None:
    env = make_env("fetch_push")
    observation, check = env.reset(0), ObservationCheck(env.spec)
    array = getattr(observation, part)
    for index in (0, array.size // 2, array.size - 1):
        spoilt = array.copy()
        spoilt.flat[index] = number
        with pytest.raises(SpaceError, match=f"fetch_push: observation.{part} is not finite"):
            check(replace(observation, **{part: spoilt}))
        spoilt.flat[index] = np.float32(3e38)
        check(replace(observation, **{part: spoilt}))
    env.close()


def test_a_wrapper_that_passes_attributes_on_is_stepped_itself() -> None:
    class Wrapper:
        def __init__(self, inner: Any) -> None:
            self._inner, self.seen = inner, 0

        def __getattr__(self, name: str) -> Any:
            return getattr(self._inner, name)

        def step(self, action: Any) -> Step:
            self.seen += 1
            return self._inner.step(action)

    wrapper = Wrapper(FetchEnv("fetch_reach"))
    env = CheckedEnv(wrapper)
    env.reset(0)
    env.step(np.zeros(4, dtype=np.float32))
    assert wrapper.seen == 1
    env.close()


def test_what_was_sent_can_be_changed_afterwards(env: CheckedEnv) -> None:
    env.reset(0)
    action = np.full(env.spec.action_width, 0.25, dtype=np.float32)
    step = env.step(action)
    action[:] = 0.75
    assert step.action.tolist() == [0.25] * env.spec.action_width
    kept = [part.copy() for part in (step.observation.state, step.observation.entities, step.observation.achieved)]
    env.step(action)
    for old, part in zip(kept, ("state", "entities", "achieved"), strict=True):
        np.testing.assert_array_equal(getattr(step.observation, part), old)
