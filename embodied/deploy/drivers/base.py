"""The seam between the runtime and whatever it drives."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

from embodied.errors import JobFailed
from embodied.types import FloatArray, Goal, Observation


class DriverLost(JobFailed):
    """The robot, or the process that stands for it, no longer answers. One line that says so."""

    def __init__(self, message: str) -> None:
        super().__init__("driver_lost", message)


@dataclass(frozen=True)
class Reading:
    """What a driver knows at one control step."""

    observation: Observation
    goal: Goal
    age_s: float
    """How old the observation is when it is handed over; 0 where the world waits for the command."""
    success: bool | None = None
    """Set where an episode ended with this observation: whether it succeeded. No command is expected then."""


class Driver(Protocol):
    """One robot, simulated or real."""

    def read(self) -> Reading | None:
        """The newest observation; after an episode's end, the first one of the next. None: there is no more.

        Raises:
            DriverLost: The robot does not answer.
        """
        ...

    def write(self, action: FloatArray) -> FloatArray:
        """Sends a command (A,) and returns what was really sent after the driver's own limits.

        Raises:
            DriverLost: The robot does not answer.
        """
        ...

    def close(self) -> dict[str, Any]:
        """Lets go of the robot; returns what the driver has to say for the report. Safe to call twice."""
        ...
