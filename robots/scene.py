"""Scenes: finding an MJCF file by name or path, and loading it without ever showing a traceback to its author.

`place_arm` and `frame_for_scene` live in `robots.placement` and can be imported from here as well.
"""

from __future__ import annotations

import logging
import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from copy import copy
from dataclasses import replace
from difflib import get_close_matches
from functools import lru_cache
from pathlib import Path

import mujoco
import numpy as np

from embodied.errors import SceneError
from robots.placement import Base, Placement, frame_for_scene, free_bodies, place_arm
from robots.scene_files import MAX_TEXT_BYTES, SceneFile, Sources, read_sources
from robots.scene_trial import try_scene

__all__ = [
    "Placement", "SceneFile", "frame_for_scene", "load_scene", "place_arm", "place_in_scene", "quiet", "resolve_scene",
    "scene_file", "scene_model", "shipped_scenes", "squeeze",
]  # fmt: skip

SCENES = Path(__file__).parent / "assets" / "scenes"
TRIAL_CPU_S = 15
"""Processor time that compiling and settling a scene may take."""
MAX_PICTURE, MAX_SAMPLES = 4096, 16
"""Pixels of a side of pictures and shadow maps, and samples of a pixel."""
TRIAL_WALL_S = 120.0

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


def scene_file(scene: str | Path | SceneFile) -> SceneFile:
    """A scene's file with what it may read besides; a name or path may read its own folder only.

    Raises:
        SceneError: As `resolve_scene`.
    """
    return scene if isinstance(scene, SceneFile) else SceneFile(resolve_scene(scene))


def load_scene(scene: str | Path | SceneFile) -> mujoco.MjSpec:
    """The editable specification of a scene, which is known to compile; nothing in it is fused or discarded.

    A scene that does not come with the software is tried in a process of its own first, once for each of its states.

    Raises:
        SceneError: The scene is unknown, is not MJCF, reads files that it may not, asks for too much, or MuJoCo refuses
            it; the message is one line.
    """
    file = scene_file(scene)
    path = file.path
    _check_file(path)
    sources = read_sources(file)
    problem = "" if path.parent == SCENES else _problem(path, sources.digest)
    if problem:
        raise SceneError(f"scene '{path}' does not load: {squeeze(problem)}")
    silence_log_file()
    try:
        spec = mujoco.MjSpec.from_file(str(path))
        # Fusing would lose the names of furniture, and discarding the colours of things.
        spec.compiler.fusestatic = spec.compiler.discardvisual = False
        _check_assets(spec, sources)
        _name_bodies(spec)
        _bound_pictures(spec)
        with quiet():
            model = spec.compile()
    except SceneError:
        raise
    except Exception as error:  # MuJoCo raises ValueError, FatalError and more for a scene's mistakes
        raise SceneError(f"scene '{path}' does not load: {squeeze(error)}") from None
    if not (np.isfinite(model.body_pos).all() and np.isfinite(model.qpos0).all()):
        raise SceneError(f"scene '{path}' holds positions that are not finite; correct them")
    return spec


@lru_cache(maxsize=64)
def _problem(path: Path, digest: str) -> str:
    """What a trial has against a scene; a scene that was changed has another digest."""
    del digest
    return try_scene(path, TRIAL_CPU_S, TRIAL_WALL_S)


def asset_files(spec: mujoco.MjSpec) -> Iterator[tuple[mujoco.MjsElement, str, str, bool]]:
    """Every element of a spec that names a file, the name, the folder that goes before it, and whether only its last
    part counts; a texture of six sides comes six times."""
    strip, shapes = bool(spec.strippath), (*spec.meshes, *spec.hfields, *spec.skins)
    for elements, key in ((shapes, "meshdir"), (spec.textures, "texturedir")):
        for element in elements:
            # What comes from an attached model keeps that model's folders.
            own = getattr(element, "compiler", None)
            folder = getattr(own, key, "") or getattr(spec, key)
            for name in (element.file, *getattr(element, "cubefiles", ())):
                if name:
                    yield element, name, folder, strip


def _check_assets(spec: mujoco.MjSpec, sources: Sources) -> None:
    """Once more, by what MuJoCo itself has read."""
    for _, name, folder, strip in asset_files(spec):
        sources.asset(name, folder, strip)


def _bound_pictures(spec: mujoco.MjSpec) -> None:
    """Holds what a scene asks of the graphics to what a renderer can give."""
    quality, screen = spec.visual.quality, spec.visual.global_
    quality.shadowsize = min(quality.shadowsize, MAX_PICTURE)
    quality.offsamples = min(quality.offsamples, MAX_SAMPLES)
    screen.offwidth, screen.offheight = min(screen.offwidth, MAX_PICTURE), min(screen.offheight, MAX_PICTURE)


def _name_bodies(spec: mujoco.MjSpec) -> None:
    """Gives bodies without a name one, so that what is said of them can be found in the compiled file."""
    taken, number = {body.name for body in spec.bodies}, 0
    for body in spec.bodies:
        while not body.name:
            number += 1
            if f"unnamed_{number}" not in taken:
                body.name = f"unnamed_{number}"


def scene_model(scene: str | Path | SceneFile) -> mujoco.MjModel:
    """The compiled model of a scene, without a robot.

    Raises:
        SceneError: As `load_scene`.
    """
    file = scene_file(scene)
    _check_file(file.path)
    return copy(_compiled(file, read_sources(file).digest))


@lru_cache(maxsize=1)
def _compiled(file: SceneFile, digest: str) -> mujoco.MjModel:
    """The model of a scene; one is kept, since the same is asked for several times in a row."""
    del digest
    spec = load_scene(file)
    with quiet():
        return spec.compile()


def place_in_scene(scene: str | Path | SceneFile, base: Base | None = None) -> Placement:
    """Where the Fetch arm stands in a scene, judged on it as its file has it.

    Args:
        scene: A shipped scene's name, a path to an MJCF file, or one with what it may read.
        base: As in `place_arm`.

    Raises:
        SceneError: As `load_scene`.
        JobFailed, UserError: As `place_arm`.
    """
    model = scene_model(scene)
    data = mujoco.MjData(model)
    mujoco.mj_forward(model, data)
    placement = place_arm(model, data, base)
    return replace(placement, notes=(*placement.notes, *unused_parts(model)))


def unused_parts(model: mujoco.MjModel) -> tuple[str, ...]:
    """What a scene has that nothing here makes use of, a line each."""
    notes = []
    if model.nu:
        notes.append(f"the scene's own actuators ({model.nu}) get no commands")
    free = set(free_bodies(model))
    jointed = {int(b) for b in model.jnt_bodyid} - free
    hung = sorted({int(model.body_rootid[b]) for b in jointed} - free)
    if hung:
        names = ", ".join(f"'{_short(model.body(b).name, 40)}'" for b in hung[:4])
        more = f" and {len(hung) - 4} more" if len(hung) > 4 else ""
        notes.append(f"what joints move cannot be spoken of: {names}{more}")
    if model.nkey:
        notes.append("the scene's key frames are not used: it begins as its bodies are placed")
    return tuple(notes)


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
        if path.stat().st_size > MAX_TEXT_BYTES:
            raise SceneError(f"'{path}' is larger than {MAX_TEXT_BYTES >> 20} MiB; that is no MJCF scene")
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
