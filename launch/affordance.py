"""What a controller's critic holds of a step: the chance that it is managed from here, and doubts about a plan."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from embodied.binding import InputBinder
from embodied.hierarchy.foresight import after
from embodied.hierarchy.handling import HANDLED_SKILLS, shown_with
from embodied.learning.controller import TorchController
from embodied.learning.networks import CriticEnsemble
from embodied.protocols import Controller
from embodied.types import Goal, Observation, Plan, PlanFailure, PlanStep, SceneDescription, Subgoal

EARNING = ("point", "ant")
"""Robots whose tasks pay 1 for every step at the goal; the others' cost 1 for every step away from it."""
DOUBTED_BELOW = {"fetch_reach": 0.42, "tabletop": 0.19}
"""By the task of a controller: a twentieth of the goals within reach that it reached was valued lower by its critic.

Driven to 150 random points in the air (`reach`) and 150 on a table of 1.2 x 1.6 m (`place`), within and out of reach.
The critic of `fetch_reach` tells those that were reached from the others (area under the curve .91), that of `tabletop`
hardly (.66); of 76 that geometry held to be within reach 2 were missed. So a critic warns and refuses nothing.
"""
Ground = Callable[[Sequence[PlanStep], SceneDescription], Plan | PlanFailure]


class CriticAffordance:
    """Implements `embodied.planning.saycan.Affordance`.

    A controller that earns -1 for every step until its goal is reached, for good, after T of them has the value
    Q = -(1 - gamma^T) / (1 - gamma). So 1 + (1 - gamma) Q = gamma^T is how soon it gets there: 1 at once, 0 never. The
    critics' least value of the controller's own action is brought into [0, 1] like that. Where reaching it earns 1 a
    step, (1 - gamma) Q is the same. A skill without a controller is worth nothing, `hold` needs none.
    """

    def __init__(self, controllers: Mapping[str, Controller], ground: Ground, observation: Observation) -> None:
        """
        Args:
            controllers: By skill.
            ground: Turns a step into a goal.
            observation: What the environment shows now; to be replaced as it changes.
        """
        self._ground, self.observation = ground, observation
        self._critics = critics_of(controllers)

    def __call__(self, step: PlanStep, scene: SceneDescription) -> float:
        """Of one step, by itself, from where the robot is now."""
        if step.skill == "hold":
            return 1.0
        critic, plan = self._critics.get(step.skill), self._ground([step], scene)
        if critic is None or isinstance(plan, PlanFailure):
            return 0.0
        return critic.chance(self.observation, plan.subgoals[0].goal)


@dataclass(frozen=True)
class Opinion:
    """What a critic holds of one subgoal."""

    chance: float | None = None
    """In [0, 1]; None where no critic can say."""
    doubt: str = ""
    """A warning in words; empty where there is none."""


def second_opinions(plan: Plan, observation: Observation, controllers: Mapping[str, Controller]) -> tuple[Opinion, ...]:
    """What critics hold of every subgoal of a plan, each from the state that those before it will leave."""
    critics, opinions = critics_of(controllers), []
    for subgoal in plan.subgoals:
        opinions.append(_opinion(subgoal, observation, critics.get(subgoal.skill)))
        observation = after(observation, subgoal)
    return tuple(opinions)


def _opinion(subgoal: Subgoal, observation: Observation, critic: Critic | None) -> Opinion:
    if critic is None or not subgoal.goal.mask.any():
        return Opinion()
    if subgoal.skill in HANDLED_SKILLS:
        observation = shown_with(observation, subgoal.goal.entity)
    chance = critic.chance(observation, subgoal.goal)
    usual = DOUBTED_BELOW.get(critic.task, 0.0)
    if chance >= usual:
        return Opinion(chance)
    words = f"its critic values it at {chance:.2f}, less than nearly all that {critic.task} reaches ({usual:.2f})"
    return Opinion(chance, words)


def critics_of(controllers: Mapping[str, Controller]) -> dict[str, Critic | None]:
    """The critics of controllers by skill; None for a controller without."""
    judged = {
        id(controller): Critic(controller)
        for controller in {id(each): each for each in controllers.values()}.values()
        if isinstance(controller, TorchController) and controller.critic is not None
    }
    return {skill: judged.get(id(controller)) for skill, controller in controllers.items()}


class Critic:
    """A controller's critics."""

    def __init__(self, controller: TorchController) -> None:
        state = controller.critic
        assert state is not None
        weights = [state[f"weights.{i}"] for i in range(sum(name.startswith("weights.") for name in state))]
        self._ensemble = CriticEnsemble(
            members=weights[0].shape[0],
            input_width=weights[0].shape[1],
            hidden=[weight.shape[2] for weight in weights[:-1]],
            layer_norm=any(name.startswith("gains.") for name in state),
        )
        self._ensemble.load_state_dict(state)
        self.task = controller.manifest.task
        self._controller, self._bind = controller, InputBinder(controller.manifest)
        self._gamma = discount_of(controller)
        self._never = 0.0 if controller.manifest.robot in EARNING else 1.0
        """(1 - gamma) times what is to be added to the value of never getting there."""

    @torch.inference_mode()
    def chance(self, observation: Observation, goal: Goal) -> float:
        """Of reaching a goal, in [0, 1]."""
        module = self._controller.module
        inputs, asked = self._bind(observation, goal)
        features = module.features(torch.from_numpy(inputs)[None], torch.from_numpy(asked)[None])
        value = float(self._ensemble(features, module.law.centre(module.raw(features))).amin())
        return min(1.0, max(0.0, self._never + (1.0 - self._gamma) * value))


def discount_of(controller: TorchController) -> float:
    """The discount that a controller was trained with: of the command in its file, else its task's."""
    from .compose import hydra_config
    from .verbs.train import KEYS

    words = str(controller.extra.get("command", "")).split()[2:]
    told: list[Any] = [word for word in words if word.startswith(("preset=", "sac.gamma="))]
    return float(hydra_config(KEYS, [f"task={controller.manifest.task}", *told], ("task", "preset")).sac.gamma)
