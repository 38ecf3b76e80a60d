"""A peer sees in our environments what it was trained on in Gymnasium's."""

from __future__ import annotations

from contextlib import closing
from typing import Any

import numpy as np
import pytest
from embodied_launch.bench.adapter import IdleController, PeerController, goal_dict
from gymnasium import make
from gymnasium.envs.registration import EnvSpec

from embodied.learning.controller import manifest_of
from embodied.run.evaluate import evaluate
from robots.goal_layout import goal_layout
from robots.registry import make_env


@pytest.mark.parametrize("task", ["fetch_reach", "fetch_push", "point_umaze"])
def test_the_same_numbers_as_gymnasium(task: str) -> None:
    layout = goal_layout(task)
    assert layout.env_spec is not None
    with closing(make_env(task)) as ours, closing(make(EnvSpec.from_json(layout.env_spec))) as theirs:
        observation, (raw, _) = ours.reset(5), theirs.reset(seed=5)
        rng = np.random.default_rng(0)
        for _ in range(3):
            seen = goal_dict(layout, observation, ours.goal)
            assert set(seen) == set(raw)
            for key, value in raw.items():
                np.testing.assert_allclose(seen[key], value, atol=1e-6, err_msg=key)
            action = rng.uniform(-1, 1, ours.spec.action_width).astype(np.float32)
            observation, raw = ours.step(action).observation, theirs.step(action)[0]


class Straight:
    """Predicts what goes straight to the goal of FetchReach."""

    def predict(self, observation: dict[str, Any], *, deterministic: bool) -> tuple[np.ndarray, None]:
        assert deterministic
        move = np.clip((observation["desired_goal"] - observation["achieved_goal"]) / 0.05, -1, 1)
        return np.append(move, 0.0), None


def test_peers_and_idlers_go_through_the_one_evaluation_loop() -> None:
    layout = goal_layout("fetch_reach")
    with closing(make_env("fetch_reach")) as env:
        peer = PeerController(Straight(), layout, manifest_of(env.spec))
        assert evaluate(env, peer, 5, 0).success_rate == 1.0
        idle = IdleController(env.spec, manifest_of(env.spec))
        found = evaluate(env, idle, 5, 0)
        assert found.success_rate < 0.5
        assert not idle.act(env.reset(0), env.goal).any()
