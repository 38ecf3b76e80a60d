"""The rules planner: a small grammar for English, the same answer every time, and honest about being small.

An instruction is planned only when every word of it was understood. What the grammar holds: touch, reach, pick up,
put, push, stack, go to, clear, hold, towers, what not to touch; things by colour, kind, size, side and id; several
clauses, in which a verb or a place that was said before may be left out. The words are in `lexicon`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from embodied.planning import lexicon
from embodied.planning.checks import MOVES, check_steps
from embodied.planning.nouns import NounPhrase, Nouns, Slot
from embodied.planning.places import label, quoted
from embodied.planning.plan import MAX_STEPS_IN_PLAN
from embodied.planning.words import Cursor, Refused, tokenize
from embodied.types import DescribedObject, PlanFailure, PlanStep, SceneDescription

_UNARY: dict[str, tuple[str, Slot]] = {
    "touch": ("touch", "touched"), "reach": ("reach", "touched"), "pick": ("pick", "moved"), "go": ("go_to", "goal"),
    "open": ("open", "touched"), "close": ("close", "touched"), "turn": ("turn", "touched"),
}  # fmt: skip
"""Families that are about one thing: the skill, and what the thing is for."""
_BINARY = frozenset({"put", "push", "stack"})
_AT_THE_BOTTOM = ("at the bottom", "on the bottom")
_ON_TOP = ("on top", "at the top")


class RulesPlanner:
    """Implements `embodied.protocols.Planner`; needs no model and draws nothing at random."""

    name = "rules"

    def propose(self, instruction: str, scene: SceneDescription) -> tuple[PlanStep, ...] | PlanFailure:
        """Steps for the instruction, or a refusal.

        unparsable: words that the grammar does not hold, named. unknown_object: a thing that is not there, with a list
        of those that are. ambiguous: several things fit, named. contradictory: places or prohibitions that exclude
        each other. impossible: moving what is fixed. budget: more than 50 steps.
        """
        try:
            steps = _Reader(instruction, scene).steps()
        except Refused as refusal:
            return refusal.failure
        failure = check_steps(steps, scene)
        return steps if failure is None else failure


@dataclass(frozen=True)
class _Said:
    """A step and the moment that it belongs to: steps of one moment are asked for together."""

    step: PlanStep
    moment: int


class _Reader:
    """Reads one instruction, clause by clause."""

    def __init__(self, instruction: str, scene: SceneDescription) -> None:
        self.scene = scene
        self.c = Cursor(tokenize(instruction))
        self.nouns = Nouns(self.c, scene)
        self.said: list[_Said] = []
        self.clause_start = 0
        """Index into `said` of the first step of the last clause with a verb."""
        self.moment = 0
        self.forbidden: list[str] = []
        self.family: str | None = None
        self.place: tuple[str, DescribedObject] | None = None
        """The last relation and reference."""
        self.tail: list[DescribedObject] = []
        """What the last noun phrase of the last list means."""

    def steps(self) -> tuple[PlanStep, ...]:
        while not self._separators():
            self._clause()
            self.c.take(lexicon.TRAILERS)
            if not (self.c.done or self.c.peek(lexicon.SEPARATORS) or self.c.peek(lexicon.FORBIDDING)):
                self.c.not_understood()
        self._check_together()
        if not self.said and self.forbidden:
            return (PlanStep("hold", ()),)
        if len(self.said) > MAX_STEPS_IN_PLAN:
            raise Refused(
                "budget", f"that makes {len(self.said)} steps, at most {MAX_STEPS_IN_PLAN} are planned; ask for less"
            )
        return tuple(replace(item.step, avoid=tuple(dict.fromkeys(self.forbidden))) for item in self.said)

    def _separators(self) -> bool:
        """Moves over what stands between clauses; True at the end."""
        while True:
            later = self.c.take_value(lexicon.SEPARATORS)
            if later is None:
                return self.c.done
            self.moment += later

    def _clause(self) -> None:
        c = self.c
        while c.take(lexicon.FILLERS):
            pass
        if c.take(lexicon.HARMLESS):
            return
        if c.take(lexicon.FORBIDDING):
            self.forbidden += [item.id for item in self._things("touched")]
            return
        family = c.take_value(lexicon.VERBS)
        if family is None:
            self._without_verb()
            return
        self.clause_start = len(self.said)
        if family == "hold" and not self.nouns.starts():
            self._say("hold")
            return
        self._with_verb("pick" if family == "hold" else family)

    def _with_verb(self, family: str) -> None:
        if family == "tower":
            self._tower()
        elif family == "clear":
            self._clear()
        elif family in _BINARY:
            self.family = family
            self._put_all(self._things("moved"))
        else:
            family = "go" if family == "reach" and not self._any_movable() else family
            self.family = family
            self._one_by_one(family)

    def _one_by_one(self, family: str) -> None:
        skill, slot = _UNARY[family]
        point = self._point() if family in ("reach", "go") else None
        if point is not None:
            self._say(skill, point)
            return
        for item in self._things(slot):
            self._say(skill, item.id)
        if family == "pick":
            self.c.take(["up"])
        if self.c.word() in ("last", "first"):
            self._reorder(self.tail)

    def _without_verb(self) -> None:
        """A clause that leans on the one before: `the blue one`, `blue on red`, `the red one last`."""
        c = self.c
        if c.word() == "to" and self.family in ("go", "reach"):
            c.i += 1
        if not self.nouns.starts():
            c.not_understood()
        unary = self.family if self.family in _UNARY else None
        start, mentioned = c.i, len(self.nouns.mentioned)
        items = self._things(_UNARY[unary][1] if unary else "moved")
        if c.word() in ("last", "first"):
            self._reorder(items)
            return
        if c.peek(lexicon.COPULAS) or (c.peek(lexicon.PREPOSITIONS) and not unary):
            if unary:
                c.i = start
                del self.nouns.mentioned[mentioned:]
                items = self._things("moved")
            c.take(lexicon.COPULAS)
            self.family = "put" if unary else self.family or "put"
            self._put_all(items)
        elif unary:
            for item in items:
                self._say(_UNARY[unary][0], item.id)
        elif self.place is not None:
            self._put_each(items, *self.place)
        else:
            c.i = start
            c.not_understood()

    def _put_all(self, items: list[DescribedObject]) -> None:
        """The place that follows, for each of the things; the last place where none is said but `too` is."""
        c = self.c
        relation = c.take_value(lexicon.PREPOSITIONS)
        if relation is None:
            if self.place is None or not c.peek(lexicon.TRAILERS):
                raise Refused(
                    "unparsable",
                    f"it is not said where {self._names(items)} should go; say for instance: in the left tray",
                )
            self._put_each(items, *self.place)
            return
        phrase = self.nouns.read()
        found = self.nouns.resolve(phrase, "target", without=[item.id for item in items])
        if len(found) != 1:
            raise Refused(
                "ambiguous", f"{quoted(phrase.words)} means several things, a place has to be one: {self._names(found)}"
            )
        self.place = (relation, found[0])
        self._put_each(items, *self.place)

    def _put_each(self, items: list[DescribedObject], relation: str, reference: DescribedObject) -> None:
        self.nouns.last = [item.id for item in items]
        for item in items:
            skill, place = self._placing(relation, reference)
            self._say(skill, item.id, place)

    def _placing(self, relation: str, reference: DescribedObject) -> tuple[str, str]:
        """Skill and place for a relation: a zone holds things, an object is stacked on, sides are written out."""
        pushed = self.family == "push"
        if relation in ("in", "on", "to") and reference.role in ("zone", "place"):
            return ("push" if pushed else "place", reference.id)
        if relation == "to" and not pushed:
            raise Refused(
                "unparsable",
                f"where at the {label(reference)}? say on, left of, right of, in front of, behind or next to",
            )
        if relation == "on" and reference.role == "object" and not pushed:
            return ("stack", reference.id)
        side = "near" if relation == "to" else relation
        return ("push" if pushed else "place", f"{side}:{reference.id}")

    def _clear(self) -> None:
        """`clear the table into the tray`: everything that lies on it."""
        surfaces = self._things("touched")
        on = {f.predicate.args for f in self.scene.facts if f.predicate.name in ("on", "in") and f.probability >= 0.5}
        ids = {item.id for item in surfaces}
        items = [o for o in self.scene.objects if o.role == "object" and any((o.id, s) in on for s in ids)]
        items = items or [item for item in surfaces if item.role == "object"]
        if not items:
            raise Refused("unknown_object", f"nothing is known to lie on {self._names(surfaces)}")
        self.family = "put"
        self._put_all(items)

    def _tower(self) -> None:
        """`build a tower: green at the bottom, then red, then blue`."""
        c = self.c
        c.take([":", "of", "with"])
        level = self._things("moved", lists=False)
        if not c.take(_AT_THE_BOTTOM):
            raise Refused(
                "unparsable", "which one is at the bottom? say for instance: a tower: green at the bottom, then red"
            )
        while c.peek(lexicon.SEPARATORS):
            back = c.i
            while c.take(lexicon.SEPARATORS):
                pass
            if not self.nouns.starts():
                c.i = back
                break
            above = self._things("moved", lists=False)
            c.take(_ON_TOP)
            for lower, upper in zip(level, above, strict=False):
                self._say("stack", upper.id, lower.id)
            level = above
        self.family = "stack"

    def _things(self, slot: Slot, lists: bool = True) -> list[DescribedObject]:
        """One noun phrase, or several joined by commas and `and`."""
        phrases = [self._phrase()]
        while lists and (joined := self._joined()):
            self.c.i += joined
            phrases.append(self._phrase())
        found: list[DescribedObject] = []
        for phrase in phrases:
            self.tail = self.nouns.resolve(phrase, slot)
            found += [item for item in self.tail if item not in found]
        if not lists and len(found) != 1:
            raise Refused("ambiguous", f"a tower has one thing on each level, not {self._names(found)}")
        self.nouns.last = [item.id for item in found]
        return found

    def _phrase(self) -> NounPhrase:
        if self.c.done:
            raise Refused("unparsable", "the instruction ends where a thing should be named")
        return self.nouns.read()

    def _joined(self) -> int:
        """Tokens of a comma or `and` after which another noun phrase follows, 0 where there is none."""
        for count, words in ((2, (",", "and")), (1, (",",)), (1, ("and",))):
            if tuple(self.c.word(k) for k in range(count)) == words and self.nouns.starts(count):
                return count
        return 0

    def _point(self) -> str | None:
        """Three numbers with commas between them, as a place."""
        words = [self.c.word(k) for k in range(5)]
        if words[1] != "," or words[3] != ",":
            return None
        try:
            numbers = [float(words[k]) for k in (0, 2, 4)]
        except ValueError:
            return None
        self.c.i += 5
        return ",".join(repr(v) for v in numbers)

    def _reorder(self, items: list[DescribedObject]) -> None:
        """`the red one last`: steps of the clause before that are about the things go to its end, or to its front."""
        last = self.c.word() == "last"
        self.c.i += 1
        ids = {item.id for item in items}
        clause = self.said[self.clause_start :]
        named = [item for item in clause if item.step.args and item.step.args[0] in ids]
        if not named:
            raise Refused(
                "unparsable", f"no step before is about {self._names(items)}, so none can be put last or first"
            )
        rest = [item for item in clause if item not in named]
        self.said[self.clause_start :] = rest + named if last else named + rest

    def _say(self, skill: str, *args: str) -> None:
        self.said.append(_Said(PlanStep(skill, args), self.moment))

    def _check_together(self) -> None:
        """What is asked for at one moment has to be possible at one moment, and nothing forbidden may be asked for."""
        places: dict[tuple[int, str], str] = {}
        for item in self.said:
            step = item.step
            if step.args and step.args[0] in self.forbidden and step.skill in MOVES | {"touch"}:
                thing = self._names([item for item in self.scene.objects if item.id == step.args[0]])
                raise Refused(
                    "contradictory",
                    f"the {thing} is to be left alone and yet to be used: {step.skill}; drop one",
                )
            if step.skill in MOVES and len(step.args) == 2:
                before = places.setdefault((item.moment, step.args[0]), step.args[1])
                if before != step.args[1]:
                    raise Refused(
                        "contradictory",
                        f"{step.args[0]} cannot be at {before} and {step.args[1]}; say 'then' if one comes later",
                    )

    def _any_movable(self) -> bool:
        return any(item.role == "object" for item in self.scene.objects)

    @staticmethod
    def _names(items: list[DescribedObject]) -> str:
        return " and ".join(label(item) for item in items[:6]) or "it"
