"""Driving in rooms: the ball is that of the mazes, the floor is what it can stand on, closed doors are named."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import mujoco
import numpy as np
import pytest
from embodied_launch import api

from embodied.errors import JobFailed
from embodied.protocols import SceneEnv
from embodied.types import Goal, Plan, PlanFailure
from robots.base import CheckedSceneEnv, checked
from robots.maze import PointMazeEnv
from robots.rooms import RoomsEnv

DOORS = """<mujoco><option timestep="0.01"/><worldbody>
<geom type="plane" size="6 6 0.1"/>
<geom type="box" pos="0 2 0.5" size="0.1 1 0.5"/><geom type="box" pos="0 -2 0.5" size="0.1 1 0.5"/>
<geom type="box" pos="0 3 0.5" size="3 0.1 0.5"/><geom type="box" pos="0 -3 0.5" size="3 0.1 0.5"/>
<geom type="box" pos="3 0 0.5" size="0.1 3 0.5"/><geom type="box" pos="-3 0 0.5" size="0.1 3 0.5"/>
<body name="gate" pos="0 -0.9 0.5"><joint name="hinge" damping="50" axis="0 0 1" pos="0 0 0"/>
<geom type="box" pos="0 1 0" size="0.05 1 0.5" mass="5"/></body>
<body name="red_pillar" pos="2 0 0.5"><geom type="cylinder" size="0.2 0.5" rgba="0.85 0.1 0.1 1"/></body>
<site name="start" pos="-2 0 0.1"/></worldbody></mujoco>"""


@pytest.fixture(scope="module")
def env() -> Iterator[CheckedSceneEnv]:
    made = checked(RoomsEnv("rooms"))
    assert isinstance(made, CheckedSceneEnv)
    yield made
    made.close()


def test_it_is_a_scene_env_that_begins_at_rest_on_its_site(env: CheckedSceneEnv) -> None:
    assert isinstance(env, SceneEnv)
    observation = env.reset(0)
    assert not observation.state.any()
    state = env.scene_state()
    np.testing.assert_allclose(state.robot_position_m[:2], (-3.5, -3.0))
    assert {e.id for e in state.entities if e.role == "landmark"} >= {"red_pillar", "green_pillar"}
    assert not any("robot" in pair for pair in state.contacts), "nothing rubs against the ball"


def test_the_same_forces_move_it_as_in_the_maze(env: CheckedSceneEnv) -> None:
    maze = PointMazeEnv("point_large")
    maze.reset(0)
    start = maze.data.qpos.copy()
    maze.data.qvel[:] = 0.0
    env.reset(0)
    for force in ((0.3, 0.0), (0.1, 0.2), (-0.2, 0.1)):
        ours = env.step(np.float32(force)).observation
        theirs = maze.step(np.float32(force)).observation
    np.testing.assert_allclose(ours.achieved[0, :2], theirs.achieved[0, :2] - start, atol=2e-4)
    np.testing.assert_allclose(ours.state[2:], theirs.state[2:], rtol=0.02)
    maze.close()


def test_the_floor_is_free_where_there_is_room_and_not_in_walls(env: CheckedSceneEnv) -> None:
    env.reset(0)
    floor = env.floor()

    def clearance(x: float, y: float) -> int:
        i, j = round((x + 3.5 - floor.corner_m[0]) / floor.cell_m), round((y + 3.0 - floor.corner_m[1]) / floor.cell_m)
        return int(floor.clearance[i, j])

    assert clearance(-3.5, -3.0) == 6
    assert [clearance(*p) for p in ((3.0, 0.0), (0.0, -4.0), (5.5, 5.5), (0.0, 5.6))] == [0, 0, 0, 0]
    assert clearance(0.0, 2.4) > 0, "the door between the upper rooms"
    assert clearance(0.0, 3.05) < clearance(-2.0, 4.0)
    assert floor.movable == ()


def test_goals_of_the_robot_are_taken(env: CheckedSceneEnv) -> None:
    env.reset(0)
    env.set_goal(Goal("robot", np.array([0.5, 0.0, 0.0], np.float32), np.array([True, True, False])))
    assert env.goal.distance(env.step(np.zeros(2, np.float32)).observation.achieved[0]) == pytest.approx(0.5)


def test_a_closed_door_is_refused_by_name_and_an_open_one_is_driven_through(tmp_path: Path) -> None:
    shut = tmp_path / "shut.xml"
    shut.write_text(DOORS)
    made = api.plan(str(shut), "go to the red pillar")
    assert isinstance(made.plan, PlanFailure)
    assert made.plan.reason == "unreachable"
    assert made.plan.message == "go_to(red_pillar): blocked by gate"
    ajar = tmp_path / "ajar.xml"
    ajar.write_text(DOORS.replace('pos="0 -0.9 0.5"><joint', 'pos="0 -0.9 0.5" euler="0 0 90"><joint'))
    made = api.plan(str(ajar), "go to the red pillar", execute=True, film=False, out=tmp_path / "out")
    assert isinstance(made.plan, Plan)
    assert made.ok, made.report
    model = mujoco.MjModel.from_xml_path(str(made.files["compiled_scene"]))
    saved = np.load(made.files["states"])
    data = mujoco.MjData(model)
    data.qpos[:] = saved["qpos"][-1]
    mujoco.mj_forward(model, data)
    ball = next(i for i in range(model.nbody) if model.body(i).name.endswith("particle"))
    assert np.hypot(*(data.xpos[ball][:2] - (2.0, 0.0))) <= 1.5
    assert np.abs(saved["qvel"][-1]).max() < 0.3, "it holds"


def test_without_a_start_there_is_nowhere_to_begin(tmp_path: Path) -> None:
    scene = tmp_path / "nowhere.xml"
    scene.write_text(DOORS.replace('<site name="start" pos="-2 0 0.1"/>', ""))
    with pytest.raises(JobFailed, match="'start'"):
        RoomsEnv(scene)
