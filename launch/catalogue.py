"""Names on every axis, without importing what they stand for until it is asked for."""

from __future__ import annotations

from collections.abc import Sequence

from embodied.errors import unknown_name

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
    from embodied.learning.shipped import zoo_names as names

    return sorted(names())


def check_controller(key: str, arguments: Sequence[str]) -> None:
    """Refuses words that name a controller which is not there, before anything that takes seconds is imported.

    Args:
        key: Whose value is a controller: `zoo:<name>` or a folder.
        arguments: The user's `key=value` words.

    Raises:
        UserError: There is no such controller.
    """
    from embodied.learning.shipped import check_reference

    for name, _, value in (word.partition("=") for word in arguments):
        if name == key and value:
            check_reference(value)


def check_task(task: str) -> None:
    """
    Raises:
        UserError: There is no such task.
    """
    if task not in task_names() and not task.startswith("gym:"):
        raise unknown_name("task", task, (*task_names(), "gym:<id>"))
