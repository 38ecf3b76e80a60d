"""Places as plans write them: an id (`left_tray`), a side of a thing (`left_of:blue_block`), or `x,y,z` in the world.

Ids never hold `:` or `,`, so the three forms cannot be confused.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from embodied.types import DescribedObject, SceneDescription

SIDES = ("left_of", "right_of", "in_front_of", "behind", "near", "on", "in")
"""Relations that a place may be written with; each becomes a fact about the thing that is moved."""
_LISTED = 12


@dataclass(frozen=True)
class Place:
    """A place before it has coordinates: exactly one of `point_m` and `reference` is given."""

    point_m: tuple[float, float, float] | None = None
    """World."""
    reference: str | None = None
    """The id of a thing."""
    side: str | None = None
    """A relation to the reference; None where the thing itself is the place."""


def parse_place(text: str) -> Place | None:
    """The place that the text means, None where it has none of the three forms; ids are not looked up."""
    if "," in text:
        point = _point(text)
        return None if point is None else Place(point_m=point)
    side, colon, reference = text.partition(":")
    if not colon:
        return Place(reference=text) if text else None
    return Place(reference=reference, side=side) if side in SIDES and reference and ":" not in reference else None


def checked_place(text: str) -> Place:
    """As `parse_place`, for a text that was checked before."""
    place = parse_place(text)
    if place is None:
        raise ValueError(f"no place: {quoted(text)}")
    return place


def find(scene: SceneDescription, entity_id: str) -> DescribedObject | None:
    """The thing with this id, or None."""
    return next((item for item in scene.objects if item.id == entity_id), None)


def label(item: DescribedObject) -> str:
    """`red block (red_block)`: safe to print, and unique."""
    return f"{item.phrase} ({item.id})"


def listing(items: Sequence[DescribedObject]) -> str:
    """The things in words, at most twelve of them."""
    names = [label(item) for item in items[:_LISTED]]
    more = [f"and {len(items) - _LISTED} more"] if len(items) > _LISTED else []
    return ", ".join(names + more) or "nothing"


def quoted(text: str) -> str:
    """Foreign text on one line, cut, in quotes; what is no letter, number or sign of any script is escaped."""
    cut = text if len(text) <= 60 else text[:60] + "..."
    shown = (c if c.isprintable() and c != "\\" else c.encode("unicode_escape").decode("ascii") for c in cut)
    return "'" + "".join(shown) + "'"


def _point(text: str) -> tuple[float, float, float] | None:
    try:
        numbers = [float(part) for part in text.split(",")]
    except ValueError:
        return None
    if len(numbers) != 3 or not all(math.isfinite(v) for v in numbers):
        return None
    return (numbers[0], numbers[1], numbers[2])
