"""A scene as a robot knows it that has cameras and joints only: things where they were last seen, or in its hand.

`PerceivedEnv` stands between the executor and an environment. What the environment's simulator knows of things never
gets through: observations and states are made of tracks, and of the robot's own numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import combinations
from typing import Any, Protocol

import numpy as np

from embodied.facts import REST_GAP_M
from embodied.hierarchy.motion import FINGERS, finger_opening
from embodied.protocols import SceneEnv
from embodied.spec import Layout
from embodied.types import (
    GRIPPER,
    BaseFrame,
    EntityState,
    FloatArray,
    Frame,
    Goal,
    Observation,
    SceneState,
    Step,
    Volume,
)

EVERY = 8
"""Control steps between two looks."""
REST_B_M = (1.0, 0.75, 0.75)
"""Where Fetch's gripper hides nothing of its table, in B."""
REST_STEPS = 40
RISE_STEPS = 8
"""First straight up."""
NEAR_REST_M = 0.03
GRASP_M = 0.035
"""A thing whose middle is so near to the gripper can be between the fingers."""
HIDES_M = 0.12
"""The hand hides a part of what is nearer to it than this, and half a thing seems to lie elsewhere."""
OPENED_M = 0.004
"""Fingers further apart than a thing is wide, by so much on each side, have let it go."""
CLOSED_SHARE = 0.4
"""Fingers closer together than this share of its width hold nothing of it."""
CLOSING = -1e-3
"""A finger command below this closes them."""
GRASP_STEPS = 3
TIP_M = 0.0185
TOUCH_M = 0.003
ZONE_HEIGHT_M = 0.03
"""Half the height of what is `in` a zone: cameras see a tray, not the room above it that counts."""
ROUND_ZONES = ("disc", "plate")


class Tracked(Protocol):
    """One thing, as tracks tell of it."""

    id: str
    role: Any
    kind: str
    colour: str
    position_m: Any
    half_extents_m: Any
    confidence: float

    @property
    def gone(self) -> bool: ...


class Tracks(Protocol):
    """The things of a scene."""

    tracks: list[Any]


class PerceivedEnv:
    """A `SceneEnv` made of looks.

    Args:
        env: The environment, whose robot's own numbers are believed.
        frame: Frame B, which a robot knows.
        begin: Takes the first look and returns tracks.
        update: Takes another look, and tells the tracks; given the ids of what the hand holds or hides.
    """

    def __init__(
        self,
        env: SceneEnv,
        frame: BaseFrame,
        begin: Callable[[], Tracks],
        update: Callable[[Tracks, frozenset[str]], None],
    ) -> None:
        self._env, self.frame = env, frame
        self._begin, self._update = begin, update
        self.spec, self.reward = env.spec, env.reward
        self._own: Observation
        self._held: str | None = None
        self._lost: str | None = None
        """What slipped out of the fingers and was not seen since: it is looked for beside the hand too."""
        self._offset = np.zeros(3)
        self._closing = self._age = self._steps = 0
        self.looks = 0
        self.goal = env.goal

    def start(self, observation: Observation) -> Observation:
        """Withdraws the arm, looks for the first time, and shows what was seen; the environment is reset already."""
        self._own = observation
        self._held, self._lost, self._closing, self._age, self._steps = None, None, 0, 0, 0
        for taken in range(REST_STEPS):
            action = self.withdraw(self._own, taken)
            if action is None:
                break
            self._own = self._env.step(action).observation
        self.tracks, self.looks = self._begin(), 1
        things = [track.id for track in self.tracks.tracks if track.role == "object"]
        entities = (*self._robot_entities(), *things)
        self.spec = replace(self._env.spec, layout=replace(self._env.spec.layout, entities=entities))
        return self._shown()

    def reset(self, seed: int) -> Observation:
        """A new episode."""
        return self.start(self._env.reset(seed))

    def observation(self) -> Observation:
        """What is known now, without another look."""
        return self._shown()

    def look(self) -> None:
        """Another look, now."""
        before = None if self._lost is None else np.array(self._track(self._lost).position_m)
        self._update(self.tracks, self._hidden())
        self.looks, self._age = self.looks + 1, 0
        if self._lost is not None and not np.array_equal(before, self._track(self._lost).position_m):
            self._lost = None

    def _hidden(self) -> frozenset[str]:
        """Ids of what the hand holds, or is so near to that only a part would be seen."""
        grip, found = self._grip(), {self._held} if self._held is not None else set()
        if grip is not None:
            places = {t.id: self.frame.to_base(np.asarray(t.position_m)) for t in self.tracks.tracks}
            found |= {name for name, place in places.items() if np.linalg.norm(place - grip) < HIDES_M}
        return frozenset(found - {self._lost})

    def step(self, action: FloatArray) -> Step:
        """One control period, at the end of which there may be a look."""
        step = self._env.step(action)
        self._own = step.observation
        self._feel(np.asarray(action))
        self._age, self._steps = self._age + 1, self._steps + 1
        if self._age >= EVERY:
            self.look()
        return replace(step, observation=self._shown())

    def set_goal(self, goal: Goal) -> None:
        """Kept; the environment does not know these entities."""
        self.goal = goal

    def render(self, camera: str | None = None, width: int = 320, height: int = 240, depth: bool = False) -> Frame:
        """A picture."""
        return self._env.render(camera, width, height, depth)

    def close(self) -> None:
        """Closes the environment."""
        self._env.close()

    def scene_state(self) -> SceneState:
        """The scene as it is believed to be."""
        entities = tuple(self._entity(track) for track in self.tracks.tracks)
        grip = self._grip()
        robot = None if grip is not None else self._world(np.append(self._own.state[:2], 0.0))
        tops = [e.center_b_m[2] + e.half_extents_m[2] for e in entities if e.kind == "table"]
        return SceneState(
            entities=entities,
            contacts=frozenset(self._contacts(entities, grip)),
            frame=self.frame,
            robot=self.spec.robot,
            robot_position_m=robot,
            gripper_position_m=None if grip is None else self._world(grip),
            surface_height_m=self.frame.origin_m[2] + tops[0] if tops else None,
            time_s=self._steps / self.spec.control_hz,
        )

    def _robot_entities(self) -> tuple[str, ...]:
        return tuple(name for name in self._env.spec.layout.entities if name in (GRIPPER, "robot"))

    def _grip(self) -> np.ndarray | None:
        """The grip site, (3,) in B; None for a robot without one."""
        return self._own.state[:3].astype(np.float64) if GRIPPER in self._env.spec.layout.entities else None

    def withdraw(self, observation: Observation, taken: int) -> FloatArray | None:
        """The next action on an arm's way to its rest, of which so many were taken; None: it is there, or no arm."""
        del observation
        grip = self._grip()
        if grip is None:
            return None
        error = np.asarray(REST_B_M) - grip
        if np.linalg.norm(error) < NEAR_REST_M:
            return None
        if taken < RISE_STEPS and error[2] > NEAR_REST_M:
            error[:2] = 0.0
        action = np.zeros(self._env.spec.action_width, dtype=np.float32)
        action[:3] = np.clip(10.0 * error, -1.0, 1.0)
        return action

    def _feel(self, action: np.ndarray) -> None:
        """What the fingers' own places say of the thing between them."""
        grip, opening = self._grip(), finger_opening(self._own)
        if grip is None or opening is None:
            return
        fingers = action[self._finger_columns()]
        self._closing = self._closing + 1 if fingers.size and fingers.max() < CLOSING else 0
        if self._held is not None:
            track = self._track(self._held)
            half = float(min(track.half_extents_m[:2]))
            if opening > float(track.half_extents_m[1]) + OPENED_M:
                self._held = None
                return
            if opening < CLOSED_SHARE * half:
                self._slipped(track, grip)
                return
            track.position_m = np.asarray(self.frame.to_world(grip + self._offset))
        elif self._closing >= GRASP_STEPS:
            self._grasp(grip, opening)

    def _slipped(self, track: Any, grip: np.ndarray) -> None:
        """Nothing is between the fingers any more: it lies below them, as long as it is not seen elsewhere."""
        self._held, self._lost = None, track.id
        solid = [self._entity(other) for other in self.tracks.tracks if other.role == "landmark"]
        tops = [e.center_b_m[2] + e.half_extents_m[2] for e in solid if e.kind == "table"]
        if tops:
            below = np.array([grip[0], grip[1], max(tops) + float(track.half_extents_m[2])])
            track.position_m = np.asarray(self.frame.to_world(below))
        self.look()

    def _grasp(self, grip: np.ndarray, opening: float) -> None:
        for track in self.tracks.tracks:
            offset = self.frame.to_base(np.asarray(track.position_m)) - grip
            half = float(min(track.half_extents_m[:2]))
            if track.role == "object" and np.linalg.norm(offset) < GRASP_M and opening > CLOSED_SHARE * half:
                self._held, self._offset, self._lost = track.id, offset, None
                return

    def _finger_columns(self) -> slice:
        start = 0
        for term in self._env.spec.actions:
            if term.name == FINGERS:
                return slice(start, start + term.width)
            start += term.width
        return slice(0, 0)

    def _track(self, thing: str) -> Any:
        return next(track for track in self.tracks.tracks if track.id == thing)

    def _world(self, point_b: np.ndarray) -> tuple[float, float, float]:
        x, y, z = (float(v) for v in self.frame.to_world(np.asarray(point_b, dtype=np.float64)))
        return x, y, z

    def _shown(self) -> Observation:
        """The robot's own numbers, and rows of things as far as looks and fingers tell."""
        layout: Layout = self.spec.layout
        rows = [self._own.achieved[self._env.spec.layout.entity_index(name)] for name in self._robot_entities()]
        things = [self._track(name) for name in layout.entities if name not in self._robot_entities()]
        places = [self.frame.to_base(np.asarray(t.position_m)).astype(np.float32) for t in things]
        achieved = np.array([*rows, *places], dtype=np.float32)
        entities = np.zeros((len(layout.entities), layout.entity_width), dtype=np.float32)
        grip = self._grip()
        if grip is not None and layout.entity_width:
            self._fill(entities, layout, places, [t.id for t in things], grip)
        return Observation(self._own.state, entities, achieved, layout)

    def _fill(
        self, rows: np.ndarray, layout: Layout, places: Sequence[np.ndarray], ids: Sequence[str], grip: np.ndarray
    ) -> None:
        """Object terms: what lies still moves against the gripper as the gripper moves; turns are not known."""
        speed = self._own.state[5:8]
        for number, (place, name) in enumerate(zip(places, ids, strict=True), 1):
            relative = place - grip.astype(np.float32)
            against = np.zeros(3) if name == self._held else -speed
            rows[number, :3], rows[number, 3:6], rows[number, 9:12] = place, relative, against
        rows[0, -1] = 1.0
        if len(places):
            nearest = 1 + int(np.argmin([np.linalg.norm(place - grip) for place in places]))
            rows[0, :-1] = rows[nearest, :-1]

    def _entity(self, track: Any) -> EntityState:
        x, y, z = (float(v) for v in self.frame.to_base(np.asarray(track.position_m)))
        half = tuple(float(v) for v in track.half_extents_m)
        position = tuple(float(v) for v in track.position_m)
        q = self.frame.quaternion
        return EntityState(
            id=track.id, name=track.id, role=track.role, kind=track.kind, colour=track.colour, center_b_m=(x, y, z),
            half_extents_m=half, position_m=position, quaternion=(float(q[0]), 0.0, 0.0, float(q[3])),  # type: ignore[arg-type]
            volume=self._volume(track) if track.role == "zone" else None,
        )  # fmt: skip

    def _volume(self, track: Any) -> Volume:
        """The room above a zone, along B's axes."""
        ex, ey, _ = (float(v) for v in track.half_extents_m)
        middle = np.asarray(track.position_m) + (0.0, 0.0, ZONE_HEIGHT_M)
        rows = tuple(tuple(float(v) for v in row) for row in self.frame.rotation)
        at = tuple(float(v) for v in middle)
        if track.kind in ROUND_ZONES:
            return Volume("cylinder", (max(ex, ey), ZONE_HEIGHT_M, 0.0), at, rows)  # type: ignore[arg-type]
        return Volume("box", (ex, ey, ZONE_HEIGHT_M), at, rows)  # type: ignore[arg-type]

    def _contacts(self, entities: Sequence[EntityState], grip: np.ndarray | None) -> set[tuple[str, str]]:
        """What must touch: things that lie on each other, the fingers and what they hold or stand in."""
        found: set[tuple[str, str]] = set()
        solid = [e for e in entities if e.role != "place" and e.id != self._held]
        for a, b in combinations(solid, 2):
            upper, lower = (a, b) if a.center_b_m[2] > b.center_b_m[2] else (b, a)
            if upper.role == "object" and _rests(upper, lower):
                found.add((min(a.id, b.id), max(a.id, b.id)))
        touched: dict[str, tuple[str, ...]] = (
            {self._held: (GRIPPER, "left_finger", "right_finger")} if self._held else {}
        )
        if grip is not None and self._held is None:
            touched |= {e.id: (GRIPPER,) for e in solid if e.role == "object" and self._stands_in(e, grip)}
        for thing, parts in touched.items():
            found |= {(min(part, thing), max(part, thing)) for part in parts}
        return found

    def _stands_in(self, entity: EntityState, grip: np.ndarray) -> bool:
        """A fingertip is within a thing's box."""
        opening = finger_opening(self._own) or 0.0
        room = np.asarray(entity.half_extents_m) + TOUCH_M
        tips = [grip + (0.0, side * opening, -TIP_M) for side in (-1.0, 1.0)]
        return any(bool(np.all(np.abs(tip - np.asarray(entity.center_b_m)) <= room)) for tip in tips)


def _rests(upper: EntityState, lower: EntityState) -> bool:
    gap = (upper.center_b_m[2] - upper.half_extents_m[2]) - (lower.center_b_m[2] + lower.half_extents_m[2])
    over = all(
        abs(upper.center_b_m[i] - lower.center_b_m[i]) <= 0.8 * (upper.half_extents_m[i] + lower.half_extents_m[i])
        for i in (0, 1)
    )
    return abs(gap) <= REST_GAP_M and over
