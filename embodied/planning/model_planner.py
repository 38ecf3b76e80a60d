"""A planner that asks a language model, checks what it says, and lets it correct itself once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from embodied.errors import UserError
from embodied.planning.answers import AnswerError, Verify, normal_form, read_answer
from embodied.planning.asking import Answer, Asker, ModelError, ModelErrorKind, Question
from embodied.planning.checks import check_steps
from embodied.planning.grammar import common_schema, exact_schema
from embodied.planning.prompting import PLANNED_SKILLS, Task, plan_messages, repair_messages
from embodied.planning.prompts import VERSION
from embodied.planning.words import MAX_CHARACTERS
from embodied.types import FailureReason, PlanFailure, PlanStep, SceneDescription, StepOutcome

MAX_VOTES = 25
VOTING_TEMPERATURE = 0.3
"""Where several answers are asked for and no temperature is given: low, but not always the same answer."""
Proposed = tuple[PlanStep, ...] | PlanFailure


@dataclass(frozen=True)
class ModelPlannerConfig:
    """How a model is asked for plans."""

    votes: int = 1
    """Answers to one question; the plan that most of them agree on counts."""
    temperature: float | None = None
    """Of the answers; None: 0 for one answer, 0.3 for several."""
    max_tokens: int = 1024
    """Of an answer."""
    notes: str = ""
    """What the model should know of the place."""
    skills: tuple[str, ...] = PLANNED_SKILLS
    """What the robot can do."""

    def __post_init__(self) -> None:
        if not 1 <= self.votes <= MAX_VOTES:
            raise UserError(f"votes={self.votes}: from 1 to {MAX_VOTES} answers are asked for")
        if self.temperature is not None and not 0 <= self.temperature <= 2:
            raise UserError(f"temperature={self.temperature}: must be between 0 and 2")
        if self.max_tokens < 1:
            raise UserError(f"max_tokens={self.max_tokens}: must be at least 1")

    @property
    def heat(self) -> float:
        """The temperature that answers are drawn with."""
        if self.temperature is not None:
            return self.temperature
        return 0.0 if self.votes == 1 else VOTING_TEMPERATURE


class ModelPlanner:
    """Implements `embodied.protocols.Planner` and `RemindedPlanner`.

    A plan is accepted only where it is JSON of the schema, names things and skills that are there, and `verify` has
    nothing against it. What a model says is never carried out in any other way.
    """

    def __init__(
        self,
        name: str,
        asker: Asker,
        config: ModelPlannerConfig | None = None,
        verify: Verify = check_steps,
        dialect: Literal["common", "exact"] = "common",
    ) -> None:
        """
        Args:
            name: Of the planner.
            asker: Puts questions to the model.
            config: Defaults where None.
            verify: What else has to hold of a plan: that it can be grounded in the scene.
            dialect: Which schema the answer is asked to keep to: what servers support, or all that a plan is.
        """
        self.name, self.asker = name, asker
        self.config = config if config is not None else ModelPlannerConfig()
        self.verify, self.dialect = verify, dialect
        self._history: tuple[StepOutcome, ...] = ()
        self._prompts: list[str] = []

    def propose(self, instruction: str, scene: SceneDescription) -> Proposed:
        """Steps, or why there are none.

        model_unavailable, timed_out, budget: there was no answer. unparsable: there was, and no plan in it, nor after
        the error was shown to the model. Other reasons: the model refuses, or its plan does not fit the scene.
        """
        if not instruction.strip():
            return PlanFailure("unparsable", "the instruction is empty; say for instance: touch the red block")
        if len(instruction) > MAX_CHARACTERS:
            return PlanFailure("unparsable", f"the instruction is longer than {MAX_CHARACTERS} characters")
        task = Task(instruction, scene, self.config.skills, self.config.notes, self._history)
        try:
            return self._voted(task)
        except ModelError as error:
            return PlanFailure(reason_of(error.kind), str(error))

    def adapt(self, skills: tuple[str, ...], verify: Verify) -> None:
        """Tells what the robot in the scene can do, and what else a plan has to keep to."""
        self.config, self.verify = replace(self.config, skills=skills), verify

    def remind(self, history: Sequence[StepOutcome]) -> None:
        """What was done so far goes into the next question."""
        self._history = tuple(history)

    def usage(self) -> dict[str, Any]:
        """What was used, which model, and the hashes of all prompts, for result files."""
        return usage_of(self.asker, self._prompts)

    def usage_line(self) -> str:
        """What was used, in a line."""
        return self.asker.account.line()

    def close(self) -> None:
        """Lets the files go that answers are kept in."""
        self.asker.close()

    def _voted(self, task: Task) -> Proposed:
        """The first answer, or what most good ones agree on; where none is good, one correction of the first.

        Raises:
            ModelError: No answer at all.
        """
        questions = [self._question(task, sample) for sample in range(self.config.votes)]
        good: list[tuple[Proposed, tuple[object, ...]]] = []
        bad: list[tuple[Question, Answer, AnswerError]] = []
        missing: ModelError | None = None
        for question in questions:
            try:
                answer = self._ask(question)
                proposed = self._read(task, question, answer)
            except ModelError as error:
                missing = error
                if error.kind not in ("timeout", "reset", "bad_response", "too_large", "not_recorded"):
                    break
            except AnswerError as error:
                bad.append((question, answer, error))
            else:
                good.append((proposed, normal_form(proposed, task.scene)))
        if good:
            return _most(good)
        if bad:
            return self._repaired(task, *bad[0])
        assert missing is not None
        raise missing

    def _repaired(self, task: Task, question: Question, answer: Answer, error: AnswerError) -> Proposed:
        """The answer to the error; one chance only."""
        said = answer.content.strip() or answer.reasoning
        messages = repair_messages(task, question.messages, task.names.masked(said), str(error))
        again = Question(messages, question.schema, question.temperature, question.max_tokens, question.sample)
        try:
            return self._read(task, again, self._ask(again))
        except ModelError as missing:
            return _refused(error, f"and its correction failed: {missing}", missing)
        except AnswerError as second:
            return _refused(second, "also after its correction")

    def _question(self, task: Task, sample: int) -> Question:
        schema = exact_schema(task) if self.dialect == "exact" else common_schema(task)
        return Question(plan_messages(task), schema, self.config.heat, self.config.max_tokens, sample)

    def _ask(self, question: Question) -> Answer:
        self._prompts.append(question.prompt_sha256)
        return self.asker.ask(question)

    def _read(self, task: Task, question: Question, answer: Answer) -> Proposed:
        try:
            proposed = read_answer(answer, task.scene, task.names, self._verifier(task))
        except AnswerError as error:
            self.asker.account.errors[error.kind] += 1
            raise
        self.asker.accept(question, answer)
        return proposed

    def _verifier(self, task: Task) -> Verify:
        """`verify`, and no skill that the robot was not said to have."""

        def verify(steps: Sequence[PlanStep], scene: SceneDescription) -> PlanFailure | None:
            foreign = next((step.skill for step in steps if step.skill not in task.skills), None)
            if foreign is not None:
                return PlanFailure("impossible", f"this robot cannot {foreign}; it can {', '.join(task.skills)}")
            return self.verify(steps, scene)

        return verify


def usage_of(asker: Asker, prompts: Sequence[str]) -> dict[str, Any]:
    """An asker's account with model and prompts."""
    return {
        **asker.account.record(), "model": asker.model.name, "prompt_version": VERSION,
        "prompt_sha256": list(dict.fromkeys(prompts)),
    }  # fmt: skip


def reason_of(kind: ModelErrorKind) -> FailureReason:
    """A model's error as the reason of a failed plan."""
    if kind == "budget":
        return "budget"
    return "timed_out" if kind == "timeout" else "model_unavailable"


def _most(good: Sequence[tuple[Proposed, tuple[object, ...]]]) -> Proposed:
    """The proposal with most votes, the first of several."""
    counts = Counter(form for _, form in good)
    most = max(counts.values())
    return next(proposed for proposed, form in good if counts[form] == most)


def _refused(error: AnswerError, when: str, missing: ModelError | None = None) -> PlanFailure:
    if error.failure is not None:
        return PlanFailure(error.failure.reason, f"the model's plan was refused, {when}: {error.failure.message}")
    reason: FailureReason = "unparsable" if missing is None else reason_of(missing.kind)
    return PlanFailure(reason, f"the model's answer holds no plan, {when}: {error}")
