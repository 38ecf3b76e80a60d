"""Which task a file was recorded on, by the names of its numbers."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable
from typing import Any

from embodied.errors import LayoutError, UserError
from embodied.learning.datasets.columns import GoalLayout
from embodied.learning.datasets.seal import SCHEMA, Record
from embodied.spec import EnvSpec, Term

_VERSIONED = re.compile(r"(?:.*[/:])?(?P<name>.+?)(?:Dense)?(?:-v\d+)?")
"""Gymnasium's ids: namespace or module, name, reward, version."""


def terms_of(spec: EnvSpec) -> dict[str, Any]:
    """Everything that has to be the same for an episode of one task to be an episode of another, as JSON."""
    layout = spec.layout
    runs = {"robot": layout.robot, "entity": layout.entity, "goal": layout.goal, "action": spec.actions}
    named = {key: [[t.name, t.width, t.unit, t.frame] for t in terms] for key, terms in runs.items()}
    limits = {"action_low": list(spec.action_low), "action_high": list(spec.action_high)}
    return {**named, **limits, "entities": list(layout.entities)}


def fingerprint(spec: EnvSpec) -> str:
    """Of the terms: 16 hexadecimal digits."""
    return hashlib.sha256(json.dumps(terms_of(spec), sort_keys=True).encode()).hexdigest()[:16]


def file_record(layout: str, goals: GoalLayout) -> Record:
    """What a file's header says."""
    spec = goals.spec
    told = {"layout": layout, "task": spec.task, "env_id": goals.env_id, "terms": fingerprint(spec)}
    return {"schema": SCHEMA, **told, "named": terms_of(spec)}


def recorded_here(header: Record, goals: GoalLayout) -> bool:
    """Whether a file of ours holds this very task's arrays; False where only the goal dictionaries are the same.

    Raises:
        LayoutError: It holds another task's.
    """
    spec = goals.spec
    same_terms = header["terms"] == fingerprint(spec)
    if header["task"] == spec.task and same_terms:
        return True
    if header["task"] != spec.task and goals.env_id is not None and header.get("env_id") == goals.env_id:
        return False
    there = _in_words(header["named"]) if header.get("named") else "terms that its damaged header no longer tells"
    here = _in_words(terms_of(spec))
    if header["task"] == spec.task:
        raise LayoutError(f"it was recorded on {spec.task} when that had {there}; now it has {here}")
    raise LayoutError(f"it was recorded on {header['task']} ({there}), not on {spec.task} ({here})")


def refuse_other_environment(env_id: str | None, goals: GoalLayout) -> None:
    """Refuses a data set of another Gymnasium environment; versions and dense rewards of the same one pass.

    Raises:
        UserError: The names differ.
    """
    if env_id is None or goals.env_id is None:
        return
    there, here = (_VERSIONED.fullmatch(name) for name in (env_id, goals.env_id))
    if there and here and there["name"] != here["name"]:
        terms = _in_words(terms_of(goals.spec))
        raise UserError(f"it was recorded on {env_id}, the task {goals.spec.task} is {goals.env_id} ({terms})")


def names_of(terms: Iterable[Term]) -> str:
    """Terms in words, with widths."""
    return ", ".join(f"{term.name} {term.width}" for term in terms)


def _in_words(terms: dict[str, Any]) -> str:
    runs = [
        f"{key} {', '.join(f'{t[0]} {t[1]}' for t in terms[key])}" for key in ("robot", "entity", "goal") if terms[key]
    ]
    return "; ".join([*runs, f"entities {', '.join(terms['entities'])}", f"actions {len(terms['action_low'])}"])
