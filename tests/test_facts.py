"""Section by section what each fact means, at both sides of every threshold."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from embodied.errors import UserError
from embodied.facts import PREDICATES, all_facts, holds
from embodied.types import BaseFrame, EntityState, Predicate, SceneState, Volume

EPS = 1e-6
EYE = ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0))
HALF = (0.025, 0.025, 0.025)


def entity(
    ident: str,
    at: tuple[float, float, float],
    half: tuple[float, float, float] = HALF,
    role: str = "object",
    volume: Volume | None = None,
    base: BaseFrame | None = None,
) -> EntityState:
    """An entity whose centre in the world is `at`."""
    base = base or BaseFrame()
    centre = tuple(float(v) for v in base.to_base(at))
    return EntityState(ident, ident, role, "block", "red", centre, half, at, (1.0, 0.0, 0.0, 0.0), volume)


def scene(*entities: EntityState, contacts: tuple[tuple[str, str], ...] = (), **more: object) -> SceneState:
    pairs = frozenset(tuple(sorted(pair)) for pair in contacts)
    return SceneState(entities, pairs, frame=BaseFrame(), robot="fetch", **more)


def true(state: SceneState, name: str, *args: str) -> bool:
    return holds(Predicate(name, args), state)


@pytest.mark.parametrize(
    ("name", "axis", "sign"), [("left_of", 1, 1), ("right_of", 1, -1), ("in_front_of", 0, -1), ("behind", 0, 1)]
)
def test_sides_begin_at_two_centimetres(name: str, axis: int, sign: int) -> None:
    for gap, expected in ((0.02 + EPS, True), (0.02 - EPS, False), (-0.5, False)):
        at = [0.0, 0.0, 0.0]
        at[axis] = sign * gap
        assert true(scene(entity("a", tuple(at)), entity("b", (0.0, 0.0, 0.0))), name, "a", "b") is expected


def test_sides_are_meant_in_the_base_frame() -> None:
    base = BaseFrame((1.0, 2.0, 0.0), math.pi / 2)  # B's left (+y) is the world's -x
    state = scene(entity("a", (-0.1, 0.0, 0.0), base=base), entity("b", (0.1, 0.0, 0.0), base=base))
    assert true(state, "left_of", "a", "b")
    assert not true(state, "in_front_of", "a", "b")


def test_near_is_ten_centimetres_between_centres() -> None:
    for distance, expected in ((0.10 - EPS, True), (0.10 + EPS, False)):
        d = distance / math.sqrt(3)
        assert true(scene(entity("a", (d, d, d)), entity("b", (0.0, 0.0, 0.0))), "near", "a", "b") is expected


def test_at_is_a_horizontal_distance_of_one_and_a_half_metres() -> None:
    for distance, expected in ((1.5 - EPS, True), (1.5 + EPS, False)):
        state = scene(entity("p", (distance, 0.0, 7.0), role="landmark"), robot_position_m=(0.0, 0.0, 0.0))
        assert true(state, "at", "p") is expected
    assert not true(scene(entity("p", (0.0, 0.0, 0.0), role="landmark")), "at", "p")  # no robot


@pytest.mark.parametrize(
    ("offset", "expected"),
    [
        ((0.0, 0.0, 0.05), True),
        ((0.0, 0.0, 0.06 - EPS), True),
        ((0.0, 0.0, 0.06 + EPS), False),
        ((0.0, 0.0, 0.04 + EPS), True),
        ((0.0, 0.0, 0.04 - EPS), False),
        ((0.025 - EPS, 0.0, 0.05), True),
        ((0.025 + EPS, 0.0, 0.05), False),
        ((0.0, -0.025 + EPS, 0.05), True),
        ((0.0, -0.025 - EPS, 0.05), False),
    ],
)
def test_on_needs_height_and_overlap(offset: tuple[float, float, float], expected: bool) -> None:
    a, b = entity("a", offset, half=(0.025, 0.025, 0.025)), entity("b", (0.0, 0.0, 0.0))
    assert true(scene(a, b, contacts=(("a", "b"),)), "on", "a", "b") is expected
    assert not true(scene(a, b), "on", "a", "b")  # no contact


def test_overlap_is_measured_by_the_lower_things_extent() -> None:
    a = entity("a", (0.06, 0.0, 0.05), half=(0.01, 0.01, 0.025))
    wide = entity("b", (0.0, 0.0, 0.0), half=(0.07, 0.02, 0.025))
    assert true(scene(a, wide, contacts=(("a", "b"),)), "on", "a", "b")
    narrow = replace(wide, half_extents_m=(0.05, 0.2, 0.025))
    assert not true(scene(a, narrow, contacts=(("a", "b"),)), "on", "a", "b")


HOLD = (("left_finger", "a"), ("right_finger", "a"), ("gripper", "a"))


@pytest.mark.parametrize(
    ("contacts", "expected"),
    [
        (HOLD, True),
        (HOLD[1:], False),
        (HOLD[:1], False),
        ((*HOLD, ("a", "table")), False),
        ((*HOLD, ("a", "static")), False),
        ((*HOLD, ("a", "robot")), False),
        ((*HOLD, ("a", "below")), False),
        ((*HOLD, ("a", "above")), True),
        ((*HOLD, ("below", "table")), True),
    ],
)
def test_holding_is_both_fingers_and_no_other_support(contacts: tuple, expected: bool) -> None:
    state = scene(
        entity("a", (0.0, 0.0, 0.5)),
        entity("below", (0.0, 0.0, 0.45)),
        entity("above", (0.0, 0.0, 0.55)),
        entity("table", (0.0, 0.0, 0.9), role="landmark"),
        contacts=contacts,
    )
    assert true(state, "holding", "a") is expected


def test_what_is_held_is_neither_on_nor_in() -> None:
    zone = entity("z", (0.0, 0.0, 0.0), role="zone", volume=Volume("sphere", (0.1, 0.0, 0.0), (0.0, 0.0, 0.0), EYE))
    a = entity("a", (0.0, 0.0, 0.05))
    # The thing on top of the held one is on it; the held one is in nothing.
    free = scene(a, zone, contacts=(("a", "z"),))
    assert true(free, "in", "a", "z")
    assert true(free, "on", "a", "z")
    held = scene(a, zone, contacts=HOLD)
    assert not true(held, "in", "a", "z")
    assert not true(held, "on", "a", "z")


VOLUMES = [
    (Volume("box", (0.1, 0.2, 0.3), (1.0, 0.0, 0.0), EYE), (1.0, 0.21, 0.0), (0.0, 1.0, 0.0)),
    (Volume("box", (0.1, 0.2, 0.3), (1.0, 0.0, 0.0), EYE), (1.0, 0.0, -0.31), (0.0, 0.0, -1.0)),
    (Volume("cylinder", (0.08, 0.03, 0.0), (0.0, 0.0, 0.03), EYE), (0.054, 0.072, 0.0), (0.6, 0.8, 0.0)),
    (Volume("cylinder", (0.08, 0.03, 0.0), (0.0, 0.0, 0.03), EYE), (0.0, 0.0, 0.07), (0.0, 0.0, 1.0)),
    (Volume("sphere", (0.05, 0.0, 0.0), (0.0, 0.0, 0.0), EYE), (0.0, 0.06, 0.0), (0.0, 1.0, 0.0)),
    (Volume("capsule", (0.05, 0.1, 0.0), (0.0, 0.0, 0.0), EYE), (0.0, 0.0, 0.16), (0.0, 0.0, 1.0)),
    (Volume("capsule", (0.05, 0.1, 0.0), (0.0, 0.0, 0.0), EYE), (0.06, 0.0, 0.1), (1.0, 0.0, 0.0)),
    (Volume("ellipsoid", (0.1, 0.2, 0.3), (0.0, 0.0, 0.0), EYE), (0.0, 0.21, 0.0), (0.0, 1.0, 0.0)),
]


@pytest.mark.parametrize(("volume", "border", "outwards"), VOLUMES)
def test_in_is_the_volume_grown_by_a_centimetre(
    volume: Volume, border: tuple[float, ...], outwards: tuple[float, ...]
) -> None:
    zone = entity("z", (9.0, 9.0, 9.0), role="zone", volume=volume)
    for sign, expected in ((-1, True), (1, False)):
        at = tuple(p + sign * EPS * n for p, n in zip(border, outwards, strict=True))
        assert true(scene(entity("a", at), zone), "in", "a", "z") is expected


def test_a_turned_volume_is_measured_along_its_own_axes() -> None:
    quarter = ((0.0, -1.0, 0.0), (1.0, 0.0, 0.0), (0.0, 0.0, 1.0))  # its x axis is the world's y
    zone = entity("z", (0.0, 0.0, 0.0), role="zone", volume=Volume("box", (0.3, 0.1, 0.1), (0.0, 0.0, 0.0), quarter))
    assert true(scene(entity("a", (0.0, 0.3, 0.0)), zone), "in", "a", "z")
    assert not true(scene(entity("a", (0.3, 0.0, 0.0)), zone), "in", "a", "z")


def test_touching_is_a_contact_in_either_order() -> None:
    state = scene(entity("a", (0.0, 0.0, 0.0)), entity("b", (0.0, 0.0, 0.0)), contacts=(("gripper", "a"),))
    assert true(state, "touching", "gripper", "a")
    assert true(state, "touching", "a", "gripper")
    assert not true(state, "touching", "gripper", "b")
    assert not true(state, "touching", "a", "b")


def test_negation_turns_every_answer_round() -> None:
    state = scene(entity("a", (0.0, 0.1, 0.0)), entity("b", (0.0, 0.0, 0.0)))
    assert holds(Predicate("right_of", ("a", "b"), negated=True), state)
    assert not holds(Predicate("left_of", ("a", "b"), negated=True), state)


@pytest.mark.parametrize(
    ("predicate", "told"),
    [
        (Predicate("above", ("a", "b")), "valid: at, behind"),
        (Predicate("near", ("a", "c")), "unknown thing 'c'"),
        (Predicate("touching", ("gripper", "c")), "valid: a, b"),
        (Predicate("near", ("a",)), "about 2 thing"),
        (Predicate("in", ("a", "b")), "zones here: none"),
    ],
)
def test_mistakes_are_one_line_that_names_what_is_valid(predicate: Predicate, told: str) -> None:
    state = scene(entity("a", (0.0, 0.0, 0.0)), entity("b", (0.0, 0.0, 0.0)))
    with pytest.raises(UserError) as caught:
        holds(predicate, state)
    assert told in str(caught.value)
    assert "\n" not in str(caught.value)


def test_all_facts_are_true_complete_and_in_a_fixed_order() -> None:
    zone = entity("z", (0.0, 0.3, 0.0), half=(0.07, 0.07, 0.002), role="zone")
    zone = replace(zone, volume=Volume("box", (0.07, 0.07, 0.03), (0.0, 0.3, 0.03), EYE))
    table = entity("table", (0.0, 0.0, -0.2), half=(0.5, 0.5, 0.175), role="landmark")
    a, b = entity("a", (0.0, 0.0, 0.0)), entity("b", (0.05, 0.3, 0.02))
    state = scene(table, zone, a, b, contacts=(("a", "table"), ("gripper", "a")), gripper_position_m=(0.0, 0.0, 0.1))
    facts = all_facts(state)
    assert facts == all_facts(state)
    assert all(holds(fact, state) for fact in facts)
    assert [str(fact) for fact in facts] == [
        "in(b, z)", "on(a, table)", "touching(gripper, a)", "near(z, b)", "near(b, z)", "left_of(z, a)",
        "left_of(b, a)",
        "right_of(a, z)", "right_of(a, b)", "in_front_of(z, b)", "in_front_of(a, b)", "behind(b, z)", "behind(b, a)",
    ]  # fmt: skip


def test_at_is_asked_where_the_robot_is_no_arm() -> None:
    pillar = entity("p", (1.0, 0.0, 0.0), role="landmark")
    assert Predicate("at", ("p",)) in all_facts(scene(pillar, robot_position_m=(0.0, 0.0, 0.0)))
    arm = scene(pillar, robot_position_m=(0.0, 0.0, 0.0), gripper_position_m=(0.5, 0.0, 0.5))
    assert not all_facts(arm)


def test_every_predicate_of_the_design_is_there() -> None:
    assert set(PREDICATES) == {
        "in", "on", "left_of", "right_of", "in_front_of", "behind", "near", "at", "holding", "touching",
    }  # fmt: skip
