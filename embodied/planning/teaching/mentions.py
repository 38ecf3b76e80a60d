"""Ways to speak of a thing, with their parse."""

from __future__ import annotations

import random
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from embodied.planning.teaching.markup import Fragment, Word, expand, plain_words
from embodied.planning.teaching.wordings import Language, Wordings, plural, wordings

MAX_DEPTH = 2
PLURAL = frozenset({"universal", "everything", "except", "rest"})
NESTED = frozenset({"nearest", "related", "except"})
"""Ways that speak of several things, and those that speak of another one on the way."""
Made = tuple[list[Word], Word]
"""Words of a phrase, and its head."""
TAKEN_BACK = ("simple", "bare", "side")
"""Ways to speak of a thing that may follow upon a wrong one: `the red, no, the blue block`."""
MANY = ("universal", "everything", "except")
"""Ways to speak of all of a kind."""
LEAST_FOR_HOLDING_OUT = 6
"""Templates of a kind, below which none is held out."""


def is_held_out(template: str) -> bool:
    """Whether a template is kept from the fit: about one in twelve, by its letters alone."""
    return zlib.crc32(template.encode()) % 12 == 5


@dataclass(frozen=True)
class Thing:
    """What the speaker sees."""

    id: str
    role: str
    kind: str
    colour: str


@dataclass
class Speaker:
    """Speaks of the things of one scene in one language, in one manner."""

    rng: random.Random
    language: Language
    things: Sequence[Thing]
    articles: bool = True
    mentioned: bool = False
    """Something was spoken of, so that there may be pronouns."""
    held_out: bool | None = False
    """True: uses templates that the fit does not see; False: only those that it does; None: all alike."""
    new: bool = False
    """A template was used that the fit does not see."""
    spared: bool = False
    """Something is said to be left alone, so that it is likely that the rest is spoken of."""
    parallel: dict[str, str] | None = None
    """Templates of clauses that are to be alike, by kind; None: each is drawn anew."""
    relate: Callable[[str, int], Fragment] | None = None
    """A relation's words with the thing that it is to, by name and depth; given by who makes clauses."""
    spoken: list[Thing] = field(default_factory=list)
    """What was spoken of, in order."""
    told: Wordings = field(init=False)

    def __post_init__(self) -> None:
        self.told = wordings(self.language)

    def chance(self, p: float) -> bool:
        return self.rng.random() < p

    def pick(self, items: Sequence[str]) -> str:
        return self.rng.choice(items)

    def template(self, section: str, name: str) -> str:
        """A template of a kind; while `parallel`, that which was used for it before."""
        if self.parallel is None or section != "clauses":
            return self._template(section, name)
        if name not in self.parallel:
            self.parallel[name] = self._template(section, name)
        return self.parallel[name]

    def _template(self, section: str, name: str) -> str:
        every = self.told.all(section, name)
        if self.held_out is None:
            return self.pick(every)
        hidden = [text for text in every if is_held_out(text)] if len(every) >= LEAST_FOR_HOLDING_OUT else []
        if self.held_out and hidden and self.chance(0.5):
            self.new = True
            return self.pick(hidden)
        return self.pick([text for text in every if text not in hidden])

    def of_role(self, slot: str) -> Thing:
        """A thing that fits the slot: moved, touched, zone, under (what is stacked on), goal, beside."""
        roles = {
            "moved": ("object",), "touched": ("object", "object", "zone", "landmark"), "zone": ("zone",),
            "under": ("object", "object", "object", "zone", "zone", "landmark"), "goal": ("landmark",),
            "beside": ("object", "object", "zone"), "any": ("object", "zone", "landmark"),
        }[slot]  # fmt: skip
        role = self.rng.choice(roles)
        fitting = [t for t in self.things if t.role == role] or list(self.things)
        others = [t for t in fitting if t not in self.spoken[-2:]]
        chosen = self.rng.choice(others if others and self.chance(0.85) else fitting)
        self.spoken.append(chosen)
        return chosen

    def span(self, text: str, label: str) -> tuple[list[Word], Word]:
        """The words of a name, each but the last a part of the next."""
        words = [Word(part, label) for part in text.split()]
        for word, after in zip(words, words[1:], strict=False):
            word.arc, word.head = "part", after
        return words, words[-1]

    def colour_word(self, thing: Thing) -> str:
        names = self.told.colours
        colour = thing.colour if thing.colour in names and not self.chance(0.03) else self.rng.choice(list(names))
        words = names[colour]
        if self.chance(0.55):
            return words[0]
        return self.pick(words)

    def noun_word(self, thing: Thing, many: bool = False) -> str:
        kinds = self.told.kinds
        if self.chance(0.035):
            noun = self.pick(self.told.unknown["nouns"])
        elif self.chance(0.04):
            noun = self.pick(self.told.any_nouns["thing"])
        elif thing.role in ("zone", "landmark") and self.chance(0.05):
            noun = self.pick(self.told.any_nouns[thing.role])
        elif thing.kind in kinds:
            noun = kinds[thing.kind][0] if self.chance(0.5) else self.pick(kinds[thing.kind])
        else:
            noun = self.pick(kinds["block"])
        if many and self.language == "en":
            head, last = noun.rsplit(" ", 1) if " " in noun else ("", noun)
            noun = f"{head} {plural(last)}".strip()
        return noun

    def mention(self, slot: str, depth: int = 0, single: bool = False) -> Fragment:
        """One phrase; `single`: that stands for one thing."""
        return self._phrase(slot, depth, single, ())

    def many(self, slot: str) -> Fragment:
        """A phrase for all of a kind, or a list."""
        if self.chance(0.25):
            return self.listed(slot, 0)
        return self._phrase(slot, 1, False, MANY)

    def in_ways(self, slot: str, depth: int, ways: Sequence[str]) -> Fragment:
        """One phrase for one thing, in one of these ways."""
        return self._phrase(slot, depth, True, ways)

    def _phrase(self, slot: str, depth: int, single: bool, ways: Sequence[str]) -> Fragment:
        """A noun phrase for a slot; only in these ways, where some are given."""
        from embodied.planning.teaching import phrases_en, phrases_zh

        told = phrases_en if self.language == "en" else phrases_zh
        weights = {
            name: weight * (0.2 if depth and name in NESTED else 1)
            for name, weight in told.WEIGHTS.items()
            if (not ways or name in ways)
            and not (single and name in PLURAL)
            and not (depth >= MAX_DEPTH and name in NESTED)
            and not (name in ("pronoun", "other", "rest") and not self.mentioned)
            and not (name in PLURAL and slot in ("zone", "under", "beside"))
        }
        kind = self.rng.choices(list(weights), list(weights.values()))[0]
        if self.spared and self.mentioned and "rest" in weights and not depth and self.chance(0.3):
            kind = "rest"
        words, head = told.MAKERS[kind](self, self.of_role(slot), depth, slot)
        attribute(head, words)
        if not depth and kind in TAKEN_BACK and self.chance(0.012):
            wrong, _ = told.MAKERS[self.pick(TAKEN_BACK)](self, self.of_role(slot), MAX_DEPTH, slot)
            words = taken_back(self, wrong) + words
        self.mentioned = True
        return Fragment(words, [head])

    def mentions(self, slot: str, depth: int = 0) -> Fragment:
        """One phrase or a list of them."""
        return self.listed(slot, depth) if self.chance(0.16) else self.mention(slot, depth)

    def listed(self, slot: str, depth: int) -> Fragment:
        """Two phrases or three."""
        whole = Fragment()
        either = self.chance(0.1)
        count = 2 if self.chance(0.7) else 3
        if self.language == "en" and count == 2 and self.chance(0.12):
            whole.words.append(Word("both"))
        for place in range(count):
            if place:
                whole.words += [Word(w) for w in self.joint(place == count - 1, either)]
            part = self.mention(slot, max(depth, 1), single=True)
            whole.words += part.words
            whole.heads += part.heads
        return whole

    def joint(self, last: bool, either: bool = False) -> list[str]:
        """What stands between the parts of a list; `either`: of things of which one will do."""
        if either and last:
            return [self.pick(["or", "or else"] if self.language == "en" else ["或", "或者", "或是"])][0].split()
        if self.language == "zh":
            return [self.pick(["和", "与", "跟", "、", "以及", ","] if last else ["、", ","])]
        return self.pick(["and", ", and", "and also", "plus", "and then", "as well as", ","] if last else [","]).split()


def taken_back(by: Speaker, wrong: Sequence[Word]) -> list[Word]:
    """Words that are said and taken back: they mean nothing."""
    made: list[Word] = []
    for item in expand(by.pick(by.told.data["corrections"]["slips"]), by.rng):
        if item == "<W>":
            made += [Word(word.text) for word in wrong]
        elif item != "<T>":
            made.append(Word(item))
    return made


def not_but_other(by: Speaker, slot: str, depth: int) -> Made:
    """`not the red one, the other one`."""
    words: list[Word] = []
    out: Fragment | None = None
    for item in expand(by.pick(by.told.data["mentions"]["other_than"]), by.rng):
        if item == "<X>":
            out = by.mention(slot, max(depth, 1), single=True)
            words += out.words
        else:
            words += plain_words([item])
    marked = [word for word in words if word.label in ("n", "other") and not word.arc and word not in _own(out)]
    head = marked[-1]
    if out is not None:
        out.hang("except", head)
    return words, head


def _own(part: Fragment | None) -> list[Word]:
    return [] if part is None else part.words


def attribute(head: Word, words: list[Word]) -> None:
    """Hangs on the head what hangs nowhere yet and says something."""
    for word in words:
        if word is not head and word.label != "nil" and not word.arc:
            word.arc, word.head = "attr", head
