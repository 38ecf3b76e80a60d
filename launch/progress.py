"""What a terminal shows of an execution while it goes on."""

from __future__ import annotations

import math
from collections.abc import Callable

from embodied.hierarchy.monitor import Event, StepRecord


class Progress:
    """An observer and listener of the executor that says a line when a subgoal begins, moves on, ends or is mended."""

    def __init__(self, say: Callable[[str], None], subgoals: int, every: int = 25) -> None:
        """
        Args:
            say: Takes a line.
            subgoals: How many the plan has.
            every: Control steps between two lines about the way.
        """
        self._say, self._subgoals, self._every = say, subgoals, every
        self._told = 0

    def __call__(self, record: StepRecord) -> None:
        """Takes in one control step."""
        if record.step - self._told >= self._every and not math.isnan(record.distance_m):
            self._told = record.step
            self._say(f"      step {record.step}: {record.phase}, {record.distance_m:.3f} m to go")

    def happened(self, event: Event) -> None:
        """Takes in what happened between two control steps."""
        self._told = event.step
        self._subgoals = max(self._subgoals, event.subgoal + 1)
        number = f"[{event.subgoal + 1}/{self._subgoals}]"
        if event.kind == "begins":
            again = f", attempt {event.attempt}" if event.attempt > 1 else ""
            self._say(f"{number} {event.call}{again}, {event.text}")
        elif event.kind == "recovery":
            self._say(f"{number} recovery: {event.text}")
        else:
            self._say(f"{number} {event.kind} at step {event.step}: {event.text}")
