"""Carries a plan out, subgoal by subgoal: drive, watch, retry, step back, replan, else stop; the robot holds then."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from embodied.errors import JobFailed, LayoutError
from embodied.hierarchy.execution import Execution
from embodied.hierarchy.handling import HandlingConfig
from embodied.hierarchy.monitor import Event, ExecutionReport, StepRecord
from embodied.hierarchy.operator import Operator
from embodied.protocols import Controller, Describer, Planner, SceneEnv
from embodied.types import FloatArray, Frame, Observation, Plan, PlanFailure, PlanStep, SceneDescription

Ground = Callable[[Sequence[PlanStep], SceneDescription], Plan | PlanFailure]
"""Grounding with everything but steps and scene already given."""
Withdraw = Callable[[Observation, int], FloatArray | None]
"""The next action, (A,), of an arm on its way out of the picture, of which so many were taken; None: it is there."""


@dataclass(frozen=True)
class ExecutorConfig:
    """Bounds and distances of an execution."""

    retries: int = 1
    """Further attempts at a subgoal that timed out."""
    replans: int = 1
    """Times that the planner may be asked again."""
    step_backs: int = 3
    """Times that something done and undone since is done again."""
    adjustments: int = 3
    """Times that an attempt is broken off to aim anew, because what its target depends on was moved."""
    displaced_m: float = 0.015
    """A thing that moved further was moved."""
    max_total_steps: int = 2000
    """Control steps of the whole execution, the final hold not counted."""
    rise_m: float = 0.10
    """How far the gripper rises after a touch and before a retry."""
    hover_m: float = 0.06
    """How far above the top of a thing the gripper comes to before it goes down to touch it."""
    waypoint_tolerance_m: float = 0.03
    stall_steps: int = 6
    """A waypoint that comes no nearer for so many steps is given up: the subgoal is what counts."""
    stall_m: float = 0.002
    """Progress smaller than this is none."""
    hold_s: float = 0.5
    """Holding still before the final facts are read."""
    rest_steps: int = 40
    """Longest way of an arm to where it hides nothing."""
    handling: HandlingConfig = field(default_factory=HandlingConfig)
    """How things are picked up, moved and let go."""


class Executor:
    """Drives an environment through plans with one controller for each skill.

    Every attempt at a subgoal, rising and hovering included, takes at most the subgoal's `max_steps`; the skill `hold`
    takes just so many.
    """

    def __init__(
        self,
        env: SceneEnv,
        controllers: Mapping[str, Controller],
        describer: Describer,
        planner: Planner | None = None,
        config: ExecutorConfig | None = None,
        observers: Sequence[Callable[[StepRecord], None]] = (),
        *,
        ground: Ground | None = None,
        look: Callable[[], Sequence[Frame]] = tuple,
        operator: Operator | None = None,
        withdraw: Withdraw | None = None,
        listeners: Sequence[Callable[[Event], None]] = (),
    ) -> None:
        """
        Args:
            env: Already reset; the executor never resets it.
            controllers: By skill; `hold` needs none.
            describer: Asked before each retry and replan, so that a thing that was moved is found again.
            planner: Asked when retries are used up; None: stop there.
            config: Bounds; the defaults where None.
            observers: Called with a `StepRecord` after each control step.
            ground: Turns a new description into targets; without it retries keep their targets and nothing is
                replanned.
            look: The frames that the describer is shown; none for one that needs no picture.
            withdraw: Leads an arm to where it hides nothing; what is described then decides. None: nothing is hidden.
            listeners: Called with an `Event` when a subgoal begins or ends, and at each recovery.
            operator: Asked after each control step whether somebody wants something else.
        """
        self.env = env
        self.controllers = dict(controllers)
        self.describer = describer
        self.planner = planner
        self.config = config if config is not None else ExecutorConfig()
        self.observers = tuple(observers)
        self.ground = ground
        self.look = look
        self.operator = operator
        self.withdraw = withdraw
        self.listeners = tuple(listeners)

    def run(self, plan: Plan, observation: Observation | None = None) -> ExecutionReport:
        """Carries the plan out and reports; what cannot be done for want of a controller is said before moving.

        Args:
            plan: Grounded.
            observation: What the environment showed last; without it one control step of holding still is taken.

        Raises:
            JobFailed: `impossible`: there is no controller for a skill of the plan.
            LayoutError: A controller's actions or a goal's entity do not fit the environment.
        """
        self.check(plan)
        return Execution(self, plan).execute(observation)

    def check(self, plan: Plan) -> None:
        """Raises what `run` would raise before moving."""
        for subgoal in plan.subgoals:
            if subgoal.skill == "hold":
                continue
            if subgoal.skill not in self.controllers:
                able = ", ".join(sorted({*self.controllers, "hold"}))
                raise JobFailed("impossible", f"no controller here offers '{subgoal.skill}'; skills available: {able}")
            controller, spec = self.controllers[subgoal.skill], self.env.spec
            if tuple(controller.manifest.action_terms) != tuple(spec.actions):
                raise LayoutError(
                    f"the controller for '{subgoal.skill}' (trained on {controller.manifest.task}) acts by "
                    f"{_names(controller.manifest.action_terms)}, {spec.task} by {_names(spec.actions)}"
                )
            spec.layout.entity_index(subgoal.goal.entity)


def _names(terms: Sequence) -> str:
    return ", ".join(term.name for term in terms)
