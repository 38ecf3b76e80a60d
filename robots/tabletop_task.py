"""Picking, placing, pushing and stacking in random scenes: the task that a controller for any table is trained on.

Every episode has one of a fixed number of made scenes, its things at new places, and a wish about the first of them,
which is called `object0` in all of them: observation, goals and actions are those of `fetch_pick_place`.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import mujoco
import numpy as np

from embodied.errors import UserError
from embodied.rng import child_generator
from embodied.spec import EnvSpec, Layout
from embodied.types import GRIPPER, BaseFrame, FloatArray, Frame, Goal, Observation, SceneState, Step
from robots.assembly import build_arm_scene
from robots.base import (
    ENTITY_TERMS,
    FETCH_ACTIONS,
    FETCH_STATE_TERMS,
    POSITION_GOAL,
    entity_rows,
    no_goal,
)
from robots.fetch_arm import FetchArm, check_stable
from robots.placement import Placement, place_arm
from robots.rendering import SceneRenderer
from robots.rewards import NegativeSparseReward
from robots.scene import scene_model
from robots.scene_maker import MadeScene, free_centres, make_scene, surface_m
from robots.scene_state import SceneReader

OBJECT = "object0"
GoalKind = Literal["surface", "air", "stack"]


@dataclass(frozen=True)
class TabletopTaskConfig:
    """What episodes are made of; lengths in metres."""

    scenes: int = 40
    """Made scenes to choose from; each is compiled when it is first needed."""
    things: tuple[int, ...] = (1, 2, 1, 1, 2, 1, 1, 3, 1, 2)
    """How many things scene i has: entry i modulo the length."""
    tolerance_m: float = 0.025
    horizon: int = 50
    surface_goals: float = 0.45
    """Share of the goals on the table."""
    stack_goals: float = 0.15
    """Share on top of another thing, in scenes that have one; the others are in the air."""
    air_m: tuple[float, float] = (0.03, 0.25)
    """How far above the table the thing shall be held."""
    near_m: float = 0.15
    """Half of the goals in the air and on the table are within so much of the thing in x and y."""
    far_m: float = 0.30
    """All of them are."""
    least_m: float = 0.06
    """No goal is nearer to where the thing begins."""
    gap_m: float = 0.09
    """Least horizontal distance of a goal on the table from other things."""

    def __post_init__(self) -> None:
        if self.scenes < 1 or not self.things:
            raise UserError("the tabletop task needs at least one scene")
        if not 0.0 <= self.surface_goals + self.stack_goals <= 1.0:
            raise UserError("surface_goals and stack_goals must add up to at most 1")


class TabletopTaskEnv:
    """The task `tabletop` as a `SceneEnv`.

    State (10,), entities `gripper` and `object0` with 16 features each, goals (positions in B, metres) and actions are
    those of the Fetch tasks; the other things of a scene are there but not observed.

    Args:
        config: What episodes are made of; the defaults where None.
    """

    def __init__(self, config: TabletopTaskConfig | None = None) -> None:
        self.config = config or TabletopTaskConfig()
        self.spec = _spec(self.config)
        self.reward = NegativeSparseReward(self.config.tolerance_m)
        self._limits = np.array(self.spec.action_low, np.float32), np.array(self.spec.action_high, np.float32)
        self._pool: dict[int, _PoolScene] = {}
        self._scene = self._pool_scene(0)
        self._renderer: tuple[_PoolScene, SceneRenderer] | None = None
        self._goal, self._goal_row, self._steps = no_goal(OBJECT, 3), 1, 0

    @property
    def model(self) -> mujoco.MjModel:
        """The present scene's."""
        return self._scene.model

    @property
    def data(self) -> mujoco.MjData:
        """The present scene's."""
        return self._scene.data

    @property
    def frame(self) -> BaseFrame:
        """Frame B."""
        return self._scene.frame

    @property
    def goal(self) -> Goal:
        """The goal that rewards and successes speak of; before the first episode it says nothing."""
        return self._goal

    def reset(self, seed: int) -> Observation:
        """Scene, places, turns and the goal are drawn from the seed; the things lie still and the arm is at home."""
        rng = child_generator(seed, "tabletop")
        self._scene = self._pool_scene(int(rng.integers(self.config.scenes)))
        self._scene.begin(rng)
        self._steps = 0
        self.set_goal(Goal(OBJECT, self._draw_goal(rng), np.ones(3, dtype=bool)))
        return self._observation()

    def step(self, action: FloatArray) -> Step:
        """One control period of 0.04 s; an episode goes on after its time limit for as long as it is stepped."""
        executed = np.clip(np.asarray(action, dtype=np.float32), *self._limits)
        scene, goal = self._scene, self._goal
        scene.arm.step(scene.data, executed)
        check_stable(scene.data)
        self._steps += 1
        observation = self._observation()
        outcome = self.reward(observation.achieved[[self._goal_row]], goal.value[None], goal.mask[None])
        truncated = self._steps >= self.spec.horizon
        return Step(observation, executed, float(outcome.reward[0]), False, truncated, bool(outcome.success[0]))

    def set_goal(self, goal: Goal) -> None:
        """Pursue this goal from now on."""
        self._goal_row = self.spec.layout.entity_index(goal.entity)
        self._goal = goal

    def scene_state(self) -> SceneState:
        """The scene at the simulation's present qpos and qvel."""
        return self._scene.reader.read(self._scene.data)

    def render(self, camera: str | None = None, width: int = 320, height: int = 240, depth: bool = False) -> Frame:
        """A picture of the present scene."""
        if self._renderer is None or self._renderer[0] is not self._scene:
            if self._renderer is not None:
                self._renderer[1].close()
            self._renderer = (self._scene, SceneRenderer(self._scene.model))
        return self._renderer[1].render(self._scene.data, camera, width, height, depth)

    def close(self) -> None:
        """Frees the renderer."""
        if self._renderer is not None:
            self._renderer[1].close()
            self._renderer = None

    def _pool_scene(self, index: int) -> _PoolScene:
        if index not in self._pool:
            made = make_scene(index, self.config.things[index % len(self.config.things)])
            self._pool[index] = _PoolScene(made)
        return self._pool[index]

    def _draw_goal(self, rng: np.random.Generator) -> FloatArray:
        """Where the thing shall be, (3,) in B: on the table, in the air or on another thing."""
        config, scene = self.config, self._scene
        places = scene.places()
        here, others = places[0], places[1:]
        kind = self._draw_kind(rng, len(others))
        if kind == "stack":
            chosen = int(rng.integers(len(others)))
            top = others[chosen, 2] + scene.half_heights[1 + chosen] + scene.half_heights[0]
            return np.array([*others[chosen, :2], top], dtype=np.float32)
        reach = config.near_m if rng.random() < 0.5 else config.far_m
        low, high = surface_m(0.03)
        for _ in range(100):
            spot = rng.uniform(np.maximum(here[:2] - reach, low), np.minimum(here[:2] + reach, high))
            height = float(rng.uniform(*config.air_m)) if kind == "air" else 0.0
            target = np.array([*spot, here[2] + height])
            clear = (
                kind == "air" or not len(others) or np.linalg.norm(others[:, :2] - spot, axis=1).min() > config.gap_m
            )
            if clear and np.linalg.norm(target - here) >= config.least_m:
                return target.astype(np.float32)
        return (here + [0.0, 0.0, config.air_m[1]]).astype(np.float32)

    def _draw_kind(self, rng: np.random.Generator, others: int) -> GoalKind:
        share = float(rng.random())
        if share < self.config.surface_goals:
            return "surface"
        return "stack" if others and share < self.config.surface_goals + self.config.stack_goals else "air"

    def _observation(self) -> Observation:
        scene = self._scene
        state, objects = scene.arm.observe_all(scene.data, scene.bodies[:1])
        entities = entity_rows(objects)
        achieved = np.vstack([state[:3], entities[1, :3]])
        return Observation(state.astype(np.float32), entities, achieved.astype(np.float32), self.spec.layout)


class _PoolScene:
    """A made scene with the arm in it, compiled once."""

    def __init__(self, made: MadeScene) -> None:
        first = replace(made.things[0], name=OBJECT)
        made = replace(made, things=(first, *made.things[1:]))
        with tempfile.TemporaryDirectory(prefix="made_scene_") as folder:
            path = made.write(Path(folder))
            scene = build_arm_scene(path, _placed(path), Path(folder) / "compiled")
        self.model, self.frame = scene.model, scene.frame
        self.data = mujoco.MjData(self.model)
        self.arm = FetchArm(self.model, self.frame, scene.robot)
        self.reader = SceneReader(self.model, self.frame, scene.robot)
        self.bodies = np.array([self.model.body(thing.name).id for thing in made.things], dtype=np.intp)
        self.half_heights = [thing.half_height_m for thing in made.things]
        self._heights = [thing.position_m[2] for thing in made.things]
        self._addresses = [int(self.model.jnt_qposadr[self.model.body_jntadr[body]]) for body in self.bodies]

    def begin(self, rng: np.random.Generator) -> None:
        """All things at new places, turned anyhow, at rest; the arm at home."""
        centres = None
        while centres is None:
            centres = free_centres(rng, len(self.bodies))
        mujoco.mj_resetData(self.model, self.data)
        turns = rng.uniform(-np.pi, np.pi, len(self.bodies)) / 2
        for address, centre, height, turn in zip(self._addresses, centres, self._heights, turns, strict=True):
            place = self.frame.to_world(np.array([*centre, height]))
            self.data.qpos[address : address + 7] = [*place, np.cos(turn), 0.0, 0.0, np.sin(turn)]
        self.arm.home(self.data)
        check_stable(self.data)

    def places(self) -> np.ndarray:
        """Centres of the things in B, (N, 3)."""
        return self.frame.to_base(self.data.xpos[self.bodies])


def _placed(path: Path) -> Placement:
    """The arm where the rule has it."""
    model = scene_model(path)
    data = mujoco.MjData(model)
    mujoco.mj_forward(model, data)
    return place_arm(model, data)


def _spec(config: TabletopTaskConfig) -> EnvSpec:
    return EnvSpec(
        task="tabletop",
        robot="fetch",
        layout=Layout(FETCH_STATE_TERMS, ENTITY_TERMS, POSITION_GOAL, (GRIPPER, OBJECT)),
        actions=FETCH_ACTIONS,
        action_low=(-1.0,) * 4,
        action_high=(1.0,) * 4,
        horizon=config.horizon,
        control_hz=25.0,
        tolerance=config.tolerance_m,
        success_rule="last",
        reward_range=(-1.0, 0.0),
        goal_entity=OBJECT,
        skills=("pick", "place", "push", "stack"),
    )
