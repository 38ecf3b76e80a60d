"""From skills and ids to subgoals: coordinates, what to ask of the controller, and the facts that say that it is done.

Targets are in the world, goals in frame B. Where an earlier step of a plan moves a thing, later steps find it where
that step will have put it.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from embodied.planning.checks import MOVES, check_steps, relation_of
from embodied.planning.places import Place, checked_place, label
from embodied.planning.sequence import workable
from embodied.types import DescribedObject, Goal, Plan, PlanFailure, PlanStep, Predicate, SceneDescription, Subgoal

Point = NDArray[np.float64]
ELEMENT_SKILLS = frozenset({"open", "close", "turn"})
NEAR_LIMIT_M = 0.095
"""Farthest that `near` is asked for: within the 0.10 m that the fact means."""
BORDER_M = 0.002
"""Left free at the border of what things are put on."""
DISC_ROOM = 0.57
"""Half a side of the square that centres on a disc may lie in, in radii: its corners are 0.8 from the middle."""
OVERHANG = 0.5
"""At least so much of a thing's half extents lies on what it is put on, where there is no room for more."""
_UP = np.array([0.0, 0.0, 1.0])
_WAYS = {"in_front_of": (-1, 0, 0), "left_of": (0, 1, 0), "right_of": (0, -1, 0), "behind": (1, 0, 0)}
"""Directions in B."""


@dataclass(frozen=True)
class ReachEnvelope:
    """Where an arm can bring its gripper, in B: a ring round its axis between two heights."""

    axis_m: tuple[float, float]
    """x and y of the arm's base."""
    x_min_m: float
    radius_m: float
    z_min_m: float
    z_max_m: float
    y_range_m: tuple[float, float] = (-math.inf, math.inf)

    def contains(self, point_b: Point) -> bool:
        """Whether a point of B, shape (3,), lies inside; the border belongs to it."""
        x, y, z = (float(v) for v in point_b)
        within = np.hypot(x - self.axis_m[0], y - self.axis_m[1]) <= self.radius_m
        beside = self.y_range_m[0] <= y <= self.y_range_m[1]
        return bool(within and beside) and x >= self.x_min_m and self.z_min_m <= z <= self.z_max_m

    def __str__(self) -> str:
        return (
            f"within {self.radius_m:.2f} m of the arm's axis, x at least {self.x_min_m:.2f} m, y"
            f" {self.y_range_m[0]:.2f} to {self.y_range_m[1]:.2f} m, height"
            f" {self.z_min_m:.2f} to {self.z_max_m:.2f} m, in the robot's frame"
        )


FETCH_ENVELOPE = ReachEnvelope(axis_m=(0.692, 0.744), x_min_m=0.95, radius_m=0.95, z_min_m=0.38, z_max_m=0.85,
                               y_range_m=(0.35, 1.15))  # fmt: skip
"""Where Fetch's grip site, fingers down, comes within 0.04 m of what a proportional controller asks in 50 steps.

Driven on Gymnasium's FetchReach over a grid of x 0.95..1.65, y 0.35..1.15, z 0.40..0.90 m: the error is at most
0.02 m up to a radius of 0.85 m, 0.04 m at 0.95 m and 0.05 m at 1.05 m.
"""
ENVELOPES: dict[str, ReachEnvelope] = {"fetch": FETCH_ENVELOPE}


@dataclass(frozen=True)
class GroundingContext:
    """What grounding has to know beside the scene; lengths in metres."""

    envelope: ReachEnvelope | None = None
    """None: nothing is out of reach."""
    refuse_unreachable: bool = True
    """False: plans whose targets are out of reach are made all the same, and `in_reach` tells."""
    touch_depth_m: float = 0.05
    """How far below the top of a thing the controller is asked to go: a controller may stop 0.05 m short, and Fetch's
    fingertips end 0.0185 m below the grip site, so contact comes 0.03 m before the goal point would count as missed."""
    hover_m: float = 0.10
    """`reach(thing)` means this far above its top."""
    lift_m: float = 0.10
    """`pick` raises a thing this far."""
    clearance_m: float = 0.02
    """Space left between things that are set side by side."""
    tolerance_m: float = 0.05
    max_steps: int = 50
    place_tolerance_m: float = 0.03
    """For things that are moved."""
    move_max_steps: int = 150
    drive_tolerance_m: float = 0.45
    drive_max_steps: int = 2000
    way: Callable[[Sequence[float] | None, Sequence[float]], str] | None = None
    """Says why a robot that drives cannot come from one place of the world to another, empty where it can; the first
    is None for where it is now."""

    @classmethod
    def for_robot(cls, robot: str, refuse_unreachable: bool = True) -> GroundingContext:
        """The context of `fetch`, `point`, `none`, ...: an arm has an envelope, the others reach everything."""
        return cls(envelope=ENVELOPES.get(robot), refuse_unreachable=refuse_unreachable)

    def in_reach(self, subgoal: Subgoal, scene: SceneDescription) -> bool:
        """Whether the subgoal's target lies in the robot's reach; base B is the scene's."""
        if self.envelope is None or subgoal.skill in ("hold", "go_to"):
            return True
        return self.envelope.contains(scene.base.to_base(np.asarray(subgoal.target_m)))


def ground(
    steps: Sequence[PlanStep],
    scene: SceneDescription,
    context: GroundingContext,
    *,
    instruction: str = "",
    planner: str = "",
) -> Plan | PlanFailure:
    """A plan with coordinates, or why there is none.

    A step's own `target_m` wins over the computed one. Between two touches the gripper rises: that is the executor's
    part, the plan holds what was asked for.

    Returns:
        `PlanFailure` with the reasons of `check_steps`, `unreachable` (a target outside the envelope) or `impossible`
        (no room beside or in a thing, a description without a world frame).
    """
    if scene.frame != "world":
        return PlanFailure(
            "impossible", "the camera's pose is not known, so nothing has a place in the world; give one"
        )
    failure = check_steps(steps, scene)
    if failure is None and context.envelope is not None and any(step.skill == "go_to" for step in steps):
        failure = PlanFailure("impossible", "the arm stands where it is: it can reach and touch things, not go to them")
    if failure is not None:
        return failure
    ordered = workable(steps, scene)
    if isinstance(ordered, PlanFailure):
        return ordered
    steps = ordered
    grounder = _Grounder(scene, context, steps)
    subgoals: list[Subgoal] = []
    here: Sequence[float] | None = None
    for step in steps:
        subgoal = grounder.subgoal(step)
        if isinstance(subgoal, PlanFailure):
            return subgoal
        if context.refuse_unreachable and not context.in_reach(subgoal, scene):
            return _unreachable(subgoal, scene, context)
        if context.refuse_unreachable and (far := grounder.out_of_reach(step)) is not None:
            return far
        if step.skill == "go_to" and context.way is not None:
            if blocked := context.way(here, subgoal.target_m):
                return PlanFailure("unreachable", f"go_to({step.args[0]}): {blocked}")
            here = subgoal.target_m
        subgoals.append(subgoal)
    return Plan(instruction, tuple(subgoals), planner)


def _unreachable(subgoal: Subgoal, scene: SceneDescription, context: GroundingContext) -> PlanFailure:
    x, y, z = scene.base.to_base(np.asarray(subgoal.target_m))
    what = f"{subgoal.skill}({', '.join(subgoal.args)})"
    return PlanFailure(
        "unreachable", f"{what}: target ({x:.2f}, {y:.2f}, {z:.2f}) is out of reach ({context.envelope})"
    )


def _grid(room: Point, pitch: Point) -> list[tuple[float, float]]:
    """Offsets (x, y) of a grid of at most 9 x 9 spots at least a pitch apart, spread over the room, the middle first.

    They are as far apart as they can be: fingers have to come between the things.
    """
    counts = np.full(2, 9)
    if pitch.all():
        counts = np.clip(np.floor(2 * room / pitch + 1e-9).astype(int) + 1, 1, 9)
    ends = np.maximum(room - BORDER_M, 0.0)
    xs, ys = (np.linspace(-r, r, n) if n > 1 else np.zeros(1) for n, r in zip(counts, ends, strict=True))
    return sorted(((float(x), float(y)) for x in xs for y in ys), key=lambda o: (round(np.hypot(*o), 6), o))


@dataclass
class _Grounder:
    """Grounds one step after the other and remembers where moved things will be."""

    scene: SceneDescription
    context: GroundingContext
    steps: Sequence[PlanStep]
    things: dict[str, DescribedObject] = field(init=False)
    demand: Counter[str] = field(init=False)
    """How many things there have to be room for on each: what lies there now and what the plan brings."""
    lifted: set[str] = field(default_factory=set)
    """Things that an earlier step has moved."""

    def __post_init__(self) -> None:
        self.things = {item.id: item for item in self.scene.objects}
        relations = [(step.args[0], relation_of(step, self.scene)) for step in self.steps if step.skill in MOVES]
        brought = {(thing, relation[1]) for thing, relation in relations if relation and relation[0] in ("in", "on")}
        there = {f.predicate.args for f in self.scene.facts if f.predicate.name == "in" and f.probability >= 0.5}
        self.demand = Counter(support for _, support in brought | there)

    def out_of_reach(self, step: PlanStep) -> PlanFailure | None:
        """Why the thing that a step moves cannot be taken from where the scene has it."""
        envelope = self.context.envelope
        if envelope is None or step.skill not in MOVES or step.args[0] in self.lifted:
            return None
        self.lifted.add(step.args[0])
        thing = next(item for item in self.scene.objects if item.id == step.args[0])
        if envelope.contains(self._b(thing)):
            return None
        x, y, z = self._b(thing)
        return PlanFailure(
            "unreachable", f"the {label(thing)} is at ({x:.2f}, {y:.2f}, {z:.2f}), out of reach ({envelope})"
        )

    def subgoal(self, step: PlanStep) -> Subgoal | PlanFailure:
        target = self._target(step)
        if isinstance(target, PlanFailure):
            return target
        if step.target_m is not None:
            target = np.asarray(step.target_m, dtype=np.float64)
        made = self._make(step, target)
        if step.skill in MOVES:
            moved = (float(target[0]), float(target[1]), float(target[2]))
            self.things[step.args[0]] = replace(self.things[step.args[0]], position_m=moved)
        return made

    def _make(self, step: PlanStep, target: Point) -> Subgoal:
        drives = step.skill == "go_to"
        entity = step.args[0] if step.skill in MOVES else "robot" if drives else "gripper"
        asked = target - self.context.touch_depth_m * _UP if step.skill == "touch" else target
        mask = np.array([step.skill != "hold", step.skill != "hold", step.skill != "hold" and not drives])
        c, moves = self.context, step.skill in MOVES
        steps = c.drive_max_steps if drives else c.move_max_steps if moves else c.max_steps
        return Subgoal(
            skill=step.skill,
            args=step.args,
            goal=Goal(entity, self.scene.base.to_base(asked).astype(np.float32), mask),
            target_m=(float(target[0]), float(target[1]), float(target[2])),
            tolerance_m=c.drive_tolerance_m if drives else c.place_tolerance_m if moves else c.tolerance_m,
            max_steps=step.max_steps if step.max_steps is not None else steps,
            success=self._success(step),
            avoid=step.avoid,
        )

    def _success(self, step: PlanStep) -> tuple[Predicate, ...]:
        if step.skill == "touch":
            return (Predicate("touching", ("gripper", step.args[0])),)
        if step.skill == "pick":
            return (Predicate("holding", (step.args[0],)),)
        if step.skill == "go_to":
            place = checked_place(step.args[0])
            landmark = (
                place.side is None and place.reference is not None and self.things[place.reference].role == "landmark"
            )
            return (Predicate("at", (step.args[0],)),) if landmark else ()
        relation = relation_of(step, self.scene)
        return () if relation is None else (Predicate(relation[0], (step.args[0], relation[1])),)

    def _target(self, step: PlanStep) -> Point | PlanFailure:
        """World position that the step is about."""
        if step.skill == "hold":
            return np.zeros(3)
        if step.skill == "touch":
            return self._top(self.things[step.args[0]])
        if step.skill == "pick":
            return self._centre(self.things[step.args[0]]) + self.context.lift_m * _UP
        if step.skill in ELEMENT_SKILLS:
            return self._centre(self.things[step.args[0]])
        if step.skill in MOVES:
            return self._resting_place(step)
        return self._spot(step.skill, checked_place(step.args[0]))

    def _spot(self, skill: str, place: Place) -> Point | PlanFailure:
        """Where reach and go_to lead: a point, the middle of a place or landmark, above a thing, or beside it."""
        if place.point_m is not None:
            return np.asarray(place.point_m, dtype=np.float64)
        thing = self.things[place.reference or ""]
        if place.side in (None, "on", "in"):
            if skill == "go_to" or thing.role == "place":
                return self._centre(thing)
            return self._top(thing) + self.context.hover_m * _UP
        offset = self._beside(place.side, thing.half_extents_m, (0.0, 0.0, 0.0))[0]
        return self.scene.base.to_world(self._b(thing) + offset) + (skill == "reach") * self.context.hover_m * _UP

    def _resting_place(self, step: PlanStep) -> Point | PlanFailure:
        """Where the moved thing's centre has to come so that the step's relation holds."""
        moved, place = self.things[step.args[0]], checked_place(step.args[1])
        if place.point_m is not None:
            return np.asarray(place.point_m, dtype=np.float64)
        reference = self.things[place.reference or ""]
        relation = relation_of(step, self.scene)
        if relation is None:
            return self._centre(reference)
        base, here = self._b(reference), self._b(moved)
        if relation[0] in ("in", "on"):
            spot = self._free_spot(moved, reference)
            if spot is None:
                return PlanFailure(
                    "impossible", f"there is no room left on the {label(reference)} for the {label(moved)}"
                )
            return self.scene.base.to_world(spot)
        offsets = self._beside(relation[0], reference.half_extents_m, moved.half_extents_m)
        if relation[0] == "near":
            offsets = [offset for offset in offsets if np.linalg.norm(offset) <= NEAR_LIMIT_M]
            offsets.sort(key=lambda offset: float(np.linalg.norm(base + offset - here)))
        for offset in offsets:
            if not self._taken(base + offset, moved):
                return self.scene.base.to_world(base + offset)
        what = f"{relation[0]} the {label(reference)}"
        return PlanFailure("impossible", f"there is no free place {what} that the {label(moved)} fits in")

    def _beside(self, side: str, theirs: Sequence[float], mine: Sequence[float]) -> list[Point]:
        """Offsets in B from a thing's centre to that of another set down beside it, bottoms level, the best first.

        `near` has one on each side; a named side has one after the other, away from the thing.
        """
        gap, level = self.context.clearance_m, (mine[2] - theirs[2]) * _UP
        first = np.array([theirs[0] + mine[0] + gap, theirs[1] + mine[1] + gap, 0.0])
        further = np.array([2 * mine[0] + gap, 2 * mine[1] + gap, 0.0])
        ways = {name: np.array(way) for name, way in _WAYS.items()}
        if side == "near":
            return [way * first + level for way in ways.values()]
        return [ways[side] * (first + k * further) + level for k in range(4)]

    def _free_spot(self, moved: DescribedObject, support: DescribedObject) -> Point | None:
        """Centre in B of a free spot on a thing, None where all are taken: its middle for one thing, else a grid."""
        half, mine = np.asarray(support.half_extents_m), np.asarray(moved.half_extents_m)
        free = []
        for x, y in self._offsets(half, mine, support):
            spot = self._b(support) + np.array([x, y, half[2] + mine[2]])
            if not self._taken(spot, moved):
                if self._reached(spot):
                    return spot
                free.append(spot)
        return free[0] if free else None

    def _offsets(self, half: Point, mine: Point, support: DescribedObject) -> list[tuple[float, float]]:
        """Spots of a thing's top, (x, y) from its middle, the best first."""
        middle = (0.0, 0.0)
        if support.role == "object":
            return [middle]
        room = half[:2] * DISC_ROOM if support.kind == "disc" else half[:2] - mine[:2]
        demand = self.demand[support.id]
        spread = _grid(room, 2 * mine[:2] + self.context.clearance_m)
        if len(spread) < demand:
            # Turned things fill their boxes only in part, and may stand out over a border.
            room = room if support.kind == "disc" else half[:2] - OVERHANG * mine[:2]
            spread = _grid(room, 2 * mine[:2])
        return [*([middle] if demand <= 1 else []), *spread, *_grid(room, np.zeros(2))]

    def _reached(self, spot: Point) -> bool:
        return self.context.envelope is None or self.context.envelope.contains(spot)

    def _taken(self, spot: Point, moved: DescribedObject) -> bool:
        """Another object is where the moved one would have its centre at `spot`, in B."""
        mine = np.asarray(moved.half_extents_m)
        return any(self._overlaps(spot, mine, other) for other in self.things.values() if other.id != moved.id)

    def _overlaps(self, spot: Point, mine: Point, other: DescribedObject) -> bool:
        if other.role != "object":
            return False
        room = mine + np.asarray(other.half_extents_m) - 1e-3
        return bool(np.all(np.abs(self._b(other) - spot) < room))

    def _b(self, thing: DescribedObject) -> Point:
        return self.scene.base.to_base(self._centre(thing))

    @staticmethod
    def _centre(thing: DescribedObject) -> Point:
        return np.asarray(thing.position_m, dtype=np.float64)

    def _top(self, thing: DescribedObject) -> Point:
        return self._centre(thing) + thing.half_extents_m[2] * _UP
