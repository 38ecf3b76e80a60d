"""Between our arrays and Gymnasium's goal dictionaries: the same numbers, in Gymnasium's order, there and back.

A goal dictionary has `observation`, `achieved_goal` and `desired_goal`, here with one row for each of the T + 1
observations of an episode.
https://robotics.farama.org/content/multi-goal_api/ ; Plappert et al. 2018, arXiv 1802.09464.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from embodied.errors import LayoutError
from embodied.protocols import Env, GoalReward
from embodied.spec import EnvSpec, Term, term_indices, width_of
from embodied.types import Episode, FloatArray
from robots import fetch, maze
from robots.base import FETCH_STATE_TERMS, OBJECT_TERMS, entity_rows, load_gymnasium
from robots.registry import FOREIGN_PREFIX, make_env

GoalDict = dict[str, FloatArray]
Space = dict[str, Any]
"""A Box in words that JSON has: dtype, shape, low, high."""

_GYMNASIUM_ORDER = (
    "grip_pos", "object_pos", "object_rel_pos", "gripper_state", "object_rot", "object_velp", "object_velr",
    "grip_velp", "gripper_vel",
)  # fmt: skip
"""How Gymnasium-Robotics concatenates Fetch's observation where the task has an object."""


class Observations(Protocol):
    """How a task's `observation` is made of an episode's arrays, and taken apart again."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Of one observation."""
        ...

    @property
    def goal_width(self) -> int:
        """Numbers of a goal in a goal dictionary; the leading ones of ours."""
        ...

    def join(self, episode: Episode) -> FloatArray:
        """(T+1, *shape)"""
        ...

    def split(self, observation: FloatArray, achieved_goal: FloatArray) -> dict[str, FloatArray]:
        """`state` (T+1, S), `entities` (T+1, E, F), `achieved` (T+1, E, G) with `achieved_goal` as one of its rows."""
        ...


@dataclass(frozen=True)
class GoalLayout:
    """A task's goal dictionaries: how they are made, what they look like, and what a transition in them is worth."""

    spec: EnvSpec
    reward: GoalReward
    observations: Observations
    env_id: str | None
    """Gymnasium's name of the task, where it is one of Gymnasium's."""
    env_spec: str | None
    """Gymnasium's `EnvSpec` as JSON, where the task is one of Gymnasium's."""
    observation_space: Mapping[str, Space]
    action_space: Space

    def to_goal_dict(self, episode: Episode) -> GoalDict:
        """An episode of this task as a goal dictionary.

        A step's goal stands beside the observation that it was pursued from, the last one twice: an `Episode` does not
        say what would have been asked for after its end.
        """
        width = self.observations.goal_width
        entity = np.append(episode.goal_entity, episode.goal_entity[-1])
        desired = np.concatenate([episode.goal_value, episode.goal_value[-1:]])
        return {
            "observation": self.observations.join(episode),
            "achieved_goal": episode.achieved[np.arange(len(entity)), entity, :width],
            "desired_goal": desired[:, :width],
        }

    def from_goal_dict(self, numbers: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        """What a goal dictionary says of an episode of this task, by the names of `Episode`.

        Returns:
            `state`, `entities`, `achieved`, `goal_entity`, `goal_value`, `goal_mask`; floats as float32.

        Raises:
            LayoutError: The widths are not this task's.
        """
        observation, achieved, desired = (
            self._checked(key, numbers[key]) for key in ("observation", "achieved_goal", "desired_goal")
        )
        steps, width = len(observation) - 1, self.observations.goal_width
        value = np.zeros((steps, self.spec.layout.goal_width), dtype=np.float32)
        value[:, :width] = desired[:-1]
        row = self.spec.layout.entity_index(self.spec.goal_entity)
        return {
            **self.observations.split(observation, achieved),
            "goal_entity": np.full(steps, row, dtype=np.int32),
            "goal_value": value,
            "goal_mask": np.broadcast_to(np.arange(value.shape[1]) < width, value.shape).copy(),
        }

    def _checked(self, key: str, array: NDArray[Any]) -> FloatArray:
        shape = self.observations.shape if key == "observation" else (self.observations.goal_width,)
        if array.shape[1:] == shape:
            return np.asarray(array, dtype=np.float32)
        layout = self.spec.layout
        terms = layout.goal if key != "observation" else (*layout.robot, *layout.entity)
        names = ", ".join(f"{term.name} {term.width}" for term in terms)
        raise LayoutError(f"'{key}' has shape {array.shape[1:]}, {self.spec.task} has {shape} made of: {names}")


@dataclass(frozen=True)
class ArmObservations:
    """A gripper and what lies before it: the robot's numbers and each object's, in the order of `terms`."""

    terms: tuple[Term, ...]
    """Order in a goal dictionary, for a single object; with more of them, the robot's and then object by object."""
    objects: int
    goal_row: int
    goal_width: int = 3

    @property
    def shape(self) -> tuple[int, ...]:
        return (len(self._order),)

    @property
    def _order(self) -> NDArray[np.intp]:
        """Where each number of an observation stands in the robot's numbers followed by the objects'."""
        if self.objects < 2:
            own = FETCH_STATE_TERMS + OBJECT_TERMS * self.objects
            return term_indices(self.terms, own, "observation")
        width = sum(term.width for term in FETCH_STATE_TERMS)
        return np.arange(width + self.objects * sum(term.width for term in OBJECT_TERMS))

    def join(self, episode: Episode) -> FloatArray:
        """(T+1, D)"""
        objects = episode.entities[:, 1:, : width_of(OBJECT_TERMS)].reshape(len(episode.state), -1)
        return np.concatenate([episode.state, objects], axis=1)[:, self._order]

    def split(self, observation: FloatArray, achieved_goal: FloatArray) -> dict[str, FloatArray]:
        """Positions that are no goal are read off the observation."""
        numbers = np.empty_like(observation)
        numbers[:, self._order] = observation
        rows, width = len(numbers), sum(term.width for term in FETCH_STATE_TERMS)
        state = numbers[:, :width]
        features = numbers[:, width:].reshape(rows, self.objects, -1) if self.objects else np.zeros((rows, 0, 0))
        entities = entity_rows(features) if self.objects else np.zeros((rows, 1, 0), dtype=np.float32)
        achieved = (
            np.concatenate([state[:, None, :3], features[:, :, :3]], axis=1) if self.objects else state[:, None, :3]
        )
        achieved = achieved.astype(np.float32)
        achieved[:, self.goal_row] = achieved_goal
        return {"state": np.ascontiguousarray(state), "entities": entities, "achieved": achieved}


@dataclass(frozen=True)
class PlanarObservations:
    """A point mass: the observation is the state, and goals have no height."""

    shape: tuple[int, ...] = (4,)
    goal_width: int = 2

    def join(self, episode: Episode) -> FloatArray:
        """(T+1, 4)"""
        return episode.state

    def split(self, observation: FloatArray, achieved_goal: FloatArray) -> dict[str, FloatArray]:
        """The height of what was achieved is 0."""
        achieved = np.zeros((len(observation), 1, 3), dtype=np.float32)
        achieved[:, 0, :2] = achieved_goal
        entities = np.zeros((len(observation), 1, 0), dtype=np.float32)
        return {"state": observation, "entities": entities, "achieved": achieved}


@dataclass(frozen=True)
class ForeignObservations:
    """`gym:<id>`: the state is the observation, flat, followed by the achieved goal."""

    shape: tuple[int, ...]
    goal_width: int

    def join(self, episode: Episode) -> FloatArray:
        """(T+1, *shape)"""
        width = int(np.prod(self.shape))
        return episode.state[:, :width].reshape(len(episode.state), *self.shape)

    def split(self, observation: FloatArray, achieved_goal: FloatArray) -> dict[str, FloatArray]:
        """One entity without features."""
        flat = observation.reshape(len(observation), -1)
        entities = np.zeros((len(flat), 1, 0), dtype=np.float32)
        state = np.concatenate([flat, achieved_goal], axis=1)
        return {"state": state, "entities": entities, "achieved": achieved_goal[:, None]}


def goal_layout(task: str) -> GoalLayout:
    """The goal dictionaries of a registered task or of `gym:<id>`; builds its environment once.

    Raises:
        UserError: There is no such task, or it cannot be made.
    """
    env = make_env(task)
    try:
        return goal_layout_of(env)
    finally:
        env.close()


def goal_layout_of(env: Env) -> GoalLayout:
    """The goal dictionaries of an environment that is there already, a tabletop scene included."""
    spec = env.spec
    if spec.task in fetch.TASKS:
        return _of_gymnasium(env, fetch.TASKS[spec.task].env_id, {})
    if spec.task in maze.TASKS:
        return _of_gymnasium(env, maze.TASKS[spec.task], {"continuing_task": True, "reset_target": False})
    if spec.task.startswith(FOREIGN_PREFIX):
        return _of_gymnasium(env, spec.task.removeprefix(FOREIGN_PREFIX), {})
    return _of_scene(env)


def _of_gymnasium(env: Env, env_id: str, options: Mapping[str, Any]) -> GoalLayout:
    original = load_gymnasium().make(env_id, disable_env_checker=True, **options)
    try:
        spaces = {key: _box(space) for key, space in original.observation_space.spaces.items() if _is_box(space)}
        actions, words = _box(original.action_space), _spec_json(original.spec)
        name = str(original.spec.id)
    finally:
        original.close()
        # Gymnasium-Robotics writes a maze to the folder for temporary files and leaves it there.
        if hasattr(original.unwrapped, "tmp_xml_file_path"):
            Path(original.unwrapped.tmp_xml_file_path).unlink(missing_ok=True)
    spaces = {key: spaces[key] for key in ("observation", "achieved_goal", "desired_goal")}
    observations = _observations_of(env.spec, tuple(spaces["observation"]["shape"]))
    return GoalLayout(env.spec, env.reward, observations, name, words, spaces, actions)


def _observations_of(spec: EnvSpec, shape: tuple[int, ...]) -> Observations:
    if spec.task in maze.TASKS:
        return PlanarObservations()
    if spec.task in fetch.TASKS:
        objects = len(spec.layout.entities) - 1
        terms = {term.name: term for term in FETCH_STATE_TERMS + OBJECT_TERMS}
        order = tuple(terms[name] for name in _GYMNASIUM_ORDER) if objects else FETCH_STATE_TERMS
        return ArmObservations(order, objects, spec.layout.entity_index(spec.goal_entity))
    return ForeignObservations(shape, spec.layout.goal_width)


def _of_scene(env: Env) -> GoalLayout:
    """A task that Gymnasium does not have: the same three keys, spaces without limits."""
    spec = env.spec
    objects = len(spec.layout.entities) - 1
    row = spec.layout.entity_index(spec.goal_entity)
    observations = ArmObservations((*FETCH_STATE_TERMS, *OBJECT_TERMS * min(objects, 1)), objects, row)
    goal = _unbounded((observations.goal_width,))
    spaces = {"observation": _unbounded(observations.shape), "achieved_goal": goal, "desired_goal": goal}
    actions = _space("float32", (spec.action_width,), list(spec.action_low), list(spec.action_high))
    return GoalLayout(spec, env.reward, observations, None, None, spaces, actions)


def _is_box(space: Any) -> bool:
    return hasattr(space, "low") and hasattr(space, "high")


def _box(space: Any) -> Space:
    return _space(str(space.dtype), space.shape, space.low.tolist(), space.high.tolist())


def _unbounded(shape: tuple[int, ...]) -> Space:
    return _space("float32", shape, np.full(shape, -np.inf).tolist(), np.full(shape, np.inf).tolist())


def _space(dtype: str, shape: Sequence[int], low: Any, high: Any) -> Space:
    return {"type": "Box", "dtype": dtype, "shape": list(shape), "low": low, "high": high}


def _spec_json(spec: Any) -> str | None:
    """Gymnasium's words for how the environment is made; None where its options have none."""
    try:
        words = str(spec.to_json())
        json.loads(words)
    except (TypeError, ValueError):
        return None
    return words
