"""Labels of frames: what is visible, how much of it, and that they survive as text."""

from __future__ import annotations

from dataclasses import replace

import mujoco
import numpy as np
import pytest

from embodied.errors import IntegrityError
from embodied.facts import all_facts
from embodied.labels import FrameLabel, label_from_json
from embodied.types import BaseFrame, Frame
from robots.labels import FrameLabeller, Origin
from robots.rendering import SceneRenderer
from robots.scene_state import SceneReader

# The camera looks straight down from 2 m with a field of view of 53.13 degrees: at its foot 2 m are 200 pixels high.
SCENE = """
<mujoco>
  <visual><global offwidth="640" offheight="480"/></visual>
  <worldbody>
    <light pos="0 0 5" dir="0 0 -1"/>
    <camera name="top" pos="0 0 2" fovy="53.13010235415598"/>
    <body name="floor" pos="0 0 -0.1"><geom type="box" size="2 2 0.1"/></body>
    <body name="low" pos="0 0 0.0001"><freejoint/>
      <geom name="low" type="box" size="0.2 0.2 0.0001" rgba="0.85 0.1 0.1 1"/></body>
    <body name="lid" pos="0.2 0 0.01"><freejoint/><geom name="lid" type="box" size="0.2 0.3 0.0001"/></body>
    <body name="edge" pos="-1.3 0 0.0001"><freejoint/><geom name="edge" type="box" size="0.1 0.1 0.0001"/></body>
    <body name="gone" pos="3 3 0.1"><freejoint/><geom name="gone" type="box" size="0.1 0.1 0.1"/></body>
    <body name="tray" pos="0 0.7 0.001"><geom name="tray" type="box" size="0.1 0.1 0.001"/>
      <site name="inside" type="box" size="0.1 0.1 0.2" pos="0 0 0.2" rgba="1 1 1 0.05"/></body>
  </worldbody>
</mujoco>
"""
ORIGIN = Origin("table", "fit", 5, 2)


@pytest.fixture(scope="module")
def renderer(model: mujoco.MjModel) -> SceneRenderer:
    return SceneRenderer(model)


@pytest.fixture(scope="module")
def frame(renderer: SceneRenderer, data: mujoco.MjData) -> Frame:
    return renderer.render(data, "top", 266, 200, depth=True)


@pytest.fixture(scope="module")
def label(model: mujoco.MjModel, data: mujoco.MjData, renderer: SceneRenderer, frame: Frame) -> FrameLabel:
    reader = SceneReader(model, BaseFrame((0.1, 0.0, 0.0), 0.4), None)
    return FrameLabeller(model, reader, renderer).label(data, frame, ORIGIN, "top")


def test_what_is_visible(label: FrameLabel) -> None:
    # 0.4 m are 40 pixels; the lid hides the right half of what lies low.
    assert label.entity("low").pixels == pytest.approx(40 * 20, rel=0.06)
    assert label.entity("low").visible_share == pytest.approx(0.5, abs=0.03)
    assert label.entity("low").box_px == pytest.approx((113, 80, 133, 120), abs=1)
    lid = label.entity("lid")
    assert (lid.visible_share, lid.cut) == (1.0, False)
    assert lid.pixels == pytest.approx(40 * 60, rel=0.06)
    assert lid.box_px == pytest.approx((133, 70, 173, 130), abs=1)


def test_what_is_cut_or_not_there(label: FrameLabel) -> None:
    edge, gone = label.entity("edge"), label.entity("gone")
    assert edge.cut
    assert edge.visible_share == 1.0
    assert edge.box_px is not None
    assert edge.box_px[0] == 0
    assert edge.pixels == pytest.approx(13 * 20, rel=0.15)
    assert (gone.pixels, gone.visible_share, gone.box_px, gone.cut) == (0, 0.0, None, False)


def test_positions_colours_and_facts(label: FrameLabel, model: mujoco.MjModel, data: mujoco.MjData) -> None:
    base = BaseFrame((0.1, 0.0, 0.0), 0.4)
    state = SceneReader(model, base, None).read(data)
    assert label.facts == all_facts(state)
    assert label.facts
    low = label.entity("low")
    assert (low.kind, low.colour, low.role) == ("plate", "red", "object")
    np.testing.assert_allclose(low.center_b_m, base.to_base(np.array([0.0, 0.0, 0.0001])), atol=1e-9)
    np.testing.assert_allclose(low.position_m, (0.0, 0.0, 0.0001), atol=1e-9)
    assert low.half_extents_m[0] == pytest.approx(0.2 * (np.cos(0.4) + np.sin(0.4)))
    assert (label.scene_kind, label.split, label.seed, label.view) == ("table", "fit", 5, 2)
    assert (label.robot, label.robot_in_view) == ("none", False)


def test_segmentation_of_some_and_of_all(
    model: mujoco.MjModel, data: mujoco.MjData, renderer: SceneRenderer, frame: Frame
) -> None:
    everything = renderer.segmentation(data, "top", 266, 200)
    assert everything.shape == frame.rgb.shape[:2]
    assert everything[100, 150] == model.geom("lid").id
    alone = renderer.segmentation(data, "top", 266, 200, {model.geom("low").id})
    assert set(np.unique(alone)) == {-1, model.geom("low").id}
    assert (alone >= 0).sum() == pytest.approx(40 * 40, rel=0.06)
    again = renderer.render(data, "top", 266, 200, depth=True)
    np.testing.assert_array_equal(again.rgb, frame.rgb)


def test_the_inside_of_a_zone_is_nothing_to_a_depth_camera(
    model: mujoco.MjModel, data: mujoco.MjData, renderer: SceneRenderer, frame: Frame
) -> None:
    assert renderer.segmentation(data, "top", 266, 200)[30, 133] == model.geom("tray").id
    assert frame.depth_m is not None
    assert frame.depth_m[30, 133] == pytest.approx(2.0 - 0.002, abs=1e-3)


def test_a_label_survives_as_text(label: FrameLabel) -> None:
    text = label.to_json()
    assert "\n" not in text
    assert label_from_json(text) == label
    changed = replace(label, robot="fetch", robot_pixels=7)
    assert label_from_json(changed.to_json()).robot_in_view


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"base":[0,0,0,0],"facts":[],"entities":[{}]}'])
def test_what_is_no_label(text: str) -> None:
    with pytest.raises(IntegrityError, match="no label of a frame"):
        label_from_json(text)
