"""The page of example frames of `bench suite=describer`: chosen with each row, kept beside it, drawn at the end."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from embodied.errors import IntegrityError
from embodied.report.examples import MISSED, RIGHT, WRONG, Example, Mark, Section, write_examples

if TYPE_CHECKING:
    from embodied.labels import FrameLabel
    from embodied.types import SceneDescription
    from vlm_describer.dataset import FrameSet
    from vlm_describer.judge import View
    from vlm_describer.statements import Told

HEADING = "What describers say of frames that nothing was fitted on"
SHOWN = 12
"""Frames of a row."""
MOST_LISTED = 8
"""False statements that are listed of one frame."""
Shown = tuple[int, Example]
"""A frame's index in its set, and what is shown of it."""


def example_of(view: View, description: SceneDescription, told: Told, sentence: str = "") -> Example:
    """What is shown of one frame; `sentence` is the raw caption that the description was made with."""
    label = view.label
    marks = []
    for item, statement in zip(description.objects, told.statements, strict=False):
        left, top, right, bottom = view.located.item(item.id).box_px
        ink = WRONG if statement.true is False else RIGHT
        marks.append(Mark((left, top, right + 1, bottom + 1), item.phrase, ink))
    named = {view.pairs[item.id].id for item in description.objects if item.id in view.pairs}
    marks += _unnamed(label, named)
    false = [statement.text for statement in told.false]
    if len(false) > MOST_LISTED:
        false[MOST_LISTED:] = [f"and {len(false) - MOST_LISTED} more"]
    said = f"{description.caption} (the caption that it looked with: {sentence})" if sentence else description.caption
    return Example(_title(label, told), tuple(marks), said, tuple(false), told.missed, _truth(label))


def chosen(frames: Sequence[tuple[int, Shown]], count: int = SHOWN) -> list[Shown]:
    """Half of them the worst, by number of mistakes; half spread over the others; the worst first."""
    order = sorted(frames, key=lambda frame: (-frame[0], frame[1][0]))
    worst, others = order[: count // 2], order[count // 2 :]
    spread = others[:: max(1, -(-len(others) // (count - count // 2)))]
    return [shown for _, shown in [*worst, *spread]]


def keep(folder: Path, name: str, shown: Sequence[Shown]) -> None:
    """Writes what is shown of a row; the file appears when it is whole."""
    path = _path(folder, name)
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(".partial")
    data = [{"frame": frame, **asdict(example)} for frame, example in shown]
    partial.write_text(json.dumps(data, ensure_ascii=False) + "\n", "utf-8")
    partial.replace(path)


def write_page(folder: Path, rows: Sequence[Mapping[str, Any]], sets: Mapping[str, FrameSet]) -> Path:
    """The page of all rows that have kept examples, as `examples.html`.

    Args:
        folder: Of the table.
        rows: Of describers that look, with `describer`, `split`, `seed` and `model`.
        sets: The frames of each split.

    Raises:
        IntegrityError: What was kept of a row is damaged.
    """
    sections = [
        Section(f"{row['describer']} on {row['split']}", _note(row), tuple(_frames(folder, row, sets[row["split"]])))
        for row in rows
        if _path(folder, name_of(row)).exists()
    ]
    return write_examples(folder / "examples.html", HEADING, sections)


def name_of(row: Mapping[str, Any]) -> str:
    """Of the file with a row's examples."""
    return re.sub(r"[^A-Za-z0-9_.-]+", "-", f"{row['describer']}-{row['model']}-{row['split']}-{row['seed']}")


def _frames(folder: Path, row: Mapping[str, Any], frames: FrameSet) -> Iterator[tuple[Any, Example]]:
    path = _path(folder, name_of(row))
    try:
        for entry in json.loads(path.read_text("utf-8")):
            index = int(entry.pop("frame"))
            marks = tuple(Mark(tuple(mark["box_px"]), mark["text"], mark["ink"]) for mark in entry.pop("marks"))
            false, missed = tuple(entry.pop("false")), tuple(entry.pop("missed"))
            yield frames.picture(index), Example(marks=marks, false=false, missed=missed, **entry)
    except (ValueError, TypeError, KeyError, AttributeError, IndexError):
        raise IntegrityError(f"{path} is damaged; delete it, and its row is left out of the page") from None


def _path(folder: Path, name: str) -> Path:
    return folder / "examples" / f"{name}.json"


def _unnamed(label: FrameLabel, named: set[str]) -> Iterator[Mark]:
    from vlm_describer.captions import phrase_of, told

    for entity in label.entities:
        if entity.box_px is not None and entity.id not in named and told(entity, label):
            yield Mark(entity.box_px, phrase_of(entity), MISSED)


def _title(label: FrameLabel, told: Told) -> str:
    wrong = f"{len(told.false)} of {len(told.statements)} statements false" if told.false else "nothing false"
    return f"{label.scene_kind}, seed {label.seed}, view {label.view}: {wrong}"


def _truth(label: FrameLabel) -> str:
    from vlm_describer.captions import caption_of

    return caption_of(label).text


def _note(row: Mapping[str, Any]) -> str:
    return (
        f"{row['model']}; F1 of kind and colour {row['f1']:.2f}; of {row['said_all']} statements about {row['frames']} "
        f"frames {row['false_all']} false. Half of these frames are the worst, half are spread over the others."
    )
