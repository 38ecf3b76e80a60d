"""What is left of what was done: which subgoals still have to hold, and which the world has undone since."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from embodied.facts import holds
from embodied.hierarchy.monitor import LASTING
from embodied.types import PlanStep, SceneState, Subgoal

MOVING_SKILLS = frozenset({"push", "pick", "place", "stack"})


def step_of(subgoal: Subgoal) -> PlanStep:
    """The step that a subgoal was grounded from, without its target."""
    return PlanStep(subgoal.skill, subgoal.args, max_steps=subgoal.max_steps, avoid=subgoal.avoid)


def first_undone(done: Sequence[Subgoal], ahead: Sequence[Subgoal], state: SceneState) -> int | None:
    """Index of the first subgoal that should still hold and does not; None where all do.

    What a later subgoal moves, or one that is still ahead, need no longer be where an earlier one put it; nor does a
    thing keep its side of another one that is moved later.
    """
    moved = {subgoal.args[0] for subgoal in ahead if subgoal.skill in MOVING_SKILLS}
    first = None
    for index in range(len(done) - 1, -1, -1):
        subgoal = done[index]
        if subgoal.skill not in MOVING_SKILLS:
            continue
        if subgoal.args[0] not in moved and not stays(subgoal, state, moved):
            first = index
        moved.add(subgoal.args[0])
    return first


def stays(subgoal: Subgoal, state: SceneState, moved: set[str] | frozenset[str] = frozenset()) -> bool:
    """Whether what a subgoal about a thing brought about still holds.

    Args:
        subgoal: One that moves a thing.
        state: Now.
        moved: Things that were moved since on purpose; facts about them are not looked at.
    """
    lasting = LASTING | {"holding"} if subgoal.skill == "pick" else LASTING
    asked = [fact for fact in subgoal.success if fact.name in lasting and not moved & set(fact.args)]
    return all(holds(fact, state) for fact in asked)


def references(subgoal: Subgoal, state: SceneState) -> dict[str, np.ndarray]:
    """Where the objects are, (3,) in B, that a subgoal's target was computed from, the moved thing itself left out."""
    moved = subgoal.args[0] if subgoal.skill in MOVING_SKILLS else None
    ids = {arg.rpartition(":")[2] for arg in subgoal.args} - {moved}
    return {e.id: np.asarray(e.center_b_m) for e in state.entities if e.id in ids and e.role == "object"}


def displaced(before: dict[str, np.ndarray], state: SceneState, limit_m: float) -> str | None:
    """The first of the things that is now further than `limit_m` from where it was, not by the gripper's own touch."""
    for entity in state.entities:
        touched = tuple(sorted(("gripper", entity.id))) in state.contacts
        here = np.asarray(entity.center_b_m)
        if entity.id in before and not touched and np.linalg.norm(before[entity.id] - here) > limit_m:
            return entity.id
    return None
