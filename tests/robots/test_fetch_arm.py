"""The Fetch arm: Gymnasium's numbers on Gymnasium's model, and the same way on a table of ours."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import mujoco
import numpy as np
import pytest
from gymnasium_robotics.utils import rotations

from embodied.errors import SceneError
from embodied.spec import Layout
from embodied.types import GRIPPER, BaseFrame
from robots.assembly import ArmScene
from robots.base import (
    ENTITY_TERMS,
    FETCH_STATE_TERMS,
    OBJECT_TERMS,
    POSITION_GOAL,
    arm_observation,
    entity_rows,
    load_gymnasium,
)
from robots.fetch_arm import FetchArm, euler_angles

Built = Callable[..., ArmScene]

COLUMNS = np.r_[0:3, 9:11, 20:25, 3:9, 11:20]
"""Gymnasium's 25 numbers in our order: robot, then object."""


@pytest.fixture(params=["FetchPush-v4", "FetchPickAndPlace-v4"])
def gym_env(request: pytest.FixtureRequest) -> Iterator[Any]:
    env = load_gymnasium().make(request.param).unwrapped
    env.reset(seed=7)
    yield env
    env.close()


def copied(env: Any) -> mujoco.MjData:
    data = mujoco.MjData(env.model)
    mujoco.mj_copyData(data, env.model, env.data)
    return data


def observed(arm: FetchArm, data: mujoco.MjData) -> np.ndarray:
    return np.concatenate([arm.observe(data), arm.observe_object(data, arm.model.body("object0").id)])


def test_observations_are_gymnasiums_numbers(gym_env: Any) -> None:
    arm, rng = FetchArm(gym_env.model, BaseFrame()), np.random.default_rng(0)
    assert sum(t.width for t in FETCH_STATE_TERMS + OBJECT_TERMS) == 25
    for _ in range(30):
        raw, *_ = gym_env.step(rng.uniform(-1, 1, 4))
        np.testing.assert_allclose(observed(arm, gym_env.data), raw["observation"][COLUMNS], rtol=0, atol=1e-9)


def test_actions_move_it_as_gymnasium_does(gym_env: Any) -> None:
    arm, data, rng = FetchArm(gym_env.model, BaseFrame()), copied(gym_env), np.random.default_rng(1)
    fingers = [data.joint(f"robot0:{side}_gripper_finger_joint") for side in "lr"]
    for _ in range(50):
        action = rng.uniform(-1, 1, 4)
        raw, *_ = gym_env.step(action)
        arm.apply(data, action)
        mujoco.mj_step(gym_env.model, data, nstep=arm.substeps)
        if gym_env.block_gripper:
            for finger in fingers:
                finger.qpos[0] = 0.0
            mujoco.mj_forward(gym_env.model, data)
        np.testing.assert_allclose(data.qpos, gym_env.data.qpos, rtol=0, atol=1e-9)
        np.testing.assert_allclose(observed(arm, data), raw["observation"][COLUMNS], rtol=0, atol=1e-9)


def test_home_is_where_fetch_reach_starts(built: Built) -> None:
    env = load_gymnasium().make("FetchReach-v4").unwrapped
    env.reset(seed=0)
    scene = built("tabletop_blocks")
    arm, data = FetchArm(scene.model, scene.frame), mujoco.MjData(scene.model)
    arm.home(data)
    # FetchReach's base is 0.1 mm further back than FetchPush's, which B follows.
    np.testing.assert_allclose(arm.grip(data), env.data.site("robot0:grip").xpos + (1e-4, 0, 0), atol=2e-4)
    np.testing.assert_allclose(arm.grip(data), (1.342, 0.749, 0.535), atol=5e-4)
    ours, theirs = joint_angles(scene.model, data), joint_angles(env.model, env.data)
    assert ours.keys() == theirs.keys()
    # The finger joints, which FetchReach has no actuators for, are left out; so are the slides, which place the base.
    for name in ours.keys() - {n for n in ours if "finger" in n or "slide" in n}:
        assert ours[name] == pytest.approx(theirs[name], abs=5e-3), name
    env.close()


def joint_angles(model: mujoco.MjModel, data: mujoco.MjData) -> dict[str, float]:
    joints = [model.joint(i) for i in range(model.njnt)]
    return {j.name: float(data.qpos[j.qposadr[0]]) for j in joints if j.name.startswith("robot0:")}


def test_the_arm_on_a_table_moves_like_gymnasiums(built: Built) -> None:
    """Gymnasium's own pick-and-place scene without arm, with ours put in: the same way through the air."""
    env = load_gymnasium().make("FetchPickAndPlace-v4").unwrapped
    env.reset(seed=0)
    scene = built("tabletop_blocks")
    arm, data, rng = FetchArm(scene.model, scene.frame), mujoco.MjData(scene.model), np.random.default_rng(2)
    arm.home(data)
    for action in rng.uniform(-0.5, 1.0, (40, 4)):
        raw, *_ = env.step(action * (1, 1, 0.3, 1))
        arm.apply(data, action * (1, 1, 0.3, 1))
        mujoco.mj_step(scene.model, data, nstep=arm.substeps)
        np.testing.assert_allclose(arm.observe(data)[:3], raw["observation"][:3], rtol=0, atol=1e-3)
    assert np.linalg.norm(raw["observation"][:3] - (1.342, 0.749, 0.535)) > 0.2
    env.close()


def test_a_pose_in_b_is_the_same_pose_of_a_turned_arm(built: Built) -> None:
    """The observation of a turned and moved copy of one state is the observation of that state."""
    straight, turned = built("tabletop_blocks"), built("tabletop_blocks", at=((3.0, -2.0, 0.0), 2.3))
    states = []
    for scene in (straight, turned):
        arm, data = FetchArm(scene.model, scene.frame), mujoco.MjData(scene.model)
        arm.home(data)
        block = scene.model.body("red_block")
        joint = data.joint(block.jntadr[0])
        joint.qpos[:3] = scene.frame.to_world(np.array([1.2, 0.9, 0.6]))
        quaternion = np.zeros(4)
        mujoco.mju_mulQuat(quaternion, scene.frame.quaternion, np.array([0.8, 0.4, -0.4, 0.2]))
        joint.qpos[3:] = quaternion
        joint.qvel[:3] = scene.frame.vector_to_world(np.array([0.3, -0.2, 0.1]))
        joint.qvel[3:] = (1.0, -2.0, 0.7)  # in the body's own axes, which turn along
        mujoco.mj_forward(scene.model, data)
        states.append(np.concatenate([arm.observe(data), arm.observe_object(data, block.id)]))
    np.testing.assert_allclose(states[0], states[1], rtol=0, atol=1e-6)
    assert np.abs(states[0][10:]).min() > 1e-3, "every number of the object must have been put to the test"


def test_euler_angles_are_those_of_gymnasium_robotics() -> None:
    rng = np.random.default_rng(0)
    for _ in range(200):
        quaternion = rng.normal(size=4)
        matrix = np.zeros(9)
        mujoco.mju_quat2Mat(matrix, quaternion / np.linalg.norm(quaternion))
        theirs = rotations.mat2euler(matrix.reshape(3, 3))
        np.testing.assert_allclose(euler_angles(matrix.tolist()), theirs, rtol=4e-16, atol=0)
    for pole in (np.pi / 2, -np.pi / 2):
        matrix = rotations.euler2mat(np.array([0.3, pole, 0.2]))
        matrix[np.abs(matrix) < 1e-15] = 0.0
        np.testing.assert_allclose(euler_angles(matrix.ravel().tolist()), rotations.mat2euler(matrix), rtol=4e-16)


@pytest.mark.parametrize("count", range(7))
def test_an_observation_has_the_rows_that_arrays_would_make(count: int) -> None:
    rng = np.random.default_rng(count)
    layout = Layout(FETCH_STATE_TERMS, ENTITY_TERMS, POSITION_GOAL, (GRIPPER, *(f"thing{i}" for i in range(count))))
    for _ in range(20):
        state, objects = rng.normal(size=10), rng.normal(size=(count, 15))
        made = arm_observation(state.tolist(), objects.tolist(), layout)
        np.testing.assert_array_equal(made.state, state.astype(np.float32))
        np.testing.assert_array_equal(made.entities, entity_rows(objects))
        np.testing.assert_array_equal(made.achieved, np.vstack([state[:3], objects[:, :3]]).astype(np.float32))
        assert made.layout is layout


def test_things_are_observed_alike_one_by_one_and_together(built: Built) -> None:
    scene = built("tabletop_blocks", at=((3.0, -2.0, 0.0), 2.3))
    arm, data = FetchArm(scene.model, scene.frame), mujoco.MjData(scene.model)
    arm.home(data)
    bodies = [scene.model.body(f"{colour}_block").id for colour in ("red", "green", "blue")]
    for _ in range(10):
        arm.step(data, np.array([0.5, -0.3, -1.0, 1.0]))
        state, rows = arm.observe_all(data, bodies)
        np.testing.assert_allclose(state, arm.observe(data), rtol=0, atol=1e-12)
        for body, row in zip(bodies, rows, strict=True):
            np.testing.assert_allclose(row, arm.observe_object(data, body), rtol=0, atol=1e-12)
            np.testing.assert_allclose(row[:3], scene.frame.to_base(data.xpos[body]), rtol=0, atol=1e-12)


def test_one_arm_serves_several_simulations_of_its_model(built: Built) -> None:
    scene = built("tabletop_blocks")
    arm, first = FetchArm(scene.model, scene.frame), mujoco.MjData(scene.model)
    arm.home(first)
    second = mujoco.MjData(scene.model)
    mujoco.mj_copyData(second, scene.model, first)
    for _ in range(5):
        arm.step(first, np.array([1.0, 0.0, 0.0, 1.0]))
        arm.step(second, np.array([0.0, 1.0, 0.0, -1.0]))
    ways = [arm.observe(data)[:2] - (1.342, 0.749) for data in (first, second)]
    assert ways[0][0] > 0.1 > abs(ways[0][1])
    assert ways[1][1] > 0.1 > abs(ways[1][0])


@pytest.mark.parametrize("step", [FetchArm.step, FetchArm.step_unseen])
def test_a_simulation_that_mujoco_gave_up_is_refused(
    built: Built, step: Callable[[FetchArm, mujoco.MjData, np.ndarray], None]
) -> None:
    scene = built("tabletop_blocks")
    arm, data = FetchArm(scene.model, scene.frame), mujoco.MjData(scene.model)
    arm.home(data)
    data.joint(scene.model.body("red_block").jntadr[0]).qpos[0] = np.nan
    with pytest.raises(SceneError, match="unstable"):
        step(arm, data, np.zeros(4))
