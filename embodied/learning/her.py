"""Hindsight goals (Andrychowicz et al. 2017, arXiv 1707.01495, strategy `future`), made when a batch is drawn."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from embodied.errors import UserError
from embodied.learning.episode_file import EpisodeFile, columns_of
from embodied.learning.replay import Arrays, EpisodeReplay
from embodied.protocols import GoalReward
from embodied.rng import child_generator
from embodied.spec import EnvSpec
from embodied.types import GRIPPER, Batch, BoolArray, Episode, FloatArray, Outcome


@dataclass(frozen=True)
class ReplayConfig:
    """How much is kept and how it is relabelled."""

    capacity: int = 1_000_000
    """Rows; an episode of T steps takes T + 1."""
    relabel: float = 0.8
    """Share of a batch whose goals are replaced by ones reached later in the same episode."""
    gripper_share: float = 0.0
    """Share of a batch whose goals speak of the gripper, in tasks about something else; the others of that."""
    success_ends: float = 0.0
    """Share of the reached goals that end the bootstrap, as if the episode ended there. With 1 nothing that happens
    later counts; with less, whether the goal is kept counts too."""
    success_ends_later: float | None = None
    """The same once `later_after` transitions were taken in; None: nothing changes."""
    later_after: int = 60_000
    """Transitions."""
    settle: int = 0
    """It does so only where it still held so many steps later: what flies through a goal has not arrived."""
    lost_after: int | None = None
    """Once so many transitions were taken in, an episode that a relay broke off has lost its object: for goals about
    that the least reward follows for ever. Before, it counts as cut off by a time limit: who has nothing to lose tries
    more. None: always so."""
    n_step: int = 1
    """Rewards of so many steps are summed up before the bootstrap. More spread faster; but a goal that was reached by
    chance within them looks as if the first action had led there, the more so where goals are chosen afterwards."""
    n_step_later: int | None = None
    """The same once `later_after` transitions were taken in; None: nothing changes."""

    def __post_init__(self) -> None:
        for name in ("relabel", "gripper_share", "success_ends"):
            if not 0.0 <= getattr(self, name) <= 1.0:
                raise UserError(f"replay.{name} must lie in [0, 1], got {getattr(self, name)}")
        if self.success_ends_later is not None and not 0.0 <= self.success_ends_later <= 1.0:
            raise UserError(f"replay.success_ends_later must lie in [0, 1], got {self.success_ends_later}")
        for name in ("later_after", "lost_after", "settle"):
            if getattr(self, name) is not None and getattr(self, name) < 0:
                raise UserError(f"replay.{name} must be at least 0, got {getattr(self, name)}")
        for name in ("n_step", "n_step_later"):
            if getattr(self, name) is not None and getattr(self, name) < 1:
                raise UserError(f"replay.{name} must be at least 1, got {getattr(self, name)}")


@dataclass(frozen=True)
class _Ahead:
    """What the next steps bring, each (B,)."""

    reward: FloatArray
    terminated: BoolArray
    steps: NDArray[np.int64]
    """How many were counted, at least 1."""


class HindsightReplay:
    """Draws transitions and replaces some goals by what was achieved later in the episode.

    For the transition t -> t + 1 the new goal is achieved[k] of the goal's entity, t + 1 <= k <= T, k uniform. Reward
    and termination of such a row are recomputed with the task's own `GoalReward`; the other rows keep what happened.
    Where the task is about something that the gripper moves, every transition serves for goals of either: a row whose
    goal was not replaced then has the one that this entity had in the episode, if it had one.
    """

    def __init__(
        self,
        spec: EnvSpec,
        reward: GoalReward,
        config: ReplayConfig,
        seed: int,
        path: Path | None = None,
        gamma: float = 0.98,
    ) -> None:
        """
        Args:
            spec: Gives the widths.
            reward: The task's own.
            config: Size and relabelling.
            seed: Root of the draws.
            path: File that the episodes are appended to, so that the replay can be taken up again; None: memory only.
            gamma: The learner's discount, for sums over several steps.
        """
        for name in ("n_step", "n_step_later", "settle"):
            steps = getattr(config, name)
            if steps is not None and steps > spec.horizon:
                raise UserError(f"replay.{name}={steps} is more than an episode of {spec.task} has: {spec.horizon}")
        self.config = config
        self.episodes = EpisodeReplay(spec, config.capacity)
        self._path, self._file = path, None
        self._reward, self._gamma = reward, gamma
        entities = spec.layout.entities
        self._gripper = entities.index(GRIPPER) if GRIPPER in entities and spec.layout.entity_width else None
        self._thing = entities.index(spec.goal_entity) if spec.goal_entity != GRIPPER else None
        self._rng = child_generator(seed, "replay")
        self._taken_in = 0
        if config.lost_after is not None and spec.reward_range is None:
            raise UserError(f"replay.lost_after: the least reward of {spec.task} is not known; set it to null")
        self._least = spec.reward_range[0] / (1.0 - gamma) if spec.reward_range is not None else 0.0

    def __len__(self) -> int:
        """Transitions that can be drawn."""
        return len(self.episodes)

    def add(self, episode: Episode) -> None:
        """Take in a finished episode."""
        if self._file is not None:
            self._file.append(episode)
        self.episodes.add(episode)
        self._taken_in += len(episode)

    def sample(self, size: int) -> Batch:
        """A batch of `size` transitions."""
        rows = self.episodes.rows
        now, last = self.episodes.draw(size, self._rng)
        entity, source = self._choose_entities(now)
        relabelled = (self._rng.random(size) < self.config.relabel) | (source < 0)
        later = now + 1 + (self._rng.random(size) * (last - now)).astype(np.int64)
        source = np.where(relabelled, now, source)
        goal = np.where(relabelled[:, None], self.episodes.achieved(later, entity), rows["goal_value"][source])
        mask = rows["goal_mask"][source]
        outcomes = self._outcomes(now, last, entity, goal, mask)
        ahead = self._look_ahead(now, last, entity, outcomes, ~relabelled & (source == now))
        return Batch(
            observation=self._observation(now, entity),
            next_observation=self._observation(now + ahead.steps, entity),
            goal=np.where(mask, goal, np.float32(0.0)),
            action=rows["action"][now],
            reward=ahead.reward,
            terminated=ahead.terminated,
            relabelled=relabelled,
            already_satisfied=outcomes.success[:, 0],
            discount=(self._gamma**ahead.steps).astype(np.float32) if self.config.n_step > 1 else None,
        )

    @property
    def _ending_share(self) -> float:
        """`success_ends` as it is now."""
        later = self.config.success_ends_later
        return self.config.success_ends if later is None or not self._is_later else later

    @property
    def _steps_summed(self) -> int:
        """`n_step` as it is now."""
        later = self.config.n_step_later
        return self.config.n_step if later is None or not self._is_later else later

    @property
    def _is_later(self) -> bool:
        return self._taken_in >= self.config.later_after

    def _choose_entities(self, now: NDArray[np.int64]) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
        """Whose goal each row is about, and the row that holds the one it had in this episode; -1 where it had none."""
        rows = self.episodes.rows
        entity = rows["goal_entity"][now]
        if self._gripper is None or self._thing is None:
            return entity, now
        at_gripper = self._rng.random(len(now)) < self.config.gripper_share
        thing = np.where(entity == self._gripper, np.int32(self._thing), entity)
        chosen = np.where(at_gripper, np.int32(self._gripper), thing)
        return chosen, np.where(chosen == entity, now, self.episodes.pursued[now, chosen].astype(np.int64) - 1)

    def _outcomes(
        self,
        now: NDArray[np.int64],
        last: NDArray[np.int64],
        entity: NDArray[np.int32],
        goal: FloatArray,
        mask: BoolArray,
    ) -> Outcome:
        """What is reached at the moments that `_look_ahead` asks for, each (B, K): now and after each step that is
        summed, then `settle` steps after each of these."""
        count = self._steps_summed
        ahead = np.arange(1 + count)
        if self._ending_share:
            ahead = np.union1d(ahead, ahead[1:] + self.config.settle)
        row = np.minimum(now[:, None] + ahead, last[:, None])
        achieved = self.episodes.achieved(row, entity[:, None])
        flat = (-1, goal.shape[1])
        found = self._reward(
            achieved.reshape(flat), np.repeat(goal, len(ahead), axis=0), np.repeat(mask, len(ahead), axis=0)
        )
        parts = (found.reward, found.terminated, found.success)
        return Outcome(*(np.asarray(part).reshape(row.shape) for part in parts))

    def _look_ahead(
        self,
        now: NDArray[np.int64],
        last: NDArray[np.int64],
        entity: NDArray[np.int32],
        outcomes: Outcome,
        happened: BoolArray,
    ) -> _Ahead:
        """Discounted reward until the goal ends the episode, `n_step` steps are over, or the episode is."""
        config, rows, count = self.config, self.episodes.rows, self._steps_summed
        row = np.minimum(now[:, None] + np.arange(count), last[:, None] - 1)
        earned, ended = outcomes.reward[:, 1 : count + 1].copy(), outcomes.terminated[:, 1 : count + 1].copy()
        real = np.flatnonzero(happened)
        same = rows["goal_entity"][row[real]] == entity[real, None]
        earned[real] = np.where(same, rows["reward"][row[real]], earned[real])
        ended[real] = np.where(same, rows["terminated"][row[real]], ended[real])
        if self._ending_share:
            # A goal that is reached has to hold `settle` steps later too, or at the end of the episode.
            arrived = outcomes.success[:, 1 : count + 1] & outcomes.success[:, -count:]
            if self._ending_share < 1.0:
                arrived &= self._rng.random((len(now), 1)) < self._ending_share
            ended |= arrived
        reward, steps = np.zeros(len(now), dtype=np.float32), np.zeros(len(now), dtype=np.int64)
        going, over = np.ones(len(now), dtype=bool), np.zeros(len(now), dtype=bool)
        for index in range(count):
            going = going & (now + index < last)
            reward += np.where(going, np.float32(self._gamma**index) * earned[:, index], np.float32(0.0))
            steps += going
            over |= going & ended[:, index]
            going &= ~ended[:, index]
        if config.lost_after is not None and self._taken_in >= config.lost_after:
            lost = ~over & (now + steps == last) & (entity == self._thing) & self.episodes.broken_off(last)
            reward += np.where(lost, self._gamma**steps * self._least, 0.0).astype(np.float32)
            over |= lost
        return _Ahead(reward, over, steps)

    def begin(self) -> None:
        """Start with nothing, on disk too."""
        self.close()
        if self._path is not None:
            self._file = EpisodeFile(self._path, columns_of(self.episodes.rows))

    def state(self) -> tuple[Arrays, dict[str, Any]]:
        """For a checkpoint: how long the file is, which is on the disk afterwards."""
        if self._file is None:
            raise RuntimeError("a replay without a file cannot be taken up again")
        self._file.sync()
        return {}, {"length": self._file.length, "rng": self._rng.bit_generator.state}

    def restore(self, arrays: Arrays, meta: dict[str, Any]) -> None:
        """Back to where `state` was taken; what was appended later is cut off.

        Raises:
            IntegrityError: The file is damaged before that.
        """
        if self._path is None:
            raise RuntimeError("a replay without a file cannot be taken up again")
        self.close()
        file = EpisodeFile(self._path, columns_of(self.episodes.rows), meta["length"])
        self._file = file
        self.episodes.refill([place.steps for place in file.places], lambda index: file.read(file.places[index]))
        self._taken_in = sum(place.steps for place in file.places)
        self._rng.bit_generator.state = meta["rng"]

    def close(self) -> None:
        """Lets go of the file."""
        if self._file is not None:
            self._file.close()
            self._file = None

    @property
    def summary(self) -> str:
        """Size and memory in one line."""
        rows, each = self.config.capacity, self.episodes.bytes_per_row
        return f"replay: {rows:,} rows of {each} bytes, {rows * each / 1e6:,.0f} MB when full"

    def _observation(self, row: NDArray[np.int64], entity: NDArray[np.int32]) -> FloatArray:
        features = self.episodes.rows["entities"]
        state = self.episodes.rows["state"][row]
        return np.concatenate((state, features[row, entity]), 1) if features.shape[-1] else state
