"""What rooms and tables have in common: views drawn until there are enough, and things put where they were placed."""

from __future__ import annotations

import math
from collections.abc import Callable

from robots.random_place import Spot
from robots.random_scene import Area, Put, Quaternion, Triple, View

_TRIES = 40
"""Attempts at each view that is wanted."""


def draw_views(count: int, draw: Callable[[bool], View | None]) -> tuple[View, ...]:
    """Up to `count` views, fewer where most attempts fail.

    Args:
        count: How many are wanted.
        draw: Makes one, or None where it failed; called with whether it would be the first.
    """
    views: list[View] = []
    for _ in range(_TRIES * count):
        if len(views) < count:
            view = draw(not views)
            views += [view] if view is not None else []
    return tuple(views)


def put_at(spot: Spot, colour: tuple[str, Triple], area: Area, finish: int = 0) -> Put:
    """A thing at its place in the area, in a colour (name and sRGB)."""
    name, rgb = colour
    return Put(name, rgb, area.to_world(spot.x, spot.y, spot.z), turned(spot.yaw + area.yaw_rad), finish)


def spot_top(spot: Spot, area: Area) -> Triple:
    """The middle of a placed thing's upper face, in the world, metres."""
    return area.to_world(spot.x, spot.y, spot.z + spot.thing.half_m[2])


def turned(yaw: float) -> Quaternion:
    """wxyz of a turn about z, radians."""
    return math.cos(yaw / 2), 0.0, 0.0, math.sin(yaw / 2)
