"""An episode as two parts: what every tool understands, and what only this software keeps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from embodied.errors import UserError
from embodied.protocols import GoalReward
from embodied.spec import EnvSpec
from embodied.types import Episode, FloatArray

Arrays = dict[str, NDArray[Any]]

OWN = "embodied"
"""The group of ours in an episode's group."""
_ALWAYS_OWN = ("goal_entity", "goal_mask", "interval", "success", "subgoal_id", "terminated", "truncated")
_FROM_GOALS = ("state", "entities", "achieved", "goal_value")
"""Fields that the goal dictionary tells; kept beside it only where it does not tell them to the last bit."""


class GoalLayout(Protocol):
    """How a task's arrays become Gymnasium's goal dictionaries and come back; `robots.goal_layout` makes it."""

    @property
    def spec(self) -> EnvSpec: ...

    @property
    def reward(self) -> GoalReward: ...

    @property
    def env_id(self) -> str | None:
        """Gymnasium's name of the task, where it has one."""
        ...

    @property
    def env_spec(self) -> str | None:
        """Gymnasium's `EnvSpec` as JSON, where there is one."""
        ...

    @property
    def observation_space(self) -> Mapping[str, Mapping[str, Any]]:
        """For each key of the goal dictionary a Box as JSON: type, dtype, shape, low, high."""
        ...

    @property
    def action_space(self) -> Mapping[str, Any]: ...

    def to_goal_dict(self, episode: Episode) -> dict[str, FloatArray]:
        """`observation`, `achieved_goal`, `desired_goal`, T + 1 rows each."""
        ...

    def from_goal_dict(self, numbers: Mapping[str, NDArray[Any]]) -> Arrays:
        """`state`, `entities`, `achieved`, `goal_entity`, `goal_value`, `goal_mask`; LayoutError for another task's."""
        ...


@dataclass(frozen=True)
class Columns:
    """What a step is to every tool; T steps, T + 1 observations."""

    observation: NDArray[Any]
    achieved_goal: NDArray[Any]
    desired_goal: NDArray[Any]
    action: NDArray[Any]
    reward: NDArray[Any]
    terminated: NDArray[Any] | None
    """(T,); None where the file does not tell the end of a task from the end of its time."""
    truncated: NDArray[Any] | None

    @property
    def goals(self) -> Arrays:
        """The goal dictionary."""
        names = ("observation", "achieved_goal", "desired_goal")
        return {name: getattr(self, name) for name in names}


def split(episode: Episode, goals: GoalLayout) -> tuple[Columns, Arrays]:
    """An episode as columns for every tool and arrays of ours, from which `join` makes the same episode.

    An array of ours whose rows are all alike is kept as a single row.
    """
    numbers = goals.to_goal_dict(episode)
    columns = Columns(
        **{key: np.ascontiguousarray(value) for key, value in numbers.items()},
        action=episode.action,
        reward=episode.reward,
        terminated=episode.terminated,
        truncated=episode.truncated,
    )
    told = goals.from_goal_dict(numbers)
    names = [*_ALWAYS_OWN, *(name for name in _FROM_GOALS if not _same(told[name], getattr(episode, name)))]
    return columns, {name: _one_row(getattr(episode, name)) for name in names}


def join(columns: Columns, own: Arrays, goals: GoalLayout) -> Episode:
    """Undo `split`."""
    steps = len(columns.action)
    told = goals.from_goal_dict(columns.goals)
    told |= {name: _all_rows(value, steps + (name in _FROM_GOALS[:3])) for name, value in own.items()}
    told |= {"action": columns.action, "reward": columns.reward}
    return Episode(**{field.name: np.ascontiguousarray(told[field.name]) for field in fields(Episode)})


@dataclass(frozen=True)
class Adopted:
    """An episode that someone else recorded, and how far it is not what this task would have recorded."""

    episode: Episode
    clipped: int
    """Steps whose action lay outside the limits."""
    other_rewards: int
    """Steps whose reward is not the task's."""


def adopt(columns: Columns, goals: GoalLayout) -> Adopted:
    """An episode of the same task that other software recorded.

    Success is what the task's own reward function says; actions are clipped to the limits, as the task executes them;
    where the end of the task and of its time are not told apart, the task's own function tells them.

    Raises:
        UserError: The arrays are not those of this task.
        ValueError: Some of the numbers are not finite.
    """
    spec, steps = goals.spec, len(columns.action)
    if columns.action.shape[1:] != (spec.action_width,):
        names = ", ".join(f"{term.name} {term.width}" for term in spec.actions)
        raise UserError(
            f"its actions have shape {columns.action.shape[1:]}, {spec.task} has {spec.action_width}: {names}"
        )
    told = goals.from_goal_dict(columns.goals)
    numbers = [*told.values(), columns.action, columns.reward]
    if not all(array.dtype.kind in "fiub" for array in numbers):
        raise ValueError("it holds something else than numbers")
    if not all(np.isfinite(array).all() for array in numbers):
        raise ValueError("it holds numbers that are not finite")
    limits = np.array([spec.action_low, spec.action_high], dtype=np.float32)
    raw = np.asarray(columns.action, dtype=np.float32)
    action = np.clip(raw, *limits)
    row = told["goal_entity"]
    reached = told["achieved"][np.arange(1, steps + 1), row]
    outcome = goals.reward(reached, told["goal_value"], told["goal_mask"])
    reward = np.asarray(columns.reward, dtype=np.float32)
    last = np.arange(steps) == steps - 1
    terminated = outcome.terminated if columns.terminated is None else columns.terminated
    truncated = last & ~outcome.terminated if columns.truncated is None else columns.truncated
    episode = Episode(
        **told,
        action=action,
        interval=np.broadcast_to(limits, (steps, *limits.shape)).copy(),
        reward=reward,
        terminated=np.asarray(terminated, dtype=bool),
        truncated=np.asarray(truncated, dtype=bool),
        success=np.asarray(outcome.success, dtype=bool),
        subgoal_id=np.zeros(steps, dtype=np.int32),
    )
    other = ~np.isclose(reward, outcome.reward, rtol=1e-4, atol=1e-5)
    return Adopted(episode, int((raw != action).any(axis=1).sum()), int(other.sum()))


def _same(one: NDArray[Any], other: NDArray[Any]) -> bool:
    """Bit for bit, which tells 0.0 from -0.0."""
    return one.dtype == other.dtype and one.shape == other.shape and one.tobytes() == other.tobytes()


def _one_row(array: NDArray[Any]) -> NDArray[Any]:
    """The first row where all rows are alike to the last bit, else the array."""
    if len(array) > 1 and array.size and all(row.tobytes() == array[0].tobytes() for row in array[1:]):
        return np.ascontiguousarray(array[:1])
    return np.ascontiguousarray(array)


def _all_rows(array: NDArray[Any], rows: int) -> NDArray[Any]:
    return np.broadcast_to(array, (rows, *array.shape[1:])) if len(array) == 1 else array
