from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from embodied.errors import UserError
from embodied.learning.her import HindsightReplay, ReplayConfig
from embodied.protocols import GoalReward
from embodied.spec import EnvSpec
from embodied.types import Batch, Episode, Outcome

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


def _arm(spec: EnvSpec) -> EnvSpec:
    """The same task, with a hand that counts as a gripper."""
    return dataclasses.replace(spec, layout=dataclasses.replace(spec.layout, entities=("gripper", "block")))


def _replay(spec: EnvSpec, reward: GoalReward, make: Make, **settings: Any) -> HindsightReplay:
    replay = HindsightReplay(_arm(spec), reward, ReplayConfig(capacity=100, **settings), seed=0, gamma=0.5)
    for number, length in LENGTHS.items():
        episode = make(number, length)
        # In the first two steps the gripper's goal was pursued: clock 50.
        episode.goal_entity[:2] = 0
        episode.goal_value[:2, 1] = 50.0
        replay.add(episode)
    return replay


def test_every_transition_serves_for_goals_of_the_gripper_and_of_the_object(
    spec: EnvSpec, reward: GoalReward, make_episode: Make
) -> None:
    batch = _replay(spec, reward, make_episode, relabel=1.0, gripper_share=0.4).sample(5000)
    of_gripper = batch.observation[:, 2] == batch.observation[:, 1]  # features are 10 e + t
    assert of_gripper.mean() == pytest.approx(0.4, abs=0.04)
    k = batch.goal[:, 1] - np.where(of_gripper, 0.0, 0.5)
    assert (k == np.round(k)).all()
    assert (k >= batch.observation[:, 1] + 1).all()
    assert (k <= np.vectorize(LENGTHS.get)(batch.goal[:, 0])).all()
    reached = k == batch.next_observation[:, 1]
    assert (batch.reward == np.where(reached, 0.0, -1.0)).all()


def test_a_goal_that_is_kept_is_the_entitys_own_of_that_episode(
    spec: EnvSpec, reward: GoalReward, make_episode: Make
) -> None:
    batch = _replay(spec, reward, make_episode, relabel=0.0, gripper_share=0.4).sample(5000)
    of_gripper = batch.observation[:, 2] == batch.observation[:, 1]
    kept, long = ~batch.relabelled, batch.observation[:, 0] < 3
    assert (batch.goal[kept & of_gripper, 1] == 50.0).all()
    assert (batch.goal[kept & ~of_gripper, 1] == 100.0).all()
    assert kept[long].all(), "episodes 1 and 2 are long enough to have had goals of both"
    assert (kept[~long] == of_gripper[~long]).all(), "the block never had one in episode 3"
    happened = kept & (of_gripper == (batch.observation[:, 1] < 2))
    assert (batch.reward[happened] == -5.0).all()
    assert (batch.reward[kept & ~happened] == -1.0).all()


def test_success_ends_the_bootstrap_where_it_is_asked_to(spec: EnvSpec, reward: GoalReward, make_episode: Make) -> None:
    def endless(achieved: np.ndarray, goal: np.ndarray, mask: np.ndarray) -> Outcome:
        outcome = reward(achieved, goal, mask)
        return dataclasses.replace(outcome, terminated=np.zeros_like(outcome.success))

    for share in (0.0, 0.25, 1.0):
        batch = _replay(spec, endless, make_episode, relabel=1.0, success_ends=share).sample(5000)
        reached = batch.reward == 0.0
        assert 0.0 < reached.mean() < 1.0
        assert not batch.terminated[~reached].any()
        assert batch.terminated[reached].mean() == pytest.approx(share, abs=0.0 if share in (0.0, 1.0) else 0.04)


def test_how_many_reached_goals_end_the_bootstrap_may_change_and_survives_a_resume(
    tmp_path: Path, spec: EnvSpec, reward: GoalReward, make_episode: Make
) -> None:
    config = ReplayConfig(capacity=30, relabel=1.0, success_ends=1.0, success_ends_later=0.0, later_after=30)

    def endless(achieved: np.ndarray, goal: np.ndarray, mask: np.ndarray) -> Outcome:
        outcome = reward(achieved, goal, mask)
        return dataclasses.replace(outcome, terminated=np.zeros_like(outcome.success))

    replay = HindsightReplay(spec, endless, config, seed=0, path=tmp_path / "episodes.bin")
    replay.begin()
    for number in range(4):
        assert number == 0 or replay.sample(500).terminated.any()
        replay.add(make_episode(number, 8))
    assert not replay.sample(500).terminated.any(), "32 were taken in, though the replay holds fewer"
    saved = replay.state()
    replay.close()
    again = HindsightReplay(spec, endless, config, seed=0, path=tmp_path / "episodes.bin")
    again.restore(*saved)
    assert not again.sample(500).terminated.any()
    again.close()


def test_several_steps_are_summed_up_until_the_goal_or_the_end(
    spec: EnvSpec, reward: GoalReward, make_episode: Make
) -> None:
    batch = _replay(spec, reward, make_episode, relabel=1.0, n_step=3).sample(5000)
    t, k = batch.observation[:, 1], batch.goal[:, 1] - 0.5
    k = np.where(batch.observation[:, 2] == t, batch.goal[:, 1], k)
    ends = np.minimum(np.minimum(t + 3, np.vectorize(LENGTHS.get)(batch.observation[:, 0])), k)
    assert (batch.next_observation[:, 1] == ends).all()
    assert (batch.discount == 0.5 ** (ends - t)).all()
    lost = ends - t - (ends == k)  # -1 for each step but the one that reaches the goal
    assert batch.reward == pytest.approx(-(1 - 0.5**lost) / 0.5)
    assert (batch.terminated == (ends == k)).all()


def test_fewer_steps_are_summed_up_later(spec: EnvSpec, reward: GoalReward, make_episode: Make) -> None:
    config = ReplayConfig(capacity=100, relabel=1.0, n_step=3, n_step_later=1, later_after=16)
    replay = HindsightReplay(spec, reward, config, seed=0, gamma=0.5)
    for number, longest in ((0, 3), (1, 1)):
        replay.add(make_episode(number, 8))
        batch = replay.sample(500)
        assert (batch.next_observation[:, 1] - batch.observation[:, 1]).max() == longest
        assert batch.discount is not None
        assert batch.discount.min() == pytest.approx(0.5**longest)
    with pytest.raises(UserError, match="n_step_later must be at least 1"):
        ReplayConfig(n_step_later=0)


def test_what_only_flies_through_a_goal_has_not_arrived(spec: EnvSpec, reward: GoalReward, make_episode: Make) -> None:
    """The block stands at 4.0 in steps 2 to 5 of episode 1, and moves on."""

    def endless(achieved: np.ndarray, goal: np.ndarray, mask: np.ndarray) -> Outcome:
        outcome = reward(achieved, goal, mask)
        return dataclasses.replace(outcome, terminated=np.zeros_like(outcome.success))

    replay = HindsightReplay(spec, endless, ReplayConfig(capacity=100, relabel=0.0, success_ends=1.0, settle=2), seed=0)
    episode = make_episode(1, 8, goal_clock=4.0)
    episode.achieved[2:6, 1, 1] = 4.0
    replay.add(episode)
    batch = replay.sample(1000)
    arrived = {int(t): bool(ended) for t, ended in zip(batch.observation[:, 1], batch.terminated, strict=True)}
    assert arrived == {0: False, 1: True, 2: True, 3: False, 4: False, 5: False, 6: False, 7: False}


def test_a_share_outside_its_range_is_refused() -> None:
    with pytest.raises(UserError, match="relabel"):
        ReplayConfig(relabel=1.5)


@pytest.mark.parametrize(("lost_after", "counts"), [(0, True), (11, True), (12, False), (None, False)])
def test_what_was_lost_is_lost_for_good(
    spec: EnvSpec, reward: GoalReward, make_episode: Make, lost_after: int | None, counts: bool
) -> None:
    """Episode 2 is broken off after 3 of its steps, episode 1 lasts to the horizon: 11 transitions."""
    spec = dataclasses.replace(spec, horizon=8, reward_range=(-1.0, 0.0))
    config = ReplayConfig(capacity=100, relabel=0.0, lost_after=lost_after, n_step=2, gripper_share=0.5)
    replay = HindsightReplay(spec, reward, config, seed=0, gamma=0.5)
    for number, length in ((1, 8), (2, 3)):
        episode = make_episode(number, length)
        truncated = np.array([False] * (length - 1) + [True])
        reward_of_all = np.full(length, -1.0, np.float32)
        ended = np.zeros(length, bool)
        replay.add(dataclasses.replace(episode, truncated=truncated, terminated=ended, reward=reward_of_all))
    batch = replay.sample(4000)
    short, clock = batch.observation[:, 0] == 2, batch.observation[:, 1]
    about_thing = batch.observation[:, 2] != clock
    lost = short & (clock >= 1) & about_thing
    assert lost.any()
    assert (batch.terminated == (lost & counts)).all()
    if not counts:
        return
    # Two steps, or the last one, and then -1 for ever: -1 / (1 - 0.5) from wherever it is counted.
    assert batch.reward[lost] == pytest.approx(-2.0)
    with pytest.raises(UserError, match="lost_after"):
        HindsightReplay(dataclasses.replace(spec, reward_range=None), reward, config, seed=0)
