"""Scenes: finding an MJCF file by name or path, and loading it without ever showing a traceback to its author.

`place_arm` and `frame_for_scene` live in `robots.placement` and can be imported from here as well.
"""

from __future__ import annotations

import logging
import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from pathlib import Path

import mujoco
import numpy as np

from embodied.errors import SceneError
from robots.placement import Base, Placement, frame_for_scene, place_arm

__all__ = [
    "Placement", "frame_for_scene", "load_scene", "place_arm", "place_in_scene", "quiet", "resolve_scene",
    "scene_model", "shipped_scenes", "squeeze",
]  # fmt: skip

SCENES = Path(__file__).parent / "assets" / "scenes"
MAX_SCENE_BYTES = 64 * 2**20

_log = logging.getLogger(__name__)
_PROLOG = re.compile(rb"\A(?:\xef\xbb\xbf)?(?:\s|<\?.*?\?>|<!--.*?-->|<!DOCTYPE[^>]*>)*", re.DOTALL)


def shipped_scenes() -> tuple[str, ...]:
    """Names of the scenes that come with the software, sorted."""
    return tuple(sorted(path.stem for path in SCENES.glob("*.xml")))


def resolve_scene(text: str | Path) -> Path:
    """The MJCF file that `text` means: a shipped scene's name, else a path to a file.

    Raises:
        SceneError: Neither; the message names the shipped scenes.
    """
    name = str(text)
    if name in shipped_scenes():
        return SCENES / f"{name}.xml"
    path = Path(name).expanduser()
    try:
        found = bool(name.strip()) and path.exists()
    except (OSError, ValueError):
        found = False
    if not found:
        near = get_close_matches(name, shipped_scenes(), n=1)
        hint = f" (did you mean '{near[0]}'?)" if near else ""
        names = ", ".join(shipped_scenes())
        raise SceneError(
            f"no scene '{_short(name)}'{hint}; use a shipped scene ({names}) or a path to an MJCF .xml file"
        )
    if path.is_dir():
        raise SceneError(f"'{path}' is a folder; give the path of an MJCF .xml file in it")
    return path.resolve()


def load_scene(scene: str | Path) -> mujoco.MjSpec:
    """The editable specification of a scene, which is known to compile; nothing in it is fused or discarded.

    Raises:
        SceneError: The scene is unknown, is not MJCF, or MuJoCo refuses it; the message is one line.
    """
    path = resolve_scene(scene)
    _check_file(path)
    silence_log_file()
    try:
        spec = mujoco.MjSpec.from_file(str(path))
        # Fusing would lose the names of furniture, and discarding the colours of things.
        spec.compiler.fusestatic = spec.compiler.discardvisual = False
        _name_bodies(spec)
        with quiet():
            model = spec.compile()
    except Exception as error:  # MuJoCo raises ValueError, FatalError and more for a scene's mistakes
        raise SceneError(f"scene '{path}' does not load: {squeeze(error)}") from None
    if not (np.isfinite(model.body_pos).all() and np.isfinite(model.qpos0).all()):
        raise SceneError(f"scene '{path}' holds positions that are not finite; correct them")
    return spec


def _name_bodies(spec: mujoco.MjSpec) -> None:
    """Gives bodies without a name one, so that what is said of them can be found in the compiled file."""
    taken, number = {body.name for body in spec.bodies}, 0
    for body in spec.bodies:
        while not body.name:
            number += 1
            if f"unnamed_{number}" not in taken:
                body.name = f"unnamed_{number}"


def scene_model(scene: str | Path) -> mujoco.MjModel:
    """The compiled model of a scene, without a robot.

    Raises:
        SceneError: As `load_scene`.
    """
    spec = load_scene(scene)
    with quiet():
        return spec.compile()


def place_in_scene(scene: str | Path, base: Base | None = None) -> Placement:
    """Where the Fetch arm stands in a scene, judged on it as its file has it.

    Args:
        scene: A shipped scene's name or a path to an MJCF file.
        base: As in `place_arm`.

    Raises:
        SceneError: As `load_scene`.
        JobFailed, UserError: As `place_arm`.
    """
    model = scene_model(scene)
    data = mujoco.MjData(model)
    mujoco.mj_forward(model, data)
    return place_arm(model, data, base)


def squeeze(error: object, limit: int = 240) -> str:
    """A message of any length on one printable line."""
    return _short("".join(c if c.isprintable() else " " for c in str(error)), limit)


def silence_log_file() -> None:
    """MuJoCo's warnings go to Python's logging (level info) instead of a MUJOCO_LOG.TXT in the user's folder."""
    if mujoco.get_mju_user_warning() is None:
        mujoco.set_mju_user_warning(_log.info)


@contextmanager
def quiet() -> Iterator[None]:
    """What MuJoCo's compiler warns of goes to Python's logging (level info), a line each."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield
    for warning in caught:
        _log.info("%s", squeeze(warning.message))


def _short(text: str, limit: int = 120) -> str:
    line = " ".join(text.split())
    return line if len(line) <= limit else line[: limit - 3] + "..."


def _check_file(path: Path) -> None:
    """Refuses what is certainly no MJCF before MuJoCo sees it."""
    try:
        if not path.is_file():
            raise SceneError(f"'{path}' is not a regular file; give the path of an MJCF .xml file")
        if path.stat().st_size > MAX_SCENE_BYTES:
            raise SceneError(f"'{path}' is larger than {MAX_SCENE_BYTES >> 20} MiB; that is no MJCF scene")
        content = path.read_bytes()
    except OSError as error:
        raise SceneError(f"cannot read scene '{path}': {error.strerror or error}") from None
    if not content.strip():
        raise SceneError(f"scene '{path}' is empty; an MJCF file begins with <mujoco>")
    tag = re.compile(rb"<([A-Za-z_][\w.\-]*)").match(content, _PROLOG.match(content).end())  # type: ignore[union-attr]
    if tag is None:
        raise SceneError(f"'{path}' is not MJCF: it is not XML; an MJCF file begins with <mujoco>")
    if tag[1] != b"mujoco":
        raise SceneError(f"'{path}' is not MJCF: it begins with <{_short(tag[1].decode())}> instead of <mujoco>")
