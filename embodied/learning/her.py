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

    def __init__(
        self, spec: EnvSpec, reward: GoalReward, config: ReplayConfig, seed: int, path: Path | None = None
    ) -> None:
        """
        Args:
            spec: Gives the widths.
            reward: The task's own.
            config: Size and relabelling.
            seed: Root of the draws.
            path: File that the episodes are appended to, so that the replay can be taken up again; None: memory only.
        """
        self.config = config
        self.episodes = EpisodeReplay(spec, config.capacity)
        self._path, self._file = path, None
        self._reward = reward
        self._rng = child_generator(seed, "replay")

    def __len__(self) -> int:
        """Transitions that can be drawn."""
        return len(self.episodes)

    def add(self, episode: Episode) -> None:
        """Take in a finished episode."""
        if self._file is not None:
            self._file.append(episode)
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
