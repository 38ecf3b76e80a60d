"""`bench suite=learning`: ours and its peers on one task, measured alike: steps and processor seconds to success.

A run is one system and one seed in a process of its own; its row is written when it ends.
"""

from __future__ import annotations

import json
import sys
from contextlib import closing
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING

from embodied.errors import JobFailed, UserError
from embodied.run.config import TrainConfig

from .. import build
from ..outcome import file_name
from . import summary
from .adapter import IdleController
from .estimates import make_estimator
from .machine import machine
from .runs import result_of, row_of, says_all, success_of, training_words
from .systems import INSTALL, System, find_systems
from .table import Row, Table

if TYPE_CHECKING:
    from ..verbs.bench import KEYS

NULL = "null"
"""The system that does nothing."""
SCHEDULE = (
    "eval_every", "eval_late_after", "eval_every_late", "eval_episodes", "eval_seed", "final_episodes", "final_seed",
)  # fmt: skip
"""Of a training's settings those that everybody shares, whatever their own presets say."""


def run(config: KEYS, table: Table) -> list[str]:
    """Makes the runs that are missing and sums up.

    Raises:
        UserError: An unknown system or task, or a task that the peers asked for cannot have.
    """
    systems = find_systems(config.systems)
    # Installed or not, and before the schedule, which takes torch.
    if not all(system.ours for system in systems) and build.goal_layout(config.task).env_spec is None:
        raise UserError(f"{config.task} is none of Gymnasium's tasks: peers cannot train on it; use systems=ours")
    there = [system.on(config.task) for system in systems if not system.missing]
    _refuse_others(table.rows, there, config)
    loop = schedule(config)
    left_out = [
        f"{system.name} is left out, {' and '.join(system.missing)} missing: {INSTALL}"
        for system in systems
        if system.missing
    ]
    curves = Table(table.folder / "curves.jsonl", resume=True)
    _idle_row(config.task, loop, table)
    for seed in range(config.seed, config.seed + config.seeds):
        for system in there:
            if not finished(table.rows, system.name, config.task, replace(loop, seed=seed)):
                _measure(system, config, replace(loop, seed=seed), table, curves)
    return left_out + summary.report(config.task, table, curves, make_estimator())


def schedule(config: KEYS) -> TrainConfig:
    """Lengths and evaluations that everybody has: those of the task and preset, and the limits asked for."""
    from ..cli import VERBS
    from ..compose import hydra_config
    from ..verbs import train

    words = [f"task={config.task}", f"preset={config.preset}"]
    if config.total_steps is not None:
        words.append(f"total_steps={config.total_steps}")
    loop = train.loop_config(hydra_config(train.KEYS, words, VERBS["train"].deltas))
    return replace(loop, max_cpu_s=config.max_cpu_s)


def _refuse_others(rows: list[Row], systems: list[System], config: KEYS) -> None:
    """Runs of one system in a table share its settings: with others they would be counted together."""
    told = {system.name: _told(system, config) for system in systems}
    for row in rows:
        if row["task"] != config.task or row["system"] not in told:
            continue
        if row["settings"] != told[row["system"]]:
            raise UserError(
                f"the rows of '{row['system']}' were made with {row['settings']}: choose another out= for new ones"
            )


def finished(rows: list[Row], system: str, task: str, loop: TrainConfig) -> bool:
    """Whether there is a row of this run that says all that it could."""
    own = (system, task, loop.seed)
    return any((row["system"], row["task"], row["seed"]) == own and says_all(row, loop) for row in rows)


def _idle_row(task: str, loop: TrainConfig, table: Table) -> None:
    """The floor: how many episodes of the final evaluation succeed when nobody acts."""
    from embodied.learning.controller import manifest_of
    from embodied.run.evaluate import evaluate
    from robots.registry import make_env

    if table.done(system=NULL, task=task, episodes=loop.final_episodes):
        return
    with closing(make_env(task)) as env:
        idle = IdleController(env.spec, manifest_of(env.spec))
        found = evaluate(env, idle, loop.final_episodes, loop.final_seed)
    told = success_of(found.to_dict())
    # It is the same at every evaluation.
    table.append({"system": NULL, "task": task, "seed": None, **told, "mean_success": told["success_rate"]})


def _measure(system: System, config: KEYS, loop: TrainConfig, table: Table, curves: Table) -> None:
    """One run; where it fails, a line about it instead of a row."""
    name = f"{system.name}-{file_name(config.task)}-{loop.seed}"
    print(f"bench: {name} begins", file=sys.stderr, flush=True)
    log, path = table.folder / "runs" / f"{name}.log", table.folder / "runs" / name / "result.json"
    words = _our_words(system, config, loop, path.parent) if system.ours else _peer_words(system, config, loop, path)
    try:
        result = result_of(words, log, path)
    except JobFailed as failure:
        table.failures.append(str(failure))
        return
    known = {"system": system.name, "task": config.task, "seed": loop.seed}
    for point in result["evaluations"]:
        curves.append({**known, **point})
    table.append({**known, **row_of(result, loop), "settings": _told(system, config), **machine()})
    print(f"bench: {name}: success {result['success_rate']:.2f}", file=sys.stderr, flush=True)


def _our_words(system: System, config: KEYS, loop: TrainConfig, run_dir: Path) -> list[str]:
    own = dict(word.split("=", 1) for word in system.words)
    watched = {f"loop.{name}": getattr(loop, name) for name in SCHEDULE}
    return training_words({"task": config.task, "preset": config.preset, **own, **watched}, loop, run_dir)


def _peer_words(system: System, config: KEYS, loop: TrainConfig, result: Path) -> list[str]:
    """A peer's training, always from its beginning."""
    result.parent.mkdir(parents=True, exist_ok=True)
    order = result.with_name("order.json")
    asked = {"system": system.name, "task": config.task, "loop": asdict(loop), "result": str(result)}
    order.write_text(json.dumps(asked), "utf-8")
    return ["embodied_launch.bench.sb3_run", str(order)]


def _told(system: System, config: KEYS) -> str:
    return f"preset={config.preset} {system.told()}".strip() if system.ours else system.told()
