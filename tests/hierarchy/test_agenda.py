"""What is ahead and what is done, when a plan changes on the way."""

from __future__ import annotations

import numpy as np

from embodied.hierarchy.agenda import Agenda
from embodied.hierarchy.monitor import Entry
from embodied.types import Goal, Plan, Subgoal

GOAL = Goal("gripper", np.zeros(3, dtype=np.float32), np.ones(3, dtype=bool))


def subgoal(name: str, max_steps: int = 5) -> Subgoal:
    return Subgoal("touch", (name,), GOAL, (0.0, 0.0, 0.0), 0.05, max_steps, ())


def agenda(*names: str) -> Agenda:
    return Agenda(Plan("", tuple(subgoal(name) for name in names), "test"))


def names(entries: list[Entry]) -> str:
    return "".join(entry.subgoal.args[0] for entry in entries)


def test_what_is_finished_is_done_in_order() -> None:
    made = agenda("a", "b")
    made.finish()
    assert (names(made.queue), names(made.done), names(made.entries)) == ("b", "a", "ab")


def test_what_is_undone_comes_before_what_is_ahead() -> None:
    made = agenda("a", "b", "c", "d")
    for _ in range(3):
        made.done.append(made.queue[0])
        made.queue.pop(0).reached = True
    again = [made.done[0], made.done[2]]
    made.go_back(again)
    assert (names(made.queue), names(made.done)) == ("acd", "b")
    assert [entry.reached for entry in made.queue] == [False, False, False]


def test_a_step_that_stays_keeps_what_is_known_of_it() -> None:
    made = agenda("a", "b", "c")
    made.queue[1].attempts = 3
    made.take_over((subgoal("x"), subgoal("b", max_steps=9)), 2)
    assert (names(made.queue), names(made.entries)) == ("xbc", "xbc")
    assert (made.queue[1].attempts, made.queue[1].subgoal.max_steps) == (3, 9)


def test_a_new_plan_replaces_all_but_what_was_tried() -> None:
    made = agenda("a", "b", "c")
    made.finish()
    made.queue[0].attempts = 2
    made.plan_anew((subgoal("x"), subgoal("b")))
    assert (names(made.queue), names(made.entries)) == ("xb", "abxb")
    same = agenda("a", "b")
    same.queue[0].attempts = 2
    same.plan_anew((subgoal("a"), subgoal("z")))
    assert (names(same.entries), same.queue[0].attempts) == ("az", 2)


def test_skipped_and_replaced_entries_are_still_reported() -> None:
    made = agenda("a", "b")
    assert names([made.skip()]) == "a"
    made.put_instead((subgoal("x"), subgoal("y")))
    assert (names(made.queue), names(made.entries)) == ("xy", "abxy")
    assert made.index(made.queue[1]) == 3
    assert made.index(None) == 0
