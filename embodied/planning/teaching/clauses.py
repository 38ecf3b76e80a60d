"""Clauses with their parse: verbs, relations, towers, conditions, and what is said instead of an instruction."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from embodied.planning.parser.grammar import ATTRIBUTES, FACTS, HEADS, MANNERS, MARKS, RELATIONS, VERBS
from embodied.planning.teaching.markup import Fragment, Word, expand, plain_words, split_mark
from embodied.planning.teaching.mentions import Speaker, attribute, taken_back
from embodied.planning.teaching.wordings import inflected

_SLOT = re.compile(r"<([A-Za-z0-9_]+)(?::([^>.]+))?(?:\.(\w+))?>")
_GROUND_SLOT = {
    "in": "zone", "on": "under", "to": "zone", "left": "beside", "right": "beside", "front": "beside",
    "behind": "beside", "near": "beside", "between": "beside", "away": "beside",
}  # fmt: skip
_RELATION_WEIGHTS = {
    "in": 34, "on": 20, "to": 9, "left": 8, "right": 8, "front": 6, "behind": 6, "near": 10, "between": 1, "away": 1,
}  # fmt: skip
_CLAUSE_WEIGHTS = {
    "place": 36, "goal": 13, "holds": 3, "fill": 3, "off": 3, "from": 2, "together": 2, "curt": 4, "touch": 9,
    "reach": 2, "pick": 4, "order_each": 3, "bare_order_touch": 1.5, "tower": 6, "tower_set": 1, "uncover": 2,
    "swap": 1.5, "hold": 0.7, "sided": 1.5, "disloc": 3, "only": 1, "one_each": 1.5, "inverse": 0.7,
}  # fmt: skip
_GERUND = frozenset(["place", "fill", "off", "from", "touch", "reach", "pick", "go", "swap", "uncover", "avoid"])
"""Clauses whose verb comes first, so that they can be put into other forms."""
_ODD_WORDS = (
    "purple", "monkey", "dishwasher", "banana", "seven", "loudly", "under", "quark", "the", "of", "wobble", "happy",
    "Tuesday",
)  # fmt: skip
_CLAUSE_MARKS = frozenset(MARKS)


@dataclass
class Clauses:
    """Makes clauses in one speaker's words."""

    by: Speaker

    def __post_init__(self) -> None:
        self.by.relate = lambda name, depth: self.relation(name, depth, single=True)

    def relation(self, name: str, depth: int = 0, single: bool = True, slot: str = "") -> Fragment:
        """A relation's words with its grounds; its head is the relation."""
        template = self.by.template("relations", name)
        made = Fragment()
        if self.by.chance(0.1):
            made.words += plain_words(expand(self.by.pick(self.by.told.data["noise"]["relation"]), self.by.rng))
        for item in expand(template, self.by.rng):
            if item == "<G>":
                ground = self.by.mention(slot or _GROUND_SLOT[name], depth, single=True)
                made.words += ground.words
                made.heads += ground.heads
            else:
                word, label, _ = split_mark(item)
                made.words.append(Word(word, label or "nil"))
        head = next(word for word in made.words if word.label == f"r_{name}" and not word.arc)
        made.hang("ground", head)
        made.heads = [head]
        return made

    def clause(self, going: bool, form: str = "", kinds: tuple[str, ...] = (), alone: bool = False) -> Fragment:
        """A clause of any kind; `going`: for a robot that drives; `alone`: it is the whole text."""
        by = self.by
        if kinds:
            kind = by.pick(kinds)
        elif going:
            # A robot that drives has no things to move.
            kind = by.rng.choices(
                ["go", "hold", "order_each", "bare_order"] if not form else ["go"], [30, 1, 4, 4] if not form else [1]
            )[0]
        else:
            fitting = {k: w for k, w in _CLAUSE_WEIGHTS.items() if not form or by.language == "zh" or k in _GERUND}
            fitting = {k: w for k, w in fitting.items() if by.told.all("clauses", k)}
            if not alone:
                fitting.pop("curt", None)
            kind = by.rng.choices(list(fitting), list(fitting.values()))[0]
        template = by.template("clauses", kind)
        while kind == "order_each" and ("<go>" in template) != going:
            template = by.template("clauses", kind)
        return self.build(template, form, "goal" if going else "")

    def again(self, going: bool = False, later: bool = False) -> Fragment:
        """A clause that says the last one again of another thing: `the green one too`; `later`: it is said to follow,
        and needs no more words for it."""
        by = self.by
        kind = "again" if by.chance(0.35) else "ellipsis_then" if later and by.chance(0.6) else "ellipsis"
        if kind != "again" and going and by.chance(0.7):
            kind = "ellipsis_go"
        return self.build(by.template("clauses", kind))

    def build(self, template: str, form: str = "", slot: str = "") -> Fragment:
        """A template's words, with everything but the clause's head hung up."""
        words: list[Word] = []
        slots: list[tuple[str, Fragment]] = []
        marks: list[tuple[Word, str]] = []
        several = template.count("<T>") == 1
        for item in expand(template, self.by.rng):
            match = _SLOT.fullmatch(item)
            if match is not None and match[1].isdigit():
                slots.append((match[1], self.by.mention(slot or "touched", 1, single=True)))
                words += slots[-1][1].words
                continue
            if match is None:
                word, label, target = split_mark(item)
                words.append(Word(word, label or "nil"))
                marks += [(words[-1], target)] if target else []
                continue
            name, about, own = match[1], match[2] or "", match[3] or form
            made = self._slot(name, about, own, slot, several)
            words += made.words
            if name in _ROLES:
                slots.append((name, made))
            elif name in ("R", "Ron"):
                slots.append(("R", made))
        for mark, target in marks:
            mark.arc, mark.head = _mark_arc(mark), dict(slots)[target].heads[0]
        return _tied(words, slots)

    def _slot(self, name: str, about: str, form: str, slot: str, several: bool) -> Fragment:
        by = self.by
        if name == "fill":
            word, label, _ = split_mark(about)
            return Fragment([Word(inflected(word, form) if by.language == "en" else word, label)])
        if name in by.told.data["verbs"]:
            return Fragment(self._verb(name, form))
        if name == "T":
            target = slot or ("touched" if by.chance(0.12) else "moved")
            return by.mentions(target) if several else by.mention(target, single=True)
        if name == "U":
            return by.many(slot or "moved")
        if name == "M":
            return by.mention(slot or "moved", 1, single=True)
        if name in ("G", "Gbare"):
            return by.mention(slot or by.rng.choice(["zone", "zone", "under", "beside"]), single=True)
        if name == "S":
            return by.mention("any", single=True)
        if name == "L":
            return self.levels()
        if name == "R":
            return self._some_relation(slot)
        if name in _OTHER_SLOTS:
            return _OTHER_SLOTS[name](by)
        if name == "WR":
            made = self.relation(by.pick(["in", "in", "on", "left", "right"]), 2)
            return Fragment([Word(word.text) for word in made.words])
        if name == "Ron":
            return self.relation("on")
        if name == "COL":
            return Fragment([Word(w) for w in by.colour_word(by.of_role("moved")).split()])
        if name == "K":
            return Fragment([Word(w) for w in by.noun_word(by.of_role("moved"), many=True).split()])
        if name == "Q":
            return Fragment([Word(_gibberish(by))])
        raise ValueError(f"no slot is called {name}")

    def _some_relation(self, slot: str) -> Fragment:
        """A relation; now and then with another one before it that is taken back."""
        names, weights = list(_RELATION_WEIGHTS), list(_RELATION_WEIGHTS.values())
        made = self.relation(self.by.rng.choices(names, weights)[0], slot=slot)
        if self.by.chance(0.015):
            wrong = self.relation(self.by.rng.choices(names, weights)[0], 2, slot=slot)
            made.words = taken_back(self.by, wrong.words) + made.words
        return made

    def _verb(self, family: str, form: str) -> list[Word]:
        by = self.by
        items = expand(by.pick(by.told.data["verbs"][family]), by.rng)
        words = plain_words(items)
        if by.language == "en" and form:
            words[0].text = inflected(words[0].text, form)
        if not any(word.label != "nil" for word in words) and family != "hurt":
            words[0].label = f"v_{family}"
        if family == "hurt":
            words[0].label = "v_touch"
        return words

    def levels(self) -> Fragment:
        """The things of a tower with what is said of their order."""
        by = self.by
        template = by.template("levels", "up" if by.chance(0.65) else "down")
        words: list[Word] = []
        heads: dict[str, Word] = {}
        marks: list[tuple[Word, str]] = []
        for item in expand(template, by.rng):
            if item[0] == "<" and item[1:-1].isdigit():
                part = by.mention("moved", 1, single=True)
                heads[item[1:-1]] = part.heads[0]
                words += part.words
                continue
            word, label, target = split_mark(item)
            words.append(Word(word, label or "nil"))
            if target:
                marks.append((words[-1], target))
        for mark, target in marks:
            mark.arc, mark.head = "mark", heads[target]
        return Fragment(words, list(heads.values()))

    def fact(self) -> Fragment:
        """What a condition says; its head hangs nowhere yet."""
        return self.build(self.by.template("conditions", "facts"), slot="any" if self.by.chance(0.2) else "")


def _mark_arc(mark: Word) -> str:
    return "attr" if mark.label in ATTRIBUTES else "mark"


def _side(by: Speaker) -> Fragment:
    """`the left`, of places."""
    side = by.rng.choices(["left", "right", "middle", "front", "back"], [10, 10, 1, 1, 1])[0]
    words = plain_words(expand(by.pick(by.told.data["mentions"][f"side_{side}"]), by.rng))
    return Fragment(words, [word for word in words if word.label == f"s_{side}"])


def _any(by: Speaker) -> Fragment:
    """`a red block`, `one of the blocks`."""
    return by.in_ways("moved", 1, ("any",))


def _one_kind(slot: str) -> Callable[[Speaker], Fragment]:
    """A noun alone, of which each is meant: `per tray`."""

    def made(by: Speaker) -> Fragment:
        noun, head = by.span(by.noun_word(by.of_role(slot)), "ns")
        return Fragment(noun, [head])

    return made


def _kind_with(lead: str, slot: str, many: str = "") -> Callable[[Speaker], Fragment]:
    """Phrases of a noun behind words of `mentions`: `a block`, `each tray`; with `many` now and then of several."""

    def made(by: Speaker) -> Fragment:
        several = by.language == "en" and bool(many) and by.chance(0.35)
        words = plain_words(expand(by.pick(by.told.data["mentions"][many if several else lead]), by.rng))
        noun, head = by.span(by.noun_word(by.of_role(slot), several), "ns" if several else "n")
        attribute(head, words)
        return Fragment(words + noun, [head])

    return made


_OTHER_SLOTS: dict[str, Callable[[Speaker], Fragment]] = {
    "Gside": _side, "one": _any, "each": _kind_with("each", "zone", "over"),
    "each1": _one_kind("zone"), "over": _kind_with("over_one", "zone", "over"),
    "Uall": _kind_with("each", "moved", "over"),
}  # fmt: skip
_ROLES = {
    "T": "theme", "U": "theme", "M": "theme", "L": "theme", "one": "theme", "Uall": "theme", "G": "ground",
    "Gbare": "ground", "Gside": "ground", "each": "ground", "each1": "ground", "over": "ground", "S": "source",
}  # fmt: skip
"""Slots whose words hang on the clause's head, and by which arc."""


def _tied(words: list[Word], slots: list[tuple[str, Fragment]]) -> Fragment:
    """Finds the clause's head and hangs everything else on it."""
    own = [word for word in words if not word.arc and not _within(word, slots)]
    relation = [part.heads[0] for name, part in slots if name == "R"]
    heads = relation + [w for w in own if w.label in RELATIONS] + [w for w in own if w.label in FACTS]
    heads += [w for w in own if w.label in VERBS]
    head = heads[0] if heads else None
    for name, part in slots:
        if name == "R":
            continue
        if head is None:
            curt = len(slots) > 1 and not name.isdigit()
            part.hang("ground" if name == "Gbare" else "theme" if curt else "again", None)
        elif name.isdigit():
            part.hang("theme", head)
        else:
            part.hang(_ROLES[name], head)
    found = [word for _, part in slots for word in part.heads]
    if head is None:
        return Fragment(words, found)
    for word in own:
        if word is head or word.arc or word.label == "nil":
            continue
        if word.label in MANNERS and head.label in RELATIONS:
            word.arc, word.head = "man", head
        elif word.label in _CLAUSE_MARKS or word.label == "view":
            word.arc, word.head = "mark", head
        elif word.label in (*ATTRIBUTES, *HEADS):
            word.arc, word.head = "theme", head
        else:
            word.label = "nil"
    return Fragment(words, [head])


def _within(word: Word, slots: list[tuple[str, Fragment]]) -> bool:
    return any(word is other for _, part in slots for other in part.words)


def _gibberish(by: Speaker) -> str:
    if by.language == "zh":
        return by.pick(["龘", "囧", "槑", "嘟", "啪", "嗡", "咻", "哔", "咚", "喵", "汪", "哞", "咕", "叽", "嘎"])
    if by.chance(0.3):
        return by.pick(_ODD_WORDS)
    vowels, others = "aeiou", "bcdfghjklmnpqrstvwxz"
    return "".join(by.pick(others) + by.pick(vowels) for _ in range(by.rng.randint(1, 3))) + by.pick(others)
