"""The whole chain on real physics: described, planned, grounded, carried out by a script, and judged anew."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from embodied.facts import all_facts
from embodied.hierarchy.executor import Executor
from embodied.hierarchy.monitor import ExecutionReport, StepRecord
from embodied.planning.grounding import GroundingContext, ground
from embodied.planning.rules import RulesPlanner
from embodied.types import FloatArray, Goal, Observation, Plan, PlanFailure, PolicyManifest
from vlm_describer.oracle import OracleDescriber

mujoco = pytest.importorskip("mujoco")
HANDED = Path(__file__).parents[1] / "data" / "instructions" / "handed.jsonl"


class Proportional:
    """Towards the goal, never faster than the action's limits; asks for open fingers, which nobody should heed."""

    def __init__(self, env: Any) -> None:
        spec = env.spec
        self.manifest = PolicyManifest(
            task="scripted", robot="fetch", robot_terms=(), entity_terms=(), goal_terms=spec.layout.goal,
            action_terms=spec.actions, action_low=spec.action_low, action_high=spec.action_high, goal_entity="gripper",
            skills=("reach", "touch"), frame="base", control_hz=25.0, tolerance=0.05,
        )  # fmt: skip

    def act(self, observation: Observation, goal: Goal) -> FloatArray:
        error = goal.value - observation.achieved[observation.layout.entity_index("gripper")]
        return np.append(np.clip(10 * error, -1, 1), 1.0).astype(np.float32)


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Any]:
    from robots.tabletop import TabletopEnv

    with contextlib.ExitStack() as stack:

        def make(scene: str) -> Any:
            env = stack.enter_context(contextlib.closing(TabletopEnv(scene, out_dir=tmp_path)))
            env.reset(0)
            return env

        yield make


def carry_out(env: Any, instruction: str) -> tuple[ExecutionReport, list[StepRecord], list[np.ndarray]]:
    describer, planner = OracleDescriber(env.scene_state), RulesPlanner()
    context = GroundingContext.for_robot("fetch")
    grounder = partial(ground, context=context, instruction=instruction, planner="rules")
    scene = describer.describe()
    steps = planner.propose(instruction, scene)
    assert not isinstance(steps, PlanFailure), steps
    plan = grounder(steps, scene)
    assert isinstance(plan, Plan), plan
    assert all(context.in_reach(subgoal, scene) for subgoal in plan.subgoals)
    records: list[StepRecord] = []
    states: list[np.ndarray] = []
    observers = [records.append, lambda record: states.append(env.record()[1])]
    controller = Proportional(env)
    executor = Executor(
        env, {"reach": controller, "touch": controller}, describer, planner, observers=observers, ground=grounder
    )
    return executor.run(plan), records, states


def touched_in(compiled: Path, states: list[np.ndarray], thing: str) -> list[bool]:
    """Whether a body of the gripper touches the thing, state by state, from the file and qpos alone."""
    model = mujoco.MjModel.from_xml_path(str(compiled))
    data, touched = mujoco.MjData(model), []
    for qpos in states:
        data.qpos[:] = qpos
        mujoco.mj_forward(model, data)
        names = [{model.body(model.geom_bodyid[g]).name for g in contact.geom} for contact in data.contact[: data.ncon]]
        touched.append(any(thing in pair and any("gripper" in other for other in pair - {thing}) for pair in names))
    return touched


@pytest.mark.parametrize(
    ("scene", "instruction", "things"),
    [
        ("tabletop_blocks", "touch the red block, then the blue block", ["red_block", "blue_block"]),
        ("tabletop_blocks", "touch the left tray and the right tray", ["left_tray", "right_tray"]),
        ("desk_unnamed", "touch the teal cylinder", ["obj1"]),
    ],
)
def test_touches_are_carried_out_and_agree_with_the_recorded_states(
    opened: Any, scene: str, instruction: str, things: list[str]
) -> None:
    env = opened(scene)
    report, records, states = carry_out(env, instruction)
    assert report.ok, report.message
    assert [(s.skill, s.args, s.reached) for s in report.subgoals] == [("touch", (thing,), True) for thing in things]
    assert len(states) == report.steps
    for index, thing in enumerate(things):
        at = next(k for k, record in enumerate(records) if record.reached and record.subgoal == index)
        touched = touched_in(env.compiled_scene, states, thing)
        first = next(k for k, record in enumerate(records) if record.subgoal == index and record.phase != "hold")
        assert touched[at]
        assert not any(touched[first:at])
    assert {float(record.action[3]) for record in records} == {-1.0}
    assert report.final_facts == all_facts(env.scene_state())


def test_the_gripper_rises_between_touches_and_leaves_other_things_alone(opened: Any) -> None:
    env = opened("tabletop_blocks")
    before = {e.id: e.position_m for e in env.scene_state().entities}
    report, records, _ = carry_out(env, "touch the red block, then the blue block")
    first = next(k for k, record in enumerate(records) if record.reached)
    heights = [float(r.observation.achieved[0, 2]) for r in records if r.subgoal == 1 and r.phase in ("rise", "hover")]
    assert max(heights) - float(records[first].observation.achieved[0, 2]) >= 0.10
    assert not any(("green_block", "gripper") in r.state.contacts for r in records)
    for entity in env.scene_state().entities:
        np.testing.assert_allclose(entity.position_m, before[entity.id], atol=0.01)
    assert {"on(red_block, table)", "on(blue_block, table)"} <= {str(fact) for fact in report.final_facts}


def test_handed_instructions_meet_what_the_simulator_describes(opened: Any) -> None:
    """The real descriptions, not hand-written ones: planned and grounded, or refused."""
    planner, context = RulesPlanner(), GroundingContext.for_robot("fetch")
    lines = [json.loads(line) for line in HANDED.read_text(encoding="utf-8").splitlines()]
    for scene in ("tabletop_blocks", "desk_unnamed"):
        description = OracleDescriber(opened(scene).scene_state).describe()
        assert description.text.isascii()
        for line in (line for line in lines if line["scene"] == scene):
            steps = planner.propose(line["instruction"], description)
            plan = steps if isinstance(steps, PlanFailure) else ground(steps, description, context)
            understood = line.get("expect") != "failure" and line["instruction"].isascii()
            assert isinstance(plan, Plan) == understood, (line["instruction"], plan)
