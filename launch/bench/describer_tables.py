"""What `bench suite=describer` prints of its rows: short tables with aligned columns."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from embodied.facts import PREDICATES

Rows = Sequence[Mapping[str, Any]]
NAMES = ("f1", "kind_f1", "colour_f1", "precision", "recall", "ece_kinds", "ece_colours", "ece_scenes")
MEASURES = ("position_median_m", "position_p95_m", "cpu_ms", "cpu_p95_ms")
CELLS = ("true_yes", "true_no", "true_open", "false_yes", "false_no", "false_open")
SHARES = ("contradicted", "things_contradicted", "facts_contradicted", "caption_contradicted", "mentioned", "repeated")


def table_lines(rows: Rows, words: Rows) -> list[str]:
    """Names, facts and captions of describers, then words."""
    if not rows:
        return _words(words)
    rows = [row for of_one in _by_describer(rows).values() for row in of_one]
    return [*_names(rows), "", *_facts(rows), "", *_captions(rows), *([""] if words else []), *_words(words)]


def together(rows: Rows) -> list[dict[str, Any]]:
    """Captions over all splits: one flat object for each describer, and for raw sentences where there are any."""
    from vlm_describer.statements import shares

    found = []
    for who, of_one in _by_describer(rows).items():
        for prefix, name in (("", who), ("sentence_", f"{who}, raw")):
            counts = [_counts(row, prefix) for row in of_one if f"{prefix}said_all" in row]
            if counts:
                whole = {key: sum(count[key] for count in counts) for key in counts[0]}
                found.append({"describer": name, "split": "all", **whole, **shares(whole)})
    return found


def relations(rows: Rows) -> list[dict[str, Any]]:
    """Confusion matrices over all splits: one flat object for each describer and predicate that was asked."""
    from vlm_describer.score import rates

    found = []
    for who, of_one in _by_describer(rows).items():
        for name in PREDICATES:
            cells: Counter[str] = Counter()
            for row in of_one:
                cells.update({cell: row.get(f"{name}_{cell}", 0) for cell in CELLS})
            if cells.total():
                whole = {cell: cells[cell] for cell in CELLS}
                found.append({"describer": who, "predicate": name, **rates(whole), **whole})
    return found


def aligned(header: Sequence[str], lines: Iterable[Sequence[str]]) -> list[str]:
    """Columns of equal width: words to the left, numbers to the right."""
    cells = [list(header), *(list(line) for line in lines)]
    widths = [max(len(row[column]) for row in cells) for column in range(len(header))]
    left = [column for column in range(len(header)) if not any(_numeric(row[column]) for row in cells[1:])]
    return [
        "  ".join(
            cell.ljust(width) if column in left else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in cells
    ]


def _names(rows: Rows) -> list[str]:
    header = ["describer", "split", "frames", "F1", "kind", "colour", "precision", "recall", "cal. kind", "colour",
              "scene", "mm", "95 %", "ms", "95 %"]  # fmt: skip
    lines = []
    for row in rows:
        measures = (row[key] for key in MEASURES)
        scaled = [value if value is None else value * (1e3 if key.endswith("_m") else 1.0)
                  for key, value in zip(MEASURES, measures, strict=True)]  # fmt: skip
        lines.append([
            row["describer"], row["split"], str(row["frames"]), *(_fraction(row.get(key)) for key in NAMES),
            *("-" if value is None else f"{value:.1f}" for value in scaled),
        ])  # fmt: skip
    title = "names: F1 of kind with colour, of each; calibration errors; error of the centre in mm; CPU ms a frame"
    return [title, *aligned(header, lines)]


def _facts(rows: Rows) -> list[str]:
    worst = {
        (who, name): max((row[f"ece_{name}"] for row in of_one if row.get(f"ece_{name}") is not None), default=None)
        for who, of_one in _by_describer(rows).items()
        for name in PREDICATES
    }
    keys = ("accuracy", "abstention", "precision", "recall")
    lines = [
        [row["describer"], row["predicate"], *(_fraction(row[key]) for key in keys),
         _fraction(worst[row["describer"], row["predicate"]]), *(str(row[cell]) for cell in CELLS)]
        for row in relations(rows)
    ]  # fmt: skip
    header = ["describer", "fact", "right", "open", "precision", "recall", "cal.", "true: yes", "no", "open",
              "false: yes", "no", "open"]  # fmt: skip
    title = "facts about found things, all splits: right where answered, not answered, worst calibration error; counts"
    return [title, *aligned(header, lines)]


def _captions(rows: Rows) -> list[str]:
    every: list[Mapping[str, Any]] = []
    for row in rows:
        for prefix, name in (("", row["describer"]), ("sentence_", f"{row['describer']}, raw")):
            if f"{prefix}said_all" in row:
                shares = {key: row[prefix + key] for key in SHARES}
                every.append({"describer": name, "split": row["split"], **_counts(row, prefix), **shares})
    every = [*every, *together(rows)]
    lines = [
        [row["describer"], row["split"], str(row["frames"]), str(row["said_all"]), *(_fraction(row[k]) for k in SHARES)]
        for row in every
    ]
    header = ["describer", "split", "frames", "said", "false", "things", "facts", "caption", "mentioned", "repeating"]
    return ["captions: share of statements that are false, of things that are mentioned", *aligned(header, lines)]


def _words(rows: Rows) -> list[str]:
    if not rows:
        return []
    sets = [row for row in rows if row["words_of"] != "sentences"]
    lines = [
        [
            row["words_of"],
            row["leg"],
            str(row["words"]),
            *(_fraction(row[key]) for key in ("right", "wrong", "unknown")),
        ]
        for row in sets
    ]
    pairs = [
        [row["leg"], row["sentence"], row["other"], _fraction(row["cosine"])]
        for row in rows
        if row["words_of"] == "sentences"
    ]
    return [
        "words never used in fitting",
        *aligned(["words", "understood by", "number", "right", "wrong", "unknown"], lines),
        "",
        "what the locked text tower cannot tell apart",
        *aligned(["what differs", "sentence", "other sentence", "cosine"], pairs),
    ]


def _by_describer(rows: Rows) -> dict[str, list[Mapping[str, Any]]]:
    """Rows of one describer, with its model's name where there are several of it."""
    models: dict[str, set[str]] = {}
    for row in rows:
        models.setdefault(row["describer"], set()).add(row["model"])
    found: dict[str, list[Mapping[str, Any]]] = {}
    for row in rows:
        several = len(models[row["describer"]]) > 1
        found.setdefault(f"{row['describer']} {row['model']}" if several else row["describer"], []).append(row)
    return found


def _counts(row: Mapping[str, Any], prefix: str) -> dict[str, int]:
    from vlm_describer.statements import Tally

    return {key: row[prefix + key] for key in Tally().counts()}


def _fraction(value: float | None) -> str:
    return "-" if value is None or value != value else f"{value:.3f}"


def _numeric(cell: str) -> bool:
    return cell.replace(".", "", 1).lstrip("-").isdigit()
