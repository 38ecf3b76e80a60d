"""The one evaluation loop, used wherever a success rate is stated; no exploration."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from embodied.errors import UserError
from embodied.protocols import Controller, Env
from embodied.run.driver import Driver, OnStep
from embodied.spec import SuccessRule

EVALUATION_SEED = 2_000_000
"""Seed of the first episode of a final evaluation; training never resets with it."""


@dataclass(frozen=True)
class EpisodeOutcome:
    """How one episode ended."""

    seed: int
    steps: int
    success_final: bool
    success_any: bool
    total_reward: float


@dataclass(frozen=True)
class Evaluation:
    """Success over a number of episodes."""

    success_rate: float
    """By the task's rule: at the last step, or at any."""
    success_final: float
    success_any: float
    ci95: tuple[float, float]
    """Wilson interval of `success_rate`."""
    episodes: int
    seed: int
    mean_reward: float
    """Mean over episodes of the summed reward."""
    outcomes: tuple[EpisodeOutcome, ...]
    success_rule: SuccessRule
    """Which of the two `success_rate` is."""

    def to_dict(self) -> dict[str, Any]:
        """The keys of a result file."""
        return {
            "success_rate": self.success_rate,
            "success_final": self.success_final,
            "success_any": self.success_any,
            "success_rule": self.success_rule,
            "success_ci95": list(self.ci95),
            "episodes": self.episodes,
            "mean_reward": self.mean_reward,
        }


def evaluate(
    env: Env, controller: Controller, episodes: int, seed: int = EVALUATION_SEED, on_step: OnStep | None = None
) -> Evaluation:
    """Run `episodes` episodes, episode i with seed `seed` + i, and count successes.

    Args:
        env: The task; its `spec.success_rule` says what counts.
        controller: Anything that acts without exploration.
        episodes: At least 1.
        seed: Of the first episode.
        on_step: Called after every step.
    """
    if episodes < 1:
        raise UserError(f"episodes must be at least 1, got {episodes}")
    driver = Driver(env, on_step)
    outcomes = []
    for offset in range(episodes):
        steps = [item.step for item in driver.run_episode(controller.act, seed + offset)]
        outcomes.append(
            EpisodeOutcome(
                seed=seed + offset,
                steps=len(steps),
                success_final=steps[-1].success,
                success_any=any(step.success for step in steps),
                total_reward=float(sum(step.reward for step in steps)),
            )
        )
    return _summary(outcomes, env.spec.success_rule, seed)


def wilson_interval(successes: int, trials: int) -> tuple[float, float]:
    """95 % interval of a proportion (Wilson 1927), with z = 1.959964; within [0, 1] also at 0 and all successes."""
    z = 1.959964
    rate = successes / trials
    centre = rate + z * z / (2 * trials)
    spread = z * math.sqrt(rate * (1 - rate) / trials + z * z / (4 * trials * trials))
    scale = 1 + z * z / trials
    return max(0.0, (centre - spread) / scale), min(1.0, (centre + spread) / scale)


def _summary(outcomes: list[EpisodeOutcome], rule: SuccessRule, seed: int) -> Evaluation:
    final = _share(outcome.success_final for outcome in outcomes)
    anywhere = _share(outcome.success_any for outcome in outcomes)
    rate = final if rule == "last" else anywhere
    return Evaluation(
        success_rate=rate,
        success_final=final,
        success_any=anywhere,
        ci95=wilson_interval(round(rate * len(outcomes)), len(outcomes)),
        episodes=len(outcomes),
        seed=seed,
        mean_reward=sum(outcome.total_reward for outcome in outcomes) / len(outcomes),
        outcomes=tuple(outcomes),
        success_rule=rule,
    )


def _share(flags: Iterable[bool]) -> float:
    values = list(flags)
    return sum(values) / len(values)
