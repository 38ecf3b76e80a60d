"""The executor in a kinematic world: what it reaches, what it says when it does not, and its bounds."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest

from embodied.errors import JobFailed, LayoutError
from embodied.facts import holds
from embodied.hierarchy.executor import Executor, ExecutorConfig
from embodied.hierarchy.monitor import ExecutionReport, StepRecord
from embodied.types import (
    Goal,
    Observation,
    Plan,
    PlanFailure,
    PlanStep,
    Predicate,
    SceneDescription,
    SceneState,
    StepOutcome,
    Subgoal,
)

DEPTH = 0.05
ALL = np.ones(3, dtype=bool)


def touch(scene: SceneDescription | SceneState, name: str, max_steps: int = 50) -> Subgoal:
    """As grounding makes it, in a few lines."""
    things = scene.objects if isinstance(scene, SceneDescription) else scene.entities
    base = scene.base if isinstance(scene, SceneDescription) else scene.frame
    thing = next(item for item in things if item.id == name)
    top = np.asarray(thing.position_m) + (0.0, 0.0, thing.half_extents_m[2])
    goal = Goal("gripper", base.to_base(top - (0.0, 0.0, DEPTH)), ALL)
    success = (Predicate("touching", ("gripper", name)),)
    return Subgoal("touch", (name,), goal, tuple(float(v) for v in top), 0.05, max_steps, success)


def reach(at: tuple[float, float, float], max_steps: int = 50) -> Subgoal:
    return Subgoal("reach", (",".join(map(str, at)),), Goal("gripper", at, ALL), at, 0.05, max_steps, ())


def ground(steps: Sequence[PlanStep], scene: SceneDescription, max_steps: int = 50) -> Plan | PlanFailure:
    names = {item.id for item in scene.objects}
    for step in steps:
        if step.args[0] not in names:
            return PlanFailure("unknown_object", f"there is no '{step.args[0]}'")
    return Plan("touch things", tuple(touch(scene, s.args[0], s.max_steps or max_steps) for s in steps), "fake")


def plan_of(*subgoals: Subgoal, instruction: str = "touch things") -> Plan:
    return Plan(instruction, subgoals, "fake")


class Script:
    """A planner that answers with the given steps and counts how often it was asked."""

    name = "script"

    def __init__(self, *answers: Sequence[PlanStep] | PlanFailure) -> None:
        self.answers, self.asked = list(answers), 0

    def propose(self, instruction: str, scene: SceneDescription) -> Sequence[PlanStep] | PlanFailure:
        self.asked += 1
        return self.answers.pop(0)


@pytest.fixture
def run(world: Any, scripted: Any, teller: Any) -> Callable:
    """Runs subgoals in the world; returns the report and the step records."""

    def go(
        *subgoals: Subgoal, controller: Any = None, planner: Any = None, config: Any = None, with_ground: bool = True
    ) -> tuple[ExecutionReport, list[StepRecord]]:
        controller = controller or scripted()
        records: list[StepRecord] = []
        executor = Executor(
            world, {"reach": controller, "touch": controller}, teller(world), planner, config, [records.append],
            ground=ground if with_ground else None,
        )  # fmt: skip
        return executor.run(plan_of(*subgoals), world.observe()), records

    return go


def test_two_touches_are_reached_with_a_rise_between(run: Callable, world: Any) -> None:
    state = world.scene_state()
    report, records = run(touch(state, "red_block"), touch(state, "blue_block"))
    assert report.ok
    assert (report.reason, report.message) == (None, "")
    assert [(s.skill, s.args, s.reached, s.attempts) for s in report.subgoals] == [
        ("touch", ("red_block",), True, 1),
        ("touch", ("blue_block",), True, 1),
    ]
    assert report.subgoals[0].why == "touching(gripper, red_block) became true"
    rise = [r for r in records if r.subgoal == 1 and r.phase == "rise"]
    contact_z = next(r for r in records if r.reached).observation.achieved[0, 2]
    assert rise[-1].observation.achieved[0, 2] - contact_z >= 0.10 - 1e-6
    across = [r for r in records if r.subgoal == 1 and r.phase == "hover"]
    assert all(r.observation.achieved[0, 2] >= 0.45 + 0.05 for r in across)


def test_observers_see_every_step_and_the_report_adds_up(run: Callable, world: Any) -> None:
    state = world.scene_state()
    report, records = run(touch(state, "red_block"), reach((1.3, 0.6, 0.6)))
    assert [r.step for r in records] == list(range(1, len(world.actions) + 1))
    assert report.steps == len(records)
    assert sum(s.steps for s in report.subgoals) == len([r for r in records if r.phase != "hold"])
    assert [r.phase for r in records[-13:]] == ["hold"] * 13  # 0.5 s at 25 Hz, rounded up
    assert [sum(r.reached for r in records if r.subgoal == k) for k in (0, 1)] == [1, 1]
    touched = next(r for r in records if r.reached)
    assert holds(Predicate("touching", ("gripper", "red_block")), touched.state)
    assert records[-1].time_s == records[-1].state.time_s
    assert report.final_facts == tuple(f for f in report.final_facts if holds(f, records[-1].state))


def test_fingers_stay_closed_and_holding_still_is_zero(run: Callable, world: Any) -> None:
    report, records = run(touch(world.scene_state(), "red_block"))
    assert report.ok
    assert {float(r.action[3]) for r in records} == {-1.0}
    assert all(not r.action[:3].any() for r in records if r.phase == "hold")
    assert np.ptp([r.observation.achieved[0] for r in records if r.phase == "hold"], axis=0).max() == 0


def test_touch_must_become_true(run: Callable, world: Any) -> None:
    world.grip = np.array([1.22, 0.75, 0.46])  # already touching
    state = world.scene_state()
    assert holds(Predicate("touching", ("gripper", "red_block")), state)
    report, records = run(touch(state, "red_block"), touch(state, "red_block"))
    assert not report.subgoals[0].why.startswith("already")
    # The contact never ended during the first attempt; after the rise before the retry it begins anew.
    assert (report.subgoals[0].attempts, report.subgoals[0].reached) == (2, True)
    assert (report.subgoals[1].attempts, report.subgoals[1].reached) == (1, True)
    assert any(r.phase == "rise" for r in records if r.subgoal == 1)


def test_what_already_holds_takes_no_step(run: Callable, world: Any) -> None:
    report, records = run(reach(tuple(float(v) for v in world.grip)))
    assert (report.subgoals[0].reached, report.subgoals[0].steps) == (True, 0)
    assert report.subgoals[0].why.startswith("already true")
    assert {r.phase for r in records} == {"hold"}


def test_a_controller_that_stops_short_still_touches(run: Callable, world: Any, scripted: Any) -> None:
    report, _ = run(touch(world.scene_state(), "red_block"), controller=scripted(short=0.045))
    assert report.ok
    report, _ = run(reach((1.2, 0.6, 0.6)), controller=scripted(short=0.045))
    assert report.ok
    assert 0.04 < report.subgoals[0].distance_m <= 0.05


def test_a_no_op_controller_reaches_nothing_and_it_is_said(run: Callable, world: Any, scripted: Any) -> None:
    idle = scripted(act_as=lambda observation, goal: np.zeros(4, dtype=np.float32))
    state = world.scene_state()
    report, records = run(touch(state, "red_block"), touch(state, "blue_block"), controller=idle)
    assert not report.ok
    assert report.reason == "timed_out"
    assert [s.reached for s in report.subgoals] == [False, False]
    assert "nothing moved in 50 steps" in report.subgoals[0].why
    assert (report.subgoals[1].why, report.subgoals[1].attempts, report.subgoals[1].steps) == ("not tried", 0, 0)
    assert report.subgoals[0].attempts == 2
    assert report.retries == 1
    assert len(records) == 2 * 50 + 13


def test_a_controller_that_swings_is_no_success(run: Callable, scripted: Any) -> None:
    swing = [1.0]

    def act(observation: Observation, goal: Goal) -> np.ndarray:
        swing[0] = -swing[0]
        return np.array([swing[0], 0, 0, 0], dtype=np.float32)

    report, _ = run(reach((1.2, 0.5, 0.6)), controller=scripted(act_as=act), with_ground=False)
    assert not report.ok
    assert report.subgoals[0].why.startswith("timed_out after 50 steps")
    assert report.subgoals[0].distance_m > 0.2


def test_a_thing_moved_on_the_way_is_found_again(run: Callable, world: Any) -> None:
    def shove(moving: Any) -> None:
        if len(moving.actions) == 2:
            moving.centres["red_block"] = np.array([1.30, 0.60, 0.425])

    world.after = shove
    report, records = run(touch(world.scene_state(), "red_block", max_steps=30))
    assert report.ok
    assert (report.subgoals[0].attempts, report.retries, report.adjustments, report.replans) == (2, 0, 1, 0)
    np.testing.assert_allclose(records[-1].observation.achieved[0, :2], (1.30, 0.60), atol=0.04)


def test_a_thing_that_is_gone_is_not_looked_for(run: Callable, world: Any, scripted: Any) -> None:
    subgoal = touch(world.scene_state(), "red_block")
    idle = broken_for(10_000, scripted)
    report, _ = run(replace(subgoal, args=("ghost",)), controller=idle)
    assert report.reason == "unknown_object"
    assert report.subgoals[0].why.startswith("timed_out")
    assert report.subgoals[0].why.endswith("no retry: there is no 'ghost'")


def test_without_grounding_a_moved_thing_stays_missed(run: Callable, world: Any) -> None:
    world.after = lambda moving: moving.centres.update(red_block=np.array([1.30, 0.60, 0.425]))
    report, _ = run(touch(world.scene_state(), "red_block"), with_ground=False)
    assert not report.ok
    assert report.replans == 0


def broken_for(steps: int, scripted: Any) -> object:
    """A controller that does nothing for so many calls."""
    good, calls = scripted(), [0]

    def act(observation: Observation, goal: Goal) -> np.ndarray:
        calls[0] += 1
        return good.act(observation, goal) if calls[0] > steps else np.zeros(4, dtype=np.float32)

    return scripted(act_as=act)


def test_when_retries_are_used_up_the_planner_is_asked_once(run: Callable, world: Any, scripted: Any) -> None:
    both = [PlanStep("touch", ("red_block",)), PlanStep("touch", ("blue_block",))]
    state, planner = world.scene_state(), Script(both, both)
    report, _ = run(
        touch(state, "red_block"), touch(state, "blue_block"), controller=broken_for(100, scripted), planner=planner
    )
    assert report.ok
    assert (report.replans, planner.asked) == (1, 1)
    assert [(s.reached, s.attempts) for s in report.subgoals] == [(True, 3), (True, 1)]
    idle = broken_for(10_000, scripted)
    report, _ = run(touch(state, "red_block"), controller=idle, planner=planner)
    assert not report.ok
    assert (report.replans, planner.asked) == (1, 2)
    assert report.subgoals[0].attempts == 4


def test_a_planner_with_a_memory_is_told_what_was_done_and_what_failed(
    run: Callable, world: Any, scripted: Any
) -> None:
    class Reminded(Script):
        told: tuple[StepOutcome, ...] = ()

        def remind(self, history: Sequence[StepOutcome]) -> None:
            self.told = tuple(history)

    state, planner = world.scene_state(), Reminded([PlanStep("touch", ("blue_block",))])
    far = reach((1.3, 0.7, 9.0), max_steps=5)
    report, _ = run(touch(state, "red_block"), far, controller=scripted(), planner=planner)
    assert [(item.step.skill, item.step.args[0], item.reached) for item in planner.told] == [
        ("touch", "red_block", True),
        ("reach", "1.3,0.7,9.0", False),
    ]
    assert planner.told[1].why == report.subgoals[1].why != ""


def test_what_was_done_is_not_done_again(run: Callable, world: Any, scripted: Any) -> None:
    both = [PlanStep("touch", ("red_block",)), PlanStep("touch", ("blue_block",))]
    good, fails = scripted(), [0]

    def act(observation: Observation, goal: Goal) -> np.ndarray:
        going_to_blue = goal.value[0] > 1.3
        fails[0] += going_to_blue
        return np.zeros(4, dtype=np.float32) if going_to_blue and fails[0] <= 90 else good.act(observation, goal)

    state = world.scene_state()
    planner = Script(both)
    report, records = run(
        touch(state, "red_block"), touch(state, "blue_block"), controller=scripted(act_as=act), planner=planner
    )
    assert report.ok
    assert [(s.args[0], s.reached) for s in report.subgoals] == [("red_block", True), ("blue_block", True)]
    assert planner.asked == 1
    assert sum(r.reached for r in records) == 2


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (PlanFailure("model_unavailable", "no model"), "model_unavailable"),
        ([PlanStep("touch", ("ghost",))], "unknown_object"),
    ],
)
def test_a_planner_that_gives_up_ends_it(run: Callable, world: Any, scripted: Any, answer: Any, reason: str) -> None:
    idle = broken_for(10_000, scripted)
    report, _ = run(touch(world.scene_state(), "red_block"), controller=idle, planner=Script(answer))
    assert not report.ok
    assert report.reason == reason
    assert "replanning failed" in report.message


def test_a_plan_with_nothing_left_does_not_hide_the_failure(run: Callable, world: Any, scripted: Any) -> None:
    state = world.scene_state()
    good = scripted()

    def act(observation: Observation, goal: Goal) -> np.ndarray:
        return np.zeros(4, dtype=np.float32) if goal.value[0] > 1.3 else good.act(observation, goal)

    planner = Script([PlanStep("touch", ("red_block",))])
    report, _ = run(
        touch(state, "red_block"), touch(state, "blue_block"), controller=scripted(act_as=act), planner=planner
    )
    assert not report.ok
    assert [s.reached for s in report.subgoals] == [True, False]


def test_every_bound_holds(run: Callable, world: Any, scripted: Any) -> None:
    idle = broken_for(10_000, scripted)
    state = world.scene_state()
    config = ExecutorConfig(max_total_steps=70)
    report, records = run(touch(state, "red_block"), controller=idle, config=config)
    assert not report.ok
    assert report.reason == "timed_out"
    assert "70 control steps" in report.message
    assert len(records) == 70 + 13
    config = ExecutorConfig(retries=0, replans=0)
    report, records = run(touch(state, "red_block", max_steps=5), controller=idle, config=config)
    assert (report.subgoals[0].steps, report.subgoals[0].attempts) == (5, 1)


def test_max_steps_bounds_an_attempt_with_its_waypoints(run: Callable, world: Any, scripted: Any) -> None:
    state = world.scene_state()
    slow = scripted(gain=0.5)
    report, records = run(
        touch(state, "red_block", max_steps=12), controller=slow, config=ExecutorConfig(retries=0, replans=0)
    )
    assert report.subgoals[0].steps == 12
    assert {r.phase for r in records} >= {"hover", "go"}


def test_hold_stands_still_for_its_steps(run: Callable) -> None:
    hold = Subgoal("hold", (), Goal("gripper", np.zeros(3), ~ALL), (0.0, 0.0, 0.0), 0.05, 20, ())
    report, records = run(hold)
    assert report.ok
    assert (report.subgoals[0].steps, report.subgoals[0].why) == (20, "held still")
    assert len(records) == 20 + 13
    assert json.dumps(report.to_dict())  # a distance that does not exist is null, not NaN
    assert report.to_dict()["executed"][0]["distance_m"] is None


def test_a_skill_without_controller_is_refused_before_moving(world: Any, scripted: Any, teller: Any) -> None:
    push = Subgoal("push", ("red_block", "left"), Goal("red_block", np.zeros(3), ALL), (0.0, 0.0, 0.0), 0.05, 50, ())
    executor = Executor(world, {"reach": scripted(), "touch": scripted()}, teller(world))
    with pytest.raises(JobFailed) as caught:
        executor.run(plan_of(reach((1.3, 0.7, 0.6)), push), world.observe())
    assert caught.value.reason == "impossible"
    assert "skills available: hold, reach, touch" in str(caught.value)
    assert world.actions == []


def test_a_controller_or_goal_that_does_not_fit_is_refused_before_moving(
    world: Any,
    scripted: Any,
    teller: Any,
    wrong_actions: Any,
) -> None:
    with pytest.raises(LayoutError, match="force"):
        Executor(world, {"reach": wrong_actions}, teller(world)).run(plan_of(reach((1.3, 0.7, 0.6))))
    drive = Subgoal("go_to", ("p",), Goal("robot", np.zeros(3), ALL), (0.0, 0.0, 0.0), 0.05, 50, ())
    with pytest.raises(LayoutError, match="no entity 'robot'"):
        Executor(world, {"go_to": scripted()}, teller(world)).run(plan_of(drive))
    assert world.actions == []


def test_without_an_observation_one_step_of_holding_shows_the_scene(world: Any, scripted: Any, teller: Any) -> None:
    records: list[StepRecord] = []
    executor = Executor(world, {"touch": scripted()}, teller(world), observers=[records.append])
    report = executor.run(plan_of(touch(world.scene_state(), "red_block")))
    assert report.ok
    assert records[0].phase == "hold"
    assert report.steps == len(records) == len(world.actions)


def test_an_episode_that_ends_stops_the_execution(run: Callable, world: Any) -> None:
    world.ends_at = 3
    report, _ = run(touch(world.scene_state(), "red_block"))
    assert not report.ok
    assert report.reason == "impossible"
    assert "ended the episode" in report.subgoals[0].why


def test_what_was_placed_has_to_stay(run: Callable, world: Any, scripted: Any, teller: Any) -> None:
    """A fact that held for a moment and no longer after the final hold is no success."""
    near = (Predicate("near", ("red_block", "blue_block")),)
    at = tuple(float(v) for v in world.centres["blue_block"] + (-0.07, 0.0, 0.0))
    push = Subgoal("push", ("red_block", "near:blue_block"), Goal("red_block", at, ALL), at, 0.05, 50, near)

    def drift(moving: Any) -> None:
        moving.centres["red_block"] = np.array([1.31, 0.83, 0.425]) if len(moving.actions) == 1 else np.zeros(3)

    world.after = drift
    executor = Executor(world, {"push": scripted()}, teller(world), config=ExecutorConfig(retries=0, step_backs=0))
    report = executor.run(plan_of(push), world.observe())
    assert not report.ok
    assert report.subgoals[0].why.endswith("no longer after holding still")


def test_the_turned_world_gives_the_same_actions(world: Any, turned_world: Any, scripted: Any, teller: Any) -> None:
    for place in (world, turned_world):
        state = place.scene_state()
        executor = Executor(place, {"touch": scripted()}, teller(place), ground=partial(ground))
        assert executor.run(plan_of(touch(state, "red_block"), touch(state, "blue_block")), place.observe()).ok
    np.testing.assert_allclose(np.stack(world.actions), np.stack(turned_world.actions), atol=1e-5)


def test_what_is_to_be_left_alone_and_is_touched_fails_the_plan_for_good(run: Callable, world: Any) -> None:
    careful = replace(touch(world.scene_state(), "red_block"), avoid=("red_block",))
    planner = Script((PlanStep("touch", ("red_block",)),))
    report, _ = run(careful, planner=planner)
    assert not report.ok
    assert report.reason == "impossible"
    assert "touched red_block, which was to be left alone" in report.message
    assert planner.asked == 0, "it cannot be made good by another plan"
    elsewhere = replace(touch(world.scene_state(), "red_block"), avoid=("blue_block",))
    assert run(elsewhere)[0].ok
