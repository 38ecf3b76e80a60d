"""A program carried out on a described scene in symbols: its steps, in the order in which they can be done."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass, replace

from embodied.planning.parser.agree import check_together
from embodied.planning.parser.conditions import GROUND_SLOT, Conditions
from embodied.planning.parser.lookup import Lookup, NamesOfThings, Slot, Things
from embodied.planning.parser.ordering import ordered
from embodied.planning.parser.placing import between, place_of, told_by_name, twins
from embodied.planning.parser.program import Clause, Description, Program
from embodied.planning.parser.steps import Act, Steps
from embodied.planning.parser.world import World
from embodied.planning.places import label, listing, quoted
from embodied.planning.plan import MAX_STEPS_IN_PLAN
from embodied.planning.words import Refused
from embodied.types import DescribedObject, PlanStep, SceneDescription

_UNARY: dict[str, tuple[str, Slot]] = {
    "touch": ("touch", "touched"), "reach": ("reach", "touched"), "pick": ("pick", "moved"), "go": ("go_to", "goal"),
}  # fmt: skip
_MOVING = frozenset({"move", "moving", "approach", "approaching", "\u79fb\u52a8"})
"""Verbs of going that an arm can follow with its gripper."""


@dataclass(frozen=True)
class Placing:
    """The last placement, for what is said to go there too."""

    relation: str
    ground: DescribedObject
    pushed: bool


def execute(program: Program, scene: SceneDescription, names: NamesOfThings) -> tuple[PlanStep, ...]:
    """The steps of a program.

    Raises:
        Refused: With the reasons of `Planner`s; see `embodied.types.FailureReason`.
    """
    return _Execution(program, scene, names).steps()


class _Execution:
    def __init__(self, program: Program, scene: SceneDescription, names: NamesOfThings) -> None:
        self.program, self.scene = program, scene
        self.world = World(scene)
        self.lookup = Lookup(scene, names, self.world)
        self.lookup.told = told_by_name(program, self.lookup)
        self.conditions = Conditions(program, self.lookup, self.world)
        self.avoid: dict[str, None] = {}
        self.later_bans: list[Clause] = []
        self.alone: Things | None = None
        """What alone may be moved, where that is said."""
        self.last_acts: list[Act] = []
        self.placing: Placing | None = None
        self.family = ""

    def steps(self) -> tuple[PlanStep, ...]:
        if self.program.marks:
            raise Refused("ambiguous", "sides are asked for as somebody else sees them; say them as the robot does")
        acts: dict[int, list[Act]] = {}
        self._forbid()
        for clause in self.program.clauses:
            if clause.negated or clause.verb == "avoid":
                continue
            if not self.conditions.wanted(clause):
                self._only_mentioned(clause)
                continue
            if clause.verb == "only":
                self.alone = (self.alone or []) + (self._themes(clause, "touched") if clause.themes else [])
                continue
            made = self._acts(clause)
            acts[clause.at] = made
            self.last_acts = made or self.last_acts
        for clause in self.later_bans:
            self._ban(clause)
        if self.alone is not None:
            self._ban_others([act for made in acts.values() for act in made])
        chain = ordered(self.program.clauses, acts)
        emitted = Steps(self.world, tuple(self.avoid)).run(chain)
        check_together(chain, self.avoid, self.scene)
        if not emitted:
            emitted = [PlanStep("hold", ())]
        if len(emitted) > MAX_STEPS_IN_PLAN:
            raise Refused(
                "budget", f"that makes {len(emitted)} steps, at most {MAX_STEPS_IN_PLAN} are planned; ask for less"
            )
        return tuple(replace(step, avoid=tuple(self.avoid)) for step in emitted)

    def _only_mentioned(self, clause: Clause) -> None:
        """What is not carried out may still be what `it` means."""
        with contextlib.suppress(Refused):
            self._themes(clause, "moved")

    def _forbid(self) -> None:
        """What is to be left alone comes first: `all` does not mean it."""
        first = min((c.at for c in self.program.clauses if not self._bans(c) and c.verb != "hold"), default=0)
        for clause in self.program.clauses:
            if not self._bans(clause) or not self.conditions.wanted(clause):
                continue
            if clause.relation and clause.grounds:
                continue
            if clause.verb in ("go", "hold", "again") or not clause.themes:
                continue
            before = list(self.lookup.last), list(self.lookup.mentioned)
            pronoun = any(d.pronoun or d.other for d in clause.themes)
            if pronoun and clause.at > first:
                self.later_bans.append(clause)
                continue
            found = self._ban(clause)
            self.lookup.last, self.lookup.mentioned = before[0], before[1] + [item.id for item in found]

    def _ban(self, clause: Clause) -> Things:
        # `do not touch any block`: none of them.
        clause = replace(clause, themes=tuple(replace(d, any=False, all=True) if d.any else d for d in clause.themes))
        found = self._themes(clause, "touched")
        self.avoid.update(dict.fromkeys(item.id for item in found))
        self.lookup.spared |= {item.id for item in found}
        return found

    def _ban_others(self, acts: Sequence[Act]) -> None:
        """All that is neither allowed nor used is to be left alone."""
        used = {item.id for item in self.alone or ()} | {arg for act in acts for arg in (*act.args, act.ground or "")}
        movable = [item.id for item in self.scene.objects if item.role == "object"]
        self.avoid.update(dict.fromkeys(ident for ident in movable if ident not in used))

    @staticmethod
    def _bans(clause: Clause) -> bool:
        return clause.negated != (clause.verb == "avoid")

    def _acts(self, clause: Clause) -> list[Act]:
        self.lookup.earlier = self.lookup.last
        verb, relation = clause.verb, clause.relation
        if verb == "other":
            raise Refused("impossible", f"{quoted(clause.words)} is nothing that can be done here")
        if clause.again or verb == "again":
            return self._again(clause)
        if verb == "tower":
            return self._tower(clause)
        if relation:
            return self._placed(clause)
        if verb == "hold":
            return [Act("hold", ())]
        if verb == "go" and clause.words in _MOVING and any(item.role == "object" for item in self.scene.objects):
            return self._each(clause, "reach")
        if verb in _UNARY and not (verb == "pick" and clause.themes and clause.grounds):
            return self._each(clause, verb)
        if verb == "uncover":
            return self._uncovered(self._themes(clause, "touched"))
        if verb == "swap":
            return self._swapped(clause)
        if clause.grounds and clause.themes:
            return self._placed(replace(clause, relation="to"))
        raise Refused("unparsable", f"it is not said where to {clause.words}; say for instance: in the left tray")

    def _themes(self, clause: Clause, slot: Slot) -> Things:
        found: Things = []
        kind = next((d.noun for d in reversed(clause.themes) if d.noun and self.lookup.names.kind(d.noun)), None)
        for d in clause.themes:
            # `both the red and the blue one`: of a list, not of one phrase in it.
            told = replace(d, both=False) if len(clause.themes) > 1 and not d.plural else d
            if d.noun is None and kind and d.colours and not d.pronoun and len(clause.themes) > 1:
                told = self._with_kind(told, kind, slot)
            found += [item for item in self.lookup.find(told, slot) if item not in found]
        self.lookup.last = found
        return found

    def _with_kind(self, what: Description, kind: str, slot: Slot) -> Description:
        """`the red and the blue block`: red is a block too, where there is such a block."""
        told = replace(what, noun=kind)
        try:
            self.lookup.fresh().find(told, slot)
        except Refused:
            return what
        return told

    def _each(self, clause: Clause, verb: str) -> list[Act]:
        skill, slot = _UNARY[verb]
        themes = clause.themes or clause.grounds
        if not themes:
            raise Refused("unparsable", f"it is not said what to {clause.words}; name it")
        found = self._themes(replace(clause, themes=themes), slot)
        found = self._reordered(clause, found, themes, slot)
        self.family = verb
        return [Act(skill, (item.id,), moment=0) for item in found]

    def _reordered(self, clause: Clause, found: Things, themes: Sequence[Description], slot: Slot) -> Things:
        """`every pillar, the red one last`."""
        for d in themes:
            for mark in d.marks:
                if mark in ("o_last", "o_first"):
                    own = self.lookup.find(d, slot)
                    rest = [item for item in found if item not in own]
                    found = rest + own if mark == "o_last" else own + rest
        return found

    def _placed(self, clause: Clause) -> list[Act]:
        relation, pushed = clause.relation, clause.verb == "push"
        if relation == "off":
            return self._taken_off(clause)
        if relation == "away":
            raise Refused("impossible", "how far away is not said; name a place: left of, behind or in something")
        if (pair := twins(clause, self.lookup)) is not None:
            return self._all_placed(pair[:1], Placing(relation, pair[1], pushed))
        moved = self._reordered(clause, self._moved(clause), clause.themes, "moved")
        ids = [item.id for item in moved]
        if not clause.grounds and len(moved) == 1 and (ground := self._unsaid_ground(relation)) is not None:
            return self._all_placed(moved, Placing(relation, ground, pushed))
        if not clause.grounds:
            return self._beside_each_other(relation, moved, pushed)
        slot: Slot = "under" if clause.verb == "stack" else GROUND_SLOT.get(relation, "beside")
        if any(d.place for d in clause.grounds):
            return self._all_placed(moved, self._there(pushed))
        if relation == "between":
            return between(moved, [self.lookup.one(d, slot, ids) for d in clause.grounds])
        if len(clause.grounds) > 1:
            raise Refused("ambiguous", f"two places are told for the {label(moved[0])}; say one")
        if clause.grounds[0].several:
            return self._one_each(clause, moved, slot)
        ground = self.lookup.one(clause.grounds[0], slot, ids)
        self.lookup.last, self.lookup.last_grounds = moved, [ground]
        several = any(d.several or d.other for d in clause.themes)
        if several:
            moved = [item for item in moved if item is not ground] or moved
        if any(item is ground for item in moved):
            raise Refused("impossible", f"the {label(ground)} cannot be placed relative to itself")
        return self._all_placed(moved, Placing(relation, ground, pushed))

    def _one_each(self, clause: Clause, moved: Things, slot: Slot) -> list[Act]:
        """`a block into each tray`: as many things as places, one for each."""
        grounds = self.lookup.find(clause.grounds[0], slot, [item.id for item in moved])
        if len(clause.themes) == 1 and clause.themes[0].any:
            every = replace(clause.themes[0], any=False, all=True)
            moved = [item for item in self.lookup.find(every, "moved") if item not in grounds][: len(grounds)]
        if len(moved) != len(grounds):
            raise Refused("ambiguous", f"which of these places is meant: {listing(grounds)}? name one")
        pairs = zip(moved, grounds, strict=True)
        return [
            act for item, ground in pairs for act in self._all_placed([item], Placing(clause.relation, ground, False))
        ]

    def _there(self, pushed: bool) -> Placing:
        """The last place that something was brought to, else the last that was spoken of."""
        if self.placing is not None:
            return self.placing
        zone = self.lookup.last_place()
        if zone is None:
            raise Refused("ambiguous", "'there' does not say where; name the place")
        return Placing("in", zone, pushed)

    def _unsaid_ground(self, relation: str) -> DescribedObject | None:
        """`then blue on top`: of what was stacked last; `into it`: the last place."""
        if relation == "on" and self.last_acts and self.last_acts[-1].skill == "stack":
            return self.scene.object(self.last_acts[-1].args[0])
        grounds = self.lookup.last_grounds if relation in ("in", "on", "to") else []
        return grounds[0] if grounds else None

    def _moved(self, clause: Clause) -> Things:
        if clause.sources:
            return self._from_sources(clause)
        if not clause.themes:
            if not self.lookup.last:
                raise Refused("unparsable", "it is not said what shall be moved; name it")
            return self.lookup.last
        return self._themes(clause, "moved")

    def _from_sources(self, clause: Clause) -> Things:
        sources = [item for d in clause.sources for item in self.lookup.find(d, "any")]
        lying = [i for s in sources for i in self.world.upon(s.id)]
        found = [item for item in self.scene.objects if item.id in lying]
        if clause.themes and not all(d.all and d.noun is None for d in clause.themes):
            themed = self._themes(clause, "moved")
            found = [item for item in themed if not lying or item.id in lying] or themed
        found = [item for item in found if item.id not in self.avoid]
        if not found and all(item.kind == "table" for item in sources):
            found = [item for item in self.scene.objects if item.role == "object" and item.id not in self.avoid]
        if not found:
            raise Refused("unknown_object", f"nothing is known to lie on the {label(sources[0])}")
        self.lookup.mentioned += [item.id for item in found]
        self.lookup.last = found
        return found

    def _all_placed(self, moved: Things, placing: Placing) -> list[Act]:
        self.placing = placing
        self.lookup.last = moved
        self.family = "put"
        acts: list[Act] = []
        ground = placing.ground
        for item in moved:
            skill, place = place_of(placing.relation, ground, placing.pushed)
            acts.append(Act(skill, (item.id, place), ground.id))
            if skill == "stack":
                ground = item
                self.placing = replace(placing, ground=item)
        return acts

    def _beside_each_other(self, relation: str, moved: Things, pushed: bool) -> list[Act]:
        if relation == "near" and len(moved) > 1:
            return self._all_placed(moved[:-1], Placing("near", moved[-1], pushed))
        if relation == "on" and len(moved) > 1:
            return self._levels(moved)
        raise Refused(
            "unparsable", f"it is not said where the {label(moved[0])} should go; say for instance: in the left tray"
        )

    def _aside(self, items: Things) -> list[Act]:
        table = self.world.table()
        if table is None:
            raise Refused("impossible", "there is no table that things could be put aside on")
        return [Act("place", (item.id, table.id), aside=True) for item in items]

    def _taken_off(self, clause: Clause) -> list[Act]:
        grounds = [item for d in clause.grounds for item in self.lookup.find(d, "touched")]
        lying = {i for g in grounds for i in self.world.upon(g.id)}
        if not clause.themes or all(d.all and d.noun is None for d in clause.themes):
            return self._uncovered(grounds)
        moved = self._off_themes(clause, lying)
        if grounds and not any(item.id in lying for item in moved):
            raise Refused("impossible", f"the {label(moved[0])} does not lie on the {label(grounds[0])}")
        self.lookup.last, self.lookup.last_grounds = moved, grounds
        return self._aside(moved)

    def _off_themes(self, clause: Clause, lying: set[str]) -> Things:
        """What is taken off; of several that fit, those that lie there."""
        try:
            return self._themes(clause, "moved")
        except Refused as refusal:
            if refusal.failure.reason != "ambiguous" or not lying:
                raise
            found = [item for item in self.scene.objects if item.id in lying]
            if len(found) != 1:
                raise
            return found

    def _uncovered(self, grounds: Things) -> list[Act]:
        if any(item.kind == "table" for item in grounds):
            raise Refused(
                "unparsable",
                "it is not said where the things on the table should go; say for instance: into the left tray",
            )
        lying = [i for g in grounds for i in self.world.upon(g.id) if i not in self.avoid]
        if not lying:
            return [Act("hold", ())]
        items = [item for item in self.scene.objects if item.id in lying]
        self.lookup.last = items
        return self._aside(items)

    def _swapped(self, clause: Clause) -> list[Act]:
        pair = self._themes(clause, "moved")
        pair += [item for d in clause.grounds for item in self.lookup.find(d, "moved")]
        if len(pair) != 2:
            raise Refused("unparsable", "swapping takes two things; name both")
        acts = self._aside(pair[:1])
        for item, other in ((pair[1], pair[0]), (pair[0], pair[1])):
            x, y, z = other.position_m
            z += item.half_extents_m[2] - other.half_extents_m[2]
            zone = self.world.support.get(other.id, "")
            held = any(i.id == zone and i.role == "zone" for i in self.scene.objects)
            acts.append(Act("place", (item.id, zone if held else f"{x:.4f},{y:.4f},{z:.4f}"), fixed=True))
        return [replace(act, fixed=True) for act in acts]

    def _tower(self, clause: Clause) -> list[Act]:
        several = [d for d in clause.themes if d.several or d.pronoun or (d.other and d.plural)]
        levels = [item for d in clause.themes for item in self.lookup.find(d, "moved")]
        levels = list(dict((item.id, item) for item in levels).values())
        if several and len(several) < len(clause.themes):
            levels = [item for d in clause.themes if d not in several for item in self.lookup.find(d, "moved")]
        if len(levels) < 2:
            raise Refused("unparsable", "a tower takes two things or more; say which, from the bottom")
        marked = {mark: d for d in clause.themes for mark in d.marks if mark.startswith("b_")}
        down = "d_down" in clause.marks
        if "b_bottom" in marked or "b_top" in marked:
            first, last = clause.themes[0], clause.themes[-1]
            down = marked.get("b_bottom") is last or marked.get("b_top") is first
            down = down and len(clause.themes) > 1
        elif several and not clause.marks:
            levels.sort(key=lambda item: -float(item.half_extents_m[0] * item.half_extents_m[1]))
        self.lookup.last = levels
        return self._levels(levels[::-1] if down else levels, clause)

    def _levels(self, levels: Things, clause: Clause | None = None) -> list[Act]:
        acts: list[Act] = []
        if clause is not None and clause.grounds:
            ground = self.lookup.one(clause.grounds[0], "zone", [item.id for item in levels])
            acts += self._all_placed(levels[:1], Placing("on", ground, False))
        self.family = "stack"
        if ball := next((item for item in levels[:-1] if item.kind == "ball"), None):
            raise Refused("impossible", f"nothing stays on the {label(ball)}")
        for lower, upper in zip(levels, levels[1:], strict=False):
            acts.append(Act("stack", (upper.id, lower.id), lower.id))
        return acts

    def _again(self, clause: Clause) -> list[Act]:
        """The last clause once more for other things."""
        family = self.family or ("" if any(item.role == "object" for item in self.scene.objects) else "go")
        if family in _UNARY:
            skill, slot = _UNARY[family]
            found = self._themes(clause, slot)
            return [Act(skill, (item.id,)) for item in found]
        if self.placing is None:
            raise Refused(
                "unparsable", "it is not said what shall be done with it; say for instance: touch the red block"
            )
        moved = [item for item in self._themes(clause, "moved") if item is not self.placing.ground]
        return self._all_placed(moved, self.placing)
