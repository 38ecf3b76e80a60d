"""What goes wrong while a robot works: a thing is moved, slips, is taken away; the robot is bumped.

A test tool: it acts through the simulator, at a moment and in a way that its seed decides. Nobody who plans or acts is
told of it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from embodied.errors import unknown_name
from embodied.rng import child_generator
from embodied.types import SceneState
from robots.arrange import Arranger

KINDS = ("moved", "dropped", "bumped", "taken")
RECOVERABLE = ("moved", "dropped", "bumped")
"""After these the work can still be done."""
MOVED_M = (0.03, 0.07)
"""How far a thing is moved, as the table allows."""
SLIP_M = 0.06
"""A thing that slips falls so far beside the gripper: clear of the fingers."""
EDGE_M = 0.05
"""A thing is dropped no nearer than this to an edge."""
FALL_M = 0.4
LEVEL_M = 0.004
"""A thing is moved only to where what is under it is as high."""
BUMP_STEPS = 2
"""So many control periods an arm is led aside, at its greatest speed: by some centimetres."""
BUMP_M_PER_S = 3.0
"""Speed that a robot without an arm is given."""
WINDOW = (4, 60)
"""Control steps after the start between which a disturbance comes, or as soon after as it can."""
GRASP_WINDOW = (3, 15)
"""The same for a thing that is dropped, after it was taken hold of."""
AWAY_M = 50.0
TRIES = 60


class Disturber:
    """Disturbs a run once.

    Args:
        env: The scene environment, already reset.
        kind: One of `KINDS`, or `any`: one of `RECOVERABLE` that the scene has room for, drawn.
        seed: Decides what, when, where to.
        about: Ids of the things that the run is about; others are left alone where one of these can be taken.
    """

    def __init__(self, env: Any, kind: str, seed: int, about: tuple[str, ...] = ()) -> None:
        if kind not in (*KINDS, "any"):
            raise unknown_name("disturbance", kind, (*KINDS, "any"))
        self._env, self._arranger = env, Arranger(env)
        self._rng = child_generator(seed, "disturbance")
        things = self._arranger.things
        self._about = tuple(thing for thing in about if thing in things) or things
        drawn = RECOVERABLE[int(self._rng.integers(len(RECOVERABLE)))]
        self.kind = (drawn if things else "bumped") if kind == "any" else kind
        self._due = int(self._rng.integers(*WINDOW))
        self._after_grasp = int(self._rng.integers(*GRASP_WINDOW))
        self._steps = self._held_steps = 0
        self.happened = ""
        """What was done and when, on one line; empty before, and where it never came to it."""

    def __call__(self, state: SceneState) -> None:
        """To be called after each control step with the state then."""
        self._steps += 1
        held = _held(state)
        self._held_steps = self._held_steps + 1 if held else 0
        if self.happened:
            return
        if self.kind == "dropped":
            done = held is not None and self._held_steps >= self._after_grasp and self._drop(held)
        else:
            done = self._steps >= self._due and {"moved": self._move, "bumped": self._bump, "taken": self._take}[
                self.kind
            ](state, held)
        if done:
            self._arranger.refresh()
            self.happened = f"{done} at step {self._steps}"

    def _choice(self, held: str | None) -> str | None:
        free = [thing for thing in self._about if thing != held]
        return str(self._rng.choice(free)) if free else None

    def _move(self, state: SceneState, held: str | None) -> str:
        """Slides a thing over what it lies on; what lies on it or would be in the way is left alone: tried again."""
        thing = self._choice(held)
        if thing is None or _covered(state, thing):
            return ""
        for _ in range(TRIES):
            far, way = self._rng.uniform(*MOVED_M), self._rng.uniform(-np.pi, np.pi)
            shift = np.array([far * np.cos(way), far * np.sin(way), 0.0])
            turn = float(self._rng.uniform(-np.pi, np.pi))
            if self._level(state, thing, shift) and self._fits(thing, shift, turn):
                return f"moved {thing} by {far:.3f} m"
        return ""

    def _level(self, state: SceneState, thing: str, shift: np.ndarray) -> bool:
        """All four corners of the thing are then as well supported as its middle is now."""
        item = state.entity(thing)
        centre, (ex, ey, ez) = np.asarray(item.position_m), item.half_extents_m
        corners = [np.array([sx * ex, sy * ey, 0.0]) for sx in (-1, 1) for sy in (-1, 1)]
        spots = [centre + shift, *(centre + shift + self._env.frame.rotation @ corner for corner in corners)]
        heights = [self._arranger.support_height(thing, spot[:2]) for spot in spots]
        bottom = item.position_m[2] - ez
        return all(height is not None and abs(height - bottom) <= LEVEL_M for height in heights)

    def _fits(self, thing: str, shift: np.ndarray, turn: float = 0.0) -> bool:
        """Moves the thing; back again where it then stands into something."""
        before = self._arranger.saved()
        self._arranger.move(thing, shift, turn)
        self._arranger.refresh()
        if self._arranger.overlaps([thing]):
            self._arranger.restore(before)
            return False
        return True

    def _drop(self, thing: str) -> str:
        """The thing slips out of the fingers, which close along y of B, along x, and falls."""
        sides = [-1.0, 1.0] if self._rng.random() < 0.5 else [1.0, -1.0]
        for side in sides:
            shift = self._env.frame.rotation @ np.array([side * SLIP_M, 0.0, 0.0])
            over = self._landing(thing, shift)
            if over and self._fits(thing, shift):
                return f"dropped {thing}"
        return ""

    def _landing(self, thing: str, shift: np.ndarray) -> bool:
        """What a thing would fall on is near below and as high all round: it does not fall off an edge."""
        position = np.asarray(self._env.scene_state().entity(thing).position_m) + shift
        corners = [np.array([x, y]) for x in (-EDGE_M, 0.0, EDGE_M) for y in (-EDGE_M, 0.0, EDGE_M)]
        heights = [self._arranger.support_height(thing, position[:2] + corner) for corner in corners]
        known = [height for height in heights if height is not None and height > position[2] - FALL_M]
        return len(known) == len(heights) and max(known) - min(known) <= 2 * LEVEL_M

    def _take(self, state: SceneState, held: str | None) -> str:
        thing = self._choice(held)
        if thing is None or _covered(state, thing):
            return ""
        self._arranger.move(thing, (AWAY_M, AWAY_M, 0.0))
        return f"took {thing} away"

    def _bump(self, state: SceneState, held: str | None) -> str:
        del state, held
        way = self._rng.uniform(-np.pi, np.pi)
        push = np.array([np.cos(way), np.sin(way), 0.0])
        data, robot = self._env.data, self._env.robot
        if robot.gripper_bodies:
            for _ in range(BUMP_STEPS):
                self._env.arm.step(data, np.append(push, 0.0))
        else:
            joints = range(self._env.model.body_jntadr[self._env.model.body(robot.base_body).id], self._env.model.njnt)
            for joint, axis in zip(joints, push, strict=False):
                data.qvel[self._env.model.jnt_dofadr[joint]] += BUMP_M_PER_S * axis
        return f"bumped the robot towards {np.degrees(way):.0f} degrees"


def _held(state: SceneState) -> str | None:
    """The object that both fingers touch."""
    touched = [{x for pair in state.contacts if finger in pair for x in pair} for finger in _FINGERS]
    return next((e.id for e in state.entities if e.role == "object" and all(e.id in t for t in touched)), None)


def _covered(state: SceneState, thing: str) -> bool:
    item = state.entity(thing)
    near = {x for pair in state.contacts if thing in pair for x in pair} - {thing}
    return any(
        e.id in near and e.role == "object" and e.center_b_m[2] > item.center_b_m[2] + 0.5 * item.half_extents_m[2]
        for e in state.entities
    )


_FINGERS = ("left_finger", "right_finger")
