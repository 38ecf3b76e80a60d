"""Still pictures: PNG files, and the contact sheet of a plan that was carried out."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

MARGIN, CAPTION_LINES, LINE = 8, 6, 15
INK, PAPER, GOOD, BAD = (28, 32, 38), (255, 255, 255), (24, 128, 56), (176, 48, 32)


def save_png(path: Path, rgb: NDArray[np.uint8]) -> Path:
    """Writes an (H, W, 3) picture and returns its path."""
    Image.fromarray(rgb).save(path)
    return path


@dataclass(frozen=True)
class Tile:
    """One picture of a contact sheet with what is said below it."""

    rgb: NDArray[np.uint8]
    """(H, W, 3)"""
    title: str
    text: str
    good: bool = True
    """False paints the title in the warning colour."""


def contact_sheet(path: Path, tiles: Sequence[Tile], heading: str, columns: int = 3) -> Path:
    """Tiles in rows under a heading, as one PNG.

    Raises:
        ValueError: There are no tiles.
    """
    if not tiles:
        raise ValueError("a contact sheet needs at least one tile")
    height, width = tiles[0].rgb.shape[:2]
    columns = min(columns, len(tiles))
    rows = -(-len(tiles) // columns)
    cell_w, cell_h = width + MARGIN, height + (CAPTION_LINES + 1) * LINE + 2 * MARGIN
    top = 2 * LINE + MARGIN
    sheet = Image.new("RGB", (columns * cell_w + MARGIN, top + rows * cell_h + MARGIN), PAPER)
    draw = ImageDraw.Draw(sheet)
    draw.text((MARGIN, MARGIN), heading, fill=INK, font=_font(18))
    for i, tile in enumerate(tiles):
        _draw_tile(sheet, draw, tile, MARGIN + (i % columns) * cell_w, top + (i // columns) * cell_h, width)
    sheet.save(path)
    return path


def _draw_tile(sheet: Image.Image, draw: ImageDraw.ImageDraw, tile: Tile, x: int, y: int, width: int) -> None:
    sheet.paste(Image.fromarray(tile.rgb), (x, y))
    y += tile.rgb.shape[0] + MARGIN // 2
    draw.text((x, y), tile.title, fill=GOOD if tile.good else BAD, font=_font(13))
    per_line = max(10, int(width / 6.2))
    wrapped = [piece for line in tile.text.splitlines() for piece in textwrap.wrap(line, per_line) or [""]]
    for i, line in enumerate(wrapped[:CAPTION_LINES]):
        cut = line + " ..." if i == CAPTION_LINES - 1 and len(wrapped) > CAPTION_LINES else line
        draw.text((x, y + (i + 1) * LINE + 2), cut, fill=INK, font=_font(11))


def _font(size: int) -> ImageFont.FreeTypeFont | ImageFont.ImageFont:
    return ImageFont.load_default(size)
