"""Noun phrases: how they are read, and which things of the scene they mean. Never guesses between several."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from embodied.planning import lexicon
from embodied.planning.places import listing, quoted
from embodied.planning.words import PUNCTUATION, Cursor, Refused
from embodied.types import DescribedObject, FailureReason, SceneDescription

Slot = Literal["moved", "touched", "target", "goal"]
"""What the phrase stands for: what is moved; touched, reached or turned; where something is put; where a robot goes."""
SIDE_GAP_M = 0.02
MAX_NESTING = 4
"""Phrases within phrases: `the cube closest to the block closest to ...`."""
SIZE_RATIO = 1.1
"""Volumes must differ by so much for one thing to be the small one."""


@dataclass
class NounPhrase:
    """A phrase as read, not yet looked up."""

    words: str = ""
    quantity: str = "the"
    """the, a, all, or a count as a word; `the` also where nothing is said."""
    plural: bool = False
    colours: set[str] = field(default_factory=set)
    not_colours: set[str] = field(default_factory=set)
    noun: str | None = None
    """None: no noun (`the red`), or one that fits everything."""
    size: int = 0
    side: str | None = None
    ident: str | None = None
    pronoun: bool = False
    other: bool = False
    """Without the things mentioned before."""
    bare: bool = True
    """There is no noun: what it means depends on the slot."""
    closest_to: NounPhrase | None = None
    excluded: list[NounPhrase] = field(default_factory=list)


class Nouns:
    """Reads noun phrases at a cursor and looks them up in a scene."""

    def __init__(self, cursor: Cursor, scene: SceneDescription) -> None:
        self.cursor, self.scene = cursor, scene
        self.mentioned: list[str] = []
        self.last: list[str] = []
        """What `it` and `them` mean."""
        self.last_target_noun: str | None = None
        self._depth = 0
        self._ids = {item.id for item in scene.objects if item.id.lower() not in _GRAMMAR | _CONTENT}
        self._names: dict[str, set[str]] = {}
        for item in scene.objects:
            for word in {item.kind, *_split(item.id)}:
                self._names.setdefault(word, set()).add(item.id)

    def starts(self, ahead: int = 0) -> bool:
        """Whether a noun phrase can begin so many tokens ahead."""
        word = self.cursor.word(ahead)
        if word in lexicon.SIDES and self.cursor.word(ahead + 1) == "of":
            return False
        return (
            self._is_content(word)
            or self._ident(ahead) is not None
            or word in lexicon.DEFINITE | lexicon.INDEFINITE | lexicon.UNIVERSAL | lexicon.EVERYTHING | lexicon.PRONOUNS
            or word in lexicon.COUNTS
            or word == "other"
        )

    def read(self) -> NounPhrase:
        """The phrase at the cursor.

        Raises:
            Refused: `unknown_object` or `unparsable`, with the word that is not known.
        """
        c, start = self.cursor, self.cursor.i
        phrase = NounPhrase()
        if c.word() in lexicon.PRONOUNS:
            phrase.pronoun, phrase.words = True, c.word()
            c.i += 1
            return phrase
        if self._depth >= MAX_NESTING:
            c.not_understood()
        self._depth += 1
        self._determiner(phrase)
        start = c.i if c.i < len(c.tokens) else start
        self._adjectives(phrase)
        self._head(phrase, start)
        phrase.words = " ".join(c.tokens[start : c.i])
        self._after(phrase)
        self._depth -= 1
        return phrase

    def _determiner(self, phrase: NounPhrase) -> None:
        c = self.cursor
        if c.take(["one of the", "any of the"]):
            phrase.quantity, phrase.plural = "a", False
            return
        for words, quantity in ((lexicon.UNIVERSAL, "all"), (lexicon.INDEFINITE, "a"), (lexicon.DEFINITE, "the")):
            if c.word() in words:
                phrase.quantity = quantity
                c.i += 1
                c.take(["of the", "the"] if quantity == "all" else [])
                break
        if c.word() in lexicon.COUNTS:
            phrase.quantity = c.word()
            c.i += 1
            c.take(["of the", "the"])

    def _adjectives(self, phrase: NounPhrase) -> None:
        c = self.cursor
        while not c.done:
            word = c.word()
            if word in lexicon.COLOURS:
                phrase.colours.add(lexicon.COLOURS[word])
            elif word in lexicon.SIZES:
                phrase.size = lexicon.SIZES[word]
            elif word in lexicon.SIDES and c.word(1) != "of":
                phrase.side = lexicon.SIDES[word]
            elif word == "other":
                phrase.other = True
            else:
                return
            c.i += 1

    def _head(self, phrase: NounPhrase, start: int) -> None:
        c, word = self.cursor, self.cursor.word()
        ident = self._ident(0)
        if word in lexicon.EVERYTHING:
            phrase.quantity = "all"
        elif ident is not None:
            phrase.ident, phrase.bare = ident, False
        elif self._singular(word) is not None:
            noun = self._singular(word)
            phrase.plural = word != noun
            phrase.noun = None if noun in lexicon.ANYTHING else noun
            phrase.bare = phrase.noun is None
            phrase.noun = self.last_target_noun if noun == "one" and phrase.side is not None else phrase.noun
        else:
            self._no_head(phrase, start)
            return
        c.i += 1
        if phrase.ident is None and self._ident(0) is not None:
            phrase.ident, phrase.bare = self._ident(0), False
            c.i += 1

    def _no_head(self, phrase: NounPhrase, start: int) -> None:
        """`the red` is a phrase; `the banana` names what is not there; `the shiny block` is not understood."""
        c, word = self.cursor, self.cursor.word()
        said = phrase.colours or phrase.side or phrase.size or phrase.other or phrase.quantity not in ("the", "a")
        known = not word or word in PUNCTUATION or word in _GRAMMAR
        if known and said:
            return
        if known or self._is_content(c.word(1)):
            c.not_understood()
        c.i += 1
        name = quoted(" ".join(c.tokens[start : c.i]))
        raise Refused("unknown_object", f"there is no {name} here; there are: {listing(self.scene.objects)}")

    def _after(self, phrase: NounPhrase) -> None:
        """What may follow: `else`, a colour, `that is not red`, `closest to ...`, `on the left`, `except ...`."""
        c = self.cursor
        if phrase.quantity == "all" and c.take(["else"]):
            phrase.other = True
        if c.word() in lexicon.COLOURS:
            phrase.colours.add(lexicon.COLOURS[c.word()])
            c.i += 1
        relative = c.take(lexicon.THAT_IS)
        if relative and c.take(["not"]) and c.word() in lexicon.COLOURS:
            phrase.not_colours.add(lexicon.COLOURS[c.word()])
            c.i += 1
        elif c.word() in lexicon.CLOSEST or (relative and c.word() == "the" and c.word(1) in lexicon.CLOSEST):
            c.i += 2 if c.word() == "the" else 1
            c.take(["to"])
            phrase.closest_to = self.read()
        elif relative and c.word() in lexicon.COLOURS:
            phrase.colours.add(lexicon.COLOURS[c.word()])
            c.i += 1
        elif relative:
            c.not_understood()
        if c.peek(["on the left", "on the right"]) and (
            not c.word(3) or c.word(3) in PUNCTUATION or c.word(3) == "and"
        ):
            phrase.side = c.word(2)
            c.i += 3
        if phrase.quantity == "all":
            self._exceptions(phrase)

    def _exceptions(self, phrase: NounPhrase) -> None:
        c = self.cursor
        found = c.peek(lexicon.EXCEPT)
        if found is None or not self.starts(len(found.split())):
            return
        c.take([found])
        phrase.excluded.append(self.read())
        while c.word() == "and" and self.starts(1):
            c.i += 1
            phrase.excluded.append(self.read())

    def resolve(self, phrase: NounPhrase, slot: Slot, without: Sequence[str] = ()) -> list[DescribedObject]:
        """The things that the phrase means, in the scene's order.

        Args:
            phrase: As read.
            slot: What they are for; only objects can be moved, so a phrase for what is moved prefers them.
            without: Ids that are not meant where the phrase leaves a choice (`an orange one`).

        Raises:
            Refused: `unknown_object` (nothing fits) or `ambiguous` (more fit than the phrase may mean).
        """
        if phrase.pronoun:
            if not self.last:
                raise Refused("ambiguous", f"'{phrase.words}' does not say which thing is meant; name it")
            return [item for item in self.scene.objects if item.id in self.last]
        found = self._matching(phrase, slot)
        if not found:
            raise Refused(
                "unknown_object", f"there is no {quoted(phrase.words)} here; there are: {listing(self.scene.objects)}"
            )
        found = self._chosen(phrase, self._narrowed(phrase, found), without)
        self.mentioned += [item.id for item in found]
        if slot == "target":
            self.last_target_noun = phrase.noun or found[0].kind
        return found

    def _matching(self, phrase: NounPhrase, slot: Slot) -> list[DescribedObject]:
        found = [item for item in self.scene.objects if self._fits(phrase, item)]
        movable = [item for item in found if item.role == "object"]
        if phrase.bare and phrase.quantity not in ("the", "a") and slot != "goal":
            return movable
        if slot == "moved" and movable:
            return movable
        return found

    def _fits(self, phrase: NounPhrase, item: DescribedObject) -> bool:
        named = phrase.noun is None or item.kind == lexicon.KINDS.get(phrase.noun, phrase.noun)
        named = named or item.id in self._names.get(phrase.noun or "", ())
        return (
            named
            and (phrase.ident is None or item.id == phrase.ident)
            and (not phrase.colours or phrase.colours == {item.colour})
            and item.colour not in phrase.not_colours
            and not (phrase.other and item.id in self.mentioned)
        )

    def _narrowed(self, phrase: NounPhrase, found: list[DescribedObject]) -> list[DescribedObject]:
        """Without the excepted ones; the closest, the one on the asked side, the one of the asked size."""
        if phrase.excluded:
            out = {item.id for part in phrase.excluded for item in self.resolve(part, "touched")}
            found = [item for item in found if item.id not in out]
        if phrase.closest_to is not None:
            found = self._closest(phrase.closest_to, found)
        if phrase.side is not None:
            found = self._on_side(phrase, found)
        if phrase.size and len(found) > 1:
            volumes = {item.id: float(np.prod(item.half_extents_m)) * phrase.size for item in found}
            found = _first_by(found, volumes, lambda best, next_: abs(_ratio(best, next_)) >= SIZE_RATIO)
        return found

    def _closest(self, to: NounPhrase, found: list[DescribedObject]) -> list[DescribedObject]:
        others = self.resolve(to, "touched")
        if len(others) != 1:
            raise Refused("ambiguous", f"closest to which of: {listing(others)}?")
        near = np.asarray(others[0].position_m)
        distances = {item.id: -float(np.linalg.norm(np.asarray(item.position_m) - near)) for item in found}
        found = [item for item in found if item is not others[0]]
        return _first_by(found, distances, lambda best, next_: best - next_ >= 0.005)

    def _on_side(self, phrase: NounPhrase, found: list[DescribedObject]) -> list[DescribedObject]:
        sign = 1.0 if phrase.side == "left" else -1.0
        if len(found) == 1:
            opposite = "right" if phrase.side == "left" else "left"
            return [] if opposite in _split(found[0].id) else found
        across = {item.id: sign * float(self.scene.base.to_base(np.asarray(item.position_m))[1]) for item in found}
        return _first_by(found, across, lambda best, next_: best - next_ >= SIDE_GAP_M)

    def _chosen(
        self, phrase: NounPhrase, found: list[DescribedObject], without: Sequence[str]
    ) -> list[DescribedObject]:
        if not found:
            raise Refused(
                "unknown_object", f"there is no {quoted(phrase.words)} here; there are: {listing(self.scene.objects)}"
            )
        if phrase.quantity == "a":
            return [item for item in found if item.id not in without][:1] or found[:1]
        if phrase.quantity in lexicon.COUNTS:
            wanted = lexicon.COUNTS[phrase.quantity]
            if len(found) == wanted:
                return found
            reason: FailureReason = "ambiguous" if len(found) > wanted else "unknown_object"
            raise Refused(
                reason, f"{quoted(phrase.words)} asks for {wanted} things, there are {len(found)}: {listing(found)}"
            )
        if len(found) == 1 or phrase.quantity == "all" or phrase.plural:
            return found
        raise Refused(
            "ambiguous", f"{quoted(phrase.words)} may mean any of: {listing(found)}; say which, for instance by id"
        )

    def _singular(self, word: str) -> str | None:
        """The noun that the word is a form of, None where it is no known noun."""
        if word in lexicon.KINDS or word in lexicon.ANYTHING:
            return word
        if word in lexicon.PLURALS:
            return lexicon.PLURALS[word]
        return word if word in self._names and word not in _GRAMMAR | _CONTENT else None

    def _ident(self, ahead: int) -> str | None:
        place = self.cursor.i + ahead
        token = self.cursor.tokens[place] if place < len(self.cursor.tokens) else ""
        return token if token in self._ids else None

    def _is_content(self, word: str) -> bool:
        adjective = word in lexicon.COLOURS or word in lexicon.SIZES or word in lexicon.SIDES
        return adjective or word in lexicon.EVERYTHING or self._singular(word) is not None


def _words_of(*tables: Iterable[str]) -> frozenset[str]:
    return frozenset(word for table in tables for phrase in table for word in phrase.split())


_GRAMMAR = _words_of(
    lexicon.PREPOSITIONS, lexicon.SEPARATORS, lexicon.COPULAS, lexicon.TRAILERS, lexicon.EXCEPT, lexicon.THAT_IS,
    lexicon.VERBS, lexicon.FILLERS, lexicon.FORBIDDING, lexicon.CLOSEST, ("last", "first", "up", "at", "of", "else"),
) - lexicon.DEFINITE  # fmt: skip
"""Words that end a noun phrase, and that no name in a scene can take the meaning of."""
_CONTENT = _words_of(
    lexicon.COLOURS, lexicon.KINDS, lexicon.PLURALS, lexicon.ANYTHING, lexicon.SIZES, lexicon.SIDES, lexicon.DEFINITE,
    lexicon.INDEFINITE, lexicon.UNIVERSAL, lexicon.EVERYTHING, lexicon.PRONOUNS, lexicon.COUNTS, ("other",),
)  # fmt: skip


def _split(ident: str) -> set[str]:
    """The words of an id: `left_tray` -> left, tray."""
    for mark in "-.":
        ident = ident.replace(mark, "_")
    return {part.lower() for part in ident.split("_") if part and not part.isdigit()}


def _ratio(best: float, next_: float) -> float:
    """Larger volume over smaller; both carry the sign of the size asked for."""
    small, large = sorted((abs(best), abs(next_)))
    return large / max(small, 1e-12)


def _first_by(
    found: list[DescribedObject], key: dict[str, float], clear: Callable[[float, float], bool]
) -> list[DescribedObject]:
    """The one with the greatest key where it is clearly ahead of the next, else those that compete for it."""
    ranked = sorted(found, key=lambda item: -key[item.id])
    if len(ranked) < 2 or clear(key[ranked[0].id], key[ranked[1].id]):
        return ranked[:1]
    best = key[ranked[0].id]
    return [item for item in found if not clear(best, key[item.id])]
