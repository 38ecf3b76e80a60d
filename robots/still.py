"""A scene without a robot of ours, at rest: to be looked at and described."""

from __future__ import annotations

import math
from pathlib import Path

import mujoco

from embodied.types import Frame, SceneState
from robots.placement import Base, find_surface, frame_for_scene
from robots.rendering import SceneRenderer
from robots.scene import scene_model
from robots.scene_state import SceneReader

SETTLE_S = 0.5
"""Holding still before facts are read."""


class StillScene:
    """An MJCF scene half a second after its start, in the frame B that an arm placed in it would have."""

    def __init__(self, scene: str | Path, base: Base | None = None) -> None:
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
        self._reader = SceneReader(self.model, self.frame, None)
        self._renderer: SceneRenderer | None = None

    def fitting_robot(self) -> str:
        """`fetch` where free bodies rest on a raised static surface, `point` where there is a site `start` and no such
        surface, else `none`."""
        if self.surface is not None and not self.surface.endless:
            return "fetch"
        start = mujoco.mj_name2id(self.model, mujoco.mjtObj.mjOBJ_SITE, "start")
        return "point" if start >= 0 else "none"

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
