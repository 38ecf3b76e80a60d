"""Which things of a scene a description means; never a guess between several."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from embodied.planning.parser.kinds import NamesOfThings, kind_tests
from embodied.planning.parser.program import Description, Relation
from embodied.planning.parser.shapes import shape_of_adjective, shape_of_noun
from embodied.planning.parser.world import World
from embodied.planning.places import listing, quoted
from embodied.planning.words import Refused
from embodied.types import DescribedObject, SceneDescription

Slot = Literal["moved", "touched", "zone", "under", "beside", "goal", "any"]
Things = list[DescribedObject]
SIDE_GAP_M = 0.02
SIZE_RATIO = 1.1
NEARER_M = 0.005
_PREFERRED: dict[Slot, tuple[tuple[str, ...], ...]] = {
    "moved": (("object",),), "touched": (("object",), ("zone",)), "zone": (("zone",), ("place",), ("landmark",)),
    "under": (("object",), ("zone",)), "beside": (("object",), ("zone",)), "goal": (("landmark",), ("place",)),
    "any": (("object",), ("zone",)),
}  # fmt: skip
"""Roles that a phrase means first where it leaves a choice."""
_MANY = frozenset({"them", "these", "those", "they", "both", "它们", "他们"})
_SAME = frozenset({"same", "identical", "alike", "matching", "equal", "twin"})
_HARMLESS = frozenset(
    {
        "nice",
        "lovely",
        "wooden",
        "plastic",
        "little",
        "solid",
        "pretty",
        "cute",
        "own",
        "single",
        "same",
        "good",
        "dear",
        "sweet",
        "precious",
        "poor",
        "silly",
        "whole",
        "actual",
        "real",
        "said",
        "aforementioned",
        "beautiful",
        "favourite",
        "favorite",
        "lonely",
        "lone",
        "only",
        "remaining",
        "darn",
        "damn",
        "stupid",
        "bloody",
        "wee",
        "old",
        "regular",
        "identical",
        "matching",
        "alike",
        "twin",
        "looking",
        "equal",
        "similar",
    }
)


@dataclass
class Lookup:
    """Finds what is meant, and remembers what was spoken of."""

    scene: SceneDescription
    names: NamesOfThings
    world: World
    last: Things = field(default_factory=list)
    """What `it` and `them` mean."""
    earlier: Things = field(default_factory=list)
    """What `it` means where something is put on it: what was spoken of before the clause."""
    last_grounds: Things = field(default_factory=list)
    spoken: list[str] = field(default_factory=list)
    """All that was looked up, what another thing was told by included."""
    mentioned: list[str] = field(default_factory=list)
    told: list[str] = field(default_factory=list)
    """What is spoken of by name anywhere: what `the others` are others than, where nothing was spoken of before."""
    spared: set[str] = field(default_factory=set)
    """Left out where a phrase speaks of all."""
    last_kind: str | None = None
    _referring: bool = False
    """What is looked up only tells another thing."""

    def find(self, what: Description, slot: Slot, without: Sequence[str] = ()) -> Things:
        """The things, in the scene's order.

        Args:
            what: The description.
            slot: What they are for.
            without: Ids that are not meant where the description leaves a choice.

        Raises:
            Refused: `unknown_object` (nothing fits), `ambiguous` (more fit than are meant), `unparsable` (a word that
                nobody knows).
        """
        found = (
            self._pronoun(what, slot, without)
            if what.pronoun and not what.place
            else self._described(what, slot, without)
        )
        self.spoken += [item.id for item in found]
        if not self._referring:
            self.mentioned += [item.id for item in found]
        if what.noun is not None and len({item.kind for item in found}) == 1:
            self.last_kind = found[0].kind
        return found

    def fresh(self) -> Lookup:
        """One that remembers nothing."""
        return Lookup(self.scene, self.names, self.world)

    def refer(self, what: Description, slot: Slot) -> Things:
        """As `find`, for what another thing is told by: `the rest` may mean it still."""
        before, self._referring = self._referring, True
        try:
            return self.find(what, slot)
        finally:
            self._referring = before

    def one(self, what: Description, slot: Slot, without: Sequence[str] = ()) -> DescribedObject:
        """The one thing.

        Raises:
            Refused: As `find`; `ambiguous` where it means several.
        """
        return self._only(what, self.find(what, slot, without))

    def _single(self, what: Description, slot: Slot) -> DescribedObject:
        return self._only(what, self.refer(what, slot))

    @staticmethod
    def _only(what: Description, found: Things) -> DescribedObject:
        if len(found) != 1:
            raise Refused("ambiguous", f"{quoted(what.words)} means several things, it has to be one: {listing(found)}")
        return found[0]

    def _pronoun(self, what: Description, slot: Slot, without: Sequence[str]) -> Things:
        if slot in ("zone", "under", "beside"):
            return self._ground_meant(what, slot, without)
        found = [item for item in self.last if item.id not in without]
        if what.pronoun in _MANY and len(found) == 1:
            earlier = [self.scene.object(i) for i in dict.fromkeys(self.mentioned)]
            found = [item for item in earlier if item.role == "object" and item.id not in without]
        return found or self._unclear(what)

    def _ground_meant(self, what: Description, slot: Slot, without: Sequence[str]) -> Things:
        """`on it`: what was moved or asked about before; `in it`: the last zone of these."""
        for group in (self.earlier, self.last_grounds, self.last):
            found = [item for item in group if item.id not in without and (slot != "zone" or item.role == "zone")]
            if found:
                return found
        found = [item for item in (*self.earlier, *self.last_grounds) if item.id not in without]
        return found[:1] or self._unclear(what)

    def last_place(self) -> DescribedObject | None:
        """The last zone that was spoken of."""
        zones = [item for i in reversed(self.spoken) for item in (self.scene.object(i),) if item.role == "zone"]
        return zones[0] if zones else None

    @staticmethod
    def _unclear(what: Description) -> Things:
        raise Refused("ambiguous", f"{quoted(what.pronoun or '')} does not say which thing is meant; name it")

    def _described(self, what: Description, slot: Slot, without: Sequence[str]) -> Things:
        if what.ident is not None:
            named = [item for item in self.scene.objects if item.id == what.ident]
            if not named:
                raise self._absent(what)
            return named
        for word in what.properties:
            if word not in _HARMLESS and shape_of_adjective(word) is None:
                raise Refused("unparsable", f"what is {quoted(word)} cannot be told from the description of this scene")
        pool = self._pool(what, slot)
        if not pool:
            raise self._absent(what)
        several = what.several or (what.other and self._rest(what, slot))
        if several and slot in ("moved", "touched", "any") and any(item.role == "object" for item in pool):
            pool = [
                item
                for item in pool
                if item.role == "object" or (what.noun and slot == "touched" and not self._generic(what))
            ]
        pool = self._narrowed(what, pool, slot, several)
        if not pool:
            raise self._absent(what)
        return self._counted(what, pool, slot, several, without)

    @staticmethod
    def _rest(what: Description, slot: Slot) -> bool:
        """`the rest`, `the others`, and not `the other one`."""
        one = what.words.endswith("other") or what.words.startswith(("another", "\u53e6"))
        return what.plural or (what.noun is None and not one and slot in ("moved", "touched", "goal", "any"))

    def _generic(self, what: Description) -> bool:
        return what.noun is None or self.names.generic(what.noun) == "thing"

    def _pool(self, what: Description, slot: Slot) -> Things:
        """What fits colour and kind, by the strictest reading under which anything does."""
        colours = {self._colour(word, what) for word in what.colours}
        unwanted = {self._colour(word, what) for word in what.not_colours}
        items = [item for item in self.scene.objects if item.role != "place" or slot in ("goal", "zone")]
        items = [item for item in items if (not colours or {item.colour} == colours) and item.colour not in unwanted]
        if slot == "moved" and what.noun is None and (what.all or what.other or what.both):
            items = [item for item in items if item.role == "object"]
        movable = [item for item in items if item.role == "object"]
        tests = kind_tests(what, slot, bool(colours), self.names, self.scene)
        # What is to be moved is looked for among what can be moved first: a disc is then rather a flat cylinder.
        for pool, fits in [(movable, t) for t in tests if slot == "moved"] + [(items, t) for t in tests]:
            found = [item for item in pool if fits(item)]
            for test in map(shape_of_adjective, what.properties):
                found = [item for item in found if test is None or test(item)]
            found = self._related(what, found)
            if found:
                return _shaped(found, shape_of_noun(what.noun or ""))
        return []

    def _colour(self, word: str, what: Description) -> str:
        found = self.names.colour(word)
        if found is None:
            raise Refused("unparsable", f"{quoted(word)} is no colour or thing that is known")
        return found

    def _related(self, what: Description, found: Things) -> Things:
        for relation in what.relations:
            found = self._by_relation(relation, found)
        return found

    def _by_relation(self, relation: Relation, found: Things) -> Things:
        slot: Slot = "zone" if relation.name == "in" else "under" if relation.name == "on" else "beside"
        grounds = [self._single(ground, slot if ground.noun is None else "any") for ground in relation.grounds]
        kept = []
        for item in found:
            holds = all(item is not ground and self.world.holds(relation.name, item, ground) for ground in grounds)
            if holds != relation.negated:
                kept.append(item)
        if relation.name == "near" and not kept and len(grounds) == 1:
            return _first_by([i for i in found if i is not grounds[0]], lambda i: -distance(i, grounds[0]), NEARER_M)
        return kept

    def _narrowed(self, what: Description, found: Things, slot: Slot, several: bool) -> Things:
        """Without the excepted ones; the nearest, the one on the asked side, the one of the asked size."""
        if what.excluded:
            out = {item.id for part in what.excluded for item in self.refer(part, "touched")}
            found = [item for item in found if item.id not in out]
        if several:
            found = [item for item in found if item.id not in self.spared]
        if what.other:
            objects = {item.id for item in self.scene.objects if item.role == "object"}
            seen = self.mentioned if objects & set(self.mentioned) else self.told
            rest = [item for item in found if item.id not in seen]
            found = rest
        if not several and len(found) > 1:
            found = self._preferred(what, found, slot)
        if what.superlative is not None:
            found = self._superlative(what, found)
        if what.side is not None and what.noun is None and slot == "zone" and len(found) == 1:
            raise Refused("ambiguous", f"{quoted(what.words)} does not say of what; name the place")
        if what.side is not None and len(found) > 1:
            found = self._on_side(what, found)
        for size in what.sizes:
            found = self._of_size(size, found)
        return found

    def _preferred(self, what: Description, found: Things, slot: Slot) -> Things:
        if what.noun is not None and self.names.generic(what.noun) is None and slot not in ("moved", "zone"):
            return found
        for roles in _PREFERRED[slot]:
            kept = [item for item in found if item.role in roles]
            if kept:
                return kept
        return found

    def _superlative(self, what: Description, found: Things) -> Things:
        sign = -1.0 if what.superlative == "near" else 1.0
        if what.superlative_of is None:
            return _first_by(found, lambda item: sign * self.world.from_robot(item), NEARER_M)
        other = self._single(what.superlative_of, "any")
        found = [item for item in found if item is not other]
        return _first_by(found, lambda item: sign * distance(item, other), NEARER_M)

    def _on_side(self, what: Description, found: Things) -> Things:
        axis, sign = {"left": (1, 1.0), "right": (1, -1.0), "front": (0, -1.0), "back": (0, 1.0), "middle": (1, 0.0)}[
            what.side or ""
        ]
        along = {item.id: float(self.world.b(item)[axis]) for item in found}
        if what.side == "middle":
            ranked = sorted(found, key=lambda item: along[item.id])
            return [ranked[len(ranked) // 2]] if len(ranked) % 2 else found
        if what.nth > 1:
            ranked = sorted(found, key=lambda item: -sign * along[item.id])
            return ranked[what.nth - 1 : what.nth]
        return _first_by(found, lambda item: sign * along[item.id], SIDE_GAP_M)

    def _of_size(self, size: str, found: Things) -> Things:
        if len(found) < 2:
            return found
        upright = size in ("tall", "short")
        measure = {i.id: i.half_extents_m[2] if upright else float(np.prod(i.half_extents_m)) for i in found}
        big = size in ("large", "tall")
        best = (max if big else min)(measure.values())
        ratio = 1.05 if upright else SIZE_RATIO
        return [i for i in found if max(measure[i.id], best) / max(min(measure[i.id], best), 1e-12) < ratio]

    def _counted(self, what: Description, found: Things, slot: Slot, several: bool, without: Sequence[str]) -> Things:
        free = [item for item in found if item.id not in without]
        if what.any and (not several or what.count == 1):
            return (free or found)[:1]
        if what.any and what.count:
            return (free or found)[: what.count]
        wanted = 2 if what.both else what.count
        if wanted is not None:
            recent = [item for item in found if item in self.last]
            found = recent if what.noun is None and len(recent) == wanted else free
            if len(found) > wanted and _SAME & set(what.words.split()):
                found = _alike(found, wanted)
            if len(found) == wanted:
                return found
            reason: Literal["ambiguous", "unknown_object"] = "ambiguous" if len(found) > wanted else "unknown_object"
            raise Refused(
                reason, f"{quoted(what.words)} asks for {wanted} things, there are {len(found)}: {listing(found)}"
            )
        if several:
            if not free:
                raise self._absent(what)
            return free
        if len(found) > 1:
            found = self._tie(what, free)
        if len(found) != 1:
            raise Refused(
                "ambiguous", f"{quoted(what.words)} may mean any of: {listing(found)}; say which, for instance by id"
            )
        return found

    def _tie(self, what: Description, found: Things) -> Things:
        """`the green one` after `the red block` is a block; `the other` is like the one before."""
        for before in map(self.scene.object, reversed(self.spoken) if what.other else ()):
            alike = [item for item in found if (item.kind, item.colour) == (before.kind, before.colour)]
            if len(alike) == 1:
                return alike
        if (what.noun is None or self._generic(what)) and self.last_kind is not None:
            alike = [item for item in found if item.kind == self.last_kind]
            return alike or found
        return found

    def _absent(self, what: Description) -> Refused:
        return Refused(
            "unknown_object", f"there is no {quoted(what.words)} here; there are: {listing(self.scene.objects)}"
        )


def _shaped(found: Things, test: Callable[[DescribedObject], bool] | None) -> Things:
    """Those of a shape, where there are such."""
    kept = [item for item in found if test is not None and test(item)]
    return kept or found


def _alike(found: Things, wanted: int) -> Things:
    """The only so many that look alike; all where there are none such."""
    groups: dict[tuple[str, str], Things] = {}
    for item in found:
        groups.setdefault((item.kind, item.colour), []).append(item)
    fitting = [group for group in groups.values() if len(group) == wanted]
    return fitting[0] if len(fitting) == 1 else found


def distance(a: DescribedObject, b: DescribedObject) -> float:
    return float(np.linalg.norm(np.asarray(a.position_m) - np.asarray(b.position_m)))


def _first_by(found: Things, key: Callable[[DescribedObject], float], gap: float) -> Things:
    """Those that no other is ahead of by the gap."""
    if not found:
        return found
    best = max(key(item) for item in found)
    return [item for item in found if best - key(item) < gap]
