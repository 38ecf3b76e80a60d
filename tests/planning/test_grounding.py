"""From steps to coordinates: targets, goals in B, success facts, and what is refused."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

from embodied.facts import holds
from embodied.planning.grounding import FETCH_ENVELOPE, GroundingContext, ground
from embodied.types import (
    BaseFrame,
    DescribedObject,
    EntityState,
    Plan,
    PlanFailure,
    PlanStep,
    Predicate,
    SceneDescription,
    SceneState,
    Subgoal,
    Volume,
)

FETCH = GroundingContext.for_robot("fetch")
EYE = ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0))


def only(scene: SceneDescription, skill: str, *args: str, context: GroundingContext = FETCH) -> Subgoal:
    plan = ground([PlanStep(skill, args)], scene, context)
    assert isinstance(plan, Plan), plan
    return plan.subgoals[0]


def refused(scene: SceneDescription, *steps: tuple[str, ...], context: GroundingContext = FETCH) -> PlanFailure:
    failure = ground([PlanStep(skill, args) for skill, *args in map(list, steps)], scene, context)
    assert isinstance(failure, PlanFailure), failure
    assert "\n" not in failure.message
    return failure


def test_touch_aims_below_the_top_and_is_reached_by_contact(blocks: SceneDescription) -> None:
    touch = only(blocks, "touch", "red_block")
    np.testing.assert_allclose(touch.target_m, (1.22, 0.75, 0.45))
    assert touch.goal.entity == "gripper"
    depth = touch.target_m[2] - touch.goal.value[2]
    assert 0 <= depth <= 0.05 + 1e-6
    # A controller that stops 0.05 m short, with fingertips 0.0185 m below the grip site, still presses on the top.
    assert touch.target_m[2] - depth + 0.05 - 0.0185 < touch.target_m[2]
    assert touch.success == (Predicate("touching", ("gripper", "red_block")),)
    assert (touch.max_steps, touch.tolerance_m) == (50, 0.05)


def test_goals_are_in_the_base_frame_and_targets_in_the_world(desk: SceneDescription) -> None:
    touch = only(desk, "touch", "obj1")
    np.testing.assert_allclose(touch.target_m, (0.16, -0.06, 0.77))
    back = desk.base.to_world(touch.goal.value.astype(float))
    np.testing.assert_allclose(back, (0.16, -0.06, 0.72), atol=1e-6)
    assert FETCH.in_reach(touch, desk)


def test_reach_goes_above_things_and_to_points(blocks: SceneDescription, rooms: SceneDescription) -> None:
    np.testing.assert_allclose(only(blocks, "reach", "red_block").target_m, (1.22, 0.75, 0.55))
    np.testing.assert_allclose(only(blocks, "reach", "1.3, 0.7, 0.6").target_m, (1.3, 0.7, 0.6))
    left = only(blocks, "reach", "left_of:red_block").target_m
    assert left[1] > 0.75 + 0.02
    free = GroundingContext.for_robot("none")
    np.testing.assert_allclose(only(rooms, "reach", "start", context=free).target_m, (-3.5, -3.0, 0.1))
    assert only(blocks, "reach", "red_block").success == ()


def test_driving_leaves_height_open(rooms: SceneDescription) -> None:
    drive = only(rooms, "go_to", "green_pillar", context=GroundingContext.for_robot("point"))
    assert drive.goal.entity == "robot"
    assert drive.goal.mask.tolist() == [True, True, False]
    np.testing.assert_allclose(drive.goal.value[:2], (-2.0, 8.5), atol=1e-6)
    assert drive.success == (Predicate("at", ("green_pillar",)),)
    assert only(rooms, "go_to", "1,2,0", context=GroundingContext.for_robot("point")).success == ()


def test_hold_asks_for_nothing(blocks: SceneDescription) -> None:
    hold = only(blocks, "hold")
    assert not hold.goal.mask.any()
    assert FETCH.in_reach(hold, blocks)


def test_elements_and_picks(blocks: SceneDescription) -> None:
    pick = only(blocks, "pick", "red_block")
    np.testing.assert_allclose(pick.target_m, (1.22, 0.75, 0.525))
    assert (pick.goal.entity, pick.success) == ("red_block", (Predicate("holding", ("red_block",)),))
    assert only(blocks, "touch", "left_tray").target_m[2] == pytest.approx(0.403)


def moved_state(scene: SceneDescription, subgoal: Subgoal) -> SceneState:
    """The scene with the moved thing where the subgoal wants it, resting on what it is to be on or in."""
    relation = subgoal.success[0]
    entities = []
    for item in scene.objects:
        at = subgoal.target_m if item.id == subgoal.args[0] else item.position_m
        inside = Volume("box", (0.07, 0.07, 0.03), (*item.position_m[:2], item.position_m[2] + 0.03), EYE)
        entities.append(
            EntityState(
                item.id, item.id, item.role, item.kind, item.colour, tuple(scene.base.to_base(at)), item.half_extents_m,
                at, (1.0, 0.0, 0.0, 0.0), inside if item.role == "zone" else None,
            )
        )  # fmt: skip
    return SceneState(tuple(entities), frozenset({tuple(sorted(relation.args))}), scene.base, "fetch")


@pytest.mark.parametrize(
    ("skill", "args", "fact"),
    [
        ("place", ("red_block", "left_tray"), "in(red_block, left_tray)"),
        ("place", ("red_block", "in:left_tray"), "in(red_block, left_tray)"),
        ("place", ("red_block", "table"), "on(red_block, table)"),
        ("place", ("red_block", "on:green_block"), "on(red_block, green_block)"),
        ("stack", ("blue_block", "green_block"), "on(blue_block, green_block)"),
        ("place", ("green_block", "left_of:blue_block"), "left_of(green_block, blue_block)"),
        ("place", ("green_block", "right_of:red_block"), "right_of(green_block, red_block)"),
        ("place", ("green_block", "in_front_of:blue_block"), "in_front_of(green_block, blue_block)"),
        ("place", ("red_block", "behind:green_block"), "behind(red_block, green_block)"),
        ("push", ("red_block", "near:blue_block"), "near(red_block, blue_block)"),
        ("push", ("red_block", "blue_block"), "near(red_block, blue_block)"),
        ("push", ("red_block", "right_tray"), "in(red_block, right_tray)"),
    ],
)
def test_where_a_thing_is_put_its_fact_holds(
    blocks: SceneDescription, skill: str, args: tuple[str, ...], fact: str
) -> None:
    subgoal = only(blocks, skill, *args)
    assert [str(predicate) for predicate in subgoal.success] == [fact]
    assert subgoal.goal.entity == args[0]
    assert holds(subgoal.success[0], moved_state(blocks, subgoal))


def test_things_put_into_one_tray_do_not_overlap(blocks: SceneDescription) -> None:
    steps = [PlanStep("place", (f"{c}_block", "left_tray")) for c in ("red", "green", "blue")]
    plan = ground(steps, blocks, FETCH)
    assert isinstance(plan, Plan)
    spots = [np.asarray(s.target_m) for s in plan.subgoals]
    for k, a in enumerate(spots):
        assert np.all(np.abs(a[:2] - (1.30, 0.98)) <= 0.07 - 0.025)
        assert all(np.max(np.abs(a - b)) >= 0.05 for b in spots[:k])


def test_a_tower_grows_where_its_parts_will_be(blocks: SceneDescription) -> None:
    steps = [PlanStep("stack", ("red_block", "green_block")), PlanStep("stack", ("blue_block", "red_block"))]
    plan = ground(steps, blocks, FETCH)
    assert isinstance(plan, Plan)
    np.testing.assert_allclose(plan.subgoals[1].target_m, (1.38, 0.68, 0.525))


def test_what_is_beside_a_taken_place_goes_further_out(
    blocks: SceneDescription, make_scene: Callable, make_thing: Callable
) -> None:
    blocker = make_thing("blocker", "object", "block", "grey", (1.22, 0.82, 0.425), (0.025, 0.025, 0.025))
    crowded = make_scene(*blocks.objects, blocker)
    assert only(crowded, "place", "green_block", "left_of:red_block").target_m[1] == pytest.approx(0.89)
    assert only(blocks, "place", "green_block", "left_of:red_block").target_m[1] == pytest.approx(0.82)


def test_no_room_is_said(make_scene: Callable, make_thing: Callable) -> None:
    big = (0.06, 0.06, 0.05)
    scene = make_scene(
        make_thing("z", "zone", "tray", "white", (1.3, 0.75, 0.401), (0.07, 0.07, 0.002)),
        make_thing("a", "object", "block", "red", (1.2, 0.6, 0.45), big),
        make_thing("b", "object", "block", "blue", (1.2, 0.9, 0.45), big),
    )
    assert refused(scene, ("place", "a", "z"), ("place", "b", "z")).reason == "impossible"
    assert refused(scene, ("push", "a", "near:b")).reason == "impossible"


@pytest.mark.parametrize(
    ("steps", "reason", "told"),
    [
        ([], "unparsable", "no steps"),
        ([("fly", "red_block")], "unparsable", "unknown skill 'fly'"),
        ([("touch", "red_block", "blue_block")], "unparsable", "takes 1 argument"),
        ([("touch", "purple_block")], "unknown_object", "red block (red_block), green block (green_block)"),
        ([("place", "red_block", "left_of:nothing")], "unknown_object", "'nothing'"),
        ([("reach", "1,2")], "unparsable", "x,y,z in metres"),
        ([("reach", "nan,0,0")], "unparsable", "x,y,z in metres"),
        ([("reach", "above:red_block")], "unparsable", "no place"),
        ([("place", "table", "left_tray")], "impossible", "fixed"),
        ([("push", "left_tray", "right_tray")], "impossible", "fixed"),
        ([("pick", "right_tray")], "impossible", "movable: red block"),
        ([("stack", "red_block", "red_block")], "impossible", "itself"),
        ([("place", "red_block", "in:blue_block")], "impossible", "zones here: white tray"),
        ([("stack", "red_block", "blue_block"), ("stack", "blue_block", "red_block")], "contradictory", "red_block on"),
        (
            [("stack", "red_block", "blue_block"), ("stack", "blue_block", "green_block"),
             ("stack", "green_block", "red_block")], "contradictory", "hold together",
        ),
        (
            [("place", "red_block", "left_of:blue_block"), ("place", "blue_block", "left_of:red_block")],
            "contradictory", "left_of",
        ),
        (
            [("place", "red_block", "behind:blue_block"), ("place", "blue_block", "in_front_of:red_block")], "", "",
        ),
        (
            [("stack", "red_block", "blue_block"), ("place", "red_block", "left_tray"),
             ("stack", "blue_block", "red_block")], "", "",
        ),
    ],
)  # fmt: skip
def test_what_the_scene_does_not_allow_is_refused(
    blocks: SceneDescription, steps: list[tuple[str, ...]], reason: str, told: str
) -> None:
    if not reason:
        assert isinstance(ground([PlanStep(s[0], tuple(s[1:])) for s in steps], blocks, FETCH), Plan)
        return
    failure = refused(blocks, *steps)
    assert failure.reason == reason
    assert told in failure.message


def test_places_cannot_be_touched_and_hostile_ids_are_escaped(rooms: SceneDescription) -> None:
    assert refused(rooms, ("touch", "start")).reason == "impossible"
    failure = refused(rooms, ("touch", "x\ny\x1b" + "z" * 100))
    assert failure.message.isprintable()
    assert "\\n" in failure.message


def test_out_of_reach_is_refused_or_told(blocks: SceneDescription) -> None:
    failure = refused(blocks, ("reach", "2.5,0.75,0.6"))
    assert failure.reason == "unreachable"
    assert "2.50" in failure.message
    told = GroundingContext.for_robot("fetch", refuse_unreachable=False)
    assert not told.in_reach(only(blocks, "reach", "2.5,0.75,0.6", context=told), blocks)
    assert told.in_reach(only(blocks, "reach", "left_tray", context=told), blocks)
    assert only(blocks, "reach", "2.5,0.75,0.6", context=GroundingContext.for_robot("none")).target_m[0] == 2.5


@pytest.mark.parametrize(
    ("inside", "outside"),
    [
        ((1.642, 0.744, 0.5), (1.643, 0.744, 0.5)),
        ((0.95, 0.744, 0.5), (0.949, 0.744, 0.5)),
        ((1.3, 0.744, 0.38), (1.3, 0.744, 0.379)),
        ((1.3, 0.744, 0.85), (1.3, 0.744, 0.851)),
        ((1.3, 1.15, 0.5), (1.3, 1.151, 0.5)),
    ],
)
def test_the_envelope_has_borders(inside: tuple, outside: tuple) -> None:
    assert FETCH_ENVELOPE.contains(np.asarray(inside) - (1e-9, 0, 0) if inside[0] > 1.6 else np.asarray(inside))
    assert not FETCH_ENVELOPE.contains(np.asarray(outside))


def test_a_hand_made_target_wins(blocks: SceneDescription) -> None:
    plan = ground([PlanStep("touch", ("red_block",), (1.2, 0.7, 0.46), 9)], blocks, FETCH)
    assert isinstance(plan, Plan)
    assert plan.subgoals[0].target_m == (1.2, 0.7, 0.46)
    assert plan.subgoals[0].max_steps == 9
    assert plan.subgoals[0].goal.value[2] == pytest.approx(0.41)


def test_a_turned_and_moved_scene_gives_the_same_goals(blocks: SceneDescription, make_scene: Callable) -> None:
    steps = [
        PlanStep("touch", ("red_block",)),
        PlanStep("place", ("green_block", "left_of:blue_block")),
        PlanStep("push", ("red_block", "near:blue_block")),
        PlanStep("place", ("blue_block", "left_tray")),
    ]
    base = BaseFrame((3.0, -2.0, 0.4), math.radians(70))

    def there(item: DescribedObject) -> DescribedObject:
        at = tuple(float(v) for v in base.to_world(item.position_m))
        return DescribedObject(item.id, item.role, item.kind, item.colour, at, item.half_extents_m, 1.0, item.name)

    turned = make_scene(*map(there, blocks.objects), base=base)
    here, away = ground(steps, blocks, FETCH), ground(steps, turned, FETCH)
    assert isinstance(here, Plan)
    assert isinstance(away, Plan)
    for a, b in zip(here.subgoals, away.subgoals, strict=True):
        np.testing.assert_allclose(a.goal.value, b.goal.value, atol=1e-6)
        np.testing.assert_allclose(base.to_world(a.target_m), b.target_m, atol=1e-9)


def test_a_description_without_a_pose_has_no_targets(blocks: SceneDescription) -> None:
    from dataclasses import replace

    assert refused(replace(blocks, frame="camera"), ("touch", "red_block")).reason == "impossible"
