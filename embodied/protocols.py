"""The seams between parts: small protocols, each of one to three methods."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from embodied.spec import EnvSpec
from embodied.types import (
    BoolArray,
    FloatArray,
    Frame,
    Goal,
    Observation,
    Outcome,
    PlanFailure,
    PlanStep,
    PolicyManifest,
    SceneDescription,
    SceneState,
    Step,
    StepOutcome,
)


class GoalReward(Protocol):
    """Reward, termination and success as a function of goal-space values, for one pair or a million."""

    def __call__(self, achieved: FloatArray, goal: FloatArray, mask: BoolArray) -> Outcome:
        """All of shape (N, G). The same numbers the environment's `step` gives."""
        ...


@runtime_checkable
class Env(Protocol):
    """A task: one episode at a time, no autoreset."""

    spec: EnvSpec
    reward: GoalReward

    @property
    def goal(self) -> Goal:
        """The goal of the current episode."""
        ...

    def reset(self, seed: int) -> Observation:
        """A new episode; the same seed gives the same episode, whatever came before."""
        ...

    def step(self, action: FloatArray) -> Step:
        """One control period."""
        ...

    def close(self) -> None: ...


@runtime_checkable
class SceneEnv(Env, Protocol):
    """An environment whose scene can be read, looked at, and given goals from outside."""

    def set_goal(self, goal: Goal) -> None:
        """Pursue this goal from now on; rewards and successes speak of it."""
        ...

    def scene_state(self) -> SceneState:
        """The scene as the simulator knows it now."""
        ...

    def render(self, camera: str | None = None, width: int = 320, height: int = 240, depth: bool = False) -> Frame:
        """A picture; without a name, from the camera that shows the scene best."""
        ...


@runtime_checkable
class Controller(Protocol):
    """A goal-conditioned policy without exploration."""

    manifest: PolicyManifest

    def act(self, observation: Observation, goal: Goal) -> FloatArray:
        """The action, shape (A,), in action units."""
        ...


class Describer(Protocol):
    """Camera frames to words and facts."""

    name: str

    def describe(self, frames: Sequence[Frame]) -> SceneDescription: ...


class Planner(Protocol):
    """Words and a described scene to steps, or to an honest refusal."""

    name: str

    def propose(self, instruction: str, scene: SceneDescription) -> Sequence[PlanStep] | PlanFailure: ...


@runtime_checkable
class RemindedPlanner(Planner, Protocol):
    """A planner that is told before a further proposal what has become of its steps."""

    def remind(self, history: Sequence[StepOutcome]) -> None:
        """All that was done so far, in its order; takes the place of what was said before."""
        ...
