"""What the rows of `bench suite=learning` come to: medians, worst, interquartile means, ratios, a plot."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

from embodied.run.ablation import NEVER, Estimate, Estimator, finite, middle, value_of, values_of
from embodied.run.result import THRESHOLDS

from ..outcome import file_name
from .estimates import NO_RLIABLE
from .table import Row, Table

NULL = "null"
OURS = "ours"
KINDS = {"steps_to": "steps", "cpu_s_to": "CPU-s"}


def report(task: str, table: Table, curves: Table, estimator: Estimator | None) -> list[str]:
    """Lines for the reader; the same as data in the table's summary, and a plot beside it."""
    from embodied.report.curves import success_curves

    rows = newest([row for row in table.rows if row["task"] == task])
    idle, runs = rows.pop((NULL, None)), list(rows.values())
    told = aggregates(runs, estimator)
    table.summary = {"task": task, "null_success_rate": idle["success_rate"], "aggregates": told}
    lines = [null_line(idle)]
    if not runs:
        return lines
    newest_points = newest([row for row in curves.rows if row["task"] == task], "env_steps")
    plot = success_curves(
        table.folder / f"{file_name(task)}.png",
        list(newest_points.values()),
        idle["success_rate"],
        f"{task}: evaluations",
    )
    table.summary["plot"] = str(plot)
    lines += [*run_lines(runs), "", *(line for entry in told for line in aggregate_lines(entry))]
    lines += ratio_lines(runs)
    return [*lines, *([] if estimator else [NO_RLIABLE]), f"plot: {plot}"]


def newest(rows: Sequence[Row], *more: str) -> dict[tuple[Any, ...], Row]:
    """The last row of each system and seed (and `more`): one that was made again counts once."""
    return {tuple(row[name] for name in ("system", "seed", *more)): row for row in rows}


def by_system(rows: Sequence[Row]) -> dict[str, list[Row]]:
    """Rows of each system, in the order in which the systems first appear."""
    found: dict[str, list[Row]] = {}
    for row in rows:
        found.setdefault(row["system"], []).append(row)
    return found


def aggregates(rows: Sequence[Row], estimator: Estimator | None) -> list[Row]:
    """A flat object for each system; null stands for never.

    `<metric>_median`, `_worst`, and for two runs or more with rliable `_iqm`, `_iqm_low`, `_iqm_high` (95 %), for
    `success_rate` and steps and processor seconds to each success rate; `reached_<rate>`: how many runs reached it.
    """
    made = []
    for system, runs in by_system(rows).items():
        entry: Row = {"system": system, "runs": len(runs), **_statistics(runs, "success_rate", estimator, min)}
        for threshold in THRESHOLDS:
            entry[f"reached_{threshold}"] = sum(row[f"steps_to_{threshold}"] is not None for row in runs)
            for kind in KINDS:
                entry |= _statistics(runs, f"{kind}_{threshold}", estimator, max)
        made.append(entry)
    return made


def _statistics(runs: Sequence[Row], metric: str, estimator: Estimator | None, worst: Any) -> Row:
    values = values_of(runs, metric)
    entry = {f"{metric}_median": middle(values), f"{metric}_worst": finite(worst(values))}
    if estimator is None or len(runs) < 2:
        return entry
    never = Estimate(None, None, None)
    found = never if min(values) == NEVER else estimator.iqm(values)
    return {**entry, f"{metric}_iqm": found.value, f"{metric}_iqm_low": found.low, f"{metric}_iqm_high": found.high}


def null_line(row: Mapping[str, Any]) -> str:
    """The floor in words."""
    return (
        f"{row['task']}: a policy that does nothing has success {row['success_rate']:.3f} over {row['episodes']} "
        f"episodes (95 %: {row['success_low']:.3f} to {row['success_high']:.3f})"
    )


def run_lines(runs: Sequence[Row]) -> list[str]:
    """A table with a line for each run."""
    head = ["system", "seed", "success", *(f"{name} {t}" for name in KINDS.values() for t in THRESHOLDS), "stopped at"]
    cells = [head]
    for system, group in by_system(runs).items():
        for row in sorted(group, key=lambda item: item["seed"]):
            reached = [_count(row[f"{kind}_{t}"]) for kind in KINDS for t in THRESHOLDS]
            stop = "" if row["stopped_at"] is None else f"{row['stopped_at']:,} steps, {row['cpu_train_s']:,.0f} CPU-s"
            cells.append([system, str(row["seed"]), f"{row['success_rate']:.2f}", *reached, stop])
    widths = [max(len(line[i]) for line in cells) for i in range(len(head))]
    return [
        "  ".join(cell.rjust(w) if i else cell.ljust(w) for i, (cell, w) in enumerate(zip(line, widths, strict=True)))
        for line in cells
    ]


def aggregate_lines(entry: Mapping[str, Any]) -> list[str]:
    """A system's runs together."""
    runs = entry["runs"]
    first = f"{entry['system']} ({runs} run{'s' * (runs > 1)}): success {_told(entry, 'success_rate', '.3f')}"
    lines = [first]
    for t in THRESHOLDS:
        reached = entry[f"reached_{t}"]
        if reached:
            told = "; ".join(f"{name} {_told(entry, f'{kind}_{t}', ',.0f')}" for kind, name in KINDS.items())
            lines.append(f"  {t} in {reached} of {runs}: {told}")
        else:
            lines.append(f"  {t} never")
    return lines


def ratio_lines(runs: Sequence[Row], threshold: float = 0.9) -> list[str]:
    """How much more processor time the others take, by medians; where they never arrive, the least that it can be."""
    groups = by_system(runs)
    metric = f"cpu_s_to_{threshold}"
    ours = middle(values_of(groups[OURS], metric)) if OURS in groups else None
    if not ours:
        return []
    lines = []
    for system, group in groups.items():
        if system == OURS:
            continue
        theirs = middle(values_of(group, metric))
        spent = median(min(value_of(row, metric), row["cpu_train_s"]) for row in group)
        factor = f"{theirs / ours:.1f} times" if theirs is not None else f"more than {spent / ours:.1f} times"
        lines.append(f"CPU-s to {threshold}, medians: {system} takes {factor} as much as {OURS}")
    return lines


def _told(entry: Mapping[str, Any], metric: str, form: str) -> str:
    def number(value: float | None) -> str:
        return "never" if value is None else format(value, form)

    text = f"median {number(entry[f'{metric}_median'])}, worst {number(entry[f'{metric}_worst'])}"
    if f"{metric}_iqm" not in entry:
        return text
    iqm, low, high = (number(entry[f"{metric}_iqm{end}"]) for end in ("", "_low", "_high"))
    return f"{text}, IQM {iqm} ({low} to {high})"


def _count(value: float | None) -> str:
    return "never" if value is None else f"{value:,.0f}"
