"""Sizes that the networks take, and what is refused before memory is touched or numbers go astray."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from embodied.errors import UserError
from embodied.learning import memory
from embodied.learning.footprint import batch_row_bytes, network_bytes
from embodied.learning.her import HindsightReplay, ReplayConfig
from embodied.learning.sac import SacConfig, SacLearner
from embodied.protocols import GoalReward
from embodied.spec import EnvSpec, Term
from embodied.types import Batch


def batch(size: int) -> Batch:
    rng = np.random.default_rng(0)
    observation, goal = rng.normal(size=(2, size, 3)).astype(np.float32)
    return Batch(
        observation=observation, next_observation=observation, goal=goal,
        action=rng.uniform(-1.0, 0.5, (size, 2)).astype(np.float32), reward=-np.ones(size, np.float32),
        terminated=np.zeros(size, bool), relabelled=np.zeros(size, bool), already_satisfied=np.zeros(size, bool),
    )  # fmt: skip


@pytest.mark.parametrize("compiled", [True, False])
@pytest.mark.parametrize("norm", [True, False])
@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_the_smallest_sizes_work(spec: EnvSpec, compiled: bool, norm: bool, precision: str) -> None:
    """One neuron, odd widths, one critic, one transition: the edges of the compiled passes."""
    for hidden, critics, judges, size in (
        ((1,), 1, 1, 1),
        ((1, 3, 17), 3, 3, 1),
        ((65, 1), 2, 1, 5),
        ((3,), 2, None, 33),
    ):
        config = SacConfig(
            hidden=hidden, critics=critics, actor_critics=judges, critic_layer_norm=norm, compiled=compiled,
            precision=precision,
        )  # fmt: skip
        learner = SacLearner(spec, config, 0)
        for _ in range(3):
            told = learner.update(batch(size))
        assert np.isfinite(list(told.values())).all(), config


@pytest.mark.parametrize(
    ("wrong", "mention"),
    [
        ({"actor_critics": 3}, "sac.critics=2"),
        ({"actor_critics": 0}, "at least 1"),
        ({"actor_critics": -1}, "at least 1"),
        ({"critics": 0}, "at least 1"),
        ({"hidden": ()}, "at least one width"),
        ({"hidden": (16, 0)}, "positive"),
        ({"target_entropy": float("inf")}, "must lie in"),
        ({"initial_temperature": 1e300}, "sac.initial_temperature must lie in"),
        ({"min_std": 0.0}, "sac.min_std must lie in"),
    ],
)
def test_sizes_that_there_are_not(wrong: dict[str, object], mention: str) -> None:
    with pytest.raises(UserError, match=mention):
        SacConfig(**wrong)  # type: ignore[arg-type]


def test_a_stack_has_no_more_members_than_it_has(spec: EnvSpec) -> None:
    learner = SacLearner(spec, SacConfig(hidden=(4,)), 0)
    with pytest.raises((ValueError, RuntimeError, IndexError)):
        learner._critics.forward(torch.zeros(2, 8), 3)


def test_networks_are_counted_before_they_are_made(spec: EnvSpec, monkeypatch: pytest.MonkeyPatch) -> None:
    # Policy 6 x 10 + 10, 10 x 4 + 4 and one critic 8 x 10 + 10, 10 + 1: 114 and 101 numbers.
    assert network_bytes(6, 2, (10,), 1) == 4 * (6 * 114 + 9 * 101)
    assert network_bytes(6, 2, (10,), 3) == 4 * (6 * 114 + 27 * 101)
    assert batch_row_bytes(6, 3, (10,), 2, 4) == 4 * (40 + 24) + 4 * 38
    monkeypatch.setattr(memory, "available_bytes", lambda: network_bytes(6, 2, (300, 300), 2))
    SacLearner(spec, SacConfig(hidden=(200, 200)), 0)
    with pytest.raises(UserError, match=r"sac.hidden=\[300,300\] with sac.critics=2 needs about .* GiB"):
        SacLearner(spec, SacConfig(hidden=(300, 300)), 0)


@pytest.mark.parametrize("wrong", [{"n_step": 9}, {"n_step_later": 9}, {"settle": 9}])
def test_no_sum_is_longer_than_an_episode(spec: EnvSpec, reward: GoalReward, wrong: dict[str, int]) -> None:
    with pytest.raises(UserError, match="more than an episode of counting has: 8"):
        HindsightReplay(spec, reward, ReplayConfig(capacity=100, **wrong), 0)


@pytest.mark.parametrize("rate", ["actor_lr", "critic_lr"])
def test_a_training_that_diverges_says_so(spec: EnvSpec, rate: str) -> None:
    learner = SacLearner(spec, replace(SacConfig(hidden=(8, 8)), **{rate: 1e30}), 0)
    observation = np.ones((1, 3), np.float32)

    def train() -> None:
        for _ in range(20):
            learner.update(batch(16))
            learner.act(observation, observation)

    with pytest.raises(UserError, match=rf"diverged.*sac.{rate}=1e\+30"):
        train()


def test_init_from_says_what_differs(spec: EnvSpec) -> None:
    trained = SacLearner(spec, SacConfig(hidden=(8, 8), law="tanh"), 0).controller()
    with pytest.raises(UserError) as mismatch:
        SacLearner(spec, SacConfig(hidden=(8,)), 0).initialise_from(trained)
    told = str(mismatch.value)
    assert "sac.hidden ([8,8], here [8])" in told
    assert "sac.law (tanh, here beta)" in told
    assert "same settings" in told
    assert "PolicyShape" not in told
    wider = replace(spec, layout=replace(spec.layout, robot=(*spec.layout.robot, Term("more", 2))))
    with pytest.raises(UserError, match=r"numbers of an observation \(3, here 5\): choose one"):
        SacLearner(wider, SacConfig(hidden=(8, 8), law="tanh"), 0).initialise_from(trained)
