"""Facts with probabilities from located things, in the meaning of `embodied.facts`.

Positions are normal variables with the items' covariances, independent of each other. What is one-dimensional is in
closed form: P(y_a - y_b >= 0.02) is the normal distribution function of (difference - 0.02) / standard deviation.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations, permutations
from math import erf, sqrt

import numpy as np
from numpy.typing import NDArray

from embodied.facts import AT_M, NEAR_M, REST_GAP_M, SIDE_GAP_M, ZONE_MARGIN_M
from embodied.types import Predicate
from vlm_describer.located import Item, Located

Array = NDArray[np.float64]

ZONE_HEIGHT_M = 0.06
"""Height over a flat zone's surface that counts as inside it: a picture does not show a zone's volume."""
CONTACT_M = 0.0025
"""Sides that are seen so near to each other may touch."""
_GAP_SIGMA_M = 0.002
"""Added to the uncertainty of a gap: contact is a matter of tenths of a millimetre."""
_RESTS = 0.98
"""Probability that what seems to stand on something touches it and is not held."""
_NOT_RESTING = 0.02
_HELD, _PERHAPS_HELD = 0.9, 0.5
"""Probability that what hangs in the air is held: near a robot, and where no surface tells what hangs. Of 19 that
hung near a robot in rendered frames 18 were held and one was a part of it; of 149 that stood near one none was held."""


def questions(located: Located, roles: Mapping[str, str]) -> Iterator[tuple[Predicate, float]]:
    """Every question that is asked, with the probability that the answer is yes.

    Asked are `in` of each object and zone, `on` of each object and each solid thing (zones as what is beneath),
    `touching` of each ordered pair of objects, `near` and the sides of each ordered pair of which one is an object or
    both are zones, `holding` of each object where the view is no map, and on a map `at` of each landmark. Not asked are
    contacts with the robot's own parts, which a picture hardly shows, and what takes two looks (`moved`) or joints
    (`open`, `closed`).

    Args:
        located: Things and the frame B; without those that `vlm_describer.doubt` doubts.
        roles: `object`, `zone`, `landmark` or `robot` by item id, where more is known than the shape.
    """
    role = {item.id: roles.get(item.id, default_role(item, located.map_view)) for item in located.items}
    solid = [item for item in located.items if role[item.id] != "robot"]
    objects = [item for item in solid if role[item.id] == "object"]
    zones = [item for item in solid if role[item.id] == "zone"]
    for a in objects:
        for zone in zones:
            yield Predicate("in", (a.id, zone.id)), p_in(a, zone)
    for a in objects:
        for b in solid:
            if b is not a:
                yield Predicate("on", (a.id, b.id)), p_on(a, b)
    for a, b in permutations(objects, 2):
        yield Predicate("touching", (a.id, b.id)), p_touching(a, b)
    yield from _sides(solid, role)
    if not located.map_view:
        for a in objects:
            yield Predicate("holding", (a.id,)), p_holding(a, bool(located.surfaces))
        return
    for b in solid:
        if role[b.id] == "landmark":
            yield Predicate("at", (b.id,)), p_at(b)


def _sides(solid: Sequence[Item], role: Mapping[str, str]) -> Iterator[tuple[Predicate, float]]:
    pairs = [(a, b) for a, b in combinations(solid, 2) if _comparable(role[a.id], role[b.id])]
    for name, function in (
        ("near", p_near),
        ("left_of", p_left_of),
        ("right_of", p_right_of),
        ("in_front_of", p_in_front_of),
        ("behind", p_behind),
    ):
        for a, b in pairs:
            yield Predicate(name, (a.id, b.id)), function(a, b)
            yield Predicate(name, (b.id, a.id)), function(b, a)


def default_role(item: Item, map_view: bool) -> str:
    """`zone` for what is flat, `robot`, `landmark` for walls and what stands on a map, else `object`."""
    if item.role_hint == "robot-like":
        return "robot"
    if item.flat:
        return "zone"
    return "landmark" if item.role_hint == "wall-like" or map_view else "object"


def _comparable(one: str, other: str) -> bool:
    return "object" in (one, other) or one == other == "zone"


def p_left_of(a: Item, b: Item) -> float:
    """P(y_a - y_b >= 0.02 m)."""
    return _beyond(a, b, 1, SIDE_GAP_M)


def p_right_of(a: Item, b: Item) -> float:
    """P(y_b - y_a >= 0.02 m)."""
    return _beyond(b, a, 1, SIDE_GAP_M)


def p_in_front_of(a: Item, b: Item) -> float:
    """P(x_b - x_a >= 0.02 m)."""
    return _beyond(b, a, 0, SIDE_GAP_M)


def p_behind(a: Item, b: Item) -> float:
    """P(x_a - x_b >= 0.02 m)."""
    return _beyond(a, b, 0, SIDE_GAP_M)


def p_near(a: Item, b: Item) -> float:
    """P(|c_a - c_b| <= 0.10 m), approximated: the distance as a normal variable along the line between the centres.

    Mean and variance to second order: d + (trace S - u'S u) / (2 d) and u'S u, with S the sum of the covariances and
    u the unit vector between the centres. Within 0.01 of what drawing gives for deviations up to 5 mm each, within 0.04
    up to 2 cm; centres nearer than 1 cm are taken as that far.
    """
    difference = _difference(a, b)
    distance = max(float(np.linalg.norm(difference)), 0.01)
    unit = difference / distance
    spread = a.covariance_m2 + b.covariance_m2
    along = float(unit @ spread @ unit)
    mean = distance + (float(np.trace(spread)) - along) / (2 * distance)
    return _normal((NEAR_M - mean) / sqrt(max(along, 1e-12)))


def p_at(b: Item) -> float:
    """P(horizontal distance from B's origin to the centre <= 1.5 m), as `p_near` in the plane."""
    place = np.asarray(b.center_b_m[:2])
    distance = max(float(np.linalg.norm(place)), 0.01)
    unit = place / distance
    return _normal((AT_M - distance) / sqrt(max(float(unit @ b.covariance_m2[:2, :2] @ unit), 1e-12)))


def p_holding(a: Item, on_surfaces: bool) -> float:
    """P(a is held): what rests on something is not, whatever is near it.

    `on_surfaces`: the view has surfaces, so that it is known what hangs; what hangs far from a robot is doubted then
    and never asked about.
    """
    if a.rests_on is not None:
        return _NOT_RESTING
    return _HELD if on_surfaces else _PERHAPS_HELD


def p_in(a: Item, zone: Item) -> float:
    """P(c_a in the zone's volume grown by 0.01 m, a not held).

    The volume is the zone's outline up to 0.06 m over it. For an upright box the axes of its own sides are taken as
    independent; for a round zone the distance from its middle is a normal variable.
    """
    offset = _difference(a, zone)
    spread = a.covariance_m2 + zone.covariance_m2
    sigma_up = sqrt(float(spread[2, 2]))
    low = -zone.half_extents_m[2] - ZONE_MARGIN_M
    inside = _within(offset[2], sigma_up, low, low + ZONE_HEIGHT_M + 2 * ZONE_MARGIN_M)
    inside *= _over(offset[:2], spread[:2, :2], zone, ZONE_MARGIN_M)
    return inside * (_RESTS if a.rests_on is not None else 0.5)


def p_on(a: Item, b: Item) -> float:
    """P(a's bottom within 0.01 m of b's top, xy offset at most e_b in each axis, in contact, a not held)."""
    spread = a.covariance_m2 + b.covariance_m2
    offset = _difference(a, b)
    gap = offset[2] - a.half_extents_m[2] - b.half_extents_m[2]
    sigma = sqrt(float(spread[2, 2]))
    chance = _within(gap, sigma, -REST_GAP_M, REST_GAP_M)
    for axis in (0, 1):
        bound = b.half_extents_m[axis]
        chance *= _within(offset[axis], sqrt(float(spread[axis, axis])), -bound, bound)
    return chance * (_RESTS if a.rests_on == b.id else _NOT_RESTING if a.rests_on is not None else 0.3)


def p_touching(a: Item, b: Item) -> float:
    """P(a and b touch): certain-like where one stands on the other, else from the gap between the fitted forms.

    Where the gap is zero or less, two things that stand side by side are as likely to touch as the fit is exact;
    contact can be told to some millimetres only, so that near things stay undecided.
    """
    if b.id == a.rests_on or a.id == b.rests_on:
        return _RESTS
    gap, sigma = gap_between(a, b)
    return _normal((CONTACT_M - gap) / sigma)


def gap_between(a: Item, b: Item) -> tuple[float, float]:
    """Free distance between two upright forms and its standard deviation, metres; negative where they overlap.

    The largest of the vertical gap and the gaps along the normals of the sides of both (round forms: along the line
    between the centres), by the separating axis theorem.
    """
    offset = _difference(b, a)
    spread = a.covariance_m2 + b.covariance_m2
    best, sigma = abs(offset[2]) - a.half_extents_m[2] - b.half_extents_m[2], sqrt(float(spread[2, 2]))
    for axis in _side_normals(a, offset) + _side_normals(b, offset):
        gap = abs(float(axis @ offset[:2])) - _reach(a, axis) - _reach(b, axis)
        if gap > best:
            best, sigma = gap, sqrt(float(axis @ spread[:2, :2] @ axis))
    return float(best), sqrt(sigma**2 + _GAP_SIGMA_M**2)


def geometric_kind(item: Item) -> tuple[str, float]:
    """A kind from the shape alone, and how sure: block, cylinder, ball, disc, tray, pillar, wall or thing.

    What lies flat is a disc or a tray by its outline; what is much taller than wide and over 0.3 m is a pillar.
    """
    scores = item.shape_scores
    if item.role_hint == "robot-like":
        return "thing", 0.5
    if item.role_hint == "wall-like":
        return "wall", max(0.5, scores["wall_like"])
    if item.flat:
        round_share = scores["cylinder"] / max(scores["cylinder"] + scores["box"], 1e-6)
        kind = "disc" if item.shape == "cylinder" else "tray"
        return kind, max(round_share, 1.0 - round_share)
    if item.shape != "ball" and item.size_m[2] > max(0.3, 1.2 * item.size_m[0]):
        return "pillar", max(0.6, scores["tall"])
    kind = {"box": "block", "cylinder": "cylinder", "ball": "ball"}.get(item.shape, "thing")
    if kind == "thing" or scores["other"] > max(scores[item.shape], 0.3):
        return "thing", scores["other"]
    return kind, scores[item.shape]


def _difference(a: Item, b: Item) -> Array:
    return np.subtract(a.center_b_m, b.center_b_m)


def _beyond(a: Item, b: Item, axis: int, least: float) -> float:
    """P(component of c_a - c_b along one of B's axes >= least)."""
    variance = float(a.covariance_m2[axis, axis] + b.covariance_m2[axis, axis])
    return _normal((a.center_b_m[axis] - b.center_b_m[axis] - least) / sqrt(max(variance, 1e-12)))


def _over(offset: Array, spread: Array, zone: Item, margin: float) -> float:
    """P(a horizontal offset (2,) from a zone's middle lies within its outline grown by a margin)."""
    if zone.shape != "box":
        distance = max(float(np.linalg.norm(offset)), 1e-3)
        unit = offset / distance
        sigma = sqrt(max(float(unit @ spread @ unit), 1e-12))
        return _normal((zone.size_m[0] / 2 + margin - distance) / sigma)
    chance = 1.0
    for k, angle in enumerate((zone.yaw_rad, zone.yaw_rad + np.pi / 2)):
        axis = np.array([np.cos(angle), np.sin(angle)])
        bound = zone.size_m[k] / 2 + margin
        chance *= _within(float(axis @ offset), sqrt(float(axis @ spread @ axis)), -bound, bound)
    return chance


def _side_normals(item: Item, offset: Array) -> list[Array]:
    if item.shape == "box":
        c, s = np.cos(item.yaw_rad), np.sin(item.yaw_rad)
        return [np.array([c, s]), np.array([-s, c])]
    length = float(np.linalg.norm(offset[:2]))
    return [offset[:2] / length] if length > 1e-6 else []


def _reach(item: Item, axis: Array) -> float:
    """Half of an item's width along a horizontal direction."""
    if item.shape != "box":
        return item.size_m[0] / 2
    c, s = np.cos(item.yaw_rad), np.sin(item.yaw_rad)
    along, across = abs(axis[0] * c + axis[1] * s), abs(axis[1] * c - axis[0] * s)
    return float(along * item.size_m[0] + across * item.size_m[1]) / 2


def _within(value: float, sigma: float, low: float, high: float) -> float:
    sigma = max(sigma, 1e-6)
    return _normal((high - value) / sigma) - _normal((low - value) / sigma)


def _normal(z: float) -> float:
    """Distribution function of the standard normal law."""
    return 0.5 * (1.0 + erf(z / sqrt(2.0)))
