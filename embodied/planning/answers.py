"""From what a model said to steps, or to the class of what is wrong with it. Nothing in an answer is trusted."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal

from embodied.errors import EmbodiedError, UserError
from embodied.planning.asking import Answer
from embodied.planning.checks import check_steps, relation_of
from embodied.planning.naming import FAILURES, Names, clean
from embodied.planning.places import parse_place
from embodied.planning.plan import PLAN_SCHEMA, first_error, load_json, steps_from_data
from embodied.types import PlanFailure, PlanStep, SceneDescription

AnswerErrorKind = Literal[
    "empty", "white_space", "no_json", "truncated", "schema_echoed", "schema", "several_plans", "refused_plan",
]  # fmt: skip
MAX_TEXT = 200_000
"""Characters of an answer that are looked at."""
MAX_TRIES = 64
"""Places in a text at which JSON is looked for."""
MAX_MESSAGE = 200
_BEGINS = re.compile(r"\{\s*\"|\[\s*[\[{]|[\[{]\s*$")
"""Brackets that are JSON's and not a sentence's."""
_BROKEN = "its JSON is broken or cut off; answer in fewer words"
MAX_DEPTH = 20
"""Of JSON that is looked at; a plan has five levels."""
Verify = Callable[[Sequence[PlanStep], SceneDescription], PlanFailure | None]
"""What can be said against steps in a scene."""

_STEPS = PLAN_SCHEMA["items"]["properties"]
ACCEPTED_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "plan": {
            **PLAN_SCHEMA,
            "items": {
                **PLAN_SCHEMA["items"],
                # Places are computed from what is in the scene: a model's coordinates would go unchecked.
                "properties": {**_STEPS, "target_m": {"type": "null"}},
            },
        },
        "failure": {
            "type": ["object", "null"],
            "properties": {"reason": {"enum": list(FAILURES)}, "message": {"type": "string", "maxLength": 2000}},
            "required": ["reason"],
            "additionalProperties": False,
        },
    },
    "minProperties": 1,
    "additionalProperties": False,
}
"""What an answer has to be: the keys of a plan's `result.json`, steps or a failure."""


class AnswerError(EmbodiedError):
    """An answer that holds no plan.

    Attributes:
        kind: Its class, as it is counted.
        failure: What the scene has against the plan, where that is what is wrong.
    """

    def __init__(self, kind: AnswerErrorKind, message: str, failure: PlanFailure | None = None) -> None:
        super().__init__(message)
        self.kind: AnswerErrorKind = kind
        self.failure = failure


def read_answer(
    answer: Answer, scene: SceneDescription, names: Names, verify: Verify = check_steps
) -> tuple[PlanStep, ...] | PlanFailure:
    """Steps that hold in the scene, or the model's own refusal.

    Args:
        answer: Looked through in its content, and where there is no JSON in its reasoning.
        scene: What the plan is about.
        names: What the model was shown for the scene's ids.
        verify: What else has to hold beside `check_steps`: that the steps can be grounded.

    Raises:
        AnswerError: Neither.
    """
    data = _data_in(answer)
    if isinstance(data, list):
        data = {"plan": data}
    error = first_error(ACCEPTED_SCHEMA, data)
    if error:
        raise AnswerError("schema", error)
    failure = data.get("failure")
    if failure is not None:
        if data.get("plan"):
            raise AnswerError("schema", "there is a plan and a failure; give one of them")
        said = clean(str(failure.get("message", "")), MAX_MESSAGE) or "no plan"
        return PlanFailure(failure["reason"], f"the model says: {said}")
    try:
        steps = tuple(_named(step, names) for step in steps_from_data(data.get("plan", []), "the answer"))
    except UserError as error:
        raise AnswerError("schema", str(error)) from None
    against = check_steps(steps, scene) or verify(steps, scene)
    if against is not None:
        raise AnswerError("refused_plan", f"{against.reason}: {against.message}", against)
    return steps


def normal_form(steps: tuple[PlanStep, ...] | PlanFailure, scene: SceneDescription) -> tuple[object, ...]:
    """The same for plans that mean the same: by skill, thing and relation, however the place was written."""
    if isinstance(steps, PlanFailure):
        return ("failure", steps.reason)
    return tuple(_normal_step(step, scene) for step in steps)


def _normal_step(step: PlanStep, scene: SceneDescription) -> tuple[object, ...]:
    relation, avoid = relation_of(step, scene), tuple(sorted(set(step.avoid)))
    if relation is not None:
        return ("put" if step.skill in ("place", "stack") else step.skill, step.args[0], relation, avoid)
    return (step.skill, *(_normal_place(arg) for arg in step.args), avoid)


def _normal_place(arg: str) -> object:
    place = parse_place(arg)
    return arg if place is None or place.point_m is None else place.point_m


def _named(step: PlanStep, names: Names) -> PlanStep:
    return PlanStep(
        skill=step.skill,
        args=tuple(names.to_scene(arg) for arg in step.args),
        max_steps=step.max_steps,
        avoid=tuple(names.to_scene(thing) for thing in step.avoid),
    )


def _data_in(answer: Answer) -> Any:
    """The one plan or failure in the answer, as JSON data.

    Raises:
        AnswerError: None, or several that differ.
    """
    thought, _, content = answer.content.rpartition("</think>")
    for text in (content, answer.reasoning, thought):
        found = list(_candidates(text[:MAX_TEXT]))
        plans = {json.dumps(data, sort_keys=True): data for data in found if _looks_like_plan(data)}
        if len(plans) > 1:
            raise AnswerError("several_plans", "there are several plans in it; give one JSON object alone")
        if plans:
            return next(iter(plans.values()))
        if any(_looks_like_schema(data) for data in found):
            raise AnswerError("schema_echoed", "it repeats the schema; give a plan that fits the schema")
        if found:
            raise AnswerError("schema", first_error(ACCEPTED_SCHEMA, found[-1]) or "it holds no plan")
    raise _nothing_in(answer)


def _nothing_in(answer: Answer) -> AnswerError:
    """Why there is no JSON in it."""
    whole = answer.content + answer.reasoning
    if not whole.strip():
        if whole or answer.finish == "length":
            return AnswerError("white_space", "it holds nothing but white space up to the limit of its length")
        return AnswerError("empty", "it is empty")
    if answer.finish == "length" or whole.strip()[0] in "{[":
        return AnswerError("truncated", _BROKEN)
    return AnswerError("no_json", "there is no JSON in it")


def _candidates(text: str) -> Iterator[Any]:
    """JSON objects and lists in the text, outermost ones only, whatever stands around them.

    Raises:
        AnswerError: One begins and is broken. What lies within it is not looked at: the rest may have taken it back.
    """
    place = 0
    for _ in range(MAX_TRIES):
        place = min((i for i in (text.find("{", place), text.find("[", place)) if i >= 0), default=-1)
        if place < 0:
            return
        try:
            data, end = load_json(text, place)
        except ValueError:
            if _BEGINS.match(text, place):
                raise AnswerError("truncated", _BROKEN) from None
            place += 1
            continue
        place = end
        if _depth(data) <= MAX_DEPTH:
            yield data


def _depth(data: Any) -> int:
    """How many objects and lists lie in each other."""
    level, depth = [data], 0
    while level := [item for item in level if isinstance(item, dict | list)]:
        depth += 1
        level = [inner for item in level for inner in (item.values() if isinstance(item, dict) else item)]
    return depth


def _looks_like_plan(data: Any) -> bool:
    if isinstance(data, dict):
        return "plan" in data or "failure" in data
    return isinstance(data, list) and bool(data) and all(isinstance(item, dict) and "skill" in item for item in data)


def _looks_like_schema(data: Any) -> bool:
    return isinstance(data, dict) and ("properties" in data or "$schema" in data or "json_schema" in data)
