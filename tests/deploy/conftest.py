from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from embodied.export.bundle import export_bundle
from embodied.export.recording import record_steps
from embodied.learning.controller import manifest_of
from embodied.types import FloatArray, Goal, Observation


class TowardsGoal(torch.nn.Module):
    """Moves the grip towards the goal in proportion to the distance: solves fetch_reach."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("gain", torch.tensor(10.0))

    def forward(self, observation: torch.Tensor, goal: torch.Tensor) -> torch.Tensor:
        move = torch.tanh(self.gain * (goal - observation[:, :3]))
        return torch.cat((move, 0.0 * move[:, :1]), -1)


@pytest.fixture(scope="session")
def reach_bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A bundle for fetch_reach, exported from a small module. Copy it before changing it."""
    from robots.registry import make_env

    env, module = make_env("fetch_reach"), TowardsGoal()

    @torch.inference_mode()
    def act(observation: Observation, goal: Goal) -> FloatArray:
        return module(torch.from_numpy(observation.state[None]), torch.from_numpy(goal.value[None]))[0].numpy()

    controller = SimpleNamespace(manifest=manifest_of(env.spec), module=module, act=act)
    out = tmp_path_factory.mktemp("bundles") / "reach"
    export_bundle(controller, record_steps(env, controller, seed=0), out)
    env.close()
    return out


@pytest.fixture
def copied_bundle(reach_bundle: Path, tmp_path: Path) -> Callable[[], Path]:
    """Makes a copy that may be damaged."""
    numbers = iter(range(100))
    return lambda: Path(shutil.copytree(reach_bundle, tmp_path / f"copy{next(numbers)}"))


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)
