"""An environment of a training, whose episode under way can be taken up again in another process."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from embodied.protocols import Env, SceneEnv
from embodied.run.driver import Act, Driver, EpisodeRecorder, Over
from embodied.types import Episode, FloatArray, Goal, Observation

Pursue = Callable[[Observation, Goal], Goal]
"""Observation and the task's goal to the goal of the next step."""


class Worker:
    """Steps one environment and remembers how the running episode came about.

    The simulator's state is not saved: an episode follows from its seed and its actions, so these are kept and played
    again.
    """

    def __init__(self, env: Env, on_episode: Callable[[Episode, Goal], None]) -> None:
        """
        Args:
            env: Its own.
            on_episode: Takes finished episodes, each with the task's own goal.
        """
        self.env = env
        self._scene: SceneEnv | None = None
        self._driver = Driver(env, EpisodeRecorder(env.spec, lambda episode: on_episode(episode, self.task_goal)))
        self._seed = 0
        self._actions: list[FloatArray] = []
        self._goals: list[Goal] = []
        self.task_goal: Goal
        """The goal that the running episode began with."""

    @property
    def running(self) -> bool:
        """An episode is under way."""
        return self._driver.running

    def begin(self, seed: int) -> None:
        """A new episode."""
        self._driver.reset(seed)
        self._seed, self._actions, self._goals = seed, [], []
        self.task_goal = self.env.goal
        # Asked once an episode: the answer costs more than many a step.
        self._scene = self.env if isinstance(self.env, SceneEnv) else None

    def step(self, act: Act, pursue: Pursue | None = None, over: Over | None = None) -> None:
        """One control step, for the task's goal or the one that `pursue` chooses; `over` may break the episode off.

        Raises:
            TypeError: A goal was chosen, but the environment takes none.
        """
        if pursue is not None:
            if self._scene is None:
                raise TypeError(f"{self.env.spec.task} takes no goals from outside")
            goal = pursue(self._driver.observation, self.task_goal)
            self._scene.set_goal(goal)
            self._goals.append(goal)

        def remembered(observation: Observation, goal: Goal) -> FloatArray:
            action = act(observation, goal)
            self._actions.append(action)
            return action

        self._driver.step(remembered, over)

    def state(self) -> dict[str, Any] | None:
        """The running episode as JSON values; None between episodes. Floats survive exactly."""
        if not self.running:
            return None
        return {
            "seed": self._seed,
            "actions": [[float(x) for x in action] for action in self._actions],
            "goals": [[goal.entity, goal.value.tolist(), goal.mask.tolist()] for goal in self._goals],
        }

    def restore(self, state: dict[str, Any] | None) -> None:
        """Undo `state`: plays the episode up to where it was."""
        if state is None:
            return
        self.begin(state["seed"])
        goals = [Goal(entity, np.float32(value), np.array(mask)) for entity, value, mask in state["goals"]]
        for index, action in enumerate(state["actions"]):
            chosen = (lambda _, __, index=index: goals[index]) if goals else None
            self.step(lambda _, __, action=action: np.float32(action), chosen)
