"""A scene and the Fetch arm as one MJCF file, and the model that is simulated compiled from exactly that file.

MuJoCo's writer rounds numbers to six digits. The simulated model is therefore never the one in memory but the one read
back from `scene_compiled.xml`, so that anyone can recompute a run's facts from that file and the saved states.
"""

from __future__ import annotations

import re
import shutil
import tempfile
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import mujoco
import numpy as np

from embodied.errors import SceneError, UserError
from embodied.types import BaseFrame
from robots.base import FETCH, RobotModel
from robots.placement import Placement, frame_of_base
from robots.scene import asset_files, load_scene, quiet, scene_file, squeeze
from robots.scene_files import SceneFile, Sources, read_sources

COMPILED_NAME = "scene_compiled.xml"
ASSETS_NAME = "assets"
DEFAULT_PREFIX = FETCH.body_prefix
INERTIA_AUTO = 2
"""`inertiafromgeom="auto"`: masses and inertias come from the geoms unless they are given."""


@dataclass(frozen=True)
class ArmScene:
    """A scene with an arm in it."""

    model: mujoco.MjModel
    """Compiled from `path`."""
    path: Path
    """`scene_compiled.xml`; meshes and textures lie in `assets/` beside it."""
    xml: str
    """Its text."""
    robot: RobotModel
    frame: BaseFrame
    """Frame B, from the base link as compiled."""
    folder: tempfile.TemporaryDirectory[str] | None
    """The temporary folder that holds the files while this object lives; None where the caller named a folder."""


def build_arm_scene(scene: str | Path | SceneFile, placement: Placement, out_dir: Path | None = None) -> ArmScene:
    """Adds the Fetch arm of Gymnasium-Robotics (with finger actuators) to a scene that has none.

    The scene keeps its timestep, options and names; the arm's names all begin with `robot0:` (another number where the
    scene uses that one). Key frames of the scene are dropped: they have no pose for the arm.

    Args:
        scene: A shipped scene's name or a path to an MJCF file.
        placement: Pose of the arm's base link in the world.
        out_dir: Where `scene_compiled.xml` and `assets/` are written; a temporary folder without it.

    Raises:
        SceneError: The scene does not load, its assets cannot be found, or the two do not go together.
    """
    file = scene_file(scene)
    path, spec = file.path, load_scene(file)
    folder = None if out_dir is not None else tempfile.TemporaryDirectory(prefix="arm_scene_")
    target = Path(folder.name if folder is not None else out_dir).resolve()  # type: ignore[arg-type]
    try:
        with quiet():
            prefix = _prepare(spec)
            arm = fetch_spec(prefix)
            _pose_base(arm, prefix, placement)
            model, text = _joined(spec, read_sources(file), arm, target)
    except UserError:
        raise
    except OSError as error:
        raise SceneError(f"cannot write the scene with its arm to '{target}': {error.strerror or error}") from None
    except Exception as error:  # MuJoCo raises ValueError, FatalError and more
        raise SceneError(f"the arm cannot be added to scene '{path}': {squeeze(error)}") from None
    robot = robot_with_prefix(prefix)
    return ArmScene(model, target / COMPILED_NAME, text, robot, compiled_frame(model, robot), folder)


def build_point_scene(
    scene: str | Path | SceneFile, at_m: tuple[float, float, float], radius_m: float, out_dir: Path | None = None
) -> ArmScene:
    """Adds the ball of Gymnasium-Robotics' point mazes (`assets/point/point.xml`) to a scene.

    Otherwise as `build_arm_scene`.

    Args:
        scene: A shipped scene's name or a path to an MJCF file.
        at_m: The ball's centre in the world; its two joints slide along x and y from there.
        radius_m: Of the ball.
        out_dir: Where the files are written; a temporary folder without it.

    Raises:
        SceneError: The scene does not load, its assets cannot be found, or the ball cannot be added.
    """
    file = scene_file(scene)
    path, spec = file.path, load_scene(file)
    folder = None if out_dir is not None else tempfile.TemporaryDirectory(prefix="point_scene_")
    target = Path(folder.name if folder is not None else out_dir).resolve()  # type: ignore[arg-type]
    try:
        with quiet():
            prefix = _prepare(spec)
            target.mkdir(parents=True, exist_ok=True)
            _copy_assets(spec, read_sources(file), target)
            _add_ball(spec, prefix, at_m, radius_m)
            model, text = _write(spec, target)
    except UserError:
        raise
    except OSError as error:
        raise SceneError(f"cannot write the scene with its robot to '{target}': {error.strerror or error}") from None
    except Exception as error:  # MuJoCo raises ValueError, FatalError and more
        raise SceneError(f"the robot cannot be added to scene '{path}': {squeeze(error)}") from None
    robot = RobotModel(name="point", body_prefix=prefix, base_body=f"{prefix}particle")
    return ArmScene(model, target / COMPILED_NAME, text, robot, BaseFrame(at_m, 0.0), folder)


def _add_ball(spec: mujoco.MjSpec, prefix: str, at_m: tuple[float, float, float], radius_m: float) -> None:
    ball = spec.worldbody.add_body(name=f"{prefix}particle", pos=at_m)
    ball.add_geom(
        name=f"{prefix}ball", type=mujoco.mjtGeom.mjGEOM_SPHERE, size=[radius_m, 0, 0], density=1000.0, margin=0.002,
        condim=1, friction=[0.5, 0.1, 0.1], contype=1, conaffinity=1, rgba=[0.3, 0.6, 0.3, 1.0],
    )  # fmt: skip
    for axis, way in (("x", [1, 0, 0]), ("y", [0, 1, 0])):
        joint = ball.add_joint(
            name=f"{prefix}ball_{axis}", type=mujoco.mjtJoint.mjJNT_SLIDE, axis=way, damping=1.0, limited=False
        )
        motor = spec.add_actuator(
            name=f"{prefix}motor_{axis}", target=joint.name, trntype=mujoco.mjtTrn.mjTRN_JOINT, ctrlrange=[-1.0, 1.0],
            ctrllimited=True,
        )  # fmt: skip
        motor.gear[0] = 100.0


def _prepare(spec: mujoco.MjSpec) -> str:
    """Makes a scene ready to take an arm in; the prefix that the arm's names may have there."""
    _bake_inertias(spec)
    for key in list(spec.keys):
        spec.delete(key)
    return _free_prefix(spec)


def _joined(spec: mujoco.MjSpec, sources: Sources, arm: mujoco.MjSpec, target: Path) -> tuple[mujoco.MjModel, str]:
    """The arm attached to the scene, written with its assets to `target`, and read back."""
    target.mkdir(parents=True, exist_ok=True)
    _copy_assets(spec, sources, target)
    _copy_assets(arm, None, target)
    arm.option.timestep = spec.option.timestep
    spec.attach(arm, frame=spec.worldbody.add_frame(), prefix="")
    return _write(spec, target)


def robot_with_prefix(prefix: str) -> RobotModel:
    """FETCH, with its names beginning with `prefix` instead of `robot0:`."""
    names = {key: getattr(FETCH, key) for key in ("base_body", "left_finger_body", "right_finger_body", "grip_site")}
    renamed = {key: prefix + name.removeprefix(DEFAULT_PREFIX) for key, name in names.items()}
    gripper = tuple(prefix + name.removeprefix(DEFAULT_PREFIX) for name in FETCH.gripper_bodies)
    return replace(FETCH, body_prefix=prefix, gripper_bodies=gripper, **renamed)


def compiled_frame(model: mujoco.MjModel, robot: RobotModel) -> BaseFrame:
    """Frame B from the pose that the base link has in the model."""
    body = model.body(robot.base_body)
    w, _, _, z = body.quat
    x, y, height = (float(v) for v in body.pos)
    return frame_of_base((x, y, height), float(2.0 * np.arctan2(z, w)))


def fetch_spec(prefix: str = DEFAULT_PREFIX) -> mujoco.MjSpec:
    """The arm alone, from the installed Gymnasium-Robotics: its table, object, floor, lights and spare assets removed.

    The weld that lets the mocap body lead the gripper gets the relative pose that Gymnasium sets at start
    (`reset_mocap_welds`), so that it is in the file.
    """
    source = _installed_assets() / "fetch" / "pick_and_place.xml"
    arm = mujoco.MjSpec.from_file(str(source))
    for name in ("table0", "object0", "floor0"):
        arm.delete(arm.body(name))
    arm.delete(arm.geom("floor0"))
    used = {geom.meshname for geom in arm.geoms}
    spare = [*arm.lights, *arm.textures, *arm.body(f"{DEFAULT_PREFIX}mocap").geoms]
    spare += [material for material in arm.materials if not material.name.startswith(DEFAULT_PREFIX)]
    spare += [mesh for mesh in arm.meshes if mesh.name not in used]
    for element in spare:
        arm.delete(element)
    for camera in arm.cameras:
        camera.name = DEFAULT_PREFIX + camera.name
    for mesh in arm.meshes:
        mesh.file = str((source.parent / arm.meshdir / mesh.file).resolve())
    for weld in arm.equalities:
        weld.data = [0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 1]
    if prefix != DEFAULT_PREFIX:
        arm.compile()
        arm = mujoco.MjSpec.from_string(arm.to_xml().replace(DEFAULT_PREFIX, prefix))
    # The writer gives the nested default class this name; an empty one would not be read back.
    arm.default.name = f"{prefix}main"
    return arm


def _installed_assets() -> Path:
    """Gymnasium-Robotics' assets, found without importing it."""
    found = find_spec("gymnasium_robotics")
    if found is None or found.origin is None:
        raise UserError("the Fetch arm needs 'gymnasium-robotics': pip install 'embodied-control[sim]'")
    return Path(found.origin).parent / "envs" / "assets"


def _free_prefix(spec: mujoco.MjSpec) -> str:
    """`robot0:`, or the first numbered one that nothing in the scene is named with.

    Raises:
        SceneError: The scene has a Fetch arm already.
    """
    bodies = {body.name for body in spec.bodies}
    if {*FETCH.gripper_bodies, FETCH.base_body} <= bodies:
        raise SceneError("the scene has a Fetch arm of its own; take it out, or use one of the fetch_* tasks")
    spec.compile()
    text, number = spec.to_xml(), 0
    while f"robot{number}:" in text:
        number += 1
    return f"robot{number}:"


def _pose_base(arm: mujoco.MjSpec, prefix: str, placement: Placement) -> None:
    """Stands the base link at the placement; its slide joints stay at zero."""
    base = arm.body(f"{prefix}base_link")
    base.pos = placement.position_m
    base.quat = [np.cos(placement.yaw_rad / 2), 0.0, 0.0, np.sin(placement.yaw_rad / 2)]


def _bake_inertias(spec: mujoco.MjSpec) -> None:
    """Writes the scene's computed masses into its bodies where its compiler settings would change the arm's as well."""
    compiler = spec.compiler
    plain = compiler.inertiafromgeom == INERTIA_AUTO and compiler.settotalmass <= 0
    plain = plain and compiler.boundmass == 0 and compiler.boundinertia == 0 and not compiler.balanceinertia
    if plain and tuple(compiler.inertiagrouprange) == (0, 5):
        return
    model = spec.compile()
    for body in spec.bodies[1:]:
        body.explicitinertial = True
        body.mass, body.inertia = float(model.body_mass[body.id]), model.body_inertia[body.id]
        body.ipos, body.iquat = model.body_ipos[body.id], model.body_iquat[body.id]
        body.fullinertia = np.full(6, np.nan)
    compiler.inertiafromgeom, compiler.settotalmass = INERTIA_AUTO, -1
    compiler.boundmass = compiler.boundinertia = 0
    compiler.balanceinertia = False
    compiler.inertiagrouprange = [0, 5]


def _copy_assets(spec: mujoco.MjSpec, sources: Sources | None, target: Path) -> None:
    """Copies every file that the spec names into `assets/` and names the copies, by absolute paths for now.

    Files are those that the scene's sources may read; without sources their names are whole paths.
    """
    for element, file, folder, strip in list(asset_files(spec)):
        path = Path(file) if sources is None else sources.asset(file, folder, strip)
        if path is None:
            raise SceneError(f"the scene's file '{squeeze(file, 120)}' is not in its folder; put it there")
        copy = _copied(path, target / ASSETS_NAME)
        element.name = element.name or Path(element.file).stem
        if element.file == file:
            element.file = copy
        for index, side in enumerate(getattr(element, "cubefiles", ())):
            if side == file:
                element.cubefiles[index] = copy
    spec.meshdir = spec.texturedir = ""
    spec.strippath = False


def _copied(source: Path, folder: Path) -> str:
    safe = re.sub(r"[^A-Za-z0-9_.-]", "_", source.name)
    copy, content, number = folder / safe, source.read_bytes(), 0
    while copy.exists() and copy.read_bytes() != content:
        number += 1
        copy = folder / f"{number}_{safe}"
    if not copy.exists():
        folder.mkdir(exist_ok=True)
        shutil.copyfile(source, copy)
    return str(copy)


def _write(spec: mujoco.MjSpec, target: Path) -> tuple[mujoco.MjModel, str]:
    """Writes the compiled spec and returns the model that the file means, with the file's text."""
    model = spec.compile()
    text = _relative(exact_poses(spec.to_xml(), model), target)
    path = target / COMPILED_NAME
    path.write_text(text, encoding="utf-8")
    return mujoco.MjModel.from_xml_path(str(path)), text


def _relative(text: str, target: Path) -> str:
    """The MJCF `text` with the files that lie in `target` named from there."""
    root = ElementTree.fromstring(text)
    for element in root.iter():
        for key, value in element.attrib.items():
            if value.startswith(f"{target}/"):
                element.set(key, value.removeprefix(f"{target}/"))
    return ElementTree.tostring(root, encoding="unicode") + "\n"


def exact_poses(text: str, model: mujoco.MjModel) -> str:
    """The MJCF `text` of a model with every body's position and orientation in full precision.

    The written six digits would move an arm far from the origin by more than a policy's tolerance.
    """
    root = ElementTree.fromstring(text)
    bodies = list(root.find("worldbody").iter("body"))  # type: ignore[union-attr]
    # XML turns line breaks and tabs of an attribute into blanks.
    names = [re.sub(r"[\t\r\n]", " ", model.body(i).name) for i in range(1, model.nbody)]
    # Things in a <frame> are written before what stood before the frame; only their names then say which is which.
    in_order = [body.get("name", "") for body in bodies] == names
    for place, body in enumerate(bodies, start=1):
        if not (in_order or body.get("name")):
            continue
        index = place if in_order else 1 + names.index(body.get("name", ""))
        _set_numbers(body, "pos", model.body_pos[index], (0.0, 0.0, 0.0))
        _set_numbers(body, "quat", model.body_quat[index], (1.0, 0.0, 0.0, 0.0))
    return ElementTree.tostring(root, encoding="unicode") + "\n"


def _set_numbers(element: ElementTree.Element, key: str, values: Any, default: tuple[float, ...]) -> None:
    if key in element.attrib or tuple(values) != default:
        element.set(key, " ".join(repr(float(value)) for value in values))
