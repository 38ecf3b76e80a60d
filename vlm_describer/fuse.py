"""Several frames of one scene as one: what is the same thing in two views is one thing, with the word of both.

Views are taken as independent: log-probabilities of names add up, and centres are weighted by the inverse of their
covariances, which makes the fused one the most likely centre of normal laws.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment

from embodied.types import FloatArray
from vlm_describer.located import Item, Located, Surface
from vlm_describer.naming import Names

NEAREST_M, FARTHEST_M = 0.025, 0.10
"""Two centres may always be the first apart and belong to one thing, and never the second..."""
MAP_TIMES = 10.0
"""... on a map so many times as far..."""
SIGMAS = 3.0
"""... and between the two so many standard deviations."""
LEVEL_M = 0.02
"""Two surfaces whose heights differ by less are one."""
Look = tuple[Located, Names]
Array = NDArray[np.float64]


@dataclass(frozen=True)
class Fused:
    """One scene out of several looks at it."""

    located: Located
    """Masks and boxes of an item are those of the look in which it is placed best."""
    names: Names
    left_out: tuple[str, ...]
    """A phrase for frames that could not be used."""


def fuse(looks: Sequence[Look]) -> Fused:
    """All looks in one; at least one. Where a camera's pose is not known, only the first of the looks counts."""
    poses_known = all(located.frame == "world" for located, _ in looks)
    if len(looks) == 1 or not poses_known:
        told = () if len(looks) == 1 else (f"what {_others(len(looks) - 1)}: the poses of their cameras are not known",)
        return Fused(*looks[0], told)
    useful = [look for look in looks if look[0].surfaces] or [looks[0]]
    alike = [look for look in useful if look[0].map_view == useful[0][0].map_view]
    whole = _numbered(alike[0])
    for look in alike[1:]:
        whole = _joined(whole, look)
    left = len(looks) - len(alike)
    return Fused(*whole, (f"what {_others(left)}: nothing in them can be matched",) if left else ())


def _others(count: int) -> str:
    return f"{count} other frame{'s show' if count > 1 else ' shows'}"


def _joined(one: Look, other: Look) -> Look:
    """Both looks; things of the first keep their places in the order, new ones of the second follow."""
    (seen, names), (more, other_names) = one, other
    surfaces, levels = _with_surfaces(seen.surfaces, more.surfaces)
    pairs = _pairs(seen, more)
    fresh = [row for row in range(len(more.items)) if row not in pairs.values()]
    ids = {more.items[row].id: seen.items[index].id for index, row in pairs.items()}
    ids |= {more.items[row].id: f"new{row}" for row in fresh} | levels
    moved = [replace(item, id=ids[item.id], rests_on=ids.get(item.rests_on or "")) for item in more.items]
    items = [
        merged(item, moved[pairs[index]], seen) if index in pairs else item for index, item in enumerate(seen.items)
    ]
    located = replace(seen, items=(*items, *(moved[row] for row in fresh)), surfaces=surfaces, reason="")
    groups = {group: _summed(logits, other_names.items[group], pairs, fresh) for group, logits in names.items.items()}
    return _numbered((located, replace(names, items=groups, scene=names.scene + other_names.scene)))


def merged(item: Item, other: Item, located: Located) -> Item:
    """One thing seen twice: form, support and mask of the better placed one, the most likely centre of both."""
    best = item if np.trace(item.covariance_m2) <= np.trace(other.covariance_m2) else other
    if item.role_hint == "robot-like":
        return replace(item if item.pixels >= other.pixels else other, id=item.id)
    inverses = [np.linalg.inv(each.covariance_m2) for each in (item, other)]
    spread = np.linalg.inv(inverses[0] + inverses[1])
    centre = spread @ (inverses[0] @ np.asarray(item.center_b_m) + inverses[1] @ np.asarray(other.center_b_m))
    return replace(
        best,
        id=item.id,
        center_b_m=_triple(centre),
        position_m=_triple(located.base.to_world(centre)),
        covariance_m2=spread,
        confidence=max(item.confidence, other.confidence),
    )


def _pairs(seen: Located, more: Located) -> dict[int, int]:
    """Which thing of the first look is which of the second, with the least sum of distances, as shares of the bound."""
    if not seen.items or not more.items:
        return {}
    shares = np.array([[_share(a, b, seen.map_view) for b in more.items] for a in seen.items])
    rows, columns = linear_sum_assignment(np.minimum(shares, 10.0))
    return {int(r): int(c) for r, c in zip(rows, columns, strict=True) if shares[r, c] <= 1.0}


def _share(a: Item, b: Item, map_view: bool) -> float:
    """Distance of two centres as a share of the largest that one thing's may have; infinite for unlike things."""
    robots = [item.role_hint == "robot-like" for item in (a, b)]
    if any(robots) or a.flat != b.flat:
        return 0.0 if all(robots) else np.inf
    spread = np.sqrt((a.covariance_m2 + b.covariance_m2).diagonal().max())
    times = MAP_TIMES if map_view else 1.0
    bound = float(np.clip(SIGMAS * spread, NEAREST_M * times, FARTHEST_M * times))
    return float(np.linalg.norm(np.subtract(a.center_b_m, b.center_b_m))) / bound


def _with_surfaces(seen: tuple[Surface, ...], more: tuple[Surface, ...]) -> tuple[tuple[Surface, ...], dict[str, str]]:
    """All surfaces, those of one height once, and what those of the second look are called now."""
    surfaces, ids = list(seen), {}
    for surface in more:
        same = [each for each in surfaces if abs(each.height_m - surface.height_m) < LEVEL_M]
        if not same:
            same = [replace(surface, id=f"surface{len(surfaces)}", role="other")]
            surfaces += same
        ids[surface.id] = same[0].id
    return tuple(surfaces), ids


def _summed(logits: FloatArray, other: FloatArray, pairs: Mapping[int, int], fresh: Sequence[int]) -> FloatArray:
    total = np.array(logits)
    for index, row in pairs.items():
        total[index] += other[row]
    return np.vstack([total, other[list(fresh)]]) if fresh else total


def _numbered(look: Look) -> Look:
    """The look with items called item0, item1 and so on."""
    located, names = look
    ids = {item.id: f"item{k}" for k, item in enumerate(located.items)}
    items = tuple(
        replace(item, id=ids[item.id], rests_on=ids.get(item.rests_on or "", item.rests_on)) for item in located.items
    )
    return replace(located, items=items), names


def _triple(values: Array) -> tuple[float, float, float]:
    x, y, z = (float(value) for value in values)
    return x, y, z
