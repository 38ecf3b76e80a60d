"""Lessons from a larger planner: sentences whose plan is known get a parse that plans it."""

from __future__ import annotations

import json

import numpy as np
import pytest
from embodied_launch.distilling import Rephraser
from embodied_launch.parsing import make_embedded

from embodied.errors import UserError
from embodied.planning.asking import Answer, Asker, Grant, ModelError, Question
from embodied.planning.budget import Account, BudgetConfig
from embodied.planning.embedded import EmbeddedPlanner
from embodied.planning.teaching.distil import Lesson, explained, planned_lessons, rephrased_lessons
from embodied.planning.teaching.judge import gold_plan
from embodied.types import PlanFailure, PlanStep, SceneDescription

TEXT = "Put the red block in the left tray."
STEPS = (PlanStep("place", ("red_block", "left_tray")),)


@pytest.fixture(scope="module")
def planner() -> EmbeddedPlanner:
    return make_embedded()


class Says:
    """A model that answers what it is told to; an error is raised."""

    name = "says"

    def __init__(self, *answers: str | ModelError) -> None:
        self.answers, self.asked = list(answers), list[Question]()

    def prompt_bound(self, question: Question) -> int:
        return question.bytes

    def answer(self, question: Question, grant: Grant) -> Answer:
        del grant
        self.asked.append(question)
        told = self.answers.pop(0)
        if isinstance(told, ModelError):
            raise told
        return Answer(told, tokens_in=1, tokens_out=1)


def asker(*answers: str | ModelError, calls: int = 20) -> tuple[Asker, Says]:
    model = Says(*answers)
    return Asker(model, Account(BudgetConfig(calls=calls)), sleep=lambda seconds: None), model


def test_readings_begin_with_the_best_and_come_once(planner: EmbeddedPlanner, blocks: SceneDescription) -> None:
    ids = planner.ids(blocks)
    found = list(planner.parser.readings(TEXT, ids, 40, 3.0, np.random.default_rng(0)))
    best = planner.parser.read(TEXT, ids).parse
    assert (found[0].parse.labels, found[0].parse.heads) == (best.labels, best.heads)
    assert found[0].parse.log_probability == pytest.approx(best.log_probability)
    told = [(read.parse.labels, read.parse.arcs, read.parse.heads) for read in found]
    assert 1 < len(told) == len(set(told))
    assert max(read.parse.log_probability for read in found) == found[0].parse.log_probability


def test_a_sentence_is_explained_by_a_reading_that_plans_its_steps(
    planner: EmbeddedPlanner, blocks: SceneDescription
) -> None:
    taught = explained(planner, Lesson(TEXT, blocks, STEPS), np.random.default_rng(0))
    assert taught is not None
    assert gold_plan(planner, taught, blocks) == STEPS
    assert taught.language == "en"


def test_no_reading_explains_a_plan_that_the_sentence_does_not_ask_for(
    planner: EmbeddedPlanner, blocks: SceneDescription
) -> None:
    other = (PlanStep("place", ("green_block", "right_tray")), PlanStep("touch", ("blue_block",)))
    assert explained(planner, Lesson(TEXT, blocks, other), np.random.default_rng(0)) is None
    assert explained(planner, Lesson("", blocks, STEPS), np.random.default_rng(0)) is None


def test_wordings_are_taken_from_prose_and_junk_is_passed_over(blocks: SceneDescription) -> None:
    told = json.dumps({"wordings": ["red one left", 3, "  ", "x" * 9000, "the left tray wants the red block"]})
    ask, model = asker(f"Here you are: {told} Enjoy!", "no JSON", '{"wordings": "none"}')
    rephrase = Rephraser(ask, 5)
    assert rephrase(TEXT, blocks, STEPS) == ["red one left", "the left tray wants the red block"]
    assert rephrase(TEXT, blocks, STEPS) == []
    assert rephrase(TEXT, blocks, STEPS) == []
    prompt = model.asked[0].messages[0].text
    assert TEXT in prompt
    assert "place(red_block, left_tray)" in prompt
    assert "English" in prompt


def test_a_used_up_budget_ends_the_lessons_and_a_dead_server_is_told(
    planner: EmbeddedPlanner, blocks: SceneDescription
) -> None:
    ask, model = asker(*['{"wordings": ["a", "b"]}'] * 5, calls=2)
    lessons = list(rephrased_lessons(planner, Rephraser(ask, 2), 5, seed=0))
    assert [lesson.text for lesson in lessons] == ["a", "b"] * 2
    assert len(model.asked) == 2
    dead, _ = asker(ModelError("connection", "nobody there"))
    with pytest.raises(UserError, match="nobody there"):
        Rephraser(dead, 2)(TEXT, blocks, STEPS)


def test_a_teacher_s_refusal_is_no_lesson_and_its_silence_ends_them(blocks: SceneDescription) -> None:
    class Teacher:
        name = "teacher"

        def propose(self, instruction: str, scene: SceneDescription) -> tuple[PlanStep, ...] | PlanFailure:
            del scene
            if instruction == "gone":
                return PlanFailure("model_unavailable", "no answer")
            return STEPS if instruction == TEXT else PlanFailure("ambiguous", "which?")

    told = list(planned_lessons(Teacher(), [("it", blocks), (TEXT, blocks)]))
    assert [lesson.steps for lesson in told] == [STEPS]
    with pytest.raises(UserError, match="no answer"):
        list(planned_lessons(Teacher(), [("gone", blocks)]))
