"""Random scenes: decided by the seed, tidy, at rest, seen as what they are, and each split of its own kind."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import mujoco
import numpy as np
import pytest

from embodied.colours import colour_name
from embodied.errors import UserError
from embodied.facts import holding
from robots.labels import FrameLabeller, Origin
from robots.placement import frame_for_scene
from robots.random_camera import ASPECT
from robots.random_look import COLOURS, SHADE_MARGIN, draw_colour, draw_shade, level_light, shade_margin, shown
from robots.random_rules import FIT_CAMERAS, FIT_TEXTURES
from robots.random_scene import CAMERA, RandomScene, View
from robots.random_stage import DEEPEST_M, Stage
from robots.random_textures import BUILTIN, FAMILIES
from robots.randomize import HELD_OUT, SPLITS, RandomizerConfig, SceneRandomizer, labelled_frames
from robots.rendering import SceneRenderer, drawing
from robots.scene_state import SceneReader

TABLES = (1.0, 0.0, 0.0, 0.0)


def scenes(split: str, count: int, views: int = 2, arm: float = 0.0, first: int = 0) -> Iterator[RandomScene]:
    randomizer = SceneRandomizer(RandomizerConfig(split=split, views=views, arm=arm))
    return (randomizer.draw(seed) for seed in range(first, first + count))


def camera_numbers(scene: RandomScene, view: View) -> tuple[float, float, float]:
    """Elevation (degrees), field of view (degrees), distance from the area's middle along the optical axis (m)."""
    rotation = np.zeros(9)
    mujoco.mju_quat2Mat(rotation, np.array(view.camera.quaternion))
    back = rotation.reshape(3, 3)[:, 2]
    way = np.array(view.camera.position_m) - scene.area.center_m
    return float(np.degrees(np.arcsin(min(back[2], 1.0)))), view.camera.fov_deg, float(way @ back)


def test_the_seed_decides() -> None:
    twice = [SceneRandomizer(RandomizerConfig(views=2)).draw(7) for _ in range(2)]
    assert twice[0] == twice[1]
    assert twice[0].xml == twice[1].xml
    others = [SceneRandomizer(RandomizerConfig(split=split, views=2)).draw(7) for split in SPLITS]
    assert len({scene.xml for scene in [twice[0], *others]}) == len(SPLITS)
    assert SceneRandomizer(RandomizerConfig(views=2)).draw(8).xml != twice[0].xml


def test_frames_are_the_same_again() -> None:
    config = RandomizerConfig(views=2)
    first, again = (list(labelled_frames(config, 3, 1, 80, 60)) for _ in range(2))
    assert len(first) == 2
    for (frame, label), (other, same) in zip(first, again, strict=True):
        assert label == same
        np.testing.assert_array_equal(frame.rgb, other.rgb)
        np.testing.assert_array_equal(frame.depth_m, other.depth_m)


@pytest.mark.parametrize("colour", COLOURS)
def test_shades_keep_clear_of_other_names(colour: str) -> None:
    rng = np.random.default_rng(0)
    shades = np.array([draw_shade(rng, colour) for _ in range(25)])
    assert all(colour_name(shade) == colour for shade in shades)
    assert min(shade_margin(shade, colour) for shade in shades) >= SHADE_MARGIN
    assert len(np.unique(shades.round(2), axis=0)) >= 10


def test_a_shade_stands_out_where_it_can() -> None:
    rng = np.random.default_rng(0)
    wood = (0.45, 0.27, 0.10)
    apart = [np.abs(np.array(draw_shade(rng, "brown", [wood], 25.0)) - wood).max() for _ in range(10)]
    assert min(apart) > 0.08


def test_the_light_of_a_view_leaves_colours_their_names() -> None:
    for scene in scenes("new_look", 12):
        drawn = [index for index, thing in enumerate(scene.things) if not thing.name.startswith("furniture")]
        for view in scene.views:
            held = view.grip.holds if view.grip is not None else None
            for index in (index for index in drawn if index != held):
                put, (x, y, z) = view.puts[index], view.puts[index].position_m
                light = level_light(view.look, (x, y, z + scene.things[index].half_m[2]))
                assert colour_name(shown(np.array(put.rgb), light)) == put.colour


def test_a_shade_that_the_light_spoils_is_not_drawn() -> None:
    rng = np.random.default_rng(0)
    assert draw_shade(rng, "grey", light=(1.5, 0.5, 0.5)) is None
    assert draw_shade(rng, "white", light=(0.5, 0.5, 0.5)) is None
    assert draw_colour(rng, ("white", "red"), (), 0.0, (0.5, 0.5, 0.5))[0] == "red"


def test_held_out_pairs_are_in_their_split_alone() -> None:
    pairs = {split: set() for split in SPLITS}
    for split in SPLITS:
        for scene in scenes(split, 20):
            for index in range(len(scene.views)):
                held = [c in HELD_OUT.get(kind, ()) for _, kind, c, _ in scene.listing(index)]
                assert any(held) == (
                    split == "new_pairs" and any(kind in HELD_OUT for _, kind, _, _ in scene.listing())
                )
                pairs[split] |= {(kind, colour) for _, kind, colour, _ in scene.listing(index)}
    assert len(pairs["fit"]) > 40
    kinds = {kind for kind, _ in pairs["fit"]}
    assert kinds >= set(HELD_OUT)
    share = sum(len(colours) for colours in HELD_OUT.values()) / (len(HELD_OUT) * len(COLOURS))
    assert 0.13 <= share <= 0.17


def test_cameras_show_the_whole_area_from_their_ranges() -> None:
    fit, fresh = FIT_CAMERAS[0], []
    for split in ("fit", "new_camera"):
        for scene in scenes(split, 12):
            for view in scene.views:
                rotation = np.zeros(9)
                mujoco.mju_quat2Mat(rotation, np.array(view.camera.quaternion))
                signs = [(a, b) for a in (-1, 1) for b in (-1, 1)]
                corners = [scene.area.to_world(a * scene.area.half_m[0], b * scene.area.half_m[1]) for a, b in signs]
                seen = (np.array(corners) - view.camera.position_m) @ rotation.reshape(3, 3)
                tangent = np.tan(np.radians(view.camera.fov_deg) / 2)
                assert np.all(seen[:, 2] < 0)
                assert np.all(np.abs(seen[:, 0]) <= -seen[:, 2] * tangent * ASPECT)
                assert np.all(np.abs(seen[:, 1]) <= -seen[:, 2] * tangent)
                if scene.kind in ("table", "floor"):
                    numbers = zip(
                        camera_numbers(scene, view), (fit.elevation_deg, fit.fov_deg, fit.distance_m), strict=True
                    )
                    inside = all(low - 1e-6 <= value <= high + 1e-6 for value, (low, high) in numbers)
                    assert inside or split == "new_camera"
                    fresh += [inside] if split == "new_camera" else []
    assert not any(fresh)


def test_numbers_of_things_and_looks_of_splits() -> None:
    for split, (least, most) in (("fit", (0, 6)), ("more_things", (7, 9))):
        counts = [sum(t.role == "object" for t in s.things) for s in scenes(split, 30) if s.kind in ("table", "floor")]
        assert (min(counts), max(counts)) == (least, most)
    families = {s.texture.family for scene in scenes("fit", 30) for s in scene.tops if s.texture is not None}
    assert families == set(FIT_TEXTURES) - {"plain"}
    fresh = {s.texture.family for scene in scenes("new_look", 30) for s in scene.tops if s.texture is not None}
    assert fresh == {*FAMILIES, *BUILTIN} - families


def test_nothing_overlaps_and_all_is_at_rest_and_called_what_it_is(tmp_path: Path) -> None:
    facts, moved = [], []
    for scene in scenes("fit", 14, first=40):
        model = mujoco.MjModel.from_xml_path(str(scene.write(tmp_path / str(scene.seed), view=1)))
        data = mujoco.MjData(model)
        mujoco.mj_forward(model, data)
        assert min(data.contact.dist, default=0.0) > -1e-3
        state = SceneReader(model, frame_for_scene(model, data), None).read(data)
        for thing, (name, kind, colour, _) in zip(scene.things, scene.listing(1), strict=True):
            if thing.role != "robot":
                entity = state.entity(name)
                assert (entity.role, entity.kind, entity.colour) == (thing.role, kind, colour)
        free = [t.name for t in scene.things if t.role == "object"]
        before = np.array([data.body(name).xpos for name in free]).reshape(-1, 3)
        mujoco.mj_step(model, data, nstep=100)
        moved += np.linalg.norm(
            np.array([data.body(name).xpos for name in free]).reshape(-1, 3) - before, axis=1
        ).tolist()
        facts += [pair for pair in state.contacts if all(name.startswith("thing") for name in pair)]
    assert len(moved) > 15
    assert max(moved) < 2e-3
    assert facts


def test_a_changed_model_shows_what_a_compiled_one_does(tmp_path: Path) -> None:
    compared = set()
    for scene in scenes("fit", 8, first=60):
        if scene.kind in compared:
            continue
        compared.add(scene.kind)
        with drawing():
            stage = Stage(scene, tmp_path / "stage")
            stage.apply(scene.views[0])
            stage.apply(scene.views[1])
            changed, label = stage.shoot(1, 160, 120)
            model = mujoco.MjModel.from_xml_path(str(scene.write(tmp_path / "fresh", view=1)))
            data = mujoco.MjData(model)
            mujoco.mj_forward(model, data)
            renderer = SceneRenderer(model)
            fresh = renderer.render(data, CAMERA, 160, 120, depth=True)
            np.testing.assert_allclose(changed.world_from_camera, fresh.world_from_camera, atol=1e-9)
            np.testing.assert_allclose(changed.depth_m, fresh.depth_m, atol=1e-5)
            assert np.abs(changed.rgb.astype(int) - fresh.rgb).max() <= 1
            robot = None if scene.robot == "none" else stage._robot
            reader = SceneReader(model, frame_for_scene(model, data), robot)
            labeller = FrameLabeller(model, reader, renderer)
            again = labeller.label(data, fresh, Origin(scene.kind, scene.split, scene.seed, 1), CAMERA)
            assert [(e.id, e.pixels, e.colour) for e in again.entities] == [
                (e.id, e.pixels, e.colour) for e in label.entities
            ]
            stage.close()
            renderer.close()
    assert len(compared) >= 2


def test_the_arm_is_clear_of_all_but_what_it_holds(tmp_path: Path) -> None:
    randomizer = SceneRandomizer(RandomizerConfig(views=6, arm=1.0, shares=TABLES))
    held = robots = 0
    for seed in range(3):
        scene = randomizer.draw(seed)
        stage = Stage(scene, tmp_path / str(seed))
        for view in scene.views:
            assert view.grip is not None
            stage.apply(view)
            if stage.arm_depth_m() > DEEPEST_M:
                continue
            robots += 1
            if view.grip.holds is not None:
                held += 1
                state = SceneReader(stage.model, stage._frame, stage._robot).read(stage.data)
                assert holding(state, scene.things[view.grip.holds].name)
                assert state.gripper_position_m == pytest.approx(view.grip.target_m, abs=0.03)
        stage.close()
    assert robots >= 14
    assert held >= 2


def test_pictures_are_neither_black_nor_white_and_labels_fit() -> None:
    means, seen = [], 0
    for frame, label in islice(labelled_frames(RandomizerConfig(views=1), 90, None, 160, 120), 20):
        means.append(frame.rgb.mean())
        assert frame.rgb.std() > 4
        if label.scene_kind == "table":
            assert label.entity("table").kind == "table"
            assert label.entity("table").pixels > 300
        for entity in label.entities:
            seen += entity.role == "object" and entity.visible_share > 0.5
            assert (entity.box_px is None) == (entity.pixels == 0)
    assert min(means) > 12
    assert max(means) < 250
    assert seen > 15


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"split": "fitt"}, "did you mean 'fit'"),
        ({"views": 0}, "at least 1"),
        ({"shares": (1.0, 0.5, 0.0, 0.0)}, "add up to 1"),
        ({"arm": 1.5}, "within 0 and 1"),
    ],
)
def test_wrong_configurations(wrong: dict, said: str) -> None:
    with pytest.raises(UserError, match=said):
        RandomizerConfig(**wrong)
    with pytest.raises(UserError, match="0 or more"):
        SceneRandomizer().draw(-1)
