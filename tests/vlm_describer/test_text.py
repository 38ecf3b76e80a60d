"""A description in words: everything that is known, each with its source, and nothing twice."""

from __future__ import annotations

from dataclasses import replace

from embodied.types import BaseFrame, DescribedObject, Fact, Predicate
from vlm_describer.describer import make_description
from vlm_describer.text import FACT_LIMIT, side_lines

SIDES = ("left_of", "right_of", "in_front_of", "behind")


def fact(name: str, *args: str, chance: float = 0.9, source: str = "locate", negated: bool = False) -> Fact:
    return Fact(Predicate(name, args, negated), chance, source)


THINGS = tuple(
    DescribedObject(name, "object", "block", "red", (0.1 * k, 0.0, 0.02), (0.03, 0.02, 0.02), 0.8)
    for k, name in enumerate("abc")
)


def told(*facts: Fact, unknown: tuple[str, ...] = ()) -> list[str]:
    return make_description(THINGS, facts, unknown).text.splitlines()


def test_scene_things_facts_and_sides_are_told_with_source_and_confidence() -> None:
    lines = told(
        fact("scene", "table", chance=0.97, source="clip"),
        fact("near", "a", "b", chance=0.95),
        fact("left_of", "a", "b", chance=0.99),
        fact("left_of", "a", "c", chance=0.91),
        fact("behind", "c", "a", chance=0.93),
        fact("leaning_on", "a", "b", source="clip"),
        unknown=("whether holding(a)",),
    )
    assert lines[0] == "Scene: table [clip 0.97]"
    assert lines[6:] == [
        "- near(a, b) [locate 0.95]",
        "- leaning_on(a, b) [clip 0.90]",
        "- a left_of b, c [locate 0.91 or more each]",
        "- a in_front_of c [locate 0.93]",
        "Not known: whether holding(a)",
    ]


def test_of_two_sides_that_say_the_same_one_is_told() -> None:
    pairs = [("left_of", "right_of"), ("in_front_of", "behind")]
    for name, other in pairs:
        both = side_lines([fact(name, "a", "b", chance=0.8), fact(other, "b", "a", chance=0.9)])
        assert both == [f"- a {name} b [locate 0.80]"]
        assert side_lines([fact(other, "b", "a", chance=0.9)]) == [f"- a {name} b [locate 0.90]"]


def test_denied_sides_and_other_sources_are_kept_apart() -> None:
    lines = told(fact("left_of", "a", "b", source="one"), fact("left_of", "a", "c", source="two"))
    assert lines[-2:] == ["- a left_of b [one 0.90]", "- a left_of c [two 0.90]"]
    assert told(fact("left_of", "a", "b", negated=True))[-1] == "- not left_of(a, b) [locate 0.90]"


def test_a_crowd_has_as_many_lines_as_there_is_room() -> None:
    names = [f"t{k}" for k in range(40)]
    sides = [fact("left_of", a, b) for i, a in enumerate(names) for b in names[i + 1 :]]
    near = [fact("near", a, b) for a, b in zip(names, names[1:], strict=False)]
    lines = told(*sides, *near)
    listed = lines[lines.index("Facts:") + 1 :]
    assert len(listed) == FACT_LIMIT + 1
    # 39 facts that stand alone and 39 lines of sides, one for each thing but the last.
    assert listed[-1] == f"- and {2 * 39 - FACT_LIMIT} lines more"


def test_axes_of_places_and_boxes_are_named() -> None:
    assert "boxes round them in metres along the robot's axes (x forward" in told()[0]
    camera = make_description([replace(THINGS[0])], [], frame="camera", base=BaseFrame()).text.splitlines()[0]
    assert "camera's axes (x right, y down, z forward), boxes along level ones" in camera
