"""Picking, placing, pushing and stacking by hand, in a kinematic world in which fingers hold what they close round."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from embodied.facts import holds
from embodied.hierarchy.executor import Executor, ExecutorConfig
from embodied.hierarchy.handling import shown_with
from embodied.hierarchy.monitor import ExecutionReport, StepRecord
from embodied.spec import Layout, Term
from embodied.types import (
    BaseFrame,
    EntityState,
    Goal,
    Observation,
    Plan,
    PolicyManifest,
    Predicate,
    SceneState,
    Step,
    Subgoal,
)

ALL = np.ones(3, dtype=bool)
HALF = 0.025
TABLE_M = 0.40
TIP_M = 0.0185


class Hand:
    """A point gripper with two fingers over a table with blocks; at the step `slips_at` it loses what it holds, and a
    `mirage` is never between the fingers."""

    reward = None

    def __init__(self, spec: Any, **things: tuple[float, float, float]) -> None:
        names = ("gripper", *things)
        layout = Layout((Term("gripper_state", 2, "m", "joint"),), (), (Term("position", 3, "m"),), names)
        self.spec = replace(spec, layout=layout)
        self.goal = Goal("gripper", np.zeros(3), ALL)
        self.centres = {name: np.asarray(at, dtype=float) for name, at in things.items()}
        self.grip, self.finger, self.held = np.array([1.34, 0.75, 0.535]), 0.0, ""
        self.slips_at, self.taken, self.mirage = -1, 0, ""

    def reset(self, seed: int) -> Observation:
        del seed
        return self.observe()

    def observe(self) -> Observation:
        rows = np.stack([self.grip, *self.centres.values()]).astype(np.float32)
        return Observation(
            np.full(2, self.finger, np.float32), np.zeros((len(rows), 0), np.float32), rows, self.spec.layout
        )

    def step(self, action: np.ndarray) -> Step:
        self.taken += 1
        self.finger = float(np.clip(self.finger + np.clip(action[3], -0.012, 0.012), 0.0, 0.05))
        move = 0.03 * np.clip(action[:3], -1, 1).astype(float)
        self.grip = self.grip + move
        if self.held:
            self.centres[self.held] = self.centres[self.held] + move
            if self.finger > HALF or self.taken == self.slips_at:
                self.held = ""
        else:
            near = [n for n, c in self.centres.items() if np.all(np.abs(self.grip - c) < (0.012, 0.012, 0.015))]
            near = [name for name in near if name != self.mirage]
            self.held = near[0] if near and self.finger < HALF and action[3] < 0 else ""
        if self.held:
            self.finger = HALF - 0.002
        for name in self.centres.keys() - {self.held}:
            self._fall(name)
        return Step(self.observe(), action, 0.0, False, False, False)

    def _fall(self, name: str) -> None:
        """Down onto the table, or onto a thing; beside the table onto the floor."""
        centre = self.centres[name]
        others = [other for key, other in self.centres.items() if key not in (name, self.held)]
        beneath = [other for other in others if np.all(np.abs(other - centre)[:2] < HALF) and other[2] < centre[2]]
        inside = 1.05 <= centre[0] <= 1.55 and 0.40 <= centre[1] <= 1.10
        centre[2] = max([TABLE_M if inside else 0.0, *(other[2] + HALF for other in beneath)]) + HALF

    def set_goal(self, goal: Goal) -> None:
        self.goal = goal

    def scene_state(self) -> SceneState:
        contacts = {("left_finger", self.held), (self.held, "right_finger")} if self.held else set()
        entities = []
        for name, centre in self.centres.items():
            at = (float(centre[0]), float(centre[1]), float(centre[2]))
            size = (HALF, HALF, HALF)
            entities.append(EntityState(name, name, "object", "block", "red", at, size, at, (1.0, 0.0, 0.0, 0.0)))
            for other, place in self.centres.items():
                away = np.abs(place - centre)
                if other != name and abs(away[2] - 2 * HALF) < 1e-6 and away[:2].max() < 2 * HALF:
                    contacts.add((name, other))
        pairs = frozenset(tuple(sorted(pair)) for pair in contacts)
        grip = (float(self.grip[0]), float(self.grip[1]), float(self.grip[2]))
        time_s = self.taken / 25.0
        return SceneState(tuple(entities), pairs, BaseFrame(), "fetch", gripper_position_m=grip, time_s=time_s)

    def render(self, *args: Any, **options: Any) -> Any:
        raise NotImplementedError

    def close(self) -> None: ...


Run = Callable[..., tuple[ExecutionReport, list[StepRecord]]]


@pytest.fixture
def hand(world: Any) -> Hand:
    return Hand(world.spec, a_block=(1.20, 0.55, 0.425), b_block=(1.32, 0.75, 0.425), c_block=(1.26, 0.68, 0.425))


@pytest.fixture
def run(hand: Hand, scripted: Any, teller: Any) -> Run:
    """Carries subgoals out with a proportional controller that says that it can pick and place."""

    def go(*subgoals: Subgoal, retries: int = 0, offers: tuple[str, ...] = ("pick", "place")) -> Any:
        controller, records = scripted(), []
        manifest: PolicyManifest = replace(controller.manifest, skills=offers)
        controller.manifest = manifest
        skills = dict.fromkeys(("pick", "place", "push", "stack", "reach"), controller)
        executor = Executor(
            hand, skills, teller(hand), None, ExecutorConfig(retries=retries), observers=[records.append]
        )  # fmt: skip
        return executor.run(Plan("", subgoals, "fake"), hand.observe()), records

    return go


def subgoal(skill: str, thing: str, at: tuple[float, float, float], *success: Predicate, steps: int = 150) -> Subgoal:
    args = (thing,) if skill == "pick" else (thing, ",".join(map(str, at)))
    return Subgoal(skill, args, Goal(thing, at, ALL), at, 0.03, steps, success)


def test_place_ends_with_the_thing_at_rest_and_the_fingers_above_it(run: Run, hand: Hand) -> None:
    report, records = run(subgoal("place", "a_block", (1.40, 0.90, 0.425)))
    assert report.ok, report.message
    np.testing.assert_allclose(hand.centres["a_block"], (1.40, 0.90, 0.425), atol=0.01)
    assert (hand.held, report.retries) == ("", 0)
    assert hand.grip[2] > 0.425 + 0.05
    stages = list(dict.fromkeys(r.phase for r in records if r.phase != "hold"))
    assert stages == ["clear", "above", "down", "close", "up", "over", "lower", "open", "rise"]
    assert report.subgoals[0].steps == len([r for r in records if r.phase != "hold"]) < 80


def test_what_is_carried_passes_above_what_is_on_the_way(run: Run) -> None:
    """c lies between a and the target: bottom and fingertips stay above its top while they are over it."""
    report, records = run(subgoal("place", "a_block", (1.32, 0.86, 0.425)))
    assert report.ok, report.message
    seen = 0
    for record in records:
        grip, a, b, c = record.observation.achieved
        lowest = min(grip[2] - TIP_M, a[2] - HALF if record.phase in ("up", "over") else np.inf)
        for other in (b, c):
            if np.abs(grip - other)[:2].max() < HALF + 0.02:
                seen += 1
                assert lowest > other[2] + HALF
    assert seen


def test_fingers_go_down_open_and_press_while_they_hold(run: Run) -> None:
    _, records = run(subgoal("place", "a_block", (1.40, 0.90, 0.425)))
    fingers = {phase: [float(r.action[3]) for r in records if r.phase == phase] for phase in ("close", "over", "lower")}
    assert all(command < 0 for commands in fingers.values() for command in commands)
    last_down = [r for r in records if r.phase == "down"][-1]
    assert HALF < last_down.observation.state[0] < 0.05
    assert [r for r in records if r.phase == "open"][0].action[3] > 0


def test_stack_stands_on_the_other(run: Run, hand: Hand) -> None:
    wanted = Predicate("on", ("a_block", "b_block"))
    report, _ = run(subgoal("stack", "a_block", (1.32, 0.75, 0.475), wanted))
    assert report.ok, report.message
    assert holds(wanted, hand.scene_state())
    assert report.subgoals[0].why == "on(a_block, b_block) holds"


def test_push_slides_where_the_way_is_clear_and_lifts_where_it_is_not(run: Run, hand: Hand) -> None:
    _, records = run(subgoal("push", "a_block", (1.20, 0.44, 0.425)))
    assert max(r.observation.achieved[1, 2] for r in records) < 0.43
    _, records = run(subgoal("push", "a_block", (1.32, 0.86, 0.425)))
    assert max(r.observation.achieved[1, 2] for r in records) > 0.47
    np.testing.assert_allclose(hand.centres["a_block"], (1.32, 0.86, 0.425), atol=0.01)


def test_pick_holds_on_afterwards_and_place_goes_on_from_there(run: Run, hand: Hand) -> None:
    wanted = Predicate("holding", ("a_block",))
    report, records = run(subgoal("pick", "a_block", (1.20, 0.55, 0.525), wanted))
    assert report.ok, report.message
    assert hand.held == "a_block"
    assert hand.centres["a_block"][2] == pytest.approx(0.525, abs=0.015)
    assert all(r.action[3] < 0 for r in records if r.phase == "hold")
    report, records = run(subgoal("place", "a_block", (1.40, 0.90, 0.425)))
    assert report.ok, report.message
    assert records[0].phase == "up"


def test_reaching_with_a_held_thing_keeps_it(run: Run, hand: Hand) -> None:
    pick = subgoal("pick", "a_block", (1.20, 0.55, 0.525), Predicate("holding", ("a_block",)))
    there = Subgoal("reach", ("1.4,0.7,0.6",), Goal("gripper", (1.4, 0.7, 0.6), ALL), (1.4, 0.7, 0.6), 0.05, 50, ())
    report, _ = run(pick, there)
    assert report.ok, report.message
    assert hand.held == "a_block"


def test_a_thing_that_slips_is_taken_again(run: Run, hand: Hand) -> None:
    hand.slips_at = 30
    report, records = run(subgoal("place", "a_block", (1.40, 0.90, 0.425)))
    assert report.ok, report.message
    closings = [a.step for a, b in zip(records[1:], records, strict=False) if (a.phase, b.phase) == ("close", "down")]
    assert len(closings) == 2
    assert report.subgoals[0].attempts == 1


def test_fingers_that_close_on_nothing_do_not_try_for_ever(run: Run, hand: Hand) -> None:
    hand.mirage = "a_block"
    report, records = run(subgoal("place", "a_block", (1.40, 0.90, 0.425)))
    assert not report.ok
    assert "the fingers closed on nothing" in report.message
    assert sum(a.phase == "close" != b.phase for a, b in zip(records[1:], records, strict=False)) <= 2
    assert report.subgoals[0].steps < 80


def test_a_thing_that_fell_off_the_table_is_not_chased(run: Run, hand: Hand) -> None:
    report, _ = run(subgoal("place", "b_block", (1.60, 0.75, 0.425)))
    assert not report.ok
    assert (report.reason, report.message) == ("impossible", "b_block fell off what it lay on")
    assert hand.centres["b_block"][2] < 0.1
    assert report.subgoals[0].steps < 80


def test_no_attempt_takes_more_steps_than_it_may(run: Run, hand: Hand) -> None:
    report, _ = run(subgoal("place", "a_block", (1.40, 0.90, 0.425), steps=20))
    assert (report.ok, report.reason, report.subgoals[0].steps) == (False, "timed_out", 20)
    report, _ = run(subgoal("place", "b_block", (1.40, 0.90, 0.425), steps=20), retries=1)
    assert (report.subgoals[0].steps, report.subgoals[0].attempts) == (40, 2)


def test_the_gripper_s_row_shows_the_thing_that_is_handled() -> None:
    terms = (Term("object_pos", 3, "m"), Term("is_gripper", 1))
    layout = Layout((), terms, (Term("position", 3, "m"),), ("gripper", "near", "far"))
    rows = np.float32([[1, 1, 1, 1], [1, 1, 1, 0], [2, 2, 2, 0]])
    seen = Observation(np.zeros(0, np.float32), rows, np.zeros((3, 3), np.float32), layout)
    np.testing.assert_array_equal(shown_with(seen, "far").entities, [[2, 2, 2, 1], [1, 1, 1, 0], [2, 2, 2, 0]])
    np.testing.assert_array_equal(seen.entities[0], [1, 1, 1, 1])


def test_a_gripper_that_sags_on_its_way_goes_up_before_it_goes_on(run: Run, hand: Hand) -> None:
    step = hand.step

    def sagging(action: np.ndarray) -> Step:
        if hand.taken == 3:
            hand.grip = hand.grip - (0.0, 0.0, 0.06)
        return step(action)

    hand.step = sagging  # type: ignore[method-assign]
    report, records = run(subgoal("place", "a_block", (1.40, 0.90, 0.425)))
    assert report.ok, report.message
    stages = [a.phase for a, b in zip(records, [None, *records], strict=False) if b is None or a.phase != b.phase]
    assert stages[:5] == ["clear", "above", "clear", "above", "down"]


def test_a_controller_that_never_took_hold_of_anything_pushes_by_itself(run: Run) -> None:
    _, records = run(subgoal("push", "a_block", (1.20, 0.70, 0.425), steps=10), offers=("push",))
    assert {r.phase for r in records} == {"go", "hold"}
    assert {r.goal.entity for r in records if r.phase == "go"} == {"a_block"}


def near(thing: str, other: str) -> Predicate:
    return Predicate("near", (thing, other))


def test_what_was_done_and_is_undone_is_done_again(run: Run, hand: Hand) -> None:
    """While b is on its way, a is carried off by somebody: back to a, with what came after it left as it is."""
    step = hand.step

    meddled: list[int] = []

    def meddling(action: np.ndarray) -> Step:
        if hand.held == "b_block" and not meddled:
            meddled.append(hand.taken)
            hand.centres["a_block"] = np.array([1.10, 0.45, 0.425])
        return step(action)

    hand.step = meddling  # type: ignore[method-assign]
    first = subgoal("place", "a_block", (1.26, 0.61, 0.425), near("a_block", "c_block"))
    report, _ = run(first, subgoal("place", "b_block", (1.40, 0.95, 0.425)))
    assert report.ok, report.message
    assert report.step_backs == 1
    assert [s.attempts for s in report.subgoals] == [2, 1]
    assert "stepped back to place(a_block" in report.recoveries[0]
    np.testing.assert_allclose(hand.centres["a_block"], (1.26, 0.61, 0.425), atol=0.01)


def test_stepping_back_has_an_end(run: Run, hand: Hand) -> None:
    """Somebody takes it away whenever it lies there: so often and no oftener it is put back, and that is said."""
    step = hand.step

    def spiteful(action: np.ndarray) -> Step:
        lies = abs(hand.centres["a_block"][1] - 0.61) < 0.02 and not hand.held and hand.grip[2] > 0.48
        if lies:
            hand.centres["a_block"] = np.array([1.10, 0.45, 0.425])
        return step(action)

    hand.step = spiteful  # type: ignore[method-assign]
    first = subgoal("place", "a_block", (1.26, 0.61, 0.425), near("a_block", "c_block"), steps=60)
    report, records = run(first, subgoal("place", "b_block", (1.40, 0.95, 0.425)), retries=1)
    assert not report.ok
    assert report.reason == "timed_out"
    assert report.step_backs <= ExecutorConfig().step_backs
    assert len(records) < 1000


def test_a_target_that_moves_is_aimed_at_again(hand: Hand, scripted: Any, teller: Any) -> None:
    """b is to be stacked on, and is moved while a is carried to it."""
    step = hand.step

    def shifting(action: np.ndarray) -> Step:
        if hand.taken == 30:
            hand.centres["b_block"] = np.array([1.40, 0.95, 0.425])
        return step(action)

    def ground(steps: Any, scene: Any) -> Plan:
        below = next(item for item in scene.objects if item.id == "b_block")
        at = (below.position_m[0], below.position_m[1], below.position_m[2] + 2 * HALF)
        on = Predicate("on", ("a_block", "b_block"))
        return Plan("", (Subgoal("stack", ("a_block", "b_block"), Goal("a_block", at, ALL), at, 0.03, 150, (on,)),), "")

    hand.step = shifting  # type: ignore[method-assign]
    controller = scripted()
    controller.manifest = replace(controller.manifest, skills=("pick", "place"))
    describer = teller(hand)
    executor = Executor(hand, {"stack": controller}, describer, config=ExecutorConfig(retries=0), ground=ground)
    report = executor.run(ground((), describer.describe()), hand.observe())
    assert report.ok, report.message
    assert (report.adjustments, report.retries) == (1, 0)
    np.testing.assert_allclose(hand.centres["a_block"], (1.40, 0.95, 0.475), atol=0.015)
