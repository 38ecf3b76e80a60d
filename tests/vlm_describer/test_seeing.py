"""What a describer makes of a look: what is held, what has no name, what is too dark to have a colour."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from embodied.colours import COLOURS
from embodied.types import BaseFrame, Frame, SceneDescription
from vlm_describer.examples import KINDS, SCENES, SIZES
from vlm_describer.located import COLOUR_STATISTICS, Item, Located
from vlm_describer.naming import Names
from vlm_describer.seeing import LIT, SHADED, SeeingDescriber

sys.path.insert(0, str(Path(__file__).parent))
from test_doubt import GROUND, cube, scene

FRAME = Frame(np.full((2, 2, 3), (200, 40, 40), np.uint8), "test", 0.0)
GREY_FRAME = Frame(np.full((2, 2, 3), (90, 92, 95), np.uint8), "test", 0.0)
ROBOT = cube("robot", 1.5, z=0.5, role_hint="robot-like", half_extents_m=(0.3, 0.3, 0.5), rests_on=None)


class Calls:
    """A looker that finds what it was given and calls each thing by a word."""

    identity = "calls"

    def __init__(self, located: Located, *kinds: str) -> None:
        self._located, self._kinds = located, kinds

    def look(self, frame: Frame, base: BaseFrame | None) -> tuple[Located, Names]:
        kinds, colours = np.zeros((len(self._kinds), len(KINDS))), np.zeros((len(self._kinds), len(COLOURS)))
        for row, kind in enumerate(self._kinds):
            kinds[row, KINDS.index(kind)] = 9.0
        colours[:, COLOURS.index("black")] = 9.0
        scenes = np.where(np.array(SCENES) == "table", 9.0, 0.0)
        found = {"kinds": kinds, "colours": colours, "sizes": np.zeros((len(self._kinds), len(SIZES)))}
        return self._located, Names({group: np.float32(v) for group, v in found.items()}, np.float32(scenes))


def described(located: Located, *kinds: str, frame: Frame = FRAME) -> SceneDescription:
    return SeeingDescriber("clip", Calls(located, *kinds)).describe((frame,))


def holding(found: SceneDescription) -> set[str]:
    return {fact.predicate.args[0] for fact in found.facts if fact.predicate.name == "holding"}


def test_what_hangs_at_a_robot_is_held_and_what_stands_there_is_not() -> None:
    hangs, stands = cube("hangs", 1.16, z=0.4, rests_on=None), cube("stands", 1.1)
    found = described(scene(stands, hangs, ROBOT), "block", "block", "robot")
    assert holding(found) == {"hangs"}
    assert "holding(hangs) [locate" in found.text
    assert not [phrase for phrase in found.unknown if "holding" in phrase]


def test_where_no_surface_is_known_nobody_knows_what_hangs() -> None:
    found = described(replace(scene(cube("a", 0.0, rests_on=None)), surfaces=()), "block")
    assert not holding(found)
    assert "whether holding(a)" in found.unknown


def test_nothing_is_held_on_a_map() -> None:
    found = described(scene(cube("a", 0.0, rests_on=None), map_view=True), "pillar")
    assert not holding(found)
    assert not [phrase for phrase in found.unknown if "holding" in phrase]


def test_what_surely_stands_there_does_not_vanish_where_it_has_no_name() -> None:
    found = described(scene(cube("a", 0.0), cube("b", 0.4), ROBOT), "nothing", "block", "robot")
    assert [item.phrase for item in found.objects] == ["thing", "black block"]
    assert "what 1 thing or part of a thing is (a)" in found.unknown
    assert "besides 1 thing or part of a thing of no known kind" in found.caption
    assert not [fact for fact in found.facts if "a" in fact.predicate.args]


@pytest.mark.parametrize(
    "more",
    [
        {"flat": True},
        {"cut": True},
        {"occluded": True},
        {"pixels": 30},
        {"size_m": (0.1, 0.1, 0.02)},
        {"rests_on": None},
        {"center_b_m": (1.2, 0.0, 0.03)},
    ],
    ids=lambda more: next(iter(more)),
)
def test_what_may_be_a_shadow_a_piece_or_a_part_of_a_robot_is_still_nothing(more: dict[str, Any]) -> None:
    found = described(scene(cube("a", 0.0, **more), cube("b", 0.4), ROBOT), "nothing", "block", "robot")
    assert [item.id for item in found.objects] == ["b"]


def shaded(item: Item, own: float, beneath: float) -> Item:
    features = np.zeros(len(COLOUR_STATISTICS), np.float32)
    features[[COLOUR_STATISTICS.index(f"surface_{c}") for c in "rgb"]] = beneath
    return replace(item, colour=(own, own, own), colour_features=features)


def test_without_light_there_is_no_colour_and_no_scene() -> None:
    surface = replace(GROUND, colour=(LIT - 0.01,) * 3)
    located = Located((shaded(cube("a", 0.0), 0.01, 0.1),), (surface,), "world", BaseFrame())
    found = described(located, "block")
    assert [item.phrase for item in found.objects] == ["block"]
    assert found.unknown[:2] == ("any colour: there is hardly any light in the picture", "what kind of scene this is")
    assert "Scene:" not in found.text
    lit = described(replace(located, surfaces=(replace(GROUND, colour=(LIT,) * 3),)), "block")
    assert [item.phrase for item in lit.objects] == ["black block"]
    assert lit.unknown == ()


def test_a_grey_picture_names_no_colour_and_no_scene() -> None:
    located = scene(cube("a", 0.0))
    found = described(located, "block", frame=GREY_FRAME)
    assert [item.phrase for item in found.objects] == ["block"]
    assert found.unknown[:2] == ("any colour: the picture is grey all over", "what kind of scene this is")
    assert [item.phrase for item in described(located, "block").objects] == ["black block"]


def test_in_a_dark_corner_of_a_lit_picture_a_thing_has_no_colour() -> None:
    dark = SHADED - 0.01
    black = shaded(cube("a", 0.0), dark, 0.5)
    hidden = shaded(cube("b", 0.4), dark, dark)
    found = described(scene(black, hidden), "block", "block")
    assert [item.phrase for item in found.objects] == ["black block", "block"]
    assert found.unknown == ("the colour of b",)
