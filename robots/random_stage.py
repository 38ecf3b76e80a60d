"""A random scene compiled once, and its views applied to the compiled model one after the other."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import mujoco
import numpy as np

from embodied.labels import FrameLabel
from embodied.types import BaseFrame, Frame, SceneState
from robots.assembly import build_arm_scene
from robots.base import POINT, RobotModel
from robots.fetch_arm import FetchArm
from robots.labels import FrameLabeller, Origin
from robots.placement import SURFACE_FROM_BASE_M, Base, frame_for_scene
from robots.random_scene import (
    CAMERA,
    FINISHES,
    LIGHTS,
    TABLE,
    Grip,
    Put,
    RandomScene,
    RandomThing,
    View,
    geom_name,
    light_name,
)
from robots.random_table import robot_yaw
from robots.rendering import SceneRenderer
from robots.scene import place_in_scene, quiet
from robots.scene_state import SceneReader

DEEPEST_M = 0.002
"""A view in which the arm reaches deeper into something is left out."""
_PERIODS = 20
"""Control periods, at most, for the arm to reach its place."""
_NEAR_M = 0.004
"""So near to its place the arm stops."""
_PAD_M = 0.0009
"""Half the way between the inner sides of the finger pads when the finger joints are at zero."""
_SQUEEZE_M = 0.0003
"""How far the pads reach into what they hold."""


class Stage:
    """A compiled random scene; `model` and `data` show the view that was applied last."""

    def __init__(self, scene: RandomScene, folder: Path) -> None:
        """
        Args:
            folder: For the scene's files; nothing in it is needed later.
        """
        self.scene = scene
        path = scene.write(folder)
        self._robot: RobotModel | None = POINT if scene.robot == "point" else None
        self._poser: _ArmPoser | None = None
        self._frame: BaseFrame | None = None
        if scene.robot == "fetch":
            built = build_arm_scene(path, place_in_scene(path, _base(scene)), folder / "arm")
            self.model, self._robot, self._frame = built.model, built.robot, built.frame
            self._poser = _ArmPoser(FetchArm(built.model, built.frame, built.robot), built.robot.body_prefix)
        else:
            with quiet():
                self.model = mujoco.MjModel.from_xml_path(str(path))
        self.data = mujoco.MjData(self.model)
        self._renderer = SceneRenderer(self.model)
        look = scene.views[0].look
        self._top, self._ground = (
            np.flatnonzero(self.model.geom_matid == self.model.material(name).id)
            for name in (f"top{look.top}", f"ground{look.ground}")
        )

    def frames(self, width: int = 320, height: int = 240) -> Iterator[tuple[Frame, FrameLabel]]:
        """The labelled frame of each view in which the arm is clear of everything."""
        for index, view in enumerate(self.scene.views):
            self.apply(view)
            if self.arm_depth_m() <= DEEPEST_M:
                yield self.shoot(index, width, height)

    def apply(self, view: View) -> None:
        """Brings the model and its data to a view."""
        model, data = self.model, self.data
        mujoco.mj_resetData(model, data)
        if self._poser is not None and view.grip is not None:
            self._poser.pose(data, view.grip, self.scene.things)
        for thing, put in zip(self.scene.things, view.puts, strict=True):
            self._place(thing, put)
        self._light(view)
        camera = model.camera(CAMERA)
        camera.pos[:], camera.quat[:] = view.camera.position_m, view.camera.quaternion
        camera.fovy[:] = view.camera.fov_deg
        mujoco.mj_forward(model, data)
        if view.grip is not None and view.grip.holds is not None:
            self._into_the_hand(self.scene.things[view.grip.holds])

    def arm_depth_m(self) -> float:
        """How deep the arm reaches into anything, itself included: it came to its place with contacts off."""
        if self._poser is None:
            return 0.0
        arm = self._poser.geoms
        pairs = zip(self.data.contact.geom, self.data.contact.dist, strict=True)
        return max((-float(dist) for (a, b), dist in pairs if arm[a] or arm[b]), default=0.0)

    def state(self) -> SceneState:
        """The state of the applied view, without a picture of it."""
        return self._reader().read(self.data)

    def shoot(self, index: int, width: int = 320, height: int = 240) -> tuple[Frame, FrameLabel]:
        """The frame of the applied view, with depth, and its label; `index` is the view's."""
        labeller = FrameLabeller(self.model, self._reader(), self._renderer)
        frame = self._renderer.render(self.data, CAMERA, width, height, depth=True)
        origin = Origin(self.scene.kind, self.scene.split, self.scene.seed, index)
        label = labeller.label(self.data, frame, origin, CAMERA)
        # The state knows a table by what lies on it; an empty one is no block.
        entities = tuple(replace(e, kind="table") if e.id == TABLE else e for e in label.entities)
        return frame, replace(label, entities=entities)

    def close(self) -> None:
        """Frees the renderer."""
        self._renderer.close()

    def _reader(self) -> SceneReader:
        """Of the applied view: colours and kinds are read when it is made."""
        return SceneReader(self.model, self._frame or frame_for_scene(self.model, self.data), self._robot)

    def _place(self, thing: RandomThing, put: Put) -> None:
        model = self.model
        body = model.body(thing.name)
        if thing.role == "object":
            start = int(model.jnt_qposadr[body.jntadr[0]])
            self.data.qpos[start : start + 3], self.data.qpos[start + 3 : start + 7] = put.position_m, put.quaternion
        else:
            body.pos[:], body.quat[:] = put.position_m, put.quaternion
        finish = model.material(FINISHES[put.finish][0]).id
        for index in range(len(thing.parts)):
            geom = model.geom(geom_name(thing.name, index))
            geom.rgba[:3], geom.matid[:] = put.rgb, finish
        if thing.role == "zone":
            model.site(thing.name).rgba[:3] = put.rgb

    def _light(self, view: View) -> None:
        model, look = self.model, view.look
        model.vis.headlight.ambient[:], model.vis.headlight.diffuse[:] = look.ambient, look.headlight
        model.geom_matid[self._top] = model.material(f"top{look.top}").id
        model.geom_matid[self._ground] = model.material(f"ground{look.ground}").id
        for index in range(LIGHTS):
            lamp = look.lights[index] if index < len(look.lights) else None
            # Not through the accessors of a named light: writing to their flags has no effect.
            light = model.light(light_name(index)).id
            model.light_active[light] = lamp is not None
            if lamp is not None:
                kind = mujoco.mjtLightType.mjLIGHT_DIRECTIONAL if lamp.sun else mujoco.mjtLightType.mjLIGHT_SPOT
                model.light_type[light], model.light_castshadow[light] = kind, lamp.shadow
                model.light_pos[light] = lamp.position_m
                model.light_dir[light] = np.array(lamp.direction) / np.linalg.norm(lamp.direction)
                model.light_diffuse[light], model.light_specular[light] = lamp.diffuse, lamp.specular
                model.light_cutoff[light], model.light_exponent[light] = lamp.cutoff_deg, lamp.exponent

    def _into_the_hand(self, thing: RandomThing) -> None:
        """The held thing between the pads, where the arm really is."""
        assert self._poser is not None
        start = int(self.model.jnt_qposadr[self.model.body(thing.name).jntadr[0]])
        self.data.qpos[start : start + 3] = self._poser.grip_m(self.data)
        mujoco.mj_forward(self.model, self.data)


class _ArmPoser:
    """Brings an arm to a place without moving anything else."""

    def __init__(self, arm: FetchArm, prefix: str) -> None:
        self._arm, model = arm, arm.model
        joints = [j for j in range(model.njnt) if model.joint(j).name.startswith(prefix)]
        self._qpos = model.jnt_qposadr[joints]
        self._fingers = [int(model.joint(f"{prefix}{side}_gripper_finger_joint").qposadr[0]) for side in "lr"]
        bodies = np.array([model.body(b).name.startswith(prefix) for b in range(model.nbody)])
        self.geoms = bodies[model.geom_bodyid]
        """Which geoms are the arm's, (ngeom,)."""
        self._data = mujoco.MjData(model)

    def grip_m(self, data: mujoco.MjData) -> np.ndarray:
        """The grip site in the world, (3,)."""
        return self._arm.frame.to_world(self._arm.grip(data))

    def pose(self, data: mujoco.MjData, grip: Grip, things: tuple[RandomThing, ...]) -> None:
        """The arm's joints in `data` as they are after its way to the place, travelled with contacts off."""
        model, scratch = self._arm.model, self._data
        flags = model.opt.disableflags
        model.opt.disableflags = flags | int(mujoco.mjtDisableBit.mjDSBL_CONTACT)
        try:
            mujoco.mj_resetData(model, scratch)
            self._arm.home(scratch)
            target = self._arm.frame.to_base(np.asarray(grip.target_m))
            for _ in range(_PERIODS):
                missing = target - self._arm.grip(scratch)
                if np.linalg.norm(missing) < _NEAR_M:
                    break
                self._arm.step(scratch, np.append(np.clip(missing / 0.05, -1.0, 1.0), 0.0))
        finally:
            model.opt.disableflags = flags
        data.qpos[self._qpos] = scratch.qpos[self._qpos]
        opening = grip.opening_m
        if grip.holds is not None:
            opening = things[grip.holds].half_m[1] - _PAD_M - _SQUEEZE_M
        data.qpos[self._fingers] = opening


def _base(scene: RandomScene) -> Base:
    """Where the rule of `robots.placement` has the arm's base; by hand, because it holds for empty tables too."""
    yaw = robot_yaw(scene.area)
    forward, left, height = SURFACE_FROM_BASE_M
    x, y, _ = BaseFrame(scene.area.center_m, yaw).to_world(np.array((-forward, -left, 0.0)))
    return float(x), float(y), scene.area.center_m[2] - height, math.degrees(yaw)
