"""Exploration by relay: the gripper is sent to the object, and once there the object to its target.

It is the decomposition that a planner makes, and that of Luo et al. 2022, "Relay Hindsight Experience Replay" (arXiv
2208.00843). Only goals are chosen here; every action is still the policy's own draw, or a random one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from embodied.errors import UserError
from embodied.rng import child_generator
from embodied.spec import EnvSpec
from embodied.types import GRIPPER, FloatArray, Goal, Observation


@dataclass(frozen=True)
class RelayConfig:
    """Which goal is pursued while training, in tasks about an object. Distances from gripper to object, in metres."""

    enabled: bool = True
    """Off: the task's goal is pursued from the first step on."""
    contact_m: float = 0.05
    """Within it the object's turn begins."""
    lost_m: float = 0.1
    """Beyond it the gripper's turn begins again."""
    mix: float = 0.5
    """Share of the steps on the way to the object that pursue the object's goal already."""
    gentle_within_m: float = 0.12
    """Near the object actions are kept small: one that arrives fast knocks it away."""
    gentle: float = 0.5
    """Largest action there, as a share of the limits."""
    gentle_share: float = 1.0
    """Share of the episodes in which they are; in the others the policy meets what its full actions do."""
    gentle_in_contact: bool = False
    """Also in the object's turn."""
    fallen_m: float = 0.1
    """An episode ends when the object is so much lower than at its beginning: it fell off what it lay on."""

    def __post_init__(self) -> None:
        if not 0.0 < self.contact_m <= self.lost_m:
            raise UserError(f"relay.contact_m must lie in (0, relay.lost_m = {self.lost_m}], got {self.contact_m}")
        for name in ("mix", "gentle_share"):
            if not 0.0 <= getattr(self, name) <= 1.0:
                raise UserError(f"relay.{name} must lie in [0, 1], got {getattr(self, name)}")
        for name in ("gentle_within_m", "fallen_m"):
            if not getattr(self, name) >= 0.0:
                raise UserError(f"relay.{name} must be at least 0, got {getattr(self, name)}")
        if not 0.0 < self.gentle <= 1.0:
            raise UserError(f"relay.gentle must lie in (0, 1], got {self.gentle}")


class RelayExplorer:
    """Chooses the goal of every training step, for several workers that each have a stage of their own."""

    def __init__(self, spec: EnvSpec, config: RelayConfig, seed: int, workers: int = 1) -> None:
        """
        Args:
            spec: A task about an object that a gripper moves.
            config: Distances and shares.
            seed: Root of the draws.
            workers: How many there are.
        """
        self.config = config
        self._gripper = spec.layout.entity_index(GRIPPER)
        self._rows = {name: row for row, name in enumerate(spec.layout.entities)}
        self._low, self._high = np.float32(spec.action_low), np.float32(spec.action_high)
        self._touching = [False] * workers
        self._heights: list[float | None] = [None] * workers
        self._gentle = [True] * workers
        self._rng = child_generator(seed, "relay")

    def begin(self, worker: int) -> None:
        """An episode begins there: the gripper's turn."""
        self._touching[worker], self._heights[worker] = False, None
        self._gentle[worker] = bool(self._rng.random() < self.config.gentle_share)

    def pursue(self, worker: int, observation: Observation, task: Goal) -> Goal:
        """The goal of the next step: the task's, or that the gripper be where the object is."""
        place = observation.achieved[self._rows[task.entity]]
        if self._heights[worker] is None:
            self._heights[worker] = float(place[-1])
        distance = float(np.linalg.norm(place - observation.achieved[self._gripper]))
        limit = self.config.lost_m if self._touching[worker] else self.config.contact_m
        self._touching[worker] = distance < limit
        if self._touching[worker] or self._rng.random() < self.config.mix:
            return task
        return Goal(GRIPPER, place, np.ones(len(place), dtype=bool))

    def restrain(self, worker: int, observation: Observation, task: Goal, action: FloatArray) -> FloatArray:
        """The action, kept small where the gripper comes near the object."""
        if not self._gentle[worker] or (self._touching[worker] and not self.config.gentle_in_contact):
            return action
        between = observation.achieved[self._rows[task.entity]] - observation.achieved[self._gripper]
        if np.linalg.norm(between) > self.config.gentle_within_m:
            return action
        return np.clip(action, self.config.gentle * self._low, self.config.gentle * self._high)

    def over(self, worker: int, observation: Observation, task: Goal) -> bool:
        """The object fell off what it lay on."""
        began = self._heights[worker]
        height = observation.achieved[self._rows[task.entity]][-1]
        return began is not None and bool(height < began - self.config.fallen_m)

    def state(self) -> dict[str, Any]:
        """JSON values, for a checkpoint."""
        stages = {"touching": list(self._touching), "heights": list(self._heights), "gentle": list(self._gentle)}
        return {**stages, "rng": self._rng.bit_generator.state}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Undo `state`."""
        self._touching, self._heights = list(state["touching"]), list(state["heights"])
        self._gentle = list(state["gentle"])
        self._rng.bit_generator.state = state["rng"]


def relay_fits(spec: EnvSpec) -> bool:
    """Whether a task is about an object that a gripper moves."""
    layout = spec.layout
    return GRIPPER in layout.entities and spec.goal_entity != GRIPPER and layout.entity_width > 0
