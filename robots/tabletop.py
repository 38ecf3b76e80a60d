"""Any MJCF scene with things on a table, and the Fetch arm before it: a `SceneEnv` whose goals come from outside."""

from __future__ import annotations

from pathlib import Path

import mujoco
import numpy as np
from numpy.typing import NDArray

from embodied.types import GRIPPER, FloatArray, Goal, Observation
from robots.assembly import build_arm_scene
from robots.base import arm_observation, fetch_task_spec
from robots.fetch_arm import FetchArm
from robots.goal_scene import GoalScene, Simulation
from robots.placement import Base, Placement
from robots.rewards import NegativeSparseReward
from robots.scene import SceneFile, place_in_scene, scene_file

HORIZON = 150
CONTROL_HZ = 25.0
TOLERANCE_M = 0.05


class TabletopEnv(GoalScene):
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
        self,
        scene: str | Path | SceneFile = "tabletop_blocks",
        base: Base | None = None,
        out_dir: Path | None = None,
    ) -> None:
        file = scene_file(scene)
        self.scene_path = file.path
        self.placement: Placement = place_in_scene(file, base)
        self._scene = built = build_arm_scene(file, self.placement, out_dir)
        self.compiled_scene: Path = built.path
        self.arm = FetchArm(built.model, built.frame, built.robot)
        simulation = Simulation(built.model, mujoco.MjData(built.model), built.frame, built.robot)
        things = simulation.reader.object_ids
        self._bodies = [simulation.reader.body_of(name) for name in things]
        spec = fetch_task_spec("tabletop", (GRIPPER, *things), GRIPPER, HORIZON, CONTROL_HZ, TOLERANCE_M)
        super().__init__(simulation, spec, NegativeSparseReward(TOLERANCE_M))

    def record(self) -> tuple[float, NDArray[np.float64], NDArray[np.float64]]:
        """(time in s, qpos, qvel) now; with `compiled_scene` everything else can be recomputed from them."""
        return float(self.data.time), self.data.qpos.copy(), self.data.qvel.copy()

    def close(self) -> None:
        """Frees the renderer and, where no folder was named, the files of the compiled scene."""
        super().close()
        if self._scene.folder is not None:
            self._scene.folder.cleanup()

    def _begin(self, seed: int) -> tuple[Observation, Goal]:
        """The scene as its file has it, settled, with the arm at home; the goal is to stay there."""
        del seed
        mujoco.mj_resetData(self.model, self.data)
        self.arm.home(self.data)
        observation = self._observe()
        return observation, Goal(GRIPPER, observation.achieved[0], np.ones(3, dtype=bool))

    def _simulate(self, action: FloatArray) -> None:
        """Raises `SceneError` where the simulation became unstable."""
        self.arm.step(self.data, action)

    def _observe(self) -> Observation:
        return arm_observation(*self.arm.observe_all(self.data, self._bodies), self._layout)

    def _shown(self) -> mujoco.MjData:
        """The simulation itself: the arm leaves positions and contacts that belong to its state."""
        return self.data
