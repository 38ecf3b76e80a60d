"""Random arrangements of things on a level area: apart, touching, on top of each other, in trays. All are at rest.

Outlines from above are rectangles or circles. Something new is kept clear of all that lies there already by the circle
round its own outline; only what it touches or stands on may be nearer.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from robots.random_scene import RandomThing

SUNK_M = 5e-5
"""How far what rests reaches into what it rests on, so that the simulator finds their contact."""
GAP_M = 0.006
"""Least distance between things that do not touch."""
_TRIES = 80
_HIGHEST = 3
"""Things in a pile."""
_OUTSIDE_M = 0.004
"""From the border of a zone to what lies beside it, at least."""


@dataclass(frozen=True)
class Spot:
    """A thing's place in the frame of the area: origin in its middle, z up, metres."""

    thing: RandomThing
    x: float
    y: float
    z: float
    """Of the middle of its box."""
    yaw: float
    level: int = 0
    """0 on the area, else the number of things below it."""

    @property
    def radius(self) -> float:
        """Of the circle round its outline."""
        return outline_radius(self.thing)

    def gap(self, x: float, y: float) -> float:
        """From the border of its outline to a point; negative inside."""
        dx, dy = x - self.x, y - self.y
        if self.thing.round:
            return math.hypot(dx, dy) - self.thing.half_m[0]
        c, s = math.cos(self.yaw), math.sin(self.yaw)
        u = abs(c * dx + s * dy) - self.thing.half_m[0]
        v = abs(c * dy - s * dx) - self.thing.half_m[1]
        return math.hypot(max(u, 0.0), max(v, 0.0)) + min(max(u, v), 0.0)


def outline_radius(thing: RandomThing) -> float:
    """Of the circle round a thing's outline from above."""
    return thing.half_m[0] if thing.round else math.hypot(*thing.half_m[:2])


@dataclass(frozen=True)
class Habits:
    """How often a thing that could do so..."""

    in_zone: float = 0.3
    on_top: float = 0.3
    touching: float = 0.2


def arrange(
    rng: np.random.Generator, things: Sequence[RandomThing], half_m: tuple[float, float], habits: Habits
) -> list[Spot] | None:
    """A place for each of the things, zones and pillars before what moves; None where something found none.

    Args:
        half_m: Half extents of the area.
    """
    spots: list[Spot] = []
    for thing in things:
        spot = None
        if thing.role == "object":
            spot = _special(rng, thing, spots, half_m, habits)
        spot = spot or _free(rng, thing, spots, half_m)
        if spot is None:
            return None
        spots.append(spot)
    return spots


def _special(
    rng: np.random.Generator,
    thing: RandomThing,
    spots: list[Spot],
    half_m: tuple[float, float],
    habits: Habits,
) -> Spot | None:
    """In a zone, on or beside another thing, if the dice and the others allow it."""
    objects = [spot for spot in spots if spot.thing.role == "object"]
    zones = [spot for spot in spots if spot.thing.role == "zone"]
    for share, partners, place in (
        (habits.in_zone, zones, _in_zone),
        (habits.on_top, [spot for spot in objects if spot.thing.flat and spot.level < _HIGHEST - 1], _on_top),
        (habits.touching, [spot for spot in objects if spot.level == 0], _beside),
    ):
        if partners and rng.random() < share:
            partner = partners[int(rng.integers(len(partners)))]
            for _ in range(8):
                spot = place(rng, thing, partner, spots)
                if spot is not None and _on_area(spot, half_m):
                    return spot
    return None


def _free(rng: np.random.Generator, thing: RandomThing, spots: list[Spot], half_m: tuple[float, float]) -> Spot | None:
    """Anywhere on the area, clear of everything."""
    radius = outline_radius(thing)
    room = [half - radius - GAP_M for half in half_m]
    if min(room) <= 0:
        return None
    for _ in range(_TRIES):
        x, y = (float(rng.uniform(-r, r)) for r in room)
        spot = Spot(thing, x, y, _rest(thing, 0.0), _yaw(rng, thing))
        if is_clear(spot, spots):
            return spot
    return None


def _in_zone(rng: np.random.Generator, thing: RandomThing, zone: Spot, spots: list[Spot]) -> Spot | None:
    """Lying wholly inside a zone."""
    rim = 0.005 if len(zone.thing.parts) > 1 else 0.0
    room = [half - outline_radius(thing) - rim - 0.002 for half in zone.thing.half_m[:2]]
    if min(room) <= 0:
        return None
    u, v = (float(rng.uniform(-r, r)) for r in room)
    if zone.thing.round and math.hypot(u, v) > room[0]:
        return None
    c, s = math.cos(zone.yaw), math.sin(zone.yaw)
    x, y = zone.x + c * u - s * v, zone.y + s * u + c * v
    spot = Spot(thing, x, y, _rest(thing, 2 * zone.thing.half_m[2]), _yaw(rng, thing), 0)
    return spot if is_clear(spot, [other for other in spots if other is not zone]) else None


def _on_top(rng: np.random.Generator, thing: RandomThing, below: Spot, spots: list[Spot]) -> Spot | None:
    """Standing on another thing, its middle well over it. What rolls is not put there."""
    wide, narrow = min(below.thing.half_m[:2]), min(thing.half_m[:2])
    kept = thing.kind in ("block", "plate", "disc") or (thing.kind == "cylinder" and thing.round)
    if not kept or wide < 0.6 * narrow or any(_stands_on(other, below) for other in spots):
        return None
    shift = 0.3 * wide
    x, y = below.x + float(rng.uniform(-shift, shift)), below.y + float(rng.uniform(-shift, shift))
    top = below.z + below.thing.half_m[2]
    spot = Spot(thing, x, y, top + thing.half_m[2] - SUNK_M, _yaw(rng, thing), below.level + 1)
    pile = [other for other in spots if other is not below and not _stands_on(below, other)]
    return spot if is_clear(spot, [other for other in pile if other.thing.role != "zone"]) else None


def _beside(rng: np.random.Generator, thing: RandomThing, other: Spot, spots: list[Spot]) -> Spot | None:
    """Touching another thing with a face, or where it is round."""
    if "thing" in (thing.kind, other.thing.kind) or not _upright(thing) or not _upright(other.thing):
        return None
    yaw = other.yaw if thing.round == other.thing.round else _yaw(rng, thing)
    if thing.round and other.thing.round:
        angle = float(rng.uniform(0, 2 * math.pi))
        a, b = thing.half_m[0], other.thing.half_m[0]
        # Balls on one level touch at the height between their middles.
        reach = 2 * math.sqrt(a * b) if thing.kind == other.thing.kind == "ball" else a + b
    else:
        side = int(rng.integers(4))
        angle = (yaw if other.thing.round else other.yaw) + side * math.pi / 2
        yaw = yaw if other.thing.round else other.yaw
        reach = sum(item.half_m[0] if item.round else item.half_m[side % 2] for item in (thing, other.thing))
    if (thing.kind == "ball") != (other.thing.kind == "ball") and not _meets_ball(thing, other):
        return None
    reach -= SUNK_M
    x, y = other.x + reach * math.cos(angle), other.y + reach * math.sin(angle)
    base = other.z - other.thing.half_m[2] + SUNK_M
    spot = Spot(thing, x, y, _rest(thing, base), yaw, 0)
    return spot if is_clear(spot, [item for item in spots if item is not other]) else None


def _meets_ball(thing: RandomThing, other: Spot) -> bool:
    """Whether the upright one of the two is high enough for the ball's widest part to meet it."""
    ball, upright = (thing, other.thing) if thing.kind == "ball" else (other.thing, thing)
    return 2 * upright.half_m[2] > ball.half_m[2]


def _upright(thing: RandomThing) -> bool:
    """Its sides are vertical, or it is a ball."""
    return thing.kind != "cylinder" or thing.round


def _rest(thing: RandomThing, height: float) -> float:
    """Height of its middle when it lies on something so high; zones lie on the area without reaching into it."""
    return height + thing.half_m[2] - (SUNK_M if thing.role == "object" else 0.0)


def _yaw(rng: np.random.Generator, thing: RandomThing) -> float:
    """Zones lie more often along the area's sides."""
    if thing.role == "zone" and rng.random() < 0.6:
        return 0.0
    return float(rng.uniform(-math.pi, math.pi))


def _stands_on(upper: Spot, lower: Spot) -> bool:
    rests = abs(upper.z - upper.thing.half_m[2] - lower.z - lower.thing.half_m[2]) < 2 * SUNK_M
    return rests and lower.gap(upper.x, upper.y) < 0 and upper.level > lower.level


def is_clear(spot: Spot, others: Sequence[Spot]) -> bool:
    """Whether a thing would touch none of the others."""
    for other in others:
        least = _OUTSIDE_M if other.thing.role == "zone" else GAP_M
        if other.gap(spot.x, spot.y) < spot.radius + least and spot.gap(other.x, other.y) < other.radius + least:
            return False
    return True


def _on_area(spot: Spot, half_m: tuple[float, float]) -> bool:
    return all(abs(v) + spot.radius <= half for v, half in zip((spot.x, spot.y), half_m, strict=True))
