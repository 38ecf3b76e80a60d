"""`bench suite=learner`: what an update of the learner costs: ours, Stable-Baselines3's SAC, and the bare products.

All take turns within one process, a few updates each, so that whatever else the machine does falls on all alike.
An update is everything from the replay's draw to the last optimiser's step, hindsight goals included, with networks of
the same widths on the same task; each replay holds as many random transitions. The limit is the time that the
multiplications of one update would take at the rate of torch's own product of a batch with a hidden layer.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import closing
from functools import partial
from statistics import median
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
import yaml
from torch import Tensor

from embodied.learning.her import HindsightReplay, ReplayConfig
from embodied.learning.native import library
from embodied.learning.sac import SacConfig, SacLearner
from embodied.run.driver import Driver, EpisodeRecorder
from robots.base import CheckedEnv
from robots.goal_layout import goal_layout_of
from robots.registry import make_env

from .. import build
from ..compose import CONF
from .machine import machine
from .sb3_run import make_model
from .systems import INSTALL, System
from .table import Row, Table

if TYPE_CHECKING:
    from ..verbs.bench import KEYS

TASK = "fetch_push"
ROUNDS, ROUND_UPDATES = 40, 6
TRANSITIONS = 5_000
"""Random ones in each replay."""
LARGE = 1_000_000
"""Rows of the replay whose draws are timed apart from the updates."""


def _own_case() -> tuple[int, dict[str, Any], dict[str, Any]]:
    """The task's own settings, from the file that its training has them from; `OURS` says the precision."""
    delta = yaml.safe_load((CONF / "delta" / "task" / f"{TASK}.yaml").read_text("utf-8"))
    sac = {name: value for name, value in delta["sac"].items() if name != "precision"}
    return delta["loop"]["batch_size"], sac, delta["replay"]


CASES: dict[str, tuple[int, dict[str, Any], dict[str, Any]]] = {
    "3x128": (256, {"hidden": (128, 128, 128)}, {}),
    "3x256": (256, {"hidden": (256, 256, 256)}, {}),
    "fetch_push's own": _own_case(),
}
"""Batch size, learner's and replay's settings; the last as the task's training has them, which no peer can."""
PEERS_CASES = ("3x128", "3x256")
OURS: dict[str, dict[str, Any]] = {
    "float32": {},
    "bfloat16": {"precision": "bfloat16"},
    "float32_eager": {"compiled": False},
    "bfloat16_eager": {"compiled": False, "precision": "bfloat16"},
}
"""What is measured of ours; eager: without the compiled code."""

Work = Callable[[], object]
"""An update, or what stands for one."""


def run(config: KEYS, table: Table) -> list[str]:
    """Makes the rows that are missing, one for each case, and prints all of them."""
    build.one_thread()
    missing = System("", algorithm="SAC").missing
    for case in CASES:
        if not table.done(case=case, seed=config.seed):
            table.append({"case": case, "seed": config.seed, **measure(case, config.seed), **machine()})
    lines = [line for row in table.rows if row["seed"] == config.seed for line in _lines(row)]
    return lines + ([f"Stable-Baselines3 is left out, it is missing: {INSTALL}"] if missing else [])


def measure(case: str, seed: int, rounds: int = ROUNDS, updates: int = ROUND_UPDATES) -> Row:
    """Medians over the rounds of processor milliseconds, and of the ratios within each round.

    Args:
        case: One of `CASES`.
        seed: Of everything.
        rounds: How often everything is measured, after one round that does not count.
        updates: Updates, or what stands for one, in a round.
    """
    batch, sac, replay = CASES[case]
    with closing(make_env(TASK)) as env:
        replays = {size: _filled(env, ReplayConfig(**replay), seed, size) for size in (TRANSITIONS, LARGE)}
        learners = {name: SacLearner(env.spec, SacConfig(**sac, **own), seed) for name, own in OURS.items()}
        peer = _peer(env, SacConfig(**sac).hidden, batch, seed) if case in PEERS_CASES else None
    flops, products = _products(learners["float32"], batch)
    works: dict[str, Work] = {
        name: partial(_update, learner, replays[TRANSITIONS], batch) for name, learner in learners.items()
    }
    works |= {
        "sampling": lambda: replays[TRANSITIONS].sample(batch),
        "sampling_large": lambda: replays[LARGE].sample(batch),
    }
    works |= {f"products_{name}": product for name, product in products.items()}
    if peer is not None:
        works["sb3"] = peer
    spent = _take_turns(works, rounds, updates)
    row: Row = {"task": TASK, "batch": batch, "rounds": rounds, "mflop": round(flops / 1e6, 1)}
    row |= {f"{name}_ms": round(1e3 * median(times), 4) for name, times in spent.items()}
    row["sb3_ms"] = row.get("sb3_ms")
    compiled = library()
    row["compiled_code"] = compiled is not None and ("bfloat16" if compiled.has_half() else "float32")
    for name in OURS:
        kind = name.removesuffix("_eager")
        limits = [limit / own for limit, own in zip(spent[f"products_{kind}"], spent[name], strict=True)]
        row[f"{name}_of_limit"] = round(median(limits), 4)
        ratios = [peers / own for peers, own in zip(spent.get("sb3", []), spent[name], strict=False)]
        row[f"{name}_over_sb3"] = round(median(ratios), 4) if ratios else None
        shares = [drawn / own for drawn, own in zip(spent["sampling_large"], spent[name], strict=True)]
        row[f"{name}_sampling_share"] = round(median(shares), 4)
    return row


def _update(learner: SacLearner, replay: HindsightReplay, batch: int) -> None:
    learner.update(replay.sample(batch))


def _multiply(left: Tensor, right: Tensor, out: Tensor, count: int) -> None:
    for _ in range(count):
        torch.mm(left, right, out=out)


def _take_turns(works: dict[str, Work], rounds: int, count: int) -> dict[str, list[float]]:
    """Processor seconds of one piece of each work, by round."""
    spent: dict[str, list[float]] = {name: [] for name in works}
    for index in range(rounds + 1):
        for name, work in works.items():
            began = time.process_time()
            for _ in range(count):
                work()
            if index:
                spent[name].append((time.process_time() - began) / count)
    return spent


def _filled(env: CheckedEnv, config: ReplayConfig, seed: int, rows: int) -> HindsightReplay:
    """A replay with episodes of random actions: `TRANSITIONS` different ones, again and again until it is full."""
    horizon = env.spec.horizon
    replay = HindsightReplay(env.spec, env.reward, config, seed)
    episodes: list[Any] = []
    driver = Driver(env, EpisodeRecorder(env.spec, episodes.append))
    rng, low, high = np.random.default_rng(seed), env.spec.action_low, env.spec.action_high
    for index in range(TRANSITIONS // horizon):
        driver.reset(seed + index)
        while driver.running:
            driver.step(lambda observation, goal: rng.uniform(low, high).astype(np.float32))
    for index in range(rows // (horizon + (rows > TRANSITIONS))):
        replay.add(episodes[index % len(episodes)])
    return replay


def _peer(env: CheckedEnv, hidden: tuple[int, ...], batch: int, seed: int) -> Work | None:
    """An update of Stable-Baselines3's SAC with its own HerReplayBuffer; None where it is not installed."""
    settings = {"batch_size": batch, "learning_rate": 1e-3, "learning_starts": TRANSITIONS + 1, "buffer_size": LARGE}
    system = System("sb3", algorithm="SAC", hidden=hidden, settings=settings)
    words = goal_layout_of(env).env_spec
    if system.missing or words is None:
        return None
    model = make_model(system, words, seed)
    model.learn(total_timesteps=TRANSITIONS)
    return lambda: model.train(gradient_steps=1, batch_size=batch)


def _products(learner: SacLearner, batch: int) -> tuple[float, dict[str, Work]]:
    """Operations of an update's products, and for each type the time limit for them as something that takes so long.

    Forward: policy on both observations, target critics, critics on both actions. Backward: critics to parameters and,
    from the second layer on, to what lies below; of the critics that judge an action the one that counts; policy like
    the critics.
    """
    hidden = learner.config.hidden
    actions, members = len(learner.policy.shape.action_low), learner.config.critics
    policy = _pairs(learner.policy.shape.input_width, hidden, 2 * actions)
    critic = _pairs(learner.policy.shape.input_width + actions, hidden, 1)
    forward = 2 * _size(policy) + 3 * members * _size(critic)
    to_parameters = _size(policy) + members * _size(critic)
    below = _size(policy[1:]) + (members + 1) * _size(critic[1:]) + actions * hidden[0]
    flops = 2.0 * batch * (forward + to_parameters + below)
    width = hidden[-1]
    works: dict[str, Work] = {}
    for name, dtype in (("float32", torch.float32), ("bfloat16", torch.bfloat16)):
        left, right = torch.randn(batch, width).to(dtype), torch.randn(width, width).to(dtype)
        out, count = torch.empty(batch, width, dtype=dtype), round(flops / (2.0 * batch * width * width))
        works[name] = partial(_multiply, left, right, out, count)
    return flops, works


def _pairs(inputs: int, hidden: tuple[int, ...], outputs: int) -> list[tuple[int, int]]:
    widths = [inputs, *hidden, outputs]
    return list(zip(widths[:-1], widths[1:], strict=True))


def _size(pairs: list[tuple[int, int]]) -> int:
    return sum(a * b for a, b in pairs)


def _lines(row: Row) -> list[str]:
    """The row for people."""
    lines = [f"{row['case']}, batch {row['batch']}, processor milliseconds of an update (share of the products' rate):"]
    if row["sb3_ms"] is not None:
        lines.append(f"  Stable-Baselines3 {row['sb3_ms']:.2f}")
    for name in OURS:
        ratio = row[f"{name}_over_sb3"]
        peer = "" if ratio is None else f"; {ratio:.2f} times as many updates as Stable-Baselines3"
        lines.append(
            f"  ours {name} {row[f'{name}_ms']:.2f} ({row[f'{name}_of_limit']:.0%}), "
            f"draw from a million rows {row[f'{name}_sampling_share']:.0%}{peer}"
        )
    return lines
