"""The policy, which maps an observation and a goal to an action, and the critics that judge it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from embodied.learning.beta import MAX_CONCENTRATION
from embodied.learning.flat import FlatParameters
from embodied.learning.laws import make_law
from embodied.learning.normalizer import Normalizer
from embodied.learning.stacked import Layer, Norm, Pair
from embodied.learning.unit import to_action


@dataclass(frozen=True)
class PolicyShape:
    """What is needed to build a `PolicyModule` again."""

    observation_width: int
    goal_width: int
    action_low: tuple[float, ...]
    action_high: tuple[float, ...]
    hidden: tuple[int, ...] = (128, 128, 128)
    max_concentration: float = MAX_CONCENTRATION
    clip: float = 5.0
    min_std: float = 1e-3
    differences: tuple[tuple[int, int], ...] = ()
    """(goal number, observation number): pairs whose difference, goal - observation, is a further input."""
    distances: tuple[tuple[tuple[int, ...], float | None], ...] = ()
    """(numbers of `differences`, limit in metres): the length of the vector that they are, at most the limit, is a
    further input."""
    ignored: tuple[int, ...] = ()
    """Numbers of (observation, goal) that are no input themselves."""
    law: str = "beta"
    """What the head's outputs mean, one of `laws.LAWS`; files from before there was a choice do not name it."""

    @property
    def kept(self) -> tuple[int, ...]:
        """Numbers of (observation, goal) that are inputs themselves."""
        return tuple(i for i in range(self.observation_width + self.goal_width) if i not in self.ignored)

    @property
    def input_width(self) -> int:
        """Numbers that the networks see."""
        return len(self.kept) + len(self.differences) + len(self.distances)


_TASKS_OWN = {
    "observation_width": "numbers of an observation", "goal_width": "numbers of a goal",
    "action_low": "least actions", "action_high": "greatest actions",
}  # fmt: skip
_SETTINGS = {
    "hidden": "sac.hidden", "max_concentration": "sac.max_concentration", "clip": "sac.input_clip",
    "min_std": "sac.min_std", "law": "sac.law", "differences": "the positions in sac.relative_to",
    "distances": "sac.distances", "ignored": "sac.anywhere",
}  # fmt: skip


def shape_differences(theirs: PolicyShape, ours: PolicyShape) -> tuple[list[str], bool]:
    """What a trained policy's shape has otherwise than a run's, in words, and whether their tasks are alike.

    Where the tasks' own numbers differ, only these are told: the others follow from them.
    """
    told = [f"{words} ({_seen(theirs, name)}, here {_seen(ours, name)})" for name, words in _TASKS_OWN.items()
            if getattr(theirs, name) != getattr(ours, name)]  # fmt: skip
    if told:
        return told, False
    for name, words in _SETTINGS.items():
        if getattr(theirs, name) != getattr(ours, name):
            numbers = name in ("differences", "distances", "ignored")
            told.append(words if numbers else f"{words} ({_seen(theirs, name)}, here {_seen(ours, name)})")
    return told, True


def _seen(shape: PolicyShape, name: str) -> str:
    value = getattr(shape, name)
    return f"[{','.join(map(str, value))}]" if isinstance(value, tuple) else str(value)


class PolicyModule(nn.Module):
    """Normalizer, MLP and the head of a law on the robot's limits, all in one module.

    `forward` is the deterministic controller: the law's centre in action units (the mean of Beta's, the median of the
    others), which is what is evaluated, exported and deployed.
    """

    low: Tensor
    """(A,) the limits, in action units."""
    high: Tensor
    _kept: Tensor
    _goal_side: Tensor
    _seen_side: Tensor

    def __init__(self, shape: PolicyShape) -> None:
        super().__init__()
        self.shape = shape
        self.law = make_law(shape.law, shape.max_concentration)
        width = shape.input_width
        self._plain = not shape.differences and not shape.ignored
        self.register_buffer("_kept", torch.tensor(shape.kept), persistent=False)
        self.register_buffer("_goal_side", torch.tensor([g for g, _ in shape.differences], dtype=torch.long), False)
        self.register_buffer("_seen_side", torch.tensor([o for _, o in shape.differences], dtype=torch.long), False)
        self.normalizer = Normalizer(width, shape.clip, shape.min_std)
        layers: list[nn.Module] = []
        for hidden in shape.hidden:
            layers += [nn.Linear(width, hidden), nn.ReLU()]
            width = hidden
        self.trunk = nn.Sequential(*layers)
        self.head = nn.Linear(width, 2 * len(shape.action_low))
        self.register_buffer("low", torch.tensor(shape.action_low, dtype=torch.float32))
        self.register_buffer("high", torch.tensor(shape.action_high, dtype=torch.float32))

    def initialise(self, generator: torch.Generator) -> None:
        """Draw the weights; the head starts close to one law for every input: softly peaked in the middle."""
        for layer in self.trunk:
            if isinstance(layer, nn.Linear):
                _uniform_fan_in(layer.weight, layer.in_features, generator)
                nn.init.zeros_(layer.bias)
        with torch.no_grad():
            self.head.weight.uniform_(-1e-2, 1e-2, generator=generator)
            self.head.bias.zero_()

    def forward(self, observation: Tensor, goal: Tensor) -> Tensor:
        """Observation (B, S+F) and goal (B, G, zeros where masked out) to the action (B, A) in action units."""
        raw = self.raw(self.features(observation, goal))
        return to_action(self.law.centre(raw), self.low, self.high)

    def features(self, observation: Tensor, goal: Tensor) -> Tensor:
        """Both inputs as one normalised vector, (B, I)."""
        return self.normalizer(self.inputs(observation, goal))

    def inputs(self, observation: Tensor, goal: Tensor) -> Tensor:
        """Both as one vector of what the networks see, (B, I), not normalised."""
        both = torch.cat((observation, goal), -1)
        if self._plain:
            return both
        apart = goal.index_select(-1, self._goal_side) - observation.index_select(-1, self._seen_side)
        parts = [both.index_select(-1, self._kept), apart]
        for members, limit in self.shape.distances:
            length = apart[..., list(members)].square().sum(-1, keepdim=True).sqrt()
            parts.append(length if limit is None else length.clamp(max=limit))
        return torch.cat(parts, -1)

    def raw(self, features: Tensor) -> Tensor:
        """The head's outputs (B, 2A), which `law` takes, from normalised features."""
        return self.head(self.trunk(features))

    def layers(self, flat: FlatParameters) -> list[Layer]:
        """Trunk and head as a stack of one member, from normalised features (B, I) to the head's outputs (1, B, 2A).

        Args:
            flat: The module's parameters.
        """
        return [
            Layer(
                Pair(layer.weight[None], flat.gradient(layer.weight)[None]),
                Pair(layer.bias[None, None], flat.gradient(layer.bias)[None, None]),
                turned=True,
            )
            for layer in (*self.trunk, self.head)
            if isinstance(layer, nn.Linear)
        ]


class CriticEnsemble(nn.Module):
    """N critics of one shape as stacked weights: one `baddbmm` a layer instead of N small products."""

    def __init__(self, members: int, input_width: int, hidden: Sequence[int], layer_norm: bool) -> None:
        super().__init__()
        widths = [input_width, *hidden, 1]
        pairs = list(zip(widths[:-1], widths[1:], strict=True))
        self.weights = nn.ParameterList(nn.Parameter(torch.zeros(members, a, b)) for a, b in pairs)
        self.biases = nn.ParameterList(nn.Parameter(torch.zeros(members, 1, b)) for _, b in pairs)
        normed = list(hidden) if layer_norm else []
        self.gains = nn.ParameterList(nn.Parameter(torch.ones(members, 1, width)) for width in normed)
        self.shifts = nn.ParameterList(nn.Parameter(torch.zeros(members, 1, width)) for width in normed)
        self.members = members

    def initialise(self, generator: torch.Generator) -> None:
        """Draw the weights of every member independently."""
        for weight in self.weights:
            _uniform_fan_in(weight, weight.shape[1], generator)
        with torch.no_grad():
            self.weights[-1].mul_(0.1)

    def forward(self, features: Tensor, unit: Tensor, first: int | None = None) -> Tensor:
        """Values of (features (B, I), action in unit coordinates (B, A)) by the `first` members, shape (N, B)."""
        hidden = torch.cat((features, 2.0 * unit - 1.0), -1).expand(first or self.members, -1, -1)
        last = len(self.weights) - 1
        for index, (weight, bias) in enumerate(zip(self.weights, self.biases, strict=True)):
            hidden = torch.baddbmm(bias[:first], hidden, weight[:first])
            if index == last:
                break
            if len(self.gains):
                normed = nn.functional.layer_norm(hidden, hidden.shape[-1:])
                hidden = torch.addcmul(self.shifts[index][:first], normed, self.gains[index][:first])
            hidden = torch.relu(hidden)
        return hidden.squeeze(-1)

    def layers(self, flat: FlatParameters) -> list[Layer]:
        """The same as a stack, from (features, 2 unit - 1) of shape (B, I + A) to values (N, B, 1).

        Args:
            flat: The module's parameters.
        """

        def pairs(parameters: nn.ParameterList) -> list[Pair]:
            return [Pair(parameter, flat.gradient(parameter)) for parameter in parameters]

        norms: list[Norm | None] = [Norm(*pair) for pair in zip(pairs(self.gains), pairs(self.shifts), strict=True)]
        norms += [None] * (len(self.weights) - len(norms))
        layers = [
            Layer(weight, bias, norm=norm)
            for weight, bias, norm in zip(pairs(self.weights), pairs(self.biases), norms, strict=True)
        ]
        # A column of weights is the same memory as a row of them, which is quicker to multiply with.
        weight = layers[-1].weight
        turned = Pair(weight.value.transpose(1, 2), weight.gradient.transpose(1, 2))
        return [*layers[:-1], Layer(turned, layers[-1].bias, turned=True)]


def _uniform_fan_in(weight: Tensor, fan_in: int, generator: torch.Generator) -> None:
    bound = math.sqrt(6.0 / fan_in)
    with torch.no_grad():
        weight.uniform_(-bound, bound, generator=generator)
