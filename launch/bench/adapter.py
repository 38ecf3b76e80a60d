"""Controllers for the one evaluation loop that are not ours: a peer's policy, and one that does nothing."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from embodied.spec import EnvSpec
from embodied.types import Episode, FloatArray, Goal, Observation, PolicyManifest
from robots.goal_layout import GoalDict, GoalLayout


class Predictor(Protocol):
    """What Stable-Baselines3 calls a model."""

    def predict(self, observation: GoalDict, *, deterministic: bool) -> tuple[NDArray[Any], Any]:
        """The action for a goal dictionary, and a recurrent state."""
        ...


class PeerController:
    """A peer's policy without exploration."""

    def __init__(self, model: Predictor, layout: GoalLayout, manifest: PolicyManifest) -> None:
        self.manifest = manifest
        self._model, self._layout = model, layout

    def act(self, observation: Observation, goal: Goal) -> FloatArray:
        """The deterministic action, shape (A,)."""
        action, _ = self._model.predict(goal_dict(self._layout, observation, goal), deterministic=True)
        return np.asarray(action, dtype=np.float32)


class IdleController:
    """The action 0 at every step: what an episode is worth when nobody acts."""

    def __init__(self, spec: EnvSpec, manifest: PolicyManifest) -> None:
        self.manifest = manifest
        self._action = np.zeros(spec.action_width, dtype=np.float32)

    def act(self, observation: Observation, goal: Goal) -> FloatArray:
        """Zeros, shape (A,)."""
        return self._action


def goal_dict(layout: GoalLayout, observation: Observation, goal: Goal) -> GoalDict:
    """Gymnasium's dictionary of one moment: `observation` (D,), `achieved_goal` and `desired_goal` (G,)."""
    width, row = layout.observations.goal_width, observation.layout.entity_index(goal.entity)
    return {
        "observation": layout.observations.join(_moment(observation))[0],
        "achieved_goal": observation.achieved[row, :width],
        "desired_goal": goal.value[:width],
    }


def _moment(observation: Observation) -> Episode:
    """An episode of no steps: only its first observation."""
    none, nobody = np.zeros(0, dtype=np.float32), np.zeros(0, dtype=np.int32)
    never = np.zeros(0, dtype=bool)
    return Episode(
        state=observation.state[None], entities=observation.entities[None], achieved=observation.achieved[None],
        goal_entity=nobody, goal_value=none, goal_mask=never, action=none, interval=none, reward=none,
        terminated=never, truncated=never, success=never, subgoal_id=nobody,
    )  # fmt: skip
