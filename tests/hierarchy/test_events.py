"""What listeners hear of an execution, and what an arm will show after a subgoal."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from embodied.hierarchy.executor import Executor
from embodied.hierarchy.foresight import after
from embodied.hierarchy.monitor import Event, StepRecord
from embodied.spec import Layout, Term
from embodied.types import Goal, Observation, Plan, Subgoal

ALL = np.ones(3, dtype=bool)
TERMS = (Term("object_pos", 3, "m", "base"), Term("object_rel_pos", 3, "m", "base"), Term("is_gripper", 1, "1", "none"))
LAYOUT = Layout(
    (Term("grip_pos", 3, "m", "base"), Term("fingers", 2, "m", "joint")),
    TERMS,
    (Term("position", 3, "m"),),
    ("gripper", "cup", "jar"),
)


def reach(x: float, max_steps: int = 50) -> Subgoal:
    at = (x, 0.75, 0.6)
    return Subgoal("reach", (f"{x}",), Goal("gripper", np.array(at, dtype=np.float32), ALL), at, 0.03, max_steps, ())


def test_a_subgoal_begins_and_ends_with_an_event(world: Any, scripted: Any, teller: Any) -> None:
    events: list[Event] = []
    records: list[StepRecord] = []
    executor = Executor(
        world, {"reach": scripted()}, teller(world), observers=[records.append], listeners=[events.append]
    )
    report = executor.run(Plan("", (reach(1.2), reach(9.0, max_steps=4)), "test"), world.observe())
    assert [(e.kind, e.subgoal, e.attempt) for e in events] == [
        ("begins", 0, 1), ("reached", 0, 1), ("begins", 1, 1), ("missed", 1, 1), ("recovery", 1, 1), ("begins", 1, 2),
        ("missed", 1, 2),
    ]  # fmt: skip
    assert [e.call for e in events[:3]] == ["reach(1.2)", "reach(1.2)", "reach(9.0)"]
    assert events[1].step == report.subgoals[0].steps
    assert "is tried again" in events[4].text
    assert report.recoveries == (f"step {events[4].step}: {events[4].text}",)
    assert {(r.subgoal, r.attempt) for r in records} == {(0, 1), (1, 1), (1, 2)}


def shown() -> Observation:
    """The gripper over the cup; the jar further away."""
    places = np.array([[1.3, 0.7, 0.6], [1.3, 0.7, 0.45], [1.5, 0.9, 0.45]], dtype=np.float32)
    entities = np.zeros((3, 7), dtype=np.float32)
    entities[1:, :3], entities[1:, 3:6] = places[1:], places[1:] - places[0]
    entities[0, :6], entities[0, 6] = entities[1, :6], 1.0
    return Observation(np.array([*places[0], 0.05, 0.05], dtype=np.float32), entities, places, LAYOUT)


def test_what_is_moved_will_be_where_it_shall_be() -> None:
    target = np.array([1.5, 0.8, 0.5], dtype=np.float32)
    before = shown()
    then = after(before, Subgoal("place", ("cup", "jar"), Goal("cup", target, ALL), (0, 0, 0), 0.03, 50, ()))
    np.testing.assert_array_equal(then.state, [*target, np.float32(0.05), np.float32(0.05)])
    np.testing.assert_array_equal(then.achieved, [target, target, before.achieved[2]])
    np.testing.assert_array_equal(then.entities[1], [*target, 0, 0, 0, 0])
    np.testing.assert_allclose(then.entities[2, 3:6], before.achieved[2] - target)
    np.testing.assert_array_equal(then.entities[0], [*target, 0, 0, 0, 1])
    np.testing.assert_array_equal(before.achieved, shown().achieved)


def test_a_reach_moves_the_gripper_alone() -> None:
    target = np.array([1.5, 0.9, 0.6], dtype=np.float32)
    then = after(shown(), Subgoal("reach", ("jar",), Goal("gripper", target, ALL), (0, 0, 0), 0.03, 50, ()))
    np.testing.assert_array_equal(then.achieved[1:], shown().achieved[1:])
    np.testing.assert_allclose(then.entities[0, :3], shown().achieved[2])
    hold = Subgoal("hold", (), Goal("gripper", target, ~ALL), (0, 0, 0), 0.03, 50, ())
    assert after(shown(), hold).achieved == pytest.approx(shown().achieved)
