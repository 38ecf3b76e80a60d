"""Whether a subgoal was reached, judged from facts and distances; and the records of what was done."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from embodied.facts import holds
from embodied.types import FailureReason, FloatArray, Goal, Observation, Predicate, SceneState, Subgoal

STILL_M = 0.015
"""A gripper or robot that moved less than this is said not to have moved: an arm at home settles by 0.011 m."""
LASTING = frozenset({"in", "on", "left_of", "right_of", "in_front_of", "behind", "near"})
"""Facts that still have to hold when the robot has come to rest."""
Phase = Literal["rise", "hover", "go", "hold", "clear", "above", "down", "close", "up", "over", "lower", "open", "done"]


@dataclass(frozen=True)
class StepRecord:
    """One control step of an execution, given to observers after it was taken."""

    step: int
    """Counted from 1 over the whole execution."""
    time_s: float
    """The scene's time after the step."""
    subgoal: int
    """Index into the report's subgoals; the last one's while holding still at the end."""
    phase: Phase
    """rise: away from what was touched; hover: to a point above the target; go: to the goal; hold: standing still; the
    others are stages of handling a thing."""
    goal: Goal
    """What the controller was asked for, in B."""
    distance_m: float
    """From the subgoal's goal point after the step; nan where there is none."""
    observation: Observation
    """After the step."""
    action: FloatArray
    """As executed, (A,)."""
    state: SceneState
    """After the step."""
    reached: bool
    """The subgoal is reached at this step."""
    attempt: int = 0
    """Of the subgoal, counted from 1; 0 where none was begun."""


@dataclass(frozen=True)
class Event:
    """Something that happened between control steps of an execution, given to listeners."""

    kind: Literal["begins", "reached", "missed", "recovery"]
    step: int
    """Control steps taken before it."""
    subgoal: int
    """Index into the report's subgoals."""
    call: str
    """The subgoal as one writes it."""
    text: str
    """Why it was reached or missed, or what is done about it."""
    attempt: int
    """Of the subgoal, counted from 1."""


@dataclass(frozen=True)
class ExecutedSubgoal:
    """What became of one subgoal."""

    skill: str
    args: tuple[str, ...]
    reached: bool
    steps: int
    """Control steps of all attempts together."""
    attempts: int
    distance_m: float
    """From the goal point when the subgoal ended; nan where it was not tried or has none."""
    why: str

    def to_dict(self) -> dict[str, Any]:
        """JSON data; a distance that is not known is null."""
        return {
            "skill": self.skill,
            "args": list(self.args),
            "reached": self.reached,
            "steps": self.steps,
            "attempts": self.attempts,
            "distance_m": None if np.isnan(self.distance_m) else self.distance_m,
            "why": self.why,
        }


class Entry:
    """What is known of a subgoal while it is pursued."""

    def __init__(self, subgoal: Subgoal) -> None:
        self.subgoal = subgoal
        self.reached, self.steps, self.attempts, self.distance_m, self.why = False, 0, 0, math.nan, "not tried"

    def report(self) -> ExecutedSubgoal:
        """As it stands."""
        s = self.subgoal
        return ExecutedSubgoal(s.skill, s.args, self.reached, self.steps, self.attempts, self.distance_m, self.why)


def same_step(a: Subgoal, b: Subgoal) -> bool:
    """Both are the same step of a plan, wherever their targets lie."""
    return (a.skill, a.args) == (b.skill, b.args)


def call(subgoal: Subgoal) -> str:
    """As one writes it: `place(red_block, left_tray)`."""
    return f"{subgoal.skill}({', '.join(subgoal.args)})"


@dataclass(frozen=True)
class ExecutionReport:
    """What became of a plan."""

    subgoals: tuple[ExecutedSubgoal, ...]
    ok: bool
    reason: FailureReason | None
    """None where all went well."""
    message: str
    """Why it stopped; empty where all went well."""
    steps: int
    """All control steps, the final hold included."""
    retries: int
    replans: int
    final_facts: tuple[Predicate, ...]
    """Of the last state, after holding still."""
    step_backs: int = 0
    """How often something that had been done was found undone, and done again."""
    adjustments: int = 0
    """How often a target was computed anew because what it depends on was moved."""
    recoveries: tuple[str, ...] = ()
    """What was done about mishaps, in order, each with its control step."""

    def to_dict(self) -> dict[str, Any]:
        """JSON data with the keys `executed` and `final_facts` of a result file, and the totals."""
        facts = [
            {"predicate": fact.name, "args": list(fact.args), "probability": 1.0, "source": "state"}
            for fact in self.final_facts
        ]
        return {
            "executed": [subgoal.to_dict() for subgoal in self.subgoals],
            "final_facts": facts,
            "execution_steps": self.steps,
            "retries": self.retries,
            "replans": self.replans,
            "step_backs": self.step_backs,
            "adjustments": self.adjustments,
            "recoveries": list(self.recoveries),
        }


class Monitor:
    """Watches one attempt at one subgoal.

    `touch` is reached when the contact becomes true during the attempt: one that was there before has to end first.
    Other skills are reached when all success facts hold, or, where there are none, when the goal entity is within the
    tolerance of the goal.

    Args:
        subgoal: What is attempted.
        observation: Before the attempt.
        state: Before the attempt.
        at_the_end: Judged only when `conclude` says that the attempt is over: a thing that lies where it should is not
            placed while the fingers are still round it.
    """

    def __init__(
        self, subgoal: Subgoal, observation: Observation, state: SceneState, *, at_the_end: bool = False
    ) -> None:
        self._subgoal, self._at_the_end = subgoal, at_the_end
        self._start = _mover(observation, state)
        self._travel_m = 0.0
        self.distance_m = self._distance(observation)
        self._true = self._holds(observation, state)
        self.already = self._true and subgoal.skill != "touch"
        """The subgoal holds before anything was done for it."""
        self.reached = self.already

    def update(self, observation: Observation, state: SceneState) -> bool:
        """Looks at the state after a control step; returns and remembers whether the subgoal was reached."""
        self.distance_m = self._distance(observation)
        self._travel_m = max(self._travel_m, float(np.linalg.norm(_mover(observation, state) - self._start)))
        now = self._holds(observation, state)
        new = now and (self._subgoal.skill != "touch" or not self._true)
        self.reached = self.reached or (new and not self._at_the_end)
        self._true = now
        return self.reached

    def conclude(self) -> None:
        """The attempt is over: it is judged as things are now."""
        self.reached = self._true

    def why(self, steps: int) -> str:
        """How the attempt ended, after so many control steps."""
        wanted = " and ".join(str(predicate) for predicate in self._subgoal.success)
        if self.already:
            return f"already true: {wanted or f'within {self._subgoal.tolerance_m:.2f} m'}"
        if self.reached and self._subgoal.skill == "touch":
            return f"{wanted} became true"
        if self.reached:
            return f"{wanted} holds" if wanted else f"within {self._subgoal.tolerance_m:.2f} m of the target"
        state = f"{wanted} is not true, " if wanted and not self._true else ""
        if self._true and self._subgoal.skill == "touch":
            state = f"{wanted} was true before and never ended, so it could not become true, "
        if self._travel_m < STILL_M:
            return f"timed_out: nothing moved in {steps} steps; {state}{self.distance_m:.3f} m from the goal"
        return f"timed_out after {steps} steps: {state}{self.distance_m:.3f} m from the goal"

    def _holds(self, observation: Observation, state: SceneState) -> bool:
        if self._subgoal.success:
            return all(holds(predicate, state) for predicate in self._subgoal.success)
        return self._distance(observation) <= self._subgoal.tolerance_m

    def _distance(self, observation: Observation) -> float:
        return distance_to(self._subgoal.goal, observation)


def distance_to(goal: Goal, observation: Observation) -> float:
    """Distance of the goal's entity from the goal; nan where the goal asks for nothing."""
    if not goal.mask.any():
        return float("nan")
    return goal.distance(observation.achieved[observation.layout.entity_index(goal.entity)])


def _mover(observation: Observation, state: SceneState) -> np.ndarray:
    """Where the part that moves is: the gripper, else the robot's base, else the first entity."""
    position = state.gripper_position_m if state.gripper_position_m is not None else state.robot_position_m
    return (
        np.asarray(position, dtype=np.float64) if position is not None else observation.achieved[0].astype(np.float64)
    )
