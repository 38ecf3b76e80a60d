"""A plan is data: read from JSON against a schema, within limits, and written back.

A plan file holds a list of steps, or an object with such a list under `plan` (so that a `result.json` will do):
`{"skill": "touch", "args": ["red_block"], "target_m": [x, y, z], "max_steps": 50}`; the last two may be left out or
null. `target_m` is in the world, in metres.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from embodied.errors import UserError, unknown_name
from embodied.seal import SEAL, check_seal
from embodied.types import SKILLS, Plan, PlanStep, Subgoal

SKILL_ARGS: dict[str, tuple[str, ...]] = {
    "reach": ("place",), "touch": ("object",), "push": ("object", "place"), "pick": ("object",),
    "place": ("object", "place"), "stack": ("object", "object"), "go_to": ("place",), "open": ("element",),
    "close": ("element",), "turn": ("element",), "hold": (),
}  # fmt: skip
"""What each skill is about."""
MAX_FILE_BYTES = 1_000_000
MAX_STEPS_IN_PLAN = 50
MAX_ARG_LENGTH = 128
MAX_CONTROL_STEPS = 10_000
MAX_COORDINATE_M = 1_000.0

PLAN_SCHEMA: dict[str, Any] = {
    "type": "array",
    "maxItems": MAX_STEPS_IN_PLAN,
    "items": {
        "type": "object",
        "properties": {
            "skill": {"type": "string", "enum": list(SKILLS)},
            "args": {"type": "array", "maxItems": 2, "items": {"type": "string", "maxLength": MAX_ARG_LENGTH}},
            "target_m": {
                "type": ["array", "null"],
                "minItems": 3,
                "maxItems": 3,
                "items": {"type": "number", "minimum": -MAX_COORDINATE_M, "maximum": MAX_COORDINATE_M},
            },
            "max_steps": {"type": ["integer", "null"], "minimum": 1, "maximum": MAX_CONTROL_STEPS},
            "avoid": {"type": "array", "maxItems": 100, "items": {"type": "string", "maxLength": MAX_ARG_LENGTH}},
        },
        "required": ["skill", "args"],
        "additionalProperties": False,
    },
}
"""JSON schema of the list of steps."""


def load_plan(path: str | Path) -> tuple[PlanStep, ...]:
    """The steps in a plan file.

    Raises:
        UserError: The file cannot be read, is too large, is no JSON, or holds no valid plan; says where and why.
    """
    file = Path(path)
    try:
        if file.stat().st_size > MAX_FILE_BYTES:
            raise UserError(f"plan file {file}: larger than {MAX_FILE_BYTES} bytes; a plan is a short list of steps")
        text = file.read_text(encoding="utf-8")
    except OSError as error:
        raise UserError(f"plan file {file}: cannot be read ({error.strerror or error}); give a JSON file") from error
    except UnicodeDecodeError as error:
        raise UserError(f"plan file {file}: not UTF-8 text; give a JSON file") from error
    return parse_plan(text, f"plan file {file}")


def parse_plan(text: str, what: str = "plan") -> tuple[PlanStep, ...]:
    """The steps in a JSON text; `what` names it in messages.

    Raises:
        UserError: No JSON, NaN or infinity, not a plan, or a value outside the limits.
    """
    try:
        data = json.loads(text, parse_constant=_refuse_constant, object_pairs_hook=_unique_keys)
    except (ValueError, RecursionError) as error:
        raise UserError(f"{what}: not valid JSON ({_one_line(str(error))})") from error
    return steps_from_data(data, what)


def steps_from_data(data: Any, what: str = "plan") -> tuple[PlanStep, ...]:
    """Steps from parsed JSON: a list, or an object that holds one under `plan`.

    Raises:
        UserError: As `parse_plan`.
    """
    if isinstance(data, dict):
        if SEAL in data:
            check_seal(data, what, f"take out its {SEAL} to use an edited plan")
        if "plan" not in data:
            refused = data.get("failure")
            why = "it holds a failure, not a plan" if refused else "it has no key 'plan'"
            raise UserError(f'{what}: {why}; give a list of steps or {{"plan": [...]}}')
        data = data["plan"]
    _validate(data, what)
    steps = tuple(_step(item) for item in data)
    for number, step in enumerate(steps, start=1):
        check_arity(step, f"{what}, step {number}")
    return steps


def check_arity(step: PlanStep, what: str = "plan") -> None:
    """UserError where the skill is unknown or has the wrong number of arguments."""
    if step.skill not in SKILL_ARGS:
        raise unknown_name("skill", step.skill, SKILL_ARGS)
    wanted = SKILL_ARGS[step.skill]
    if len(step.args) != len(wanted):
        raise UserError(
            f"{what}: {step.skill} takes {len(wanted)} argument(s) ({', '.join(wanted)}), got {len(step.args)}"
        )
    if not all(step.args):
        raise UserError(f"{what}: {step.skill} has an empty argument; give an id of the scene")


def plan_to_json(plan: Plan) -> list[dict[str, Any]]:
    """The plan's steps as JSON data, targets included (null for `hold`); `parse_plan` reads it back."""
    return [_subgoal_to_json(subgoal) for subgoal in plan.subgoals]


def steps_of(subgoals: Iterable[Subgoal]) -> tuple[PlanStep, ...]:
    """The steps that the subgoals came from, without targets: to be grounded again in a scene that has changed."""
    return tuple(PlanStep(s.skill, s.args, max_steps=s.max_steps, avoid=s.avoid) for s in subgoals)


def _subgoal_to_json(subgoal: Subgoal) -> dict[str, Any]:
    return {
        "skill": subgoal.skill,
        "args": list(subgoal.args),
        "target_m": [float(v) for v in subgoal.target_m] if subgoal.goal.mask.any() else None,
        "max_steps": subgoal.max_steps,
        **({"avoid": list(subgoal.avoid)} if subgoal.avoid else {}),
    }


def _step(item: dict[str, Any]) -> PlanStep:
    target, steps = item.get("target_m"), item.get("max_steps")
    return PlanStep(
        skill=item["skill"],
        args=tuple(item["args"]),
        target_m=None if target is None else (float(target[0]), float(target[1]), float(target[2])),
        max_steps=None if steps is None else int(steps),
        avoid=tuple(item.get("avoid", ())),
    )


def load_json(text: str, start: int = 0) -> tuple[Any, int]:
    """The JSON value that begins at a place of the text, and where it ends.

    Raises:
        ValueError: There is none there, it is too deep, holds NaN or infinity, or a key twice.
    """
    decoder = json.JSONDecoder(parse_constant=_refuse_constant, object_pairs_hook=_unique_keys)
    try:
        return decoder.raw_decode(text, start)
    except RecursionError:
        raise ValueError("it is too deep") from None


def first_error(schema: Mapping[str, Any], data: Any) -> str:
    """Where the data breaks the schema, and how, on one line; empty where it does not.

    Raises:
        UserError: The package jsonschema is not installed.
    """
    try:
        import jsonschema
    except ImportError as error:
        raise UserError("reading a plan needs jsonschema: pip install 'embodied-control[plan]'") from error
    wrong = jsonschema.exceptions.best_match(jsonschema.Draft202012Validator(schema).iter_errors(data))
    if wrong is None:
        return ""
    where = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in wrong.absolute_path)
    return f"{'at ' + where + ': ' if where else ''}{_one_line(wrong.message)}"


def _validate(data: Any, what: str) -> None:
    """UserError at the first place where the data breaks the schema."""
    error = first_error(PLAN_SCHEMA, data)
    if error:
        raise UserError(f"{what}{', ' if error.startswith('at ') else ': '}{error}")
    if not _finite(data):
        raise UserError(f"{what}: target_m holds a number that is not finite")


def _finite(items: Sequence[dict[str, Any]]) -> bool:
    return all(math.isfinite(v) for item in items for v in item.get("target_m") or ())


def _refuse_constant(name: str) -> float:
    raise ValueError(f"{name} is no number")


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key is given twice")
    return found


def _one_line(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= 200 else f"{line[:80]} ... {line[-110:]}"
