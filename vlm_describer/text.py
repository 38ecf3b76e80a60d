"""A description in words: short, deterministic, safe to print and to show to a language model.

Names come from scene files that anybody may have written, so they are quoted, escaped and cut.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence

import numpy as np

from embodied.types import BaseFrame, DescribedObject, Fact

NAME_LIMIT = 40
FACT_LIMIT = 40
_MAIN = ("holding", "in", "on", "touching", "at", "near")
_SYMMETRIC = ("near", "touching")
_SIDES = {"left_of": ("left_of", False), "right_of": ("left_of", True)} | {
    "in_front_of": ("in_front_of", False),
    "behind": ("in_front_of", True),
}
"""Which of two names a side is told by, and whether its things change places then: both say the same."""
_SCENE = "scene"
_ARTICLE_VOWELS = "aeiou"
_UNNAMED = ("thing or part of a thing", "things or parts of things")
"""One of them and more: what is seen as one may be a part of something larger."""


def safe_name(name: str) -> str:
    """The name as a quoted ASCII string on one line, cut to 40 characters."""
    cut = name if len(name) <= NAME_LIMIT else name[:NAME_LIMIT] + "..."
    return json.dumps(cut)


def phrases(objects: Sequence[DescribedObject]) -> dict[str, str]:
    """Each id's phrase: `red block`, with the id where two things would be called the same: `orange block (obj0)`."""
    count = Counter(item.phrase for item in objects)
    return {item.id: item.phrase if count[item.phrase] == 1 else f"{item.phrase} ({item.id})" for item in objects}


def caption(objects: Sequence[DescribedObject], facts: Sequence[Fact]) -> str:
    """One sentence: what there is, and what is on, in or held by what."""
    names = phrases([item for item in objects if not nameless(item)])
    unnamed = len(objects) - len(names)
    objects = [item for item in objects if item.id in names]
    movable = [item for item in objects if item.role == "object"]
    fixed = [item for item in objects if item.role in ("zone", "landmark")]
    counted = f"{unnamed} {_UNNAMED[unnamed > 1]} of no known kind" if unnamed else ""
    if not movable and not fixed:
        return f"There {_be(unnamed)} {counted}." if unnamed else "There is nothing here that can be named."
    sentence = f"There {_be(len(movable or fixed))} " + _listing([names[o.id] for o in movable or fixed])
    if movable and fixed:
        sentence += ", and fixed in place " + _listing([names[o.id] for o in fixed])
    sentence += f", and besides {counted}" if unnamed else ""
    told = [
        _clause(fact, names) for fact in facts if fact.predicate.name in ("holding", "in") and fact.probability >= 0.5
    ]
    return sentence + (f"; {_joined(told)}" if told else "") + "."


def nameless(item: DescribedObject) -> bool:
    """Whether neither its kind nor its colour nor a name is known."""
    return item.phrase == "thing" and item.name is None


def unnamed_phrase(ids: Sequence[str]) -> list[str]:
    """What is not known of things to which no name fits: one phrase, or none."""
    if not ids:
        return []
    many = len(ids) > 1
    return [f"what {len(ids)} {_UNNAMED[many]} {'are' if many else 'is'} ({', '.join(ids)})"]


def inventory_line(item: DescribedObject, base: BaseFrame, world: bool) -> str:
    """One thing: phrase, id, role, name where it says more than the id, where it is, how large, how sure.

    Of a thing that is called nothing more than a thing, neither role nor size is known.
    """
    place = np.asarray(item.position_m)
    x, y, z = (float(v) + 0.0 for v in (base.to_base(place) if world else place))
    if nameless(item):
        sure = f"[confidence {item.confidence:.2f}]"
        return f"- {item.phrase} ({item.id}): seen at x {x:.3f}, y {y:.3f}, z {z:.3f} {sure}"
    size = " x ".join(f"{2 * e:.3f}" for e in item.half_extents_m)
    named = f", named {safe_name(item.name)}" if item.name is not None and item.name != item.id else ""
    return (
        f"- {item.phrase} ({item.id}), {item.role}{named}: x {x:.3f}, y {y:.3f}, z {z:.3f}; size {size}"
        f" [confidence {item.confidence:.2f}]"
    )


def main_facts(facts: Sequence[Fact]) -> list[Fact]:
    """The facts that a caption or a film tells; of two that say the same (`near(a, b)`, `near(b, a)`) the first."""
    told, seen = [], set()
    for fact in facts:
        name, args = fact.predicate.name, fact.predicate.args
        same = (name, frozenset(args) if name in _SYMMETRIC else args)
        if name in _MAIN and same not in seen:
            seen.add(same)
            told.append(fact)
    return told


def other_facts(facts: Sequence[Fact]) -> list[Fact]:
    """The facts that a text tells one by one besides: those of other predicates, and denied sides and scenes."""
    grouped = (*_SIDES, _SCENE)
    others = [fact for fact in facts if fact.predicate.name not in _MAIN]
    return [fact for fact in others if fact.predicate.negated or fact.predicate.name not in grouped]


def side_lines(facts: Sequence[Fact]) -> list[str]:
    """A line for each thing and side, with all that it has on that side: `a left_of b, c`. Of two facts that say the
    same (`left_of(a, b)`, `right_of(b, a)`) the first counts."""
    rows: dict[tuple[str, str, str], list[tuple[str, float]]] = {}
    seen = set()
    for fact in facts:
        if fact.predicate.name not in _SIDES or fact.predicate.negated:
            continue
        name, turned = _SIDES[fact.predicate.name]
        a, b = reversed(fact.predicate.args) if turned else fact.predicate.args
        if (name, a, b) not in seen:
            seen.add((name, a, b))
            rows.setdefault((a, name, fact.source), []).append((b, fact.probability))
    return [
        f"- {a} {name} {', '.join(b for b, _ in others)} [{source} {_least(others)}]"
        for (a, name, source), others in rows.items()
    ]


def _least(others: Sequence[tuple[str, float]]) -> str:
    """The probability of one, of several the least."""
    least = min(chance for _, chance in others)
    return f"{least:.2f}" if len(others) == 1 else f"{least:.2f} or more each"


def scene_line(fact: Fact) -> str:
    """The kind of scene with its source and probability."""
    return f"Scene: {fact.predicate.args[0]} [{fact.source} {fact.probability:.2f}]"


def fact_line(fact: Fact) -> str:
    """One fact with its source and probability."""
    return f"- {fact.predicate} [{fact.source} {fact.probability:.2f}]"


def full_text(
    objects: Sequence[DescribedObject], facts: Sequence[Fact], unknown: Sequence[str], base: BaseFrame, world: bool
) -> str:
    """The whole description: the kind of scene, an inventory, facts (at most 40 lines; sides last, one line for each
    thing and side), and what is not known.

    The caption is no part of it: it says things without their sources.
    """
    axes = (
        "centres and the boxes round them in metres along the robot's axes (x forward, y left, z up)"
        if world
        else "centres in metres along the camera's axes (x right, y down, z forward), boxes along level ones"
    )
    lines = [scene_line(fact) for fact in facts if fact.predicate.name == _SCENE and not fact.predicate.negated]
    lines.append(f"Things, {axes}:")
    lines += [inventory_line(item, base, world) for item in objects] or ["- none"]
    told = [fact_line(fact) for fact in (*main_facts(facts), *other_facts(facts))] + side_lines(facts)
    lines.append("Facts:")
    lines += told[:FACT_LIMIT] or ["- none is known"]
    if len(told) > FACT_LIMIT:
        lines.append(f"- and {len(told) - FACT_LIMIT} lines more")
    if unknown:
        lines.append("Not known: " + "; ".join(unknown))
    return "\n".join(lines)


def _clause(fact: Fact, names: dict[str, str]) -> str:
    args = [names.get(arg, arg) for arg in fact.predicate.args]
    if fact.predicate.name == "holding":
        return f"the gripper holds the {args[0]}"
    return f"the {args[0]} is {fact.predicate.name} the {args[1]}"


def _be(count: int) -> str:
    return "is" if count == 1 else "are"


def _listing(names: Sequence[str]) -> str:
    return _joined([f"{'an' if name[0] in _ARTICLE_VOWELS else 'a'} {name}" for name in names])


def _joined(parts: Sequence[str]) -> str:
    return parts[0] if len(parts) == 1 else ", ".join(parts[:-1]) + " and " + parts[-1]
