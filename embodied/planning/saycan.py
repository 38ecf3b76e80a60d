"""Step by step: how useful a model holds a skill to be, times how likely the controller is to manage it.

Ahn et al. 2022, "Do As I Can, Not As I Say" (arXiv 2204.01691): the next step is the one with the greatest product of
the likelihood of its words after the steps before, and of the value that the skill's controller gives to the state.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any, Protocol

from embodied.errors import UserError
from embodied.planning.answers import Verify
from embodied.planning.asking import Answer, ModelError, Question
from embodied.planning.budget import Account
from embodied.planning.checks import check_steps
from embodied.planning.model_planner import reason_of
from embodied.planning.naming import kind_of
from embodied.planning.places import find, parse_place
from embodied.planning.plan import SKILL_ARGS
from embodied.planning.prompting import PLANNED_SKILLS, Task, next_messages
from embodied.planning.prompts import VERSION
from embodied.planning.words import MAX_CHARACTERS
from embodied.types import DescribedObject, PlanFailure, PlanStep, SceneDescription, StepOutcome

DONE = "done"
_SIDES = {
    "left_of": "to the left of", "right_of": "to the right of", "in_front_of": "in front of", "behind": "behind",
    "near": "next to", "on": "on", "in": "in",
}  # fmt: skip
_PLACED = ("left_of", "right_of", "in_front_of", "behind", "near")
_PHRASES = {
    "reach": "reach above {0}", "touch": "touch {0}", "push": "push {0} {1}", "pick": "pick up {0}",
    "place": "put {0} {1}", "stack": "put {0} on top of {1}", "go_to": "go to {0}", "hold": "keep still",
}  # fmt: skip
Affordance = Callable[[PlanStep, SceneDescription], float]
"""How likely a step is to be managed from here, in [0, 1]."""


class Scored(Protocol):
    """What a scorer returns."""

    @property
    def values(self) -> Sequence[float]: ...
    @property
    def tokens(self) -> int: ...


class Scorer(Protocol):
    """Something that says how likely words are after a prompt."""

    @property
    def name(self) -> str: ...

    def prompt_bound(self, question: Question) -> int:
        """The most tokens of the prompt."""
        ...

    def score(self, question: Question, continuations: Sequence[str]) -> Scored:
        """Log-likelihood of each continuation."""
        ...


@dataclass(frozen=True)
class SayCanConfig:
    """Bounds of a search."""

    max_steps: int = 12
    """A plan that has not ended by then is given up."""
    done_affordance: float = 1.0
    """To end is always possible."""
    notes: str = ""
    """What the model should know of the place."""
    skills: tuple[str, ...] = PLANNED_SKILLS
    """What the robot can do."""

    def __post_init__(self) -> None:
        if self.max_steps < 1:
            raise UserError(f"max_steps={self.max_steps}: a plan has at least one step")


class SayCanPlanner:
    """Implements `embodied.protocols.Planner` and `RemindedPlanner`."""

    name = "saycan"

    def __init__(
        self,
        scorer: Scorer,
        account: Account,
        affordance: Affordance = lambda step, scene: 1.0,
        config: SayCanConfig | None = None,
        verify: Verify = check_steps,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """
        Args:
            scorer: Gives words their likelihood.
            account: Of what scoring may cost; a step of the plan is a call.
            affordance: What the controller holds of a step.
            config: Defaults where None.
            verify: Steps that it has something against are no candidates.
            clock: Seconds.
        """
        self.scorer, self.account, self.affordance = scorer, account, affordance
        self.config = config if config is not None else SayCanConfig()
        self.verify, self._clock = verify, clock
        self._history: tuple[StepOutcome, ...] = ()
        self._prompts: list[str] = []

    def propose(self, instruction: str, scene: SceneDescription) -> tuple[PlanStep, ...] | PlanFailure:
        """Steps up to `done`.

        impossible: no skill can do anything here. unparsable: the model is done before the first step, or does not come
        to an end. budget, model_unavailable: scoring had to stop.
        """
        if not instruction.strip() or len(instruction) > MAX_CHARACTERS:
            return PlanFailure("unparsable", f"an instruction has 1 to {MAX_CHARACTERS} characters")
        task = Task(instruction, scene, self.config.skills, self.config.notes, self._history)
        steps: tuple[PlanStep, ...] = ()
        try:
            while len(steps) <= self.config.max_steps:
                best = self._best(task, steps)
                if best is None:
                    return steps or PlanFailure("unparsable", "the model says that there is nothing to do")
                steps = (*steps, best)
        except ModelError as error:
            return PlanFailure(reason_of(error.kind), str(error))
        return PlanFailure("unparsable", f"the model does not come to an end within {self.config.max_steps} steps")

    def adapt(self, skills: tuple[str, ...], verify: Verify) -> None:
        """Tells what the robot in the scene can do, and what else a plan has to keep to."""
        self.config, self.verify = replace(self.config, skills=skills), verify

    def remind(self, history: Sequence[StepOutcome]) -> None:
        """What was done so far goes into the next prompt."""
        self._history = tuple(history)

    def usage(self) -> dict[str, Any]:
        """What was used, which model, and the hashes of all prompts, for result files."""
        return {**self.account.record(), "model": self.scorer.name, "prompt_version": VERSION,
                "prompt_sha256": list(dict.fromkeys(self._prompts))}  # fmt: skip

    def usage_line(self) -> str:
        """What was used, in a line."""
        return self.account.line()

    def close(self) -> None:
        """Nothing is held open."""

    def _best(self, task: Task, steps: tuple[PlanStep, ...]) -> PlanStep | None:
        """The next step; None for `done`."""
        able = [(step, value) for step in self._candidates(task, steps) if (value := self._chance(step, task)) > 0]
        done = [words_of(step, task) for step in steps]
        words = [words_of(step, task) for step, _ in able] + [DONE]
        chances = [value for _, value in able] + [self.config.done_affordance]
        likely = self._scores(Question(next_messages(task, done)), [f" {text}.\n" for text in words])
        scores = [value + math.log(chance) for value, chance in zip(likely, chances, strict=True)]
        best = max(range(len(scores)), key=lambda i: scores[i])
        return able[best][0] if best < len(able) else None

    def _scores(self, question: Question, continuations: Sequence[str]) -> Sequence[float]:
        most = max(len(text.encode()) for text in continuations) * len(continuations)
        grant = self.account.grant(self.scorer.prompt_bound(question) + most, 0)
        self._prompts.append(question.prompt_sha256)
        began = self._clock()
        try:
            scored = self.scorer.score(question, continuations)
        except ModelError as error:
            self.account.failed(error.kind, grant, self._clock() - began)
            raise
        used = Answer("", tokens_in=scored.tokens, tokens_out=0)
        self.account.answered(used, grant, self._clock() - began)
        return scored.values

    def _chance(self, step: PlanStep, task: Task) -> float:
        return min(1.0, max(0.0, self.affordance(step, task.scene)))

    def _candidates(self, task: Task, steps: tuple[PlanStep, ...]) -> Iterator[PlanStep]:
        """Steps that may come next: the scene has nothing against them, and the last one is not repeated."""
        for step in all_steps(task.scene, task.skills):
            plan = (*steps, step)
            repeated = bool(steps) and step == steps[-1]
            if not (repeated or check_steps(plan, task.scene) or self.verify(plan, task.scene)):
                yield step


def all_steps(scene: SceneDescription, skills: Sequence[str]) -> Iterator[PlanStep]:
    """Every skill with everything here that it can be about."""
    for skill in skills:
        choices = [_choices(scene, skill, number) for number in range(len(SKILL_ARGS[skill]))]
        for args in product(*choices):
            if len({arg.rpartition(":")[2] for arg in args}) == len(args):
                yield PlanStep(skill, tuple(args))


def _choices(scene: SceneDescription, skill: str, number: int) -> list[str]:
    """Ids and places that an argument may be."""

    def ids(*roles: str) -> list[str]:
        return [item.id for item in scene.objects if item.role in roles]

    if skill in ("place", "push") and number == 1:
        beside = [f"{side}:{ident}" for ident in ids("object") for side in _PLACED]
        return ids("zone", "place") + beside
    if skill == "stack" and number == 1:
        return ids("object")
    if skill in ("place", "push", "pick", "stack"):
        return ids("object")
    if skill == "go_to":
        return ids("landmark", "place")
    return ids("object", "zone", "place") if skill == "reach" else ids("object", "zone", "landmark")


def words_of(step: PlanStep, task: Task) -> str:
    """A step as a person would say it: `put the red block (red_block) in the white tray (left_tray)`."""
    parts = []
    for number, arg in enumerate(step.args):
        place = parse_place(arg)
        thing = find(task.scene, (place.reference if place is not None else None) or arg)
        named = _named(thing, task) if thing is not None else arg
        side = place.side if place is not None else None
        if number == 1 and step.skill in ("place", "push") and side is None:
            side = "in" if thing is not None and thing.role == "zone" else None
            named = named if side else f"to {named}"
        parts.append(f"{_SIDES[side]} {named}" if side else named)
    return _PHRASES[step.skill].format(*parts)


def _named(thing: DescribedObject, task: Task) -> str:
    return f"the {kind_of(thing)} ({task.names.shown[thing.id]})"
