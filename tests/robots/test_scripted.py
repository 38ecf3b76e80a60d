"""Controllers written by hand solve reach and push: a broken environment shows here before any learning."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from embodied.types import Goal, Observation
from robots.registry import make_env

Script = Callable[[Observation, Goal], NDArray[np.float32]]


def reach(observation: Observation, goal: Goal) -> NDArray[np.float32]:
    return towards(goal.value, observation.achieved[0])


def push(observation: Observation, goal: Goal) -> NDArray[np.float32]:
    """Above the cube to the side that faces away from the goal, down, and straight on."""
    grip, cube = observation.achieved
    way = (goal.value - cube)[:2]
    distance = np.linalg.norm(way)
    way = way / max(float(distance), 1e-6)
    relative = (grip - cube)[:2]
    along = relative @ way
    aside = np.linalg.norm(relative - along * way)
    if distance < 0.03:
        return towards(grip, grip)
    if along < -0.02 and aside < 0.02 and grip[2] < 0.45:
        return towards(np.array([*cube[:2], 0.425]), grip)
    behind = cube[:2] - way * 0.085
    clear = grip[2] > 0.46 or np.linalg.norm(relative) > 0.09
    height = 0.425 if np.linalg.norm(grip[:2] - behind) < 0.025 else 0.49
    return towards(np.array([*(behind if clear else grip[:2]), height]), grip)


def towards(target: NDArray[np.floating], grip: NDArray[np.float32]) -> NDArray[np.float32]:
    return np.append(np.clip((target - grip) / 0.05 * 2.0, -1.0, 1.0), -1.0).astype(np.float32)


def successes(task: str, script: Script) -> int:
    env, count = make_env(task), 0
    for seed in range(10):
        observation = env.reset(seed)
        for _ in range(env.spec.horizon):
            step = env.step(script(observation, env.goal))
            observation = step.observation
        count += step.success
    env.close()
    return count


def test_reach_is_solved_from_every_seed() -> None:
    assert successes("fetch_reach", reach) == 10


def test_push_is_solved_from_most_seeds() -> None:
    assert successes("fetch_push", push) >= 8


def test_doing_nothing_solves_neither() -> None:
    def nothing(observation: Observation, goal: Goal) -> NDArray[np.float32]:
        return np.zeros(4, dtype=np.float32)

    assert successes("fetch_reach", nothing) <= 2
    assert successes("fetch_push", nothing) <= 3
