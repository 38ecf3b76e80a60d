from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable

import numpy as np
import pytest

from embodied.errors import UserError
from embodied.run.evaluate import evaluate, wilson_interval
from embodied.types import FloatArray, Goal, Observation


def test_a_good_controller_succeeds_and_an_idle_one_does_not(
    make_point_mass: Callable, make_scripted: Callable
) -> None:
    env = make_point_mass()
    good = evaluate(env, make_scripted(env.spec), episodes=20, seed=50)
    idle = evaluate(env, make_scripted(env.spec, gain=0.0), episodes=20, seed=50)
    assert good.success_rate == 1.0
    assert idle.success_rate < 0.2
    assert env.seeds == [*range(50, 70)] * 2
    assert good.episodes == 20
    assert good.ci95 == wilson_interval(20, 20)
    assert good.to_dict()["success_ci95"] == list(good.ci95)


class _Passing:
    """Is at the goal in the first steps and leaves it then."""

    def __init__(self) -> None:
        self.manifest = None
        self.clock = 0

    def act(self, observation: Observation, goal: Goal) -> FloatArray:
        self.clock += 1
        towards = np.clip(4.0 * (goal.value - observation.state), -1, 1)
        away = np.where(goal.value > 0, -1.0, 1.0)
        return (towards if (self.clock - 1) % 24 < 12 else away).astype(np.float32)


@pytest.mark.parametrize(("rule", "rate"), [("last", 0.0), ("any", 1.0)])
def test_the_tasks_rule_says_what_counts(make_point_mass: Callable, rule: str, rate: float) -> None:
    env = make_point_mass(horizon=24, success_rule=rule)
    evaluation = evaluate(env, _Passing(), episodes=5, seed=0)
    assert (evaluation.success_final, evaluation.success_any) == (0.0, 1.0)
    assert evaluation.success_rate == rate


def test_every_step_is_reported(make_point_mass: Callable, make_scripted: Callable) -> None:
    env, steps = make_point_mass(horizon=4), []
    evaluate(env, make_scripted(env.spec), 3, 0, on_step=lambda item: steps.append((item.episode, item.index)))
    assert steps == [(e, t) for e in range(3) for t in range(4)]


def test_wilson_interval_equals_published_values() -> None:
    # Newcombe 1998, table I: 81 of 263 gives 0.2553 to 0.3662; 0 of 20 gives 0 to 0.1611.
    assert wilson_interval(81, 263) == pytest.approx((0.2553, 0.3662), abs=1e-4)
    assert wilson_interval(0, 20) == pytest.approx((0.0, 0.1611), abs=1e-4)
    low, high = wilson_interval(20, 20)
    assert (low, high) == pytest.approx((1 - 0.1611, 1.0), abs=1e-4)


def test_no_episodes_is_refused(make_point_mass: Callable, make_scripted: Callable) -> None:
    env = make_point_mass()
    with pytest.raises(UserError, match="episodes must be at least 1"):
        evaluate(env, make_scripted(env.spec), episodes=0)


def test_evaluating_needs_no_torch() -> None:
    code = "import sys, embodied.run.evaluate, embodied.run.train; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
