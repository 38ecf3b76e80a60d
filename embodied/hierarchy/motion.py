"""Movements that no controller is asked for: holding still, closing the fingers, and the way to a thing."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from embodied.hierarchy.monitor import Phase
from embodied.spec import EnvSpec
from embodied.types import FloatArray, Goal, Observation

FINGERS = "fingers"
FINGER_STATE = "gripper_state"
"""The observation's term that holds each finger's distance from the middle, in metres."""
CLOSED = -1.0
FORCE, VELOCITY = "force", "velocity"
"""An action that is a force, and the observation's term that it changes, m/s."""
BRAKE = 1.0
"""Of the greatest force, for each m/s: a ball of 4.2 kg that 100 N push loses a quarter of its speed in 0.01 s."""


@dataclass(frozen=True)
class Fingers:
    """How the fingers are to be held."""

    opening_m: float
    """Wanted distance of each finger from the middle."""
    press_m: float = 0.0
    """Closing: they are asked to go so much further in from wherever they are, which makes a force of it."""


def hold_action(spec: EnvSpec, observation: Observation | None) -> FloatArray:
    """The action that keeps the robot where it is, (A,): no change of position, fingers closed; forces brake."""
    action = np.zeros(spec.action_width, dtype=np.float32)
    close_fingers(action, spec)
    for columns in _columns(spec, FORCE):
        speed = None if observation is None else _observed(observation, VELOCITY)
        if speed is not None:
            action[columns] = np.clip(-BRAKE * speed, -1.0, 1.0)
    return action


def close_fingers(action: FloatArray, spec: EnvSpec) -> None:
    """Sets the action's finger command, where it has one, to closed; in place."""
    for columns in _columns(spec, FINGERS):
        action[columns] = CLOSED


def set_fingers(action: FloatArray, spec: EnvSpec, observation: Observation, wanted: Fingers) -> None:
    """Sets the action's finger command, where it has one; in place.

    Fetch's finger actuators hold a position: an action moves what they hold from where the fingers are, 1 by a metre
    (`MujocoFetchEnv._set_action` with relative control). Where the fingers' place is not observed they open or close
    as far as they can.
    """
    now = finger_opening(observation)
    if now is None:
        command = CLOSED if wanted.press_m else -CLOSED
    elif wanted.press_m:
        command = min(wanted.opening_m - now, 0.0) - wanted.press_m
    else:
        command = wanted.opening_m - now
    for columns in _columns(spec, FINGERS):
        action[columns] = command


def slow_down(action: FloatArray, spec: EnvSpec, share: float) -> None:
    """Keeps only a share of everything but the finger command; in place."""
    fingers = [(columns, action[columns].copy()) for columns in _columns(spec, FINGERS)]
    action *= np.float32(share)
    for columns, command in fingers:
        action[columns] = command


def _columns(spec: EnvSpec, name: str) -> list[slice]:
    start, found = 0, []
    for term in spec.actions:
        if term.name == name:
            found.append(slice(start, start + term.width))
        start += term.width
    return found


def finger_opening(observation: Observation) -> float | None:
    """Mean distance of the fingers from the middle, metres; None where it is not observed."""
    found = _observed(observation, FINGER_STATE)
    return None if found is None else float(found.mean())


def _observed(observation: Observation, name: str) -> FloatArray | None:
    """The robot's numbers of this name; None where they are not observed."""
    start = 0
    for term in observation.layout.robot:
        if term.name == name:
            return observation.state[start : start + term.width]
        start += term.width
    return None


def nothing_wanted(spec: EnvSpec) -> Goal:
    """A goal that asks for nothing: what holding still is recorded under."""
    width = spec.layout.goal_width
    return Goal(spec.goal_entity, np.zeros(width, dtype=np.float32), np.zeros(width, dtype=bool))


@dataclass(frozen=True)
class Waypoint:
    """A point for the gripper on its way to a subgoal."""

    phase: Phase
    goal: Goal
    """In B."""
    height_m: float | None = None
    """Going up: there as soon as the gripper is this high in B, wherever else it is."""

    def left(self, here: FloatArray) -> float:
        """How far the gripper at `here`, (3,) in B, still has to go, metres."""
        return self.goal.distance(here) if self.height_m is None else max(self.height_m - float(here[2]), 0.0)


def way_up(here: FloatArray, rise_m: float, short_m: float) -> Waypoint:
    """Straight up by `rise_m`; asked for is `short_m` more, since a controller may stop that short."""
    return Waypoint("rise", gripper_goal(here + _up(rise_m + short_m)), float(here[2]) + rise_m)


def way_to_touch(
    here: FloatArray, target: FloatArray, hover_m: float, ceiling_m: float, near_m: float
) -> list[Waypoint]:
    """Waypoints from `here` to above `target`, a thing's top centre, both (3,) in B; none where it is there.

    The gripper comes to `hover_m` above the target, or keeps its own height up to `ceiling_m` above it; where it is
    lower than that it goes up first, so that it does not sweep over the table.
    """
    if np.hypot(*(here - target)[:2]) <= near_m:
        return []
    above = target + _up(max(hover_m, min(float(here[2] - target[2]), ceiling_m)))
    points = [Waypoint("hover", gripper_goal(above))]
    if here[2] < above[2] - near_m:
        up = gripper_goal(np.array([here[0], here[1], above[2]], dtype=np.float32))
        points.insert(0, Waypoint("rise", up, float(above[2]) - near_m))
    return points


def _up(metres: float) -> FloatArray:
    return np.array([0.0, 0.0, metres], dtype=np.float32)


def gripper_goal(point: FloatArray) -> Goal:
    """All three coordinates of the gripper, in B."""
    return Goal("gripper", point, np.ones(3, dtype=bool))
