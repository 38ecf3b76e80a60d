"""The controllers that are shipped, by name, and whether a reference to a controller can be meant; loads no torch."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

from embodied.errors import UserError, unknown_name

INDEX = "manifest.json"
PREFIX = "zoo:"


def zoo_folder() -> Path:
    """Where the shipped controllers lie, a folder each."""
    return Path(str(files("embodied"))) / "zoo"


def zoo_names() -> tuple[str, ...]:
    """Names of the shipped controllers, which are names of tasks."""
    return tuple(sorted(path.parent.name for path in zoo_folder().glob(f"*/{INDEX}")))


def check_reference(reference: str | Path) -> None:
    """Refuses a reference that names neither a shipped controller nor a folder.

    Args:
        reference: `zoo:<name>`, a run folder or a controller folder.

    Raises:
        UserError: There is no such controller, or no such folder.
    """
    text = str(reference)
    if text.startswith(PREFIX):
        name = text.removeprefix(PREFIX)
        if name not in zoo_names():
            raise unknown_name("zoo controller", name, zoo_names())
    elif not Path(text).is_dir():
        shipped = ", ".join(PREFIX + name for name in zoo_names())
        raise UserError(f"there is no run or controller folder at {text}; shipped: {shipped}")
