"""Goal-conditioned soft actor-critic with a Beta policy on the robot's limits."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from embodied.errors import UserError
from embodied.learning import beta, losses
from embodied.learning.controller import TorchController, manifest_of, save_controller
from embodied.learning.networks import CriticEnsemble, PolicyModule, PolicyShape
from embodied.learning.replay import Arrays
from embodied.rng import child_seed
from embodied.spec import EnvSpec, term_indices
from embodied.types import Batch, FloatArray


@dataclass(frozen=True)
class SacConfig:
    """Soft actor-critic's settings."""

    hidden: tuple[int, ...] = (128, 128, 128)
    """Widths of the hidden layers, policy and critics alike."""
    critics: int = 2
    """Members of the ensemble; the least of their values counts."""
    critic_layer_norm: bool = False
    """Layer normalisation in the critics."""
    actor_every: int = 1
    """Updates of the critics for one of policy and temperature."""
    actor_critics: int | None = None
    """How many of the critics judge the policy while it is trained; None: all."""
    gamma: float = 0.95
    """Discount per control step."""
    tau: float = 0.01
    """Share by which the target critics follow at each update."""
    actor_lr: float = 1e-3
    """Adam's step for the policy."""
    critic_lr: float = 1e-3
    """Adam's step for the critics."""
    temperature_lr: float = 1e-3
    """Adam's step for the log-temperature."""
    initial_temperature: float = 0.1
    """Weight of the entropy at the start, in reward units."""
    target_entropy: float | None = None
    """In unit coordinates; None: -A - A ln 2, the usual -A of [-1, 1]."""
    clamp_targets: bool = True
    """Keep bootstrapped values within what the reward's range allows, where it is known."""
    max_concentration: float = beta.MAX_CONCENTRATION
    """Supremum of alpha + beta."""
    input_clip: float = 5.0
    """Normalised inputs are kept within this many standard deviations."""
    min_std: float = 1e-3
    """Least standard deviation that inputs are divided by, in their own units."""

    relative_to: tuple[str, ...] = ()
    """Positions among the observation's terms that the goal is seen from: goal - position is a further input."""
    anywhere: bool = False
    """Leave out x and y of those positions and of the goal: what is learned at one place holds at every other."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "hidden", tuple(self.hidden))
        object.__setattr__(self, "relative_to", tuple(self.relative_to))
        if not 0.0 < self.gamma < 1.0:
            raise UserError(f"sac.gamma must lie strictly between 0 and 1, got {self.gamma}")
        if not 0.0 < self.tau <= 1.0:
            raise UserError(f"sac.tau must lie in (0, 1], got {self.tau}")
        for name in ("critics", "actor_every", "actor_critics"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise UserError(f"sac.{name} must be at least 1, got {value}")
        for name in ("actor_lr", "critic_lr", "temperature_lr", "initial_temperature", "input_clip", "min_std"):
            if not 0.0 < getattr(self, name) < math.inf:
                raise UserError(f"sac.{name} must be positive and finite, got {getattr(self, name)}")
        if not 4.0 <= self.max_concentration <= 1e4:
            raise UserError(f"sac.max_concentration must lie in [4, 10000], got {self.max_concentration}")
        if not self.hidden or min(self.hidden) < 1:
            raise UserError(f"sac.hidden must name at least one width, all positive, got {self.hidden}")


class SacLearner:
    """Owns the networks, their optimisers and the draw of actions; `update` is one gradient step of each."""

    def __init__(self, spec: EnvSpec, config: SacConfig, seed: int) -> None:
        self.config = config
        self.manifest = manifest_of(spec)
        self.updates = 0
        self._actor_told: dict[str, float] = {}
        self._generator = torch.Generator().manual_seed(child_seed(seed, "learner"))
        self._bounds = losses.value_bounds(spec.reward_range, config.gamma) if config.clamp_targets else None
        width, shape = spec.action_width, _policy_shape(spec, config)
        self._target_entropy = beta.target_entropy(width) if config.target_entropy is None else config.target_entropy
        self.policy = PolicyModule(shape)
        inputs = shape.input_width + width
        size = (config.critics, inputs, config.hidden, config.critic_layer_norm)
        self.critic, self.target = CriticEnsemble(*size), CriticEnsemble(*size)
        self.policy.initialise(self._generator)
        self.critic.initialise(self._generator)
        self.target.load_state_dict(self.critic.state_dict())
        self.target.requires_grad_(False)
        self._log_temperature = torch.tensor(
            np.log(config.initial_temperature), dtype=torch.float32, requires_grad=True
        )
        self._actor_parameters = list(self.policy.parameters())
        self._critic_parameters = list(self.critic.parameters())
        self._target_parameters = list(self.target.parameters())
        self._optimizers = {
            "actor": torch.optim.Adam(self._actor_parameters, lr=config.actor_lr, fused=True),
            "critic": torch.optim.Adam(self._critic_parameters, lr=config.critic_lr, fused=True),
            "temperature": torch.optim.Adam([self._log_temperature], lr=config.temperature_lr, fused=True),
        }

    def act(self, observation: FloatArray, goal: FloatArray) -> FloatArray:
        """Draw actions: observation (B, S+F) and goal (B, G) to (B, A) in action units."""
        with torch.no_grad():
            features = self.policy.features(torch.from_numpy(observation), torch.from_numpy(goal))
            unit = beta.sample(*self.policy.law(features), generator=self._generator)
            return beta.to_action(unit, self.policy.low, self.policy.high).numpy()

    def observe(self, observation: FloatArray, goal: FloatArray) -> None:
        """Take new inputs into the normalizer: observation (N, S+F), goal (N, G)."""
        seen = self.policy.inputs(torch.from_numpy(observation), torch.from_numpy(goal))
        self.policy.normalizer.update(seen.numpy())

    def update(self, batch: Batch) -> dict[str, float]:
        """One gradient step of critics, policy and temperature, and one step of the target critics."""
        goal = torch.from_numpy(batch.goal)
        features = self.policy.features(torch.from_numpy(batch.observation), goal)
        unit = beta.to_unit(torch.from_numpy(batch.action), self.policy.low, self.policy.high)
        target, critic_loss = self._update_critics(features, unit, batch, goal)
        if self.updates % self.config.actor_every == 0:
            log_prob, actor_loss = self._update_actor(features)
            self._update_temperature(log_prob)
            self._actor_told = {"actor_loss": actor_loss.item(), "entropy": -log_prob.mean().item()}
        torch._foreach_lerp_(self._target_parameters, self._critic_parameters, self.config.tau)
        self.updates += 1
        relabelled = max(int(batch.relabelled.sum()), 1)
        return {
            "critic_loss": critic_loss.item(),
            **self._actor_told,
            "target_value": target.mean().item(),
            "temperature": self._log_temperature.exp().item(),
            "relabelled": float(batch.relabelled.mean()),
            "relabelled_already_satisfied": float((batch.relabelled & batch.already_satisfied).sum() / relabelled),
        }

    def _update_critics(self, features: Tensor, unit: Tensor, batch: Batch, goal: Tensor) -> tuple[Tensor, Tensor]:
        with torch.no_grad():
            ahead = self.policy.features(torch.from_numpy(batch.next_observation), goal)
            law = self.policy.law(ahead)
            action = beta.sample(*law, generator=self._generator)
            target = losses.critic_target(
                torch.from_numpy(batch.reward),
                torch.from_numpy(batch.terminated).float(),
                self.target(ahead, action),
                beta.log_prob(action, *law),
                self._log_temperature.exp(),
                self.config.gamma if batch.discount is None else torch.from_numpy(batch.discount),
                self._bounds,
            )
        loss = losses.critic_loss(self.critic(features, unit), target)
        _step(self._optimizers["critic"], self._critic_parameters, loss)
        return target, loss.detach()

    def _update_actor(self, features: Tensor) -> tuple[Tensor, Tensor]:
        law = self.policy.law(features)
        action = beta.sample(*law, generator=self._generator)
        log_prob = beta.log_prob(action, *law)
        values = self.critic(features, action, self.config.actor_critics)
        loss = losses.actor_loss(values, log_prob, self._log_temperature.detach().exp())
        _step(self._optimizers["actor"], self._actor_parameters, loss)
        return log_prob.detach(), loss.detach()

    def _update_temperature(self, log_prob: Tensor) -> None:
        loss = losses.temperature_loss(self._log_temperature, log_prob, self._target_entropy)
        _step(self._optimizers["temperature"], [self._log_temperature], loss)

    def controller(self) -> TorchController:
        """The deterministic controller as it is now; later updates do not change it."""
        policy = PolicyModule(self.policy.shape)
        policy.load_state_dict(self.policy.state_dict())
        return TorchController(policy, self.manifest)

    def save_controller(self, folder: Path, extra: dict[str, Any]) -> None:
        """Write the controller as it is now, and the critics beside it."""
        save_controller(self.controller(), folder, extra, critic=self.critic)

    def initialise_from(self, controller: TorchController) -> None:
        """Take over policy and normalizer of a trained controller, and its critics where they were saved with it."""
        if controller.module.shape != self.policy.shape:
            raise UserError(
                f"init_from: the controller's network {controller.module.shape} is not this run's {self.policy.shape}"
            )
        self.policy.load_state_dict(controller.module.state_dict())
        if controller.critic is not None:
            ours, theirs = self.critic.state_dict(), controller.critic
            if {k: v.shape for k, v in ours.items()} == {k: v.shape for k, v in theirs.items()}:
                self.critic.load_state_dict(theirs)
                self.target.load_state_dict(theirs)

    def state(self) -> tuple[Arrays, dict[str, Any]]:
        """Everything that the next update depends on, for a checkpoint."""
        arrays = {"log_temperature": self._log_temperature.detach(), "generator": self._generator.get_state()}
        for name, module in self._modules().items():
            arrays |= {f"{name}/{key}": value for key, value in module.state_dict().items()}
        for name, optimizer in self._optimizers.items():
            for index, slots in optimizer.state_dict()["state"].items():
                arrays |= {f"adam/{name}/{index}/{slot}": value for slot, value in slots.items()}
        return {key: value.detach().numpy().copy() for key, value in arrays.items()}, {
            "updates": self.updates,
            "actor": self._actor_told,
        }

    def restore(self, arrays: Arrays, meta: dict[str, Any]) -> None:
        """Undo `state`; a checkpoint of networks of another shape is refused."""
        tensors = {key: torch.from_numpy(np.array(value)) for key, value in arrays.items()}
        try:
            for name, module in self._modules().items():
                module.load_state_dict(_below(tensors, f"{name}/"))
        except RuntimeError as error:
            raise UserError("the checkpoint's networks have other shapes: resume with the settings it had") from error
        for name, optimizer in self._optimizers.items():
            slots: dict[int, dict[str, Tensor]] = {}
            for key, value in _below(tensors, f"adam/{name}/").items():
                index, slot = key.split("/")
                slots.setdefault(int(index), {})[slot] = value
            optimizer.load_state_dict({**optimizer.state_dict(), "state": slots})
        with torch.no_grad():
            self._log_temperature.copy_(tensors["log_temperature"])
        self._generator.set_state(tensors["generator"])
        self.updates, self._actor_told = meta["updates"], meta["actor"]

    def _modules(self) -> dict[str, torch.nn.Module]:
        return {"policy": self.policy, "critic": self.critic, "target": self.target}


def _policy_shape(spec: EnvSpec, config: SacConfig) -> PolicyShape:
    differences, ignored = _relations(spec, config)
    return PolicyShape(
        differences=differences,
        ignored=ignored,
        observation_width=spec.layout.state_width + spec.layout.entity_width,
        goal_width=spec.layout.goal_width,
        action_low=spec.action_low,
        action_high=spec.action_high,
        hidden=config.hidden,
        max_concentration=config.max_concentration,
        clip=config.input_clip,
        min_std=config.min_std,
    )


def _relations(spec: EnvSpec, config: SacConfig) -> tuple[tuple[tuple[int, int], ...], tuple[int, ...]]:
    """`PolicyShape.differences` and `ignored` from the names in the configuration."""
    layout = spec.layout
    offered = (*layout.robot, *layout.entity)
    terms = {term.name: term for term in offered}
    pairs: list[tuple[int, int]] = []
    planar = [layout.state_width + layout.entity_width + i for i in (0, 1)] if config.anywhere else []
    for name in config.relative_to:
        if name not in terms or terms[name].width != layout.goal_width:
            fit = ", ".join(term.name for term in offered if term.width == layout.goal_width) or "none"
            raise UserError(f"sac.relative_to: '{name}' is no position of {spec.task}; valid: {fit}")
        columns = term_indices((terms[name],), offered, "observation")
        pairs += [(goal, int(column)) for goal, column in enumerate(columns)]
        planar += [int(column) for column in columns[:2]] if config.anywhere else []
    return tuple(pairs), tuple(sorted(planar))


def _step(optimizer: torch.optim.Optimizer, parameters: list[Tensor], loss: Tensor) -> None:
    """One optimiser step on the gradient with respect to these parameters alone."""
    for parameter, gradient in zip(parameters, torch.autograd.grad(loss, parameters), strict=True):
        parameter.grad = gradient
    optimizer.step()


def _below(tensors: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {key.removeprefix(prefix): value for key, value in tensors.items() if key.startswith(prefix)}
