from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from embodied.errors import UserError
from embodied.learning.her import HindsightReplay, ReplayConfig
from embodied.protocols import GoalReward
from embodied.spec import EnvSpec
from embodied.types import Batch, Episode

Make = Callable[..., Episode]
LENGTHS = {1: 8, 2: 3, 3: 1}


def _batch(spec: EnvSpec, reward: GoalReward, make: Make, relabel: float, goal_clock: float = 100.0) -> Batch:
    replay = HindsightReplay(spec, reward, ReplayConfig(capacity=100, relabel=relabel), seed=0)
    for number, length in LENGTHS.items():
        replay.add(make(number, length, goal_clock))
    return replay.sample(5000)


def test_the_new_goal_is_what_the_goals_entity_achieves_later_in_the_episode(
    spec: EnvSpec, reward: GoalReward, make_episode: Make
) -> None:
    batch = _batch(spec, reward, make_episode, relabel=1.0)
    episode, t = batch.observation[:, 0], batch.observation[:, 1]
    k = batch.goal[:, 1] - 0.5  # the block's clock runs half a step ahead of the hand's
    assert batch.relabelled.all()
    assert (batch.goal[:, 0] == episode).all()
    assert (k == np.round(k)).all()
    assert (k >= t + 1).all()
    assert (k <= np.vectorize(LENGTHS.get)(episode)).all()
    pairs = {(int(a), int(b)) for a, b, e in zip(t, k, episode, strict=True) if e == 1}
    assert pairs == {(a, b) for a in range(8) for b in range(a + 1, 9)}


def test_later_steps_are_drawn_uniformly(spec: EnvSpec, reward: GoalReward, make_episode: Make) -> None:
    batch = _batch(spec, reward, make_episode, relabel=1.0)
    first = (batch.observation[:, 0] == 1) & (batch.observation[:, 1] == 0)
    counts = np.bincount((batch.goal[first, 1] - 0.5).astype(int), minlength=9)[1:]
    assert (np.abs(counts - counts.mean()) < 5 * np.sqrt(counts.mean())).all()


def test_both_observations_belong_to_one_transition_and_to_the_goals_entity(
    spec: EnvSpec, reward: GoalReward, make_episode: Make
) -> None:
    batch = _batch(spec, reward, make_episode, relabel=0.5)
    assert batch.observation.shape == (5000, 3)
    assert (batch.next_observation[:, 0] == batch.observation[:, 0]).all()
    assert (batch.next_observation[:, 1] == batch.observation[:, 1] + 1).all()
    assert (batch.observation[:, 2] == 10 + batch.observation[:, 1]).all()
    assert (batch.next_observation[:, 2] == 10 + batch.next_observation[:, 1]).all()
    assert (batch.action == [0.25, -0.5]).all()


def test_reward_and_termination_are_recomputed_where_relabelled_and_kept_elsewhere(
    spec: EnvSpec, reward: GoalReward, make_episode: Make
) -> None:
    batch = _batch(spec, reward, make_episode, relabel=0.6)
    assert batch.relabelled.mean() == pytest.approx(0.6, abs=0.05)
    reached = batch.goal[:, 1] == batch.next_observation[:, 1] + 0.5
    new = batch.relabelled
    assert (batch.reward[new] == np.where(reached[new], 0.0, -1.0)).all()
    assert (batch.terminated[new] == reached[new]).all()
    assert 0.0 < reached[new].mean() < 1.0
    assert (batch.reward[~new] == -5.0).all()
    assert not batch.terminated[~new].any()
    assert (batch.goal[~new, 1] == 100.0).all()


def test_masked_components_are_zero_in_every_goal(spec: EnvSpec, reward: GoalReward, make_episode: Make) -> None:
    # The block's height is 7 all the time, but the goal says nothing about it.
    assert (_batch(spec, reward, make_episode, relabel=0.5).goal[:, 2] == 0.0).all()


def test_goals_that_held_before_the_action_are_counted(spec: EnvSpec, reward: GoalReward, make_episode: Make) -> None:
    moving = _batch(spec, reward, make_episode, relabel=1.0)
    assert not moving.already_satisfied.any()
    # Pursued goal: the block's clock 2.5, which it shows at t = 2 of episodes 1 and 2.
    pursued = _batch(spec, reward, make_episode, relabel=0.0, goal_clock=2.5)
    assert (pursued.already_satisfied == (pursued.observation[:, 1] == 2)).all()
    assert pursued.already_satisfied.any()


def test_the_same_seed_draws_the_same_and_restore_goes_on_alike(
    spec: EnvSpec, reward: GoalReward, make_episode: Make, tmp_path: Path
) -> None:
    config = ReplayConfig(capacity=100)
    one = HindsightReplay(spec, reward, config, 0, tmp_path / "episodes.bin")
    twin, other = (HindsightReplay(spec, reward, config, seed) for seed in (0, 1))
    later = HindsightReplay(spec, reward, config, 7, tmp_path / "episodes.bin")
    for replay in (one, twin, other):
        replay.begin()
        replay.add(make_episode(1, 8))
    assert np.array_equal(one.sample(64).goal, twin.sample(64).goal)
    assert not np.array_equal(one.sample(64).goal, other.sample(64).goal)
    saved = one.state()
    one.add(make_episode(2, 8))
    later.restore(*saved)
    one.restore(*saved)
    assert np.array_equal(one.sample(64).goal, later.sample(64).goal)


def test_a_share_outside_its_range_is_refused() -> None:
    with pytest.raises(UserError, match="relabel"):
        ReplayConfig(relabel=1.5)
