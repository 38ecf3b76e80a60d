"""An environment of a training, whose episode under way can be taken up again in another process."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from embodied.protocols import Env
from embodied.run.driver import Act, Driver, EpisodeRecorder
from embodied.types import Episode, FloatArray, Goal, Observation


class Worker:
    """Steps one environment and remembers how the running episode came about.

    The simulator's state is not saved: an episode follows from its seed and its actions, so these are kept and played
    again.
    """

    def __init__(self, env: Env, on_episode: Callable[[Episode], None]) -> None:
        self.env = env
        self._driver = Driver(env, EpisodeRecorder(env.spec, on_episode))
        self._seed = 0
        self._actions: list[FloatArray] = []

    @property
    def running(self) -> bool:
        """An episode is under way."""
        return self._driver.running

    def begin(self, seed: int) -> None:
        """A new episode."""
        self._driver.reset(seed)
        self._seed, self._actions = seed, []

    def step(self, act: Act) -> None:
        """One control step."""

        def remembered(observation: Observation, goal: Goal) -> FloatArray:
            action = act(observation, goal)
            self._actions.append(action)
            return action

        self._driver.step(remembered)

    def state(self) -> dict[str, Any] | None:
        """The running episode as JSON values; None between episodes. Floats survive exactly."""
        if not self.running:
            return None
        return {"seed": self._seed, "actions": [[float(x) for x in action] for action in self._actions]}

    def restore(self, state: dict[str, Any] | None) -> None:
        """Undo `state`: plays the episode up to where it was."""
        if state is None:
            return
        self.begin(state["seed"])
        for action in state["actions"]:
            self.step(lambda observation, goal, action=action: np.float32(action))
