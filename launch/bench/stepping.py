"""`bench suite=stepping`: environment steps per processor second: ours, Gymnasium's and the bare physics, side by side.

All three take the same actions from the same states, episode by episode in turn within one process, so that whatever
else the machine does falls on all of them alike. Gymnasium's environment stands without its wrappers, ours with the
check round it, as trainings use it. The bare physics is `mj_step` with the same frame skip, begun each time from the
very state and controls that our step began it with; the time that putting them there takes is subtracted.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import mujoco
import numpy as np
from numpy.typing import NDArray

from embodied.types import FloatArray
from robots.base import CheckedEnv, load_gymnasium
from robots.goal_layout import goal_layout_of
from robots.registry import make_env, task_names

from .machine import machine
from .table import Row, Table

if TYPE_CHECKING:
    from ..verbs.bench import KEYS

ROUNDS = 15
ROUND_STEPS = 400
"""Least steps of a round, in whole episodes; a hundred times as many where a step is one of the physics'."""
_BEFORE = mujoco.mjtState.mjSTATE_FULLPHYSICS.value | mujoco.mjtState.mjSTATE_WARMSTART.value
_GIVEN = mujoco.mjtState.mjSTATE_USER.value


def run(config: KEYS, table: Table) -> list[str]:
    """Makes the rows that are missing, one for each task, and prints all of them."""
    for task in task_names():
        if not table.done(task=task, seed=config.seed):
            table.append({"task": task, "seed": config.seed, **measure(task, config.seed), **machine()})
    return [_line(row) for row in table.rows if row["seed"] == config.seed]


def measure(task: str, seed: int, rounds: int = ROUNDS, round_steps: int = ROUND_STEPS) -> Row:
    """Medians over the rounds, in steps per processor second, and medians of each round's ratios; times of a reset.

    Args:
        task: A registered one; Gymnasium's numbers are null where it has no such task.
        seed: Of the first episode, and of the actions.
        rounds: How often everything is measured.
        round_steps: Least steps of one round.
    """
    with closing(make_env(task)) as env, _gymnasiums(env) as theirs:
        skip = round(1.0 / (env.spec.control_hz * env.model.opt.timestep))
        steps = round_steps * (100 if skip == 1 else 1)
        episodes = [_record(env, seed + i) for i in range(-(-steps // env.spec.horizon))]
        found = [_round(env, theirs, episodes, skip) for _ in range(rounds)]
    count = sum(len(episode.actions) for episode in episodes)
    measured = [name for name in ("ours", "gymnasium", "raw") if name in found[0]]
    rates: dict[str, list[float]] = {name: [count / each[name] for each in found] for name in measured}
    resets = {name: [each[f"{name}_reset"] / len(episodes) for each in found] for name in rates if name != "raw"}
    row: Row = {"frame_skip": skip, "rounds": rounds, "steps": count}
    for name in ("ours", "gymnasium", "raw"):
        row[f"{name}_steps_per_s"] = round(median(rates[name]), 1) if name in rates else None
    for name in ("ours", "gymnasium"):
        shares = [a / b for a, b in zip(rates.get(name, []), rates["raw"], strict=False)]
        row[f"{name}_of_raw"] = round(median(shares), 4) if shares else None
        row[f"{name}_reset_ms"] = round(1e3 * median(resets[name]), 4) if name in resets else None
    return row


@dataclass(frozen=True)
class _Recorded:
    """An episode of ours, as it can be stepped through again."""

    seed: int
    actions: list[FloatArray]
    model: mujoco.MjModel
    states: list[tuple[NDArray[np.float64], NDArray[np.float64]]]
    """Before each step: the physics' own state, and what the environment set for the step."""


def _record(env: CheckedEnv, seed: int) -> _Recorded:
    rng, low, high = np.random.default_rng(seed), env.spec.action_low, env.spec.action_high
    actions = [rng.uniform(low, high).astype(np.float32) for _ in range(env.spec.horizon)]
    env.reset(seed)
    states = []
    for action in actions:
        before = _state(env, _BEFORE)
        env.step(action)
        states.append((before, _state(env, _GIVEN)))
    return _Recorded(seed, actions, env.model, states)


def _state(env: CheckedEnv, kind: int) -> NDArray[np.float64]:
    state = np.zeros(mujoco.mj_stateSize(env.model, kind))
    mujoco.mj_getState(env.model, env.data, state, kind)
    return state


def _round(env: CheckedEnv, theirs: Any, episodes: list[_Recorded], skip: int) -> dict[str, float]:
    """Processor seconds of all episodes, by what took them."""
    spent: dict[str, float] = {}

    def timed(name: str, work: Callable[..., object], *inputs: object) -> None:
        began = time.process_time()
        work(*inputs)
        spent[name] = spent.get(name, 0.0) + time.process_time() - began

    for episode in episodes:
        data = mujoco.MjData(episode.model)
        timed("ours_reset", env.reset, episode.seed)
        timed("ours", _steps, env, episode.actions)
        if theirs is not None:
            timed("gymnasium_reset", lambda seed: theirs.reset(seed=seed), episode.seed)
            timed("gymnasium", _steps, theirs, episode.actions)
        timed("placed", _physics, episode, data, 0)
        timed("raw", _physics, episode, data, skip)
    spent["raw"] -= spent.pop("placed")
    return spent


def _steps(env: Any, actions: list[FloatArray]) -> None:
    step = env.step
    for action in actions:
        step(action)


def _physics(episode: _Recorded, data: mujoco.MjData, skip: int) -> None:
    """Every state of the episode put into `data`, and stepped from where `skip` is not 0."""
    model, place, step = episode.model, mujoco.mj_setState, mujoco.mj_step
    for before, given in episode.states:
        place(model, data, before, _BEFORE)
        place(model, data, given, _GIVEN)
        if skip:
            step(model, data, skip)


@contextmanager
def _gymnasiums(env: CheckedEnv) -> Iterator[Any]:
    """Gymnasium's own environment of the task, without wrappers; None where it has none."""
    words = goal_layout_of(env).env_spec
    if words is None:
        yield None
        return
    from gymnasium.envs.registration import EnvSpec

    made = load_gymnasium().make(EnvSpec.from_json(words), disable_env_checker=True).unwrapped
    try:
        yield made
    finally:
        made.close()
        # Gymnasium-Robotics writes a maze to the folder for temporary files and leaves it there.
        if hasattr(made, "tmp_xml_file_path"):
            Path(made.tmp_xml_file_path).unlink(missing_ok=True)


def _line(row: Row) -> str:
    peer = "-" if row["gymnasium_of_raw"] is None else f"{row['gymnasium_of_raw']:.0%}"
    rates = [row[f"{name}_steps_per_s"] for name in ("ours", "gymnasium", "raw")]
    ours, theirs, raw = ("-" if rate is None else f"{rate:,.0f}" for rate in rates)
    return (
        f"{row['task']:<17} steps per processor second: ours {ours}, Gymnasium {theirs}, bare physics {raw}; "
        f"ours {row['ours_of_raw']:.0%} of it, Gymnasium {peer}"
    )
