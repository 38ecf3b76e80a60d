"""Moving a thing by hand: the goals and finger commands that make a controller pick, place, push and stack.

A goal-conditioned controller brings the gripper, or the thing that it holds, to a point. What it is not asked for is
which way to go and when to let go: that is said here, step by step, from measured positions.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np

from embodied.facts import holding
from embodied.hierarchy.motion import Fingers, finger_opening
from embodied.types import GRIPPER, EntityState, FloatArray, Goal, Observation, SceneState

Stage = Literal["clear", "above", "down", "close", "up", "over", "lower", "open", "rise", "done"]
"""clear: straight up; above: across to the thing; down: round it; close; up, over, lower: with it; open; rise."""
HANDLED_SKILLS = frozenset({"pick", "place", "push", "stack"})
ROUND = frozenset({"cylinder", "ball", "disc"})
"""Kinds that fingers meet along a line or at a point."""
GRIPPER_MARK = "is_gripper"
"""The entity term that tells the gripper's row from the others."""
WAY_STEP_M = 0.02
"""A way is looked at in points so far apart."""


@dataclass(frozen=True)
class HandlingConfig:
    """Distances in metres, durations in control steps."""

    margin_m: float = 0.035
    """Fingertips, and what is held, pass so far above the things on their way."""
    corridor_m: float = 0.075
    """Things whose borders are within so much of a way, seen from above, are on it."""
    fingertip_m: float = 0.0185
    """Fetch's fingertips end so far below the grip site."""
    floor_m: float = 0.010
    """They stay so far above what the thing stands on, or they would tilt the thing that it is set down on."""
    beside_m: float = 0.015
    """Horizontal error with which the way down may begin."""
    sag_m: float = 0.03
    """So much lower on its way across, the gripper goes straight up first."""
    centred_m: float = 0.006
    """Horizontal error with which the fingers close."""
    stride_m: float = 0.12
    """A point further away, as seen from above, is approached by points on the straight way to it."""
    arrive_m: float = 0.012
    """Error with which other points count as reached."""
    set_down_m: float = 0.008
    """Error, in height and across, with which a thing is let go, and across with which it is lowered."""
    contact_m: float = 0.015
    """A thing that no longer sinks and is nearer than this to its height has been set down."""
    low_steps: int = 3
    """So long a thing at its height may still move across: what is pressed down jumps when it is let go."""
    push_down_m: float = 0.004
    """No lower than this below its height is it asked for."""
    still_m: float = 0.001
    """A thing that moves less in a step is at rest."""
    fallen_m: float = 0.1
    """A thing so much lower than both its beginning and its target is out of reach."""
    lost_m: float = 0.06
    """A thing so far from the gripper is not held."""
    empty: float = 0.4
    """Nor is one between fingers that are closer together than this share of its width."""
    side_gap_m: float = 0.012
    """Between the thing and each finger on the way down and after letting go."""
    press_m: float = 0.015
    """Closing fingers are asked to move on by so much; with Fetch's stiff fingers that makes 450 N."""
    press_round_m: float = 0.0015
    """The same for things of `ROUND` kinds: pressed harder they tip over when they are let go, or are thrown out."""
    widest_m: float = 0.05
    """Farthest of a finger from the middle."""
    rise_m: float = 0.07
    """How far the gripper rises after letting go."""
    close_steps: int = 5
    open_steps: int = 3
    patience: int = 30
    """A stage that takes longer ends all the same."""
    gain: float = 0.25
    """Share of the error by which an asked point is moved on at each step: a controller may stop short of it."""
    slow_m: float = 0.04
    """Nearer to a point than this, moves become smaller in proportion."""
    slowest: float = 0.2
    near_m: float = 0.03
    """Only this near to the point."""
    most_m: float = 0.05
    """Farthest that it is moved."""


@dataclass(frozen=True)
class Command:
    """What the next control step is to pursue."""

    stage: Stage
    goal: Goal | None
    """In B; None: the arm keeps still."""
    fingers: Fingers
    pace: float = 1.0
    """Share of the controller's move that is made."""


FREE_STAGES = frozenset({"clear", "above", "rise"})
"""Stages in which the gripper is alone in the air."""
EMPTY_GRASPS = 2
"""So often the fingers may close on nothing before the thing is taken to lie elsewhere."""
ASTRAY_M = 0.05
"""A gripper that has come so much further away from its point than it was is astray."""


@dataclass(frozen=True)
class Astray:
    """How the gripper gets on in a free stage."""

    stage: Stage = "done"
    best_m: float = np.inf
    gone: bool = False
    """It went the wrong way: the controller does not know this place, and one for reaching may take over."""


def astray_now(before: Astray, command: Command, grip: FloatArray) -> Astray:
    """The same after another look at the gripper, (3,) in B."""
    if command.stage not in FREE_STAGES or command.goal is None:
        return Astray()
    left = command.goal.distance(grip)
    if before.stage != command.stage:
        return Astray(command.stage, left)
    return Astray(command.stage, min(before.best_m, left), before.gone or left > before.best_m + ASTRAY_M)


@dataclass(frozen=True)
class _View:
    """What is measured before a step, in B."""

    grip: FloatArray
    here: FloatArray
    """The thing's centre."""
    half: FloatArray
    """Its half extents."""
    opening_m: float | None
    """Mean distance of the fingers from the middle, where it is observed."""
    round: bool
    moved_m: float
    """How far it came in the last step."""
    state: SceneState

    @property
    def aside_m(self) -> float:
        """Horizontal distance between gripper and thing."""
        return float(np.hypot(*(self.grip - self.here)[:2]))


class Handling:
    """One thing picked up, or moved, in stages that end when measured positions say so.

    A thing that slipped is approached again, and so is one that does not come to lie where it should.

    Args:
        skill: `pick`, `place`, `push` or `stack`.
        thing: Its id.
        target_b: Where its centre shall come to, (3,) in B.
        tolerance_m: Within which it may lie.
        config: Distances and durations.
    """

    def __init__(
        self, skill: str, thing: str, target_b: FloatArray, tolerance_m: float, config: HandlingConfig | None = None
    ) -> None:
        self.skill, self.thing, self.tolerance_m = skill, thing, tolerance_m
        self.target = np.asarray(target_b, dtype=np.float32)
        self.config = config or HandlingConfig()
        self.failure = ""
        """Why it cannot be done; empty while it can."""
        self.stage: Stage = "clear"
        self._taken = self._empty = 0
        """Steps of the present stage; grasps of nothing, one after another."""
        self._low = 0
        """Of these, with the thing at its height."""
        self._point: FloatArray | None = None
        """Where the present stage leads, for those that lead to a fixed point."""
        self._shift = np.zeros(3, dtype=np.float32)
        self._last: FloatArray | None = None
        self._lowest = -np.inf
        """Below it the thing has fallen off what it lay on."""
        self._ends: dict[Stage, Callable[[_View], Stage | None]] = {
            "clear": self._after_clear, "above": self._after_above, "down": self._after_down,
            "close": self._after_close, "up": self._after_up, "over": self._after_over, "lower": self._after_lower,
            "open": self._after_open, "rise": self._after_rise,
        }  # fmt: skip

    @property
    def done(self) -> bool:
        """All stages are over."""
        return self.stage == "done"

    def command(self, observation: Observation, state: SceneState) -> Command:
        """What to pursue from here; to be called once before every control step."""
        view = self._view(observation, state)
        if self._last is None:
            self._begin(view)
        if view.here[2] < self._lowest:
            self.stage, self.failure = "done", f"{self.thing} fell off what it lay on"
        while self.stage != "done" and (following := self._ends[self.stage](view)) is not None:
            self._enter(following)
        self._last = view.here.copy()
        self._taken += 1
        if self._point is None:
            self._point = self._leads_to(view)
        return self._command(view)

    def _enter(self, stage: Stage) -> None:
        """Begins a stage; on the way down what was learned of the controller's sideways error is kept."""
        sideways = self._shift[:2].copy() if stage == "lower" else 0.0
        self.stage, self._taken, self._low, self._point = stage, 0, 0, None
        self._shift[:2], self._shift[2] = sideways, 0.0

    def _begin(self, view: _View) -> None:
        self._lowest = float(min(view.here[2], self.target[2])) - self.config.fallen_m
        if holding(view.state, self.thing):
            self.stage = "up"

    def _view(self, observation: Observation, state: SceneState) -> _View:
        index, entity = observation.layout.entity_index, _entity(state, self.thing)
        here = observation.achieved[index(self.thing)]
        moved = np.inf if self._last is None else float(np.abs(here - self._last).max())
        half = np.array(entity.half_extents_m, dtype=np.float32)
        return _View(
            observation.achieved[index(GRIPPER)],
            here,
            half,
            finger_opening(observation),
            entity.kind in ROUND,
            moved,
            state,
        )

    def _command(self, view: _View) -> Command:
        c, width = self.config, float(view.half[1])
        opened, pressing = (
            Fingers(min(width + c.side_gap_m, c.widest_m)),
            Fingers(width, c.press_round_m if view.round else c.press_m),
        )
        if self.stage in ("close", "open", "done"):
            closed = self.stage == "close" or self.skill == "pick"
            return Command(self.stage, None, pressing if closed else opened)
        assert self._point is not None
        point = self._point.copy()
        if self.stage in ("above", "down"):
            point[:2] = view.here[:2]
        if self.stage in ("up", "over", "lower"):
            return self._towards(self.thing, point, view.here, pressing)
        return self._towards(GRIPPER, point, view.grip, opened)

    def _towards(self, entity: str, point: FloatArray, now: FloatArray, fingers: Fingers) -> Command:
        """To the point, moved on by what was missed so far: a bounded integral of the error."""
        error, c = point - now, self.config
        left = float(np.linalg.norm(error))
        if left < c.near_m:
            self._shift = np.clip(self._shift + c.gain * error, -c.most_m, c.most_m)
        if self.stage == "lower":
            self._shift[2] = max(float(self._shift[2]), -c.push_down_m)
        across = float(np.hypot(*error[:2]))
        if across > c.stride_m:
            point = point - _at(error * (1.0 - c.stride_m / across), 0.0)
        goal = Goal(entity, point + self._shift, np.ones(3, dtype=bool))
        return Command(self.stage, goal, fingers, float(np.clip(left / c.slow_m, c.slowest, 1.0)))

    def _leads_to(self, view: _View) -> FloatArray:
        """The point of a stage that begins."""
        c, (grip, here) = self.config, (view.grip, view.here)
        match self.stage:
            case "clear":
                return _at(grip, max(float(grip[2]), self._gripper_height(view)))
            case "above":
                return _at(here, max(self._gripper_height(view), float(min(grip[2], here[2] + 0.15))))
            case "down":
                return _at(here, self._grip_height(view))
            case "up" if self.skill == "pick":
                return self.target
            case "up":
                return _at(here, self._carry_height(view))
            case "over":
                return _at(self.target, max(self._carry_height(view), float(self.target[2])))
            case "rise":
                return _at(grip, float(grip[2]) + c.rise_m)
            case _:
                return self.target

    def _gripper_height(self, view: _View) -> float:
        """Height of the grip site at which the fingertips clear all that is on the way to the thing, and itself."""
        tops = [
            *_tops_on_way(view.state, view.grip, view.here, self.config.corridor_m),
            float(view.here[2] + view.half[2]),
        ]
        return max(tops) + self.config.margin_m + self.config.fingertip_m

    def _grip_height(self, view: _View) -> float:
        """Height of the grip site with the fingers round the thing's middle, and clear of what it stands on."""
        bottom = float(view.here[2] - view.half[2])
        return max(float(view.here[2]), bottom + self.config.fingertip_m + self.config.floor_m)

    def _carry_height(self, view: _View) -> float:
        """Height of the thing's centre at which it clears all that is on its way to the target."""
        low = float(max(view.here[2], self.target[2]))
        tops = _tops_on_way(view.state, view.here, self.target, self.config.corridor_m, without=self.thing)
        bottom = low - float(view.half[2])
        if self.skill == "push" and not any(top > bottom + 0.005 for top in tops):
            return low
        return max([bottom, *tops]) + self.config.margin_m + float(view.half[2])

    @property
    def _late(self) -> bool:
        return self._taken >= self.config.patience

    def _after_clear(self, view: _View) -> Stage | None:
        high = self._point is not None and view.grip[2] >= self._point[2] - self.config.arrive_m
        return "above" if high or self._late or view.aside_m < self.config.beside_m else None

    def _after_above(self, view: _View) -> Stage | None:
        c, point = self.config, self._point
        if point is not None and view.grip[2] < point[2] - c.sag_m and view.aside_m > 3 * c.beside_m:
            return "clear"
        return "down" if view.aside_m < self.config.beside_m or self._late else None

    def _after_down(self, view: _View) -> Stage | None:
        c = self.config
        low = view.grip[2] <= self._grip_height(view) + c.set_down_m
        if low and (view.aside_m < c.centred_m or (self._taken > c.patience // 2 and view.aside_m < c.beside_m)):
            return "close"
        return "clear" if self._late or view.aside_m > 3 * c.beside_m else None

    def _after_close(self, view: _View) -> Stage | None:
        return "up" if self._taken >= self.config.close_steps else None

    def _lost(self, view: _View) -> bool:
        closed = view.opening_m is not None and view.opening_m < self.config.empty * float(view.half[:2].min())
        return closed or float(np.linalg.norm(view.grip - view.here)) > self.config.lost_m

    def _grasped_air(self, view: _View) -> Stage:
        """Where to begin anew; a thing that is not between the fingers where it should be, time and again, lies
        elsewhere."""
        self._empty += int(view.aside_m < self.config.beside_m)
        if self._empty < EMPTY_GRASPS:
            return "clear"
        self.failure = f"{self.thing} is not where it was seen: the fingers closed on nothing"
        return "done"

    def _after_up(self, view: _View) -> Stage | None:
        if self._lost(view):
            return self._grasped_air(view)
        high = self._point is not None and view.here[2] >= self._point[2] - self.config.arrive_m
        if self.skill == "pick":
            return "done" if high else "clear" if self._late else None
        return "over" if high else "clear" if self._late else None

    def _after_over(self, view: _View) -> Stage | None:
        if self._lost(view):
            return "clear"
        self._empty = 0
        return "lower" if np.hypot(*(view.here - self.target)[:2]) < self.config.set_down_m or self._late else None

    def _after_lower(self, view: _View) -> Stage | None:
        if self._lost(view):
            return "clear"
        c, off = self.config, np.abs(view.here - self.target)
        across = float(np.hypot(*off[:2]))
        self._low += int(off[2] < c.set_down_m)
        stopped = off[2] < c.contact_m and view.moved_m < c.still_m and self._taken > 3
        there = self._low and (across < c.set_down_m or self._low >= c.low_steps)
        return "open" if there or stopped or self._late else None

    def _after_open(self, view: _View) -> Stage | None:
        return "rise" if self._taken >= self.config.open_steps else None

    def _after_rise(self, view: _View) -> Stage | None:
        if self._point is None or (view.grip[2] < self._point[2] - self.config.arrive_m and not self._late):
            return None
        return "done" if np.linalg.norm(view.here - self.target) <= self.tolerance_m else "clear"


def shown_with(observation: Observation, thing: str) -> Observation:
    """The same, with the thing in the gripper's row instead of what is nearest to the gripper.

    A controller that was trained with one thing on the table then sees, whomever its goal speaks of, the one that it
    handles.
    """
    layout = observation.layout
    marks = np.array([term.name == GRIPPER_MARK for term in layout.entity for _ in range(term.width)], dtype=bool)
    entities, row = observation.entities.copy(), layout.entity_index(GRIPPER)
    entities[row, ~marks] = observation.entities[layout.entity_index(thing), ~marks]
    return Observation(observation.state, entities, observation.achieved, layout)


def _at(place: FloatArray, height: float) -> FloatArray:
    """The same place, (3,) in B, at another height."""
    return np.array([place[0], place[1], height], dtype=np.float32)


def _entity(state: SceneState, entity_id: str) -> EntityState:
    return next(item for item in state.entities if item.id == entity_id)


def _tops_on_way(
    state: SceneState, start: FloatArray, end: FloatArray, corridor_m: float, without: str = ""
) -> list[float]:
    """Tops, in B, of the solid things that a straight way between two points of B passes over, as seen from above."""
    count = int(np.ceil(np.linalg.norm((end - start)[:2]) / WAY_STEP_M)) + 1
    points = np.linspace(start[:2], end[:2], count)
    tops = []
    for item in state.entities:
        if item.role == "place" or item.id == without:
            continue
        beyond = np.maximum(np.abs(points - item.center_b_m[:2]) - item.half_extents_m[:2], 0.0)
        if np.hypot(*beyond.T).min() <= corridor_m:
            tops.append(float(item.center_b_m[2] + item.half_extents_m[2]))
    return tops
