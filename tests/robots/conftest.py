"""Scenes with the Fetch arm in them, and the model of a module's own scene."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import mujoco
import pytest

from robots.assembly import ArmScene, build_arm_scene
from robots.placement import Placement
from robots.scene import place_in_scene


@pytest.fixture(scope="module")
def model(request: pytest.FixtureRequest) -> mujoco.MjModel:
    """The MJCF that the test's module calls SCENE, compiled."""
    return mujoco.MjModel.from_xml_string(request.module.SCENE)


@pytest.fixture(scope="module")
def data(model: mujoco.MjModel) -> mujoco.MjData:
    """Its state at the beginning."""
    data = mujoco.MjData(model)
    mujoco.mj_forward(model, data)
    return data


@pytest.fixture
def built() -> Callable[..., ArmScene]:
    """Puts the arm into a scene: where the rule has it, or `at` a position (m) and yaw (rad) of its base link."""
    return _built


def _built(
    scene: str | Path, at: tuple[tuple[float, float, float], float] | None = None, out: Path | None = None
) -> ArmScene:
    if at is not None:
        return build_arm_scene(scene, Placement(at[0], at[1], None), out)
    return build_arm_scene(scene, place_in_scene(scene), out)
