from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from embodied.errors import UserError
from embodied.learning import beta, losses
from embodied.learning.controller import load_controller
from embodied.learning.laws import LAWS, BetaLaw, make_law
from embodied.learning.native import library
from embodied.learning.sac import SacConfig, SacLearner
from embodied.learning.unit import target_entropy, to_unit
from embodied.spec import EnvSpec, Layout, Term
from embodied.types import Batch

SMALL = SacConfig(hidden=(48, 48), critic_lr=1e-2)


def _batch(rng: np.random.Generator, size: int = 128) -> Batch:
    """One-step tasks: the reward is best at action (0.5, -1), and nothing follows."""
    action = rng.uniform((-1.0, -2.0), (1.0, 0.5), (size, 2)).astype(np.float32)
    observation = rng.normal(size=(size, 3)).astype(np.float32)
    return Batch(
        observation=observation,
        next_observation=observation,
        goal=rng.normal(size=(size, 3)).astype(np.float32),
        action=action,
        reward=-np.square(action - np.float32([0.5, -1.0])).sum(1),
        terminated=np.ones(size, bool),
        relabelled=np.arange(size) % 2 == 0,
        already_satisfied=np.arange(size) % 4 == 0,
    )


def _trained(spec: EnvSpec, seed: int, updates: int, config: SacConfig = SMALL) -> tuple[SacLearner, dict[str, float]]:
    learner, rng, info = SacLearner(spec, config, seed), np.random.default_rng(7), {}
    for _ in range(updates):
        info = learner.update(_batch(rng))
    return learner, info


def _probe() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(3)
    return rng.normal(size=(20, 3)).astype(np.float32), rng.normal(size=(20, 3)).astype(np.float32)


@pytest.mark.parametrize("law", LAWS)
def test_the_policy_finds_the_rewarded_action(spec: EnvSpec, law: str) -> None:
    learner, info = _trained(spec, seed=0, updates=500, config=replace(SMALL, law=law))
    action = learner.controller().act_vectors(*_probe())
    assert np.abs(action - [0.5, -1.0]).max() < 0.25
    assert all(np.isfinite(value) for value in info.values())
    assert info["relabelled"] == 0.5
    assert info["relabelled_already_satisfied"] == 0.5


@pytest.mark.parametrize("law", LAWS)
def test_the_temperature_steers_the_entropy_to_its_target(spec: EnvSpec, law: str) -> None:
    config = replace(SMALL, law=law, target_entropy=-1.0, temperature_lr=0.02)
    learner, rng = SacLearner(spec, config, 0), np.random.default_rng(7)
    entropies = [learner.update(_batch(rng))["entropy"] for _ in range(500)]
    assert np.mean(entropies[-100:]) == pytest.approx(-1.0, abs=0.2)


@pytest.mark.parametrize("law", LAWS)
def test_exploration_stays_within_the_limits_and_is_spread(spec: EnvSpec, law: str) -> None:
    learner = SacLearner(spec, replace(SMALL, law=law), 0)
    action = learner.act(np.zeros((2000, 3), np.float32), np.zeros((2000, 3), np.float32))
    assert action.shape == (2000, 2)
    assert (action >= [-1.0, -2.0]).all()
    assert (action <= [1.0, 0.5]).all()
    assert (np.ptp(action, 0) > [1.5, 1.9]).all()


def test_one_seed_gives_one_result_and_another_seed_another(spec: EnvSpec) -> None:
    (one, info), (twin, same), (_, other) = (_trained(spec, seed, updates=20) for seed in (0, 0, 1))
    assert info == same
    assert info != other
    assert np.array_equal(one.act(*_probe()), twin.act(*_probe()))


def test_a_restored_learner_goes_on_bit_for_bit(spec: EnvSpec) -> None:
    learner, _ = _trained(spec, seed=0, updates=10)
    learner.observe(*_probe())
    twin = SacLearner(spec, SMALL, seed=5)
    twin.restore(*learner.state())
    rng, again = np.random.default_rng(1), np.random.default_rng(1)
    for _ in range(5):
        assert learner.update(_batch(rng)) == twin.update(_batch(again))
    assert np.array_equal(learner.act(*_probe()), twin.act(*_probe()))
    assert learner.updates == twin.updates == 15


def _placed(spec: EnvSpec) -> EnvSpec:
    """With a robot that has a place and a speed, and a thing that has a place; goals are places."""
    layout = Layout(
        robot=(Term("here", 3, "m"), Term("speed", 1)),
        entity=(Term("there", 3, "m"),),
        goal=(Term("position", 3, "m"),),
        entities=("block",),
    )
    return replace(spec, layout=layout)


def test_the_goal_is_seen_from_the_positions_that_are_named(spec: EnvSpec) -> None:
    learner = SacLearner(_placed(spec), replace(SMALL, relative_to=("here", "there")), 0)
    observation, goal = torch.arange(7.0)[None], torch.tensor([[10.0, 20.0, 30.0]])
    seen = learner.policy.inputs(observation, goal)[0].tolist()
    assert seen == [0, 1, 2, 3, 4, 5, 6, 10, 20, 30, 10, 19, 28, 6, 15, 24]
    anywhere = SacLearner(_placed(spec), replace(SMALL, relative_to=("here", "there"), anywhere=True), 0)
    assert anywhere.policy.inputs(observation, goal)[0].tolist() == [2, 3, 6, 30, 10, 19, 28, 6, 15, 24]
    config = replace(SMALL, relative_to=("here", "there"), anywhere=True, distances=True)
    far = SacLearner(replace(_placed(spec), tolerance=12.0), config, 0).policy.inputs(observation, goal)[0].tolist()
    assert far[:10] == [2, 3, 6, 30, 10, 19, 28, 6, 15, 24]
    lengths = [math.hypot(10, 19, 28), 24.0, math.hypot(6, 15, 24), 24.0]
    assert far[10:] == pytest.approx(lengths), "the second of each is cut off at twice the tolerance"
    near = SacLearner(replace(_placed(spec), tolerance=20.0), config, 0).policy.inputs(observation, goal)[0].tolist()
    assert near[13] == pytest.approx(math.hypot(6, 15, 24))
    with pytest.raises(UserError, match=r"relative_to: 'speed' is no position .* valid: here, there"):
        SacLearner(_placed(spec), replace(SMALL, relative_to=("speed",)), 0)


def test_a_policy_for_anywhere_acts_alike_where_everything_is_moved(spec: EnvSpec, tmp_path: Path) -> None:
    where = {"relative_to": ("here", "there"), "anywhere": True, "distances": True}
    config = replace(SMALL, **where, actor_every=2, actor_critics=1)
    learner, rng = SacLearner(_placed(spec), config, 0), np.random.default_rng(5)
    observation, goal = rng.normal(size=(30, 7)).astype(np.float32), rng.normal(size=(30, 3)).astype(np.float32)
    learner.observe(observation, goal)
    batch = replace(_batch(rng, 30), observation=observation, next_observation=observation, goal=goal)
    for _ in range(20):
        learner.update(batch)
    learner.save_controller(tmp_path / "controller", {})
    controller = load_controller(tmp_path / "controller")
    action = controller.act_vectors(observation, goal)
    moved, further = observation.copy(), goal.copy()
    for columns in (moved[:, 0:2], moved[:, 4:6], further[:, 0:2]):
        columns += np.float32([0.5, -2.0])
    np.testing.assert_allclose(controller.act_vectors(moved, further), action, atol=1e-5)
    moved[:, 2] += 1.0
    assert np.abs(controller.act_vectors(moved, further) - action).max() > 1e-3, "height is not left out"


def test_the_policy_is_updated_every_so_often_and_a_restored_learner_keeps_the_beat(spec: EnvSpec) -> None:
    config = replace(SMALL, actor_every=3)
    learner, rng = SacLearner(spec, config, 0), np.random.default_rng(7)
    told = [learner.update(_batch(rng))["actor_loss"] for _ in range(7)]
    assert told[0] == told[1] == told[2] != told[3] == told[4] == told[5] != told[6]
    twin = SacLearner(spec, config, 1)
    twin.restore(*learner.state())
    again = np.random.default_rng(11), np.random.default_rng(11)
    for _ in range(4):
        assert learner.update(_batch(again[0])) == twin.update(_batch(again[1]))


def test_the_discount_of_a_batch_counts_and_not_the_learners_own(spec: EnvSpec) -> None:
    """Nothing is earned and the value clamped at 0 from above: a discount of 0 makes every target 0."""
    batch = replace(_batch(np.random.default_rng(0)), reward=np.zeros(128, np.float32), terminated=np.zeros(128, bool))
    nothing, own = (
        SacLearner(spec, SMALL, 0).update(replace(batch, discount=discount))["target_value"]
        for discount in (np.zeros(128, np.float32), None)
    )
    same = SacLearner(spec, SMALL, 0).update(replace(batch, discount=np.full(128, SMALL.gamma, np.float32)))
    assert nothing == 0.0
    assert own != 0.0
    assert same["target_value"] == pytest.approx(own)


def test_restoring_other_shapes_is_refused(spec: EnvSpec) -> None:
    learner, _ = _trained(spec, seed=0, updates=1)
    with pytest.raises(UserError, match="other shapes"):
        SacLearner(spec, SacConfig(hidden=(16,)), 0).restore(*learner.state())


def test_a_controller_is_a_copy_that_later_updates_leave_alone(spec: EnvSpec) -> None:
    learner, _ = _trained(spec, seed=0, updates=5)
    controller = learner.controller()
    before = controller.act_vectors(*_probe())
    rng = np.random.default_rng(2)
    for _ in range(5):
        learner.update(_batch(rng))
    learner.observe(*(10 * part for part in _probe()))
    assert np.array_equal(before, controller.act_vectors(*_probe()))
    assert not np.array_equal(before, learner.controller().act_vectors(*_probe()))


def test_update_leaves_the_normalizer_alone(spec: EnvSpec) -> None:
    learner = SacLearner(spec, SMALL, 0)
    learner.observe(*_probe())
    mean = learner.policy.normalizer.mean.clone()
    learner.update(_batch(np.random.default_rng(0)))
    assert torch.equal(mean, learner.policy.normalizer.mean)
    assert mean.abs().max() > 0


def test_initialise_from_takes_over_policy_and_critics(spec: EnvSpec, tmp_path: object) -> None:
    from embodied.learning.controller import load_controller

    learner, _ = _trained(spec, seed=0, updates=5)
    learner.save_controller(tmp_path / "c", {})
    fresh = SacLearner(spec, SMALL, seed=9)
    fresh.initialise_from(load_controller(tmp_path / "c"))
    assert np.array_equal(fresh.controller().act_vectors(*_probe()), learner.controller().act_vectors(*_probe()))
    assert torch.equal(fresh.critic.weights[0], learner.critic.weights[0])
    assert torch.equal(fresh.target.weights[0], learner.critic.weights[0])
    for other in (SacConfig(hidden=(16,)), replace(SMALL, law="tanh")):
        with pytest.raises(UserError, match="init_from"):
            SacLearner(spec, other, 0).initialise_from(learner.controller())


def test_layer_norm_and_more_critics_learn_too(spec: EnvSpec) -> None:
    config = replace(SMALL, critics=3, critic_layer_norm=True)
    learner, _ = _trained(spec, seed=0, updates=400, config=config)
    assert np.abs(learner.controller().act_vectors(*_probe()) - [0.5, -1.0]).max() < 0.3


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"gamma": 1.0}, "gamma"),
        ({"tau": 0.0}, "tau"),
        ({"critics": 0}, "critics"),
        ({"hidden": ()}, "hidden"),
        ({"law": "gauss"}, r"sac\.law must be one of beta, tanh, kumaraswamy, got gauss"),
    ],
)
def test_settings_out_of_range_are_refused(change: dict[str, object], word: str) -> None:
    with pytest.raises(UserError, match=word):
        SacConfig(**change)


class _TorchsDraws(BetaLaw):
    """Beta's law with the draws that torch makes and the gradients of the C code."""

    def draw(self, raw: torch.Tensor, generator: torch.Generator | None = None) -> beta.Draw:
        return beta.draw(raw, self.limit, generator)


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("compiled", [False, True])
def test_one_update_is_what_autograd_and_torchs_adam_do(spec: EnvSpec, compiled: bool, law: str) -> None:
    """The losses written down once more, differentiated by autograd; with the same draws."""
    config = replace(SMALL, law=law, hidden=(16, 12), critic_layer_norm=True, actor_critics=1, compiled=compiled)
    learner, twin = SacLearner(spec, config, 0), SacLearner(spec, config, 1)
    if law == "beta":
        learner._law = _TorchsDraws(config.max_concentration, library() if compiled else None)
    learner.observe(*_probe())
    twin.restore(*learner.state())
    batch = replace(_batch(np.random.default_rng(5), 32), terminated=np.zeros(32, bool))
    told, expected = learner.update(batch), _reference_update(twin, batch, losses.value_bounds(spec.reward_range, 0.95))
    for name, value in expected.items():
        assert told[name] == pytest.approx(value, rel=1e-4), name
    arrays, before = learner.state()[0], twin.state()[0]
    for name in (name for name in arrays if name.startswith(("policy/", "critic/", "target/"))):
        np.testing.assert_allclose(arrays[name], before[name], rtol=1e-4, atol=2e-5, err_msg=name)


def _reference_update(learner: SacLearner, batch: Batch, bounds: tuple[float, float] | None) -> dict[str, float]:
    policy, critic, target, config = learner.policy, learner.critic, learner.target, learner.config
    log_temperature = torch.tensor(config.initial_temperature).log()
    now, ahead = (
        policy.features(torch.from_numpy(seen), torch.from_numpy(batch.goal))
        for seen in (batch.observation, batch.next_observation)
    )
    policy.requires_grad_(True)
    law, raw, rows = make_law(config.law, config.max_concentration), policy.raw(torch.cat((now, ahead))), len(now)
    action = law.sample(raw, learner._generator)
    log_prob = law.log_prob(raw, action)
    with torch.no_grad():
        wanted = losses.critic_target(
            torch.from_numpy(batch.reward),
            torch.zeros(rows),
            target(ahead, action[rows:]),
            log_prob[rows:],
            log_temperature.exp(),
            config.gamma,
            bounds,
        )
    critic.requires_grad_(True)
    unit = to_unit(torch.from_numpy(batch.action), policy.low, policy.high)
    critic_loss = losses.critic_loss(critic(now, unit), wanted)
    _descend(critic, critic_loss, config.critic_lr)
    actor_loss = losses.actor_loss(critic(now, action[:rows], 1), log_prob[:rows], log_temperature.exp())
    _descend(policy, actor_loss, config.actor_lr)
    policy.requires_grad_(False)
    critic.requires_grad_(False)
    for slow, fast in zip(target.parameters(), critic.parameters(), strict=True):
        slow.lerp_(fast, config.tau)
    # Adam's first step has the size of its step size, whatever the gradient's.
    rise = config.temperature_lr * torch.sign(log_prob[:rows].mean() + target_entropy(2)).item()
    temperature = (log_temperature + rise).exp().item()
    return {"critic_loss": critic_loss.item(), "actor_loss": actor_loss.item(), "temperature": temperature}


def _descend(module: torch.nn.Module, loss: torch.Tensor, step_size: float) -> None:
    optimizer = torch.optim.Adam(module.parameters(), lr=step_size)
    optimizer.zero_grad()
    loss.backward(inputs=list(module.parameters()), retain_graph=True)
    optimizer.step()


def test_bfloat16_learns_the_same_thing(spec: EnvSpec) -> None:
    exact, rounded = (
        _trained(spec, 0, 600, replace(SMALL, hidden=(48, 48, 48), precision=precision))[0]
        for precision in ("float32", "bfloat16")
    )
    actions = [learner.controller().act_vectors(*_probe()) for learner in (exact, rounded)]
    assert not np.array_equal(*actions)
    for action in actions:
        assert np.abs(action - [0.5, -1.0]).max() < 0.25


def test_a_precision_that_is_unknown_is_refused_and_auto_asks_the_processor(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UserError, match="sac.precision must be one of float32, bfloat16, auto, got half"):
        SacConfig(precision="half")
    for there in (True, False):
        monkeypatch.setattr("embodied.learning.sac.has_bfloat16", lambda there=there: there)
        assert SacConfig(precision="auto").in_bfloat16 is there
        assert not SacConfig().in_bfloat16
        assert SacConfig(precision="bfloat16").in_bfloat16
