"""The task `tabletop`: what its episodes are made of. What every task promises is tested in the registry's contract."""

from __future__ import annotations

from collections.abc import Iterator

import mujoco
import numpy as np
import pytest
from gymnasium_robotics.utils import rotations

from embodied.errors import UserError
from embodied.planning.grounding import FETCH_ENVELOPE
from embodied.types import GRIPPER, Goal, Step
from robots.base import FETCH, entity_rows
from robots.fetch_arm import FetchArm
from robots.registry import spec_of
from robots.scene_state import SceneReader
from robots.tabletop_task import OBJECT, TabletopTaskConfig, TabletopTaskEnv

SEEDS = range(30)


@pytest.fixture(scope="module")
def env() -> Iterator[TabletopTaskEnv]:
    made = TabletopTaskEnv(TabletopTaskConfig(scenes=10))
    yield made
    made.close()


def test_it_looks_like_fetch_pick_place() -> None:
    ours, theirs = spec_of("tabletop"), spec_of("fetch_pick_place")
    assert ours.layout == theirs.layout
    assert (ours.actions, ours.action_low, ours.action_high) == (theirs.actions, theirs.action_low, theirs.action_high)
    assert set(ours.skills) == {"pick", "place", "push", "stack"}
    assert ours.tolerance < 0.03


def test_an_episode_is_its_seeds_whatever_came_before(env: TabletopTaskEnv) -> None:
    first = env.reset(5)
    goal = env.goal
    for seed in (6, 7):
        env.reset(seed)
        for _ in range(3):
            env.step(np.full(4, 0.7, dtype=np.float32))
    again = env.reset(5)
    assert np.array_equal(first.entities, again.entities)
    assert np.array_equal(first.state, again.state)
    assert np.array_equal(goal.value, env.goal.value)


def test_the_thing_lies_still_and_the_arm_is_at_home(env: TabletopTaskEnv) -> None:
    turns, places = [], []
    for seed in SEEDS:
        observation = env.reset(seed)
        row = observation.entities[1]
        assert np.abs(observation.state[5:8]).max() < 1e-3
        assert np.abs(row[9:15]).max() < 2e-3
        np.testing.assert_allclose(observation.state[:3], (1.342, 0.749, 0.535), atol=2e-3)
        assert 0.41 < row[2] < 0.435
        turns.append(row[8])
        places.append(row[:2])
    assert np.ptp(turns) > 4.0
    assert np.all(np.ptp(places, axis=0) > (0.3, 0.45))


def test_goals_are_on_the_table_in_the_air_and_on_other_things(env: TabletopTaskEnv) -> None:
    kinds = {"surface": 0, "air": 0, "stack": 0}
    for seed in range(80):
        start = env.reset(seed).achieved[1]
        goal = env.goal
        assert (goal.entity, goal.mask.all()) == (OBJECT, True)
        assert FETCH_ENVELOPE.contains(goal.value.astype(float))
        others = [item for item in env.scene_state().entities if item.role == "object" and item.id != OBJECT]
        beneath = [o for o in others if np.hypot(*(goal.value[:2] - o.center_b_m[:2])) < 1e-3]
        if goal.value[2] - start[2] < 1e-3:
            kinds["surface"] += 1
            assert all(np.hypot(*(goal.value[:2] - o.center_b_m[:2])) > env.config.gap_m for o in others)
        elif beneath:
            kinds["stack"] += 1
            half = env.scene_state().entity(OBJECT).half_extents_m[2]
            top = beneath[0].center_b_m[2] + beneath[0].half_extents_m[2]
            assert goal.value[2] == pytest.approx(top + half, abs=1e-3)
        else:
            kinds["air"] += 1
            assert 0.029 < goal.value[2] - start[2] < 0.251
        assert np.linalg.norm(goal.value - start) >= env.config.least_m - 1e-3 or beneath
    assert kinds["surface"] > 20
    assert kinds["air"] > 20
    assert kinds["stack"] > 1


def test_success_is_within_its_own_tolerance(env: TabletopTaskEnv) -> None:
    observation = env.reset(1)
    here = observation.achieved[env.spec.layout.entity_index(GRIPPER)]
    goal = env.goal
    for off, met in ((0.9, True), (1.3, False)):
        env.set_goal(type(goal)(GRIPPER, here + np.array([0, 0, off * env.spec.tolerance], np.float32), goal.mask))
        assert env.step(np.zeros(4, dtype=np.float32)).success == met


@pytest.mark.parametrize("things", range(1, 7))
def test_steps_are_those_of_plain_mujoco(things: int) -> None:
    """The same episodes with everything computed after each step, observed and judged with arrays."""
    env, rng = TabletopTaskEnv(TabletopTaskConfig(scenes=1, things=(things,))), np.random.default_rng(things)
    arm, plain = FetchArm(env.model, env.frame), mujoco.MjData(env.model)
    reader = SceneReader(env.model, env.frame, FETCH)
    for seed in range(2):
        start = env.reset(seed)
        mujoco.mj_copyData(plain, env.model, env.data)
        for wish in (env.goal, Goal(GRIPPER, start.achieved[0] + np.float32(0.02), np.array([True, False, True]))):
            env.set_goal(wish)
            for _ in range(15):
                action = np.clip(rng.uniform(-1.2, 1.2, 4), -1.0, 1.0).astype(np.float32)
                step = env.step(action)
                arm.apply(plain, action)
                mujoco.mj_step(env.model, plain, arm.substeps)
                mujoco.mj_forward(env.model, plain)
                np.testing.assert_array_equal(env.data.qpos, plain.qpos)
                np.testing.assert_array_equal(env.data.qvel, plain.qvel)
                compare(step, plain_numbers(env.model, plain), env)
        assert env.scene_state() == reader.read(plain)
    env.close()


def compare(step: Step, expected: tuple[np.ndarray, np.ndarray], env: TabletopTaskEnv) -> None:
    """Observation, reward and success against the robot's numbers (10,) and the thing's (15,)."""
    (state, row), seen = expected, step.observation
    rows, places = entity_rows(row[None]), np.stack([state[:3], row[:3]]).astype(np.float32)
    for ours, theirs in ((seen.state, state), (seen.entities, rows), (seen.achieved, places)):
        assert ours.dtype == np.float32
        np.testing.assert_allclose(ours, theirs, rtol=1e-6, atol=1e-9)
    chosen = env.spec.layout.entity_index(env.goal.entity)
    outcome = env.reward(seen.achieved[[chosen]], env.goal.value[None], env.goal.mask[None])
    assert (step.reward, step.success) == (outcome.reward[0], outcome.success[0])


def plain_numbers(model: mujoco.MjModel, data: mujoco.MjData) -> tuple[np.ndarray, np.ndarray]:
    """What `MujocoFetchEnv._get_obs` computes; frame B is the world in these scenes."""
    grip, thing, period = model.site("robot0:grip").id, model.body(OBJECT).id, 0.04
    jacobians = np.zeros((4, 3, model.nv))
    mujoco.mj_jacSite(model, data, jacobians[0], jacobians[1], grip)
    mujoco.mj_jacBody(model, data, jacobians[2], jacobians[3], thing)
    carried, _, moving, turning = jacobians @ data.qvel * period
    fingers = [data.joint(f"robot0:{side}_gripper_finger_joint") for side in "rl"]
    lengths = [float(finger.qpos[0]) for finger in fingers]
    speeds = [float(finger.qvel[0]) * period for finger in fingers]
    here, place = data.site_xpos[grip], data.xpos[thing]
    angles = rotations.mat2euler(data.xmat[thing].reshape(3, 3))
    state = np.concatenate([here, lengths, carried, speeds])
    return state, np.concatenate([place, place - here, angles, moving - carried, turning])


@pytest.mark.parametrize(
    "wrong", [{"scenes": 0}, {"things": ()}, {"surface_goals": 0.9, "stack_goals": 0.2}, {"stack_goals": -1.0}]
)
def test_what_cannot_be_is_refused(wrong: dict) -> None:
    with pytest.raises(UserError):
        TabletopTaskConfig(**wrong)
