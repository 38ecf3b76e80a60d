"""Who is measured: their settings are data, in `conf/bench/systems.yaml`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from typing import Any

import yaml

from embodied.errors import unknown_name

from ..compose import CONF

PACKAGES = {"SAC": ("stable_baselines3",), "TQC": ("stable_baselines3", "sb3_contrib")}
"""What an algorithm needs to be installed."""
INSTALL = "pip install 'embodied-control[peers]'"
SAMPLED_GOALS = 4
"""Hindsight goals for one real one, strategy `future` (Andrychowicz et al. 2017, section 4.5; the zoo's too)."""


@dataclass(frozen=True)
class System:
    """Something that learns, with its settings."""

    name: str
    words: tuple[str, ...] = ()
    """Ours: for `embodied train`."""
    algorithm: str = ""
    """A peer's class; empty for ours."""
    hidden: tuple[int, ...] = ()
    """A peer's networks, policy and critics alike."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Arguments of a peer's class."""
    tasks: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Those that differ in a task."""

    def on(self, task: str) -> System:
        """The same with the settings that it has for a task."""
        return replace(self, settings={**self.settings, **self.tasks.get(task, {})}, tasks={})

    @property
    def ours(self) -> bool:
        """Whether it is this project's."""
        return not self.algorithm

    @property
    def missing(self) -> list[str]:
        """Packages that it needs and that are not installed."""
        return [name for name in PACKAGES.get(self.algorithm, ()) if find_spec(name) is None]

    def told(self) -> str:
        """Its settings in one line."""
        if self.ours:
            return " ".join(self.words)
        widths = "x".join(map(str, self.hidden))
        return " ".join([self.algorithm, widths, *(f"{name}={value}" for name, value in self.settings.items())])


def all_systems() -> dict[str, System]:
    """Every system by name."""
    data = yaml.safe_load((CONF / "bench" / "systems.yaml").read_text("utf-8"))
    return {name: _system(name, entry) for name, entry in data.items()}


def _system(name: str, entry: Mapping[str, Any]) -> System:
    if "words" in entry:
        return System(name, tuple(entry["words"]))
    return System(name, (), entry["algorithm"], tuple(entry["hidden"]), entry["settings"], entry.get("tasks", {}))


def find_systems(names: Sequence[str]) -> list[System]:
    """Those with these names, in this order.

    Raises:
        UserError: There is none of that name.
    """
    known = all_systems()
    for name in names:
        if name not in known:
            raise unknown_name("system", name, known)
    return [known[name] for name in names]
