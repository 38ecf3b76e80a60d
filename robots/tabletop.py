"""Any MJCF scene with things on a table, and the Fetch arm before it: a `SceneEnv` whose goals come from outside."""

from __future__ import annotations

from pathlib import Path

import mujoco
import numpy as np
from numpy.typing import NDArray

from embodied.spec import EnvSpec, Layout, width_of
from embodied.types import GRIPPER, FloatArray, Frame, Goal, Observation, SceneState, Step
from robots.assembly import build_arm_scene
from robots.base import (
    ENTITY_TERMS,
    FETCH_ACTIONS,
    FETCH_STATE_TERMS,
    OBJECT_TERMS,
    POSITION_GOAL,
    clip_action,
    entity_rows,
    no_goal,
)
from robots.fetch_arm import FetchArm, check_stable
from robots.placement import Base, Placement, place_arm
from robots.rendering import SceneRenderer
from robots.rewards import NegativeSparseReward
from robots.scene import resolve_scene, scene_model
from robots.scene_state import SceneReader

HORIZON = 150
CONTROL_HZ = 25.0
TOLERANCE_M = 0.05


class TabletopEnv:
    """A scene with the arm in it.

    State (10,), entity features (16,), goals and actions are those of the Fetch tasks, in frame B; entities are
    `gripper` and every free body, by its id. The objects start where the scene has them; the seed of `reset` changes
    nothing, because the scene is what it is.

    Args:
        scene: A shipped scene's name or a path to an MJCF file.
        base: The arm's base by hand: x, y, z (m, world), yaw (degrees); else it is placed by the rule of
            `robots.placement`.
        out_dir: Where `scene_compiled.xml` and its assets are written; a temporary folder without it.

    Raises:
        SceneError: The scene cannot be used; one line says why.
        JobFailed: `unreachable`: there is no surface to put the arm before.
    """

    def __init__(
        self, scene: str | Path = "tabletop_blocks", base: Base | None = None, out_dir: Path | None = None
    ) -> None:
        self.scene_path = resolve_scene(scene)
        self.placement: Placement = _placed(self.scene_path, base)
        self._scene = build_arm_scene(self.scene_path, self.placement, out_dir)
        self.model, self.frame, self.robot = self._scene.model, self._scene.frame, self._scene.robot
        self.compiled_scene: Path = self._scene.path
        self.data = mujoco.MjData(self.model)
        self.arm = FetchArm(self.model, self.frame, self.robot)
        self._reader = SceneReader(self.model, self.frame, self.robot)
        self._bodies = [self._reader.body_of(name) for name in self._reader.object_ids]
        self.spec = _spec((GRIPPER, *self._reader.object_ids))
        self.reward = NegativeSparseReward(TOLERANCE_M)
        self._renderer = SceneRenderer(self.model)
        self._goal, self._goal_row, self._steps = no_goal(GRIPPER, 3), 0, 0

    @property
    def goal(self) -> Goal:
        """The goal that rewards and successes speak of; before the first episode it says nothing."""
        return self._goal

    def reset(self, seed: int) -> Observation:
        """The scene as its file has it, settled, with the arm at home; the goal is to stay there."""
        del seed
        mujoco.mj_resetData(self.model, self.data)
        self.arm.home(self.data)
        check_stable(self.data)
        self._steps = 0
        observation = self._observation()
        self.set_goal(Goal(GRIPPER, observation.achieved[0], np.ones(3, dtype=bool)))
        return observation

    def step(self, action: FloatArray) -> Step:
        """One control period of 0.04 s; an episode goes on after its time limit for as long as it is stepped.

        Raises:
            SceneError: The simulation became unstable.
        """
        executed = clip_action(action, self.spec)
        self.arm.step(self.data, executed)
        check_stable(self.data)
        self._steps += 1
        observation, goal = self._observation(), self._goal
        outcome = self.reward(observation.achieved[[self._goal_row]], goal.value[None], goal.mask[None])
        return Step(
            observation=observation,
            action=executed,
            reward=float(outcome.reward[0]),
            terminated=False,
            truncated=self._steps >= self.spec.horizon,
            success=bool(outcome.success[0]),
        )

    def set_goal(self, goal: Goal) -> None:
        """Pursue this goal from now on."""
        self._goal_row = self.spec.layout.entity_index(goal.entity)
        self._goal = goal

    def scene_state(self) -> SceneState:
        """The scene at the simulation's present qpos and qvel."""
        return self._reader.read(self.data)

    def render(self, camera: str | None = None, width: int = 320, height: int = 240, depth: bool = False) -> Frame:
        """A picture; without a name from the scene's first own camera, else from one that shows the work area."""
        return self._renderer.render(self.data, camera, width, height, depth)

    def record(self) -> tuple[float, NDArray[np.float64], NDArray[np.float64]]:
        """(time in s, qpos, qvel) now; with `compiled_scene` everything else can be recomputed from them."""
        return float(self.data.time), self.data.qpos.copy(), self.data.qvel.copy()

    def close(self) -> None:
        """Frees the renderer and, where no folder was named, the files of the compiled scene."""
        self._renderer.close()
        if self._scene.folder is not None:
            self._scene.folder.cleanup()

    def _observation(self) -> Observation:
        state = self.arm.observe(self.data)
        objects = [self.arm.observe_object(self.data, body) for body in self._bodies]
        entities = entity_rows(np.reshape(objects, (-1, width_of(OBJECT_TERMS))))
        achieved = np.vstack([state[:3], entities[1:, :3]])
        cast = [array.astype(np.float32) for array in (state, entities, achieved)]
        return Observation(*cast, layout=self.spec.layout)


def _placed(path: Path, base: Base | None) -> Placement:
    """Where the arm stands, judged on the scene as its file has it."""
    model = scene_model(path)
    data = mujoco.MjData(model)
    mujoco.mj_forward(model, data)
    return place_arm(model, data, base)


def _spec(entities: tuple[str, ...]) -> EnvSpec:
    return EnvSpec(
        task="tabletop",
        robot="fetch",
        layout=Layout(FETCH_STATE_TERMS, ENTITY_TERMS, POSITION_GOAL, entities),
        actions=FETCH_ACTIONS,
        action_low=(-1.0,) * 4,
        action_high=(1.0,) * 4,
        horizon=HORIZON,
        control_hz=CONTROL_HZ,
        tolerance=TOLERANCE_M,
        success_rule="last",
        reward_range=(-1.0, 0.0),
        goal_entity=GRIPPER,
    )
