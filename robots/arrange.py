"""Things of a scene put elsewhere by an invisible hand: for variations of a scene, and for disturbances of a run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import mujoco
import numpy as np
from numpy.typing import NDArray

from embodied.errors import UserError
from embodied.types import EntityState, SceneState

SHIFT_M = 0.015
"""Farthest that a thing is moved along each axis in a variation of a scene."""
DRAWS = 200
"""Arrangements that are tried before none is found."""
DEEP_M = 0.001
"""Bodies that stand into each other by more than this overlap."""
SETTLE_S = 0.5
Array = NDArray[np.float64]


class Arranger:
    """Moves the free bodies of a simulated scene.

    Args:
        env: A scene environment over MuJoCo, already reset: it offers `model`, `data`, `frame` and `scene_state`.
    """

    def __init__(self, env: Any) -> None:
        self._env, self.model, self.data = env, env.model, env.data
        self._bodies = {e.id: self.model.body(e.name).id for e in env.scene_state().entities if e.role == "object"}
        root = self.model.body_rootid[self.model.geom_bodyid]
        self._geoms = {thing: set(np.flatnonzero(root == body).tolist()) for thing, body in self._bodies.items()}

    @property
    def things(self) -> tuple[str, ...]:
        """Ids of all that can be moved."""
        return tuple(self._bodies)

    def move(self, thing: str, shift_m: Sequence[float] | Array, turn_rad: float = 0.0) -> None:
        """Moves a thing by (3,) in the world and turns it about the vertical through its origin; it is at rest then."""
        joint = self.model.body_jntadr[self._bodies[thing]]
        pose, speed = self.model.jnt_qposadr[joint], self.model.jnt_dofadr[joint]
        qpos = self.data.qpos
        qpos[pose : pose + 3] += np.asarray(shift_m, dtype=np.float64)
        turned = np.zeros(4)
        turn = np.array([np.cos(turn_rad / 2), 0.0, 0.0, np.sin(turn_rad / 2)])
        mujoco.mju_mulQuat(turned, turn, qpos[pose + 3 : pose + 7])
        qpos[pose + 3 : pose + 7] = turned
        self.data.qvel[speed : speed + 6] = 0.0

    def refresh(self) -> None:
        """Positions and contacts belong to the present places again."""
        mujoco.mj_fwdPosition(self.model, self.data)
        mujoco.mj_fwdVelocity(self.model, self.data)

    def saved(self) -> tuple[Array, Array]:
        """Positions and velocities, to be given to `restore`."""
        return self.data.qpos.copy(), self.data.qvel.copy()

    def restore(self, saved: tuple[Array, Array]) -> None:
        """As it was."""
        self.data.qpos[:], self.data.qvel[:] = saved
        self.refresh()

    def overlaps(self, things: Sequence[str] | None = None) -> bool:
        """One of the things (all where None) stands into something."""
        geoms = set().union(*(self._geoms[thing] for thing in (things if things is not None else self.things)))
        contacts = self.data.contact
        pairs = zip(contacts.geom[:, 0].tolist(), contacts.geom[:, 1].tolist(), contacts.dist.tolist(), strict=True)
        return any(deep < -DEEP_M and (a in geoms or b in geoms) for a, b, deep in pairs)

    def support_height(self, thing: str, at_xy: Sequence[float] | Array) -> float | None:
        """World height of what is under a place, found by a ray down from above the thing; None: there is nothing."""
        body = self._bodies[thing]
        start = np.array([*at_xy, self.data.xipos[body][2] + 0.02])
        hit = np.zeros(1, dtype=np.int32)
        groups = np.ones(6, dtype=np.uint8)
        far = mujoco.mj_ray(self.model, self.data, start, np.array([0.0, 0.0, -1.0]), groups, 1, body, hit)
        return None if far < 0 else float(start[2] - far)


def scatter(env: Any, rng: np.random.Generator, shift_m: float = SHIFT_M) -> None:
    """Moves every free body by up to `shift_m` along x and y and turns it anyhow; then the scene settles.

    Drawn again while two things overlap. What lies on another thing is moved along with it.

    Raises:
        UserError: The scene is too tight: no arrangement was found.
    """
    arranger = Arranger(env)
    if not arranger.things:
        return
    bases = _bases(env.scene_state())
    before = arranger.saved()
    for _ in range(DRAWS):
        arranger.restore(before)
        shifts = {base: [*rng.uniform(-shift_m, shift_m, 2), 0.0] for base in arranger.things}
        for thing in arranger.things:
            turn = float(rng.uniform(-np.pi, np.pi))
            arranger.move(thing, shifts[bases[thing]], turn if bases[thing] == thing else 0.0)
        arranger.refresh()
        if not arranger.overlaps():
            settle(env)
            return
    arranger.restore(before)
    raise UserError("the scene's things stand too close together to be moved; take variations=1")


def settle(env: Any, seconds: float = SETTLE_S) -> None:
    """Lets time pass while the robot holds still."""
    still = np.zeros(env.spec.action_width, dtype=np.float32)
    for _ in range(int(np.ceil(seconds * env.spec.control_hz))):
        env.step(still)


def _bases(state: SceneState) -> dict[str, str]:
    """For each object the lowest object that it lies on, itself where it lies on none."""
    objects = {e.id: e for e in state.entities if e.role == "object"}
    under = {thing: thing for thing in objects}
    for a, b in state.contacts:
        if a in objects and b in objects and _apart(objects[a], objects[b]):
            upper, lower = (a, b) if objects[a].center_b_m[2] > objects[b].center_b_m[2] else (b, a)
            under[upper] = lower
    for thing in under:
        for _ in objects:
            under[thing] = under[under[thing]]
    return under


def _apart(a: EntityState, b: EntityState) -> bool:
    """One lies on the other: their heights differ by more than half of the lower one's."""
    return abs(a.center_b_m[2] - b.center_b_m[2]) > 0.5 * (a.half_extents_m[2] + b.half_extents_m[2])
