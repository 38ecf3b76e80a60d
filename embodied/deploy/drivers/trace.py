"""A robot that only remembers: replays a bundle's golden trace and compares the commands with the recorded ones."""

from __future__ import annotations

from typing import Any

import numpy as np

from embodied.bundle_format import component_names
from embodied.deploy.drivers.base import Reading
from embodied.deploy.policy import Bundle
from embodied.spec import Layout, width_of
from embodied.types import FloatArray, Goal, Observation


class TraceDriver:
    """Hands out the N recorded observations in turn. The commands pass binder, file and safety filter as on a robot."""

    def __init__(self, bundle: Bundle) -> None:
        policy = bundle.manifest.policy
        self._info = bundle.manifest.trace
        self._trace = bundle.trace()
        self._names = component_names(policy.action_terms)
        self._layout = Layout(policy.robot_terms, policy.entity_terms, policy.goal_terms, (policy.goal_entity,))
        self._state_width = width_of(policy.robot_terms)
        self._step = 0
        self._worst = np.zeros(policy.action_width)

    def read(self) -> Reading | None:
        """The next recorded step, None at the end."""
        if self._step >= len(self._trace.action):
            return None
        vector, goal = self._trace.observation[self._step], self._trace.goal[self._step]
        observation = Observation(
            state=vector[: self._state_width],
            entities=vector[None, self._state_width :],
            achieved=np.zeros((1, len(goal)), np.float32),
            layout=self._layout,
        )
        return Reading(observation, Goal(self._layout.entities[0], goal, np.ones(len(goal), bool)), age_s=0.0)

    def write(self, action: FloatArray) -> FloatArray:
        """Compares with the recorded command."""
        difference = np.abs(action.astype(np.float64) - self._trace.action[self._step])
        self._worst = np.maximum(self._worst, np.where(np.isfinite(difference), difference, np.inf))
        self._step += 1
        return action

    def close(self) -> dict[str, Any]:
        """`trace`: steps replayed, largest difference in all and per action component, tolerance, ok."""
        worst = float(self._worst.max())
        return {
            "parity_max_abs": worst if np.isfinite(worst) else None,
            "trace": {
                "steps": self._step,
                "max_abs": worst if np.isfinite(worst) else None,
                "per_term": {n: w if np.isfinite(w) else None for n, w in zip(self._names, self._worst, strict=True)},
                "tolerance": self._info.tolerance,
                "ok": self._step > 0 and worst <= self._info.tolerance,
            },
        }
