"""Types as result.json tells them."""

from __future__ import annotations

from typing import Any

from embodied.types import Fact, Plan, SceneDescription

from .api import Exported, Planned


def description_record(description: SceneDescription) -> dict[str, Any]:
    """`description` of the verbs `describe` and `plan`."""
    objects = []
    for item in description.objects:
        row = {
            "id": item.id, "role": item.role, "kind": item.kind, "colour": item.colour,
            "position_m": item.position_m, "half_extents_b_m": item.half_extents_m, "confidence": item.confidence,
        }  # fmt: skip
        objects.append(row if item.name is None else {**row, "name": item.name})
    return {
        "objects": objects, "facts": [fact_record(fact) for fact in description.facts],
        "unknown": description.unknown, "caption": description.caption, "text": description.text,
        "frame": description.frame,
    }  # fmt: skip


def fact_record(fact: Fact) -> dict[str, Any]:
    """One fact."""
    row = {"predicate": fact.predicate.name, "args": fact.predicate.args, "probability": fact.probability,
           "source": fact.source}  # fmt: skip
    return {**row, "negated": True} if fact.predicate.negated else row


def planned_record(planned: Planned) -> dict[str, Any]:
    """The keys of the verb `plan`."""
    from embodied.planning.plan import plan_to_json

    record: dict[str, Any] = {
        "description": description_record(planned.description),
        "robot_base": {"position_m": planned.robot_position_m, "yaw_rad": planned.robot_yaw_rad},
        "notes": planned.notes,
    }
    if isinstance(planned.plan, Plan):
        record |= {"plan": plan_to_json(planned.plan), "planner": planned.plan.planner, "in_reach": planned.in_reach}
        record |= {"chance": planned.chance, "doubt": [words or None for words in planned.doubt]}
    else:
        record["failure"] = {"reason": planned.plan.reason, "message": planned.plan.message}
    if planned.llm:
        record["llm"] = planned.llm
    if planned.report is not None:
        record |= planned.report.to_dict()
        if not planned.report.ok:
            record["failure"] = {"reason": planned.report.reason, "message": planned.report.message}
    return record | {name: path for name, path in planned.files.items()}


def exported_record(exported: Exported) -> dict[str, Any]:
    """The keys of the verb `export`."""
    both = {"policy": exported.closed_loop_policy, "file": exported.closed_loop_file}
    return {**exported.result.to_dict(), "closed_loop_success": both}
