"""Locating things: held against the truth of rendered scenes, and asked what cannot be answered."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import mujoco
import numpy as np
import pytest
from embodied_launch import api

from embodied.types import BaseFrame, Frame
from robots.scene_maker import make_scene
from vlm_describer.locate import locate
from vlm_describer.located import COLOUR_STATISTICS, SHAPES
from vlm_describer.relations import geometric_kind

sys.path.insert(0, str(Path(__file__).parent))
from located_truth import CONFIG, Shot, TableScene, Tally, count, match, quantised, shots_of, stacked, table_scenes

SEEDS = (2, 4, 6, 7)


@pytest.fixture(scope="module")
def shots() -> list[Shot]:
    taken = []
    for seed in SEEDS:
        for number, scene in table_scenes(range(seed, seed + 1)):
            taken += list(shots_of(scene, number))
    return taken


@pytest.fixture(scope="module")
def shipped() -> dict[tuple[str, str], Shot]:
    views = {}
    for name, camera in (("tabletop_blocks", "front"), ("desk_unnamed", "cam0"), ("rooms", "top")):
        with api.open_scene(name) as scene:
            frame = scene.render(camera, width=320, height=240, depth=True)
            views[name, camera] = Shot(frame, scene.scene_state(), {})
    return views


@pytest.fixture(scope="module")
def pile() -> Iterator[Shot]:
    scene = TableScene(stacked(make_scene(11, 3, 1, CONFIG)), 0.5)
    yield scene.shot(30.0, 40.0, 1.3)
    scene.close()


def test_made_tables(shots: list[Shot]) -> None:
    tally = Tally()
    for shot in shots:
        count(shot, tally)
    assert tally.recall >= 0.97, tally.missed
    assert tally.precision >= 0.97, tally.false
    assert np.median(tally.errors) <= 0.005
    assert np.quantile(tally.errors, 0.95) <= 0.015
    assert np.quantile(tally.extents, 0.95) <= 0.01
    right = {("block", "box"), ("cylinder", "cylinder"), ("ball", "ball"), ("disc", "cylinder"), ("tray", "box")}
    assert np.mean([kind in right for kind in tally.kinds]) >= 0.95
    assert ("ball", "ball") in tally.kinds
    # 7.81 is the 95 % point of chi-square with three degrees of freedom.
    assert np.mean(np.array(tally.nees) < 7.81) >= 0.9


def test_whole_millimetres_do_not_matter(shots: list[Shot]) -> None:
    tally = Tally()
    for shot in shots[::2]:
        count(quantised(shot), tally)
    assert min(tally.recall, tally.precision) >= 0.97
    assert np.quantile(tally.errors, 0.95) <= 0.015


@pytest.mark.parametrize("name", ["tabletop_blocks", "desk_unnamed"])
def test_shipped_tables(shipped: dict[tuple[str, str], Shot], name: str) -> None:
    shot = next(shot for (scene, _), shot in shipped.items() if scene == name)
    located = locate(shot.frame, shot.state.frame)
    found = match(located, shot.state)
    wanted = {e.id: e.kind for e in shot.state.entities if e.role in ("object", "zone")}
    assert {entity: geometric_kind(item)[0] for entity, item in found.items()} == wanted
    assert len(located.items) == len(wanted)
    work = located.surfaces[0]
    assert (work.role, located.surfaces[1].role) == ("work", "floor")
    assert work.height_m + shot.state.frame.origin_m[2] == pytest.approx(shot.state.surface_height_m, abs=0.002)
    table = next(e for e in shot.state.entities if e.role == "landmark")
    np.testing.assert_allclose(work.center_b_m[:2], table.center_b_m[:2], atol=0.01)
    np.testing.assert_allclose(work.half_extents_m[:2], table.half_extents_m[:2], atol=0.01)


def test_rooms_from_above(shipped: dict[tuple[str, str], Shot]) -> None:
    shot = shipped["rooms", "top"]
    located = locate(shot.frame, shot.state.frame)
    assert located.map_view
    pillars = [item for item in located.items if geometric_kind(item)[0] == "pillar"]
    truth = [e.position_m for e in shot.state.entities if e.kind == "pillar"]
    assert len(pillars) == len(truth) == 4
    for place in truth:
        assert min(np.linalg.norm(np.subtract(p.position_m, place)) for p in pillars) < 0.05
    assert [geometric_kind(i)[0] for i in located.items if i not in pillars] == ["wall"]


def test_a_pile_is_told_apart(pile: Shot) -> None:
    located = locate(pile.frame, pile.state.frame)
    found = match(located, pile.state)
    below, above, inner = (e.id for e in pile.state.entities if e.role == "object")
    zone = next(e.id for e in pile.state.entities if e.role == "zone")
    assert found[above].rests_on == found[below].id
    assert found[inner].rests_on == found[zone].id
    assert found[below].rests_on == "surface0"
    assert found[zone].flat
    assert not any(found[each].flat for each in (below, above, inner))


def test_without_a_pose_answers_are_in_the_cameras_frame(pile: Shot) -> None:
    placed = locate(pile.frame)
    unplaced = locate(replace(pile.frame, world_from_camera=None))
    assert (placed.frame, unplaced.frame) == ("world", "camera")
    pose = np.asarray(pile.frame.world_from_camera)
    assert len(placed.items) == len(unplaced.items) > 2
    for one, other in zip(placed.items, unplaced.items, strict=True):
        seen = (np.array(one.position_m) - pose[:3, 3]) @ pose[:3, :3]
        np.testing.assert_allclose(other.position_m, seen, atol=0.003)
        np.testing.assert_allclose(np.array(other.size_m), one.size_m, atol=0.003)


def test_the_base_turns_extents_and_not_places(pile: Shot) -> None:
    straight, turned = locate(pile.frame), locate(pile.frame, BaseFrame((0.3, -0.2, 0.1), np.pi / 2))
    for one, other in zip(straight.items, turned.items, strict=True):
        np.testing.assert_allclose(one.position_m, other.position_m, atol=0.004)
        np.testing.assert_allclose(one.half_extents_m, np.array(other.half_extents_m)[[1, 0, 2]], atol=0.004)


def test_larger_pictures_say_the_same() -> None:
    with api.open_scene("tabletop_blocks") as scene:
        small, large = (scene.render("front", width=w, height=w * 3 // 4, depth=True) for w in (320, 640))
    one, other = locate(small), locate(large)
    assert len(one.items) == len(other.items)
    assert other.items[0].mask.shape == (480, 640)
    for item in one.items:
        assert min(np.linalg.norm(np.subtract(item.position_m, i.position_m)) for i in other.items) < 0.004


def test_features_are_plain_numbers(pile: Shot) -> None:
    for item in locate(pile.frame).items:
        assert item.colour_features.shape == (len(COLOUR_STATISTICS),)
        assert set(item.shape_scores) == set(SHAPES)
        values = np.array([*item.colour_features, *item.shape_scores.values(), item.confidence, *item.colour])
        assert (values >= 0.0).all()
        assert (values <= 1.0 + 1e-6).all()
        assert np.linalg.eigvalsh(item.covariance_m2).min() > 0.0
        left, top, right, bottom = item.box_px
        assert item.mask[top : bottom + 1, left : right + 1].sum() == item.pixels == item.mask.sum()


def test_a_robots_arm_is_one_item() -> None:
    from robots.tabletop import TabletopEnv

    env = TabletopEnv("tabletop_blocks")
    env.reset(0)
    located = locate(env.render("front", 320, 240, depth=True), env.scene_state().frame)
    env.close()
    robots = [item for item in located.items if item.role_hint == "robot-like"]
    assert len(robots) == 1
    assert robots[0].pixels > 3000
    assert sorted(geometric_kind(i)[0] for i in located.items if i not in robots) == ["block"] * 3 + ["tray"] * 2


TEXTURED = """<mujoco><visual><headlight ambient="0.2 0.2 0.2" diffuse="0.1 0.1 0.1"/></visual>
<asset><texture name="t" type="2d" builtin="checker" rgb1="0.9 0.9 0.8" rgb2="0.2 0.1 0.1" width="64" height="64"/>
  <material name="m" texture="t" texrepeat="6 6"/></asset>
<worldbody><light pos="0.8 -0.6 1.6" dir="-0.5 0.4 -1" castshadow="true"/>
<geom type="plane" size="3 3 0.1" material="m"/>
<geom type="box" size="0.4 0.3 0.25" pos="0 0 0.25" material="m"/>{things}
<camera name="view" pos="0.2 -1.0 1.3" xyaxes="1 0 0 0 0.62 0.78"/></worldbody></mujoco>"""
THING = '<geom type="cylinder" size="0.03 0.05" pos="0.1 0.05 0.55" rgba="0.9 0.9 0.9 1"/>'


def test_shadows_and_textures_are_no_things() -> None:
    assert (locate(_picture(TEXTURED.format(things=""))).items, len(located_surfaces(TEXTURED))) == ((), 2)
    one = locate(_picture(TEXTURED.format(things=THING)))
    assert [geometric_kind(item)[0] for item in one.items] == ["cylinder"]
    np.testing.assert_allclose(one.items[0].position_m, (0.1, 0.05, 0.55), atol=0.004)
    assert locate(_picture(TEXTURED.format(things=""))).reason == "the surface is empty"


RIMMED = """<mujoco><visual><quality shadowsize="0"/></visual><worldbody><light pos="0 0 3" diffuse="0.6 0.6 0.6"/>
<geom type="box" size="0.5 0.4 0.2" pos="0 0 0.2" rgba="0.6 0.5 0.4 1"/>
<geom type="plane" size="4 4 0.1" rgba="0.4 0.4 0.4 1"/>
<body pos="0 0 0.4"><geom type="box" size="0.07 0.07 0.0015" pos="0 0 0.0015" rgba="0.9 0.1 0.8 1"/>
<geom type="box" size="0.004 0.07 0.007" pos="0.066 0 0.007" rgba="0.9 0.1 0.8 1"/>
<geom type="box" size="0.004 0.07 0.007" pos="-0.066 0 0.007" rgba="0.9 0.1 0.8 1"/>
<geom type="box" size="0.07 0.004 0.007" pos="0 0.066 0.007" rgba="0.9 0.1 0.8 1"/>
<geom type="box" size="0.07 0.004 0.007" pos="0 -0.066 0.007" rgba="0.9 0.1 0.8 1"/>{thing}</body>
<camera name="view" pos="0 -1.0 0.75" xyaxes="1 0 0 0 0.33 0.94" fovy="40"/></worldbody></mujoco>"""
IN_IT = '<geom type="box" size="0.02 0.02 0.02" pos="0.02 0 0.02" rgba="0.1 0.2 0.9 1"/>'


@pytest.mark.parametrize("thing", ["", IN_IT])
def test_a_tray_seen_from_low_is_one_item_whatever_stands_in_it(thing: str) -> None:
    located = locate(_picture(RIMMED.format(thing=thing)))
    (tray,) = [item for item in located.items if item.flat]
    assert len(located.items) == 1 + bool(thing)
    np.testing.assert_allclose(tray.position_m[:2], (0.0, 0.0), atol=0.01)


def located_surfaces(scene: str) -> tuple[object, ...]:
    return locate(_picture(scene.format(things=""))).surfaces


def test_what_cannot_be_answered_has_a_reason(pile: Shot) -> None:
    frame, shape = pile.frame, np.asarray(pile.frame.depth_m).shape
    wild = np.random.default_rng(0).uniform(0.5, 3.0, shape).astype(np.float32)
    upright = np.full(shape, 1.0, np.float32)
    for depth, words in (
        (None, "no depth"),
        (np.zeros(shape, np.float32), "no depth readings"),
        (np.full(shape, np.nan, np.float32), "no depth readings"),
        (wild, "no horizontal surface"),
        (upright, "no horizontal surface"),
    ):
        located = locate(replace(frame, depth_m=depth))
        assert located.items == ()
        assert words in located.reason
    assert locate(replace(frame, intrinsics=None)).reason.startswith("where anything is: there are no intrinsics")


def test_a_black_picture_is_placed_by_depth_alone(pile: Shot) -> None:
    dark = locate(replace(pile.frame, rgb=np.zeros_like(pile.frame.rgb)), pile.state.frame)
    zone = next(e.id for e in pile.state.entities if e.role == "zone")
    assert zone in match(dark, pile.state)
    assert np.isfinite([item.covariance_m2 for item in dark.items]).all()


@pytest.mark.parametrize("shape", [(1, 1), (2, 3), (7, 9), (20, 30)])
def test_tiny_pictures_do_not_break_it(shape: tuple[int, int]) -> None:
    lens = np.array([[shape[1], 0, 0], [0, shape[1], 0], [0, 0, 1.0]])
    rgb, depth = np.zeros((*shape, 3), np.uint8), np.ones(shape, np.float32)
    located = locate(Frame(rgb, "tiny", depth_m=depth, intrinsics=lens))
    assert (located.items, bool(located.reason)) == ((), True)


def test_holes_in_the_depth_do_not_break_it(pile: Shot) -> None:
    depth = np.array(pile.frame.depth_m)
    depth[np.random.default_rng(1).random(depth.shape) < 0.05] = np.nan
    tally = Tally()
    count(replace(pile, frame=replace(pile.frame, depth_m=depth)), tally)
    assert tally.missed == []
    assert max(tally.errors) < 0.01


def _picture(scene: str) -> Frame:
    from robots.rendering import SceneRenderer

    model = mujoco.MjModel.from_xml_string(scene)
    data = mujoco.MjData(model)
    mujoco.mj_forward(model, data)
    renderer = SceneRenderer(model)
    frame = renderer.render(data, "view", 320, 240, depth=True)
    renderer.close()
    return frame
