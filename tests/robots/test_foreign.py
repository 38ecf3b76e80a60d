"""`gym:<id>`: what is accepted, what is refused, and what the probe of a batch catches."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from embodied.errors import UserError
from robots.base import load_gymnasium
from robots.foreign import ForeignEnv
from robots.registry import make_env


class Line(gymnasium.Env):
    """A point on a plane that moves by its action; sparse reward -1/0 and an end at the goal, all batched well."""

    metadata = {"render_modes": [], "render_fps": 10}
    reward_type = "sparse"
    distance_threshold = 0.5
    action_space: spaces.Space = spaces.Box(-2.0, 1.0, (2,), np.float32)

    def __init__(self, goal_shape: tuple[int, ...] = (2,)) -> None:
        goal = spaces.Box(-np.inf, np.inf, goal_shape, np.float64)
        self.observation_space = spaces.Dict(
            observation=spaces.Box(-np.inf, np.inf, (1,), np.float64), achieved_goal=goal, desired_goal=goal
        )
        self.position = np.zeros(goal_shape)
        self.target = np.zeros(goal_shape)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[dict[str, Any], dict[str, Any]]:
        super().reset(seed=seed)
        self.position = np.zeros(self.target.shape)
        self.target = self.np_random.uniform(1, 2, self.target.shape)
        return self.observe(), {}

    def step(self, action: Any) -> tuple[dict[str, Any], float, bool, bool, dict[str, Any]]:
        self.position = self.position + action
        pair = self.position, self.target
        return (
            self.observe(),
            float(self.compute_reward(*pair, {})),
            bool(self.compute_terminated(*pair, {})),
            False,
            {},
        )

    def observe(self) -> dict[str, Any]:
        return {
            "observation": np.array([self.position[..., 0].item() * 7]),
            "achieved_goal": self.position.copy(),
            "desired_goal": self.target.copy(),
        }

    def compute_reward(self, achieved: Any, desired: Any, info: Any) -> Any:
        return -(np.linalg.norm(achieved - desired, axis=-1) > self.distance_threshold).astype(np.float32)

    def compute_terminated(self, achieved: Any, desired: Any, info: Any) -> Any:
        return np.linalg.norm(achieved - desired, axis=-1) <= self.distance_threshold


class OneNumberForAll(Line):
    """Termination as PointMaze has it: one norm over the whole batch."""

    def compute_terminated(self, achieved: Any, desired: Any, info: Any) -> Any:
        return bool(np.linalg.norm(achieved - desired) <= self.distance_threshold)


class WrongAxis(Line):
    """A reward whose batch has the right shape, for two goals of two numbers, and the wrong values."""

    def compute_reward(self, achieved: Any, desired: Any, info: Any) -> Any:
        return -(np.linalg.norm(achieved - desired, axis=0) > self.distance_threshold).astype(np.float32)


class FirstOnly(Line):
    def compute_reward(self, achieved: Any, desired: Any, info: Any) -> Any:
        first = super().compute_reward(np.atleast_2d(achieved)[0], np.atleast_2d(desired)[0], info)
        return np.full(np.shape(achieved)[:-1], first)


class FailsOnBatch(Line):
    def compute_reward(self, achieved: Any, desired: Any, info: Any) -> Any:
        if np.ndim(achieved) > 1:
            raise RuntimeError("one pair only")
        return super().compute_reward(achieved, desired, info)


class Dense(Line):
    reward_type = "dense"

    def compute_reward(self, achieved: Any, desired: Any, info: Any) -> Any:
        return -np.linalg.norm(achieved - desired, axis=-1)


class NeedsInfo(Line):
    def compute_reward(self, achieved: Any, desired: Any, info: Any) -> Any:
        return info["speed"]


class NoReward(Line):
    compute_reward = None


class DiscreteActions(Line):
    action_space = spaces.Discrete(3)


class EndlessActions(Line):
    action_space = spaces.Box(-np.inf, np.inf, (2,), np.float32)


class Drawn(Line):
    metadata = {"render_modes": ["rgb_array"], "render_fps": 10}

    def __init__(self, render_mode: str | None = None) -> None:
        super().__init__()
        self.render_mode = render_mode

    def render(self) -> Any:
        return np.full((20, 30, 3), 7, dtype=np.uint8)


class FailsToReset(Line):
    def reset(self, **kwargs: Any) -> Any:
        raise ValueError("two\nlines")


CLASSES = (
    Line, OneNumberForAll, WrongAxis, FirstOnly, FailsOnBatch, Dense, NeedsInfo, NoReward, DiscreteActions,
    EndlessActions, FailsToReset, Drawn,
)  # fmt: skip


@pytest.fixture(scope="module", autouse=True)
def registered() -> Iterator[None]:
    load_gymnasium()
    from gymnasium_robotics.envs.maze.maps import U_MAZE

    for cls in CLASSES:
        gymnasium.register(f"{cls.__name__}-v0", entry_point=cls, max_episode_steps=5)
    gymnasium.register("Flat-v0", entry_point=Line, max_episode_steps=5, kwargs={"goal_shape": (2, 2)})
    gymnasium.register("NoLimit-v0", entry_point=Line)
    gymnasium.register(
        "PointMazeThatEnds-v0",
        entry_point="gymnasium_robotics.envs.maze.point_maze:PointMazeEnv",
        kwargs={"maze_map": U_MAZE, "continuing_task": False},
        max_episode_steps=300,
    )
    yield
    for name in (*(f"{cls.__name__}-v0" for cls in CLASSES), "Flat-v0", "NoLimit-v0", "PointMazeThatEnds-v0"):
        gymnasium.registry.pop(name)


def test_a_good_environment_is_batched_and_its_numbers_are_found() -> None:
    env = ForeignEnv("Line-v0")
    assert env.notes == ()
    assert env.spec.reward_range == (-1.0, 0.0)
    assert env.spec.tolerance == 0.5
    assert env.spec.horizon == 5
    assert env.spec.control_hz == 10.0
    assert env.spec.action_low == (-2.0, -2.0)
    assert env.spec.action_high == (1.0, 1.0)
    assert env.reward._reward.batched


def test_the_state_contains_the_achieved_goal() -> None:
    env = ForeignEnv("Line-v0")
    env.reset(0)
    step = env.step(np.array([0.5, -1.0], dtype=np.float32))
    np.testing.assert_array_equal(step.observation.state, np.float32([3.5, 0.5, -1.0]))
    np.testing.assert_array_equal(step.observation.achieved, np.float32([[0.5, -1.0]]))


def test_termination_and_time_limit_are_kept_apart() -> None:
    env = ForeignEnv("Line-v0")
    env.reset(0)
    still = [env.step(np.zeros(2, dtype=np.float32)) for _ in range(5)]
    assert [step.truncated for step in still] == [False] * 4 + [True]
    assert not any(step.terminated for step in still)
    observation = env.reset(1)
    for _ in range(2):
        step = env.step((env.goal.value - observation.achieved[0]).clip(-1, 1))
        observation = step.observation
    assert (step.terminated, step.truncated, step.success, step.reward) == (True, False, True, 0.0)


@pytest.mark.parametrize(
    ("name", "what"),
    [
        ("OneNumberForAll", "termination"),
        ("WrongAxis", "reward"),
        ("FirstOnly", "reward"),
        ("FailsOnBatch", "reward"),
        ("PointMazeThatEnds", "termination"),
    ],
)
def test_what_is_wrong_on_a_batch_is_called_one_by_one(name: str, what: str) -> None:
    env = ForeignEnv(f"{name}-v0")
    assert any(f"its {what} is wrong on a batch" in note for note in env.notes)
    env.reset(0)
    goal = env.goal.value
    steps = np.linspace(0.0, 2.0, 9, dtype=np.float32)[:, None] * np.array([[1.0, 0.0]], dtype=np.float32)
    achieved, goals = goal + steps, np.tile(goal, (9, 1))
    mask = np.ones((9, 2), dtype=bool)
    outcome = env.reward(achieved, goals, mask)
    near = np.linalg.norm(achieved - goals, axis=1) <= env.spec.tolerance
    assert 0 < near.sum() < 9
    np.testing.assert_array_equal(outcome.terminated, near)
    np.testing.assert_array_equal(outcome.success, near)
    np.testing.assert_array_equal(outcome.reward, np.where(near, *env.spec.reward_range[::-1]))
    env.close()


def test_a_sparse_tolerance_that_nothing_names_is_measured() -> None:
    env = ForeignEnv("PointMaze_UMaze-v3")
    assert env.spec.tolerance == pytest.approx(0.45, abs=1e-5)
    assert env.spec.reward_range == (0.0, 1.0)
    assert env.spec.horizon == 300
    assert env.notes == ()
    env.close()


def test_an_unknown_reward_range_switches_clamping_off_and_says_so() -> None:
    env = ForeignEnv("Dense-v0")
    assert env.spec.reward_range is None
    assert any("target clamping is off" in note for note in env.notes)
    assert any("does not say what success is: taken as a distance of 0.5" in note for note in env.notes)


def test_masks_with_holes_are_refused() -> None:
    env = ForeignEnv("Line-v0")
    pair = np.zeros((1, 2), dtype=np.float32)
    with pytest.raises(UserError, match="whole goals only"):
        env.reward(pair, pair, np.array([[True, False]]))


def test_pictures_of_an_environment_that_makes_none() -> None:
    env = ForeignEnv("Line-v0")
    env.reset(0)
    with pytest.raises(UserError, match="no MuJoCo scene"):
        env.render()


def test_pictures_of_an_environment_that_draws_itself() -> None:
    env = ForeignEnv("Drawn-v0")
    env.reset(0)
    frame = env.render()
    assert frame.rgb.shape == (20, 30, 3)
    assert frame.camera == "own"
    with pytest.raises(UserError, match="no cameras"):
        env.render(camera="front")


def test_module_syntax_imports_the_module(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    source = (
        "import gymnasium\n"
        "gymnasium.register('Own-v0', entry_point='gymnasium_robotics.envs.fetch.reach:MujocoFetchReachEnv',"
        " max_episode_steps=7)\n"
    )
    (tmp_path / "my_own_tasks.py").write_text(source)
    monkeypatch.syspath_prepend(str(tmp_path))
    env = make_env("gym:my_own_tasks:Own-v0")
    assert env.spec.horizon == 7
    assert env.spec.task == "gym:my_own_tasks:Own-v0"
    env.close()


@pytest.mark.parametrize(
    ("env_id", "message"),
    [
        ("", "give the id of a Gymnasium environment"),
        ("FetchRech-v4", "did you mean"),
        ("FetchReach-v2", "cannot be made: .*deprecated"),
        ("no_such_module:Env-v0", "No module named 'no_such_module'"),
        ("../x", "Malformed environment ID"),
        ("CartPole-v1", "has no goals"),
        ("FrankaKitchen-v1", "'achieved_goal' is Dict, only Box"),
        ("Flat-v0", r"must be 1-D and alike, they are \(2, 2\)"),
        ("DiscreteActions-v0", "actions must be a 1-D Box, they are Discrete"),
        ("EndlessActions-v0", "actions need finite limits"),
        ("NoLimit-v0", "without a time limit"),
        ("NoReward-v0", "has no compute_reward"),
        ("NeedsInfo-v0", "no function of the goals alone"),
        ("FailsToReset-v0", "cannot be reset: ValueError: two lines"),
    ],
)
def test_what_does_not_fit_is_refused_in_one_line(
    env_id: str, message: str, recwarn: pytest.WarningsRecorder, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(UserError, match=f"(?i){message}") as caught:
        make_env(f"gym:{env_id}")
    assert "\n" not in str(caught.value)
    assert not recwarn.list
    assert capfd.readouterr() == ("", "")
