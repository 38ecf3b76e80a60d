"""Random things: shapes and sizes of movable things, zones and pillars, each in its resting pose.

Kinds are those of `robots.shapes.kind_of`; sizes keep clear of the borders between them. Where two kinds would look
alike, their sizes lie apart: plates and discs that can be moved are small and thicker, trays and discs that are zones
wide and thin; a cylinder is at most 1.5 times as high as wide, a pillar at least 2.2 times.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from robots.random_scene import Part, Quaternion, RandomThing, Triple

OBJECT_KINDS = ("block", "cylinder", "ball", "plate", "disc", "thing")
ZONE_KINDS = ("tray", "disc")

_ON_SIDE: Quaternion = (math.sqrt(0.5), 0.0, math.sqrt(0.5), 0.0)
"""Turns an axis along z into one along x."""
_ZONE_HEIGHT_M = 0.03
"""Half the height of the inside of a zone."""


@dataclass(frozen=True)
class ThingSizes:
    """Ranges of half sizes in metres."""

    half_m: tuple[float, float] = (0.015, 0.04)
    """Of what is about as high as wide: half an edge, a radius."""
    flat_half_m: tuple[float, float] = (0.025, 0.04)
    """Of plates and discs that can be moved, horizontally."""
    zone_half_m: tuple[float, float] = (0.05, 0.085)
    pillar_radius_m: tuple[float, float] = (0.012, 0.022)


def draw_object(rng: np.random.Generator, name: str, kind: str, sizes: ThingSizes) -> RandomThing:
    """A movable thing of a kind, one of OBJECT_KINDS."""
    parts, half, is_round, flat = _SHAPES[kind](rng, sizes)
    return RandomThing(name, "object", kind, parts, half, is_round, flat)


def draw_zone(rng: np.random.Generator, name: str, kind: str, sizes: ThingSizes) -> RandomThing:
    """A tray (a square slab, sometimes with a rim) or a disc (a round one), fixed where it lies."""
    half = float(rng.uniform(*sizes.zone_half_m))
    if kind == "disc":
        thick = float(rng.uniform(0.001, 0.002))
        part = Part("cylinder", (half, thick))
        return RandomThing(name, "zone", kind, (part,), (half, half, thick), True, True, (half, _ZONE_HEIGHT_M))
    other, thick = half * float(rng.uniform(0.75, 1.0)), 0.002
    parts = [Part("box", (half, other, thick))]
    rim = 0.005 if rng.random() < 0.3 else 0.0
    if rim:
        wide = 0.002
        for sign in (-1, 1):
            parts.append(Part("box", (wide, other, rim), (sign * (half - wide), 0.0, rim + thick)))
            parts.append(Part("box", (half - 2 * wide, wide, rim), (0.0, sign * (other - wide), rim + thick)))
    inside = (half, other, _ZONE_HEIGHT_M)
    return RandomThing(name, "zone", kind, tuple(parts), (half, other, thick), False, True, inside)


def draw_pillar(rng: np.random.Generator, name: str, radius_m: tuple[float, float]) -> RandomThing:
    """A tall cylinder that stands fixed."""
    radius = float(rng.uniform(*radius_m))
    height = radius * float(rng.uniform(2.2, 4.5))
    return RandomThing(
        name, "landmark", "pillar", (Part("cylinder", (radius, height)),), (radius, radius, height), True
    )


_Shape = tuple[tuple[Part, ...], Triple, bool, bool]
"""Parts, half extents, round from above, flat on top."""


def _block(rng: np.random.Generator, sizes: ThingSizes) -> _Shape:
    half = float(rng.uniform(*sizes.half_m))
    x, y, z = (half,) * 3 if rng.random() < 0.5 else (half * float(rng.uniform(0.55, 1.0)) for _ in range(3))
    return (Part("box", (x, y, z)),), (x, y, z), False, True


def _cylinder(rng: np.random.Generator, sizes: ThingSizes) -> _Shape:
    radius = float(rng.uniform(sizes.half_m[0], 0.9 * sizes.half_m[1]))
    height = radius * float(rng.uniform(0.6, 1.45))
    if rng.random() < 0.2:
        return (Part("cylinder", (radius, height), quaternion=_ON_SIDE),), (height, radius, radius), False, False
    return (Part("cylinder", (radius, height)),), (radius, radius, height), True, True


def _ball(rng: np.random.Generator, sizes: ThingSizes) -> _Shape:
    radius = float(rng.uniform(*sizes.half_m))
    return (Part("sphere", (radius,)),), (radius, radius, radius), True, False


def _plate(rng: np.random.Generator, sizes: ThingSizes) -> _Shape:
    x = float(rng.uniform(*sizes.flat_half_m))
    y = x * float(rng.uniform(0.8, 1.0))
    z = float(rng.uniform(0.004, 0.22 * y))
    return (Part("box", (x, y, z)),), (x, y, z), False, True


def _disc(rng: np.random.Generator, sizes: ThingSizes) -> _Shape:
    radius = float(rng.uniform(*sizes.flat_half_m))
    height = float(rng.uniform(0.004, 0.22 * radius))
    return (Part("cylinder", (radius, height)),), (radius, radius, height), True, True


def _thing(rng: np.random.Generator, sizes: ThingSizes) -> _Shape:
    half = float(rng.uniform(sizes.half_m[0] * 1.2, sizes.half_m[1]))
    makers = (_wedge, _egg, _dumbbell, _cone, _prism)
    return makers[int(rng.integers(len(makers)))](rng, half)


def _wedge(rng: np.random.Generator, half: float) -> _Shape:
    """A ramp on its base."""
    x, y, z = half, half * float(rng.uniform(0.6, 1.0)), half * float(rng.uniform(0.5, 0.9))
    corners = [(-x, -y, -z), (-x, y, -z), (x, -y, -z), (x, y, -z), (x, -y, z), (x, y, z)]
    return (_mesh(corners),), (x, y, z), False, False


def _egg(rng: np.random.Generator, half: float) -> _Shape:
    """An ellipsoid, about twice as long as high."""
    size = np.array([half, half * rng.uniform(0.55, 0.8), half * rng.uniform(0.4, 0.55)])
    return (_mesh(_sphere_points(160) * size),), _triple(size), False, False


def _dumbbell(rng: np.random.Generator, half: float) -> _Shape:
    """Two balls on a bar, lying."""
    radius = half * float(rng.uniform(0.35, 0.45))
    ends = [_mesh(_sphere_points(100) * radius + (sign * (half - radius), 0.0, 0.0)) for sign in (-1, 1)]
    bar, thick = half - radius, 0.4 * radius
    middle = [(x * bar, y * thick, z * thick) for x in (-1, 1) for y in (-1, 1) for z in (-1, 1)]
    return (*ends, _mesh(middle)), (half, radius, radius), False, False


def _cone(rng: np.random.Generator, half: float) -> _Shape:
    radius, height = half * float(rng.uniform(0.7, 1.0)), half * float(rng.uniform(0.8, 1.1))
    circle = [(radius * math.cos(a), radius * math.sin(a), -height) for a in np.linspace(0, 2 * math.pi, 40)[:-1]]
    return (_mesh([*circle, (0.0, 0.0, height)]),), (radius, radius, height), True, False


def _prism(rng: np.random.Generator, half: float) -> _Shape:
    """A roof: a triangle drawn out, on one of its long sides."""
    x, y, z = half, half * float(rng.uniform(0.6, 0.9)), half * float(rng.uniform(0.5, 0.8))
    corners = [(sx * x, sy * y, -z) for sx in (-1, 1) for sy in (-1, 1)] + [(-x, 0.0, z), (x, 0.0, z)]
    return (_mesh(corners),), (x, y, z), False, False


def _mesh(points: object) -> Part:
    return Part("mesh", vertices_m=tuple(_triple(p) for p in np.asarray(points, dtype=float)))


def _sphere_points(count: int) -> np.ndarray:
    """Points spread over the unit sphere on a spiral, (count, 3); the poles belong to them.

    Golden-angle spiral: Swinbank and Purser 2006, Q. J. R. Meteorol. Soc. 132, 1769.
    """
    z = np.linspace(-1.0, 1.0, count)
    angle = np.arange(count) * math.pi * (3.0 - math.sqrt(5.0))
    ring = np.sqrt(1.0 - z * z)
    return np.stack([ring * np.cos(angle), ring * np.sin(angle), z], axis=1)


def _triple(values: object) -> Triple:
    x, y, z = (round(float(v), 7) for v in np.asarray(values))
    return x, y, z


_SHAPES: dict[str, Callable[[np.random.Generator, ThingSizes], _Shape]] = {
    "block": _block, "cylinder": _cylinder, "ball": _ball, "plate": _plate, "disc": _disc, "thing": _thing,
}  # fmt: skip
