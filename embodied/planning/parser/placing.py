"""Where things are put, and what is meant by phrases that leave something open."""

from __future__ import annotations

import contextlib
from dataclasses import replace

from embodied.planning.parser.lookup import Lookup, Things
from embodied.planning.parser.program import Clause, Program
from embodied.planning.parser.steps import Act
from embodied.planning.places import label
from embodied.planning.words import Refused
from embodied.types import DescribedObject

_SIDES = {"left": "left_of", "right": "right_of", "front": "in_front_of", "behind": "behind", "near": "near"}


def place_of(relation: str, ground: DescribedObject, pushed: bool) -> tuple[str, str]:
    """Skill and place for a relation: a zone holds things, an object is stacked on, sides are written out."""
    skill = "push" if pushed else "place"
    if relation in ("in", "on", "to") and ground.role in ("zone", "place"):
        return skill, ground.id
    if relation == "on" and ground.role == "object":
        if ground.kind == "ball":
            raise Refused("impossible", f"nothing stays on the {label(ground)}")
        return "stack", ground.id
    if relation in ("on", "to") and ground.role == "landmark":
        return "place", ground.id
    if relation == "in":
        raise Refused("impossible", f"nothing can be put in the {label(ground)}")
    return skill, f"{_SIDES.get(relation, 'near')}:{ground.id}"


def between(moved: Things, grounds: Things) -> list[Act]:
    """One thing midway between two others."""
    if len(grounds) != 2 or len(moved) != 1:
        raise Refused("unparsable", "between takes one thing to move and two that it comes between")
    a, b = (item.position_m for item in grounds)
    z = grounds[0].position_m[2] - grounds[0].half_extents_m[2] + moved[0].half_extents_m[2]
    return [Act("place", (moved[0].id, f"{(a[0] + b[0]) / 2:.4f},{(a[1] + b[1]) / 2:.4f},{z:.4f}"))]


def told_by_name(program: Program, lookup: Lookup) -> list[str]:
    """Ids of what any clause moves or touches by name: `the others` that come before it do not mean these."""
    fresh, found = lookup.fresh(), list[str]()
    for d in (d for clause in program.clauses for d in clause.themes):
        if not (d.other or d.pronoun or d.any or d.all):
            with contextlib.suppress(Refused):
                found += [item.id for item in fresh.find(d, "touched")]
    return found


def twins(clause: Clause, lookup: Lookup) -> Things | None:
    """`the orange one on the orange one`, where there are two: which is which is left open."""
    if clause.relation in ("in", "to", "between") or len(clause.themes) != 1 or len(clause.grounds) != 1:
        return None
    told = (*clause.themes, *clause.grounds)
    if any(d.several or d.any or d.other or d.pronoun or not d.colours for d in told):
        return None
    fresh = lookup.fresh()
    with contextlib.suppress(Refused):
        first, second = (fresh.find(replace(d, all=True), "moved") for d in told)
        if len(first) == 2 and first == second and all(item.role == "object" for item in first):
            lookup.mentioned += [item.id for item in first]
            return first
    return None
