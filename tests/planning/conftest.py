"""Descriptions of the three shipped scenes, written by hand: planning is tested without a simulator."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest

from embodied.types import BaseFrame, DescribedObject, Fact, Predicate, SceneDescription


def thing(
    ident: str, role: str, kind: str, colour: str, at: tuple[float, float, float], half: tuple[float, float, float]
) -> DescribedObject:
    return DescribedObject(ident, role, kind, colour, at, half, 1.0, ident)


def scene_of(
    *objects: DescribedObject, base: BaseFrame | None = None, facts: tuple[Predicate, ...] = ()
) -> SceneDescription:
    known = tuple(Fact(predicate, 1.0, "oracle") for predicate in facts)
    return SceneDescription(objects, known, (), "", "", "world", base or BaseFrame())


@pytest.fixture
def make_thing() -> Callable[..., DescribedObject]:
    return thing


@pytest.fixture
def make_scene() -> Callable[..., SceneDescription]:
    return scene_of


@pytest.fixture
def blocks() -> SceneDescription:
    """tabletop_blocks: B is the world."""
    small = (0.025, 0.025, 0.025)
    on = tuple(Predicate("on", (f"{c}_block", "table")) for c in ("red", "green", "blue"))
    return scene_of(
        thing("table", "landmark", "table", "brown", (1.30, 0.75, 0.20), (0.25, 0.35, 0.20)),
        thing("left_tray", "zone", "tray", "white", (1.30, 0.98, 0.401), (0.07, 0.07, 0.002)),
        thing("right_tray", "zone", "tray", "black", (1.30, 0.52, 0.401), (0.07, 0.07, 0.002)),
        thing("red_block", "object", "block", "red", (1.22, 0.75, 0.425), small),
        thing("green_block", "object", "block", "green", (1.38, 0.68, 0.425), small),
        thing("blue_block", "object", "block", "blue", (1.38, 0.83, 0.425), small),
        facts=on,
    )


@pytest.fixture
def desk() -> SceneDescription:
    """desk_unnamed: the base stands at (-0.495, -0.354, 0.32), turned by 35 degrees."""
    yaw = math.radians(35)
    c, s = math.cos(yaw), math.sin(yaw)
    shift = (0.6918, 0.7441, 0.0)
    origin = (-0.495 - (c * shift[0] - s * shift[1]), -0.354 - (s * shift[0] + c * shift[1]), 0.32)
    turned = 0.025 * (c + s)
    return scene_of(
        thing("b0", "landmark", "table", "white", (0.0, 0.0, 0.36), (0.30, 0.40, 0.36)),
        thing("z0", "zone", "disc", "yellow", (0.10, 0.20, 0.721), (0.08, 0.08, 0.001)),
        thing("z1", "zone", "disc", "purple", (-0.14, -0.12, 0.721), (0.08, 0.08, 0.001)),
        thing("obj0", "object", "block", "orange", (0.02, -0.02, 0.745), (turned, turned, 0.025)),
        thing("obj1", "object", "cylinder", "teal", (0.16, -0.06, 0.745), (0.024, 0.024, 0.025)),
        thing("obj2", "object", "block", "orange", (-0.08, 0.16, 0.745), (turned, turned, 0.025)),
        thing("obj3", "object", "block", "blue", (-0.16, 0.04, 0.742), (turned * 0.88, turned * 0.88, 0.022)),
        base=BaseFrame(origin, yaw),
    )


@pytest.fixture
def rooms() -> SceneDescription:
    """rooms: B at the site `start`."""
    tall = (0.35, 0.35, 0.6)
    return scene_of(
        thing("red_pillar", "landmark", "pillar", "red", (5.5, 5.5, 0.6), tall),
        thing("green_pillar", "landmark", "pillar", "green", (-5.5, 5.5, 0.6), tall),
        thing("blue_pillar", "landmark", "pillar", "blue", (-5.5, -5.5, 0.6), tall),
        thing("yellow_pillar", "landmark", "pillar", "yellow", (5.5, -5.5, 0.6), tall),
        thing("start", "place", "place", "unknown", (-3.5, -3.0, 0.1), (0.2, 0.2, 0.2)),
        base=BaseFrame((-3.5, -3.0, 0.1), 0.0),
    )


@pytest.fixture
def scenes(blocks: SceneDescription, desk: SceneDescription, rooms: SceneDescription) -> dict[str, SceneDescription]:
    return {"tabletop_blocks": blocks, "desk_unnamed": desk, "rooms": rooms}
