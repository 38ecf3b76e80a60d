"""Whether what clauses depend on holds in the scene as it is described now."""

from __future__ import annotations

from dataclasses import dataclass

from embodied.planning.parser.lookup import Lookup, Slot, distance
from embodied.planning.parser.program import Clause, Condition, Program, Stated
from embodied.planning.parser.world import World
from embodied.planning.words import Refused
from embodied.types import DescribedObject

GROUND_SLOT: dict[str, Slot] = {"in": "zone", "to": "zone", "on": "under"}
"""What the ground of a relation may be; beside a thing for all others."""


@dataclass
class Conditions:
    """The conditions of one program."""

    program: Program
    lookup: Lookup
    world: World

    def wanted(self, clause: Clause) -> bool:
        """Whether the clause's conditions hold in the scene as it is."""
        wanted = True
        for condition in self.program.conditions:
            if not self._covers(condition, clause):
                continue
            if condition.kind == "else":
                earlier = [c for c in self.program.conditions if c.kind != "else" and c.at < condition.at]
                wanted = wanted and bool(earlier) and not self._true(earlier[-1])
            else:
                wanted = wanted and self._true(condition)
        return wanted

    def _covers(self, condition: Condition, clause: Clause) -> bool:
        """Whether it speaks of the clause: that which it is said of, and those of its sentence beside it."""
        otherwise = [c for c in self.program.conditions if c.kind == "else"]
        if condition.kind == "else":
            return clause.start >= condition.at and clause.sentence <= condition.sentence or clause.at == condition.head
        if clause.at == condition.head:
            return True
        if any(c.at <= clause.start or c.head == clause.at for c in otherwise):
            return False
        head = next((c for c in self.program.clauses if c.at == condition.head), None)
        if head is None or clause.sentence != head.sentence:
            return False
        return clause.start > condition.at if head.start > condition.at else clause.start < condition.at

    def _true(self, condition: Condition) -> bool:
        if not condition.facts:
            raise Refused("unparsable", "it is not clear under which condition; say for instance: if the tray is empty")
        told = all(self._holds(fact) for fact in condition.facts)
        return told != (condition.kind == "unless")

    def _holds(self, fact: Stated) -> bool:
        try:
            themes = [item for d in fact.themes for item in self.lookup.find(d, "any")]
        except Refused as refusal:
            if fact.name != "there" or refusal.failure.reason not in ("unknown_object", "ambiguous"):
                raise
            return (refusal.failure.reason == "ambiguous") != fact.negated
        if fact.name == "there":
            return bool(themes) != fact.negated
        if fact.name in ("empty", "full"):
            lying = [lying for item in themes for lying in self.world.upon(item.id)]
            self.lookup.last, self.lookup.last_grounds = themes, themes
            return (bool(lying) == (fact.name == "full")) != fact.negated
        if fact.name in ("nearer", "farther"):
            return self._nearer(fact, themes) != fact.negated
        grounds = [item for d in fact.grounds for item in self.lookup.find(d, GROUND_SLOT.get(fact.name, "beside"))]
        if not themes or not grounds:
            raise Refused("unparsable", "it is not clear under which condition; say for instance: if the tray is empty")
        self.lookup.last, self.lookup.last_grounds = themes, grounds
        return all(self.world.holds(fact.name, a, b) for a in themes for b in grounds) != fact.negated

    def _nearer(self, fact: Stated, themes: list[DescribedObject]) -> bool:
        """Whether the one thing is nearer (or farther) to the ground than the other thing is."""
        grounds = [self.lookup.one(d, "any") for d in fact.grounds]
        others = [self.lookup.one(d, "any") for d in fact.others]
        if not len(themes) == len(grounds) == len(others) == 1:
            raise Refused("unparsable", "it is not clear what is nearer to what; name all three things")
        own, other = (distance(item, grounds[0]) for item in (themes[0], others[0]))
        return own < other if fact.name == "nearer" else own > other
