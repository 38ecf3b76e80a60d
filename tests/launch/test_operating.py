"""Keys of a terminal as orders."""

from __future__ import annotations

import os
import pty
import time

import numpy as np
import pytest
from embodied_launch.operating import KeyOperator, operating, refuse_inoperable

from embodied.errors import UserError
from embodied.hierarchy.monitor import StepRecord
from embodied.types import Goal, Observation, Plan, PlanStep, Subgoal

GOAL = Goal("gripper", np.zeros(3), np.ones(3, dtype=bool))


def record(subgoal: int = 0) -> StepRecord:
    nothing = Observation(np.zeros(0), np.zeros((0, 0)), np.zeros((0, 3)), None)  # type: ignore[arg-type]
    return StepRecord(7, 0.3, subgoal, "go", GOAL, 0.123, nothing, np.zeros(4), None, False)  # type: ignore[arg-type]


def operator(keys: str, line: str = "") -> tuple[KeyOperator, list[str]]:
    pressed, said = list(keys), list[str]()
    made = KeyOperator(lambda: pressed.pop(0) if pressed else "", lambda prompt: line, said.append, ["touch(red)"])
    return made, said


def test_one_key_stops_and_others_say_skip_show() -> None:
    made, said = operator(" slx")
    assert made(record()).kind == "stop"  # type: ignore[union-attr]
    assert made(record()).kind == "skip"  # type: ignore[union-attr]
    assert made(record()) is None
    assert said == ["step 7: touch(red), go, 0.123 m to go"]
    assert made(record()) is None
    assert "space or q stops" in said[-1]
    assert made(record()) is None


def test_a_person_can_keep_up() -> None:
    made = KeyOperator(lambda: "", lambda prompt: "", print, [], period_s=0.03)
    began = time.monotonic()
    for _ in range(4):
        made(record())
    assert time.monotonic() - began >= 3 * 0.03


def test_a_replacement_is_a_checked_step() -> None:
    order = operator("r", "place red_block left_tray\n")[0](record())
    assert order is not None
    assert order.step == PlanStep("place", ("red_block", "left_tray"))
    for wrong in ("place red_block\n", "rm -rf\n", "\n"):
        made, said = operator("r", wrong)
        assert made(record()) is None
        assert wrong.strip() == "" or said[-1].startswith("refused")


def test_keys_of_a_terminal_are_read_as_they_come_and_it_is_left_as_it_was() -> None:
    import termios

    ours, theirs = pty.openpty()
    with os.fdopen(theirs, "r") as terminal:
        before = termios.tcgetattr(terminal)
        plan = Plan("", (Subgoal("hold", (), GOAL, (0, 0, 0), 0.05, 5, ()),), "")
        with operating(plan, lambda line: None, terminal) as made:
            assert made(record()) is None
            os.write(ours, b"s")
            order = made(record())
            assert order is not None
            assert order.kind == "skip"
        assert termios.tcgetattr(terminal) == before
    os.close(ours)


def test_without_a_robot_that_moves_or_a_terminal_it_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UserError, match="execute=true"):
        refuse_inoperable(False)
    with open(os.devnull) as nothing:
        monkeypatch.setattr("sys.stdin", nothing)
        with pytest.raises(UserError, match="needs a terminal"):
            refuse_inoperable(True)
