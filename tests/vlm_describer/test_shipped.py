"""The models that come with the package: what they name in the shipped scenes, and that they may be had."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from embodied_launch import api
from embodied_launch.build import Sight

import vlm_describer
from robots.still import StillScene

WEIGHTS = Path(vlm_describer.__file__).parent / "weights"
CAMERAS = {"tabletop_blocks": "front", "desk_unnamed": "cam0", "rooms": ""}


def test_weights_are_small() -> None:
    sizes = {path: path.stat().st_size for path in WEIGHTS.rglob("*") if path.is_file()}
    assert sizes
    assert sum(sizes.values()) < 30e6


DIM = pytest.mark.xfail(strict=True, reason="dimmer than any light in fitting: the yellow pillar is called brown")


@pytest.mark.parametrize("name", ["tabletop_blocks", "desk_unnamed", pytest.param("rooms", marks=DIM)])
def test_every_thing_of_a_shipped_scene_is_named(name: str) -> None:
    check(name, "clip")


GREY = pytest.mark.xfail(strict=True, reason="the white tray is called grey")
UNSURE = pytest.mark.xfail(strict=True, reason="two pillars are not sure enough to be called that")
CAPTIONED = [pytest.param("tabletop_blocks", marks=GREY), "desk_unnamed", pytest.param("rooms", marks=UNSURE)]


@pytest.mark.parametrize("name", CAPTIONED)
def test_every_thing_of_a_shipped_scene_is_captioned(name: str) -> None:
    check(name, "blip")


def check(name: str, describer: str) -> None:
    """By its picture alone: kind and colour of each object, zone and pillar, and its place within 2 cm."""
    scene = StillScene(name)
    seen = api.describe(scene, describer, Sight(CAMERAS[name]))
    truth = [e for e in scene.scene_state().entities if e.role in ("object", "zone") or e.kind == "pillar"]
    scene.close()
    told = [thing for thing in seen.objects if thing.kind not in ("wall", "door")]
    assert Counter(thing.phrase for thing in told) == Counter(f"{entity.colour} {entity.kind}" for entity in truth)
    for entity in truth:
        near = min(sum((a - b) ** 2 for a, b in zip(t.position_m, entity.position_m, strict=True)) for t in told)
        assert near < 0.02**2
