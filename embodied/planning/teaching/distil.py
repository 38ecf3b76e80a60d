"""Lessons from a larger planner: sentences whose plan is known though nobody wrote down their parse.

Each sentence is read in many ways; the likeliest reading that plans what the teacher plans is taken for its parse. This
is learning from denotations (Clarke et al. 2010, "Driving Semantic Parsing from the World's Response"), and what no
reading agrees with, a teacher's mistakes among it, is left out.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from embodied.errors import UserError
from embodied.planning.answers import normal_form
from embodied.planning.checks import check_steps
from embodied.planning.embedded import EmbeddedPlanner
from embodied.planning.parser.execute import execute
from embodied.planning.parser.model import Read
from embodied.planning.parser.program import build
from embodied.planning.parser.tokens import HAN
from embodied.planning.teaching.judge import gold_plan
from embodied.planning.teaching.scenes import draw_scene, things_of
from embodied.planning.teaching.sentences import Taught, Teacher
from embodied.planning.words import Refused
from embodied.protocols import Planner
from embodied.types import PlanFailure, PlanStep, SceneDescription

TRIES, HEAT = 96, 1.5
"""How often, and how far from the best, a sentence is read."""
UNASKED = ("model_unavailable", "timed_out", "budget")
"""Why there is no answer at all: the next question would have none either."""
Rephrase = Callable[[str, SceneDescription, tuple[PlanStep, ...]], Sequence[str] | None]
"""Other wordings of an instruction that these steps carry out; None where no more can be asked."""


@dataclass(frozen=True)
class Lesson:
    """A sentence, where it is said, and what it asks for."""

    text: str
    scene: SceneDescription
    steps: tuple[PlanStep, ...]


def explained(planner: EmbeddedPlanner, lesson: Lesson, rng: np.random.Generator, tries: int = TRIES) -> Taught | None:
    """The likeliest of a sentence's readings that plan its steps; None where none of those that were tried does."""
    wanted = normal_form(lesson.steps, lesson.scene)
    best: Read | None = None
    try:
        for read in planner.parser.readings(lesson.text, planner.ids(lesson.scene), tries, HEAT, rng):
            if best is not None and read.parse.log_probability <= best.parse.log_probability:
                continue
            if _planned(planner, read, lesson.scene) == wanted:
                best = read
    except Refused:
        return None
    if best is None:
        return None
    language = "zh" if HAN.search(lesson.text) else "en"
    return Taught(lesson.text, best.tokens, best.parse.labels, best.parse.arcs, best.parse.heads, best.kind, language)


def planned_lessons(teacher: Planner, asked: Iterable[tuple[str, SceneDescription]]) -> Iterator[Lesson]:
    """What the teacher plans for instructions in scenes, its refusals left out.

    Raises:
        UserError: It cannot be asked.
    """
    for text, scene in asked:
        steps = teacher.propose(text, scene)
        if not isinstance(steps, PlanFailure):
            yield Lesson(text, scene, steps)
        elif steps.reason in UNASKED:
            raise UserError(f"the teacher did not answer: {steps.message}")


def rephrased_lessons(planner: EmbeddedPlanner, rephrase: Rephrase, count: int, seed: int) -> Iterator[Lesson]:
    """Other wordings of `count` taught sentences that can be carried out."""
    rng = random.Random(f"distil/{seed}")
    taught, made = Teacher(rng, None), 0
    while made < count:
        scene = draw_scene(rng)
        sentence = taught.sentence(things_of(scene), "zh" if rng.random() < 0.27 else "en")
        if sentence is None or (steps := gold_plan(planner, sentence, scene)) is None:
            continue
        made += 1
        if (wordings := rephrase(sentence.text, scene, steps)) is None:
            return
        yield from (Lesson(text, scene, steps) for text in wordings)


def _planned(planner: EmbeddedPlanner, read: Read, scene: SceneDescription) -> tuple[object, ...] | None:
    try:
        steps = execute(build(read), scene, planner.names)
    except Refused:
        return None
    return normal_form(steps, scene) if check_steps(steps, scene) is None else None
