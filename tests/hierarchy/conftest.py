"""A kinematic world: a point gripper over a table, boxes that it touches, and scripted controllers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pytest

from embodied.spec import EnvSpec, Layout, Term
from embodied.types import (
    BaseFrame,
    DescribedObject,
    EntityState,
    Fact,
    FloatArray,
    Frame,
    Goal,
    Observation,
    PolicyManifest,
    SceneDescription,
    SceneState,
    Step,
)

ACTIONS = (Term("grip_delta", 3, "0.05 m", "base"), Term("fingers", 1, "1", "joint"))
TIP_M = 0.0185


class World:
    """Implements `SceneEnv`: each step the gripper moves by 0.05 m times the action, in B; nothing else moves."""

    reward = None

    def __init__(self, frame: BaseFrame | None = None, **things: tuple[float, float, float]) -> None:
        self.frame = frame or BaseFrame()
        self.centres = {name: np.asarray(at, dtype=np.float64) for name, at in things.items()}
        self.half = np.full(3, 0.025)
        layout = Layout((), (), (Term("position", 3, "m"),), ("gripper", *things))
        self.spec = EnvSpec(
            task="fake", robot="fetch", layout=layout, actions=ACTIONS, action_low=(-1.0,) * 4, action_high=(1.0,) * 4,
            horizon=10, control_hz=25.0, tolerance=0.05, success_rule="last", reward_range=(-1.0, 0.0),
            goal_entity="gripper",
        )  # fmt: skip
        self.goal = Goal("gripper", np.zeros(3), np.ones(3, dtype=bool))
        self.actions: list[FloatArray] = []
        self.after: Callable[[World], None] = lambda world: None
        self.ends_at: int | None = None

    def reset(self, seed: int) -> Observation:
        del seed
        self.grip = np.array([1.34, 0.75, 0.535])
        return self.observe()

    def observe(self) -> Observation:
        rows = np.stack([self.grip, *self.centres.values()]).astype(np.float32)
        empty = np.zeros((len(rows), 0), dtype=np.float32)
        return Observation(np.zeros(0, dtype=np.float32), empty, rows, self.spec.layout)

    def step(self, action: FloatArray) -> Step:
        action = np.clip(action, -1, 1)
        self.actions.append(action)
        self.grip = self.grip + 0.05 * action[:3].astype(np.float64)
        self.after(self)
        ended = self.ends_at is not None and len(self.actions) >= self.ends_at
        return Step(self.observe(), action, 0.0, ended, len(self.actions) >= self.spec.horizon, False)

    def set_goal(self, goal: Goal) -> None:
        self.goal = goal

    def scene_state(self) -> SceneState:
        tip = self.grip - (0.0, 0.0, TIP_M)
        entities, contacts = [], set()
        for name, centre in self.centres.items():
            at = tuple(float(v) for v in self.frame.to_world(centre))
            colour = name.partition("_")[0]
            quaternion = (1.0, 0.0, 0.0, 0.0)
            b, half = tuple(map(float, centre)), tuple(map(float, self.half))
            entities.append(EntityState(name, name, "object", "block", colour, b, half, at, quaternion))
            if np.all(np.abs(tip - centre) <= self.half + 1e-3):
                contacts.add(tuple(sorted(("gripper", name))))
        grip = tuple(float(v) for v in self.frame.to_world(self.grip))
        time_s = len(self.actions) / 25.0
        return SceneState(
            tuple(entities), frozenset(contacts), self.frame, "fetch", gripper_position_m=grip, time_s=time_s
        )

    def render(self, camera: str | None = None, width: int = 8, height: int = 8, depth: bool = False) -> Frame:
        return Frame(np.zeros((height, width, 3), dtype=np.uint8), camera or "none")

    def close(self) -> None: ...


class Scripted:
    """Proportional control of the gripper; `short` stops that far from the goal, `act_as` replaces the law."""

    def __init__(
        self, short: float = 0.0, gain: float = 10.0, act_as: Callable[[Observation, Goal], FloatArray] | None = None
    ) -> None:
        self.manifest = PolicyManifest(
            task="scripted", robot="fetch", robot_terms=(), entity_terms=(), goal_terms=(), action_terms=ACTIONS,
            action_low=(-1.0,) * 4, action_high=(1.0,) * 4, goal_entity="gripper", skills=("reach", "touch"),
            frame="base", control_hz=25.0, tolerance=0.05,
        )  # fmt: skip
        self.short, self.gain, self.act_as = short, gain, act_as
        self.goals: list[Goal] = []

    def act(self, observation: Observation, goal: Goal) -> FloatArray:
        self.goals.append(goal)
        if self.act_as is not None:
            return self.act_as(observation, goal)
        error = goal.value - observation.achieved[observation.layout.entity_index(goal.entity)]
        distance = float(np.linalg.norm(error))
        move = error * max(distance - self.short, 0.0) / max(distance, 1e-9)
        return np.append(np.clip(self.gain * move, -1, 1), 1.0).astype(np.float32)  # asks for open fingers


class Teller:
    """A describer that tells the world's state and counts how often it was asked."""

    name = "teller"

    def __init__(self, world: World) -> None:
        self.world, self.asked = world, 0

    def describe(self, frames: Sequence[Frame] = ()) -> SceneDescription:
        self.asked += 1
        state = self.world.scene_state()
        objects = tuple(
            DescribedObject(e.id, e.role, e.kind, e.colour, e.position_m, e.half_extents_m, 1.0) for e in state.entities
        )
        facts: tuple[Fact, ...] = ()
        return SceneDescription(objects, facts, (), "", "", "world", state.frame)


@pytest.fixture
def world() -> World:
    made = World(red_block=(1.22, 0.75, 0.425), blue_block=(1.38, 0.83, 0.425), green_block=(1.38, 0.68, 0.425))
    made.reset(0)
    return made


@pytest.fixture
def turned_world() -> World:
    frame = BaseFrame((2.0, -1.0, 0.3), 1.1)
    made = World(frame, red_block=(1.22, 0.75, 0.425), blue_block=(1.38, 0.83, 0.425))
    made.reset(0)
    return made


@pytest.fixture
def scripted() -> type[Scripted]:
    return Scripted


@pytest.fixture
def teller() -> type[Teller]:
    return Teller


@pytest.fixture
def wrong_actions() -> Scripted:
    controller = Scripted()
    controller.manifest = replace(controller.manifest, task="maze", action_terms=(Term("force", 2, "N"),))
    return controller
