from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from embodied.deploy.safety import RULES, Policy, SafetyFilter
from embodied.types import FloatArray, SafetyLimits

LIMITS = SafetyLimits(
    action_low=(-1.0, -0.5),
    action_high=(1.0, 0.5),
    observation_low=(-2.0, -2.0, 0.0),
    observation_high=(2.0, 2.0, 10.0),
    max_observation_age_s=0.1,
    hold_action=(0.0, 0.25),
)
GOOD = np.array([0.0, 1.0, 5.0], np.float32)
GOAL = np.array([1.0], np.float32)


def answers(*values: float) -> Policy:
    return lambda observation, goal: np.array(values, np.float32)


def never(observation: FloatArray, goal: FloatArray) -> FloatArray:
    raise AssertionError("the policy must not be asked on inputs like these")


def test_a_sane_step_passes_untouched() -> None:
    guard = SafetyFilter(LIMITS)
    decision = guard.decide(GOOD, GOAL, 0.1, answers(0.5, -0.25))
    assert decision.action.tolist() == [0.5, -0.25]
    assert (decision.held, decision.interventions, guard.held, guard.steps) == (False, (), 0, 1)
    assert guard.counts == dict.fromkeys(RULES, 0)


@pytest.mark.parametrize(
    ("rule", "observation", "goal", "age_s"),
    [
        ("nonfinite_observation", [0.0, np.nan, 5.0], GOAL, 0.0),
        ("nonfinite_observation", [0.0, np.inf, 5.0], GOAL, 0.0),
        ("implausible_observation", [0.0, 2.5, 5.0], GOAL, 0.0),
        ("implausible_observation", [0.0, 1.0, -0.5], GOAL, 0.0),
        ("stale_observation", GOOD, GOAL, 0.11),
        ("stale_observation", GOOD, GOAL, np.nan),
        ("nonfinite_goal", GOOD, [np.nan], 0.0),
    ],
)
def test_unfit_inputs_hold_without_asking_the_policy(rule: str, observation: Any, goal: Any, age_s: float) -> None:
    guard = SafetyFilter(LIMITS)
    decision = guard.decide(np.asarray(observation, np.float32), np.asarray(goal, np.float32), age_s, never)
    assert decision.action.tolist() == [0.0, 0.25]  # the hold action
    assert (decision.held, decision.interventions) == (True, (rule,))
    assert guard.held == 1
    assert guard.counts == {**dict.fromkeys(RULES, 0), rule: 1}


def test_two_rules_at_once_are_both_counted_and_held_once() -> None:
    guard = SafetyFilter(LIMITS)
    decision = guard.decide(np.array([np.nan, 99.0, 5.0], np.float32), GOAL, 9.0, never)
    assert decision.interventions == ("nonfinite_observation", "implausible_observation", "stale_observation")
    assert (guard.held, sum(guard.counts.values())) == (1, 3)


@pytest.mark.parametrize("bad", [(np.nan, 0.0), (0.0, -np.inf), (0.0,)])
def test_an_unusable_answer_holds(bad: tuple[float, ...]) -> None:
    guard = SafetyFilter(LIMITS)
    decision = guard.decide(GOOD, GOAL, 0.0, answers(*bad))
    assert decision.action.tolist() == [0.0, 0.25]
    assert decision.interventions == ("nonfinite_action",)


def test_an_answer_outside_the_limits_is_clipped_and_counted() -> None:
    guard = SafetyFilter(LIMITS)
    decision = guard.decide(GOOD, GOAL, 0.0, answers(1.5, -0.75))
    assert decision.action.tolist() == [1.0, -0.5]
    assert (decision.held, decision.interventions, guard.counts["clipped_action"]) == (False, ("clipped_action",), 1)


def test_rounding_at_the_limit_is_cut_but_not_counted() -> None:
    guard = SafetyFilter(LIMITS)
    decision = guard.decide(GOOD, GOAL, 0.0, answers(np.nextafter(np.float32(1.0), np.float32(2.0)), 0.0))
    assert decision.action[0] == 1.0
    assert guard.counts["clipped_action"] == 0


def test_the_hold_action_cannot_be_spoiled_by_its_receiver() -> None:
    guard = SafetyFilter(LIMITS)
    guard.decide(GOOD, GOAL, 9.0, never).action[:] = 7.0
    assert guard.decide(GOOD, GOAL, 9.0, never).action.tolist() == [0.0, 0.25]


def test_notes_name_the_number_and_stay_few() -> None:
    guard = SafetyFilter(LIMITS, ("grip[0]", "grip[1]", "height"))
    for _ in range(50):
        guard.decide(np.array([0.0, 1.0, 11.0], np.float32), GOAL, 0.0, never)
    assert guard.notes[0] == "step 0: implausible_observation: height = 11"
    assert len(guard.notes) == 10
    assert guard.counts["implausible_observation"] == 50
