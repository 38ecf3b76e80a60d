"""`bench suite=planning`: instructions with the facts that are to come of them, planned, carried out and judged.

A row is a line of the file in one arrangement of its scene: as it is, then with its things moved by up to 1.5 cm along
each axis and turned. `planned`: on paper the plan leads to the facts, or the line was to be refused and was.
`executed`: the facts hold when all has come to rest, and order and prohibitions were kept all the way; null where
nothing should move. The last row is the total.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import asdict
from typing import TYPE_CHECKING

import numpy as np

from embodied.errors import UserError, unknown_name
from embodied.run.evaluate import wilson_interval
from embodied.run.progress import ProgressBar

from .. import build
from ..catalogue import DESCRIBERS, PLANNERS
from ..planners import AskingPlanner
from .instructions import Instruction, read_instructions
from .machine import machine
from .planning_run import Setting, Worlds, attempt
from .table import Row, Table

if TYPE_CHECKING:
    from ..verbs.bench import KEYS

TOTAL = "total"
RATES = ("planned", "executed", "refused")


def run(config: KEYS, table: Table) -> list[str]:
    """Makes the rows that are missing and says what they come to.

    Raises:
        UserError: The file, a scene, the planner or the describer cannot be used, or the table is of others.
    """
    if not config.instructions:
        raise UserError("instructions= is required: a file with a line for each instruction (JSON)")
    for kind, name, valid in (("planner", config.planner, PLANNERS), ("describer", config.describer, DESCRIBERS)):
        if name not in valid:
            raise unknown_name(kind, name, valid)
    lines = read_instructions(config.instructions)
    setting = Setting(config.planner, config.describer, config.disturb, config.seed)
    _refuse_others(table.rows, asdict(setting))
    build.one_thread()
    _make_rows(config, lines, setting, table)
    rows = _asked(table.rows, lines, config.variations)
    total = total_row(rows)
    table.summary |= {"rows": [*rows, {**asdict(setting), **total}], "variations": config.variations}
    return [*_scene_lines(rows), _line(TOTAL, total), *_failed_lines(rows)]


def _make_rows(config: KEYS, lines: Sequence[Instruction], setting: Setting, table: Table) -> None:
    asked = [(line, variation) for line in lines for variation in range(config.variations)]
    missing = [(line, v) for line, v in asked if not table.done(**_key(line, v))]
    planner = build.make_planner(config.planner) if missing else None
    bar = ProgressBar(len(asked), len(asked) - len(missing), shown=bool(missing), unit="row", name="planning")
    with closing(bar), closing(Worlds()) as worlds:
        for line, variation in missing:
            assert planner is not None
            try:
                row = attempt(line, variation, setting, planner, worlds)
            except UserError as error:
                raise UserError(f"line {line.line} ({line.scene}): {error}") from None
            table.append({**_key(line, variation), "feasible": line.feasible, **asdict(setting), **row, **machine()})
            bar.advance()
    if isinstance(planner, AskingPlanner):
        planner.close()


def _key(line: Instruction, variation: int) -> Row:
    return {"line": line.line, "scene": line.scene, "instruction": line.words, "variation": variation}


def _asked(rows: Sequence[Row], lines: Sequence[Instruction], variations: int) -> list[Row]:
    """The rows of these lines and variations, in the order of the file."""
    found = {(row["line"], row["instruction"], row["variation"]): row for row in rows}
    return [found[line.line, line.words, v] for line in lines for v in range(variations)]


def _refuse_others(rows: Sequence[Row], about: Row) -> None:
    for row in rows:
        for name, value in about.items():
            if row[name] != value:
                raise UserError(f"the table's rows are of {name}={row[name]}, not {value}: choose another out=")


def total_row(rows: Sequence[Row]) -> Row:
    """Fractions with Wilson's 95 % intervals (`_low`, `_high`), null where there is nothing to count.

    `planned` of all rows, `executed` of those that can be done, `refused` of those that are to be refused,
    `refused_wrongly` of the others; `subgoals`, `retries`, `step_backs`, `replans`, `calls` added up, `seconds` in the
    middle.
    """
    can, cannot = [r for r in rows if r["feasible"]], [r for r in rows if not r["feasible"]]
    total: Row = {"instruction": TOTAL, "of": len(rows), "feasible": len(can)}
    counted = {"planned": rows, "executed": can, "refused": cannot}
    for name, group in counted.items():
        total |= _rate(name, [bool(row[name]) for row in group])
    total |= _rate("refused_wrongly", [bool(row["refused"]) for row in can])
    sums = ("subgoals", "reached", "retries", "step_backs", "replans", "steps", "calls")
    total |= {name: sum(row[name] for row in rows) for name in sums}
    disturbed = sum(bool(row["disturbance"]) for row in rows)
    return {**total, "disturbed": disturbed, "seconds": float(np.median([row["seconds"] for row in rows]))}


def _rate(name: str, hits: Sequence[bool]) -> Row:
    if not hits:
        return {name: None, f"{name}_low": None, f"{name}_high": None}
    low, high = wilson_interval(sum(hits), len(hits))
    return {name: sum(hits) / len(hits), f"{name}_low": low, f"{name}_high": high}


def _scene_lines(rows: Sequence[Row]) -> list[str]:
    scenes = list(dict.fromkeys(row["scene"] for row in rows))
    return [_line(scene, total_row([row for row in rows if row["scene"] == scene])) for scene in scenes]


def _line(name: str, total: Row) -> str:
    told = [
        f"{rate} {total[rate]:.3f} ({total[f'{rate}_low']:.2f} to {total[f'{rate}_high']:.2f})"
        for rate in RATES
        if total[rate] is not None
    ]
    return (
        f"{name}: {', '.join(told)} of {total['of']} rows, {total['feasible']} of them feasible; "
        f"{total['reached']} of {total['subgoals']} subgoals, {total['retries']} retries, {total['step_backs']} steps "
        f"back, {total['replans']} replans, {total['disturbed']} disturbed, {total['seconds']:.1f} s in the middle"
    )


def _failed_lines(rows: Sequence[Row]) -> list[str]:
    return [
        f"line {row['line']}, variation {row['variation']}: {row['why']}"
        for row in rows
        if not row["planned"] or row["executed"] is False
    ]
