"""Pictures of a scene without a display: which OpenGL does it, and the renderer.

One OpenGL context serves the whole process, with one MuJoCo rendering context per model in it and a viewport per
picture. Pictures of any size can so be mixed: with several OpenGL contexts of different sizes OSMesa answers with
stale pictures. All rendering of a process belongs to one thread.
"""

from __future__ import annotations

import atexit
import importlib
import os
import subprocess
import sys
import weakref
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import Any, Protocol

import mujoco
import numpy as np
from numpy.typing import NDArray

from embodied.errors import UserError
from embodied.types import FloatArray, Frame
from robots import load_triton_first
from robots.cameras import choose_camera

MAX_SIDE = 4096
"""Longest side of a picture, in pixels."""

_HEADLESS = ("egl", "osmesa")
_OTHER_SYSTEMS = {"darwin": "cgl", "win32": "glfw"}
_PROBE = "from mujoco.{} import GLContext; c = GLContext(8, 8); c.make_current(); c.free()"
_PROBE_SECONDS = 30.0
_REMEDY = "install the Debian packages libegl1 libgl1 (EGL) or libosmesa6 (software), then try again"
_MAX_GEOMS = 5000
_SEEN_ALPHA = 0.5
"""What is less opaque than this tints a picture, but is nothing that a depth camera measures: the insides of zones."""


class RenderError(UserError):
    """A picture cannot be made: no OpenGL, or a size that is none."""


def choose_backend() -> str:
    """The OpenGL that renders without a display: `MUJOCO_GL` where it is set, else EGL if it works, else OSMesa.

    Each is tried in a process of its own, once; the choice is written to `MUJOCO_GL`, which children inherit. It does
    not matter whether `mujoco` was imported before.

    Raises:
        RenderError: Rendering is switched off, or neither works.
    """
    asked = os.environ.get("MUJOCO_GL", "").strip().lower()
    if asked in ("disable", "disabled", "off", "false", "0"):
        raise RenderError(f"rendering is switched off by MUJOCO_GL={asked}; unset it, or set MUJOCO_GL=egl or osmesa")
    if asked == "glfw" and sys.platform == "linux" and not {"DISPLAY", "WAYLAND_DISPLAY"} & set(os.environ):
        raise RenderError("MUJOCO_GL=glfw needs a display and there is none: unset it, or set MUJOCO_GL=egl or osmesa")
    if asked not in ("", "enable", "enabled", "on", "true", "1"):
        return asked
    candidates = _HEADLESS if sys.platform.startswith("linux") else (_OTHER_SYSTEMS.get(sys.platform, "glfw"),)
    for backend in candidates:
        if backend not in _HEADLESS or _works(backend):
            os.environ["MUJOCO_GL"] = backend
            return backend
    raise RenderError(f"no headless rendering here: neither EGL nor OSMesa works; {_REMEDY}")


def _works(backend: str) -> bool:
    command = [sys.executable, "-c", _PROBE.format(backend)]
    environment = {**os.environ, "MUJOCO_GL": backend}
    try:
        done = subprocess.run(command, env=environment, capture_output=True, timeout=_PROBE_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0


class _Context(Protocol):
    def make_current(self) -> None: ...

    def free(self) -> None: ...


class _ProcessContext:
    """The process's OpenGL context: made for the first renderer, freed with the last."""

    def __init__(self) -> None:
        self._context: _Context | None = None
        self._users = 0

    def acquire(self) -> None:
        if self._context is None:
            self._context = _make_context(choose_backend())
        self._users += 1
        self.make_current()

    def make_current(self) -> None:
        if self._context is not None:
            self._context.make_current()

    def release(self) -> None:
        self._users -= 1
        if self._users == 0 and self._context is not None:
            self._context.free()
            self._context = None


def _make_context(backend: str) -> _Context:
    load_triton_first()
    try:
        module: Any = importlib.import_module(f"mujoco.{'glfw' if backend in ('glx', 'wgl') else backend}")
        context = module.GLContext(64, 64)
        context.make_current()
    except Exception as error:  # PyOpenGL fails in many ways when a library is missing: all mean the same here
        problem = f"rendering with MUJOCO_GL={backend} does not work ({type(error).__name__})"
        raise RenderError(f"{problem}; {_REMEDY}") from None
    # Registered after the backend's own exit handler and so run before it: contexts are freed while EGL still stands.
    atexit.register(_close_all)
    return context


def _close_all() -> None:
    for renderer in list(_RENDERERS):
        renderer.close()


class SceneRenderer:
    """Pictures of one model. OpenGL is touched at the first picture only; `close` frees it."""

    def __init__(self, model: mujoco.MjModel) -> None:
        self._model = model
        self._option = mujoco.MjvOption()
        self._sites = self._option.sitegroup.copy()
        self._scene: mujoco.MjvScene | None = None
        self._context: mujoco.MjrContext | None = None
        self._default: tuple[mujoco.MjvCamera, str] | None = None

    def render(
        self,
        data: mujoco.MjData,
        camera: str | mujoco.MjvCamera | None = None,
        width: int = 320,
        height: int = 240,
        depth: bool = False,
    ) -> Frame:
        """A picture of `data`, whose positions must be up to date; neither model nor data is changed.

        Without a camera it is the scene's first own camera, else a free one that shows the whole work area as it was
        at the first such picture (so that a film does not sway). Intrinsics are in pixels with pixel centres at
        integers: the optical axis passes through ((width - 1) / 2, (height - 1) / 2). Depth is the distance along the
        optical axis in metres, to bodies that are at least half opaque. Where nothing is seen it is that of the far
        clipping plane. Sites are marks that no camera sees: they are in pictures without depth, but not in those with
        it, where what is inside a translucent one would lie in its shadow.

        Raises:
            RenderError: No OpenGL, or a size outside 1..4096.
            UserError: There is no camera of that name.
        """
        self._option.sitegroup[:] = 0 if depth else self._sites
        name, scene, context, viewport = self._look(data, camera, width, height)
        mujoco.mjr_render(viewport, scene, context)
        rgb = np.empty((height, width, 3), dtype=np.uint8)
        mujoco.mjr_readPixels(rgb, None, viewport, context)
        return Frame(
            rgb=rgb[::-1].copy(),
            camera=name,
            time_s=float(data.time),
            depth_m=self._depth(viewport, scene, context) if depth else None,
            intrinsics=_intrinsics(scene, width, height),
            world_from_camera=_pose(scene),
        )

    def segmentation(
        self,
        data: mujoco.MjData,
        camera: str | mujoco.MjvCamera | None = None,
        width: int = 320,
        height: int = 240,
        geoms: Collection[int] | None = None,
    ) -> NDArray[np.int32]:
        """Which geom each pixel shows, (H, W) geom ids, -1 where there is none; otherwise as `render`.

        This is ground truth: labels and tests may read it, describers may not. Geoms that are less than half opaque
        are not there, and sites never are.

        Args:
            geoms: Only these are there, as if the scene held nothing else; all of them where None.
        """
        _, scene, context, viewport = self._look(data, camera, width, height)
        table = np.full(scene.ngeom + 1, -1, dtype=np.int32)
        for item in scene.geoms[: scene.ngeom]:
            chosen = item.objtype == mujoco.mjtObj.mjOBJ_GEOM and (geoms is None or item.objid in geoms)
            if chosen and item.rgba[3] >= _SEEN_ALPHA:
                table[item.segid + 1] = item.objid
            else:
                item.segid = -1
        _render_flat(viewport, scene, context)
        colours = np.empty((height, width, 3), dtype=np.uint8)
        mujoco.mjr_readPixels(colours, None, viewport, context)
        return table[colours[::-1].astype(np.int32) @ np.array([1, 1 << 8, 1 << 16], dtype=np.int32)]

    def close(self) -> None:
        """Frees OpenGL; a later picture opens it again."""
        if self._context is not None:
            _PROCESS.make_current()
            self._context.free()
            self._context = self._scene = None
            _PROCESS.release()

    def __del__(self) -> None:
        self.close()

    def _look(
        self, data: mujoco.MjData, camera: str | mujoco.MjvCamera | None, width: int, height: int
    ) -> tuple[str, mujoco.MjvScene, mujoco.MjrContext, mujoco.MjrRect]:
        """The camera's name, and everything ready to be drawn from it."""
        if not (1 <= width <= MAX_SIDE and 1 <= height <= MAX_SIDE):
            raise RenderError(f"a picture of {width} x {height} pixels: each side must be within 1..{MAX_SIDE}")
        view, name = self._camera(data, camera)
        scene, context = self._open(width, height)
        categories = mujoco.mjtCatBit.mjCAT_ALL.value
        mujoco.mjv_updateScene(self._model, data, self._option, None, view, categories, scene)
        return name, scene, context, mujoco.MjrRect(0, 0, width, height)

    def _camera(self, data: mujoco.MjData, camera: str | mujoco.MjvCamera | None) -> tuple[mujoco.MjvCamera, str]:
        if isinstance(camera, mujoco.MjvCamera):
            return camera, "custom"
        if camera is not None:
            return choose_camera(self._model, data, camera)
        if self._default is None:
            self._default = choose_camera(self._model, data, None)
        return self._default

    def _open(self, width: int, height: int) -> tuple[mujoco.MjvScene, mujoco.MjrContext]:
        if self._context is None or self._scene is None:
            _PROCESS.acquire()
            self._scene = mujoco.MjvScene(self._model, maxgeom=_MAX_GEOMS)
            self._context = mujoco.MjrContext(self._model, mujoco.mjtFontScale.mjFONTSCALE_100.value)
            self._context.readDepthMap = mujoco.mjtDepthMap.mjDEPTH_ZEROFAR
            mujoco.mjr_setBuffer(mujoco.mjtFramebuffer.mjFB_OFFSCREEN.value, self._context)
            _RENDERERS.add(self)
        _PROCESS.make_current()
        context = self._context
        if width > context.offWidth or height > context.offHeight:
            mujoco.mjr_resizeOffscreen(max(width, context.offWidth), max(height, context.offHeight), context)
        return self._scene, context

    def _depth(self, viewport: mujoco.MjrRect, scene: mujoco.MjvScene, context: mujoco.MjrContext) -> FloatArray:
        """Rendered again as flat colours, without which the buffer is coarse far away (as `mujoco.Renderer` does)."""
        for item in scene.geoms[: scene.ngeom]:
            if item.rgba[3] < _SEEN_ALPHA:
                item.segid = -1
        _render_flat(viewport, scene, context)
        buffer = np.empty((viewport.height, viewport.width), dtype=np.float32)
        mujoco.mjr_readPixels(None, buffer, viewport, context)
        near, far = scene.camera[0].frustum_near, scene.camera[0].frustum_far
        # Reversed depth buffer, 1 at the near plane and 0 at the far one: 1/z is linear in it.
        return (near * far / (near + buffer[::-1].astype(np.float64) * (far - near))).astype(np.float32)


@contextmanager
def drawing() -> Iterator[None]:
    """Keeps the process's OpenGL context while models are drawn one after the other.

    Otherwise it goes with the last open renderer, and the next one makes it anew, which takes a quarter of a second.

    Raises:
        RenderError: No OpenGL.
    """
    _PROCESS.acquire()
    try:
        yield
    finally:
        _PROCESS.release()


def _render_flat(viewport: mujoco.MjrRect, scene: mujoco.MjvScene, context: mujoco.MjrContext) -> None:
    """Draws each item in the flat colour that is its `segid` + 1, and none whose `segid` is -1."""
    flags = scene.flags.copy()
    scene.flags[mujoco.mjtRndFlag.mjRND_SEGMENT] = True
    scene.flags[mujoco.mjtRndFlag.mjRND_IDCOLOR] = True
    mujoco.mjr_render(viewport, scene, context)
    np.copyto(scene.flags, flags)


_PROCESS = _ProcessContext()
_RENDERERS: weakref.WeakSet[SceneRenderer] = weakref.WeakSet()


def _intrinsics(scene: mujoco.MjvScene, width: int, height: int) -> NDArray[np.float64]:
    """(3, 3) from the frustum that was rendered, which also holds for cameras with a sensor size or an offset."""
    eye = scene.camera[0]
    focal_y = eye.frustum_near * height / (eye.frustum_top - eye.frustum_bottom)
    center_y = height * eye.frustum_top / (eye.frustum_top - eye.frustum_bottom) - 0.5
    focal_x, center_x = focal_y, (width - 1) / 2
    if eye.frustum_width > 0:
        focal_x = eye.frustum_near * width / (2 * eye.frustum_width)
        center_x -= eye.frustum_center * width / (2 * eye.frustum_width)
    return np.array([[focal_x, 0.0, center_x], [0.0, focal_y, center_y], [0.0, 0.0, 1.0]])


def _pose(scene: mujoco.MjvScene) -> NDArray[np.float64]:
    """(4, 4) world_from_camera; MuJoCo keeps two eyes, the picture is taken from between them."""
    left, right = scene.camera[0], scene.camera[1]
    forward = np.asarray(left.forward, dtype=np.float64)
    down = -np.asarray(left.up, dtype=np.float64)
    pose = np.eye(4)
    pose[:3, :3] = np.column_stack([np.cross(down, forward), down, forward])
    pose[:3, 3] = (np.asarray(left.pos, dtype=np.float64) + np.asarray(right.pos, dtype=np.float64)) / 2
    return pose
