"""Relations: probabilities in closed form against drawn positions, and facts against the truth of rendered scenes."""

from __future__ import annotations

import sys
from collections import defaultdict
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from embodied.types import BaseFrame, Predicate
from vlm_describer.calibration import Calibration
from vlm_describer.locate import locate
from vlm_describer.located import SHAPES, Item, Located
from vlm_describer.relations import (
    gap_between,
    geometric_kind,
    p_at,
    p_behind,
    p_in,
    p_in_front_of,
    p_left_of,
    p_near,
    p_on,
    p_right_of,
    p_touching,
    questions,
)
from vlm_describer.seeing import Named, related

sys.path.insert(0, str(Path(__file__).parent))
from located_truth import match, shots_of, table_scenes, true_facts

NAMES = ("in", "on", "touching", "near", "left_of", "right_of", "in_front_of", "behind", "holding")


def thing(ident: str, at: tuple[float, float, float], sigma: float = 0.004, **more: Any) -> Item:
    """A 6 cm cube-like thing whose centre has the same deviation along each axis."""
    scores = {**dict.fromkeys(SHAPES, 0.0), "box": 0.9, "other": 0.05}
    values: dict[str, Any] = {
        "mask": np.ones((2, 2), bool), "box_px": (0, 0, 1, 1), "pixels": 4, "colour": (0.5, 0.5, 0.5),
        "colour_features": np.zeros(16, np.float32), "points_m": np.zeros((1, 3), np.float32), "position_m": at,
        "center_b_m": at, "half_extents_m": (0.03, 0.03, 0.03), "yaw_rad": 0.0, "size_m": (0.06, 0.06, 0.06),
        "covariance_m2": np.eye(3) * sigma**2, "shape": "box", "shape_scores": scores, "flat": False, "cut": False,
        "occluded": False, "rests_on": "surface0", "role_hint": "thing", "confidence": 1.0, **more,
    }  # fmt: skip
    return Item(id=ident, **values)


def zone(ident: str, at: tuple[float, float, float], half: float = 0.07, shape: str = "box") -> Item:
    extents, size = (half, half, 0.002), (2 * half, 2 * half, 0.004)
    return thing(ident, at, half_extents_m=extents, size_m=size, flat=True, role_hint="zone", shape=shape)


def located(*items: Item, map_view: bool = False) -> Located:
    return Located(items, (), "world", BaseFrame(), map_view=map_view)


def test_sides_are_the_normal_law_of_the_difference() -> None:
    a, b = thing("a", (0.50, 0.03, 0.0), 0.003), thing("b", (0.46, 0.0, 0.0), 0.004)
    # y: 0.030 - 0.020 = 0.010 over sqrt(0.003^2 + 0.004^2) = 0.005 gives Phi(2); x: 0.04 - 0.02 gives Phi(4).
    assert p_left_of(a, b) == pytest.approx(0.97725, abs=1e-5)
    assert p_behind(a, b) == pytest.approx(0.99997, abs=1e-5)
    # The other way round: Phi((-0.03 - 0.02) / 0.005) = Phi(-10).
    assert p_right_of(a, b) == pytest.approx(0.0, abs=1e-9)
    assert (p_left_of(a, b), p_behind(a, b)) == (p_right_of(b, a), p_in_front_of(b, a))


@pytest.mark.parametrize("offset", [(0.095, 0.0, 0.0), (0.06, 0.08, 0.02), (0.02, 0.03, 0.09), (0.05, 0.0, 0.0)])
@pytest.mark.parametrize("sigma", [0.003, 0.01])
def test_near_is_close_to_what_drawing_says(offset: tuple[float, float, float], sigma: float) -> None:
    spread = np.diag([1.0, 4.0, 0.3]) * sigma**2
    a, b = thing("a", offset, covariance_m2=spread), thing("b", (0.0, 0.0, 0.0), covariance_m2=spread)
    drawn = np.random.default_rng(0).multivariate_normal(offset, 2 * spread, 40_000)
    assert p_near(a, b) == pytest.approx(np.mean(np.linalg.norm(drawn, axis=1) <= 0.10), abs=0.05)


def test_on_needs_height_place_and_contact() -> None:
    below = thing("below", (0.5, 0.0, 0.03))
    above = thing("above", (0.51, 0.0, 0.09), rests_on="below")
    assert p_on(above, below) > 0.9
    assert p_on(below, above) < 0.01
    assert p_on(replace(above, rests_on="other"), below) < 0.05
    assert p_on(replace(above, center_b_m=(0.55, 0.0, 0.09)), below) < 0.01
    assert p_on(replace(above, center_b_m=(0.51, 0.0, 0.12)), below) < 0.01
    assert 0.2 < p_on(replace(above, rests_on=None), below) < 0.8


def test_in_means_the_zones_volume() -> None:
    tray, disc = zone("tray", (0.5, 0.0, 0.0)), zone("disc", (0.5, 0.0, 0.0), shape="cylinder")
    inside = thing("a", (0.52, 0.03, 0.032))
    corner = thing("a", (0.565, 0.065, 0.032))
    assert min(p_in(inside, tray), p_in(inside, disc)) > 0.9
    # 0.065 of 0.07 along each side is inside a square, 0.092 from the middle outside a circle of 0.07.
    assert p_in(corner, tray) > 0.9
    assert p_in(corner, disc) < 0.1
    assert p_in(thing("a", (0.52, 0.03, 0.12)), tray) < 0.01
    # Yawed by 45 degrees, the corner of the square is elsewhere.
    assert p_in(corner, replace(tray, yaw_rad=np.pi / 4)) < 0.2


def test_gaps_between_turned_boxes_and_round_things() -> None:
    a, b = thing("a", (0.0, 0.0, 0.0)), thing("b", (0.1, 0.0, 0.0))
    assert gap_between(a, b)[0] == pytest.approx(0.04)
    turned = replace(b, yaw_rad=np.pi / 4)
    # A corner points to a: 0.1 - 0.03 - 0.06 / sqrt(2).
    assert gap_between(a, turned)[0] == pytest.approx(0.1 - 0.03 - 0.06 / 2**0.5)
    assert gap_between(a, replace(b, shape="cylinder"))[0] == pytest.approx(0.04)
    assert p_touching(a, b) < 0.01
    assert 0.2 < p_touching(a, thing("b", (0.062, 0.0, 0.0))) < 0.8
    assert p_touching(a, thing("b", (0.2, 0.0, 0.0), rests_on="a")) > 0.9


def test_at_is_asked_on_maps_only() -> None:
    pillar = thing("p", (1.0, 0.5, 0.5), 0.05)
    assert p_at(pillar) > 0.99
    assert p_at(thing("p", (2.0, 0.5, 0.5), 0.05)) < 0.01
    assert {p.name for p, _ in questions(located(pillar, map_view=True), {})} == {"at"}
    assert "at" not in {p.name for p, _ in questions(located(pillar, thing("q", (0.5, 0.0, 0.0))), {})}


def test_what_lies_in_the_band_is_unknown() -> None:
    items = thing("a", (0.5, 0.021, 0.0)), thing("b", (0.5, 0.0, 0.0))
    named = [Named(item, "block", 1.0, "red", 1.0) for item in items]
    facts, unknown = related(located(*items), named, Calibration())
    asked = Predicate("left_of", ("a", "b"))
    assert 0.5 < dict(questions(located(*items), {}))[asked] < 0.8
    assert asked not in [fact.predicate for fact in facts]
    assert "whether left_of(a, b)" in unknown
    bold, unknown = related(located(*items), named, Calibration(thresholds={"left_of": 0.5}))
    assert [fact.source for fact in bold if fact.predicate == asked] == ["locate"]
    assert "whether left_of(a, b)" not in unknown
    assert all(fact.probability >= 0.5 for fact in bold)


def test_roles_decide_what_is_asked() -> None:
    items = (
        thing("a", (0.5, 0.0, 0.03)),
        zone("z", (0.5, 0.3, 0.0)),
        thing("r", (0.6, 0.0, 0.4), role_hint="robot-like"),
    )
    asked = dict(questions(located(*items), {}))
    assert Predicate("in", ("a", "z")) in asked
    assert Predicate("on", ("z", "a")) not in asked
    assert not any("r" in predicate.args for predicate in asked)
    assert not list(questions(located(*items), {"a": "landmark"}))


def test_kinds_from_shapes() -> None:
    tall = thing("a", (0.0, 0.0, 0.0), size_m=(0.1, 0.1, 0.6))
    assert geometric_kind(thing("a", (0.0, 0.0, 0.0)))[0] == "block"
    assert geometric_kind(tall)[0] == "pillar"
    assert geometric_kind(zone("z", (0.0, 0.0, 0.0)))[0] == "tray"
    assert geometric_kind(zone("z", (0.0, 0.0, 0.0), shape="cylinder"))[0] == "disc"
    assert geometric_kind(replace(tall, role_hint="wall-like"))[0] == "wall"
    unlike = {**dict.fromkeys(SHAPES, 0.0), "box": 0.2, "other": 0.8}
    assert geometric_kind(replace(tall, size_m=(0.1, 0.1, 0.1), shape_scores=unlike)) == ("thing", 0.8)


def test_facts_of_rendered_scenes() -> None:
    right: dict[str, list[bool]] = defaultdict(list)
    asked: dict[str, int] = defaultdict(int)
    stated = 0
    for seed in (3, 4, 5):
        for number, scene in table_scenes(range(seed, seed + 1)):
            for shot in shots_of(scene, number):
                found = locate(shot.frame, shot.state.frame)
                names = {item.id: entity for entity, item in match(found, shot.state).items()}
                seen = {i for i, entity in names.items() if shot.visible.get(entity, 1.0) >= 0.6}
                truth = true_facts(shot.state)
                for predicate, probability in questions(found, {}):
                    if not seen.issuperset(predicate.args):
                        continue
                    asked[predicate.name] += 1
                    if not 0.2 < probability < 0.8:
                        holds = (predicate.name, tuple(names[a] for a in predicate.args)) in truth
                        right[predicate.name].append((probability >= 0.8) == holds)
                        stated += holds
    assert set(asked) == set(NAMES)
    assert stated > 100
    for name in NAMES:
        assert len(right[name]) >= 0.9 * asked[name], name
        assert np.mean(right[name]) >= 0.95, name
