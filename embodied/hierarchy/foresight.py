"""What an arm's environment will show once a subgoal is done: good enough to ask a critic about the next one."""

from __future__ import annotations

import numpy as np

from embodied.hierarchy.recovery import MOVING_SKILLS
from embodied.spec import Term
from embodied.types import GRIPPER, Observation, Subgoal


def after(observation: Observation, subgoal: Subgoal) -> Observation:
    """The observation with the gripper at the subgoal's goal, and the thing that it moves as well; all at rest.

    Only positions are changed, and those relative to the gripper with them: `grip_pos`, `object_pos` and
    `object_rel_pos`. A layout without these terms, and a subgoal that asks for no place, change nothing.
    """
    layout, goal = observation.layout, subgoal.goal
    grip, place, relative = (
        _columns(terms, name)
        for terms, name in (
            (layout.robot, "grip_pos"),
            (layout.entity, "object_pos"),
            (layout.entity, "object_rel_pos"),
        )
    )
    if GRIPPER not in layout.entities or grip is None or not goal.mask.all():
        return observation
    state, entities, achieved = observation.state.copy(), observation.entities.copy(), observation.achieved.copy()
    state[grip] = achieved[layout.entity_index(GRIPPER)] = goal.value
    if subgoal.skill in MOVING_SKILLS:
        achieved[layout.entity_index(goal.entity)] = goal.value
    if place is not None and relative is not None:
        rows = [index for index, name in enumerate(layout.entities) if name != GRIPPER]
        for index in rows:
            entities[index, place], entities[index, relative] = achieved[index], achieved[index] - goal.value
        if rows:
            nearest = min(rows, key=lambda index: float(np.linalg.norm(achieved[index] - goal.value)))
            seen = layout.entity_index(GRIPPER)
            entities[seen, place], entities[seen, relative] = entities[nearest, place], entities[nearest, relative]
    return Observation(state, entities, achieved, layout)


def _columns(terms: tuple[Term, ...], name: str) -> slice | None:
    """Where a term's numbers stand."""
    begin = 0
    for term in terms:
        if term.name == name:
            return slice(begin, begin + term.width)
        begin += term.width
    return None
