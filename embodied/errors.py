"""Typed errors. Each message is one line that names the culprit and says what to do."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from typing import Any


class EmbodiedError(Exception):
    """Base of every error that this software raises on purpose."""


class UserError(EmbodiedError):
    """Something that the caller has to change: a name, a value, a file. The command line exits with 2."""


class SceneError(UserError):
    """A scene file that cannot be read, compiled or used."""


class LayoutError(UserError):
    """A controller's observation, goal or action terms do not fit the environment's."""


class IntegrityError(UserError):
    """A file that fails its checksum or is not of the format that it claims to be."""


class JobFailed(EmbodiedError):
    """A job that was understood and honestly not done. The command line exits with 3.

    Attributes:
        reason: One word from the failure reasons of `embodied.types.FailureReason` or of the verb.
        detail: What a result file says beside it.
    """

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason
        self.detail: dict[str, Any] = {}


class ParityError(JobFailed):
    """An exported file answers differently from the controller that it was made from."""

    def __init__(self, message: str) -> None:
        super().__init__("parity", message)


def unknown_name(kind: str, name: str, valid: Iterable[str]) -> UserError:
    """An error for a name that is not registered: names the near miss and the valid ones."""
    names = sorted(valid)
    near = get_close_matches(name, names, n=1)
    hint = f" (did you mean '{near[0]}'?)" if near else ""
    return UserError(f"unknown {kind} '{name}'{hint}; valid: {', '.join(names)}")
