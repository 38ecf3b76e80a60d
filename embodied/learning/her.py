"""Hindsight goals (Andrychowicz et al. 2017, arXiv 1707.01495, strategy `future`), made when a batch is drawn."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from embodied.errors import UserError
from embodied.learning.replay import Arrays, EpisodeReplay
from embodied.protocols import GoalReward
from embodied.rng import child_generator
from embodied.spec import EnvSpec
from embodied.types import Batch, Episode, FloatArray


@dataclass(frozen=True)
class ReplayConfig:
    """How much is kept and how it is relabelled."""

    capacity: int = 1_000_000
    """Rows; an episode of T steps takes T + 1."""
    relabel: float = 0.8
    """Share of a batch whose goals are replaced by ones reached later in the same episode."""

    def __post_init__(self) -> None:
        if not 0.0 <= self.relabel <= 1.0:
            raise UserError(f"replay.relabel must lie in [0, 1], got {self.relabel}")


class HindsightReplay:
    """Draws transitions and replaces some goals by what was achieved later in the episode.

    For the transition t -> t + 1 the new goal is achieved[k] of the goal's entity, t + 1 <= k <= T, k uniform. Reward
    and termination of such a row are recomputed with the task's own `GoalReward`; the other rows keep what happened.
    """

    def __init__(self, spec: EnvSpec, reward: GoalReward, config: ReplayConfig, seed: int) -> None:
        self.config = config
        self.episodes = EpisodeReplay(spec, config.capacity)
        self._reward = reward
        self._rng = child_generator(seed, "replay")

    def __len__(self) -> int:
        """Transitions that can be drawn."""
        return len(self.episodes)

    def add(self, episode: Episode) -> None:
        """Take in a finished episode."""
        self.episodes.add(episode)

    def sample(self, size: int) -> Batch:
        """A batch of `size` transitions."""
        rows = self.episodes.rows
        now, last = self.episodes.draw(size, self._rng)
        entity = rows["goal_entity"][now]
        relabelled = self._rng.random(size) < self.config.relabel
        later = now + 1 + (self._rng.random(size) * (last - now)).astype(np.int64)
        achieved = rows["achieved"]
        goal = np.where(relabelled[:, None], achieved[later, entity], rows["goal_value"][now])
        mask = rows["goal_mask"][now]
        both = np.concatenate((achieved[now + 1, entity], achieved[now, entity]))
        outcome = self._reward(both, np.concatenate((goal, goal)), np.concatenate((mask, mask)))
        return Batch(
            observation=self._observation(now, entity),
            next_observation=self._observation(now + 1, entity),
            goal=np.where(mask, goal, np.float32(0.0)),
            action=rows["action"][now],
            reward=np.where(relabelled, outcome.reward[:size], rows["reward"][now]),
            terminated=np.where(relabelled, outcome.terminated[:size], rows["terminated"][now]),
            relabelled=relabelled,
            already_satisfied=outcome.success[size:],
        )

    def state(self) -> tuple[Arrays, dict[str, Any]]:
        """For a checkpoint."""
        arrays, meta = self.episodes.state()
        return arrays, {**meta, "rng": self._rng.bit_generator.state}

    def restore(self, arrays: Arrays, meta: dict[str, Any]) -> None:
        """Undo `state`."""
        self.episodes.restore(arrays, meta)
        self._rng.bit_generator.state = meta["rng"]

    def _observation(self, row: NDArray[np.int64], entity: NDArray[np.int32]) -> FloatArray:
        features = self.episodes.rows["entities"]
        state = self.episodes.rows["state"][row]
        return np.concatenate((state, features[row, entity]), 1) if features.shape[-1] else state
