"""Turning and moving a whole scene changes nothing that a policy sees or does: it all happens in frame B."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import mujoco
import numpy as np
import pytest

from embodied.learning.controller import load_zoo
from embodied.types import BaseFrame, FloatArray, Goal, Observation
from robots.assembly import exact_poses
from robots.scene import load_scene
from robots.tabletop import TabletopEnv

STEPS = 60
SCENES = ("tabletop_blocks", "desk_unnamed")
MOVES = [
    BaseFrame((0.0, 0.0, 0.0), math.radians(35)),
    BaseFrame((4.3217, -7.1234, 0.25), math.radians(-50)),
    BaseFrame((-120.0375, 41.9, -3.0), math.radians(20)),
]
"""Moves after which the rule still chooses the same side of the table."""
FAR_TURNS = [BaseFrame((1.0, 2.0, 0.0), math.radians(angle)) for angle in (90, 180, -135)]
"""Turns after which it would choose the other: the base is given by hand."""


def product(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    result = np.zeros(4)
    mujoco.mju_mulQuat(result, left, np.asarray(right, dtype=np.float64))
    return result


def turned_scene(scene: str, move: BaseFrame, folder: Path) -> Path:
    """A file of the scene with everything in it moved, bodies in full precision."""
    spec = load_scene(scene)
    model = spec.compile()
    for body in spec.worldbody.bodies:
        body.alt.type = mujoco.mjtOrientation.mjORIENTATION_QUAT
        body.pos = move.to_world(model.body_pos[body.id])
        body.quat = product(move.quaternion, model.body_quat[body.id])
    for geom in spec.worldbody.geoms:
        geom.pos = move.to_world(model.geom_pos[geom.id])
        geom.quat = product(move.quaternion, model.geom_quat[geom.id])
    moved = spec.compile()
    path = folder / f"{scene}_turned.xml"
    path.write_text(exact_poses(spec.to_xml(), moved), encoding="utf-8")
    return path


Policy = Callable[[Observation, Goal], FloatArray]


class Chaser:
    """A smooth deterministic policy of what is seen: the grip's way to the goal, the fingers by the state's speed."""

    def __call__(self, observation: Observation, goal: Goal) -> FloatArray:
        state = observation.state
        row = observation.entities[1]
        move = np.tanh(6.0 * (goal.value - state[:3]) - 2.0 * state[5:8] + 0.2 * row[3:6] + 0.1 * row[9:12])
        fingers = np.sin(10.0 * row[6:9].sum() + state[:3].sum())
        return np.float32([*move, fingers])


def episode(
    env: TabletopEnv, goals: list[tuple[float, float, float]], policy: Policy | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Actions (T, 4) and observations (T, S + E F) of an episode that goes from one goal in B to the next."""
    policy, observation = policy or Chaser(), env.reset(0)
    actions, seen = [], []
    for index in range(STEPS):
        goal = Goal("gripper", np.float32(goals[index * len(goals) // STEPS]), np.ones(3, dtype=bool))
        env.set_goal(goal)
        actions.append(policy(observation, goal))
        seen.append(np.concatenate([observation.state, observation.entities.ravel()]))
        observation = env.step(actions[-1]).observation
    env.close()
    return np.array(actions), np.array(seen)


GOALS = [(1.25, 0.85, 0.55), (1.45, 0.65, 0.60), (1.30, 0.75, 0.50)]


def assert_same(first: tuple[np.ndarray, np.ndarray], second: tuple[np.ndarray, np.ndarray]) -> None:
    np.testing.assert_allclose(first[0], second[0], rtol=0, atol=1e-5)
    robot, objects = slice(0, 10), list(range(25, first[1].shape[1]))
    poses = [column for column in objects if (column - 10) % 15 < 9]
    np.testing.assert_allclose(first[1][:, robot], second[1][:, robot], rtol=0, atol=1e-5)
    # A standing cylinder trembles on the last bits of its contact points, by some 1e-5 m or rad and 1e-4 rad a step.
    np.testing.assert_allclose(first[1][:, poses], second[1][:, poses], rtol=0, atol=2e-4)
    np.testing.assert_allclose(first[1][:, objects], second[1][:, objects], rtol=0, atol=2e-3)
    assert np.ptp(first[1][:, :3], axis=0).min() > 0.05, "the gripper must have moved"


@pytest.mark.parametrize("scene", SCENES)
@pytest.mark.parametrize("move", MOVES, ids=["turned", "moved", "far"])
def test_a_turned_and_moved_scene_gives_the_same_actions(scene: str, move: BaseFrame, tmp_path: Path) -> None:
    moved = TabletopEnv(turned_scene(scene, move, tmp_path))
    straight = TabletopEnv(scene)
    np.testing.assert_allclose(
        moved.placement.position_m, move.to_world(np.array(straight.placement.position_m)), rtol=0, atol=1e-9
    )
    assert moved.placement.yaw_rad == pytest.approx(straight.placement.yaw_rad + move.yaw_rad)
    assert_same(episode(straight, GOALS), episode(moved, GOALS))


@pytest.mark.parametrize("move", FAR_TURNS, ids=["90", "180", "-135"])
def test_so_does_a_base_given_by_hand_that_turns_along(move: BaseFrame, tmp_path: Path) -> None:
    straight = TabletopEnv("tabletop_blocks")
    x, y, z = move.to_world(np.array(straight.placement.position_m))
    yaw = math.degrees(straight.placement.yaw_rad + move.yaw_rad)
    moved = TabletopEnv(turned_scene("tabletop_blocks", move, tmp_path), base=(x, y, z, yaw))
    assert_same(episode(straight, GOALS), episode(moved, GOALS))


@pytest.mark.parametrize("scene", SCENES)
def test_the_shipped_controller_acts_alike(scene: str, tmp_path: Path) -> None:
    controller = load_zoo("fetch_reach")
    moved = TabletopEnv(turned_scene(scene, MOVES[1], tmp_path))
    assert_same(episode(TabletopEnv(scene), GOALS, controller.act), episode(moved, GOALS, controller.act))


def test_the_scene_is_described_alike(tmp_path: Path) -> None:
    move = MOVES[1]
    straight, moved = TabletopEnv("desk_unnamed"), TabletopEnv(turned_scene("desk_unnamed", move, tmp_path))
    states = []
    for env in (straight, moved):
        env.reset(0)
        states.append(env.scene_state())
    assert states[0].contacts == states[1].contacts
    for one, other in zip(states[0].entities, states[1].entities, strict=True):
        assert (one.id, one.role, one.kind, one.colour) == (other.id, other.role, other.kind, other.colour)
        np.testing.assert_allclose(one.center_b_m, other.center_b_m, rtol=0, atol=1e-6)
        np.testing.assert_allclose(one.half_extents_m, other.half_extents_m, rtol=0, atol=1e-6)
        np.testing.assert_allclose(move.to_world(np.array(one.position_m)), other.position_m, rtol=0, atol=1e-6)


def test_a_policy_that_looked_at_the_world_would_be_caught(tmp_path: Path) -> None:
    """The comparison has teeth: the same episode with goals meant in the world differs."""
    move = MOVES[0]
    moved = TabletopEnv(turned_scene("tabletop_blocks", move, tmp_path))
    in_world = [tuple(move.to_world(np.array(goal))) for goal in GOALS]
    straight = episode(TabletopEnv("tabletop_blocks"), GOALS)
    wrong = episode(moved, in_world)  # type: ignore[arg-type]
    assert np.abs(straight[0] - wrong[0]).max() > 0.1
