"""A person who looks on: stops, skips, replaces."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from embodied.hierarchy.executor import Executor
from embodied.hierarchy.monitor import ExecutionReport, StepRecord
from embodied.hierarchy.operator import Order
from embodied.types import Goal, Plan, PlanStep, Subgoal

ALL = np.ones(3, dtype=bool)
Run = Callable[..., tuple[ExecutionReport, list[StepRecord]]]


def reach(at: tuple[float, float, float]) -> Subgoal:
    return Subgoal("reach", (",".join(map(str, at)),), Goal("gripper", at, ALL), at, 0.02, 50, ())


def ground(steps: Any, scene: Any) -> Plan:
    del scene
    return Plan("", tuple(reach(tuple(float(v) for v in step.args[0].split(","))) for step in steps), "operator")


@pytest.fixture
def run(world: Any, scripted: Any, teller: Any) -> Run:
    def go(order: Order, at_step: int) -> Any:
        records: list[StepRecord] = []
        executor = Executor(
            world, {"reach": scripted(gain=2.0)}, teller(world), observers=[records.append], ground=ground,
            operator=lambda record: order if record.step == at_step else None,
        )  # fmt: skip
        return executor.run(
            Plan("go", (reach((1.2, 0.5, 0.6)), reach((1.3, 0.9, 0.6))), "fake"), world.observe()
        ), records

    return go


def test_stop_holds_at_once_and_for_good(run: Run) -> None:
    report, records = run(Order("stop"), 3)
    assert not report.ok
    assert "stopped by the operator" in report.message
    assert [s.reached for s in report.subgoals] == [False, False]
    assert {r.phase for r in records[3:]} == {"hold"}
    assert all(not r.action[:3].any() for r in records[3:])


def test_skip_goes_on_with_the_next(run: Run) -> None:
    report, _ = run(Order("skip"), 3)
    assert [s.reached for s in report.subgoals] == [False, True]
    assert report.subgoals[0].why == "skipped by the operator"
    assert report.subgoals[0].steps == 3


def test_replace_does_the_other_step_then_the_rest(run: Run, world: Any) -> None:
    report, records = run(Order("replace", PlanStep("reach", ("1.4,0.6,0.5",))), 3)
    assert report.ok
    assert [(s.args[0], s.reached) for s in report.subgoals] == [
        ("1.2,0.5,0.6", False), ("1.4,0.6,0.5", True), ("1.3,0.9,0.6", True),
    ]  # fmt: skip
    assert report.subgoals[0].why == "replaced by the operator"
    assert any(np.linalg.norm(r.observation.achieved[0] - (1.4, 0.6, 0.5)) < 0.025 for r in records)
