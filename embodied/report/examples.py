"""A page of example frames: what was said of each picture, and what is true. One file that needs nothing else."""

from __future__ import annotations

import base64
import io
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw

QUALITY = 88
"""Of the JPEG pictures."""
RIGHT, WRONG, MISSED = "#18a048", "#e02020", "#f0b000"
"""Colours of boxes: what is said and true, said and false, there and not said."""
_STYLE = """
body { font: 14px/1.4 sans-serif; color: #1c2026; margin: 1.5em auto; max-width: 1380px; padding: 0 1em; }
h2 { border-bottom: 1px solid #ccc; padding-bottom: .2em; margin-top: 2em; }
nav a { margin-right: 1em; }
.frames { display: grid; grid-template-columns: repeat(auto-fill, minmax(322px, 1fr)); gap: 1.2em; }
figure { margin: 0; } figure img { width: 100%; max-width: 480px; }
figcaption b { display: inline-block; } dl { margin: .3em 0; } dt { font-weight: bold; margin-top: .3em; }
dd { margin: 0 0 0 .8em; }
"""


@dataclass(frozen=True)
class Mark:
    """A box in a picture with a word beside it."""

    box_px: tuple[int, int, int, int]
    """Left, top, right and bottom, the last two exclusive."""
    text: str
    ink: str
    """RIGHT, WRONG or MISSED."""


@dataclass(frozen=True)
class Example:
    """What was said of one frame."""

    title: str
    marks: tuple[Mark, ...]
    said: str
    """As the describer put it."""
    false: tuple[str, ...]
    """Of what it stated, what is not so."""
    missed: tuple[str, ...]
    """What it should have named."""
    true: str
    """The true caption."""


@dataclass(frozen=True)
class Section:
    """Examples under one heading, with their pictures, (H, W, 3) uint8 each."""

    heading: str
    note: str
    frames: tuple[tuple[NDArray[np.uint8], Example], ...]


def write_examples(path: Path, heading: str, sections: Sequence[Section]) -> Path:
    """Writes the page and returns its path. Whatever comes from a scene or a model is escaped."""
    links = "".join(f'<a href="#s{i}">{escape(section.heading)}</a>' for i, section in enumerate(sections))
    keys = (
        f'<p>Boxes: <b style="color:{RIGHT}">said and true</b>, <b style="color:{WRONG}">said and false</b>, '
        f'<b style="color:{MISSED}">visible and not named</b>.</p>'
    )
    body = "\n".join(_section(i, section) for i, section in enumerate(sections))
    page = (
        f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><title>{escape(heading)}</title>\n'
        f"<style>{_STYLE}</style></head>\n<body><h1>{escape(heading)}</h1>\n{keys}\n<nav>{links}</nav>\n{body}\n"
        "</body></html>\n"
    )
    partial = path.with_suffix(".partial")
    partial.write_text(page, "utf-8")
    partial.replace(path)
    return path


def marked(rgb: NDArray[np.uint8], marks: Sequence[Mark]) -> NDArray[np.uint8]:
    """The picture, (H, W, 3), with each mark's box and word; one that is missed below the others."""
    picture = Image.fromarray(np.ascontiguousarray(rgb))
    draw = ImageDraw.Draw(picture)
    for mark in sorted(marks, key=lambda m: (MISSED, RIGHT, WRONG).index(m.ink)):
        left, top, right, bottom = mark.box_px
        draw.rectangle((left - 1, top - 1, right, bottom), outline=mark.ink)
        place = (max(0, left), top - 11 if top >= 11 else bottom + 1)
        draw.rectangle(draw.textbbox(place, mark.text), fill="#ffffff")
        draw.text(place, mark.text, fill=mark.ink)
    return np.asarray(picture)


def _section(index: int, section: Section) -> str:
    frames = "\n".join(_figure(rgb, example) for rgb, example in section.frames)
    return (
        f'<h2 id="s{index}">{escape(section.heading)}</h2>\n<p>{escape(section.note)}</p>\n'
        f'<div class="frames">\n{frames}\n</div>'
    )


def _figure(rgb: NDArray[np.uint8], example: Example) -> str:
    ink = WRONG if example.false else RIGHT
    told = [("said", [example.said]), ("true", [example.true])]
    if example.false:
        told.insert(1, ("of this false", list(example.false)))
    if example.missed:
        told.append(("not named", list(example.missed)))
    lines = "".join(f"<dt>{name}</dt>" + "".join(f"<dd>{escape(text)}</dd>" for text in texts) for name, texts in told)
    return (
        f'<figure><img alt="{escape(example.title)}" src="{_data_uri(marked(rgb, example.marks))}">'
        f'<figcaption><b style="color:{ink}">{escape(example.title)}</b><dl>{lines}</dl></figcaption></figure>'
    )


def _data_uri(rgb: NDArray[np.uint8]) -> str:
    with io.BytesIO() as file:
        Image.fromarray(rgb).save(file, "JPEG", quality=QUALITY)
        return "data:image/jpeg;base64," + base64.b64encode(file.getvalue()).decode("ascii")
