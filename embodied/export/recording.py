"""What a controller saw and did, as flat vectors: the material of parity and of the golden trace."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from embodied.binding import InputBinder
from embodied.protocols import Controller, Env
from embodied.types import FloatArray

MIN_STEPS = 1000
"""Steps that a parity check replays at least."""


@dataclass(frozen=True)
class RecordedSteps:
    """N control steps over whole episodes."""

    observation: FloatArray
    """(N, S+F), raw values in the manifest's units."""
    goal: FloatArray
    """(N, G), zero where masked out."""
    action: FloatArray
    """(N, A), what the controller answered, in action units, before any limit."""
    episode: NDArray[np.int32]
    """(N,) number of the episode, from 0."""

    def __len__(self) -> int:
        return len(self.action)

    def write(self, path: Path) -> None:
        """As an npz archive of plain arrays, no pickle."""
        with path.open("wb") as file:
            np.savez(file, observation=self.observation, goal=self.goal, action=self.action, episode=self.episode)


def record_steps(
    env: Env, controller: Controller, seed: int, min_steps: int = MIN_STEPS, episodes: int | None = None
) -> RecordedSteps:
    """Rolls the controller out over whole episodes; episode i is reset with `seed` + i.

    Stops after `episodes` of them, or without that number after the first that makes `min_steps` steps complete.
    """
    binder = InputBinder(controller.manifest)
    observations, goals, actions, numbers = [], [], [], []
    episode = 0
    while episode < episodes if episodes is not None else len(actions) < min_steps:
        observation, done = env.reset(seed + episode), False
        while not done:
            vector, goal = binder(observation, env.goal)
            action = controller.act(observation, env.goal)
            step = env.step(action)
            observations.append(vector)
            goals.append(goal)
            actions.append(np.array(action, dtype=np.float32))
            numbers.append(episode)
            observation, done = step.observation, step.terminated or step.truncated
        episode += 1
    return RecordedSteps(
        observation=np.asarray(observations, dtype=np.float32),
        goal=np.asarray(goals, dtype=np.float32),
        action=np.asarray(actions, dtype=np.float32),
        episode=np.asarray(numbers, dtype=np.int32),
    )
