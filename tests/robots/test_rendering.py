"""Pictures: backends, sizes, geometry of the camera, and which camera is taken."""

from __future__ import annotations

import ctypes.util
import os
import subprocess
import sys
from ast import literal_eval

import mujoco
import numpy as np
import pytest

from embodied.errors import UserError
from robots import rendering
from robots.cameras import choose_camera, default_camera, resolve_camera, scene_cameras
from robots.rendering import RenderError, SceneRenderer, choose_backend

SCENE = """
<mujoco>
  <worldbody>
    <light pos="0 0 5" dir="0 0 -1"/>
    <geom name="floor" type="plane" size="5 5 0.1" rgba="0.3 0.3 0.3 1"/>
    <geom name="table" type="box" size="0.3 0.4 0.2" pos="1 0.5 0.2" rgba="0.8 0.8 0.8 1"/>
    <body name="ball" pos="1.1 0.3 0.43"><freejoint/><geom type="sphere" size="0.03" rgba="1 0 0 1"/></body>
    <camera name="oblique" pos="2.4 -0.2 1.3" xyaxes="0.4 1 0 -0.5 0.2 0.8" fovy="45"/>
    <camera name="lens" pos="1 0.5 2" xyaxes="0 1 0 -1 0 0" resolution="320 240" sensorsize="0.004 0.003"
            focal="0.003 0.003" principal="0.0002 0.0001"/>
    <body name="robot0:base_link"><geom size="0.1" pos="0 0 0.1"/><camera name="eye" pos="0 0 1"/></body>
  </worldbody>
</mujoco>
"""


def in_fresh_process(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    kept = {k: v for k, v in os.environ.items() if k not in ("MUJOCO_GL", "PYOPENGL_PLATFORM", "MUJOCO_EGL_DEVICE_ID")}
    command = [sys.executable, "-c", code]
    return subprocess.run(
        command, env={**kept, **environment}, capture_output=True, text=True, timeout=120, check=False
    )


MANY_SIZES = f"""
import mujoco, hashlib
from robots.rendering import SceneRenderer
digests = []
for scale in ("0.3 0.4", "0.2 0.2"):
    model = mujoco.MjModel.from_xml_string('''{SCENE}'''.replace("0.3 0.4", scale))
    data = mujoco.MjData(model)
    mujoco.mj_forward(model, data)
    renderer = SceneRenderer(model)
    for width, height in ((64, 48), (200, 100), (900, 700), (64, 48)):
        rgb = renderer.render(data, "oblique", width, height, depth=True).rgb
        digests.append((width, round(float(rgb.mean()), 1), round(float(rgb[..., 0].std()), 1)))
    assert digests[-1] == digests[-4], digests
print(digests)
"""


def test_backends_agree_at_every_size_and_with_two_models() -> None:
    if ctypes.util.find_library("OSMesa") is None:
        pytest.skip("OSMesa is not installed")
    software = in_fresh_process(MANY_SIZES, MUJOCO_GL="osmesa")
    automatic = in_fresh_process(MANY_SIZES)
    assert software.returncode == automatic.returncode == 0, software.stderr + automatic.stderr
    assert software.stderr == automatic.stderr == ""
    for ours, theirs in zip(literal_eval(software.stdout), literal_eval(automatic.stdout), strict=True):
        np.testing.assert_allclose(ours, theirs, atol=0.5)


def test_set_variable_is_respected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rendering, "_works", lambda backend: pytest.fail("nothing should be tried"))
    monkeypatch.setenv("MUJOCO_GL", "OSMesa")
    assert choose_backend() == "osmesa"


def test_osmesa_where_egl_does_not_work(monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[str] = []
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr(rendering, "_works", lambda backend: tried.append(backend) or backend == "osmesa")
    monkeypatch.setenv("MUJOCO_GL", "")
    assert choose_backend() == "osmesa"
    assert os.environ["MUJOCO_GL"] == "osmesa"
    assert choose_backend() == "osmesa"
    assert tried == ["egl", "osmesa"]


def test_neither_works_is_one_line_with_the_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr(rendering, "_works", lambda backend: False)
    monkeypatch.setenv("MUJOCO_GL", "")
    with pytest.raises(RenderError, match="libegl1 libgl1.*libosmesa6") as caught:
        choose_backend()
    assert "\n" not in str(caught.value)


def test_probe_tells_what_works() -> None:
    assert not rendering._works("no_such_backend")
    assert rendering._works("egl") or rendering._works("osmesa")


def test_switched_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MUJOCO_GL", "off")
    with pytest.raises(RenderError, match="switched off by MUJOCO_GL=off"):
        choose_backend()


def test_a_backend_that_fails_is_one_line() -> None:
    code = (
        "import mujoco\nfrom robots.rendering import *\nm = mujoco.MjModel.from_xml_string('<mujoco/>')\n"
        "try:\n    SceneRenderer(m).render(mujoco.MjData(m))\nexcept RenderError as error:\n    print(error)"
    )
    done = in_fresh_process(code, MUJOCO_GL="egl", MUJOCO_EGL_DEVICE_ID="99")
    assert done.stdout.startswith("rendering with MUJOCO_GL=egl does not work (")
    assert "libegl1" in done.stdout
    assert done.stdout.count("\n") == 1


def test_frame_places_what_it_shows(model: mujoco.MjModel, data: mujoco.MjData) -> None:
    """The ball's world position, projected with the frame's numbers, lands on the red pixels at the right depth."""
    renderer = SceneRenderer(model)
    ball = data.body("ball").xpos
    for camera in ("oblique", "lens", "free"):
        frame = renderer.render(data, camera, 320, 240, depth=True)
        assert frame.camera == camera
        assert frame.depth_m is not None
        x, y, z = (np.linalg.inv(frame.world_from_camera) @ [*ball, 1.0])[:3]
        u, v, _ = frame.intrinsics @ [x / z, y / z, 1.0]
        rgb = frame.rgb.astype(int)
        red = (rgb[..., 0] > 60) & (rgb[..., 0] > 3 * rgb[..., 1]) & (rgb[..., 0] > 3 * rgb[..., 2])
        rows, columns = np.nonzero(red)
        assert len(rows) > 20
        middle = (columns.min() + columns.max()) / 2, (rows.min() + rows.max()) / 2
        np.testing.assert_allclose(middle, (u, v), atol=1.0)
        # The nearest point of the ball is one radius nearer than its centre, along the ray.
        ray = np.linalg.norm([x, y, z]) / z
        depth = frame.depth_m[round(v), round(u)]
        assert depth == pytest.approx(z - 0.03 / ray, abs=1e-3)
    renderer.close()


def test_intrinsics_from_fovy(model: mujoco.MjModel, data: mujoco.MjData) -> None:
    renderer = SceneRenderer(model)
    frame = renderer.render(data, "oblique", 320, 240)
    focal = 120 / np.tan(np.radians(45) / 2)
    np.testing.assert_allclose(frame.intrinsics, [[focal, 0, 159.5], [0, focal, 119.5], [0, 0, 1]], rtol=1e-6)
    assert frame.depth_m is None
    rotation = frame.world_from_camera[:3, :3]
    np.testing.assert_allclose(rotation @ rotation.T, np.eye(3), atol=1e-6)
    assert np.linalg.det(rotation) == pytest.approx(1.0)
    np.testing.assert_allclose(frame.world_from_camera[:3, 3], [2.4, -0.2, 1.3], atol=1e-6)
    renderer.close()


AS_MUJOCO = f"""
import mujoco, numpy as np
from robots.rendering import SceneRenderer
model = mujoco.MjModel.from_xml_string('''{SCENE}''')
data = mujoco.MjData(model)
mujoco.mj_forward(model, data)
renderer = SceneRenderer(model)
frame = renderer.render(data, "oblique", 160, 120, depth=True)
renderer.close()
theirs = mujoco.Renderer(model, 120, 160)
theirs.update_scene(data, "oblique")
rgb = theirs.render().astype(int)
theirs.enable_depth_rendering()
print(abs(frame.rgb - rgb).max(), abs(frame.depth_m / theirs.render() - 1).max())
theirs.close()
"""


def test_rgb_and_depth_equal_mujocos_own_renderer() -> None:
    # In a process of its own: MuJoCo's renderer binds its OpenGL when mujoco is imported.
    done = in_fresh_process(AS_MUJOCO, MUJOCO_GL=choose_backend())
    assert done.returncode == 0, done.stderr
    colour, depth = (float(text) for text in done.stdout.split())
    assert colour <= 2
    assert depth < 1e-4


def test_close_frees_and_a_later_picture_opens_again(model: mujoco.MjModel, data: mujoco.MjData) -> None:
    renderer = SceneRenderer(model)
    first = renderer.render(data, "oblique", 64, 48)
    users = rendering._PROCESS._users
    renderer.close()
    renderer.close()
    assert rendering._PROCESS._users == users - 1
    again = renderer.render(data, "oblique", 64, 48)
    np.testing.assert_array_equal(first.rgb, again.rgb)
    renderer.close()


@pytest.mark.parametrize("size", [(0, 10), (10, -1), (5000, 10)])
def test_impossible_sizes(model: mujoco.MjModel, data: mujoco.MjData, size: tuple[int, int]) -> None:
    with pytest.raises(RenderError, match="each side must be within 1..4096"):
        SceneRenderer(model).render(data, None, *size)


def test_scene_camera_comes_first_and_robot_cameras_do_not_count(model: mujoco.MjModel, data: mujoco.MjData) -> None:
    assert scene_cameras(model) == ("oblique", "lens")
    assert choose_camera(model, data, None)[1] == "oblique"
    assert resolve_camera(model, "eye").fixedcamid == model.camera("eye").id
    with pytest.raises(UserError, match=r"unknown camera 'oblik' \(did you mean 'oblique'\?\); valid: eye, free"):
        choose_camera(model, data, "oblik")
    bare = mujoco.MjModel.from_xml_string("<mujoco><worldbody><geom size='1'/></worldbody></mujoco>")
    bare_data = mujoco.MjData(bare)
    mujoco.mj_forward(bare, bare_data)
    assert choose_camera(bare, bare_data, None)[1] == "free"
    with pytest.raises(UserError, match="unknown camera '';"):
        choose_camera(bare, bare_data, "")


def world_scene(*geoms: str) -> tuple[mujoco.MjModel, mujoco.MjData]:
    model = mujoco.MjModel.from_xml_string(f"<mujoco><worldbody>{''.join(geoms)}</worldbody></mujoco>")
    data = mujoco.MjData(model)
    mujoco.mj_forward(model, data)
    return model, data


@pytest.mark.parametrize("yaw", [0, 35, 90])
@pytest.mark.parametrize("center", [(1.0, 0.5), (-20.0, 3.0)])
def test_free_camera_shows_the_whole_work_area(yaw: int, center: tuple[float, float]) -> None:
    x, y = center
    table = f"<geom type='box' size='.3 .6 .2' pos='{x} {y} .2' euler='0 0 {yaw}' rgba='0 1 0 1'/>"
    block = f"<body pos='{x} {y} .425'><freejoint/><geom type='box' size='.02 .02 .02' rgba='0 1 0 1'/></body>"
    far_wall = "<geom type='box' size='.1 5 2' pos='60 0 2' rgba='0 0 1 1'/>"
    floor = "<geom type='plane' size='9 9 .1' rgba='.2 0 0 1'/>"
    model, data = world_scene(table, block, far_wall, floor)
    renderer = SceneRenderer(model)
    frame = renderer.render(data, default_camera(model, data), 200, 200)
    renderer.close()
    rgb = frame.rgb.astype(int)
    green = rgb[..., 1] > 2 * np.maximum(rgb[..., 0], rgb[..., 2]) + 10
    assert 0.1 < green.mean() < 0.9
    border = np.concatenate([green[0], green[-1], green[:, 0], green[:, -1]])
    assert not border.any()


def test_free_camera_looks_on_a_maze_from_above() -> None:
    walls = [f"<geom type='box' size='4 .1 .3' pos='0 {y} .3'/>" for y in (-4, 0, 4)]
    model, data = world_scene(*walls)
    assert default_camera(model, data).elevation < -80


def test_an_empty_scene_still_has_a_picture() -> None:
    model, data = world_scene()
    renderer = SceneRenderer(model)
    assert renderer.render(data, width=16, height=16).rgb.shape == (16, 16, 3)
    renderer.close()


def test_glfw_without_a_display_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MUJOCO_GL", "glfw")
    monkeypatch.delenv("DISPLAY", raising=False)
    monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
    with pytest.raises(RenderError, match="needs a display"):
        choose_backend()


def test_an_unknown_backend_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    code = "import robots"
    ended = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, "MUJOCO_GL": "nonsense"}, capture_output=True, text=True
    )
    assert ended.stderr.splitlines()[-1].startswith("embodied.errors.UserError: MUJOCO_GL=nonsense is not known")


def test_torch_trains_in_a_process_that_has_rendered() -> None:
    code = (
        "from robots.still import StillScene; StillScene('tabletop_blocks').render(); import torch; "
        "torch.optim.Adam(torch.nn.Linear(2, 2).parameters()); print('alive')"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (ended.returncode, ended.stdout.strip()) == (0, "alive"), ended.stderr[-300:]


def test_depth_sees_bodies_and_not_marks() -> None:
    """A zone's site over a table hides nothing: the depth under it is the table's, 0.6 m below the camera."""
    scene = """<mujoco><worldbody><geom type="box" size="0.3 0.3 0.2" pos="0 0 0.2"/>
      <body><geom type="box" size="0.01 0.01 0.01"/><site type="box" size="0.1 0.1 0.05" pos="0 0 0.45"/></body>
      <camera name="top" pos="0 0 1" xyaxes="1 0 0 0 1 0"/></worldbody></mujoco>"""
    marked = mujoco.MjModel.from_xml_string(scene)
    state = mujoco.MjData(marked)
    mujoco.mj_forward(marked, state)
    renderer = SceneRenderer(marked)
    frame = renderer.render(state, "top", 64, 64, depth=True)
    assert frame.depth_m is not None
    np.testing.assert_allclose(frame.depth_m[16:48, 16:48], 0.6, atol=1e-4)
    renderer.close()


def test_what_lies_inside_a_mark_is_seen_in_its_own_light() -> None:
    """A translucent site throws a whole shadow in MuJoCo; in a picture with depth it is not there."""
    scene = """<mujoco><worldbody><light pos="0.3 0 3" dir="-0.1 0 -1" castshadow="true"/>
      <geom type="box" size="0.3 0.3 0.2" pos="0 0 0.2"/>
      {site}<camera name="top" pos="0 0 1" xyaxes="1 0 0 0 1 0"/></worldbody></mujoco>"""
    site = '<body><site type="box" size="0.1 0.1 0.05" pos="0 0 0.45" rgba="1 1 1 0.05"/></body>'
    pictures = []
    for marks in ("", site):
        model = mujoco.MjModel.from_xml_string(scene.format(site=marks))
        state = mujoco.MjData(model)
        mujoco.mj_forward(model, state)
        renderer = SceneRenderer(model)
        pictures += [renderer.render(state, "top", 64, 64, depth=depth).rgb.astype(int) for depth in (True, False)]
        renderer.close()
    plain, _, seen, marked = pictures
    np.testing.assert_array_equal(seen, plain)
    assert (plain - marked)[28:36, 28:36].mean() > 20
