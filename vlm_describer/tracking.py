"""The same things from look to look: what a describer sees anew each time, kept under one id by name, size and place.

What is hidden keeps its last place; what is not at its place although that can be seen, twice in a row, is gone.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from embodied.types import DescribedObject, EntityRole, Frame, SceneDescription

SAME_M = 0.025
"""A thing seen so near to where one was is that one, whatever it is called."""
BEHIND_M = 0.03
"""What is seen so much further away than a thing shows that the thing is not there."""
GONE_LOOKS = 2
SIZE_RATIO = 1.35
"""Half extents that differ by more are those of a part of the thing."""
SURE = 0.4
"""What is seen elsewhere under a thing's name has to be so sure to be it."""
Point = NDArray[np.float64]


@dataclass
class Track:
    """One thing."""

    id: str
    role: EntityRole
    kind: str
    colour: str
    position_m: Point
    """World, (3,)."""
    half_extents_m: Point
    """Along B's axes, (3,)."""
    confidence: float
    missed: int = 0
    """Looks in a row that showed its place without it."""

    @property
    def gone(self) -> bool:
        """It was taken away."""
        return self.missed >= GONE_LOOKS


class Tracker:
    """Keeps tracks of what the first look showed.

    Args:
        first: What is there; things without a name are left out.
        table: The surface that they stand on, as (position in the world, half extents along B's axes); None: unknown.
    """

    def __init__(self, first: SceneDescription, table: tuple[Point, Point] | None = None) -> None:
        named = [item for item in first.objects if item.kind not in ("thing", "unknown", "gripper", "robot")]
        counts, numbers = Counter(_base(item) for item in named), Counter[str]()
        self.tracks: list[Track] = []
        for item in named:
            base = _base(item)
            numbers[base] += 1
            name = base if counts[base] == 1 else f"{base}_{numbers[base]}"
            where, half = (np.asarray(v, dtype=np.float64) for v in (item.position_m, item.half_extents_m))
            self.tracks.append(Track(name, item.role, item.kind, item.colour, where, half, item.confidence))
        if table is not None:
            self.tracks.append(Track("table", "landmark", "table", "unknown", *table, 1.0))

    def track(self, thing: str) -> Track:
        """The thing with this id; KeyError where there is none."""
        for track in self.tracks:
            if track.id == thing:
                return track
        raise KeyError(thing)

    def update(self, seen: SceneDescription, frames: Sequence[Frame], hidden: frozenset[str] = frozenset()) -> None:
        """Another look. Only things that can be moved are followed, and none that is `hidden` by the hand."""
        movable = [track for track in self.tracks if track.role == "object" and track.id not in hidden]
        left = [item for item in seen.objects if item.role in ("object", "zone")]
        pairs = sorted(
            (
                (cost, i, j)
                for i, t in enumerate(movable)
                for j, d in enumerate(left)
                if (cost := _cost(t, d)) is not None
            )
        )
        tracked, used = set[int](), set[int]()
        for _, i, j in pairs:
            if i not in tracked and j not in used:
                tracked.add(i)
                used.add(j)
                _follow(movable[i], left[j])
        for i, track in enumerate(movable):
            if i not in tracked:
                track.missed = track.missed + 1 if _missing(track, frames) else 0


def _base(item: DescribedObject) -> str:
    words = [word for word in (item.colour, item.kind) if word != "unknown"]
    return re.sub(r"[^A-Za-z0-9_]+", "_", "_".join(words))


def _cost(track: Track, seen: DescribedObject) -> float | None:
    """How badly a sighting fits; None where it is another thing."""
    away = float(np.linalg.norm(track.position_m - np.asarray(seen.position_m)))
    same_kind, same_colour = seen.kind == track.kind, seen.colour == track.colour
    if away > SAME_M and not (same_kind and same_colour and seen.confidence >= SURE and _whole(track, seen)):
        return None
    return away + 0.05 * (not same_kind) + 0.1 * (not same_colour)


def _whole(track: Track, seen: DescribedObject) -> bool:
    """All of it is seen, as far as its size says; a turned thing's box is up to 1.4 times as wide."""
    ratio = np.asarray(seen.half_extents_m) / np.maximum(track.half_extents_m, 1e-6)
    wide = SIZE_RATIO * np.array([1.15, 1.15, 1.0])
    return bool(np.all(ratio < wide) and np.all(ratio > 1 / wide))


def _follow(track: Track, seen: DescribedObject) -> None:
    track.missed = 0
    if _whole(track, seen):
        track.position_m = np.asarray(seen.position_m, dtype=np.float64)
        track.half_extents_m = np.asarray(seen.half_extents_m, dtype=np.float64)


def _missing(track: Track, frames: Sequence[Frame]) -> bool:
    """A frame shows what lies behind the place where the thing was, and none shows anything there."""
    beyond = [depth for frame in frames if (depth := _beyond(track, frame)) is not None]
    return any(depth > BEHIND_M for depth in beyond) and not any(abs(depth) <= BEHIND_M for depth in beyond)


def _beyond(track: Track, frame: Frame) -> float | None:
    """How much further away than the thing's middle is what the frame shows there, metres; None: out of the picture."""
    if frame.depth_m is None or frame.intrinsics is None or frame.world_from_camera is None:
        return None
    rotation, origin = frame.world_from_camera[:3, :3], frame.world_from_camera[:3, 3]
    x, y, z = (track.position_m - origin) @ rotation
    if z <= 0:
        return None
    u, v, _ = frame.intrinsics @ np.array([x / z, y / z, 1.0])
    row, column = round(float(v)), round(float(u))
    if not (2 <= row < frame.depth_m.shape[0] - 2 and 2 <= column < frame.depth_m.shape[1] - 2):
        return None
    return float(np.median(frame.depth_m[row - 2 : row + 3, column - 2 : column + 3])) - float(z)
