"""From what a model said to steps, or to the class of what is wrong with it. Nothing in an answer is trusted."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, Literal

from embodied.errors import EmbodiedError, UserError
from embodied.planning.asking import Answer
from embodied.planning.checks import check_steps, relation_of
from embodied.planning.naming import FAILURES, Names, clean
from embodied.planning.places import find, parse_place
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
NEAR_TARGET_M = 0.3
"""Coordinates that a model gives, against its rules, are within this of a thing that the step names."""
MAX_DEPTH = 20
"""Of JSON that is looked at; a plan has five levels."""
Verify = Callable[[Sequence[PlanStep], SceneDescription], PlanFailure | None]
"""What can be said against steps in a scene."""

ACCEPTED_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "plan": PLAN_SCHEMA,
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
        told = tuple(_named(step, names) for step in steps_from_data(data.get("plan", []), "the answer"))
    except UserError as error:
        raise AnswerError("schema", str(error)) from None
    if any(_far_off(step, scene) for step in told):
        raise AnswerError("schema", "target_m is not where the step's things are; leave it out, it is computed")
    steps = tuple(replace(step, target_m=None) for step in told)
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
    args, avoid = (tuple(names.to_scene(arg) for arg in each) for each in (step.args, step.avoid))
    return replace(step, args=args, avoid=avoid)


def _far_off(step: PlanStep, scene: SceneDescription) -> bool:
    """Whether a model's coordinates speak of another place than its words; they are not used either way."""
    if step.target_m is None:
        return False
    meant = [place for arg in step.args if (place := parse_place(arg)) is not None]
    things = [thing for place in meant if (thing := find(scene, place.reference or "")) is not None]
    points = [thing.position_m for thing in things] + [place.point_m for place in meant if place.point_m is not None]
    return all(math.dist(step.target_m, point) > NEAR_TARGET_M for point in points)


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


def object_in(answer: Answer, name: str) -> dict[str, Any]:
    """The one JSON object with this name in it, in the answer's content or else in its reasoning.

    Raises:
        AnswerError: There is none, or several that differ.
    """
    thought, _, content = answer.content.rpartition("</think>")
    for text in (content, answer.reasoning, thought):
        found = [data for data in _candidates(text[:MAX_TEXT]) if isinstance(data, dict) and name in data]
        if any(data != found[0] for data in found):
            raise AnswerError("several_plans", f"there are several answers in it; give one JSON object with {name}")
        if found:
            return found[0]
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
