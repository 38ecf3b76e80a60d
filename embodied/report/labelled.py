"""Labelled frames to look at: a contact sheet on which a person can see whether pictures and labels agree."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw

from embodied.labels import EntityLabel, FrameLabel
from embodied.report.pictures import Tile, contact_sheet
from embodied.types import Frame

ROLE_INK = {"object": (255, 255, 0), "zone": (0, 255, 255), "landmark": (255, 0, 255)}
_TOLD = ("holding", "in", "on", "touching")
"""Facts that are written below a picture; sides are too many."""


def labelled_sheet(
    path: Path, frames: Sequence[tuple[Frame, FrameLabel]], heading: str, columns: int = 4, boxes: bool = True
) -> Path:
    """Frames with the boxes of what they show, and their labels in words, as one PNG.

    Raises:
        ValueError: There are no frames.
    """
    tiles = [Tile(boxed(frame, label) if boxes else frame.rgb, _title(label), _text(label)) for frame, label in frames]
    return contact_sheet(path, tiles, heading, columns)


def boxed(frame: Frame, label: FrameLabel) -> NDArray[np.uint8]:
    """The picture, (H, W, 3), with a thin box round each visible thing but walls and tables, in its role's colour."""
    picture = Image.fromarray(frame.rgb)
    draw = ImageDraw.Draw(picture)
    for entity in label.entities:
        if entity.box_px is not None and entity.kind not in ("wall", "table"):
            left, top, right, bottom = entity.box_px
            draw.rectangle((left - 1, top - 1, right, bottom), outline=ROLE_INK.get(entity.role))
    return np.asarray(picture)


def _title(label: FrameLabel) -> str:
    robot = f", {label.robot} {'in view' if label.robot_in_view else 'hidden'}" if label.robot != "none" else ""
    return f"{label.split} {label.seed}.{label.view}: {label.scene_kind}{robot}"


def _text(label: FrameLabel) -> str:
    named = [e for e in label.entities if e.kind not in ("wall", "table", "place")]
    shown = [e for e in named if e.pixels or e.role == "object"]
    lines = [", ".join(_said(e) for e in sorted(shown, key=lambda e: (e.box_px or (999,))[0])) or "nothing"]
    facts = [f for f in label.facts if f.name in _TOLD and "table" not in f.args]
    words = {e.id: f"{e.colour} {e.kind}" for e in label.entities}
    lines.append("; ".join(f"{f.name} " + "/".join(words.get(a, a) for a in f.args) for f in facts))
    return "\n".join(lines)


def _said(entity: EntityLabel) -> str:
    return f"{entity.colour} {entity.kind} {round(100 * entity.visible_share)}%"
