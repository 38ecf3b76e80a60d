"""From an observation and a goal to a controller's input vectors, by name; numpy only, in training as on the robot."""

from __future__ import annotations

import numpy as np

from embodied.spec import Layout, term_indices, width_of
from embodied.types import FloatArray, Goal, Observation, PolicyManifest


class InputBinder:
    """Picks the numbers that a controller was trained on out of whatever layout an environment offers.

    The columns are looked up once per layout; a layout that lacks a term raises `LayoutError` with its name.
    """

    def __init__(self, manifest: PolicyManifest) -> None:
        self._manifest = manifest
        self._layout: Layout | None = None
        self.observation_width = width_of(manifest.robot_terms) + width_of(manifest.entity_terms)
        self.goal_width = width_of(manifest.goal_terms)

    def __call__(self, observation: Observation, goal: Goal) -> tuple[FloatArray, FloatArray]:
        """(observation vector (S+F,), goal vector (G,) with zeros where masked out), float32."""
        if observation.layout is not self._layout:
            self._bind(observation.layout)
        vector = observation.state[self._robot]
        if self._entity.size:
            row = observation.entities[observation.layout.entity_index(goal.entity)]
            vector = np.concatenate([vector, row[self._entity]])
        value = np.where(goal.mask, goal.value, np.float32(0.0))
        return vector, value[self._goal]

    def _bind(self, layout: Layout) -> None:
        self._robot = term_indices(self._manifest.robot_terms, layout.robot, "robot")
        self._entity = term_indices(self._manifest.entity_terms, layout.entity, "entity")
        self._goal = term_indices(self._manifest.goal_terms, layout.goal, "goal")
        self._layout = layout
