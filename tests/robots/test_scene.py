"""Scene files: what a name or path means, and one line for every way in which a file can be wrong."""

from __future__ import annotations

import struct
import subprocess
import sys
from pathlib import Path

import mujoco
import pytest

from embodied.errors import SceneError
from robots.scene import SCENES, load_scene, resolve_scene, scene_model, shipped_scenes

BODY = "<worldbody><body name='b'><freejoint/><geom size='.1'/></body></worldbody>"

BROKEN: dict[str, bytes] = {
    "empty": b"",
    "blank": b" \n\t\n",
    "not_xml": b"hello, this is no scene",
    "binary": bytes(range(256)) * 64,
    "unclosed": b"<mujoco><worldbody>",
    "other_root": b"<robot name='urdf'><link name='a'/></robot>",
    "html": b"<!DOCTYPE html><html><body>404</body></html>",
    "unknown_element": b"<mujoco><worldbody><bodie/></worldbody></mujoco>",
    "unknown_attribute": b"<mujoco><worldbody><geom size='.1' colour='red'/></worldbody></mujoco>",
    "bad_number": b"<mujoco><worldbody><geom size='big'/></worldbody></mujoco>",
    "no_size": b"<mujoco><worldbody><geom type='box'/></worldbody></mujoco>",
    "no_mass": b"<mujoco><worldbody><body><freejoint/></body></worldbody></mujoco>",
    "nested_free": b"<mujoco><worldbody><body><geom size='.1'/><body><freejoint/><geom size='.1'/></body></body>"
    b"</worldbody></mujoco>",
    "same_name": b"<mujoco><worldbody><geom name='a' size='.1'/><geom name='a' size='.1'/></worldbody></mujoco>",
    "missing_mesh": b"<mujoco><asset><mesh name='m' file='nowhere.obj'/></asset><worldbody><geom type='mesh' mesh='m'/>"
    b"</worldbody></mujoco>",
    "missing_texture": b"<mujoco><asset><texture name='t' type='2d' file='nowhere.png'/></asset></mujoco>",
    "missing_include": b"<mujoco><include file='nowhere.xml'/></mujoco>",
    "unknown_material": b"<mujoco><worldbody><geom size='.1' material='nope'/></worldbody></mujoco>",
    "not_finite": b"<mujoco><worldbody><body pos='nan 0 0'><freejoint/><geom size='.1'/></body></worldbody></mujoco>",
    "many_lines": b"<mujoco>\n<worldbody>\n<body>\n<geom size='1 2\n3' type='boxx\nball'/>\n</body>"
    b"</worldbody></mujoco>",
    "huge_texture": b"<mujoco><asset><texture name='t' type='2d' builtin='flat' width='2000000000' "
    b"height='2000000000'/></asset></mujoco>",
    "deep": b"<mujoco><worldbody>" + b"<body>" * 20_000 + b"</body>" * 20_000 + b"</worldbody></mujoco>",
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_file_is_refused_in_one_line(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / f"{name}.xml"
    path.write_bytes(BROKEN[name])
    with pytest.raises(SceneError) as caught:
        load_scene(path)
    message = str(caught.value)
    assert str(path) in message
    assert len(message.splitlines()) == 1
    assert message.isprintable()
    assert len(message) < 600
    assert sorted(p.name for p in tmp_path.iterdir()) == [path.name], "nothing may be left in the user's folder"
    assert capfd.readouterr() == ("", "")


def test_folders_devices_and_missing_files_are_refused(tmp_path: Path) -> None:
    for path, words in ((tmp_path, "folder"), (Path("/dev/null"), "regular file"), (tmp_path / "no.xml", "no scene")):
        with pytest.raises(SceneError, match=words):
            load_scene(path)


@pytest.mark.parametrize(
    "text", ["", "   ", "tabletop_block", "x" * 5000, "a\0b", "../nowhere.xml", "{}", "$(touch x)"]
)
def test_an_unknown_scene_names_the_shipped_ones(text: str) -> None:
    with pytest.raises(SceneError) as caught:
        resolve_scene(text)
    message = str(caught.value)
    assert all(name in message for name in shipped_scenes())
    assert ".xml" in message
    assert len(message.splitlines()) == 1


def test_a_near_miss_is_suggested() -> None:
    with pytest.raises(SceneError, match="did you mean 'tabletop_blocks'"):
        resolve_scene("tabletop_block")


@pytest.mark.parametrize("folder", ["my scenes (2)", "场景", "it's {here}, $HOME", "a=b,c"])
def test_awkward_paths_work(folder: str, tmp_path: Path) -> None:
    place = tmp_path / folder
    place.mkdir()
    path = place / "désk & (final).xml"
    path.write_bytes((SCENES / "desk_unnamed.xml").read_bytes())
    assert resolve_scene(str(path)) == path
    assert scene_model(str(path)).nbody == scene_model("desk_unnamed").nbody


def test_every_shipped_scene_loads() -> None:
    assert {"desk_unnamed", "rooms", "tabletop_blocks"} <= set(shipped_scenes())
    for name in shipped_scenes():
        assert scene_model(name).ngeom > 0


def test_static_bodies_keep_their_names_under_fusestatic(tmp_path: Path) -> None:
    path = tmp_path / "fused.xml"
    path.write_text(
        "<mujoco><compiler fusestatic='true'/><worldbody><body name='shelf'><geom size='.1'/></body>"
        "<body name='b' pos='0 0 1'><freejoint/><geom size='.1'/></body></worldbody></mujoco>"
    )
    assert scene_model(path).body("shelf").id > 0


def test_a_comment_a_byte_order_mark_and_a_declaration_may_come_first(tmp_path: Path) -> None:
    path = tmp_path / "s.xml"
    path.write_bytes(b"\xef\xbb\xbf<?xml version='1.0'?>\n<!-- <html> -->\n<mujoco>" + BODY.encode() + b"</mujoco>")
    assert scene_model(path).nbody == 2


def test_a_truncated_mesh_is_refused_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "m.stl").write_bytes(b"\0" * 80 + struct.pack("<I", 1000) + b"\0" * 10)
    path = tmp_path / "s.xml"
    path.write_text(
        "<mujoco><asset><mesh name='m' file='m.stl'/></asset>"
        "<worldbody><geom type='mesh' mesh='m'/></worldbody></mujoco>"
    )
    with pytest.raises(SceneError) as caught:
        load_scene(path)
    assert len(str(caught.value).splitlines()) == 1


def test_warnings_of_the_simulator_leave_no_log_file(tmp_path: Path) -> None:
    code = (
        "import mujoco; from robots.scene import scene_model; m = scene_model('tabletop_blocks');"
        "d = mujoco.MjData(m); d.qvel[:] = float('nan'); mujoco.mj_step(m, d);"
        "print(sum(w.number for w in d.warning))"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert int(done.stdout) > 0
    assert list(tmp_path.iterdir()) == []


def test_the_spec_can_be_edited_and_compiled_again() -> None:
    spec = load_scene("tabletop_blocks")
    spec.worldbody.add_body(name="extra").add_geom(type=mujoco.mjtGeom.mjGEOM_SPHERE, size=[0.1, 0, 0])
    assert spec.compile().body("extra").id > 0
