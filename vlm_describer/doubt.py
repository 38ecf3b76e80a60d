"""What geometry speaks against, whoever gives the names: the things that a description calls by no name.

Describers are made for tables, floors, mazes and rooms with small solid things. A kitchen or a robot of another make
falls into parts that look like such things, but are too large or too thin, hang in the air, are seen in part only, or
hang together. What no name fits is counted and placed, and no fact is about it.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from vlm_describer.located import Item, Located

Array = NDArray[np.float64]

LARGEST_M = 0.3
"""Longest side of what a table or floor carries; walls and pillars of a map may be of any size."""
THINNEST_M = 0.003
"""A solid thing is nowhere thinner, ..."""
SLENDER = 25.0
"""... nor so many times longer than thick."""
UNSURE_M = 0.05
"""Standard deviation of a centre from which size and form are guesses."""
LEAST_PIXELS = 15
LINK_M = 0.015
"""Boxes so near to each other may be parts of one thing."""
HELD_M = 0.06
LEAST_HELD_M = 0.015
"""What hangs in the air so near to a robot, and is nowhere thinner, is held by it."""
TALLEST_PILE_M = 0.2
"""A pile of small things is lower."""
LEVEL_M = 0.02
"""What ends so near to a level surface ends with it."""
STRANGE, STRANGE_SHARE = 3, 0.5
"""From so many doubted things on, and where they are more than this share, the whole scene is of another kind."""
MAP_KINDS = ("wall", "door")
"""Beside a table, what is long and upright may as well be a cupboard."""


def doubtful(located: Located) -> frozenset[str]:
    """Ids of the items that no name fits; the robot is never among them. Where most things are such, all are.

    Nothing is doubted where no surface is known: then it is not known either what hangs or stands.
    """
    if not located.surfaces:
        return frozenset()
    solid = [item for item in located.items if item.role_hint != "robot-like"]
    things = [item for item in solid if not _map_wall(item, located)]
    robots = [item for item in located.items if item.role_hint == "robot-like"]
    doubted = {item.id for item in things if odd(item, located.map_view)} | _hanging(things, robots)
    doubted |= _parts_of_one(things, doubted, located.map_view)
    doubted |= {item.id for item in things if _part_of_building(item, located)}
    return frozenset(item.id for item in solid) if _mostly(doubted, solid, located.map_view) else frozenset(doubted)


def _mostly(doubted: set[str], solid: list[Item], map_view: bool) -> bool:
    """Whether most of the things are doubted, and beside a table most of what is seen of them too: a robot's joints and
    shadows may be many slivers."""
    if len(doubted) < STRANGE or len(doubted) <= STRANGE_SHARE * len(solid):
        return False
    seen = sum(item.pixels for item in solid if item.id in doubted)
    return map_view or seen > STRANGE_SHARE * sum(item.pixels for item in solid)


def strange(located: Located, doubted: frozenset[str]) -> bool:
    """Whether there are things and no name fits any of them (`doubted`: from `doubtful`): then the kind of scene is not
    known either."""
    solid = [item for item in located.items if item.role_hint != "robot-like"]
    return bool(solid) and len(doubted) == len(solid)


def fits(kind: str, map_view: bool) -> bool:
    """Whether things of this kind are told apart in such a view."""
    return map_view or kind not in MAP_KINDS


def odd(item: Item, map_view: bool) -> bool:
    """Whether a thing by itself is too large, too thin, or seen too little of to be called anything."""
    sides = item.size_m[:2] if item.flat or map_view else item.size_m
    lies_on_thing = item.flat and item.rests_on is not None and not item.rests_on.startswith("surface")
    if lies_on_thing or item.cut or item.pixels < LEAST_PIXELS or max(sides) > SLENDER * max(min(sides), 1e-4):
        return True
    if map_view:
        return False
    sigma = float(np.sqrt(item.covariance_m2.diagonal().max()))
    return max(sides) > LARGEST_M or min(sides) < THINNEST_M or sigma > UNSURE_M


def _map_wall(item: Item, located: Located) -> bool:
    """Whether on a map it may be a wall: long, and not hanging higher over the ground than it is high itself."""
    bottom = item.center_b_m[2] - item.half_extents_m[2]
    below = [bottom - surface.height_m for surface in located.surfaces if surface.height_m <= bottom]
    hangs = item.rests_on is None and min(below, default=0.0) > 2 * item.half_extents_m[2]
    return located.map_view and item.role_hint == "wall-like" and not hangs


def _part_of_building(item: Item, located: Located) -> bool:
    """Whether on a map its top is one of the level surfaces: that of a wall, of which it shows a side."""
    top, bottom = (item.center_b_m[2] + sign * item.half_extents_m[2] for sign in (1, -1))
    level = [abs(surface.height_m - top) < LEVEL_M and surface.height_m > bottom for surface in located.surfaces]
    return located.map_view and top - bottom > LEVEL_M and any(level)


def _hanging(things: list[Item], robots: list[Item]) -> set[str]:
    """Ids of what rests on nothing, but for the one thing of some size that a robot holds."""
    hanging = [item for item in things if item.rests_on is None]
    held = [item for item in hanging if min(item.size_m) >= LEAST_HELD_M]
    if len(held) == 1 and any(gap(held[0], robot) <= HELD_M for robot in robots):
        hanging = [item for item in hanging if item is not held[0]]
    return {item.id for item in hanging}


def _parts_of_one(things: list[Item], doubted: set[str], map_view: bool) -> set[str]:
    """Ids of the members of groups of near boxes that hang in part or are higher than a pile: parts of one thing. What
    stands on a map may be of any height."""
    found: set[str] = set()
    for group in _groups([item for item in things if not (item.flat and item.id not in doubted)]):
        bottom = min(item.center_b_m[2] - item.half_extents_m[2] for item in group)
        top = max(item.center_b_m[2] + item.half_extents_m[2] for item in group)
        hangs = any(item.rests_on is None for item in group)
        tall = top - bottom > TALLEST_PILE_M and not map_view
        if len(group) > 1 and (hangs or tall):
            found |= {item.id for item in group}
    return found


def _groups(things: list[Item]) -> list[list[Item]]:
    """Things in groups that are linked by gaps of at most `LINK_M`."""
    left, groups = list(things), []
    while left:
        group, fresh = [], [left.pop()]
        while fresh:
            item = fresh.pop()
            group.append(item)
            near = [other for other in left if gap(item, other) <= LINK_M]
            left = [other for other in left if not any(other is each for each in near)]
            fresh += near
        groups.append(group)
    return groups


def gap(a: Item, b: Item) -> float:
    """Distance between two boxes along B's axes, metres; 0 where they meet."""
    return float(np.linalg.norm(np.maximum(_between(a, b), 0.0)))


def _between(a: Item, b: Item) -> Array:
    """(3,) free distance along each axis, negative where the boxes overlap."""
    reach = np.add(a.half_extents_m, b.half_extents_m)
    return np.asarray(np.abs(np.subtract(a.center_b_m, b.center_b_m)) - reach)
