"""A plan carried out on paper: the states that its steps lead to when each does exactly what it says.

Things go where the plan puts them and rest on what is under them there; what happens on the way is not looked at. The
facts of the states are those of `embodied.facts`, so "done on paper" and "done" are judged by the same words.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from embodied.facts import REST_GAP_M
from embodied.planning.checks import MOVES
from embodied.planning.grounding import ELEMENT_SKILLS
from embodied.types import GRIPPER, EntityState, Plan, SceneState, Subgoal

HAND = frozenset({GRIPPER, "left_finger", "right_finger"})
APART_M = 0.002
"""Things whose boxes overlap by less than this only touch."""


class Impossible(Exception):
    """A step that cannot be done from the state before it; one line says why."""


def simulate(plan: Plan, state: SceneState) -> tuple[SceneState, ...]:
    """The states that a plan leads through, the one that it begins with first.

    Args:
        plan: Grounded, about the state's ids.
        state: Where it begins, at rest.

    Raises:
        Impossible: A thing that something lies on is moved, a place is taken, another thing is held.
    """
    states = [state]
    for subgoal in plan.subgoals:
        states += _after(subgoal, states[-1])
    return tuple(states)


def covering(state: SceneState, thing: str) -> tuple[str, ...]:
    """Ids of the objects that lie on a thing."""
    lower = state.entity(thing)
    return tuple(
        item.id
        for item in state.entities
        if item.role == "object" and item.id != thing and _touch(state, item.id, thing) and _rests(item, lower)
    )


def _after(subgoal: Subgoal, state: SceneState) -> list[SceneState]:
    name = f"{subgoal.skill}({', '.join(subgoal.args)})"
    free = _without(state, [pair for pair in state.contacts if HAND & set(pair)]) if _held(state) is None else state
    if subgoal.skill in ELEMENT_SKILLS:
        raise Impossible(f"{name}: nothing here can be opened, closed or turned")
    if subgoal.skill == "touch":
        return [_with(free, [(GRIPPER, subgoal.args[0])]), free]
    if subgoal.skill == "go_to":
        x, y, _ = subgoal.target_m
        height = 0.0 if state.robot_position_m is None else state.robot_position_m[2]
        return [replace(free, robot_position_m=(x, y, height))]
    if subgoal.skill not in MOVES:
        return [free]
    return _moved(subgoal, state, name)


def _moved(subgoal: Subgoal, state: SceneState, name: str) -> list[SceneState]:
    thing, held = subgoal.args[0], _held(state)
    if held not in (None, thing):
        raise Impossible(f"{name}: the gripper holds {held}")
    if above := covering(state, thing):
        raise Impossible(f"{name}: {above[0]} lies on {thing}")
    lifted = _without(state, [pair for pair in state.contacts if thing in pair or HAND & set(pair)])
    item = _at(lifted.entity(thing), state, subgoal.target_m)
    lifted = replace(lifted, entities=tuple(item if e.id == thing else e for e in lifted.entities))
    grasp = [(GRIPPER, thing), ("left_finger", thing), ("right_finger", thing)]
    if subgoal.skill == "pick":
        return [_with(lifted, grasp)]
    for other in lifted.entities:
        if other.role == "object" and other.id != thing and _overlap(item, other):
            raise Impossible(f"{name}: {other.id} is there")
    under = [(thing, e.id) for e in lifted.entities if e.role != "place" and e.id != thing and _rests(item, e)]
    return [_with(lifted, grasp), _with(lifted, under)]


def _at(item: EntityState, state: SceneState, target_m: tuple[float, float, float]) -> EntityState:
    x, y, z = (float(v) for v in state.frame.to_base(np.asarray(target_m)))
    return replace(item, position_m=target_m, center_b_m=(x, y, z))


def _rests(upper: EntityState, lower: EntityState) -> bool:
    """The upper one's bottom is at the lower one's top, and they overlap as seen from above."""
    gap = (upper.center_b_m[2] - upper.half_extents_m[2]) - (lower.center_b_m[2] + lower.half_extents_m[2])
    return abs(gap) <= REST_GAP_M and _over(upper, lower, (0, 1))


def _overlap(a: EntityState, b: EntityState) -> bool:
    return _over(a, b, (0, 1, 2))


def _over(a: EntityState, b: EntityState, axes: Iterable[int]) -> bool:
    """Their boxes overlap along all these axes of B. Turned things fill their boxes only in part: three quarters."""
    return all(
        abs(a.center_b_m[i] - b.center_b_m[i])
        < (1.0 if i == 2 else 0.75) * (a.half_extents_m[i] + b.half_extents_m[i]) - APART_M
        for i in axes
    )


def _held(state: SceneState) -> str | None:
    left, right = (
        {other for pair in state.contacts if finger in pair for other in pair if other not in HAND}
        for finger in ("left_finger", "right_finger")
    )
    return next(iter(sorted(left & right)), None)


def _touch(state: SceneState, a: str, b: str) -> bool:
    return tuple(sorted((a, b))) in state.contacts


def _with(state: SceneState, pairs: Iterable[tuple[str, str]]) -> SceneState:
    return replace(state, contacts=state.contacts | {(min(pair), max(pair)) for pair in pairs})


def _without(state: SceneState, pairs: Iterable[tuple[str, str]]) -> SceneState:
    return replace(state, contacts=state.contacts - set(pairs))
