"""The order in which steps can be done: towers from below, and what lies on a thing is taken off before it is moved."""

from __future__ import annotations

from collections.abc import Sequence

from embodied.planning.checks import MOVES, relation_of
from embodied.planning.places import find, label
from embodied.types import PlanFailure, PlanStep, SceneDescription

SURE = 0.5
Unit = tuple[PlanStep, ...]
"""Steps that belong together: picking a thing up, and all until it is put down."""


def workable(steps: Sequence[PlanStep], scene: SceneDescription) -> tuple[PlanStep, ...] | PlanFailure:
    """The same steps in an order in which each can be done, with steps added that uncover things.

    A step that would move what an earlier step has covered comes before that one; what lies on a thing from the
    beginning goes where a later step puts it, else to a free spot on what carries the pile. The order that was
    asked for is kept wherever it can be.

    Returns:
        `PlanFailure` `impossible`: what would have to be taken away is to be left alone, or nothing is known that it
        could be put on.
    """
    units = _units(steps)
    for _ in range((len(units) + len(scene.objects)) ** 2):
        changed = _first_change(units, scene)
        if changed is None or isinstance(changed, PlanFailure):
            return changed if changed is not None else tuple(step for unit in units for step in unit)
        units = changed
    return PlanFailure("impossible", "the steps stand in each other's way in any order; ask for fewer at a time")


def _units(steps: Sequence[PlanStep]) -> list[Unit]:
    units: list[list[PlanStep]] = []
    held: str | None = None
    for step in steps:
        if held is not None and units:
            units[-1].append(step)
        else:
            units.append([step])
        if step.skill == "pick":
            held = step.args[0]
        elif step.skill in ("place", "stack") and step.args[0] == held:
            held = None
    return [tuple(unit) for unit in units]


def _first_change(units: list[Unit], scene: SceneDescription) -> list[Unit] | PlanFailure | None:
    """The units with the first obstacle out of the way; None where there is none."""
    lies_on = _piles(scene)
    put_by: dict[str, int] = {}
    for index, unit in enumerate(units):
        for thing in _needed_clear(unit, scene):
            above = [other for other, below in lies_on.items() if below == thing and other not in _movers(unit)]
            if above:
                return _uncovered(units, index, above[0], put_by.get(above[0]), scene)
        for step in unit:
            if step.skill in MOVES:
                relation = relation_of(step, scene)
                on_thing = relation is not None and relation[0] == "on" and _is_object(relation[1], scene)
                lies_on.pop(step.args[0], None)
                put_by[step.args[0]] = index
                if relation is not None and on_thing:
                    lies_on[step.args[0]] = relation[1]
    return None


def _uncovered(
    units: list[Unit], index: int, above: str, put_by: int | None, scene: SceneDescription
) -> list[Unit] | PlanFailure:
    """The units such that `above` does not lie on what unit `index` needs."""
    changed = list(units)
    if put_by is not None:
        changed.insert(index, changed.pop(put_by))
        return changed
    avoided = {thing for unit in units for step in unit for thing in step.avoid}
    if above in avoided:
        item = find(scene, above)
        told = above if item is None else label(item)
        return PlanFailure("impossible", f"the {told} lies on what is to be moved, and is to be left alone")
    for later in range(index + 1, len(units)):
        if above in _movers(units[later]) and not set(_needed_clear(units[later], scene)) & _movers(units[index]):
            changed.insert(index, changed.pop(later))
            return changed
    support = _support(above, scene)
    if support is None:
        return PlanFailure("impossible", f"{above} lies on what is to be moved, and there is nothing to put it on")
    changed.insert(index, (PlanStep("place", (above, f"on:{support}"), avoid=units[index][0].avoid),))
    return changed


def _needed_clear(unit: Unit, scene: SceneDescription) -> list[str]:
    """Things that nothing may lie on when the unit is done."""
    needed: list[str] = []
    for step in unit:
        if step.skill in MOVES:
            needed.append(step.args[0])
            relation = relation_of(step, scene)
            if relation is not None and relation[0] == "on" and _is_object(relation[1], scene):
                needed.append(relation[1])
    return list(dict.fromkeys(needed))


def _movers(unit: Unit) -> set[str]:
    return {step.args[0] for step in unit if step.skill in MOVES}


def _is_object(thing: str, scene: SceneDescription) -> bool:
    item = find(scene, thing)
    return item is not None and item.role == "object"


def _piles(scene: SceneDescription) -> dict[str, str]:
    """For each object that lies on another object, that one."""
    known = (f.predicate for f in scene.facts if f.predicate.name == "on" and f.probability >= SURE)
    return {p.args[0]: p.args[1] for p in known if not p.negated and all(_is_object(arg, scene) for arg in p.args)}


def _support(thing: str, scene: SceneDescription) -> str | None:
    """What carries the pile that a thing lies on: a fixed thing with a flat top, else a zone."""
    piles, below = _piles(scene), thing
    for _ in piles:
        below = piles.get(below, below)
    for name in ("on", "in"):
        for fact in scene.facts:
            if fact.predicate.name == name and fact.predicate.args[0] == below and fact.probability >= SURE:
                item = find(scene, fact.predicate.args[1])
                if item is not None and item.role == "landmark":
                    return item.id
    tables = [item.id for item in scene.objects if item.role == "landmark" and item.kind == "table"]
    return tables[0] if tables else None
