"""Scenes arranged anew, and runs that are disturbed."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from embodied.errors import UserError
from embodied.rng import child_generator
from embodied.types import SceneState
from robots.arrange import SHIFT_M, Arranger, scatter, settle
from robots.base import CheckedSceneEnv, checked
from robots.disturb import Disturber
from robots.tabletop import TabletopEnv

THINGS = ("red_block", "green_block", "blue_block")


@pytest.fixture(scope="module")
def opened() -> Iterator[CheckedSceneEnv]:
    env = checked(TabletopEnv("tabletop_blocks"))
    assert isinstance(env, CheckedSceneEnv)
    yield env
    env.close()


@pytest.fixture
def env(opened: CheckedSceneEnv) -> CheckedSceneEnv:
    opened.reset(0)
    return opened


def places(state: SceneState) -> np.ndarray:
    return np.array([state.entity(thing).position_m for thing in THINGS])


def test_scattered_things_are_moved_a_little_turned_and_apart(env: CheckedSceneEnv) -> None:
    before, turned = places(env.scene_state()), []
    for seed in range(4):
        env.reset(0)
        scatter(env, child_generator(seed, "test"))
        state = env.scene_state()
        moved = places(state) - before
        assert np.abs(moved[:, :2]).max() <= SHIFT_M + 1e-3
        assert np.abs(moved[:, :2]).max() > 1e-3
        assert np.abs(moved[:, 2]).max() < 1e-3
        assert not any(a in THINGS and b in THINGS for a, b in state.contacts)
        turned.append(state.entity("red_block").quaternion)
    assert len({round(q[0], 3) for q in turned}) > 1
    env.reset(0)
    scatter(env, child_generator(3, "test"))
    np.testing.assert_array_equal(places(env.scene_state()), places(state)), "the same seed, the same scene"


def test_a_scene_that_is_too_tight_is_said(env: CheckedSceneEnv) -> None:
    arranger = Arranger(env)
    gap = places(env.scene_state())[1] - places(env.scene_state())[0]
    arranger.move("red_block", gap + (0.0, 0.0, 0.02))
    arranger.refresh()
    with pytest.raises(UserError, match="too close together"):
        scatter(env, np.random.default_rng(0), shift_m=0.0)


def disturbed(env: CheckedSceneEnv, kind: str, seed: int, steps: int = 70) -> tuple[Disturber, SceneState, SceneState]:
    disturber, before = Disturber(env, kind, seed, ("red_block",)), env.scene_state()
    for _ in range(steps):
        env.step(np.zeros(4, dtype=np.float32))
        disturber(env.scene_state())
    return disturber, before, env.scene_state()


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_a_moved_thing_lies_elsewhere_on_the_table(env: CheckedSceneEnv, seed: int) -> None:
    disturber, before, after = disturbed(env, "moved", seed)
    away = np.linalg.norm(places(after) - places(before), axis=1)
    assert 0.03 - 1e-3 <= away[0] <= 0.07 + 1e-3
    assert away[1:].max() < 1e-3
    assert disturber.happened.startswith("moved red_block")
    assert abs(places(after)[0, 2] - places(before)[0, 2]) < 2e-3


def test_the_robot_is_bumped_and_things_are_taken_away(env: CheckedSceneEnv) -> None:
    disturber, before, after = disturbed(env, "bumped", 0)
    assert np.linalg.norm(np.subtract(after.gripper_position_m, before.gripper_position_m)) > 0.03
    assert "bumped" in disturber.happened
    assert np.abs(places(after) - places(before)).max() < 1e-3
    env.reset(0)
    disturber, _, after = disturbed(env, "taken", 0)
    assert disturber.happened.startswith("took red_block away")
    assert np.linalg.norm(places(after)[0]) > 10


def test_nothing_is_dropped_that_is_not_held_and_unknown_kinds_are_named(env: CheckedSceneEnv) -> None:
    assert disturbed(env, "dropped", 0)[0].happened == ""
    with pytest.raises(UserError, match="unknown disturbance 'kicked'"):
        Disturber(env, "kicked", 0)


def test_settling_takes_time_and_moves_nothing(env: CheckedSceneEnv) -> None:
    before = env.scene_state()
    settle(env, 0.2)
    after = env.scene_state()
    assert after.time_s == pytest.approx(before.time_s + 0.2, abs=0.04)
    assert np.abs(places(after) - places(before)).max() < 1e-3
