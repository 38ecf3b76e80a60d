"""Names on every axis, without importing what they stand for until it is asked for."""

from __future__ import annotations

from pathlib import Path

DESCRIBERS = ("oracle", "clip", "blip")
PLANNERS = ("rules", "embedded", "openai", "transformers", "saycan", "replay")


def task_names() -> list[str]:
    """Registered tasks; `gym:<id>` is valid beside them."""
    from robots.registry import task_names as names

    return sorted(names())


def scene_names() -> list[str]:
    """Shipped scenes."""
    from robots.scene import shipped_scenes

    return sorted(shipped_scenes())


def zoo_names() -> list[str]:
    """Shipped controllers."""
    import embodied

    folder = Path(embodied.__file__).parent / "zoo"
    return sorted(path.parent.name for path in folder.glob("*/manifest.json"))
