"""Goal dictionaries have Gymnasium's own numbers, shown by stepping Gymnasium's environment beside ours."""

from __future__ import annotations

import json
from dataclasses import fields
from typing import Any

import numpy as np
import pytest

from embodied.errors import LayoutError, UserError
from embodied.run.driver import Driver, EpisodeRecorder
from embodied.types import Episode
from robots.base import CheckedEnv, checked, load_gymnasium
from robots.goal_layout import goal_layout, goal_layout_of
from robots.registry import make_env
from robots.tabletop import TabletopEnv

STEPS = 25
OPTIONS = {"PointMaze": {"continuing_task": True, "reset_target": False}}
TASKS = [
    ("fetch_reach", "FetchReach-v4"),
    ("fetch_push", "FetchPush-v4"),
    ("fetch_pick_place", "FetchPickAndPlace-v4"),
    ("fetch_slide", "FetchSlide-v4"),
    ("point_umaze", "PointMaze_UMaze-v3"),
    ("point_medium", "PointMaze_Medium-v3"),
    ("gym:FetchPush-v4", "FetchPush-v4"),
    ("gym:PointMaze_UMaze-v3", "PointMaze_UMaze-v3"),
]


def episode_of(task: str, seed: int) -> Episode:
    """Ours: the first steps of an episode with random actions."""
    return episode_in(make_env(task), seed)


def episode_in(env: CheckedEnv, seed: int) -> Episode:
    """The same in an environment that is there already, and is closed afterwards."""
    made, rng = [], np.random.default_rng(seed)
    driver = Driver(env, EpisodeRecorder(env.spec, made.append))
    driver.run_episode(lambda o, g: rng.uniform(-1, 1, env.spec.action_width).astype(np.float32), seed)
    env.close()
    whole = made[0]
    after = {"state", "entities", "achieved"}
    return Episode(**{f.name: getattr(whole, f.name)[: STEPS + (f.name in after)] for f in fields(Episode)})


def gymnasium_episode(env_id: str, seed: int, actions: np.ndarray, options: dict[str, Any]) -> dict[str, np.ndarray]:
    """Gymnasium's observations of the same episode."""
    env = load_gymnasium().make(env_id, disable_env_checker=True, **options)
    seen = [env.reset(seed=seed)[0], *(env.step(action)[0] for action in actions)]
    env.close()
    return {key: np.stack([item[key] for item in seen]) for key in seen[0]}


@pytest.mark.parametrize(("task", "env_id"), TASKS, ids=[task for task, _ in TASKS])
def test_there_and_back(task: str, env_id: str) -> None:
    goals, episode = goal_layout(task), episode_of(task, 3)
    options = OPTIONS.get(env_id.split("_")[0], {}) if not task.startswith("gym:") else {}
    theirs = gymnasium_episode(env_id, 3, episode.action, options)
    ours = goals.to_goal_dict(episode)
    assert goals.env_id == env_id
    for key, space in goals.observation_space.items():
        assert ours[key].shape == (STEPS + 1, *space["shape"])
        assert ours[key].dtype == np.float32
        assert np.array_equal(ours[key], theirs[key].astype(np.float32)), key
    back = goals.from_goal_dict(theirs)
    for name, array in back.items():
        assert array.dtype == getattr(episode, name).dtype
        assert np.array_equal(array, getattr(episode, name)), name


def test_a_scene_of_its_own_comes_back() -> None:
    env = checked(TabletopEnv())
    goals = goal_layout_of(env)
    episode = episode_in(env, 0)
    objects = len(goals.spec.layout.entities) - 1
    numbers = goals.to_goal_dict(episode)
    assert objects > 1
    assert numbers["observation"].shape == (STEPS + 1, 10 + 15 * objects)
    assert (goals.env_id, goals.env_spec) == (None, None)
    for name, array in goals.from_goal_dict(numbers).items():
        assert np.array_equal(array, getattr(episode, name)), name


def test_the_goal_of_another_entity_is_what_was_achieved_by_it() -> None:
    goals, episode = goal_layout("fetch_push"), episode_of("fetch_push", 1)
    entity = np.where(np.arange(STEPS) < 10, 0, 1).astype(np.int32)
    parts = {field.name: getattr(episode, field.name) for field in fields(Episode)}
    numbers = goals.to_goal_dict(Episode(**{**parts, "goal_entity": entity}))
    assert np.array_equal(numbers["achieved_goal"][:10], episode.achieved[:10, 0])
    assert np.array_equal(numbers["achieved_goal"][10:], episode.achieved[10:, 1])


def test_the_environment_can_be_made_again() -> None:
    goals = goal_layout("point_umaze")
    told = json.loads(goals.env_spec or "")
    assert told["kwargs"]["continuing_task"] is True
    assert told["kwargs"]["reset_target"] is False
    assert goals.action_space == {"type": "Box", "dtype": "float32", "shape": [2], "low": [-1.0] * 2, "high": [1.0] * 2}


def test_planar_goals_have_no_height() -> None:
    numbers = {"observation": np.ones((4, 4)), "achieved_goal": np.ones((4, 2)), "desired_goal": np.ones((4, 2))}
    back = goal_layout("point_umaze").from_goal_dict(numbers)
    assert back["goal_value"].tolist() == [[1.0, 1.0, 0.0]] * 3
    assert back["goal_mask"].tolist() == [[True, True, False]] * 3


def test_other_widths_are_refused_with_the_terms() -> None:
    numbers = {key: np.zeros((3, 3)) for key in ("observation", "achieved_goal", "desired_goal")}
    with pytest.raises(LayoutError, match=r"'observation' has shape \(3,\), fetch_reach has \(10,\) .*gripper_state 2"):
        goal_layout("fetch_reach").from_goal_dict(numbers)
    with pytest.raises(UserError, match="unknown task"):
        goal_layout("fetch_fly")
