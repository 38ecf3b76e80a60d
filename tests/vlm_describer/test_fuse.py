"""Several views of one scene: each thing once, named and placed by all that see it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from embodied.types import Frame
from robots.still import StillScene
from vlm_describer.clip import NamingLooker
from vlm_describer.fuse import fuse
from vlm_describer.located import Located
from vlm_describer.naming import GROUPS, ITEM_GROUPS, GeometryNamer, Names
from vlm_describer.seeing import SeeingDescriber

sys.path.insert(0, str(Path(__file__).parent))
from test_doubt import cube, scene

LOOKER = NamingLooker(GeometryNamer())


@pytest.fixture(scope="module")
def blocks() -> Iterator[StillScene]:
    still = StillScene("tabletop_blocks")
    yield still
    still.close()


@pytest.fixture(scope="module")
def views(blocks: StillScene) -> tuple[Frame, Frame]:
    return blocks.render("front", 320, 240, depth=True), blocks.render("top", 320, 240, depth=True)


def left_part(frame: Frame, columns: int) -> Frame:
    """The frame without its right side: pixels keep their places, so intrinsics stay."""
    assert frame.depth_m is not None
    return replace(frame, rgb=frame.rgb[:, :columns], depth_m=frame.depth_m[:, :columns])


def look(located: Located, sure: float = 1.0) -> tuple[Located, Names]:
    groups = {group: np.zeros((len(located.items), len(GROUPS[group])), np.float32) for group in ITEM_GROUPS}
    for logits in groups.values():
        logits[:, 0] = sure
    return located, Names(groups, np.array([sure, 0.0, 0.0, 0.0], np.float32))


def test_each_thing_of_two_views_is_there_once_and_where_it_is(blocks: StillScene, views: tuple[Frame, Frame]) -> None:
    found = SeeingDescriber("clip", LOOKER, base=blocks.frame).describe(views)
    true = [entity for entity in blocks.scene_state().entities if entity.role in ("object", "zone")]
    assert len(found.objects) == len(true)
    for entity in true:
        (thing,) = [o for o in found.objects if np.allclose(o.position_m, entity.position_m, atol=0.05)]
        assert thing.kind == entity.kind
        assert entity.kind == "tray" or thing.colour == entity.colour
        np.testing.assert_allclose(thing.position_m, entity.position_m, atol=0.006)
    assert len({thing.id for thing in found.objects}) == len(true)


def test_what_one_view_lacks_comes_from_another(blocks: StillScene, views: tuple[Frame, Frame]) -> None:
    describer = SeeingDescriber("clip", LOOKER, base=blocks.frame)
    part = left_part(views[0], 150)
    alone, both = describer.describe((part,)), describer.describe((part, views[1]))
    every = sorted(o.kind for o in describer.describe((views[1],)).objects)
    assert len(alone.objects) < len(every)
    assert sorted(o.kind for o in both.objects) == every


def test_the_order_of_the_views_changes_nothing_that_is_said(blocks: StillScene, views: tuple[Frame, Frame]) -> None:
    describer = SeeingDescriber("clip", LOOKER, base=blocks.frame)
    one, other = describer.describe(views), describer.describe(views[::-1])
    places = [sorted((np.round(o.position_m, 6).tolist(), o.phrase) for o in f.objects) for f in (one, other)]
    assert places[0] == places[1]
    assert {str(f.predicate)[:4] for f in one.facts} == {str(f.predicate)[:4] for f in other.facts}


def test_without_poses_the_first_frame_is_described_and_the_rest_is_unknown(views: tuple[Frame, Frame]) -> None:
    first, second = (replace(frame, world_from_camera=None) for frame in views)
    describer = SeeingDescriber("clip", LOOKER)
    alone, both = describer.describe((first,)), describer.describe((first, second))
    assert both.objects == alone.objects
    assert both.frame == "camera"
    assert [text for text in both.unknown if "1 other frame shows" in text and "poses" in text]


def test_centres_are_weighted_by_their_covariances_and_names_add_up() -> None:
    one = cube("a", 0.00, sigma=0.003)
    other = cube("b", 0.01, sigma=0.006)
    fused = fuse([look(scene(one), 1.0), look(scene(other), 2.0)])
    (item,) = fused.located.items
    # Weights 1 / 9 and 1 / 36: (4 * 0 + 1 * 0.01) / 5 and 36 / 5 mm^2.
    assert item.center_b_m == pytest.approx((0.002, 0.0, 0.03))
    np.testing.assert_allclose(item.covariance_m2, np.eye(3) * 36e-6 / 5, rtol=1e-9)
    assert fused.names.items["kinds"][0, 0] == 3.0
    assert fused.names.scene[0] == 3.0


def test_things_that_are_too_far_apart_or_unlike_stay_two() -> None:
    near, far = cube("a", 0.0), cube("a", 0.05)
    assert len(fuse([look(scene(near)), look(scene(far))]).located.items) == 2
    tray = cube("a", 0.0, flat=True)
    fused = fuse([look(scene(near)), look(scene(tray)), look(scene(far))]).located
    assert [item.id for item in fused.items] == ["item0", "item1", "item2"]
    assert [item.rests_on for item in fused.items] == ["surface0"] * 3


def test_what_stands_on_what_keeps_its_name() -> None:
    first = scene(cube("item0", 0.0))
    second = scene(cube("item0", 0.3), cube("item1", 0.0), cube("item2", 0.3, z=0.09, rests_on="item0"))
    items = {round(item.center_b_m[2] + item.center_b_m[0], 2): item for item in fuse(
        [look(first), look(second)]
    ).located.items}  # fmt: skip
    assert len(items) == 3
    assert items[0.39].rests_on == items[0.33].id


def test_a_view_that_shows_nothing_does_no_harm() -> None:
    empty = Located((), (), "world", scene().base, "no depth readings")
    fused = fuse([look(empty), look(scene(cube("a", 0.0)))])
    assert len(fused.located.items) == 1
    assert fused.located.reason == ""
    assert fused.left_out == ("what 1 other frame shows: nothing in them can be matched",)
    assert fuse([look(empty), look(empty)]).located.reason == "no depth readings"
