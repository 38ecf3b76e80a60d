"""Episodes in which every field varies, and files made of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest

from embodied.learning.datasets.recorder import open_recorder
from embodied.types import Episode
from robots.goal_layout import GoalLayout, goal_layout

LAYOUTS = ("minari", "robomimic")


def _equal(one: Episode, other: Episode) -> bool:
    """Bit for bit, types and shapes included."""
    pairs = [(getattr(one, field.name), getattr(other, field.name)) for field in fields(Episode)]
    return all(a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes() for a, b in pairs)


def _plain_episode(goals: GoalLayout, steps: int, seed: int) -> Episode:
    """As the task itself would record it: goals of its entity, positions that agree with the observation."""
    rng, spec = np.random.default_rng(seed), goals.spec
    observation = rng.normal(size=(steps + 1, *goals.observation_space["observation"]["shape"]))
    width = goals.observation_space["achieved_goal"]["shape"][0]
    goal = np.tile(rng.normal(size=width), (steps + 1, 1))
    achieved = observation[:, 3:6] if spec.robot == "fetch" else observation[:, :width]
    told = goals.from_goal_dict({"observation": observation, "achieved_goal": achieved, "desired_goal": goal})
    limits = np.array([spec.action_low, spec.action_high], dtype=np.float32)
    reached = told["achieved"][np.arange(1, steps + 1), told["goal_entity"]]
    outcome = goals.reward(reached, told["goal_value"], told["goal_mask"])
    return Episode(
        **told,
        action=rng.uniform(*limits, size=(steps, spec.action_width)).astype(np.float32),
        interval=np.tile(limits, (steps, 1, 1)),
        reward=outcome.reward,
        terminated=outcome.terminated,
        truncated=np.arange(steps) == steps - 1,
        success=outcome.success,
        subgoal_id=np.zeros(steps, dtype=np.int32),
    )


def _odd_episode(goals: GoalLayout, steps: int, seed: int) -> Episode:
    """Everything that a plan and an adviser may do to an episode: goals of several entities, masks, intervals."""
    rng, layout, width = np.random.default_rng(seed), goals.spec.layout, goals.spec.action_width
    count, goal = len(layout.entities), layout.goal_width

    def draw(*shape: int) -> np.ndarray:
        return rng.normal(size=shape).astype(np.float32)

    state = draw(steps + 1, layout.state_width)
    state[0, 0] = -0.0
    return Episode(
        state=state,
        entities=draw(steps + 1, count, layout.entity_width),
        achieved=draw(steps + 1, count, goal),
        goal_entity=rng.integers(count, size=steps).astype(np.int32),
        goal_value=draw(steps, goal),
        goal_mask=rng.random((steps, goal)) < 0.5,
        action=draw(steps, width),
        interval=np.sort(draw(steps, 2, width), axis=1),
        reward=draw(steps),
        terminated=rng.random(steps) < 0.5,
        truncated=rng.random(steps) < 0.5,
        success=rng.random(steps) < 0.5,
        subgoal_id=rng.integers(9, size=steps).astype(np.int32),
    )


@pytest.fixture(scope="session")
def equal() -> Callable[[Episode, Episode], bool]:
    return _equal


@pytest.fixture(scope="session")
def plain_episode() -> Callable[[GoalLayout, int, int], Episode]:
    return _plain_episode


@pytest.fixture(scope="session")
def odd_episode() -> Callable[[GoalLayout, int, int], Episode]:
    return _odd_episode


@pytest.fixture(scope="session")
def goals() -> GoalLayout:
    return goal_layout("fetch_push")


@pytest.fixture(scope="session")
def episodes(goals: GoalLayout) -> list[Episode]:
    plain = [_plain_episode(goals, steps, seed) for seed, steps in enumerate((50, 50, 7, 50))]
    return [*plain, _odd_episode(goals, 20, 10), _odd_episode(goals, 1, 11)]


Write = Callable[..., Path]


@pytest.fixture(scope="session")
def write(goals: GoalLayout, episodes: list[Episode]) -> Write:
    """`write(folder, layout)`: the HDF5 file of a data set of all episodes; seeds are 100, 101, ..."""

    def record(folder: Path, layout: str) -> Path:
        with open_recorder(folder / ("set" if layout == "minari" else "set.hdf5"), layout, goals) as recorder:
            for number, episode in enumerate(episodes):
                recorder.add(episode, seed=100 + number)
        return recorder.path

    return record


@pytest.fixture(scope="session", params=LAYOUTS)
def recorded(request: pytest.FixtureRequest, write: Write, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished file of each layout; not to be changed."""
    return write(tmp_path_factory.mktemp("recorded"), request.param)
