"""A hand on a line that pushes a block ahead of it: the smallest task about an object."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from embodied.errors import UserError
from embodied.learning.checkpoint import CheckpointStore
from embodied.learning.episode_file import EpisodeFile, columns_of
from embodied.learning.her import HindsightReplay, ReplayConfig
from embodied.learning.sac import SacConfig, SacLearner
from embodied.run.metrics import CLOCK_KEYS
from embodied.run.relay import RelayConfig, RelayExplorer, relay_fits
from embodied.run.train import TrainConfig, train
from embodied.run.worker import Worker
from embodied.spec import EnvSpec, Layout, Term
from embodied.types import Episode, FloatArray, Goal, Observation, Outcome, Step

LAYOUT = Layout((Term("hand", 1),), (Term("block", 1), Term("is_gripper", 1)), (Term("position", 1),), ("gripper", "b"))
MASK = np.ones(1, bool)
LOOP = TrainConfig(
    total_steps=120, start_steps=30, batch_size=16, eval_every=60, eval_episodes=2, final_episodes=2, log_every=20,
    checkpoint_every=50,
)  # fmt: skip
REPLAY = ReplayConfig(capacity=200, gripper_share=0.5, success_ends=0.5)
SAC = SacConfig(hidden=(16,), actor_every=2)


def _reward(achieved: FloatArray, goal: FloatArray, mask: FloatArray) -> Outcome:
    success = np.abs(np.where(mask, achieved - goal, 0.0))[..., 0] < 0.1
    return Outcome(success.astype(np.float32) - 1.0, np.zeros(success.shape, bool), success)


class PushLine:
    """The hand moves by at most 0.2 per step; a block in its way moves along."""

    def __init__(self) -> None:
        self.spec = EnvSpec(
            task="push_line", robot="gym", layout=LAYOUT, actions=(Term("move", 1),), action_low=(-1.0,),
            action_high=(1.0,), horizon=9, control_hz=10.0, tolerance=0.1, success_rule="last",
            reward_range=(-1.0, 0.0), goal_entity="b",
        )  # fmt: skip
        self.reward = _reward

    @property
    def goal(self) -> Goal:
        return self._goal

    def set_goal(self, goal: Goal) -> None:
        self._goal = goal

    def scene_state(self) -> Any:
        raise NotImplementedError

    def render(self, *_: Any, **__: Any) -> Any:
        raise NotImplementedError

    def close(self) -> None:
        pass

    def reset(self, seed: int) -> Observation:
        rng = np.random.default_rng(seed)
        self._hand, self._block, self._clock = np.float32(0.0), np.float32(rng.uniform(0.3, 0.5)), 0
        self._goal = Goal("b", rng.uniform(0.8, 1.2, 1), MASK)
        return self._observe()

    def step(self, action: FloatArray) -> Step:
        sent = np.clip(action, -1, 1).astype(np.float32)
        self._hand += np.float32(0.2) * sent[0]
        self._block = max(self._block, self._hand)
        self._clock += 1
        seen = self._observe()
        outcome = _reward(seen.achieved[LAYOUT.entity_index(self._goal.entity)], self._goal.value, MASK)
        return Step(seen, sent, float(outcome.reward), False, self._clock == self.spec.horizon, bool(outcome.success))

    def _observe(self) -> Observation:
        entities = np.float32([[self._block, 1], [self._block, 0]])
        return Observation(np.float32([self._hand]), entities, np.float32([[self._hand], [self._block]]), LAYOUT)


def seen(hand: float, block: float) -> Observation:
    return Observation(np.float32([hand]), np.zeros((2, 2), np.float32), np.float32([[hand], [block]]), LAYOUT)


def explorer(**settings: Any) -> RelayExplorer:
    return RelayExplorer(PushLine().spec, RelayConfig(**settings), seed=0)


def test_the_gripper_goes_to_the_object_and_then_the_object_to_its_goal() -> None:
    relay, task = explorer(contact_m=0.05, lost_m=0.1, mix=0.0), Goal("b", [1.0], MASK)
    relay.begin(0)
    asked = [relay.pursue(0, seen(hand, 0.5), task) for hand in (0.0, 0.42, 0.46, 0.42, 0.39, 0.42, 0.46)]
    assert [goal.entity for goal in asked] == ["gripper", "gripper", "b", "b", "gripper", "gripper", "b"]
    assert all(goal.value == pytest.approx([0.5]) for goal in asked if goal.entity == "gripper")
    assert all(goal is task for goal in asked if goal.entity == "b")
    relay.begin(0)
    assert relay.pursue(0, seen(0.42, 0.5), task).entity == "gripper", "an episode begins with the gripper's turn"


def test_stages_are_mixed_before_contact_and_only_then() -> None:
    relay, task = explorer(mix=0.3), Goal("b", [1.0], MASK)
    away = [relay.pursue(0, seen(0.0, 0.5), task).entity for _ in range(2000)]
    assert away.count("b") / 2000 == pytest.approx(0.3, abs=0.04)
    assert {relay.pursue(0, seen(0.49, 0.5), task).entity for _ in range(50)} == {"b"}


def test_actions_are_small_where_the_gripper_comes_near_the_object() -> None:
    task, full = Goal("b", [1.0], MASK), np.float32([-1.0])
    for in_contact in (False, True):
        relay = explorer(gentle_within_m=0.12, gentle=0.5, gentle_in_contact=in_contact)
        assert relay.restrain(0, seen(0.0, 0.5), task, full) == [-1.0]
        assert relay.restrain(0, seen(0.4, 0.5), task, full) == [-0.5]
        assert relay.restrain(0, seen(0.4, 0.5), task, np.float32([0.25])) == [0.25]
        relay.pursue(0, seen(0.46, 0.5), task)
        assert relay.restrain(0, seen(0.46, 0.5), task, full) == [-0.5 if in_contact else -1.0]


def test_actions_are_kept_small_in_a_share_of_the_episodes_and_the_choice_is_saved() -> None:
    task, full = Goal("b", [1.0], MASK), np.float32([-1.0])
    relay, chosen = explorer(gentle_share=0.3), []
    for _ in range(1000):
        relay.begin(0)
        within = {float(relay.restrain(0, seen(0.4, 0.5), task, full)[0]) for _ in range(3)}
        assert len(within) == 1, "one choice holds for the whole episode"
        chosen += within
    assert chosen.count(-0.5) / 1000 == pytest.approx(0.3, abs=0.05)
    again = explorer(gentle_share=0.3)
    again.restore(json.loads(json.dumps(relay.state())))
    gone_on: list[list[float]] = [[], []]
    for one, seen_of_it in zip((relay, again), gone_on, strict=True):
        for index in range(20):
            if index:
                one.begin(0)
            seen_of_it.append(float(one.restrain(0, seen(0.4, 0.5), task, full)[0]))
    assert gone_on[0] == gone_on[1]


def test_an_episode_ends_when_the_object_fell() -> None:
    relay, task = explorer(fallen_m=0.1), Goal("b", [1.0], MASK)
    assert not relay.over(0, seen(0.0, 0.1), task), "nothing began yet"
    relay.pursue(0, seen(0.0, 0.5), task)
    assert not relay.over(0, seen(0.0, 0.41), task)
    assert relay.over(0, seen(0.0, 0.39), task)
    episodes: list[Episode] = []
    worker = Worker(PushLine(), lambda episode, _: episodes.append(episode))
    worker.begin(0)
    for index in range(4):
        worker.step(lambda *_: np.float32([0.0]), lambda _, goal: goal, lambda _, index=index: index == 3)
    assert not worker.running
    assert worker.state() is None
    assert episodes[0].truncated.tolist() == [False, False, False, True]
    assert not episodes[0].terminated.any()


def test_an_episode_ends_where_the_tasks_goal_holds_whatever_was_pursued() -> None:
    episodes: list[Episode] = []
    worker, twin = (Worker(PushLine(), lambda episode, _: episodes.append(episode), ends_at_goal=2) for _ in range(2))
    worker.begin(0)
    far, target = Goal("gripper", np.float32([9.0]), MASK), float(worker.task_goal.value[0])

    def act(observation: Observation, _: Goal) -> FloatArray:
        return np.float32([np.clip((target - observation.state[0]) / 0.2, -1.0, 1.0)])

    while worker.running:
        twin.restore(json.loads(json.dumps(worker.state())))
        worker.step(act, lambda *_: far)
    twin.step(act, lambda *_: far)
    one, again = episodes
    assert 3 < len(one) == len(again) < 9, "before the horizon, and the restored one had counted too"
    assert one.goal_entity.tolist() == [0] * (len(one) - 1) + [1], "where the goal holds, nothing else is pursued"
    assert one.success.tolist() == [False] * (len(one) - 1) + [True]
    assert one.truncated[-1]
    assert not one.terminated.any()


def test_workers_have_stages_of_their_own() -> None:
    relay = RelayExplorer(PushLine().spec, RelayConfig(mix=0.0), 0, workers=2)
    task = Goal("b", [1.0], MASK)
    assert relay.pursue(0, seen(0.46, 0.5), task).entity == "b"
    assert relay.pursue(1, seen(0.42, 0.5), task).entity == "gripper"
    assert relay.pursue(0, seen(0.42, 0.5), task).entity == "b"


@pytest.mark.parametrize("wrong", [{"contact_m": 0.2}, {"mix": 1.5}, {"gentle": 0.0}, {"gentle_share": -0.1}])
def test_settings_out_of_range(wrong: dict[str, float]) -> None:
    with pytest.raises(UserError, match=f"relay.{next(iter(wrong))}"):
        RelayConfig(**wrong)


def test_only_tasks_about_an_object_are_relayed(make_point_mass: Any) -> None:
    assert relay_fits(PushLine().spec)
    assert not relay_fits(make_point_mass().spec)


def test_an_episode_holds_the_goals_that_were_pursued_and_a_restored_worker_has_them_too() -> None:
    episodes: list[tuple[Episode, Goal]] = []
    goals = [Goal("gripper", [0.1 * i], MASK) if i % 2 else Goal("b", [2.0], MASK) for i in range(9)]
    worker, twin = (Worker(PushLine(), lambda *both: episodes.append(both)) for _ in range(2))
    worker.begin(5)
    for index in range(9):
        if index == 6:
            twin.restore(json.loads(json.dumps(worker.state())))
        worker.step(lambda *_: np.float32([0.5]), lambda *_, index=index: goals[index])
    for index in range(6, 9):
        twin.step(lambda *_: np.float32([0.5]), lambda *_, index=index: goals[index])
    (one, task), (two, again) = episodes
    assert one.goal_entity.tolist() == [1, 0] * 4 + [1]
    np.testing.assert_array_equal(one.goal_value, np.stack([goal.value for goal in goals]))
    assert (task.entity, task.value) == (again.entity, again.value)
    assert task.entity == "b"
    assert 0.8 <= task.value <= 1.2
    for name, value in vars(one).items():
        np.testing.assert_array_equal(value, getattr(two, name))


def _train(folder: Path, resume: bool = False, **changes: Any) -> None:
    config = TrainConfig(**{**vars(LOOP), **changes})
    train(
        config,
        PushLine,
        lambda spec: SacLearner(spec, SAC, 0),
        lambda spec, reward: HindsightReplay(spec, reward, REPLAY, 0, folder / "episodes.bin"),
        CheckpointStore(folder / "checkpoints", print),
        folder,
        make_explorer=lambda spec: RelayExplorer(spec, RelayConfig(), 0, config.workers),
        resume=resume,
        progress=False,
    )


def _rows(folder: Path) -> list[dict[str, Any]]:
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return [{key: value for key, value in line.items() if key not in CLOCK_KEYS} for line in lines]


@pytest.mark.parametrize("workers", [1, 2])
def test_a_resumed_run_is_the_undisturbed_one(tmp_path: Path, workers: int) -> None:
    """Stopped at step 77, in the middle of an episode."""
    whole = tmp_path / "whole"
    _train(whole, workers=workers)
    _train(tmp_path / "again", total_steps=77, workers=workers)
    _train(tmp_path / "again", resume=True, workers=workers)
    kept = [row for row in _rows(tmp_path / "again") if row["step"] != 77]
    expected = _rows(whole)
    assert [row for row in kept if row["step"] > 80] == [row for row in expected if row["step"] > 80]
    spec = PushLine().spec
    columns = columns_of(HindsightReplay(spec, _reward, REPLAY, 0).episodes.rows)
    pairs = []
    for folder in (whole, tmp_path / "again"):
        path = folder / "episodes.bin"
        pairs.append(list(EpisodeFile(path, columns, path.stat().st_size)))
    assert len(pairs[0]) == len(pairs[1]) >= 10
    for one, two in zip(*pairs, strict=True):
        np.testing.assert_array_equal(one.goal_value, two.goal_value)
        np.testing.assert_array_equal(one.action, two.action)
    assert {int(row) for episode in pairs[0] for row in episode.goal_entity} == {0, 1}


def test_training_success_is_the_tasks_not_the_pursued_goals(tmp_path: Path) -> None:
    _train(tmp_path, log_every=120)
    (row,) = [row for row in _rows(tmp_path) if "train_reward" in row]
    path = tmp_path / "episodes.bin"
    columns = columns_of(HindsightReplay(PushLine().spec, _reward, REPLAY, 0).episodes.rows)
    episodes = list(EpisodeFile(path, columns, path.stat().st_size))
    goals = [episode.goal_value[episode.goal_entity == 1][0] for episode in episodes]
    judged = [
        _reward(e.achieved[1:, 1], np.full((9, 1), g), np.ones((9, 1), bool))
        for e, g in zip(episodes, goals, strict=True)
    ]
    assert row["train_reward"] == pytest.approx(np.mean([outcome.reward.sum() for outcome in judged]))
    assert row["train_success"] == pytest.approx(np.mean([outcome.success[-1] for outcome in judged]))
