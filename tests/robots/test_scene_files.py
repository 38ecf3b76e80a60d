"""What a scene's text may make the program read, however it is written down."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from embodied.errors import SceneError, UserError
from robots import scene_files
from robots.assembly import build_arm_scene
from robots.placement import Placement
from robots.scene import SceneFile, load_scene
from robots.scene_files import read_sources

OBJ = "v 0 0 0\nv .1 0 0\nv 0 .1 0\nv 0 0 .1\nf 1 3 2\nf 1 2 4\nf 2 3 4\nf 1 4 3\n"
MESH = "<asset><mesh name='m' file='{file}'/></asset>"

OUTSIDE = {
    "absolute": MESH.format(file="{outside}/secret.obj"),
    "dots": MESH.format(file="../outside/secret.obj"),
    "dots_to_nowhere": MESH.format(file="../../nowhere.obj"),
    "link": MESH.format(file="link.obj"),
    "linked_folder": MESH.format(file="door/secret.obj"),
    "meshdir": "<compiler meshdir='../outside'/>" + MESH.format(file="secret.obj"),
    "meshdir_comes_later": MESH.format(file="secret.obj") + "<compiler meshdir='../outside'/>",
    "assetdir": "<compiler assetdir='{outside}'/>" + MESH.format(file="secret.obj"),
    "texture": "<asset><texture name='t' type='2d' file='../outside/secret.obj'/></asset>",
    "texture_side": "<asset><texture name='t' type='cube' fileright='../outside/secret.obj'/></asset>",
    "hfield": "<asset><hfield name='h' size='1 1 1 1' file='../outside/secret.obj'/></asset>",
    "skin": "<asset><skin name='s' file='../outside/secret.obj'/></asset>",
    "flexcomp": "<worldbody><flexcomp name='f' type='mesh' file='../outside/secret.obj'/></worldbody>",
    "include": "<include file='../outside/secret.xml'/>",
    "include_of_an_include": "<include file='inner.xml'/>",
    "model": "<asset><model name='m' file='../outside/secret.xml'/></asset>",
    "entities": MESH.format(file="&#46;&#x2e;/outside/secret.obj"),
    "no_blanks": "<asset><mesh name='m'file='../outside/secret.obj'/></asset>",
    "double_quotes": '<asset><mesh name="a>b" file="../outside/secret.obj"/></asset>',
    "lines": "<asset><mesh\nname='m'\nfile\n=\n'../outside/secret.obj'\n/></asset>",
    "comment_in_cdata": "<![CDATA[ <!-- ]]>" + MESH.format(file="../outside/secret.obj") + "<![CDATA[ --> ]]>",
    "comment_in_value": "<custom><text name='t' data='<!--'/></custom>" + MESH.format(file="../outside/secret.obj"),
}


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A folder for scenes, beside one that they may not read."""
    made, outside = tmp_path / "home", tmp_path / "outside"
    made.mkdir()
    outside.mkdir()
    (outside / "secret.obj").write_text(OBJ)
    (outside / "secret.xml").write_text("<mujoco><worldbody><geom size='.1'/></worldbody></mujoco>")
    (made / "link.obj").symlink_to(outside / "secret.obj")
    (made / "door").symlink_to(outside)
    (made / "inner.xml").write_text("<mujoco><include file='../outside/secret.xml'/></mujoco>")
    return made


def scene(home: Path, inner: str) -> Path:
    path = home / "s.xml"
    path.write_text(f"<mujoco>{inner}</mujoco>")
    return path


@pytest.mark.parametrize("name", OUTSIDE)
def test_what_lies_outside_is_refused_and_named(name: str, home: Path) -> None:
    path = scene(home, OUTSIDE[name].format(outside=home.parent / "outside"))
    with pytest.raises(SceneError, match="outside its folder; allow a folder with files_from=") as caught:
        load_scene(path)
    message = str(caught.value)
    assert len(message.splitlines()) == 1
    assert any(word in message for word in ("secret.", "nowhere.", "link.obj"))


@pytest.mark.parametrize("name", ["absolute", "dots", "link", "linked_folder", "meshdir", "include", "model"])
def test_a_folder_can_be_allowed(name: str, home: Path) -> None:
    path = scene(home, OUTSIDE[name].format(outside=home.parent / "outside"))
    assert load_scene(SceneFile(path, (home.parent / "outside",))).compile() is not None
    with pytest.raises(SceneError, match="outside its folder"):
        load_scene(SceneFile(path, (home.parent / "other",)))


@pytest.mark.parametrize(
    "inner",
    [
        "<!-- <include file='/etc/passwd'/> -->",
        "<![CDATA[ <include file='/etc/passwd'/> ]]>",
        "<custom><text name='t' data='file=&quot;/etc/passwd&quot;'/></custom>",
        "<compiler meshdir='../outside'/>",
    ],
)
def test_what_is_not_read_is_not_refused(inner: str, home: Path) -> None:
    assert load_scene(scene(home, inner)).compile() is not None


def test_parts_in_subfolders_are_found_and_travel(home: Path, tmp_path: Path) -> None:
    parts = home / "parts" / "meshes"
    parts.mkdir(parents=True)
    (parts / "thing.obj").write_text(OBJ)
    (parts.parent / "child.xml").write_text(
        "<mujoco model='child'><compiler meshdir='meshes'/><asset><mesh name='m' file='thing.obj'/></asset>"
        "<worldbody><body name='c'><geom type='mesh' mesh='m'/></body></worldbody></mujoco>"
    )
    path = scene(
        home,
        "<compiler meshdir='elsewhere'/><asset><model name='ch' file='parts/child.xml'/></asset><worldbody>"
        "<body name='table' pos='0 0 .2'><geom type='box' size='.25 .35 .2'/></body>"
        "<body name='thing' pos='0 0 .42'><freejoint/><attach model='ch' body='c' prefix='x_'/></body></worldbody>",
    )
    built = build_arm_scene(path, Placement((0.7, 0.7, 0.0), 0.0, None), tmp_path / "out")
    assert (tmp_path / "out" / "assets" / "thing.obj").read_text() == OBJ
    assert built.model.body("x_c").id > 0


def test_pipes_and_devices_are_no_assets(home: Path) -> None:
    os.mkfifo(home / "pipe.obj")
    with pytest.raises(SceneError, match="'pipe.obj' of scene .* is not a regular file"):
        load_scene(scene(home, MESH.format(file="pipe.obj")))


def test_sizes_and_numbers_of_files_have_limits(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (home / "big.obj").write_text(OBJ * 10)
    monkeypatch.setattr(scene_files, "MAX_ASSET_BYTES", 500)
    with pytest.raises(SceneError, match="'big.obj' of scene .* is larger than"):
        load_scene(scene(home, MESH.format(file="big.obj")))
    for number in range(12):
        (home / f"part{number}.xml").write_text(f"<mujoco><include file='part{number + 1}.xml'/></mujoco>")
    monkeypatch.setattr(scene_files, "MAX_TEXT_FILES", 10)
    with pytest.raises(SceneError, match="more than 10 files"):
        load_scene(scene(home, "<include file='part0.xml'/>"))
    monkeypatch.setattr(scene_files, "MAX_TEXT_FILES", 100)
    monkeypatch.setattr(scene_files, "MAX_TEXT_BYTES", 200)
    with pytest.raises(SceneError, match="of text"):
        load_scene(scene(home, "<include file='part0.xml'/>"))


def test_a_changed_asset_is_another_scene(home: Path) -> None:
    (home / "a.obj").write_text(OBJ)
    path = scene(home, MESH.format(file="a.obj"))
    before = read_sources(SceneFile(path)).digest
    assert read_sources(SceneFile(path)).digest == before
    (home / "a.obj").write_text(OBJ + "\n")
    assert read_sources(SceneFile(path)).digest != before


def test_the_key_is_for_scenes_with_a_folder_that_is_there(home: Path) -> None:
    from embodied_launch import api

    path = scene(home, OUTSIDE["dots"])
    with api.open_scene(str(path), files_from=str(home.parent / "outside")) as opened:
        assert opened.scene_state().entities == ()
    with pytest.raises(UserError, match="that is no folder"):
        api.open_scene(str(path), files_from=str(home / "nowhere"))
    with pytest.raises(UserError, match="is a task"):
        api.open_scene("fetch_push", files_from=str(home))
