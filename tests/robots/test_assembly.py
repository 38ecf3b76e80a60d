"""The Fetch arm put into scenes of any kind: what the arm brings along, what the scene keeps, and the file of both."""

from __future__ import annotations

import math
import shutil
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

import mujoco
import numpy as np
import pytest

from embodied.errors import SceneError, UserError
from embodied.types import BaseFrame
from robots.assembly import ArmScene, fetch_spec
from robots.base import FETCH, load_gymnasium
from robots.fetch_arm import FetchArm
from robots.placement import FETCH_BASE_M, find_surface
from robots.scene import scene_model

Built = Callable[..., ArmScene]


@pytest.mark.parametrize("yaw", [0.0, 0.61, -2.9, math.pi])
def test_the_base_link_stands_exactly_at_the_placement(built: Built, yaw: float) -> None:
    position = (12.3456789012, -7.6543210987, 0.3210987654)
    scene = built("tabletop_blocks", (position, yaw))
    data = mujoco.MjData(scene.model)
    mujoco.mj_forward(scene.model, data)
    base = data.body("robot0:base_link")
    np.testing.assert_allclose(base.xpos, position, rtol=0, atol=1e-12)
    expected = BaseFrame(yaw_rad=yaw).rotation
    np.testing.assert_allclose(base.xmat.reshape(3, 3), expected, rtol=0, atol=1e-12)
    np.testing.assert_allclose(scene.frame.to_base(base.xpos), FETCH_BASE_M, rtol=0, atol=1e-9)
    arm = FetchArm(scene.model, scene.frame)
    arm.home(data)
    for _ in range(50):
        arm.step(data, np.array([1.0, 1.0, 1.0, 0.0]))
    np.testing.assert_allclose(base.xpos, position, rtol=0, atol=2e-6)


def test_the_attached_arm_has_gymnasiums_constants(built: Built) -> None:
    """Masses, damping, ranges, weld, excludes and actuators survive the attach and the file."""
    gym = load_gymnasium().make("FetchPickAndPlace-v4").unwrapped
    theirs, ours = gym.model, built("desk_unnamed").model
    for i in range(theirs.nbody):
        name = theirs.body(i).name
        if name.startswith("robot0:") and name != "robot0:mocap":
            a, b = theirs.body(i), ours.body(name)
            np.testing.assert_allclose(a.mass, b.mass, rtol=1e-5)
            np.testing.assert_allclose(a.inertia, b.inertia, rtol=1e-5)
            np.testing.assert_allclose(a.ipos, b.ipos, atol=1e-6)
    for i in range(theirs.njnt):
        joint = theirs.joint(i)
        if joint.name.startswith("robot0:"):
            other = ours.joint(joint.name)
            for field in ("range", "axis", "stiffness", "limited", "qpos0", "solimp", "solref", "margin"):
                np.testing.assert_allclose(getattr(joint, field), getattr(other, field), atol=1e-6, err_msg=field)
            np.testing.assert_allclose(joint.damping, other.damping)
            np.testing.assert_allclose(joint.armature, other.armature)
    for i in range(theirs.ngeom):
        geom = theirs.geom(i)
        if geom.name.startswith("robot0:"):
            other = ours.geom(geom.name)
            for field in ("friction", "condim", "margin", "solref", "solimp", "contype", "conaffinity", "rgba"):
                np.testing.assert_allclose(getattr(geom, field), getattr(other, field), atol=1e-6, err_msg=field)
    np.testing.assert_allclose(ours.eq_data, gym.model.eq_data)
    np.testing.assert_allclose(ours.eq_solref, theirs.eq_solref)
    assert ours.nexclude == theirs.nexclude == 3
    assert ours.nmocap == 1
    np.testing.assert_allclose(ours.actuator_gainprm, theirs.actuator_gainprm)
    np.testing.assert_allclose(ours.actuator_ctrlrange, theirs.actuator_ctrlrange)
    gym.close()


SCENE = """<mujoco model='x'>
  <compiler angle='{angle}' inertiafromgeom='{inertia}' {more}/>
  <option timestep='{timestep}' gravity='0 0 -3.7' cone='elliptic' impratio='5' {option}/>
  <worldbody>
    <body name='table' pos='0 0 .2'><geom type='box' size='.25 .35 .2'/></body>
    <body name='cube' pos='0 0 .425' euler='0 0 {turn}'><freejoint/>
      <inertial pos='0 0 0' mass='7' diaginertia='.1 .1 .1'/>
      <geom type='box' size='.025 .025 .025' density='1000'/></body>
    <body name='flap' pos='0 1 .5'><joint name='hinge' limited='true' range='{low} {high}' damping='3'/>
      <geom type='box' size='.1 .02 .1'/></body>
  </worldbody>
  <keyframe><key name='start' qpos='0 0 .5 1 0 0 0 0'/></keyframe>
</mujoco>"""


def scene_file(folder: Path, name: str = "s.xml", **changes: str) -> Path:
    values = {
        "angle": "degree", "turn": "30", "low": "-45", "high": "45", "inertia": "auto", "more": "", "timestep": "0.002",
        "option": "",
    }  # fmt: skip
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_text(SCENE.format(**{**values, **changes}))
    return path


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"angle": "radian", "turn": "0.5235987755982988", "low": "-0.7853981633974483", "high": "0.7853981633974483"},
        {"inertia": "true"},
        {"more": "settotalmass='4'"},
        {"more": "boundmass='5' boundinertia='.5' balanceinertia='true'"},
        {"timestep": "0.004"},
        {"timestep": "0.001"},
        {"more": "eulerseq='zyx' autolimits='false' discardvisual='true'"},
    ],
)
def test_the_scenes_options_and_units_survive(built: Built, changes: dict[str, str], tmp_path: Path) -> None:
    path = scene_file(tmp_path, **changes)
    alone, scene = scene_model(path), built(path)
    both = scene.model
    for option in ("timestep", "gravity", "cone", "impratio", "integrator"):
        np.testing.assert_array_equal(getattr(alone.opt, option), getattr(both.opt, option))
    for name in ("table", "cube", "flap"):
        for field in ("mass", "inertia", "pos", "quat"):
            a, b = getattr(alone.body(name), field), getattr(both.body(name), field)
            np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-9, err_msg=f"{name} {field}")
    np.testing.assert_allclose(alone.joint("hinge").range, both.joint("hinge").range, atol=1e-6)
    plain = fetch_spec().compile()
    for i in range(1, plain.nbody):
        body = plain.body(i)
        np.testing.assert_allclose(both.body(body.name).mass, body.mass, rtol=1e-5, atol=1e-12)
        np.testing.assert_allclose(both.body(body.name).inertia, body.inertia, rtol=1e-5, atol=1e-12)
    arm, data = FetchArm(both, scene.frame), mujoco.MjData(both)
    arm.home(data)
    np.testing.assert_allclose(arm.grip(data), (1.342, 0.749, 0.535), atol=2e-3)


@pytest.mark.parametrize("timestep", ["0.003", "0.05", "0.0025001"])
def test_a_timestep_that_does_not_divide_the_control_period_is_refused(
    built: Built, timestep: str, tmp_path: Path
) -> None:
    scene = built(scene_file(tmp_path, timestep=timestep))
    with pytest.raises(SceneError, match="control period 0.04 s"):
        FetchArm(scene.model, scene.frame)


def test_options_under_which_the_arm_cannot_hold_itself_are_refused(built: Built, tmp_path: Path) -> None:
    scene = built(scene_file(tmp_path, option="integrator='RK4'"))
    with pytest.raises(SceneError, match="Euler integrator") as caught:
        FetchArm(scene.model, scene.frame).home(mujoco.MjData(scene.model))
    assert len(str(caught.value).splitlines()) == 1


def test_meshes_and_textures_travel_along(built: Built, tmp_path: Path) -> None:
    home = tmp_path / "my scene (1)"
    (home / "meshes").mkdir(parents=True)
    (home / "wood work").mkdir()
    (home / "meshes" / "a b.obj").write_text(
        "v 0 0 0\nv .1 0 0\nv 0 .1 0\nv 0 0 .1\nf 1 3 2\nf 1 2 4\nf 2 3 4\nf 1 4 3\n"
    )
    write_png(home / "wood work" / "木.png")
    (home / "part.xml").write_text("<mujoco><asset><mesh name='n' file='a b.obj' scale='2 2 2'/></asset></mujoco>")
    path = home / "s.xml"
    path.write_text(
        "<mujoco><compiler meshdir='meshes' texturedir='wood work'/><include file='part.xml'/>"
        "<asset><mesh file='a b.obj'/><texture name='t' type='2d' file='木.png'/>"
        "<material name='m' texture='t'/></asset>"
        "<worldbody><body name='table' pos='0 0 .2'><geom type='box' size='.25 .35 .2' material='m'/></body>"
        "<body name='x' pos='0 0 .5'><freejoint/><geom type='mesh' mesh='a b'/><geom type='mesh' mesh='n'/></body>"
        "</worldbody></mujoco>",
        encoding="utf-8",
    )
    out = tmp_path / "out & <2> 'it' \"is\" 好"
    scene = built(path, out=out)
    assert scene.path == out / "scene_compiled.xml"
    assert str(tmp_path) not in scene.path.read_text(encoding="utf-8")
    files = [e.get("file") for e in ElementTree.fromstring(scene.xml).iter() if e.get("file")]
    assert len(files) > 15
    assert all(str(file).startswith("assets/") and (out / str(file)).is_file() for file in files)
    shutil.rmtree(home)
    moved = tmp_path / "elsewhere"
    shutil.move(out, moved)
    again = mujoco.MjModel.from_xml_path(str(moved / "scene_compiled.xml"))
    np.testing.assert_array_equal(again.mesh_vert, scene.model.mesh_vert)
    assert again.ntex == 1


def write_png(path: Path) -> None:
    from PIL import Image

    Image.fromarray(np.full((8, 8, 3), (200, 30, 30), dtype=np.uint8)).save(path)


def test_what_is_simulated_is_what_the_file_says(built: Built, tmp_path: Path) -> None:
    scene = built("desk_unnamed", out=tmp_path)
    again = mujoco.MjModel.from_xml_path(str(tmp_path / "scene_compiled.xml"))
    assert scene.path.read_text(encoding="utf-8") == scene.xml
    for field in ("qpos0", "body_pos", "body_quat", "geom_pos", "geom_size", "body_inertia", "eq_data", "dof_damping"):
        np.testing.assert_array_equal(getattr(again, field), getattr(scene.model, field))


def test_bodies_are_written_in_full_precision(built: Built, tmp_path: Path) -> None:
    path = tmp_path / "s.xml"
    path.write_text(
        "<mujoco><worldbody><body name='table' pos='123.456789012345 0 .2' euler='0 0 17'>"
        "<geom type='box' size='.25 .35 .2'/></body>"
        "<body name='b' pos='123.456789012345 .0123456789012 .425'><freejoint/><geom size='.025'/></body>"
        "</worldbody></mujoco>"
    )
    alone, both = scene_model(path), built(path).model
    for name in ("table", "b"):
        np.testing.assert_array_equal(alone.body(name).pos, both.body(name).pos)
        np.testing.assert_allclose(alone.body(name).quat, both.body(name).quat, rtol=0, atol=1e-15)


def test_a_scene_that_uses_the_arms_names_keeps_them(built: Built, tmp_path: Path) -> None:
    path = scene_file(tmp_path)
    path.write_text(
        path.read_text()
        .replace("'cube'", "'robot0:base_link'")
        .replace("'hinge'", "'robot0:slide0'")
        .replace("<worldbody>", "<worldbody><camera name='lidar'/><site name='robot0:grip'/>")
    )
    scene = built(path)
    assert scene.robot.base_body == "robot1:base_link"
    assert scene.model.body("robot0:base_link").dofnum == 6
    arm, data = FetchArm(scene.model, scene.frame, scene.robot), mujoco.MjData(scene.model)
    arm.home(data)
    np.testing.assert_allclose(arm.grip(data), (1.342, 0.749, 0.535), atol=2e-3)
    start = arm.grip(data)
    for _ in range(10):
        arm.step(data, np.array([0.0, 1.0, 0.0, 1.0]))
    assert arm.grip(data)[1] - start[1] > 0.1


def test_a_second_arm_is_refused(built: Built, tmp_path: Path) -> None:
    first = built("tabletop_blocks", out=tmp_path / "first")
    with pytest.raises(SceneError, match="Fetch arm of its own"):
        built(first.path, at=((5.0, 0.0, 0.0), 0.0))


SPECIAL = {
    "frames": "<frame pos='1 2 0' euler='0 0 10'>{t}<frame euler='0 0 5'>{q}</frame></frame>",
    "frame_first": "{t}<frame pos='0 0 .01'>{q}</frame>",
    "replicas": "{t}<replicate count='3' offset='.06 0 0'>{q}</replicate>",
    "unnamed": "<body pos='0 0 .2'><geom type='box' size='.25 .35 .2'/></body>{q}<body pos='3 0 0'><geom size='.1'/>"
    "</body>",
    "cable": "{t}{q}<composite type='cable' prefix='c' curve='s' count='5 1 1' size='.2' offset='0 .1 .6' "
    "initial='free'><geom type='capsule' size='.005'/></composite>",
    "flex": "{t}{q}<flexcomp name='f' type='grid' count='3 3 1' spacing='.05 .05 .05' pos='0 .2 .6' "
    "radius='.005' mass='.1'><edge equality='true'/></flexcomp>",
    "hills": "{t}{q}<geom type='hfield' hfield='h' pos='4 0 0'/>",
}


@pytest.mark.parametrize("name", SPECIAL)
def test_scenes_made_with_more_than_bodies(
    built: Built, name: str, tmp_path: Path, recwarn: pytest.WarningsRecorder
) -> None:
    path = tmp_path / "s.xml"
    content = SPECIAL[name].format(
        t="<body name='table' pos='0 0 .2'><geom type='box' size='.25 .35 .2'/></body>",
        q="<body name='q' pos='-.1 .1 .43'><freejoint/><geom size='.02'/></body>",
    )
    path.write_text(
        "<mujoco><default><geom friction='2 .1 .1'/><default class='robot0:fetch'><geom rgba='1 0 0 1'/></default>"
        "</default>"
        "<asset><hfield name='h' nrow='2' ncol='2' size='1 1 .1 .1' elevation='0 1 0 1'/></asset>"
        f"<worldbody>{content}</worldbody></mujoco>"
    )
    alone, scene = scene_model(path), built(path)
    for i in range(1, alone.nbody):
        if alone.body(i).name:
            np.testing.assert_array_equal(scene.model.body(alone.body(i).name).pos, alone.body(i).pos)
    table = find_surface_geom(scene.model)
    assert scene.model.geom_friction[table, 0] == 2.0, "the scene's defaults hold for the scene ..."
    arms = scene.model.geom(f"{scene.robot.body_prefix}base_link")
    assert (arms.friction[0], arms.margin[0]) == (1.0, 0.001), "... and the arm's for the arm"
    arm, data = FetchArm(scene.model, scene.frame, scene.robot), mujoco.MjData(scene.model)
    arm.home(data)
    np.testing.assert_allclose(arm.grip(data), (1.342, 0.749, 0.535), atol=2e-3)
    assert not list(recwarn)


def find_surface_geom(model: mujoco.MjModel) -> int:
    data = mujoco.MjData(model)
    mujoco.mj_forward(model, data)
    surface = find_surface(model, data)
    assert surface is not None
    return surface.geom


def test_a_scene_with_its_own_mocap_bodies_welds_and_actuators_keeps_them(built: Built, tmp_path: Path) -> None:
    path = tmp_path / "s.xml"
    path.write_text(
        "<mujoco><worldbody><body name='lead' mocap='true' pos='0 2 1'/><body name='table' pos='0 0 .2'>"
        "<geom type='box' size='.25 .35 .2'/></body>"
        "<body name='b' pos='0 0 .425'><freejoint/><geom size='.025'/></body>"
        "<body name='led' pos='0 2 1'><joint name='j' type='slide'/><geom size='.05'/></body></worldbody>"
        "<equality><weld body1='lead' body2='led'/></equality><actuator><motor joint='j'/></actuator></mujoco>"
    )
    scene = built(path)
    arm, data = FetchArm(scene.model, scene.frame, scene.robot), mujoco.MjData(scene.model)
    arm.home(data)
    for _ in range(20):
        arm.step(data, np.array([0.3, -0.5, 0.2, 1.0]))
    np.testing.assert_allclose(data.body("lead").xpos, (0, 2, 1))
    np.testing.assert_allclose(data.body("led").xpos, (0, 2, 1), atol=0.05)
    assert data.ctrl[0] == 0.0
    assert arm.observe(data)[3:5].min() > 0.03, "the fingers are open"


def test_a_folder_that_cannot_be_written_is_a_one_line_mistake(built: Built, tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    with pytest.raises(UserError, match="cannot write") as caught:
        built("tabletop_blocks", out=blocked / "out")
    assert len(str(caught.value).splitlines()) == 1


def test_temporary_files_go_with_the_scene(built: Built) -> None:
    scene = built("tabletop_blocks")
    folder = scene.path.parent
    assert (folder / "assets").is_dir()
    assert scene.folder is not None
    scene.folder.cleanup()
    assert not folder.exists()


def test_the_default_robot_is_the_one_of_the_fetch_tasks(built: Built) -> None:
    assert built("tabletop_blocks").robot == FETCH
