"""The describer that looks nothing up in a picture: the simulator's own state in words."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from embodied.facts import all_facts
from embodied.types import DescribedObject, EntityState, Fact, Frame, SceneDescription, SceneState
from vlm_describer.describer import make_description


class OracleDescriber:
    """Describes what `read` returns; frames are ignored. The same state gives the same description."""

    name = "oracle"

    def __init__(self, read: Callable[[], SceneState]) -> None:
        self._read = read

    def describe(self, frames: Sequence[Frame] = ()) -> SceneDescription:
        """Every entity with confidence 1 and every fact of `embodied.facts.all_facts` with probability 1."""
        state = self._read()
        facts = [Fact(predicate, 1.0, self.name) for predicate in all_facts(state)]
        return make_description([_described(entity) for entity in state.entities], facts, base=state.frame)


def _described(entity: EntityState) -> DescribedObject:
    return DescribedObject(
        id=entity.id,
        role=entity.role,
        kind=entity.kind,
        colour=entity.colour,
        position_m=entity.position_m,
        half_extents_m=entity.half_extents_m,
        confidence=1.0,
        name=entity.name,
    )
