"""What can be said against a list of steps from names and roles alone, before anything is measured."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from embodied.errors import UserError
from embodied.planning.places import Place, find, label, listing, parse_place, quoted
from embodied.planning.plan import SKILL_ARGS, check_arity
from embodied.types import DescribedObject, PlanFailure, PlanStep, SceneDescription

MOVES = frozenset({"push", "pick", "place", "stack"})
"""Skills whose first argument is moved."""
_ORDERS = {
    "on": ("on", False), "left_of": ("left", False), "right_of": ("left", True), "in_front_of": ("front", False),
    "behind": ("front", True),
}  # fmt: skip
"""Relations that cannot form a ring: the order that each belongs to, and whether its arguments are swapped."""


def check_steps(steps: Sequence[PlanStep], scene: SceneDescription) -> PlanFailure | None:
    """The first thing that is wrong with the steps in this scene, or None.

    unknown_object: an id that is not there. impossible: moving what is fixed, touching a place, relating a thing to
    itself. contradictory: arrangements that cannot all hold at the end (a on b and b on a; left of each other).
    unparsable: an unknown skill, a wrong number of arguments, a place of no known form, or no step at all.
    """
    if not steps:
        return PlanFailure("unparsable", "the plan has no steps; a plan that should do nothing is the one step hold")
    for step in steps:
        failure = _check_step(step, scene)
        if failure is not None:
            return failure
    return _check_hand(steps) or _check_arrangement(steps, scene)


def _check_hand(steps: Sequence[PlanStep]) -> PlanFailure | None:
    """One gripper holds one thing: what was picked up has to be put down before another thing is handled."""
    held: str | None = None
    for step in steps:
        if held is not None and step.skill in MOVES | {"touch"} and step.args[0] != held:
            return PlanFailure(
                "impossible", f"the gripper would still hold {held} at {step.skill}({step.args[0]}): put it down first"
            )
        if step.skill == "pick":
            held = step.args[0]
        elif step.skill in ("place", "stack"):
            held = None
    return None


def _check_step(step: PlanStep, scene: SceneDescription) -> PlanFailure | None:
    try:
        check_arity(step)
    except UserError as error:
        return PlanFailure("unparsable", str(error))
    things: list[DescribedObject] = []
    for arg, meaning in zip(step.args, SKILL_ARGS[step.skill], strict=True):
        found = _look_up(arg, meaning, scene)
        if isinstance(found, PlanFailure):
            return found
        if found is not None:
            things.append(found)
    if step.skill in MOVES and things[0].role != "object":
        movable = [item for item in scene.objects if item.role == "object"]
        return PlanFailure(
            "impossible", f"the {label(things[0])} is fixed and cannot be moved; movable: {listing(movable)}"
        )
    if step.skill in MOVES and len(things) == 2 and things[0] is things[1]:
        return PlanFailure("impossible", f"the {label(things[0])} cannot be placed relative to itself")
    if step.skill in ("open", "close", "turn"):
        return PlanFailure("impossible", f"the {label(things[0])} has no joint to {step.skill}; it can be touched")
    for thing in step.avoid:
        if find(scene, thing) is None:
            return PlanFailure(
                "unknown_object", f"there is no {quoted(thing)} here; there are: {listing(scene.objects)}"
            )
        if step.skill in MOVES | {"touch"} and thing == step.args[0]:
            return PlanFailure("contradictory", f"{thing} is to be avoided and yet to be used: {step.skill}; drop one")
    relation = relation_of(step, scene)
    if relation is not None and relation[0] == "in" and things[1].role != "zone":
        zones = [item for item in scene.objects if item.role == "zone"]
        return PlanFailure("impossible", f"nothing can be put in the {label(things[1])}; zones here: {listing(zones)}")
    if step.skill in ("touch", "stack") and things[-1].role == "place":
        return PlanFailure("impossible", f"the {label(things[-1])} is a place, not a thing that can be touched")
    return None


def _look_up(arg: str, meaning: str, scene: SceneDescription) -> DescribedObject | PlanFailure | None:
    """The thing that an argument speaks of; None for coordinates."""
    place = parse_place(arg) if meaning == "place" else Place(reference=arg)
    if place is None:
        return PlanFailure("unparsable", f"{quoted(arg)} is no place: give an id, left_of:<id> or x,y,z in metres")
    if place.reference is None:
        return None
    found = find(scene, place.reference)
    if found is None:
        return PlanFailure(
            "unknown_object", f"there is no {quoted(place.reference)} here; there are: {listing(scene.objects)}"
        )
    return found


def _check_arrangement(steps: Sequence[PlanStep], scene: SceneDescription) -> PlanFailure | None:
    """Each object's last relation must hold at the end together with all others: no order may run in a ring."""
    last: dict[str, tuple[str, str]] = {}
    for step in steps:
        relation = relation_of(step, scene)
        if step.skill in MOVES and len(step.args) == 2:
            last.pop(step.args[0], None)
            if relation is not None:
                last[step.args[0]] = relation
    edges: dict[str, list[tuple[str, str]]] = {}
    for thing, (side, reference) in last.items():
        if side in _ORDERS:
            order, swapped = _ORDERS[side]
            edges.setdefault(order, []).append((reference, thing) if swapped else (thing, reference))
    for pairs in edges.values():
        ring = _ring(pairs)
        if ring:
            told = "; ".join(f"{a} {last[a][0]} {last[a][1]}" for a in last if a in ring and last[a][0] in _ORDERS)
            return PlanFailure("contradictory", f"these cannot hold together: {told}; ask for one of them")
    return None


def relation_of(step: PlanStep, scene: SceneDescription) -> tuple[str, str] | None:
    """(relation, reference) that a moving step brings about for its object: the fact that says that it is done.

    A zone without a relation means `in`, another thing means `on`; None for coordinates and for skills that place
    nothing.
    """
    if step.skill == "stack":
        return ("on", step.args[1])
    if step.skill not in ("push", "place"):
        return None
    place = parse_place(step.args[1])
    if place is None or place.reference is None:
        return None
    reference = find(scene, place.reference)
    if reference is None or (reference.role == "place" and place.side is None):
        return None
    if place.side is None:
        return ("in" if reference.role == "zone" else "near" if step.skill == "push" else "on", reference.id)
    return (place.side, reference.id)


def _ring(pairs: Iterable[tuple[str, str]]) -> set[str]:
    """The nodes that lie on a ring of the directed graph, or follow from one; empty where there is none.

    Nodes without a way out are taken away until none is left (Kahn 1962, Topological sorting of large networks).
    """
    left = set(pairs)
    while True:
        starts = {a for a, _ in left}
        kept = {(a, b) for a, b in left if b in starts}
        if kept == left:
            return {node for pair in left for node in pair}
        left = kept
