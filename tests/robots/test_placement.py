"""Where the arm stands, by the rule, and frame B with and without it."""

from __future__ import annotations

import math

import mujoco
import numpy as np
import pytest

from embodied.errors import JobFailed, UserError
from robots.assembly import fetch_spec
from robots.base import load_gymnasium
from robots.placement import (
    FETCH_BASE_M,
    FETCH_BODY_BOXES,
    SURFACE_FROM_BASE_M,
    Placement,
    find_surface,
    frame_for_scene,
    place_arm,
)
from robots.scene import scene_model

BLOCK = "<body name='block' pos='{x} {y} {z}'><freejoint/><geom type='box' size='.02 .02 .02'/></body>"

FLOOR = "<geom name='floor' type='plane' size='2 2 .1'/>"
LEANING = "<body name='t' pos='0 0 .4' euler='30 0 0'><geom type='box' size='.3 .4 .1'/></body>"


def loaded(xml: str) -> tuple[mujoco.MjModel, mujoco.MjData]:
    model = mujoco.MjModel.from_xml_string(f"<mujoco><worldbody>{xml}</worldbody></mujoco>")
    data = mujoco.MjData(model)
    mujoco.mj_forward(model, data)
    return model, data


def shipped(name: str) -> tuple[mujoco.MjModel, mujoco.MjData]:
    model = scene_model(name)
    data = mujoco.MjData(model)
    mujoco.mj_forward(model, data)
    return model, data


def table(size: str, pos: str = "0 0 .4", euler: str = "0 0 0", block: str | None = None) -> str:
    block = BLOCK.format(x=0, y=0, z=0.9) if block is None else block
    return f"<body name='table' pos='{pos}' euler='{euler}'><geom type='box' size='{size}'/></body>{block}"


def test_tabletop_blocks() -> None:
    placed = place_arm(*shipped("tabletop_blocks"))
    np.testing.assert_allclose(placed.position_m, (0.692, 0.744, 0.0), atol=5e-4)
    assert placed.yaw_rad == pytest.approx(0.0)
    assert placed.notes == ()
    assert placed.surface is not None
    assert placed.surface.name == "table"
    assert placed.surface.height_m == pytest.approx(0.40)
    np.testing.assert_allclose(placed.frame.origin_m, (0, 0, 0), atol=1e-9)


def test_desk_unnamed() -> None:
    placed = place_arm(*shipped("desk_unnamed"))
    np.testing.assert_allclose(placed.position_m, (-0.495, -0.354, 0.32), atol=5e-4)
    assert math.degrees(placed.yaw_rad) == pytest.approx(35.0)
    assert placed.notes == ()


def test_the_surface_lies_from_the_base_as_in_fetch_push() -> None:
    env = load_gymnasium().make("FetchPush-v4").unwrapped
    env.reset(seed=0)
    base = env.data.body("robot0:base_link").xpos
    top = env.data.body("table0").xpos + (0, 0, env.model.geom_size[env.model.body("table0").geomadr[0], 2])
    np.testing.assert_allclose(base, FETCH_BASE_M, atol=1e-6)
    np.testing.assert_allclose(top - base, SURFACE_FROM_BASE_M, atol=1e-6)
    env.close()


@pytest.mark.parametrize("scene", ["tabletop_blocks", "desk_unnamed"])
def test_in_b_the_surface_is_where_fetch_push_has_it(scene: str) -> None:
    placed = place_arm(*shipped(scene))
    assert placed.surface is not None
    np.testing.assert_allclose(placed.frame.to_base(np.array(placed.surface.center)), (1.3, 0.75, 0.4), atol=1e-9)
    np.testing.assert_allclose(placed.frame.to_base(np.array(placed.position_m)), FETCH_BASE_M, atol=1e-9)


@pytest.mark.parametrize(
    ("size", "euler", "yaw_deg"),
    [
        (".25 .40 .4", "0 0 0", 0.0),  # shorter along x: from -x
        (".40 .25 .4", "0 0 0", 90.0),  # shorter along y: both sides tie on x, so from -y
        (".25 .40 .4", "0 0 60", 60.0),
        (".25 .40 .4", "0 0 120", -60.0),  # the side whose normal points more to -x is now the other one
        (".25 .40 .4", "0 0 180", 0.0),
        (".40 .25 .4", "0 0 180", 90.0),
        (".30 .30 .4", "0 0 0", 0.0),  # square: the surface frame's -x side ...
        (".30 .30 .4", "0 0 150", 150.0),  # ... wherever that points
        (".4 .25 .40", "0 90 0", 90.0),  # lying on its side: horizontal extents are y (0.25) and the geom's z (0.40)
    ],
)
def test_the_side_that_it_stands_at(size: str, euler: str, yaw_deg: float) -> None:
    placed = place_arm(*loaded(table(size, euler=euler)))
    assert math.remainder(math.degrees(placed.yaw_rad) - yaw_deg, 360.0) == pytest.approx(0.0, abs=1e-6)
    np.testing.assert_allclose(placed.frame.to_base(np.array([0, 0, 0.8])), (1.3, 0.75, 0.4), atol=1e-9)


def test_a_round_table_is_approached_from_its_frames_minus_x() -> None:
    xml = "<body name='t' pos='1 2 .35' euler='0 0 20'><geom type='cylinder' size='.3 .35'/></body>"
    placed = place_arm(*loaded(xml + BLOCK.format(x=1, y=2, z=0.75)))
    assert math.degrees(placed.yaw_rad) == pytest.approx(20.0)
    assert placed.position_m[2] == pytest.approx(0.30)


def test_most_rays_decide_and_what_lies_between_does_not_count() -> None:
    xml = (
        "<geom name='floor' type='plane' size='3 3 .1'/>"
        "<body name='small' pos='2 0 .2'><geom type='box' size='.1 .1 .2'/></body>"
        "<body name='big' pos='0 0 .2'><geom type='box' size='.25 .4 .2'/></body>"
        "<body name='ghost' pos='0 0 .8'><geom type='box' size='.5 .5 .01' contype='0' conaffinity='0'/></body>"
        "<body name='a' pos='2 0 .45'><freejoint/><geom size='.02'/></body>"
        "<body name='b' pos='0 0 .45'><freejoint/><geom type='box' size='.02 .02 .02'/></body>"
        "<body name='c' pos='0 0 .49'><freejoint/><geom type='box' size='.02 .02 .02'/></body>"
        "<body name='d' pos='0 -1 .05'><freejoint/><geom size='.02'/></body>"
    )
    surface = find_surface(*loaded(xml))
    assert surface is not None
    assert surface.name == "big"


def test_a_tray_is_not_the_surface_but_a_table_with_a_site_is() -> None:
    xml = (
        "<body name='t' pos='0 0 .2'><geom type='box' size='.25 .4 .2'/><site name='middle'/></body>"
        "<body name='tray' pos='0 0 .401'><geom type='box' size='.07 .07 .002'/><site name='in'/></body>"
    )
    surface = find_surface(*loaded("<geom type='plane' size='2 2 .1'/>" + xml + BLOCK.format(x=0, y=0, z=0.425)))
    assert surface is not None
    assert surface.name == "t"


@pytest.mark.parametrize(
    ("xml", "words"),
    [
        (
            FLOOR + "<body name='t' pos='0 0 .4'><geom type='box' size='.2 .3 .4'/></body>",
            "no body of the scene has a free joint",
        ),
        (BLOCK.format(x=0, y=0, z=1), "lies no level top"),
        (FLOOR + BLOCK.format(x=0, y=0, z=0.02), "plane 'floor'"),
        (LEANING + BLOCK.format(x=0, y=0, z=1), "lies no level top"),
    ],
)
def test_where_there_is_nothing_to_stand_before(xml: str, words: str) -> None:
    with pytest.raises(JobFailed, match=words) as caught:
        place_arm(*loaded(xml))
    assert caught.value.reason == "unreachable"
    assert len(str(caught.value).splitlines()) == 1


def test_rooms_has_no_surface_and_its_frame_is_the_start() -> None:
    model, data = shipped("rooms")
    with pytest.raises(JobFailed) as caught:
        place_arm(model, data)
    assert caught.value.reason == "unreachable"
    frame = frame_for_scene(model, data)
    np.testing.assert_allclose(frame.origin_m, (-3.5, -3.0, 0.1), atol=1e-12)
    assert frame.yaw_rad == 0.0


def test_the_frame_without_robot_is_that_of_the_placed_arm_else_the_world() -> None:
    for scene in ("tabletop_blocks", "desk_unnamed"):
        model, data = shipped(scene)
        assert frame_for_scene(model, data) == place_arm(model, data).frame
        assert frame_for_scene(model, data, (1, 2, 3, 40)) == place_arm(model, data, (1, 2, 3, 40)).frame
    frame = frame_for_scene(*loaded("<geom size='.1'/>"))
    assert (frame.origin_m, frame.yaw_rad) == ((0.0, 0.0, 0.0), 0.0)


def test_a_base_by_hand_is_taken_as_it_is() -> None:
    placed = place_arm(*shipped("desk_unnamed"), (-0.5, 1.0, 0.1, 270.0))
    assert placed.position_m == (-0.5, 1.0, 0.1)
    assert math.degrees(placed.yaw_rad) == pytest.approx(-90.0)
    assert "stands in" in place_arm(*shipped("desk_unnamed"), (0.0, 0.0, 0.0, 0.0)).notes[0]
    rooms = place_arm(*shipped("rooms"), (-3.5, -3.0, 0.0, 0.0))
    assert rooms.surface is None


@pytest.mark.parametrize("base", [(1, 2, 3), (1, 2, 3, math.nan), (math.inf, 0, 0, 0), (1e9, 0, 0, 0), ()])
def test_a_base_that_is_none_is_refused(base: tuple[float, ...]) -> None:
    with pytest.raises(UserError, match="base must be four finite numbers"):
        place_arm(*shipped("tabletop_blocks"), base)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "furniture",
    [
        "<geom name='f' type='box' pos='-.45 0 .3' size='.05 .3 .3'/>",
        "<geom name='f' type='cylinder' pos='-.40 .1 .3' size='.05 .3'/>",
        "<geom name='f' type='capsule' pos='-.40 -.1 .3' size='.05 .3'/>",
        "<geom name='f' pos='-.40 0 .6' size='.06'/>",
        "<geom name='f' type='ellipsoid' pos='-.40 0 .6' size='.06 .05 .04'/>",
        "<geom name='f' type='box' pos='-.45 0 1.42' size='.02 .5 .05'/>",
    ],
)
def test_furniture_pushes_the_base_back_and_is_named(furniture: str) -> None:
    free = place_arm(*loaded(table(".25 .4 .4")))
    model, data = loaded(table(".25 .4 .4") + furniture)
    pushed = place_arm(model, data)
    assert "pushed back" in pushed.notes[0]
    assert "'f'" in pushed.notes[0]
    assert pushed.yaw_rad == free.yaw_rad
    assert pushed.position_m[0] < free.position_m[0] - 0.005
    assert pushed.position_m[1:] == pytest.approx(free.position_m[1:])
    assert not touching_furniture(model, pushed)


def test_a_deep_table_pushes_the_base_back_from_its_own_edge() -> None:
    pushed = place_arm(*loaded(table(".45 .6 .4")))
    assert "'table'" in pushed.notes[0]
    assert pushed.position_m[0] < -0.45 - 0.28


def test_a_wall_right_behind_the_table_is_unreachable_and_named() -> None:
    wall = "<geom name='wall' type='box' pos='-.9 0 1' size='.6 3 1'/>"
    with pytest.raises(JobFailed, match="'wall'") as caught:
        place_arm(*loaded(table(".25 .4 .4") + wall))
    assert caught.value.reason == "unreachable"
    # The frame is still that of the rule, so that left and right mean something.
    assert frame_for_scene(*loaded(table(".25 .4 .4") + wall)) == frame_for_scene(*loaded(table(".25 .4 .4")))


def test_what_stands_elsewhere_or_does_not_collide_is_not_in_the_way() -> None:
    for geom in (
        "<geom name='f' type='box' pos='-.45 0 .3' size='.05 .3 .3' contype='0' conaffinity='0'/>",
        "<geom name='f' type='box' pos='-1.2 0 .3' size='.05 .3 .3'/>",
        "<geom name='f' type='plane' size='3 3 .1'/>",
    ):
        assert place_arm(*loaded(table(".25 .4 .4") + geom)).notes == ()


def test_a_base_that_sinks_into_the_floor_is_told() -> None:
    low = FLOOR + table(".25 .4 .1", pos="0 0 .1", block=BLOCK.format(x=0, y=0, z=0.22))
    placed = place_arm(*loaded(low))
    assert placed.position_m[2] == pytest.approx(-0.2)
    assert placed.notes == ("the base stands 0.20 m under the plane 'floor'",)


def test_the_boxes_hold_the_robots_meshes() -> None:
    model = fetch_spec().compile()
    data = mujoco.MjData(model)
    mujoco.mj_kinematics(model, data)
    base = data.body("robot0:base_link").xpos
    links = ("base_link", "torso_lift_link", "torso_fixed_link", "head_pan_link", "head_tilt_link")
    boxes = np.array(FETCH_BODY_BOXES)
    low, high = boxes[:, 0::2], boxes[:, 1::2]
    for link in links:
        geom = model.geom(f"robot0:{link}").id
        mesh = model.geom_dataid[geom]
        start = model.mesh_vertadr[mesh]
        points = model.mesh_vert[start : start + model.mesh_vertnum[mesh]] @ data.geom_xmat[geom].reshape(3, 3).T
        points = points + data.geom_xpos[geom] - base
        points = points[points[:, 2] > 0.015]
        held = ((points[:, None] >= low - 0.005) & (points[:, None] <= high + 0.005)).all(axis=-1).any(axis=-1)
        assert held.all(), (link, points[~held][:3])


def touching_furniture(model: mujoco.MjModel, placed: Placement) -> bool:
    """Whether base, torso or head of a real arm at this placement touch the geom `f`."""
    spec, arm = mujoco.MjSpec(), fetch_spec()
    geom = model.geom("f").id
    spec.worldbody.add_geom(
        name="f", type=mujoco.mjtGeom(int(model.geom_type[geom])), size=model.geom_size[geom], pos=model.geom_pos[geom]
    )
    base = arm.body("robot0:base_link")
    base.pos = placed.position_m
    base.quat = [math.cos(placed.yaw_rad / 2), 0, 0, math.sin(placed.yaw_rad / 2)]
    spec.attach(arm, frame=spec.worldbody.add_frame(), prefix="")
    combined = spec.compile()
    data = mujoco.MjData(combined)
    mujoco.mj_forward(combined, data)
    furniture = combined.geom("f").id
    return any(furniture in pair for pair in data.contact.geom.tolist())


def test_a_scene_far_from_the_origin() -> None:
    block = BLOCK.format(x=123.456, y=-78.9, z=0.9)
    placed = place_arm(*loaded(table(".25 .4 .4", pos="123.456 -78.9 .4", euler="0 0 10", block=block)))
    np.testing.assert_allclose(placed.frame.to_base(np.array([123.456, -78.9, 0.8])), (1.3, 0.75, 0.4), atol=1e-9)


MESH = (
    "<mujoco><asset><mesh name='m' vertex='{vertices}'/></asset><worldbody>"
    "<body name='t' pos='1 2 .4' euler='0 0 {turn}'><geom type='mesh' mesh='m'/></body>"
    "<body name='block' pos='1 2 .83'><freejoint/><geom type='box' size='.02 .02 .02'/></body></worldbody></mujoco>"
)
CORNERS = [(x, y, z) for x in (-0.3, 0.3) for y in (-0.45, 0.45) for z in (-0.4, 0.4)]


def of_mesh(corners: list[tuple[float, float, float]], turn: float) -> tuple[mujoco.MjModel, mujoco.MjData]:
    vertices = " ".join(str(v) for corner in corners for v in corner)
    model = mujoco.MjModel.from_xml_string(MESH.format(vertices=vertices, turn=turn))
    data = mujoco.MjData(model)
    mujoco.mj_forward(model, data)
    return model, data


@pytest.mark.parametrize("turn", [0.0, 33.0, -100.0])
def test_a_table_that_is_a_mesh_is_one_as_a_box_is(turn: float) -> None:
    box = f"<body name='t' pos='1 2 .4' euler='0 0 {turn}'><geom type='box' size='.3 .45 .4'/></body>"
    expected = place_arm(*loaded(box + BLOCK.format(x=1, y=2, z=0.83)))
    placed = place_arm(*of_mesh(CORNERS, turn))
    np.testing.assert_allclose(placed.position_m, expected.position_m, atol=1e-4)
    assert placed.yaw_rad == pytest.approx(expected.yaw_rad, abs=1e-4)
    assert placed.surface is not None
    assert sorted(placed.surface.half_extents) == pytest.approx([0.3, 0.45], abs=1e-4)
    assert placed.surface.height_m == pytest.approx(0.8, abs=1e-4)


def test_a_mesh_without_a_level_top_is_no_table() -> None:
    roof = [(x, y, z) for x, y, z in CORNERS if z < 0] + [(0.0, -0.45, 0.4), (0.0, 0.45, 0.4)]
    spire = [(x, y, z) for x, y, z in CORNERS if z < 0] + [(x / 9, y / 9, 0.4) for x, y, z in CORNERS if z > 0]
    for corners in (roof, spire):
        assert find_surface(*of_mesh(corners, 0.0)) is None


def test_a_round_mesh_is_a_table() -> None:
    turns = np.linspace(0, 2 * np.pi, 25)[:-1]
    corners = [(0.4 * float(np.cos(t)), 0.4 * float(np.sin(t)), z) for t in turns for z in (-0.4, 0.4)]
    surface = find_surface(*of_mesh(corners, 0.0))
    assert surface is not None
    assert surface.half_extents == pytest.approx((0.4, 0.4), abs=0.01)
    assert surface.center == pytest.approx((1.0, 2.0, 0.8), abs=1e-4)
