"""A training that may take only so much processor time."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from embodied.errors import UserError
from embodied.learning.checkpoint import CheckpointStore
from embodied.learning.her import HindsightReplay, ReplayConfig
from embodied.learning.sac import SacConfig, SacLearner
from embodied.run.train import TrainConfig, train

TINY = TrainConfig(
    total_steps=120, start_steps=40, batch_size=16, eval_every=50, eval_episodes=2, final_episodes=3, log_every=20
)
SAC = SacConfig(hidden=(16,))


def run(folder: Path, make_env: Callable[[], Any], config: TrainConfig, resume: bool = False) -> dict[str, Any]:
    result = train(
        config,
        make_env,
        lambda spec: SacLearner(spec, SAC, config.seed),
        lambda spec, reward: HindsightReplay(spec, reward, ReplayConfig(), config.seed, folder / "episodes.bin"),
        CheckpointStore(folder / "checkpoints", lambda line: None),
        folder,
        resume=resume,
        progress=False,
    )
    return json.loads(json.dumps(result.to_dict()))


def test_it_ends_early_is_evaluated_and_says_where_it_stopped(tmp_path: Path, make_point_mass: Callable) -> None:
    stopped = run(tmp_path, make_point_mass, replace(TINY, max_cpu_s=1e-6))
    assert stopped["stopped_at"] == stopped["env_steps"] < TINY.total_steps
    assert stopped["episodes"] == TINY.final_episodes
    assert set(stopped["steps_to"].values()) == {None}, "never"


def test_with_more_time_it_goes_on_as_if_nothing_had_been(tmp_path: Path, make_point_mass: Callable) -> None:
    whole = run(tmp_path / "whole", make_point_mass, TINY)
    run(tmp_path / "cut", make_point_mass, replace(TINY, max_cpu_s=0.05))
    resumed = run(tmp_path / "cut", make_point_mass, TINY, resume=True)
    assert whole["stopped_at"] is resumed["stopped_at"] is None
    keys = ("env_steps", "updates", "success_rate", "mean_reward")
    assert [resumed[key] for key in keys] == [whole[key] for key in keys]


@pytest.mark.parametrize("limit", [0.0, -1.0, float("nan")])
def test_no_time_at_all_is_refused(limit: float) -> None:
    with pytest.raises(UserError, match="max_cpu_s"):
        replace(TINY, max_cpu_s=limit)
