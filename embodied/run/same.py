"""Whether a checkpoint belongs to the run that is asked to go on from it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from embodied.errors import UserError

WATCHED = ("mujoco", "torch")
"""Packages whose version changes what is computed."""


@dataclass(frozen=True)
class RunIdentity:
    """What a run was begun with."""

    settings: Mapping[str, Any] = field(default_factory=dict)
    """Flat settings, JSON values, that decide what is computed; a resumed run must have the same."""
    versions: Mapping[str, str] = field(default_factory=dict)
    """Package to version."""

    def to_dict(self) -> dict[str, Any]:
        """For a checkpoint."""
        return {"settings": dict(self.settings), "versions": dict(self.versions)}

    def check(self, saved: Mapping[str, Any], say: Callable[[str], None]) -> None:
        """Compares with what a checkpoint says; another version of a watched package is only said.

        Raises:
            UserError: A setting differs.
        """
        before = saved["settings"]
        for name in sorted({*before, *self.settings}):
            old, new = before.get(name), self.settings.get(name)
            if old != new:
                raise UserError(f"the run was begun with {name}={old}, not {new}: resume with the settings it had")
        for name in WATCHED:
            old, new = saved["versions"].get(name), self.versions.get(name)
            if old != new and old is not None and new is not None:
                say(f"the checkpoint was made with {name} {old}, this is {name} {new}: numbers may differ from here on")
