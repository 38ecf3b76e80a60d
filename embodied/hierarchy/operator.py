"""A person who looks on, and may stop the robot, skip what it is at, or give it another step."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from embodied.types import PlanStep

if TYPE_CHECKING:
    from embodied.hierarchy.monitor import StepRecord


@dataclass(frozen=True)
class Order:
    """What the operator wants."""

    kind: Literal["stop", "skip", "replace"]
    """stop: hold, for good; skip: go on with the next subgoal; replace: do another step instead of the current one."""
    step: PlanStep | None = None
    """Instead of the current one."""


Operator = Callable[["StepRecord"], Order | None]
"""Called after each control step; None: go on."""
