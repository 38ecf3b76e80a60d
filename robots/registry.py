"""Every task by name. A new task is a factory and a line here; the contract tests then run over it."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial

from embodied.errors import UserError, unknown_name
from embodied.protocols import Env
from embodied.spec import EnvSpec
from robots.base import CheckedEnv, checked

FOREIGN_PREFIX = "gym:"
"""`gym:<id>` is any Gymnasium environment with goals."""


def _fetch(task: str) -> Env:
    from robots.fetch import FetchEnv

    return FetchEnv(task)


def _point_maze(task: str) -> Env:
    from robots.maze import PointMazeEnv

    return PointMazeEnv(task)


def _tabletop() -> Env:
    from robots.tabletop_task import TabletopTaskEnv

    return TabletopTaskEnv()


def _foreign(env_id: str) -> Env:
    from robots.foreign import ForeignEnv

    return ForeignEnv(env_id)


_TASKS: dict[str, Callable[[], Env]] = {
    "fetch_reach": partial(_fetch, "fetch_reach"),
    "fetch_push": partial(_fetch, "fetch_push"),
    "fetch_pick_place": partial(_fetch, "fetch_pick_place"),
    "fetch_slide": partial(_fetch, "fetch_slide"),
    "point_umaze": partial(_point_maze, "point_umaze"),
    "point_medium": partial(_point_maze, "point_medium"),
    "point_large": partial(_point_maze, "point_large"),
    "tabletop": _tabletop,
}


def task_names() -> tuple[str, ...]:
    """The registered tasks; beside them there is `gym:<id>`."""
    return tuple(_TASKS)


def make_env(task: str) -> CheckedEnv:
    """The environment of a registered task or of `gym:<id>`, with the space check round it.

    Raises:
        UserError: No such task, an environment that does not fit, or a package that is missing.
    """
    if task.startswith(FOREIGN_PREFIX):
        factory: Callable[[], Env] = partial(_foreign, task.removeprefix(FOREIGN_PREFIX))
    elif task in _TASKS:
        factory = _TASKS[task]
    else:
        raise unknown_name("task", task, (*_TASKS, f"{FOREIGN_PREFIX}<id>"))
    try:
        return checked(factory())
    except ModuleNotFoundError as error:
        if (error.name or "").startswith(("robots", "embodied")):
            raise
        raise UserError(f"task {task} needs '{error.name}': pip install 'embodied-control[sim]'") from None


@cache
def spec_of(task: str) -> EnvSpec:
    """What a task is; builds its environment once."""
    env = make_env(task)
    try:
        return env.spec
    finally:
        env.close()
