"""Steps in an order that works, plans on paper, room for turned things, and the right one of two alike."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from embodied.facts import holds
from embodied.planning.grounding import GroundingContext, ground
from embodied.planning.rules import RulesPlanner
from embodied.planning.sequence import workable
from embodied.planning.simulation import Impossible, simulate
from embodied.types import (
    DescribedObject,
    EntityState,
    Fact,
    Plan,
    PlanFailure,
    PlanStep,
    Predicate,
    SceneDescription,
    SceneState,
    Volume,
)

FETCH = GroundingContext.for_robot("fetch")


def stack(a: str, b: str) -> PlanStep:
    return PlanStep("stack", (a, b))


def pile(scene: SceneDescription, *pairs: tuple[str, str]) -> SceneDescription:
    """The same with the first of each pair on the second."""
    facts = [f for f in scene.facts if f.predicate.args[0] not in {a for a, _ in pairs}]
    objects = {item.id: item for item in scene.objects}
    for a, b in pairs:
        facts.append(Fact(Predicate("on", (a, b)), 1.0, "oracle"))
        x, y, z = objects[b].position_m
        objects[a] = replace(objects[a], position_m=(x, y, z + 0.05))
    return replace(scene, facts=tuple(facts), objects=tuple(objects.values()))


def state_of(scene: SceneDescription) -> SceneState:
    """What a simulator would say of a description."""
    entities = []
    for item in scene.objects:
        b = tuple(float(v) for v in scene.base.to_base(np.asarray(item.position_m)))
        x, y, z = item.position_m
        inside = Volume("box", (0.07, 0.07, 0.03), (x, y, z + 0.03), ((1, 0, 0), (0, 1, 0), (0, 0, 1)))
        entities.append(
            EntityState(item.id, item.id, item.role, item.kind, item.colour, b, item.half_extents_m, item.position_m,
                        (1.0, 0.0, 0.0, 0.0), inside if item.role == "zone" else None)
        )  # fmt: skip
    pairs = frozenset(tuple(sorted(f.predicate.args)) for f in scene.facts if f.predicate.name == "on")
    return SceneState(tuple(entities), pairs, scene.base, "fetch")


def test_a_tower_is_built_from_below(blocks: SceneDescription) -> None:
    asked = (stack("blue_block", "red_block"), stack("red_block", "green_block"))
    assert workable(asked, blocks) == asked[::-1]
    plan = ground(asked, blocks, FETCH)
    assert isinstance(plan, Plan)
    last = simulate(plan, state_of(blocks))[-1]
    assert holds(Predicate("on", ("blue_block", "red_block")), last)
    assert holds(Predicate("on", ("red_block", "green_block")), last)


def test_an_order_that_works_is_kept(blocks: SceneDescription) -> None:
    asked = (PlanStep("place", ("blue_block", "right_tray")), PlanStep("place", ("red_block", "right_tray")))
    assert workable(asked, blocks) == asked
    picked = (PlanStep("pick", ("red_block",)), stack("red_block", "green_block"))
    assert workable(picked, blocks) == picked


def test_a_covered_thing_is_uncovered_first(blocks: SceneDescription) -> None:
    covered = pile(blocks, ("blue_block", "red_block"))
    steps = workable((PlanStep("place", ("red_block", "left_tray")),), covered)
    assert isinstance(steps, tuple)
    assert [(s.skill, s.args) for s in steps] == [
        ("place", ("blue_block", "on:table")), ("place", ("red_block", "left_tray")),
    ]  # fmt: skip
    plan = ground((PlanStep("place", ("red_block", "left_tray")),), covered, FETCH)
    assert isinstance(plan, Plan), plan
    assert holds(Predicate("in", ("red_block", "left_tray")), simulate(plan, state_of(covered))[-1])
    later = (PlanStep("place", ("red_block", "left_tray")), PlanStep("place", ("blue_block", "right_tray")))
    assert workable(later, covered) == later[::-1], "where the plan puts it anyway, and no further step"


def test_what_may_not_be_touched_is_not_cleared_away(blocks: SceneDescription) -> None:
    covered = pile(blocks, ("blue_block", "red_block"))
    refused = workable((PlanStep("place", ("red_block", "left_tray"), avoid=("blue_block",)),), covered)
    assert isinstance(refused, PlanFailure)
    assert refused.reason == "impossible"
    assert "to be left alone" in refused.message


def test_on_paper_a_covered_thing_cannot_be_moved(blocks: SceneDescription) -> None:
    plan = ground((PlanStep("place", ("red_block", "left_tray")),), blocks, FETCH)
    assert isinstance(plan, Plan)
    with pytest.raises(Impossible, match="blue_block lies on red_block"):
        simulate(plan, state_of(pile(blocks, ("blue_block", "red_block"))))


def test_turned_things_find_room_in_a_tray(blocks: SceneDescription) -> None:
    wide = 0.025 * math.sqrt(2)
    things = [replace(o, half_extents_m=(wide, wide, 0.025)) if o.role == "object" else o for o in blocks.objects]
    scene = replace(blocks, objects=tuple(things))
    steps = [PlanStep("place", (f"{colour}_block", "left_tray")) for colour in ("red", "green", "blue")]
    plan = ground(steps, scene, FETCH)
    assert isinstance(plan, Plan), plan
    targets = np.array([subgoal.target_m for subgoal in plan.subgoals])
    assert np.abs(targets[:, :2] - (1.30, 0.98)).max() < 0.07
    away = np.abs(targets[:, None, :2] - targets[None, :, :2]).max(-1)[~np.eye(3, dtype=bool)]
    assert away.min() >= 2 * wide - 1e-3


def test_a_thing_that_lies_out_of_reach_is_not_fetched(blocks: SceneDescription) -> None:
    fallen = [replace(o, position_m=(1.25, 0.30, 0.025)) if o.id == "red_block" else o for o in blocks.objects]
    scene = replace(blocks, objects=tuple(fallen), facts=())
    refused = ground([PlanStep("place", ("red_block", "left_tray"))], scene, FETCH)
    assert isinstance(refused, PlanFailure)
    assert refused.reason == "unreachable"
    assert "red block (red_block)" in refused.message


@pytest.mark.parametrize("arrangement", range(20))
def test_of_two_alike_the_relation_picks_the_right_one(
    arrangement: int, make_thing: Callable[..., DescribedObject], make_scene: Callable[..., SceneDescription]
) -> None:
    rng = np.random.default_rng(arrangement)
    small = (0.025, 0.025, 0.025)
    spots: list[np.ndarray] = []
    while len(spots) < 3:
        spot = rng.uniform((1.15, 0.60), (1.45, 0.95))
        if all(np.hypot(*(spot - other)) > 0.09 for other in spots):
            spots.append(spot)
    gap = abs(np.hypot(*(spots[0] - spots[2])) - np.hypot(*(spots[1] - spots[2])))
    if gap < 0.01:
        spots[0] = spots[0] + (0.0, 0.03)
    things: list[Any] = [
        make_thing(name, "object", kind, colour, (*at, 0.425), small)
        for name, kind, colour, at in (
            ("q1", "block", "orange", spots[0]), ("q2", "block", "orange", spots[1]),
            ("q3", "cylinder", "teal", spots[2]),
        )
    ]  # fmt: skip
    disc = make_thing("z", "zone", "disc", "purple", (1.30, 0.45, 0.401), (0.08, 0.08, 0.001))
    nearest = "q1" if np.hypot(*(spots[0] - spots[2])) < np.hypot(*(spots[1] - spots[2])) else "q2"
    scene = make_scene(*things, disc)
    words = "put the orange block that is closest to the teal cylinder on the purple disc"
    steps = RulesPlanner().propose(words, scene)
    assert not isinstance(steps, PlanFailure), steps
    plan = ground(steps, scene, FETCH)
    assert isinstance(plan, Plan), plan
    assert {subgoal.args[0] for subgoal in plan.subgoals} == {nearest}
    asked_plainly = RulesPlanner().propose("put the orange block on the purple disc", scene)
    assert isinstance(asked_plainly, PlanFailure)
    assert asked_plainly.reason == "ambiguous"
