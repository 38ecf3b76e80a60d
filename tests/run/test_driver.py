from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from embodied.run.driver import Driver, EpisodeRecorder, Transition
from embodied.types import Episode


def test_an_episode_is_recorded_as_it_happened(make_point_mass: Callable, make_scripted: Callable) -> None:
    env = make_point_mass(horizon=5)
    seen: list[Transition] = []
    episodes: list[Episode] = []
    recorder = EpisodeRecorder(env.spec, episodes.append)

    def watch(transition: Transition) -> None:
        seen.append(transition)
        recorder(transition)

    act = make_scripted(env.spec).act
    driver = Driver(env, watch)
    for seed in (3, 4):
        assert len(driver.run_episode(act, seed)) == 5
        assert not driver.running
    assert [(item.episode, item.index) for item in seen] == [(e, t) for e in (0, 1) for t in range(5)]
    assert len(episodes) == 2
    episode = episodes[1]
    assert episode.state.shape == (6, 2)
    assert episode.entities.shape == (6, 1, 0)
    assert np.array_equal(episode.state[0], make_point_mass().reset(4).state)
    # The point moves by a quarter of each action unless a wall stops it: action t lies between states t and t + 1.
    moved = np.clip(episode.state[:-1] + 0.25 * episode.action, -1, 1)
    assert np.allclose(episode.state[1:], moved)
    assert np.array_equal(episode.achieved[:, 0], episode.state)
    assert np.array_equal(episode.goal_value, np.tile(env.goal.value, (5, 1)))
    assert episode.truncated.tolist() == [False] * 4 + [True]
    assert not episode.terminated.any()
    outcome = env.reward(episode.achieved[1:, 0], episode.goal_value, episode.goal_mask)
    assert np.array_equal(outcome.reward, episode.reward)
    assert np.array_equal(outcome.success, episode.success)
    assert np.array_equal(episode.interval[2], [[-1, -1], [1, 1]])


def test_termination_ends_an_episode_early(make_point_mass: Callable, make_scripted: Callable) -> None:
    env = make_point_mass(ends_at_goal=True)
    episodes: list[Episode] = []
    Driver(env, EpisodeRecorder(env.spec, episodes.append)).run_episode(make_scripted(env.spec).act, 0)
    assert 0 < len(episodes[0]) < env.spec.horizon
    assert episodes[0].terminated.tolist() == [False] * (len(episodes[0]) - 1) + [True]
    assert not episodes[0].truncated.any()


def test_stepping_before_a_reset_is_a_mistake(make_point_mass: Callable, make_scripted: Callable) -> None:
    env = make_point_mass()
    with pytest.raises(RuntimeError, match="reset"):
        Driver(env).step(make_scripted(env.spec).act)
