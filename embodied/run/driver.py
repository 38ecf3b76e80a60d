"""The one roll-out loop: a controller or an exploring learner in an environment, watched by callbacks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from embodied.protocols import Env
from embodied.spec import EnvSpec
from embodied.types import Episode, FloatArray, Goal, Observation, Step

Act = Callable[[Observation, Goal], FloatArray]
"""Observation and goal to an action, shape (A,)."""


@dataclass(frozen=True)
class Transition:
    """One control step, with what led to it."""

    episode: int
    """Number of the episode, from 0."""
    index: int
    """Step within the episode, from 0."""
    before: Observation
    goal: Goal
    step: Step

    @property
    def done(self) -> bool:
        """The episode ended here."""
        return self.step.terminated or self.step.truncated


OnStep = Callable[[Transition], None]
Over = Callable[[Step], bool]
"""Whether to break an episode off after this step."""


class Driver:
    """Steps one environment; the caller decides when."""

    def __init__(self, env: Env, on_step: OnStep | None = None) -> None:
        self.env = env
        self._on_step = on_step
        self._episode = -1
        self._index = 0
        self._observation: Observation | None = None

    @property
    def running(self) -> bool:
        """An episode is under way."""
        return self._observation is not None

    @property
    def observation(self) -> Observation:
        """What the running episode shows now."""
        if self._observation is None:
            raise RuntimeError("reset the driver before stepping it")
        return self._observation

    def reset(self, seed: int) -> None:
        """Begin an episode."""
        self._observation = self.env.reset(seed)
        self._episode += 1
        self._index = 0

    def step(self, act: Act, over: Over | None = None) -> Transition:
        """One control step, reported to the callback before it is returned.

        Args:
            act: Chooses the action.
            over: Whether to break the episode off after it, as a time limit would.
        """
        observation, goal = self.observation, self.env.goal
        step = self.env.step(act(observation, goal))
        if over is not None and over(step):
            step = replace(step, truncated=True)
        transition = Transition(self._episode, self._index, observation, goal, step)
        self._index += 1
        self._observation = None if transition.done else step.observation
        if self._on_step is not None:
            self._on_step(transition)
        return transition

    def run_episode(self, act: Act, seed: int) -> list[Transition]:
        """A whole episode."""
        self.reset(seed)
        transitions = []
        while self.running:
            transitions.append(self.step(act))
        return transitions


class EpisodeRecorder:
    """Collects transitions of one environment and hands over each finished `Episode`; a callback for `Driver`."""

    def __init__(self, spec: EnvSpec, on_episode: Callable[[Episode], None]) -> None:
        self._spec = spec
        self._on_episode = on_episode
        self._limits = np.array([spec.action_low, spec.action_high], dtype=np.float32)
        self._steps: list[Transition] = []

    def __call__(self, transition: Transition) -> None:
        """Take in a transition."""
        if transition.index == 0:
            self._steps = []
        self._steps.append(transition)
        if transition.done:
            self._on_episode(self._episode())

    def _episode(self) -> Episode:
        steps = self._steps
        seen = [steps[0].before, *(item.step.observation for item in steps)]
        layout = self._spec.layout
        columns = {
            "state": _stacked([o.state for o in seen]),
            "entities": _stacked([o.entities for o in seen]),
            "achieved": _stacked([o.achieved for o in seen]),
            "goal_entity": np.array([layout.entity_index(item.goal.entity) for item in steps], dtype=np.int32),
            "goal_value": _stacked([item.goal.value for item in steps]),
            "goal_mask": _stacked([item.goal.mask for item in steps]),
            "action": _stacked([item.step.action for item in steps]),
            "interval": np.broadcast_to(self._limits, (len(steps), *self._limits.shape)),
            "reward": np.array([item.step.reward for item in steps], dtype=np.float32),
            "subgoal_id": np.zeros(len(steps), dtype=np.int32),
        }
        flags = {
            name: np.array([getattr(item.step, name) for item in steps], dtype=bool)
            for name in ("terminated", "truncated", "success")
        }
        return Episode(**{field.name: (columns | flags)[field.name] for field in fields(Episode)})


def _stacked(arrays: list[NDArray[Any]]) -> NDArray[Any]:
    """`np.stack` without its work for each array: (...) each to (N, ...)."""
    return np.concatenate(arrays).reshape(len(arrays), *arrays[0].shape)
