"""What the facts mean: the one place where "on" means something. Pure functions of a `SceneState`.

Lengths are metres. Centres c and half extents e are those of the box round a body's geoms whose axes lie along the
base frame B (x forward, y left, z up); only zone volumes are measured in the world, where they are stored.
An id may be any entity of the state; `touching` takes the robot's parts too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import combinations, permutations

import numpy as np

from embodied.errors import UserError, unknown_name
from embodied.types import EntityState, Predicate, SceneState, Volume

ZONE_MARGIN_M = 0.01
REST_GAP_M = 0.01
SIDE_GAP_M = 0.02
NEAR_M = 0.10
AT_M = 1.5
ROBOT_PARTS = ("gripper", "left_finger", "right_finger", "robot")
"""Names beside the entities' ids that contacts speak of (`static` is no part of the robot and no entity)."""
_GRIPPER_PARTS = frozenset({"gripper", "left_finger", "right_finger"})


def in_(state: SceneState, a: str, zone: str) -> bool:
    """`in(a, zone)`: c_a inside the zone's volume grown by 0.01 m, a not held."""
    volume = _entity(state, zone).volume
    if volume is None:
        zones = ", ".join(e.id for e in state.entities if e.volume is not None) or "none"
        raise UserError(f"'{zone}' is no zone that something can be in; zones here: {zones}")
    return _inside(volume, np.asarray(_entity(state, a).position_m), ZONE_MARGIN_M) and not holding(state, a)


def on(state: SceneState, a: str, b: str) -> bool:
    """`on(a, b)`: a's bottom within 0.01 m of b's top, xy offset at most e_b in each axis, in contact, a not held."""
    upper, lower = _entity(state, a), _entity(state, b)
    gap = (upper.center_b_m[2] - upper.half_extents_m[2]) - (lower.center_b_m[2] + lower.half_extents_m[2])
    over = all(abs(upper.center_b_m[i] - lower.center_b_m[i]) <= lower.half_extents_m[i] for i in (0, 1))
    return abs(gap) <= REST_GAP_M and over and touching(state, a, b) and not holding(state, a)


def left_of(state: SceneState, a: str, b: str) -> bool:
    """`left_of(a, b)`: y_a - y_b >= 0.02 m in B."""
    return _offset(state, a, b, 1) >= SIDE_GAP_M


def right_of(state: SceneState, a: str, b: str) -> bool:
    """`right_of(a, b)`: `left_of(b, a)`."""
    return left_of(state, b, a)


def in_front_of(state: SceneState, a: str, b: str) -> bool:
    """`in_front_of(a, b)`: x_b - x_a >= 0.02 m in B: a is nearer the robot."""
    return _offset(state, b, a, 0) >= SIDE_GAP_M


def behind(state: SceneState, a: str, b: str) -> bool:
    """`behind(a, b)`: `in_front_of(b, a)`."""
    return in_front_of(state, b, a)


def near(state: SceneState, a: str, b: str) -> bool:
    """`near(a, b)`: centres within 0.10 m."""
    first, second = _entity(state, a), _entity(state, b)
    return float(np.linalg.norm(np.subtract(first.center_b_m, second.center_b_m))) <= NEAR_M


def at(state: SceneState, landmark: str) -> bool:
    """`at(landmark)`: horizontal distance from the robot's base to the landmark's centre at most 1.5 m."""
    entity = _entity(state, landmark)
    if state.robot_position_m is None:
        return False
    return float(np.hypot(*np.subtract(state.robot_position_m, entity.position_m)[:2])) <= AT_M


def holding(state: SceneState, a: str) -> bool:
    """`holding(a)`: both fingers in contact with a, nothing else supporting it.

    Whatever a touches outside the gripper counts as a support, but for an object whose centre is higher than a's:
    that one rests on a.
    """
    entity = _entity(state, a)
    partners = {y if x == a else x for x, y in state.contacts if a in (x, y)}
    if not {"left_finger", "right_finger"} <= partners:
        return False
    return not any(_supports(state, partner, entity) for partner in partners - _GRIPPER_PARTS)


def touching(state: SceneState, x: str, a: str) -> bool:
    """`touching(x, a)`: a contact between x and a; x and a may be parts of the robot."""
    for name in (x, a):
        if name not in ROBOT_PARTS:
            _entity(state, name)
    return tuple(sorted((x, a))) in state.contacts


PREDICATES: dict[str, tuple[Callable[..., bool], int]] = {
    "in": (in_, 2), "on": (on, 2), "left_of": (left_of, 2), "right_of": (right_of, 2), "in_front_of": (in_front_of, 2),
    "behind": (behind, 2), "near": (near, 2), "at": (at, 1), "holding": (holding, 1), "touching": (touching, 2),
}  # fmt: skip
"""Each predicate's function and the number of ids that it is about."""


def holds(predicate: Predicate, state: SceneState) -> bool:
    """Whether the predicate is true of the state; a negated one where its statement is false.

    Raises:
        UserError: The predicate or an id is unknown, the number of ids is wrong, or `in` names no zone.
    """
    if predicate.name not in PREDICATES:
        raise unknown_name("predicate", predicate.name, PREDICATES)
    function, arity = PREDICATES[predicate.name]
    if len(predicate.args) != arity:
        raise UserError(f"predicate '{predicate.name}' is about {arity} thing(s), got {len(predicate.args)}")
    return function(state, *predicate.args) != predicate.negated


def all_facts(state: SceneState) -> tuple[Predicate, ...]:
    """Every fact of a fixed list of questions that is true, by predicate, then in the scene's order.

    Asked are: `holding` of each object; `in` and `on` of each object; `touching` of the gripper with each thing and of
    each ordered pair of objects; `near`, `left_of`, `right_of`, `in_front_of`, `behind` of each ordered pair,
    of objects, zones and landmarks of which one is an object or both are zones; `at` of each landmark where the robot
    is not an arm. A thing has no side relative to a landmark that it stands over. What is not listed is false.
    """
    return tuple(predicate for predicate in _questions(state) if holds(predicate, state))


def _questions(state: SceneState) -> Iterator[Predicate]:
    objects = [e for e in state.entities if e.role == "object"]
    solids = [e for e in state.entities if e.role != "place"]
    pairs = [(a, b) for a, b in combinations(solids, 2) if _comparable(a, b)]
    for a in objects:
        yield Predicate("holding", (a.id,))
    for a in objects:
        for zone in state.entities:
            if zone.volume is not None:
                yield Predicate("in", (a.id, zone.id))
    for a in objects:
        for b in solids:
            if b is not a:
                yield Predicate("on", (a.id, b.id))
    for b in solids:
        yield Predicate("touching", ("gripper", b.id))
    for a, b in permutations(objects, 2):
        yield Predicate("touching", (a.id, b.id))
    for name in ("near", "left_of", "right_of", "in_front_of", "behind"):
        for a, b in pairs:
            yield Predicate(name, (a.id, b.id))
            yield Predicate(name, (b.id, a.id))
    if state.gripper_position_m is None:
        for b in state.entities:
            if b.role == "landmark":
                yield Predicate("at", (b.id,))


def _comparable(a: EntityState, b: EntityState) -> bool:
    roles = {a.role, b.role}
    return roles == {"zone"} or ("object" in roles and not _stands_over(a, b) and not _stands_over(b, a))


def _stands_over(a: EntityState, b: EntityState) -> bool:
    """a's centre lies over the footprint of the landmark b."""
    return b.role == "landmark" and all(abs(a.center_b_m[i] - b.center_b_m[i]) <= b.half_extents_m[i] for i in (0, 1))


def _supports(state: SceneState, name: str, entity: EntityState) -> bool:
    for other in state.entities:
        if other.id == name:
            return other.role != "object" or other.center_b_m[2] <= entity.center_b_m[2]
    return True


def _offset(state: SceneState, a: str, b: str, axis: int) -> float:
    return _entity(state, a).center_b_m[axis] - _entity(state, b).center_b_m[axis]


def _entity(state: SceneState, entity_id: str) -> EntityState:
    for entity in state.entities:
        if entity.id == entity_id:
            return entity
    raise unknown_name("thing", entity_id, (e.id for e in state.entities))


def _inside(volume: Volume, point: np.ndarray, margin: float) -> bool:
    """Whether a world point lies in the volume with each of its sizes grown by the margin."""
    local = (point - np.asarray(volume.position_m)) @ np.asarray(volume.rotation)
    size = np.asarray(volume.size_m) + margin
    if volume.shape == "box":
        return bool(np.all(np.abs(local) <= size))
    if volume.shape == "cylinder":
        return bool(np.hypot(local[0], local[1]) <= size[0] and abs(local[2]) <= size[1])
    if volume.shape == "sphere":
        return bool(np.linalg.norm(local) <= size[0])
    if volume.shape == "capsule":
        beyond = max(abs(local[2]) - volume.size_m[1], 0.0)
        return bool(np.hypot(np.hypot(local[0], local[1]), beyond) <= size[0])
    return bool(np.sum((local / size) ** 2) <= 1.0)
