"""The same things from look to look."""

from __future__ import annotations

import numpy as np
import pytest

from embodied.types import DescribedObject, Frame, SceneDescription
from vlm_describer.tracking import GONE_LOOKS, Tracker

HALF = (0.025, 0.025, 0.025)


def seen(
    number: int, kind: str, colour: str, at: tuple[float, float, float], half: tuple[float, float, float] = HALF,
    role: str = "object", sure: float = 0.9,
) -> DescribedObject:  # fmt: skip
    return DescribedObject(f"item{number}", role, kind, colour, at, half, sure)  # type: ignore[arg-type]


def told(*objects: DescribedObject) -> SceneDescription:
    return SceneDescription(objects, (), (), "", "", "world")


def frame(depth: float) -> Frame:
    """From 1 m above the origin, straight down: x to the right, y up in the picture."""
    pose = np.eye(4)
    pose[:3, :3], pose[:3, 3] = np.diag([1.0, -1.0, -1.0]), (0.0, 0.0, 1.0)
    intrinsics = np.array([[100.0, 0, 50], [0, 100.0, 50], [0, 0, 1]])
    return Frame(
        np.zeros((101, 101, 3), np.uint8), "top", 0.0, np.full((101, 101), depth, np.float32), intrinsics, pose
    )


RED, BLUE_1, BLUE_2 = (0.0, 0.0, 0.0), (0.2, 0.0, 0.0), (0.3, 0.0, 0.0)


@pytest.fixture
def tracker() -> Tracker:
    first = told(
        seen(4, "block", "red", RED), seen(7, "block", "blue", BLUE_1), seen(2, "block", "blue", BLUE_2),
        seen(9, "tray", "white", (0.0, 0.3, 0.0), (0.07, 0.07, 0.002), "zone"), seen(5, "thing", "unknown", (0, 0, 1)),
    )  # fmt: skip
    return Tracker(first, (np.array([0.0, 0.0, -0.025]), np.array([0.5, 0.5, 0.0])))


def test_ids_say_what_things_are_and_tell_alike_things_apart(tracker: Tracker) -> None:
    assert [t.id for t in tracker.tracks] == ["red_block", "blue_block_1", "blue_block_2", "white_tray", "table"]


def test_numbers_of_a_look_mean_nothing_and_moved_things_are_followed(tracker: Tracker) -> None:
    tracker.update(
        told(
            seen(1, "block", "blue", BLUE_2), seen(2, "block", "red", (0.1, 0.1, 0.0)), seen(3, "block", "blue", BLUE_1)
        ),
        [],
    )
    places = {t.id: tuple(t.position_m) for t in tracker.tracks}
    assert places["red_block"] == (0.1, 0.1, 0.0)
    assert (places["blue_block_1"], places["blue_block_2"]) == (BLUE_1, BLUE_2)


def test_what_is_called_otherwise_at_the_same_place_is_the_same(tracker: Tracker) -> None:
    tracker.update(told(seen(1, "cylinder", "brown", (0.01, 0.0, 0.0))), [])
    assert tuple(tracker.track("red_block").position_m) == (0.01, 0.0, 0.0)
    assert tracker.track("red_block").colour == "red"
    tracker.update(told(seen(1, "cylinder", "red", (0.1, 0.1, 0.0))), [])
    assert tuple(tracker.track("red_block").position_m) == (0.01, 0.0, 0.0), "elsewhere it would be another thing"


def test_a_part_of_a_thing_does_not_move_it(tracker: Tracker) -> None:
    tracker.update(told(seen(1, "block", "red", (0.012, 0.0, 0.0), (0.012, 0.025, 0.025))), [])
    assert tuple(tracker.track("red_block").position_m) == RED


def test_what_is_hidden_stays_and_what_is_not_there_is_gone(tracker: Tracker) -> None:
    for _ in range(3):
        tracker.update(told(), [frame(0.6)])
    assert not tracker.track("red_block").gone, "something nearer hides it"
    for _ in range(GONE_LOOKS):
        assert not tracker.track("red_block").gone
        tracker.update(told(), [frame(1.06)])
    assert tracker.track("red_block").gone
    tracker.update(told(seen(1, "block", "red", RED)), [frame(1.06)])
    assert not tracker.track("red_block").gone


def test_one_view_that_shows_something_there_is_enough_to_doubt(tracker: Tracker) -> None:
    for _ in range(3):
        tracker.update(told(), [frame(1.06), frame(0.99)])
    assert not tracker.track("red_block").gone


def test_what_the_hand_holds_or_hides_is_not_looked_for(tracker: Tracker) -> None:
    tracker.update(told(seen(1, "block", "red", (0.1, 0.1, 0.0))), [frame(1.06)], hidden=frozenset({"red_block"}))
    assert tuple(tracker.track("red_block").position_m) == RED
    assert tracker.track("red_block").missed == 0
