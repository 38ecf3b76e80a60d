"""Whether a checkpoint belongs to the run that is asked to go on from it."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from embodied.errors import IntegrityError, UserError
from embodied.run.config import key_of
from embodied.seal import check_seal, sealed

BEGUN_FILE = "begun.json"
"""In a run's folder: what it was begun with, for a run that has no checkpoint yet."""
WATCHED = ("mujoco", "torch")
"""Packages whose version changes what is computed."""


@dataclass(frozen=True)
class RunIdentity:
    """What a run was begun with."""

    settings: Mapping[str, Any] = field(default_factory=dict)
    """Flat settings, JSON values, that decide what is computed; a resumed run must have the same."""
    versions: Mapping[str, str] = field(default_factory=dict)
    """Package to version."""
    record: str | None = None
    """Where the episodes are recorded besides; a resumed run may record elsewhere, and then begins a new record."""

    def to_dict(self) -> dict[str, Any]:
        """For a checkpoint."""
        return {"settings": dict(self.settings), "versions": dict(self.versions), "record": self.record}

    def begin(self, run_dir: Path) -> None:
        """Leaves word in the folder that the run was begun."""
        draft = run_dir / f".{BEGUN_FILE}.new"
        draft.write_text(json.dumps(sealed(self.to_dict()), indent=2) + "\n", encoding="utf-8")
        draft.replace(run_dir / BEGUN_FILE)

    def began(self, run_dir: Path, say: Callable[[str], None]) -> Mapping[str, Any] | None:
        """What this run was begun with in the folder; None where none was.

        Raises:
            UserError: Another one was.
            IntegrityError: The folder's word is damaged.
        """
        path = run_dir / BEGUN_FILE
        try:
            saved = json.loads(path.read_bytes())
        except FileNotFoundError:
            return None
        except ValueError:
            raise IntegrityError(f"{path} is damaged: copy it again, or train in another run_dir=") from None
        check_seal(saved, str(path), "copy it again, or train in another run_dir=")
        self.check(saved, say)
        return saved

    def check(self, saved: Mapping[str, Any], say: Callable[[str], None]) -> None:
        """Compares with what a checkpoint says; another version of a watched package is only said.

        Raises:
            UserError: A setting differs.
        """
        before = saved["settings"]
        # Of another task's run hardly a setting fits: the task is what has to be said.
        for name in sorted({*before, *self.settings}, key=lambda name: (name != "task", name)):
            old, new = before.get(name), self.settings.get(name)
            key = key_of(name.removeprefix("loop.")) if name.startswith("loop.") else name
            if name not in before or name not in self.settings:
                has = "has" if name in before else "does not have"
                raise UserError(
                    f"the run was begun by another version, which {has} {key}: go on with that version, or train in "
                    "another run_dir="
                )
            if old != new:
                raise UserError(f"the run was begun with {key}={old}, not {new}: resume with the settings it had")
        for name in WATCHED:
            old, new = saved["versions"].get(name), self.versions.get(name)
            if old != new and old is not None and new is not None:
                say(f"the checkpoint was made with {name} {old}, this is {name} {new}: numbers may differ from here on")
