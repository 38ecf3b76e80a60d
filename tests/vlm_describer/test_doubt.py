"""What geometry calls by no name, and how a description speaks of it."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from embodied.types import BaseFrame, DescribedObject, Frame, SceneDescription
from vlm_describer.doubt import doubtful, fits, strange
from vlm_describer.located import Item, Located, Surface
from vlm_describer.naming import GeometryNamer, Names
from vlm_describer.seeing import SeeingDescriber
from vlm_describer.text import caption, full_text

sys.path.insert(0, str(Path(__file__).parent))
from test_relations import thing

GROUND = Surface(
    "surface0", "work", (0.0, 0.0, 0.0), (0.0, 0.0, 0.0), (1.0, 1.0, 0.0), 0.0, np.zeros((0, 2)), (0.0, 0.0, 0.0),
    (0.5, 0.5, 0.5), np.zeros((2, 2), bool), 0.001,
)  # fmt: skip


def cube(ident: str, x: float, y: float = 0.0, z: float = 0.03, **more: Any) -> Item:
    return thing(ident, (x, y, z), **{"pixels": 200, **more})


def box(ident: str, x: float, size: tuple[float, float, float], **more: Any) -> Item:
    half = (size[0] / 2, size[1] / 2, size[2] / 2)
    return cube(ident, x, z=half[2], size_m=size, half_extents_m=half, **more)


def scene(*items: Item, map_view: bool = False) -> Located:
    return Located(items, (GROUND,), "world", BaseFrame(), map_view=map_view)


PLAIN = (cube("a", 0.0), cube("b", 0.3), cube("c", 0.6), cube("d", 0.9))


def all_strange(located: Located) -> bool:
    return strange(located, doubtful(located))


@pytest.mark.parametrize(
    "odd",
    [
        box("x", -0.6, (0.5, 0.2, 0.2)),
        box("x", -0.6, (0.2, 0.001, 0.1)),
        box("x", -0.6, (0.29, 0.01, 0.1)),
        cube("x", -0.6, cut=True),
        cube("x", -0.6, pixels=8),
        cube("x", -0.6, covariance_m2=np.eye(3) * 0.08**2),
        cube("x", -0.6, z=0.4, rests_on=None),
        cube("x", -0.6, flat=True, rests_on="a"),
    ],
    ids=["large", "thin", "slender", "cut", "tiny", "unsure", "hanging", "flat on a thing"],
)
def test_what_is_odd_by_itself_is_doubted_alone(odd: Item) -> None:
    assert doubtful(scene(*PLAIN, odd)) == {"x"}
    assert not all_strange(scene(*PLAIN, odd))


def test_plain_things_piles_and_what_a_robot_holds_are_not_doubted() -> None:
    pile = (cube("p", -0.3), cube("q", -0.3, z=0.09, rests_on="p"), cube("r", -0.24))
    robot = box("robot", 1.5, (0.6, 0.6, 1.0), role_hint="robot-like", rests_on=None)
    held = cube("held", 1.16, z=0.4, rests_on=None)
    assert not doubtful(scene(*PLAIN, *pile, robot, held))
    assert doubtful(scene(*PLAIN, robot, held, replace(held, id="more"))) == {"held", "more"}


def test_what_hangs_together_is_doubted_together() -> None:
    tower = [cube(f"t{k}", -0.5, z=0.03 + 0.06 * k, rests_on=f"t{k - 1}" if k else "surface0") for k in range(4)]
    assert doubtful(scene(*PLAIN, cube("e", 1.2), *tower)) == {"t0", "t1", "t2", "t3"}
    bridge = [cube("left", -0.5), cube("span", -0.44, z=0.09, rests_on=None)]
    assert doubtful(scene(*PLAIN, *bridge)) == {"left", "span"}


def test_where_most_is_odd_everything_is() -> None:
    odd = [cube(f"x{k}", -0.3 * k - 0.6, cut=True) for k in range(5)]
    assert all_strange(scene(*PLAIN, *odd))
    assert not all_strange(scene(*PLAIN, *odd[:2]))
    assert not all_strange(scene())


def test_walls_belong_to_maps() -> None:
    wall = box("w", -3.0, (5.0, 0.1, 0.5), role_hint="wall-like", cut=True)
    assert not doubtful(scene(*PLAIN, wall, map_view=True))
    assert doubtful(scene(*PLAIN, wall)) == {"w"}
    leg = box("leg", -3.0, (0.6, 0.1, 0.1), role_hint="wall-like", rests_on=None)
    leg = replace(leg, center_b_m=(-3.0, 0.0, 0.8))
    assert doubtful(scene(*PLAIN, leg, map_view=True)) == {"leg"}
    assert fits("wall", True)
    assert not fits("wall", False)
    assert fits("block", False)


def test_what_lies_or_stands_close_on_a_map_is_not_doubted() -> None:
    disc = box("disc", -0.6, (0.6, 0.6, 0.01))
    pair = box("p", -2.0, (0.4, 0.4, 0.9)), box("q", -2.4, (0.4, 0.4, 0.9))
    assert not doubtful(scene(*PLAIN, disc, *pair, map_view=True))
    assert doubtful(scene(*PLAIN, disc, *pair)) == {"disc", "p", "q"}


def test_without_a_surface_nothing_can_be_said_to_hang() -> None:
    assert not doubtful(replace(scene(cube("x", 0.0, rests_on=None)), surfaces=()))


class Shows:
    """A looker that finds what it was given, and names it as geometry does."""

    identity = "shows"

    def __init__(self, located: Located) -> None:
        self._located = located

    def look(self, frame: Frame, base: BaseFrame | None) -> tuple[Located, Names]:
        return self._located, GeometryNamer().names(frame, self._located)


def test_doubted_things_are_counted_and_placed_and_not_related() -> None:
    points = np.array([[-0.6, 0.0, 0.1], [-0.6, 0.0, 0.3]], np.float32)
    odd = [cube("x", -0.6, cut=True, points_m=points), cube("y", -0.9, pixels=8)]
    frame = Frame(np.full((2, 2, 3), (200, 40, 40), np.uint8), "test", 0.0)
    found: SceneDescription = SeeingDescriber("clip", Shows(scene(*PLAIN, *odd))).describe((frame,))
    assert "and besides 2 things or parts of things of no known kind" in found.caption
    assert "what 2 things or parts of things are (x, y)" in found.unknown
    assert found.object("x").phrase == "thing"
    assert found.object("x").position_m == pytest.approx((-0.6, 0.0, 0.2))
    assert "thing (x): seen at x -0.600, y 0.000, z 0.200 [" in found.text
    assert found.facts
    assert not [fact for fact in found.facts if {"x", "y"} & set(fact.predicate.args)]
    assert not [text for text in found.unknown if text.startswith("whether") and "x" in text.split("(")[1]]


def test_a_caption_of_nameless_things_counts_them() -> None:
    one = DescribedObject("a", "object", "thing", "unknown", (0.0, 0.0, 0.0), (0.0, 0.0, 0.0), 0.5)
    assert caption([one], []) == "There is 1 thing or part of a thing of no known kind."
    assert caption([one, replace(one, id="b")], []) == "There are 2 things or parts of things of no known kind."
    assert caption([], []) == "There is nothing here that can be named."
    assert "size" not in full_text([one], [], [], BaseFrame(), True).splitlines()[1]
