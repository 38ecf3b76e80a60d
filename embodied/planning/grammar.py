"""What a model's answer is asked to look like in a scene: as JSON schema, once for servers and once to the letter."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from embodied.planning.checks import MOVES
from embodied.planning.naming import FAILURES
from embodied.planning.places import SIDES
from embodied.planning.plan import SKILL_ARGS
from embodied.planning.prompting import Task
from embodied.types import DescribedObject

MAX_CHOICES = 400
"""Words of an enumeration that servers take; with more, any text is allowed here and checked afterwards."""
MAX_STEPS = 20
"""Of a plan whose grammar is held to the letter: a weak model must come to an end."""
MAX_AVOIDED = 6
_NUMBER = r"-?[0-9]{1,2}(\.[0-9]{1,4})?"
_POINT = rf"{_NUMBER},{_NUMBER},{_NUMBER}"
_THREE_NUMBERS = re.compile(r"-?\d+(\.\d+)?\s*,\s*-?\d+(\.\d+)?\s*,\s*-?\d+(\.\d+)?")


def common_schema(task: Task) -> dict[str, Any]:
    """The schema for servers: every key required, nothing else allowed, no pattern, no lengths (what all support)."""
    choices = [*_ids(task), *_places(task)]
    # A set of words leaves no room for coordinates; they are needed where the person gives them.
    listed = len(choices) <= MAX_CHOICES and not _THREE_NUMBERS.search(task.instruction)
    word: dict[str, Any] = {"type": "string", "enum": choices} if listed and choices else {"type": "string"}
    thing = {"type": "string", "enum": _ids(task)} if listed and choices else {"type": "string"}
    step = _object(
        skill={"type": "string", "enum": list(task.skills)},
        args={"type": "array", "items": word},
        avoid={"type": "array", "items": thing},
    )
    refusal = {"anyOf": [{"type": "null"}, _refusal({"type": "string"})]}
    return _object(plan={"type": "array", "items": step}, failure=refusal)


def exact_schema(task: Task) -> dict[str, Any]:
    """The schema for constrained decoding: each skill with as many arguments, and such, as it takes in this scene."""
    steps = [step for skill in task.skills if (step := _exact_step(task, skill)) is not None]
    plan = {"type": "array", "items": {"anyOf": steps}, "minItems": 1, "maxItems": MAX_STEPS}
    refusal = _refusal({"type": "string", "pattern": "^[A-Za-z0-9 ,.?'-]{0,120}$"})
    planned = _object(plan=plan, failure={"type": "null"})
    return {"anyOf": [planned, _object(plan={"type": "array", "maxItems": 0}, failure=refusal)]}


def _refusal(message: dict[str, Any]) -> dict[str, Any]:
    return _object(reason={"type": "string", "enum": list(FAILURES)}, message=message)


def _exact_step(task: Task, skill: str) -> dict[str, Any] | None:
    """One skill; None where nothing here can be its argument."""
    items = [_argument(task, skill, place) for place in range(len(SKILL_ARGS[skill]))]
    if any(item is None for item in items):
        return None
    args: dict[str, Any] = {"type": "array", "maxItems": len(items), "minItems": len(items)}
    if items:
        args |= {"prefixItems": items, "items": False}
    avoid: dict[str, Any] = {"type": "array", "maxItems": 0}
    if _ids(task):
        avoid = {"type": "array", "items": {"enum": _ids(task)}, "maxItems": MAX_AVOIDED}
    return _object(skill={"const": skill}, args=args, avoid=avoid)


def _argument(task: Task, skill: str, place: int) -> dict[str, Any] | None:
    if SKILL_ARGS[skill][place] == "place":
        choices = [{"enum": words} for words in ([*_ids(task), *_places(task)],) if words]
        point = {"type": "string", "pattern": f"^{_POINT}$"}
        return {"anyOf": [*choices, point]} if _THREE_NUMBERS.search(task.instruction) else next(iter(choices), None)
    roles = {"object"} if skill in MOVES and place == 0 else {"object", "zone", "landmark"}
    words = [task.names.shown[item.id] for item in task.scene.objects if item.role in roles]
    return {"enum": words} if words else None


def _ids(task: Task) -> list[str]:
    return [task.names.shown[item.id] for item in task.scene.objects]


def _places(task: Task) -> list[str]:
    return [f"{side}:{task.names.shown[item.id]}" for item in task.scene.objects for side in _sides(item)]


def _sides(item: DescribedObject) -> Sequence[str]:
    if item.role == "place":
        return ()
    return SIDES if item.role == "zone" else [side for side in SIDES if side != "in"]


def _object(**properties: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "object", "properties": properties, "required": list(properties), "additionalProperties": False,
    }  # fmt: skip
