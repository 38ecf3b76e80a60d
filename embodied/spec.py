"""Named layouts: what each number of an observation, goal and action is, with unit and frame.

A controller and an environment are matched by these names, never by position alone, so that a controller trained
on one task runs in any environment that offers the terms it was trained on.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from embodied.errors import LayoutError

SuccessRule = Literal["last", "any"]
"""`last`: an episode succeeds when its last step does; `any`: when one of its steps does."""


@dataclass(frozen=True)
class Term:
    """A named run of numbers in a vector."""

    name: str
    width: int
    unit: str = "1"
    """SI unit; `m/step` and the like where the source scales a velocity by the control period."""
    frame: str = "base"
    """`base` (frame B), `joint`, `world` or `none`."""


def width_of(terms: Iterable[Term]) -> int:
    """Total width of a run of terms."""
    return sum(term.width for term in terms)


def term_indices(wanted: Iterable[Term], offered: Iterable[Term], what: str) -> NDArray[np.intp]:
    """Columns of `offered` that hold the `wanted` terms, in the wanted order.

    Raises:
        LayoutError: A wanted term is missing or has another width, unit or frame.
    """
    start, columns = 0, {}
    offered = tuple(offered)
    for term in offered:
        columns[term.name] = (term, start)
        start += term.width
    picked: list[int] = []
    for term in wanted:
        if term.name not in columns:
            names = ", ".join(t.name for t in offered) or "none"
            raise LayoutError(f"the controller needs the {what} term '{term.name}', the environment offers: {names}")
        found, first = columns[term.name]
        if found != term:
            raise LayoutError(f"{what} term '{term.name}': the controller expects {term}, the environment has {found}")
        picked.extend(range(first, first + term.width))
    return np.asarray(picked, dtype=np.intp)


@dataclass(frozen=True)
class Layout:
    """How the arrays of an `Observation` are made up."""

    robot: tuple[Term, ...]
    """Terms of `Observation.state`, width S."""
    entity: tuple[Term, ...]
    """Terms of a row of `Observation.entities`, width F (0 where no entity has features)."""
    goal: tuple[Term, ...]
    """Terms of a row of `Observation.achieved`, width G."""
    entities: tuple[str, ...]
    """Names of the E entities, in row order."""

    @property
    def state_width(self) -> int:
        return width_of(self.robot)

    @property
    def entity_width(self) -> int:
        return width_of(self.entity)

    @property
    def goal_width(self) -> int:
        return width_of(self.goal)

    def entity_index(self, name: str) -> int:
        """Row of the entity called `name`."""
        if name not in self.entities:
            raise LayoutError(f"no entity '{name}' here; there are: {', '.join(self.entities)}")
        return self.entities.index(name)


@dataclass(frozen=True)
class EnvSpec:
    """What a task is, apart from its dynamics."""

    task: str
    robot: str
    """`fetch`, `point`, `ant`, `panda`, or `gym` for a foreign environment."""
    layout: Layout
    actions: tuple[Term, ...]
    action_low: tuple[float, ...]
    action_high: tuple[float, ...]
    horizon: int
    """Control steps after which an episode is truncated."""
    control_hz: float
    tolerance: float
    """Distance in goal units at which a goal counts as reached."""
    success_rule: SuccessRule
    reward_range: tuple[float, float] | None
    """Least and greatest reward of one step; None where it is not known (targets are then not clamped)."""
    goal_entity: str
    """The entity that this task's own goals speak of."""
    skills: tuple[str, ...] = ()
    """Skills that a controller trained on this task offers to the executor."""
    frame: str = "base"

    @property
    def action_width(self) -> int:
        return len(self.action_low)
