"""What a saved controller offers, read from its manifest alone: opening the controller loads torch."""

from __future__ import annotations

import json
from importlib.resources import files
from pathlib import Path


def offered_skills(reference: str) -> tuple[str, ...] | None:
    """Skills of a controller.

    Args:
        reference: `zoo:<name>`, a run folder or a controller folder.

    Returns:
        None where no manifest can be read; opening the controller says why.
    """
    zoo = Path(str(files("embodied"))) / "zoo"
    folder = zoo / reference.removeprefix("zoo:") if reference.startswith("zoo:") else Path(reference)
    for place in (folder, folder / "controller"):
        try:
            return tuple(json.loads((place / "manifest.json").read_bytes())["policy"]["skills"])
        except (OSError, ValueError, KeyError, TypeError):
            continue
    return None
