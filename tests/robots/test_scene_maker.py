"""Made scenes: the same for the same seed, tidy, at rest, and seen as what they are."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path

import mujoco
import numpy as np
import pytest

from embodied.errors import UserError
from robots.scene_maker import (
    TABLE_TOP_M,
    ZONE_COLOURS,
    MadeZone,
    SceneMakerConfig,
    free_centres,
    make_scene,
    surface_m,
)
from robots.still import StillScene

CONFIG = SceneMakerConfig()
COUNTS = [(seed, 1 + seed % 6, seed % 3) for seed in range(24)]


def test_the_seed_and_the_counts_decide() -> None:
    assert make_scene(3, 4, 1) == make_scene(3, 4, 1)
    assert make_scene(3, 4, 1).xml != make_scene(4, 4, 1).xml
    assert make_scene(3, 4, 1).things != make_scene(3, 5, 1).things


@pytest.mark.parametrize(("seed", "things", "zones"), COUNTS)
def test_nothing_overlaps_and_all_is_on_the_table(seed: int, things: int, zones: int) -> None:
    scene = make_scene(seed, things, zones)
    assert (len(scene.things), len(scene.zones)) == (things, zones)
    names = [item.name for item in (*scene.things, *scene.zones)]
    assert len(set(names)) == len(names)
    low, high = surface_m(CONFIG.edge_m)
    centres = np.array([thing.position_m[:2] for thing in scene.things])
    assert np.all((centres >= low) & (centres <= high))
    assert all(np.linalg.norm(a - b) >= CONFIG.gap_m for a, b in combinations(centres, 2))
    for zone in scene.zones:
        assert min(zone.distance(centre) for centre in centres) >= CONFIG.zone_gap_m
        assert np.all(np.abs(np.array(zone.position_m) - (1.30, 0.75)) + zone.half_m <= (0.25, 0.35))


def test_sizes_cover_their_ranges() -> None:
    things = [thing for seed in range(60) for thing in make_scene(seed, 6).things]
    sizes = [thing.half_size_m for thing in things]
    assert min(sizes) < 0.019 < 0.029 < max(sizes)
    assert 0.25 < np.mean([thing.kind == "cylinder" for thing in things]) < 0.45
    centres = np.array([thing.position_m[:2] for thing in things])
    low, high = surface_m(CONFIG.edge_m)
    assert np.all(centres.min(0) < low + 0.02)
    assert np.all(centres.max(0) > high - 0.02)


def test_a_scene_is_seen_as_it_was_made_and_lies_still(tmp_path: Path) -> None:
    scene = make_scene(11, 6, 2)
    path = scene.write(tmp_path / "new")
    still = StillScene(path)
    state = still.scene_state()
    still.close()
    for thing in scene.things:
        seen = state.entity(thing.name)
        assert (f"{seen.colour}_{seen.kind}", seen.role) == (thing.name, "object")
        np.testing.assert_allclose(seen.position_m[:2], thing.position_m[:2], atol=1e-3)
        assert seen.position_m[2] == pytest.approx(thing.rest_height_m, abs=2e-3)
    for zone in scene.zones:
        seen = state.entity(zone.name)
        assert (f"{seen.colour}_{seen.kind}", seen.role) == (zone.name, "zone")
    model = mujoco.MjModel.from_xml_path(str(path))
    data = mujoco.MjData(model)
    mujoco.mj_step(model, data, nstep=500)
    assert np.abs(data.qvel).max() < 1e-2
    heights = [data.body(thing.name).xpos[2] for thing in scene.things]
    np.testing.assert_allclose(heights, [TABLE_TOP_M + thing.half_height_m for thing in scene.things], atol=1e-3)


def test_distance_to_a_zone() -> None:
    tray = MadeZone("white_tray", "tray", ZONE_COLOURS["white"], 0.05, (1.0, 1.0))
    disc = MadeZone("white_disc", "disc", ZONE_COLOURS["white"], 0.05, (1.0, 1.0))
    assert tray.distance(np.array([1.08, 1.09])) == pytest.approx(0.05)  # 3-4-5 from the corner
    assert tray.distance(np.array([1.02, 1.0])) == pytest.approx(-0.03)
    assert disc.distance(np.array([1.06, 1.08])) == pytest.approx(0.05)
    assert disc.distance(np.array([1.0, 1.0])) == pytest.approx(-0.05)


def test_no_place_is_none_and_no_scene_an_error() -> None:
    everywhere = (MadeZone("white_tray", "tray", ZONE_COLOURS["white"], 0.5, (1.3, 0.75)),)
    assert free_centres(np.random.default_rng(0), 1, everywhere) is None
    with pytest.raises(UserError, match="6 things and 0 zones do not fit"):
        make_scene(0, 6, 0, SceneMakerConfig(gap_m=0.5))


@pytest.mark.parametrize(
    ("things", "zones", "said"), [(0, 0, "1 to 6 things"), (7, 0, "got 7"), (1, 3, "0 to 2 zones")]
)
def test_counts_that_are_not_offered(things: int, zones: int, said: str) -> None:
    with pytest.raises(UserError, match=said):
        make_scene(0, things, zones)
    with pytest.raises(UserError, match="two blocks may overlap"):
        SceneMakerConfig(gap_m=0.05)
