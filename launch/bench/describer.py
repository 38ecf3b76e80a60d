"""`bench suite=describer`: what is said of frames that nothing was fitted on, held against the truth.

Splits are those of `robots.randomize`: other cameras, other textures and lights, pairs of kind and colour that were
never shown, more things than ever. A row is one describer on one split; rows of `words` are about words alone. Each row
is made from its own frames and model, whatever others are there; what is said of all of them comes from the rows.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

from embodied.errors import unknown_name

from .. import build
from ..fitting import HELD_OUT_SPLITS, frame_set
from . import describer_page, describer_rows, describer_tables
from .describer_rows import Subject
from .machine import machine
from .table import Row, Table

if TYPE_CHECKING:
    from vlm_describer.dataset import FrameSet

    from ..verbs.bench import KEYS

SEED_STEP = 1_000
"""Between the scenes that models were fitted with and those that they are judged on, in `fit`'s seeds."""
ORACLE, WORDS = "oracle", "words"
STATE = "state"
"""What stands for the oracle's model."""
Split = Callable[[str], "FrameSet"]
"""Opens the frames of a split."""


def run(config: KEYS, table: Table) -> list[str]:
    """Makes the rows that are missing and prints them all.

    Raises:
        UserError: An unknown describer, or one whose model cannot be had.
    """
    build.one_thread()
    makers = _makers(config)
    for name in config.describers:
        if name not in (*makers, ORACLE, WORDS):
            raise unknown_name("describer", name, (*makers, ORACLE, WORDS))
    # All models before the first frame: one that cannot be had is said at once.
    subjects = [makers[name]() for name in config.describers if name in makers]
    sets: dict[str, FrameSet] = {}

    def frames(split: str) -> FrameSet:
        if split not in sets:
            sets[split] = frame_set(
                table.folder / "frames", split, config.frames, SEED_STEP + config.seed, lambda task, share: None
            )
        return sets[split]

    try:
        _make_rows(config, table, subjects, frames)
        return _told(config, table, frames)
    finally:
        for held in sets.values():
            held.close()


def _makers(config: KEYS) -> dict[str, Callable[[], Subject]]:
    """Who can be judged by looking."""
    from vlm_describer.blip import load_blip_looker
    from vlm_describer.calibration import Calibration
    from vlm_describer.clip import NamingLooker, load_clip_looker
    from vlm_describer.naming import GeometryNamer
    from vlm_describer.threshold import ThresholdLooker

    def blip() -> Subject:
        looker, calibration = load_blip_looker(config.captioner)
        return Subject("blip", looker, calibration, looker)

    return {
        "clip": lambda: Subject("clip", *load_clip_looker(config.model, config.pretrained)),
        "blip": blip,
        "geometry": lambda: Subject("geometry", NamingLooker(GeometryNamer()), Calibration()),
        "threshold": lambda: Subject("threshold", ThresholdLooker(), Calibration()),
    }


def _make_rows(config: KEYS, table: Table, subjects: list[Subject], frames: Split) -> None:
    for split in HELD_OUT_SPLITS:
        for subject in (*([None] if ORACLE in config.describers else []), *subjects):
            model = STATE if subject is None else subject.looker.identity
            key = {"describer": ORACLE if subject is None else subject.name, "model": model}
            row = {**key, "split": split, "seed": config.seed}
            if not table.done(**row):
                print(f"{row['describer']} on {split}", file=sys.stderr)
                made = _made(table, row, subject, frames(split))
                table.append({**row, "frames": len(frames(split)), **made, **machine()})
    if WORDS in config.describers:
        _make_word_rows(config, table)


def _made(table: Table, row: Row, subject: Subject | None, frames: FrameSet) -> Row:
    if subject is None:
        return describer_rows.known(frames)
    made, shown = describer_rows.looked(subject, frames)
    describer_page.keep(table.folder, describer_page.name_of(row), shown)
    return made


def _make_word_rows(config: KEYS, table: Table) -> None:
    """Those that are missing: a kill may have come between two of them."""
    from embodied.text_encoder import TextEncoder
    from vlm_describer.words_report import SWAPS

    key = {"describer": WORDS, "seed": config.seed}
    if table.done(**key, leg=SWAPS[-1][0]):
        return
    print(WORDS, file=sys.stderr)
    for made in describer_rows.understood(TextEncoder()):
        if not table.done(**key, words_of=made["words_of"], leg=made["leg"]):
            table.append({**key, **made})


def _told(config: KEYS, table: Table, frames: Split) -> list[str]:
    """Tables of the rows of this seed, and the page of examples."""
    asked = [row for row in table.rows if row["seed"] == config.seed and row["describer"] in config.describers]
    rows = [row for row in asked if row["describer"] != WORDS]
    words = [row for row in asked if row["describer"] == WORDS]
    lines = describer_tables.table_lines(rows, words)
    table.summary = {"captions": describer_tables.together(rows), "relations": describer_tables.relations(rows)}
    looked = sorted(
        (row for row in rows if row["describer"] != ORACLE), key=lambda row: config.describers.index(row["describer"])
    )
    if not looked:
        return lines
    page = describer_page.write_page(table.folder, looked, {split: frames(split) for split in HELD_OUT_SPLITS})
    table.summary["examples"] = page
    return [*lines, "", f"examples: {page}"]
