"""The prompt: what a model is told about robot, scene, wish and history."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from embodied.planning import prompts
from embodied.planning.asking import Message
from embodied.planning.naming import Names, clean, kind_of
from embodied.planning.words import MAX_CHARACTERS
from embodied.types import DescribedObject, Fact, PlanStep, SceneDescription, StepOutcome

MAX_THINGS = 100
MAX_FACTS = 80
MAX_NOTES = 2_000
MAX_HISTORY = 30
_MEANINGS = {
    "reach": ("reach(place)", "brings the gripper to a place, or above a thing"),
    "touch": ("touch(thing)", "touches a thing with the gripper"),
    "push": ("push(object, place)", "slides an object over the surface to a place"),
    "pick": ("pick(object)", "takes an object and holds it up"),
    "place": ("place(object, place)", "takes an object and puts it down at a place"),
    "stack": ("stack(object, thing)", "takes an object and puts it on top of another thing"),
    "go_to": ("go_to(place)", "drives to a landmark or a place"),
    "hold": ("hold()", "keeps still"),
}
"""Skills that anything here can carry out, and what they mean."""
PLANNED_SKILLS = tuple(_MEANINGS)
ARM_SKILLS = ("touch", "reach", "push", "pick", "place", "stack", "hold")
DRIVING_SKILLS = ("go_to", "hold")
_MIRRORED = ("right_of", "behind")
"""Facts that say the same as another one about the same two things."""
_ORDER = {"object": 0, "zone": 1, "place": 2, "landmark": 3}


def skills_of(robot: str) -> tuple[str, ...]:
    """The skills of a robot: an arm's, or those of one that drives; all where there is none."""
    if robot in ("fetch", "panda"):
        return ARM_SKILLS
    return DRIVING_SKILLS if robot in ("point", "ant") else PLANNED_SKILLS


@dataclass(frozen=True)
class Task:
    """What is to be planned: everything that a prompt is made of."""

    instruction: str
    scene: SceneDescription
    skills: tuple[str, ...] = PLANNED_SKILLS
    notes: str = ""
    """What the user wants the model to know of the place."""
    history: tuple[StepOutcome, ...] = ()
    names: Names = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "names", Names.of(self.scene))


def plan_messages(task: Task) -> tuple[Message, ...]:
    """The question for a whole plan."""
    example = next((task.names.shown[item.id] for item in task.scene.objects if item.role == "object"), "cup_1")
    skills = "\n".join(f"- {_MEANINGS[name][0]}: {_MEANINGS[name][1]}" for name in task.skills)
    system = prompts.fill("system", skills=skills, example_thing=example)
    return (Message("system", system), Message("user", prompts.fill("task", **_told(task))))


def repair_messages(task: Task, messages: Sequence[Message], answer: str, error: str) -> tuple[Message, ...]:
    """The question once more, with the answer that was refused and why."""
    error = task.names.masked(error)
    refused = Message("assistant", clean(answer, 2_000) or "(nothing)")
    return (*messages, refused, Message("user", prompts.fill("repair", error=clean(error, 400))))


def rephrase_messages(task: Task, steps: Sequence[PlanStep], count: int, language: str) -> tuple[Message, ...]:
    """The question for other wordings of a task that these steps carry out."""
    told = _told(task)
    listed = "\n".join(f"{number}. {call(step, task.names)}" for number, step in enumerate(steps, 1))
    values = {name: told[name] for name in ("things", "instruction")}
    return (Message("user", prompts.fill("rephrase", steps=listed, count=str(count), language=language, **values)),)


def next_messages(task: Task, done: Sequence[str]) -> tuple[Message, ...]:
    """The question for the next step, after those said so far."""
    steps = "".join(f"{number}. {words}\n" for number, words in enumerate(done, 1))
    told = _told(task)
    return (Message("user", prompts.fill("next_skill", steps=f"{steps}{len(done) + 1}.", **told).rstrip("\n")),)


def _told(task: Task) -> dict[str, str]:
    return {
        "things": _things(task),
        "facts": _facts(task),
        "notes": clean(task.notes, MAX_NOTES) or "none",
        "history": _history(task),
        "instruction": json.dumps(clean(task.instruction, MAX_CHARACTERS), ensure_ascii=False),
    }


def _things(task: Task) -> str:
    """Objects first, since they are what plans are about."""
    items = sorted(task.scene.objects, key=lambda item: _ORDER[item.role])
    lines = [_thing(item, task) for item in items[:MAX_THINGS]]
    if len(items) > MAX_THINGS:
        lines.append(f"({len(items) - MAX_THINGS} more things are not listed)")
    return "\n".join(lines) or "nothing"


def _thing(item: DescribedObject, task: Task) -> str:
    here = np.asarray(item.position_m, dtype=np.float64)
    position = task.scene.base.to_base(here) if task.scene.frame == "world" else here
    data = {
        "id": task.names.shown[item.id], "what": kind_of(item), "role": item.role,
        "position": _rounded(position), "size": _rounded(2 * np.asarray(item.half_extents_m)),
    }  # fmt: skip
    return json.dumps(data, ensure_ascii=True)


def _rounded(numbers: Iterable[float]) -> list[float]:
    return [round(float(v), 3) + 0.0 for v in numbers]


def _facts(task: Task) -> str:
    held = [fact for fact in task.scene.facts if fact.probability >= 0.5]
    told = [text for fact in held if (text := _fact(fact, task))]
    return "\n".join(told[:MAX_FACTS]) or "nothing is known"


def _fact(fact: Fact, task: Task) -> str:
    """`on(red_block, table)`; empty where it is about something that is not listed."""
    known = {"gripper": "gripper", "robot": "robot", **task.names.shown}
    predicate = fact.predicate
    if (
        not predicate.name.isidentifier()
        or predicate.name in _MIRRORED
        or any(arg not in known for arg in predicate.args)
    ):
        return ""
    text = f"{predicate.name}({', '.join(known[arg] for arg in predicate.args)})"
    return f"not {text}" if predicate.negated else text


def _history(task: Task) -> str:
    lines = [
        f"{'done' if item.reached else 'failed'}: {call(item.step, task.names)}"
        + ("" if item.reached else f" ({json.dumps(clean(task.names.masked(item.why), 160), ensure_ascii=False)})")
        for item in task.history[-MAX_HISTORY:]
    ]
    if lines:
        lines.append("Plan only what is left to do now; think of another way for what failed.")
    return "\n".join(lines) or "nothing"


def call(step: PlanStep, names: Names) -> str:
    """`place(red_block, left_tray)` in the names that a model is shown."""
    return f"{step.skill}({', '.join(names.to_model(arg) for arg in step.args)})"
