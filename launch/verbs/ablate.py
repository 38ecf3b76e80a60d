"""`embodied ablate`: variants of a training, several seeds each, compared with the first of them."""

from __future__ import annotations

import hashlib
import re
import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import yaml

from embodied.errors import JobFailed, UserError
from embodied.run.ablation import Variant, comparisons, parse_variant
from embodied.run.config import TrainConfig
from embodied.run.result import THRESHOLDS

from ..bench.estimates import NO_RLIABLE, make_estimator
from ..bench.machine import machine
from ..bench.runs import result_of, row_of, says_all, training_words
from ..bench.summary import aggregate_lines, aggregates, run_lines
from ..bench.table import Row, Table
from ..compose import CONF, hydra_config
from ..idle import idle_in_training, refuse
from ..keys import key
from ..outcome import NO_LLM, Outcome, RunFolder
from . import train

OWN = ("variants", "seeds", "max_cpu_s", "out", "run_dir", "resume", "seed")
"""Keys that are not a training's, or that each run has a value of its own for."""
PER_RUN = ("seed", "run_dir", "resume", "record", "record_layout", "task", "loop.max_cpu_s")
"""Keys that a variant cannot set."""


@dataclass(frozen=True)
class KEYS(train.KEYS):
    """Keys of `embodied ablate`: those of a training hold for every run."""

    task: str = key(
        "a task of `embodied list`, or gym:<id>; with resume=auto it and the other settings may be left out: they are "
        "those of out"
    )
    seed: int = key("of each variant's first run", 0, minimum=0)
    run_dir: str = key("", "", literal=True, refused="is one training's: give out= for the table and all runs")
    resume: str = key("auto: go on behind the rows that are in out", "no", choices=("no", "auto"))
    record: str = key(
        "", "", literal=True, refused="is one training's: leave it out, each run keeps its episodes in episodes.bin"
    )
    record_layout: str = key("auto", "auto", refused="is that of record=, which is one training's: leave it out")
    variants: tuple[str, ...] = key(
        "what differs, each key=value, a delta of launch/conf/delta/variant, base, or several joined by +", ()
    )
    seeds: int = key("runs of each variant, with seed, seed+1, ...", 3, minimum=1)
    max_cpu_s: float | None = key(
        "processor seconds of training, evaluations not counted, after which a run is stopped", None, unit="s"
    )
    out: str = key("folder of the table and the runs; default runs/ablate/<time>-<task>", "", literal=True)


def complete(arguments: Sequence[str]) -> tuple[str, ...]:
    """The words of an ablation; where one is gone on with and no task is named, those that it had come first.

    Raises:
        UserError: The folder does not say what its run was given.
    """
    return train.complete_from("ablate", KEYS, "out", arguments)


@dataclass(frozen=True)
class Arm:
    """A variant with all settings of its trainings."""

    variant: Variant
    settings: Mapping[str, str]
    loop: TrainConfig
    config: train.KEYS
    """The settings with all defaults."""
    idle: Mapping[str, str]
    """What was given for all runs and does nothing in this variant's, with the reason; it is left out there."""

    @property
    def told(self) -> str:
        """The settings in one line, lengths left out."""
        lengths = ("total_steps", "loop.max_cpu_s")
        return shlex.join(f"{name}={value}" for name, value in self.settings.items() if name not in lengths)

    @property
    def folder(self) -> str:
        """A name for its runs' folders."""
        plain = re.sub(r"[^A-Za-z0-9_.]+", "-", self.variant.name).strip("-.")[:60]
        return f"{plain}-{hashlib.sha256(self.variant.name.encode()).hexdigest()[:6]}"


def run(config: KEYS, folder: RunFolder) -> Outcome:
    """Makes the runs that are missing and compares."""
    arms = [_arm(variant, config, folder.words) for variant in _variants(config)]
    refuse({name: why for name, why in arms[0].idle.items() if all(name in arm.idle for arm in arms)})
    _refuse_same(arms)
    table = Table(
        folder.unmade / "ablation.jsonl", resume=config.resume == "auto", on_claim=lambda: folder.write_config(config)
    )
    _refuse_others(table.rows, arms)
    table.claim()
    for seed in range(config.seed, config.seed + config.seeds):
        for arm in arms:
            loop = replace(arm.loop, seed=seed)
            if not any(_is(row, arm, seed) and says_all(row, loop) for row in table.rows):
                _measure(arm, loop, table)
    rows = _newest(table.rows, arms)
    compared = comparisons(rows, make_estimator()) if rows else []
    result = {"rows": [_contract_row(row) for row in rows], "comparisons": compared, "table": str(table.path)}
    lines = _lines(rows, compared)
    return Outcome(not table.failures, result, (*lines, *table.failures))


def _variants(config: KEYS) -> list[Variant]:
    if not config.variants:
        raise UserError("variants= is required: what is compared, as in variants=base,replay.n_step=1")
    files = sorted((CONF / "delta" / "variant").glob("*.yaml"))
    deltas = {file.stem: yaml.safe_load(file.read_text("utf-8")) for file in files}
    variants = [parse_variant(text, deltas) for text in config.variants]
    for variant in variants:
        fixed = [name for name, _ in variant.words if name in PER_RUN]
        if fixed:
            raise UserError(f"variant '{variant.name}' cannot set {', '.join(fixed)}: give it for all runs")
    names = [variant.name for variant in variants]
    if len(set(names)) < len(names):
        raise UserError(f"variants={','.join(names)} names one of them twice")
    return variants


def _arm(variant: Variant, config: KEYS, given: tuple[str, ...]) -> Arm:
    """A variant's settings, tried out on the training's own keys."""
    from ..cli import VERBS

    common = {name: value for name, value in (word.split("=", 1) for word in given) if name not in OWN}
    settings = {**common, **dict(variant.words)}

    def resolved() -> train.KEYS:
        return hydra_config(train.KEYS, [f"{name}={value}" for name, value in settings.items()], VERBS["train"].deltas)

    try:
        idle = idle_in_training(resolved(), settings)
        own = [name for name, _ in variant.words]
        # A delta of several settings may bring some that do nothing here; who writes one means it.
        refuse({name: why for name, why in idle.items() if name in own and f"{name}=" in variant.name})
        for name in idle:
            del settings[name]
        loop = train.loop_config(resolved())
    except UserError as error:
        raise UserError(f"variant '{variant.name}': {error}") from None
    limited = loop if config.max_cpu_s is None else replace(loop, max_cpu_s=config.max_cpu_s)
    common_idle = {name: why for name, why in idle.items() if name not in own}
    return Arm(variant, settings, limited, resolved(), common_idle)


def _refuse_same(arms: list[Arm]) -> None:
    """Variants that come to the same settings would be compared with themselves."""
    known: list[tuple[train.KEYS, Arm]] = []
    for arm in arms:
        # A preset is nothing but the settings that it brings.
        resolved = replace(arm.config, preset="fast", total_steps=None, loop=arm.loop)
        for other, before in known:
            if resolved == other:
                raise UserError(
                    f"variants '{before.variant.name}' and '{arm.variant.name}' come to the same settings in "
                    f"{arm.config.task}: leave one out"
                )
        known.append((resolved, arm))


def _is(row: Row, arm: Arm, seed: int) -> bool:
    return (row["variant"], row["seed"]) == (arm.variant.name, seed)


def _refuse_others(rows: list[Row], arms: list[Arm]) -> None:
    """A table holds runs of one ablation."""
    told = {arm.variant.name: arm.told for arm in arms}
    for row in rows:
        if row["settings"] != told.get(row["variant"], row["settings"]):
            raise UserError(
                f"the rows of '{row['variant']}' were made with {row['settings']}: choose another out= for new ones"
            )


def _measure(arm: Arm, loop: TrainConfig, table: Table) -> None:
    """One run; where it fails, a line about it instead of a row."""
    name = f"{arm.folder}-{loop.seed}"
    runs = table.folder / "runs"
    print(f"ablate: {arm.variant.name}, seed {loop.seed} begins", file=sys.stderr, flush=True)
    words = training_words(arm.settings, loop, runs / name)
    try:
        result = result_of(words, runs / f"{name}.log", runs / name / "result.json")
    except JobFailed as failure:
        table.failures.append(str(failure))
        return
    llm = {f"llm_{item}": value for item, value in result["llm"].items()}
    known = {"variant": arm.variant.name, "seed": loop.seed, "task": result["task"]}
    table.append({**known, **row_of(result, loop), **llm, "settings": arm.told, "run": f"runs/{name}", **machine()})


def _newest(rows: list[Row], arms: list[Arm]) -> list[Row]:
    """The last row of each run, variant by variant as they were asked for."""
    found = {(row["variant"], row["seed"]): row for row in rows}
    return [row for arm in arms for (name, _), row in sorted(found.items()) if name == arm.variant.name]


def _contract_row(row: Row) -> dict[str, Any]:
    """A row as result.json has it: what belongs together in an object of its own."""
    grouped = {kind: {str(t): row[f"{kind}_{t}"] for t in THRESHOLDS} for kind in ("steps_to", "cpu_s_to")}
    return {**row, **grouped, "llm": {name: row[f"llm_{name}"] for name in NO_LLM}}


def _lines(rows: list[Row], compared: list[dict[str, Any]]) -> list[str]:
    """The table, each variant's runs together, and the comparisons."""
    if not rows:
        return []
    estimator = make_estimator()
    runs = [{**row, "system": row["variant"]} for row in rows]
    told = [line for entry in aggregates(runs, estimator) for line in aggregate_lines(entry)]
    lines = [*run_lines(runs), "", *told, "", *map(comparison_line, compared)]
    return lines if estimator else [*lines, NO_RLIABLE]


def comparison_line(row: Mapping[str, Any]) -> str:
    """One comparison in words."""

    def number(name: str) -> str:
        value, form = row[name], ",.0f" if "_to_" in row["metric"] else ".3f"
        return "never" if value is None else format(value, form)

    text = (
        f"{row['variant']} against {row['against']}, {row['metric']}: "
        f"median {number('median')} against {number('median_against')}"
    )
    if "improvement_probability" not in row:
        return text
    chance, low, high = (row[f"improvement_{end}"] for end in ("probability", "low", "high"))
    better = f"better with probability {chance:.2f} ({low:.2f} to {high:.2f})"
    if row["iqm_difference"] is None:
        return f"{text}; {better}"
    difference = f"{number('iqm_difference')} ({number('iqm_difference_low')} to {number('iqm_difference_high')})"
    return f"{text}; {better}; IQM difference {difference}"
