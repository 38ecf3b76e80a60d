"""A scene without a robot of ours, at rest: to be looked at and described."""

from __future__ import annotations

import math
from pathlib import Path

import mujoco
import numpy as np

from embodied.errors import SceneError
from embodied.types import Frame, SceneState
from robots.placement import Base, find_surface, frame_for_scene, no_place_for_arm
from robots.rendering import SceneRenderer
from robots.scene import SceneFile, scene_file, scene_model
from robots.scene_state import SceneReader
from robots.scene_trial import SETTLE_S

_BAD = (mujoco.mjtWarning.mjWARN_BADQPOS, mujoco.mjtWarning.mjWARN_BADQVEL, mujoco.mjtWarning.mjWARN_BADQACC)


class StillScene:
    """An MJCF scene half a second after its start, in the frame B that an arm placed in it would have."""

    def __init__(self, scene: str | Path | SceneFile, base: Base | None = None) -> None:
        """
        Args:
            scene: A shipped scene's name or a path to an MJCF file.
            base: Base of an arm by hand: x, y, z (m, world), yaw (degrees).

        Raises:
            SceneError: The scene cannot be used.
        """
        self.model = scene_model(scene)
        self.data = mujoco.MjData(self.model)
        mujoco.mj_forward(self.model, self.data)
        self.surface = find_surface(self.model, self.data)
        self.frame = frame_for_scene(self.model, self.data, base)
        mujoco.mj_step(self.model, self.data, nstep=math.ceil(SETTLE_S / self.model.opt.timestep))
        mujoco.mj_forward(self.model, self.data)
        _refuse_unstable(self.model, self.data, scene)
        self._reader = SceneReader(self.model, self.frame, None)
        self._renderer: SceneRenderer | None = None

    def fitting_robot(self) -> str:
        """`fetch` where free bodies rest on a raised static surface, `point` where there is a site `start` and no such
        surface, else `none`, and `misfit` says why."""
        if not self.misfit:
            return "fetch"
        start = mujoco.mj_name2id(self.model, mujoco.mjtObj.mjOBJ_SITE, "start")
        return "point" if start >= 0 else "none"

    @property
    def misfit(self) -> str:
        """Why an arm finds no place here; empty where it does."""
        return no_place_for_arm(self.model, self.surface)

    def scene_state(self) -> SceneState:
        """The scene as it lies."""
        return self._reader.read(self.data)

    def render(self, camera: str | None = None, width: int = 320, height: int = 240, depth: bool = False) -> Frame:
        """A picture; without a name, from the camera that shows the scene best."""
        self._renderer = self._renderer or SceneRenderer(self.model)
        return self._renderer.render(self.data, camera, width, height, depth)

    def close(self) -> None:
        """Frees the renderer."""
        if self._renderer is not None:
            self._renderer.close()


def _refuse_unstable(model: mujoco.MjModel, data: mujoco.MjData, scene: str | Path | SceneFile) -> None:
    """
    Raises:
        SceneError: The simulation broke down (MuJoCo then begins anew).
    """
    if any(data.warning[int(kind)].number for kind in _BAD) or not np.isfinite(data.qpos).all():
        name = scene_file(scene).path
        raise SceneError(
            f"scene '{name}' becomes unstable within {SETTLE_S} s: use a smaller timestep, or part what overlaps"
        )
