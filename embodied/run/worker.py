"""An environment of a training, whose episode under way can be taken up again in another process."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from embodied.protocols import Env, SceneEnv
from embodied.run.driver import Act, Driver, EpisodeRecorder, Over
from embodied.types import Episode, FloatArray, Goal, Observation, Step

Pursue = Callable[[Observation, Goal], Goal]
"""Observation and the task's goal to the goal of the next step."""


class Worker:
    """Steps one environment and remembers how the running episode came about.

    The simulator's state is not saved: an episode follows from its seed and its actions, so these are kept and played
    again.
    """

    def __init__(
        self,
        env: Env,
        on_episode: Callable[[Episode, Goal], None],
        ends_at_goal: int = 0,
        ends_after: int | None = None,
    ) -> None:
        """
        Args:
            env: Its own.
            on_episode: Takes finished episodes, each with the task's own goal.
            ends_at_goal: Steps in a row at the task's goal after which an episode is broken off; 0: it goes on.
            ends_after: Steps after which it is; None: the task's horizon.
        """
        self.env = env
        self._scene: SceneEnv | None = None
        self._driver = Driver(env, EpisodeRecorder(env.spec, lambda episode: on_episode(episode, self.task_goal)))
        self._seed = 0
        self._actions: list[FloatArray] = []
        self._goals: list[Goal] = []
        self._ends_at_goal, self._ends_after, self._held = ends_at_goal, ends_after, 0
        self.task_goal: Goal
        """The goal that the running episode began with."""

    @property
    def running(self) -> bool:
        """An episode is under way."""
        return self._driver.running

    def begin(self, seed: int) -> None:
        """A new episode."""
        self._driver.reset(seed)
        self._seed, self._actions, self._goals, self._held = seed, [], [], 0
        self.task_goal = self.env.goal
        # Asked once an episode: the answer costs more than many a step.
        self._scene = self.env if isinstance(self.env, SceneEnv) else None

    def step(self, act: Act, pursue: Pursue | None = None, over: Over | None = None) -> None:
        """One control step, for the task's goal or the one that `pursue` chooses; `over` may break the episode off.

        Where episodes end at their goal, nothing else is pursued while it holds.

        Raises:
            TypeError: A goal was chosen, but the environment takes none.
        """
        if pursue is not None:
            if self._scene is None:
                raise TypeError(f"{self.env.spec.task} takes no goals from outside")
            goal = pursue(self._driver.observation, self.task_goal)
            if self._held:
                goal = self.task_goal
            self._scene.set_goal(goal)
            self._goals.append(goal)

        def remembered(observation: Observation, goal: Goal) -> FloatArray:
            action = act(observation, goal)
            self._actions.append(action)
            return action

        def ended(step: Step) -> bool:
            self._held = self._held + 1 if self._at_goal(step, pursue is not None) else 0
            # An episode ends with the success of what was pursued: else its end would look like a loss.
            arrived = step.success and self._held >= self._ends_at_goal > 0
            long = self._ends_after is not None and len(self._actions) >= self._ends_after
            return arrived or long or (over is not None and over(step))

        self._driver.step(remembered, ended)

    def _at_goal(self, step: Step, relayed: bool) -> bool:
        """Whether the task's goal holds, whatever was pursued; asked only where that matters."""
        if not self._ends_at_goal or not relayed:
            return self._ends_at_goal > 0 and step.success
        row = self.env.spec.layout.entity_index(self.task_goal.entity)
        goal = self.task_goal
        judged = self.env.reward(step.observation.achieved[row][None], goal.value[None], goal.mask[None])
        return bool(judged.success[0])

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
