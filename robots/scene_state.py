"""What the simulator knows of a scene at one moment, for any model: entities, contacts, frame B, robot.

Contacts are MuJoCo's: every entry of `data.contact`, which are the pairs nearer than their geoms' margin (0 unless the
scene or the arm says otherwise; the Fetch arm's is 0.001 m). They belong to the same qpos as the positions when `data`
is consistent, as it is after `mj_forward`, but not straight after `mj_step`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

import mujoco
import numpy as np
from numpy.typing import NDArray

from embodied.colours import UNKNOWN, colour_name
from embodied.types import BaseFrame, EntityRole, EntityState, SceneState, Volume
from robots.base import RobotModel
from robots.colours import shown_colour
from robots.placement import find_surface, is_static
from robots.shapes import SHAPE_NAMES, Extent, half_extents, kind_of

Array = NDArray[np.float64]

PLAIN_NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}")
RESERVED = frozenset({"left_finger", "right_finger", "gripper", "robot", "static"})
"""Words that contacts use beside the entities' ids."""
ROBOT_SITES = frozenset({"target0"})
"""Sites by which Gymnasium's Fetch shows its goal; a body that owns one is no zone."""


@dataclass(frozen=True)
class _Thing:
    """What does not change about an entity."""

    body: int
    """0 for a place."""
    id: str
    name: str
    role: EntityRole
    kind: str
    colour: str
    extents: tuple[Extent, ...]
    sites: tuple[int, ...]
    static: bool


class SceneReader:
    """Reads scene states off a simulation; the tables of its model are made once.

    Kinds are the canonical ones; the body of the work surface has the kind `table`, so that it is called what it is.
    A fixed thing is measured at the first reading and then taken to stay where it is, and so is the work surface.

    Args:
        frame: Frame B, along whose axes boxes are measured.
        robot: Whose bodies are no entities; None where there is no robot.
    """

    def __init__(self, model: mujoco.MjModel, frame: BaseFrame, robot: RobotModel | None) -> None:
        self._model, self._frame, self._robot = model, frame, robot
        self._rotation = frame.rotation
        self._robot_body = _robot_bodies(model, robot)
        self._owner = self._owners()
        self._things = self._find_things()
        self._labels = self._contact_labels()
        self._fixed: dict[str, EntityState] = {}
        self._surface: tuple[int, float] | None = None
        self._started = False

    def read(self, data: mujoco.MjData) -> SceneState:
        """The scene in `data`, whose positions and contacts have been computed (`mj_forward`)."""
        if not self._started:
            self._start(data)
        robot, entities = self._robot, tuple(self._entity(thing, data) for thing in self._things)
        state = SceneState(
            entities=entities,
            contacts=self._contacts(data),
            frame=self._frame,
            robot="none" if robot is None else robot.name,
            surface_height_m=None if self._surface is None else self._surface[1],
            time_s=float(data.time),
        )
        return state if robot is None else self._with_robot(state, data, robot)

    def body_of(self, entity_id: str) -> int:
        """Body id of an entity; KeyError where there is none."""
        for thing in self._things:
            if thing.id == entity_id:
                return thing.body
        raise KeyError(entity_id)

    def geoms_of(self, entity_id: str) -> tuple[int, ...]:
        """Ids of an entity's geoms, none for a place; KeyError where there is no such entity."""
        for thing in self._things:
            if thing.id == entity_id:
                return tuple(extent.geom for extent in thing.extents)
        raise KeyError(entity_id)

    @property
    def robot_geoms(self) -> tuple[int, ...]:
        """Ids of the robot's geoms, none where there is no robot."""
        return tuple(np.flatnonzero(self._robot_body[self._model.geom_bodyid]).tolist())

    @property
    def object_ids(self) -> tuple[str, ...]:
        """Ids of the movable things, in the order of their bodies."""
        return tuple(thing.id for thing in self._things if thing.role == "object")

    def _start(self, data: mujoco.MjData) -> None:
        """Finds the work surface and calls its body a table."""
        surface = find_surface(self._model, data)
        if surface is not None:
            body = int(self._owner[self._model.geom_bodyid[surface.geom]])
            self._surface = (surface.geom, surface.height_m)
            self._things = tuple(
                replace(t, kind="table") if t.body == body and t.role != "place" else t for t in self._things
            )
        self._started = True

    def _with_robot(self, state: SceneState, data: mujoco.MjData, robot: RobotModel) -> SceneState:
        base = data.body(robot.base_body)
        return replace(
            state,
            robot_position_m=_triple(base.xpos),
            robot_yaw_rad=float(np.arctan2(base.xmat[3], base.xmat[0])),
            gripper_position_m=_triple(data.site(robot.grip_site).xpos) if robot.grip_site else None,
        )

    def _entity(self, thing: _Thing, data: mujoco.MjData) -> EntityState:
        if thing.static and thing.id in self._fixed:
            return self._fixed[thing.id]
        bounds = [extent.bounds(data, self._rotation) for extent in thing.extents]
        bounds = bounds or [self._site_bounds(data, site) for site in thing.sites]
        low = np.min([b[0] for b in bounds], axis=0)
        high = np.max([b[1] for b in bounds], axis=0)
        middle = self._rotation @ ((low + high) / 2)
        entity = EntityState(
            id=thing.id,
            name=thing.name,
            role=thing.role,
            kind=thing.kind,
            colour=thing.colour,
            center_b_m=_triple(self._frame.to_base(middle)),
            half_extents_m=_triple((high - low) / 2),
            position_m=_triple(middle),
            quaternion=tuple(float(v) for v in self._quaternion(thing, data)),  # type: ignore[arg-type]
            volume=self._volume(data, thing.sites[0]) if thing.role == "zone" else None,
        )
        if thing.static:
            self._fixed[thing.id] = entity
        return entity

    def _quaternion(self, thing: _Thing, data: mujoco.MjData) -> Array:
        if thing.role != "place":
            return data.xquat[thing.body]
        quaternion = np.zeros(4)
        mujoco.mju_mat2Quat(quaternion, data.site_xmat[thing.sites[0]])
        return quaternion

    def _site_bounds(self, data: mujoco.MjData, site: int) -> tuple[Array, Array]:
        """(low, high) of a site along B's axes, in the world's origin."""
        rotation = self._rotation.T @ data.site_xmat[site].reshape(3, 3)
        center = self._rotation.T @ data.site_xpos[site]
        half = half_extents(SHAPE_NAMES[int(self._model.site_type[site])], self._model.site_size[site], rotation)
        return center - half, center + half

    def _volume(self, data: mujoco.MjData, site: int) -> Volume:
        rows = data.site_xmat[site].reshape(3, 3)
        return Volume(
            shape=SHAPE_NAMES[int(self._model.site_type[site])],
            size_m=_triple(self._model.site_size[site]),
            position_m=_triple(data.site_xpos[site]),
            rotation=tuple(_triple(row) for row in rows),
        )

    def _contacts(self, data: mujoco.MjData) -> frozenset[tuple[str, str]]:
        pairs: set[tuple[str, str]] = set()
        for first, second in {(int(a), int(b)) for a, b in data.contact.geom if a >= 0 and b >= 0}:
            mine, other = self._labels[first], self._labels[second]
            if mine[0] == other[0]:
                continue
            pairs.update((x, y) if x < y else (y, x) for x in mine for y in other)
        return frozenset(pairs)

    def _owners(self) -> NDArray[np.intp]:
        """For each body the body whose entity its geoms belong to; 0 for those of no entity.

        What hangs on a free body is part of it. An unnamed static body is part of the named one that it stands on.
        """
        model, owner = self._model, np.zeros(self._model.nbody, dtype=np.intp)
        free = set(model.jnt_bodyid[model.jnt_type == mujoco.mjtJoint.mjJNT_FREE].tolist())
        zones = self._zone_bodies()
        for body in range(1, model.nbody):
            parent = int(model.body_parentid[body])
            if self._robot_body[body]:
                continue
            if body in free:
                owner[body] = body
            elif owner[parent] in free:
                owner[body] = owner[parent]
            elif self._fixed_body(body):
                own = model.body(body).name or body in zones
                owner[body] = body if own else owner[parent]
        return owner

    def _fixed_body(self, body: int) -> bool:
        """Static, or moved only by whoever moves mocap bodies."""
        return is_static(self._model, body) or bool(self._model.body_weldid[body] == 0)

    def _zone_bodies(self) -> set[int]:
        """Static bodies that own a site, the robot's goal marker excepted."""
        model, found = self._model, set()
        for site in range(model.nsite):
            body = int(model.site_bodyid[site])
            if body and self._fixed_body(body) and not self._robots_site(site):
                found.add(body)
        return found

    def _robots_site(self, site: int) -> bool:
        body = int(self._model.site_bodyid[site])
        marker = self._robot is not None and self._model.site(site).name in ROBOT_SITES
        return bool(marker or self._robot_body[body])

    def _find_things(self) -> tuple[_Thing, ...]:
        model, zones = self._model, self._zone_bodies()
        free = set(model.jnt_bodyid[model.jnt_type == mujoco.mjtJoint.mjJNT_FREE].tolist())
        found: list[tuple[EntityRole, int, str, list[int], list[int]]] = []
        for body in range(1, model.nbody):
            if self._owner[body] != body:
                continue
            geoms = [g for g in range(model.ngeom) if self._owner[model.geom_bodyid[g]] == body]
            sites = [s for s in range(model.nsite) if model.site_bodyid[s] == body and not self._robots_site(s)]
            role: EntityRole = "object" if body in free else "zone" if body in zones else "landmark"
            if geoms or (sites and role == "zone"):
                found.append((role, body, model.body(body).name, geoms, sites))
        for site in range(model.nsite):
            if model.site_bodyid[site] == 0 and not self._robots_site(site):
                found.append(("place", 0, model.site(site).name, [], [site]))
        return tuple(self._thing(entry, unique) for entry, unique in zip(found, _ids(found), strict=True))

    def _thing(self, entry: tuple[EntityRole, int, str, list[int], list[int]], unique: str) -> _Thing:
        model, (role, body, name, geoms, sites) = self._model, entry
        colour = shown_colour(model, geoms)
        if role == "zone" and not geoms and sites:
            colour = colour_name(model.site_rgba[sites[0], :3]) if model.site_rgba[sites[0], 3] > 0 else UNKNOWN
        return _Thing(
            body=body,
            id=unique,
            name=name,
            role=role,
            kind=kind_of(model, geoms, role, name, sites),
            colour=colour,
            extents=tuple(Extent(model, geom) for geom in geoms),
            sites=tuple(sites),
            static=role != "object" and is_static(model, body),
        )

    def _contact_labels(self) -> list[tuple[str, ...]]:
        """What contacts call each geom; parts of the robot share their last label."""
        model, robot = self._model, self._robot
        by_body = {thing.body: thing.id for thing in self._things if thing.role != "place"}
        labels: list[tuple[str, ...]] = []
        for body in model.geom_bodyid.tolist():
            if robot is not None and self._robot_body[body]:
                labels.append(_robot_labels(model, robot, body))
            else:
                labels.append((by_body.get(int(self._owner[body]), "static"),))
        return labels


def _robot_labels(model: mujoco.MjModel, robot: RobotModel, body: int) -> tuple[str, ...]:
    """`gripper` first for every part of it, so that its parts do not count as touching each other."""
    names = set()
    while body:
        names.add(model.body(body).name)
        body = int(model.body_parentid[body])
    if not names & set(robot.gripper_bodies):
        return ("robot",)
    fingers = (("left_finger", robot.left_finger_body), ("right_finger", robot.right_finger_body))
    return ("gripper", *(label for label, name in fingers if name in names))


def _robot_bodies(model: mujoco.MjModel, robot: RobotModel | None) -> NDArray[np.bool_]:
    """Which bodies are the robot: those named with its prefix, and what hangs on them."""
    marked = np.zeros(model.nbody, dtype=bool)
    if robot is not None:
        for body in range(1, model.nbody):
            named = model.body(body).name.startswith(robot.body_prefix)
            marked[body] = named or marked[model.body_parentid[body]]
    return marked


def _ids(found: list[tuple[EntityRole, int, str, list[int], list[int]]]) -> list[str]:
    """A unique plain id for each: its name where that is plain, not reserved and not taken, else role and number."""
    ids: list[str | None] = []
    for _, _, name, _, _ in found:
        plain = PLAIN_NAME.fullmatch(name) and name not in RESERVED and name not in ids
        ids.append(name if plain else None)
    taken = {i for i in ids if i}
    numbers: dict[str, int] = {}
    for index, entry in enumerate(found):
        while ids[index] is None:
            numbers[entry[0]] = numbers.get(entry[0], 0) + 1
            candidate = f"{entry[0]}{numbers[entry[0]]}"
            if candidate not in taken:
                ids[index] = candidate
                taken.add(candidate)
    return [str(i) for i in ids]


def _triple(values: Array) -> tuple[float, float, float]:
    x, y, z = values.tolist()
    return x, y, z
