"""The scene as a plan changes it, in symbols: what lies on what, and which relations hold."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from embodied.types import DescribedObject, SceneDescription

GAP_M = 0.02
NEAR_M = 0.10
LIKELY = 0.5


class World:
    """Supports by the description's facts, changed step by step."""

    def __init__(self, scene: SceneDescription) -> None:
        self.scene = scene
        self.support: dict[str, str] = {}
        for fact in scene.facts:
            name, args = fact.predicate.name, fact.predicate.args
            if name in ("on", "in") and fact.probability >= LIKELY and not fact.predicate.negated and len(args) == 2:
                known = self.support.get(args[0])
                if known is None or name == "in":
                    self.support[args[0]] = args[1]

    def upon(self, ident: str) -> list[str]:
        """Movable things that lie on or in a thing."""
        objects = {item.id for item in self.scene.objects if item.role == "object"}
        return [a for a, b in self.support.items() if b == ident and a in objects]

    def table(self) -> DescribedObject | None:
        """What things are put aside on: the table, else the broadest landmark."""
        fixed = [item for item in self.scene.objects if item.role == "landmark"]
        tables = [item for item in fixed if item.kind == "table"]
        broad = sorted(tables or fixed, key=lambda item: -item.half_extents_m[0] * item.half_extents_m[1])
        return broad[0] if broad else None

    def b(self, item: DescribedObject) -> NDArray[np.float64]:
        """Its centre in frame B, (3,)."""
        return self.scene.base.to_base(np.asarray(item.position_m))

    def from_robot(self, item: DescribedObject) -> float:
        """How far from the robot: for an arm along its x, for a robot that drives from where it starts."""
        at = self.b(item)
        if any(other.role == "object" for other in self.scene.objects):
            return float(at[0])
        return float(np.hypot(at[0], at[1]))

    def holds(self, relation: str, a: DescribedObject, b: DescribedObject) -> bool:
        """Whether the relation holds now; `to` is in or on."""
        ahead = self.b(a) - self.b(b)
        if relation in ("in", "on", "to"):
            return self.support.get(a.id) == b.id or self._rests(a, b)
        if relation in ("near", "away"):
            near = float(np.linalg.norm(ahead)) < NEAR_M
            return near if relation == "near" else not near
        if relation == "off":
            return self.support.get(a.id) != b.id
        along = {"left": ahead[1], "right": -ahead[1], "front": -ahead[0], "behind": ahead[0]}.get(relation)
        return along is not None and bool(along >= GAP_M)

    def _rests(self, a: DescribedObject, b: DescribedObject) -> bool:
        """On the other by position, where no fact says what it lies on."""
        if a.id in self.support:
            return False
        off = np.abs(self.b(a) - self.b(b))
        inside = bool(np.all(off[:2] <= np.asarray(b.half_extents_m)[:2]))
        level = (a.position_m[2] - a.half_extents_m[2]) - (b.position_m[2] + b.half_extents_m[2])
        return inside and abs(level) <= 0.01
