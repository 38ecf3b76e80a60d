"""Goal-conditioned soft actor-critic with a policy on the robot's limits."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from embodied.errors import UserError
from embodied.learning import laws, losses
from embodied.learning.beta import MAX_CONCENTRATION
from embodied.learning.compiled import make_stack
from embodied.learning.controller import TorchController, manifest_of, save_controller
from embodied.learning.flat import FlatAdam, FlatParameters
from embodied.learning.footprint import network_bytes
from embodied.learning.memory import has_bfloat16, refuse_beyond_memory
from embodied.learning.native import library
from embodied.learning.networks import CriticEnsemble, PolicyModule, PolicyShape, shape_differences
from embodied.learning.replay import Arrays
from embodied.learning.unit import target_entropy, to_action, to_unit
from embodied.rng import child_seed
from embodied.spec import EnvSpec, term_indices
from embodied.types import Batch, FloatArray

LEAST, MOST = 1e-6, 1e6
"""Of scales; the networks' float32 and squares of it hold no more."""
PRECISIONS = ("float32", "bfloat16", "auto")


@dataclass(frozen=True)
class SacConfig:
    """Soft actor-critic's settings."""

    hidden: tuple[int, ...] = (128, 128, 128)
    """Widths of the hidden layers, policy and critics alike."""
    law: str = "beta"
    """What actions are drawn from: beta, tanh (a squashed Gaussian) or kumaraswamy."""
    critics: int = 2
    """Members of the ensemble; the least of their values counts."""
    critic_layer_norm: bool = False
    """Layer normalisation in the critics."""
    compiled: bool = True
    """Use compiled code for the networks, where there is a C compiler."""
    precision: str = "float32"
    """Of the products between hidden layers: float32, bfloat16, or auto: bfloat16 where the processor computes in it.
    Parameters, sums and losses are float32 always."""
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
    max_concentration: float = MAX_CONCENTRATION
    """Supremum of alpha + beta; holds kumaraswamy as narrow; tanh has bounds of its own."""
    input_clip: float = 5.0
    """Normalised inputs are kept within this many standard deviations."""
    min_std: float = 1e-3
    """Least standard deviation that inputs are divided by, in their own units."""

    relative_to: tuple[str, ...] = ()
    """Positions among the observation's terms that the goal is seen from: goal - position is a further input."""
    distances: bool = False
    """From those positions, how far the goal is is an input too, and once more with twice the tolerance at most: that
    is where success is decided."""
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
        if self.actor_critics is not None and self.actor_critics > self.critics:
            raise UserError(
                f"sac.actor_critics={self.actor_critics} is more than sac.critics={self.critics}: give at most "
                f"{self.critics}, or null for all"
            )
        if self.target_entropy is not None and not abs(self.target_entropy) <= MOST:
            raise UserError(
                f"sac.target_entropy must lie in [{-MOST:g}, {MOST:g}] or be null, got {self.target_entropy}"
            )
        for name in ("actor_lr", "critic_lr", "temperature_lr"):
            if not 0.0 < getattr(self, name) < math.inf:
                raise UserError(f"sac.{name} must be positive and finite, got {getattr(self, name)}")
        for name in ("initial_temperature", "input_clip", "min_std"):
            if not LEAST <= getattr(self, name) <= MOST:
                raise UserError(f"sac.{name} must lie in [{LEAST:g}, {MOST:g}], got {getattr(self, name)}")
        if not 4.0 <= self.max_concentration <= 1e4:
            raise UserError(f"sac.max_concentration must lie in [4, 10000], got {self.max_concentration}")
        if self.law not in laws.LAWS:
            raise UserError(f"sac.law must be one of {', '.join(laws.LAWS)}, got {self.law}")
        if self.precision not in PRECISIONS:
            raise UserError(f"sac.precision must be one of {', '.join(PRECISIONS)}, got {self.precision}")
        if self.distances and not self.relative_to:
            raise UserError("sac.distances are those of sac.relative_to: name positions there, or set it to false")
        if not self.hidden or min(self.hidden) < 1:
            raise UserError(f"sac.hidden must name at least one width, all positive, got {self.hidden}")

    @property
    def in_bfloat16(self) -> bool:
        """Whether `precision` means bfloat16 on this machine."""
        return self.precision == "bfloat16" or (self.precision == "auto" and has_bfloat16())


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
        needed = network_bytes(shape.input_width, width, config.hidden, config.critics)
        widths = ",".join(map(str, config.hidden))
        asked = f"sac.hidden=[{widths}] with sac.critics={config.critics}"
        refuse_beyond_memory(needed, asked, "give narrower or fewer layers, or fewer critics")
        self._target_entropy = target_entropy(width) if config.target_entropy is None else config.target_entropy
        self.policy = PolicyModule(shape)
        inputs = shape.input_width + width
        size = (config.critics, inputs, config.hidden, config.critic_layer_norm)
        self.critic, self.target = CriticEnsemble(*size), CriticEnsemble(*size)
        self.policy.initialise(self._generator)
        self.critic.initialise(self._generator)
        self.target.load_state_dict(self.critic.state_dict())
        self._log_temperature = torch.tensor(np.log(config.initial_temperature), dtype=torch.float32)
        self._temperature_slope = torch.zeros(())
        self._flat = {name: FlatParameters(module) for name, module in self._modules().items()}
        how = config.in_bfloat16, config.compiled
        self._policies = make_stack(self.policy.layers(self._flat["policy"]), *how)
        self._critics = make_stack(self.critic.layers(self._flat["critic"]), *how)
        targets = self.target.layers(self._flat["target"])
        self._targets = make_stack(targets, *how, backwards=False, like=self._critics)
        code = library() if config.compiled else None
        self._law = laws.make_law(config.law, config.max_concentration, code)
        policy, critic = self._flat["policy"], self._flat["critic"]
        self._optimizers = {
            "policy": FlatAdam(policy.values, policy.gradients, config.actor_lr, config.compiled),
            "critic": FlatAdam(critic.values, critic.gradients, config.critic_lr, config.compiled),
            "temperature": FlatAdam(
                self._log_temperature, self._temperature_slope, config.temperature_lr, config.compiled
            ),
        }

    def act(self, observation: FloatArray, goal: FloatArray) -> FloatArray:
        """Draw actions: observation (B, S+F) and goal (B, G) to (B, A) in action units."""
        with torch.no_grad():
            features = self.policy.features(torch.from_numpy(observation), torch.from_numpy(goal))
            unit = self._law.sample(self.policy.raw(features), self._generator)
            action = to_action(unit, self.policy.low, self.policy.high).numpy()
        if not np.isfinite(action).all():
            raise self._diverged()
        return action

    def observe(self, observation: FloatArray, goal: FloatArray) -> None:
        """Take new inputs into the normalizer: observation (N, S+F), goal (N, G)."""
        seen = self.policy.inputs(torch.from_numpy(observation), torch.from_numpy(goal))
        self.policy.normalizer.update(seen.numpy())

    @torch.no_grad()
    def update(self, batch: Batch) -> dict[str, float]:
        """One gradient step of critics, policy and temperature, and one step of the target critics.

        Raises:
            UserError: The training has diverged: the critics' loss is no longer a finite number.
        """
        rows, trains_policy = len(batch.reward), self.updates % self.config.actor_every == 0
        features = self.policy.features(
            torch.from_numpy(np.concatenate((batch.observation, batch.next_observation))),
            torch.from_numpy(np.concatenate((batch.goal, batch.goal))),
        )
        raw = self._policies.forward(features if trains_policy else features[rows:])[0]
        drawn = self._law.draw(raw, self._generator)
        target = self._critic_target(features[rows:], drawn.rows(len(raw) - rows, len(raw)), batch)
        unit = to_unit(torch.from_numpy(batch.action), self.policy.low, self.policy.high)
        inputs = torch.cat((features[:rows], 2.0 * unit - 1.0), 1)
        critic_loss = self._update_critics(inputs, target).item()
        if not math.isfinite(critic_loss):
            raise self._diverged()
        if trains_policy:
            self._actor_told = self._update_actor(inputs, drawn.rows(0, rows))
        self._flat["target"].values.lerp_(self._flat["critic"].values, self.config.tau)
        self._targets.refresh()
        self.updates += 1
        relabelled = int(np.count_nonzero(batch.relabelled))
        satisfied = int(np.count_nonzero(batch.relabelled & batch.already_satisfied))
        return {
            "critic_loss": critic_loss,
            **self._actor_told,
            "target_value": target.mean().item(),
            "temperature": self._log_temperature.exp().item(),
            "relabelled": relabelled / rows,
            "relabelled_already_satisfied": satisfied / max(relabelled, 1),
        }

    def _critic_target(self, ahead: Tensor, drawn: laws.Draw, batch: Batch) -> Tensor:
        """(B,) from the normalised features of the next observations and the actions drawn there."""
        return losses.critic_target(
            torch.from_numpy(batch.reward),
            torch.from_numpy(batch.terminated).float(),
            self._targets.forward(torch.cat((ahead, 2.0 * drawn.unit - 1.0), 1))[..., 0],
            drawn.log_prob,
            self._log_temperature.exp(),
            self.config.gamma if batch.discount is None else torch.from_numpy(batch.discount),
            self._bounds,
        )

    def _update_critics(self, inputs: Tensor, target: Tensor) -> Tensor:
        values = self._critics.forward(inputs)
        slopes = losses.critic_slopes(values[..., 0], target)
        loss = losses.critic_loss(values[..., 0], target)
        self._critics.backward(slopes[..., None])
        self._optimizers["critic"].step()
        self._critics.refresh()
        return loss

    def _update_actor(self, inputs: Tensor, drawn: laws.Draw) -> dict[str, float]:
        """A step of policy and temperature; writes the actions drawn into `inputs`."""
        width = drawn.unit.shape[1]
        torch.sub(2.0 * drawn.unit, 1.0, out=inputs[:, -width:])
        values = self._critics.forward(inputs, self.config.actor_critics)[..., 0]
        temperature, log_prob = self._log_temperature.exp().item(), drawn.log_prob
        loss = losses.actor_loss(values, log_prob, temperature)
        # The critics see 2 unit - 1.
        unit_slope = 2.0 * self._critics.backward(
            losses.actor_slopes(values)[..., None], parameters=False, inputs=width
        )
        slopes = self._law.raw_gradient(drawn, unit_slope, temperature / len(log_prob))
        self._policies.backward(slopes[None])
        self._optimizers["policy"].step()
        self._policies.refresh()
        mean_log_prob = log_prob.mean()
        self._temperature_slope.copy_(losses.temperature_slope(mean_log_prob, self._target_entropy))
        self._optimizers["temperature"].step()
        return {"actor_loss": loss.item(), "entropy": -mean_log_prob.item()}

    def controller(self) -> TorchController:
        """The deterministic controller as it is now; later updates do not change it."""
        policy = PolicyModule(self.policy.shape)
        policy.load_state_dict(self.policy.state_dict())
        return TorchController(policy, self.manifest)

    def save_controller(self, folder: Path, extra: dict[str, Any]) -> None:
        """Write the controller as it is now, and the critics beside it."""
        save_controller(self.controller(), folder, extra, critic=self.critic)

    def initialise_from(self, controller: TorchController) -> None:
        """Take over policy and normalizer of a trained controller, and its critics where they were saved with it.

        Raises:
            UserError: Its networks are of another shape; says what differs.
        """
        if controller.module.shape != self.policy.shape:
            told, same_task = shape_differences(controller.module.shape, self.policy.shape)
            remedy = "give this run the same settings" if same_task else "choose one that was trained on this task"
            raise UserError(
                f"init_from: the controller was trained on {controller.manifest.task}, this run is on "
                f"{self.manifest.task}, and they differ in {'; '.join(told)}: {remedy}, or leave init_from= out"
            )
        self.policy.load_state_dict(controller.module.state_dict())
        if controller.critic is not None:
            ours, theirs = self.critic.state_dict(), controller.critic
            if {k: v.shape for k, v in ours.items()} == {k: v.shape for k, v in theirs.items()}:
                self.critic.load_state_dict(theirs)
                self.target.load_state_dict(theirs)
        self._refresh()

    def state(self) -> tuple[Arrays, dict[str, Any]]:
        """Everything that the next update depends on, for a checkpoint."""
        arrays = {"log_temperature": self._log_temperature, "generator": self._generator.get_state()}
        for name, module in self._modules().items():
            arrays |= {f"{name}/{key}": value for key, value in module.state_dict().items()}
        for name, optimizer in self._optimizers.items():
            arrays |= {f"adam/{name}/{key}": value for key, value in optimizer.state().items()}
        return {key: value.numpy().copy() for key, value in arrays.items()}, {
            "updates": self.updates,
            "actor": self._actor_told,
        }

    def restore(self, arrays: Arrays, meta: dict[str, Any]) -> None:
        """Undo `state`; a checkpoint of networks of another shape is refused."""
        tensors = {key: torch.from_numpy(np.array(value)) for key, value in arrays.items()}
        try:
            for name, module in self._modules().items():
                module.load_state_dict(_below(tensors, f"{name}/"))
            for name, optimizer in self._optimizers.items():
                optimizer.restore(_below(tensors, f"adam/{name}/"))
        except (KeyError, RuntimeError) as error:
            raise UserError("the checkpoint's networks have other shapes: resume with the settings it had") from error
        self._log_temperature.copy_(tensors["log_temperature"])
        self._refresh()
        self._generator.set_state(tensors["generator"])
        self.updates, self._actor_told = meta["updates"], meta["actor"]

    def _diverged(self) -> UserError:
        config = self.config
        return UserError(
            f"the training diverged: after {self.updates:,} updates the networks give numbers that are not finite; "
            f"train in another run_dir= with lower learning rates than sac.actor_lr={config.actor_lr}, "
            f"sac.critic_lr={config.critic_lr}, sac.temperature_lr={config.temperature_lr}, or with a smaller "
            f"sac.initial_temperature={config.initial_temperature}"
        )

    def _refresh(self) -> None:
        for stack in (self._policies, self._critics, self._targets):
            stack.refresh()

    def _modules(self) -> dict[str, torch.nn.Module]:
        return {"policy": self.policy, "critic": self.critic, "target": self.target}


def _policy_shape(spec: EnvSpec, config: SacConfig) -> PolicyShape:
    differences, ignored = _relations(spec, config)
    return PolicyShape(
        differences=differences,
        distances=_distances(spec, len(differences)) if config.distances else (),
        ignored=ignored,
        observation_width=spec.layout.state_width + spec.layout.entity_width,
        goal_width=spec.layout.goal_width,
        action_low=spec.action_low,
        action_high=spec.action_high,
        hidden=config.hidden,
        max_concentration=config.max_concentration,
        clip=config.input_clip,
        min_std=config.min_std,
        law=config.law,
    )


def _relations(spec: EnvSpec, config: SacConfig) -> tuple[tuple[tuple[int, int], ...], tuple[int, ...]]:
    """`PolicyShape.differences` and `ignored` from the names in the configuration."""
    layout = spec.layout
    offered = (*layout.robot, *layout.entity)
    units = {term.unit for term in layout.goal}
    terms = {t.name: t for t in offered if t.width == layout.goal_width and t.unit in units}
    pairs: list[tuple[int, int]] = []
    planar = [layout.state_width + layout.entity_width + i for i in (0, 1)] if config.anywhere else []
    for name in config.relative_to:
        if name not in terms:
            fit = ", ".join(terms) or "none"
            raise UserError(f"sac.relative_to: '{name}' is no position of {spec.task}; valid: {fit}")
        columns = term_indices((terms[name],), offered, "observation")
        pairs += [(goal, int(column)) for goal, column in enumerate(columns)]
        planar += [int(column) for column in columns[:2]] if config.anywhere else []
    return tuple(pairs), tuple(sorted(planar))


def _distances(spec: EnvSpec, differences: int) -> tuple[tuple[tuple[int, ...], float | None], ...]:
    """`PolicyShape.distances`: two for each position that the goal is seen from."""
    if not 0.0 < spec.tolerance < math.inf:
        raise UserError(f"sac.distances: {spec.task} names no tolerance; set it to false")
    width = spec.layout.goal_width
    groups = [tuple(range(first, first + width)) for first in range(0, differences, width)]
    return tuple((group, limit) for group in groups for limit in (None, 2.0 * spec.tolerance))


def _below(tensors: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {key.removeprefix(prefix): value for key, value in tensors.items() if key.startswith(prefix)}
