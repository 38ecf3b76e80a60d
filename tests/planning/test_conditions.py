"""What instructions ask for, followed through states."""

from __future__ import annotations

import pytest

from embodied.errors import UserError
from embodied.planning.conditions import Watch, Wish, read_condition
from embodied.types import BaseFrame, EntityState, SceneState

Q = (1.0, 0.0, 0.0, 0.0)


def state(x: float, touched: bool = False) -> SceneState:
    """`a` at x, `b` at 0: `near(a, b)` within 0.1 m, `left_of` never."""
    things = tuple(
        EntityState(name, name, "object", "block", "red", (at, 0.0, 0.0), (0.02, 0.02, 0.02), (at, 0.0, 0.0), Q)
        for name, at in (("a", x), ("b", 0.0))
    )
    contacts = frozenset({("a", "gripper")}) if touched else frozenset()
    return SceneState(things, contacts, BaseFrame(), "fetch")


def against(wish: dict, *states: SceneState) -> str:
    watch = Watch(Wish.read(wish))
    for each in states:
        watch.see(each)
    return watch.against()


NEAR, FRONT, BEHIND = ["near", "a", "b"], ["in_front_of", "a", "b"], ["behind", "a", "b"]


def test_goals_are_judged_at_the_end_and_touches_whenever() -> None:
    assert against({"goal": [NEAR]}, state(1.0), state(0.05)) == ""
    assert "near(a, b)" in against({"goal": [NEAR]}, state(0.05), state(1.0))
    touch = {"goal": [["touching", "gripper", "a"]]}
    assert against(touch, state(1.0), state(1.0, touched=True), state(1.0)) == ""
    assert against(touch, state(1.0)) != ""
    assert against({"goal": [["not", NEAR]]}, state(1.0)) == ""
    assert against({"goal": [["or", FRONT, BEHIND]]}, state(0.5)) == ""
    assert against({"goal": [["and", NEAR, BEHIND]]}, state(0.5)) != ""


def test_what_is_forbidden_holds_at_no_moment() -> None:
    wish = {"goal": [BEHIND], "forbid": [NEAR]}
    assert against(wish, state(1.0), state(0.5)) == ""
    assert "forbidden" in against(wish, state(1.0), state(0.05), state(0.5))


def test_order_is_of_moments_at_which_facts_come_true() -> None:
    wish = {"goal": [], "order": [BEHIND, FRONT]}
    assert against(wish, state(0.0), state(0.5), state(-0.5)) == ""
    assert "did not come true" in against(wish, state(0.0), state(-0.5), state(0.5))
    together = {"goal": [], "order": [{"all": [FRONT, BEHIND]}, NEAR]}
    assert against(together, state(1.0), state(-0.5), state(0.05)) == ""
    assert against(together, state(1.0), state(0.05), state(-0.5)) != "", "near came before all of the others"


@pytest.mark.parametrize(
    "wrong",
    [[], "near", ["near", "a"], ["nearby", "a", "b"], ["not"], ["not", NEAR, NEAR], ["or"], [["near"]], ["near", 1, 2],
     ["not"] * 1 + [["not", ["not", ["not", ["not", ["not", ["not", ["not", ["not", ["not", NEAR]]]]]]]]]]],
)  # fmt: skip
def test_anything_else_is_refused_in_one_line(wrong: object) -> None:
    with pytest.raises(UserError) as caught:
        read_condition(wrong)
    assert "\n" not in str(caught.value)


def test_a_thing_that_is_not_there_is_said() -> None:
    with pytest.raises(UserError, match="ghost"):
        against({"goal": [["near", "ghost", "b"]]}, state(0.0))
