"""`embodied list`: what there is to choose from."""

from __future__ import annotations

from importlib.util import find_spec

from ..keys import NoKeys
from ..outcome import Outcome, RunFolder

KEYS = NoKeys


def run(config: NoKeys, folder: RunFolder) -> Outcome:
    """Every name that a key may take, by axis; axes whose packages are not installed say so."""
    from embodied.deploy.drivers import DRIVERS
    from embodied.types import SKILLS

    from .. import catalogue

    axes: dict[str, list[str]] = {"skills": list(SKILLS), "drivers": sorted(DRIVERS)}
    axes["describers"], axes["planners"] = sorted(catalogue.DESCRIBERS), sorted(catalogue.PLANNERS)
    axes["zoo"] = catalogue.zoo_names()
    missing = "" if find_spec("mujoco") and find_spec("gymnasium_robotics") else "needs the extra [sim]"
    if not missing:
        axes["tasks"], axes["scenes"] = catalogue.task_names(), catalogue.scene_names()
    order = ("tasks", "skills", "zoo", "describers", "planners", "drivers", "scenes")
    width = max(map(len, order))
    lines = [f"{name.ljust(width)}  {', '.join(axes[name]) if name in axes else missing}" for name in order]
    return Outcome(True, {name: axes.get(name, []) for name in order}, tuple(lines))
