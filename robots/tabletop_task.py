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
from embodied.types import GRIPPER, FloatArray, Goal, Observation
from robots.assembly import build_arm_scene
from robots.base import arm_observation, fetch_task_spec
from robots.fetch_arm import CONTROL_PERIOD_S, FetchArm
from robots.goal_scene import GoalScene, Simulation
from robots.rewards import NegativeSparseReward
from robots.scene import place_in_scene
from robots.scene_maker import MadeScene, free_centres, make_scene, surface_m

OBJECT = "object0"
SKILLS = ("pick", "place", "push", "stack")
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


class TabletopTaskEnv(GoalScene):
    """The task `tabletop` as a `SceneEnv`.

    State (10,), entities `gripper` and `object0` with 16 features each, goals (positions in B, metres) and actions are
    those of the Fetch tasks; the other things of a scene are there but not observed.

    Args:
        config: What episodes are made of; the defaults where None.
    """

    def __init__(self, config: TabletopTaskConfig | None = None) -> None:
        self.config = config or TabletopTaskConfig()
        self._pool: dict[int, _PoolScene] = {}
        self._scene = self._pool_scene(0)
        entities, horizon, tolerance = (GRIPPER, OBJECT), self.config.horizon, self.config.tolerance_m
        spec = fetch_task_spec("tabletop", entities, OBJECT, horizon, 1.0 / CONTROL_PERIOD_S, tolerance, SKILLS)
        super().__init__(self._scene, spec, NegativeSparseReward(tolerance))

    def _begin(self, seed: int) -> tuple[Observation, Goal]:
        """Scene, places, turns and the goal are drawn from the seed; the things lie still and the arm is at home."""
        rng = child_generator(seed, "tabletop")
        scene = self._pool_scene(int(rng.integers(self.config.scenes)))
        if scene is not self._scene:
            self._scene.renderer.close()
            self._scene = scene
            self._move_to(scene)
        scene.begin(rng)
        return self._observe(), Goal(OBJECT, self._draw_goal(rng), np.ones(3, dtype=bool))

    def _simulate(self, action: FloatArray) -> None:
        """0.04 s; raises `SceneError` where the simulation became unstable."""
        self._scene.arm.step_unseen(self.data, action)

    def _observe(self) -> Observation:
        scene = self._scene
        return arm_observation(*scene.arm.observe_all(scene.data, scene.observed), self._layout)

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


class _PoolScene(Simulation):
    """A made scene with the arm in it, compiled once."""

    def __init__(self, made: MadeScene) -> None:
        first = replace(made.things[0], name=OBJECT)
        made = replace(made, things=(first, *made.things[1:]))
        with tempfile.TemporaryDirectory(prefix="made_scene_") as folder:
            path = made.write(Path(folder))
            scene = build_arm_scene(path, place_in_scene(path), Path(folder) / "compiled")
        super().__init__(scene.model, mujoco.MjData(scene.model), scene.frame, scene.robot)
        self.arm = FetchArm(self.model, self.frame, self.robot)
        self.bodies = [self.model.body(thing.name).id for thing in made.things]
        self.observed = self.bodies[:1]
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

    def places(self) -> np.ndarray:
        """Centres of the things in B, (N, 3)."""
        return self.frame.to_base(self.data.xpos[self.bodies])
