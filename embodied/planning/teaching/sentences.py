"""Whole taught sentences: clauses joined, wrapped in manners of speaking, and written down with their parse."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from embodied.planning.parser.grammar import CONDITIONS, RELATIONS, VERBS
from embodied.planning.parser.tokens import Token, plain, tokenize
from embodied.planning.teaching.clauses import Clauses
from embodied.planning.teaching.markup import Fragment, Word, expand, plain_words, split_mark
from embodied.planning.teaching.mentions import Speaker, Thing
from embodied.planning.teaching.noise import chatter, noised
from embodied.planning.teaching.wordings import Language, han_words, lexicon

_TIGHT = frozenset(",.;:!?")
_ALIKE = {"goal": 5, "place": 5, "sided": 3, "curt": 4, "touch": 2, "holds": 2, "disloc": 1, "go": 0}
"""Kinds of clauses that follow upon each other in one form."""
_CLAUSE_LABELS = frozenset((*VERBS, *RELATIONS))


@dataclass(frozen=True)
class Taught:
    """A sentence and its parse, token by token."""

    text: str
    tokens: tuple[Token, ...]
    labels: tuple[str, ...]
    arcs: tuple[str, ...]
    """Empty where a token says nothing."""
    heads: tuple[int, ...]
    """Index of a token, -1 for the root and where a token says nothing."""
    kind: str
    language: Language


class Teacher:
    """Draws taught sentences.

    Args:
        rng: The only source of chance.
        held_out: True: sentences with templates that the fit does not see, one at least in each; None: all templates.
    """

    def __init__(self, rng: random.Random, held_out: bool | None = False) -> None:
        self.rng, self.held_out = rng, held_out

    def sentence(self, things: Sequence[Thing], language: Language) -> Taught | None:
        """A sentence about the things; None where its words cannot be told apart in the text."""
        rng = self.rng
        by = Speaker(rng, language, things, articles=rng.random() > 0.12, held_out=self.held_out)
        made, kind = self._made(by)
        if self.held_out and not by.new:
            return None
        ids = {thing.id for thing in things} - lexicon()
        if kind == "instruction" or by.chance(0.3):
            made = noised(by, made)
        text, places = _written(made.words, language, rng)
        return _projected(text, places, kind, language, ids)

    def _made(self, by: Speaker) -> tuple[Fragment, str]:
        going = not any(thing.role == "object" for thing in by.things)
        clauses = Clauses(by)
        if by.chance(0.075):
            kind = by.rng.choices(["question", "statement", "nonsense", "unsupported"], [5, 4, 4, 5])[0]
            made = clauses.build(by.template("refused", kind))
            if kind == "unsupported":
                if by.chance(0.25):
                    other = clauses.clause(going)
                    made = Fragment(
                        [*other.words, Word("and" if by.language == "en" else ","), *made.words],
                        other.heads + made.heads,
                    )
                _rooted(made)
                return _wrapped(by, made), "instruction"
            for word in made.words:
                word.label, word.arc, word.head = "nil", "", None
            if kind == "statement" and by.chance(0.35):
                return Fragment(chatter(by) + ([Word("."), *chatter(by)] if by.chance(0.3) else [])), kind
            lead = expand(by.template("wrap", "before"), by.rng) if by.chance(0.15) and kind != "statement" else []
            return Fragment(plain_words(lead) + made.words), kind
        made = _Composer(by, clauses, going).text()
        _rooted(made)
        return _wrapped(by, made), "instruction"


@dataclass
class _Composer:
    """Joins clauses to a text."""

    by: Speaker
    clauses: Clauses
    going: bool

    def text(self) -> Fragment:
        count = self.by.rng.choices([1, 2, 3, 4], [50, 38, 9, 3])[0]
        made = self.joined() if count > 1 else self.single()
        for _ in range(count - 2):
            made = self._join(self.by.rng.choices(["and", "then"], [1, 1])[0], made)
        return made

    def single(self) -> Fragment:
        if self.by.chance(0.04) and not self.going:
            return self._join("forbid_only", None)
        return self.clauses.clause(self.going, alone=True)

    def joined(self) -> Fragment:
        kinds = ["and", "then", "before", "after", "forbid", "avoid", "stays", "if", "take", "forbid_place"]
        kinds += ["gap", "parallel", "only"]
        weights = [16, 25, 13, 10, 10, 6, 6, 11, 9, 5, 9, 9, 3.5]
        if self.going:
            weights = [22, 34, 16, 10, 5, 5, 2, 7, 0, 0, 0, 4, 0]
        kind = self.by.rng.choices(kinds, weights)[0]
        return self._alike() if kind == "parallel" else self._join(kind, None)

    def _alike(self) -> Fragment:
        """Two clauses or three of one form: `red goes left, blue goes right`."""
        by = self.by
        kind = "go" if self.going else by.rng.choices(list(_ALIKE), list(_ALIKE.values()))[0]
        by.parallel = {}
        made = self.clauses.clause(self.going, "", (kind,))
        for _ in range(1 if by.chance(0.8) else 2):
            made = self._join("gap", made, kind)
        by.parallel = None
        return made

    def _join(self, kind: str, made: Fragment | None, alike: str = "") -> Fragment:
        template = self.by.template("joins", kind)
        self.by.spared = kind in ("forbid", "avoid", "stays")
        words: list[Word] = []
        parts: dict[str, Fragment] = {}
        marks: list[tuple[Word, str]] = []
        subs: list[tuple[str, str]] = []
        proper = kind in ("before", "after")
        for item in expand(template, self.by.rng):
            if item.startswith("<"):
                slot, form, above = _read_slot(item)
                part = made if slot == "A" and made is not None else self._part(slot, form, alike or kind, proper)
                parts[slot] = part
                words += part.words
                if above:
                    subs.append((slot, above))
                continue
            word, label, target = split_mark(item)
            words.append(Word(word, label or "nil"))
            if target:
                marks.append((words[-1], target))
        self.by.spared = False
        return self._tied(words, parts, marks, subs)

    def _tied(
        self, words: list[Word], parts: dict[str, Fragment], marks: list[tuple[Word, str]], subs: list[tuple[str, str]]
    ) -> Fragment:
        for mark, target in marks:
            mark.arc = "guard" if mark.label in CONDITIONS else "mark"
            mark.head = parts[target].heads[-1 if target == "A" and mark.label == "o_last" else 0]
        for below, above in subs:
            parts[below].hang("sub", parts[above].heads[0])
        condition = next((mark for mark, _ in marks if mark.label in ("c_if", "c_unless")), None)
        heads: list[Word] = []
        for slot, part in parts.items():
            if slot in ("C", "C0"):
                part.hang("cond", condition)
            else:
                heads += part.heads
        return Fragment(words, heads)

    def _part(self, slot: str, form: str, kind: str, proper: bool) -> Fragment:
        by, clauses = self.by, self.clauses
        if kind in _ALIKE or kind == "gap":
            kinds = (kind,) if kind in _ALIKE else ("gap",) if slot == "B" else ("place", "place", "goal", "sided")
            return clauses.clause(self.going, form, kinds)
        if slot in ("C", "C0"):
            return clauses.fact()
        if kind == "if" and slot in ("A", "B") and not self.going and by.chance(0.3):
            return clauses.clause(False, form, ("place_it",))
        if kind == "only" and slot == "O":
            return clauses.clause(self.going, form, ("only_move",))
        if slot == "P":
            return clauses.clause(False, form, ("taken",))
        if slot == "O":
            return clauses.clause(False, form, ("place_it",))
        if slot == "Z":
            return clauses.clause(self.going, form, ("go",) if self.going else ("state",))
        if slot == "X":
            return clauses.clause(False, form, ("place",))
        if slot == "N":
            return clauses.build("<hurt> <T>", form, "touched")
        if slot == "V":
            return clauses.clause(self.going, form, ("avoid",))
        if slot == "Y":
            return clauses.clause(self.going, "", ("stays",))
        if slot == "B" and not proper and not form and by.chance(0.2):
            made = clauses.again(self.going, kind == "then")
            if made.heads and (made.heads[0].label in _CLAUSE_LABELS or kind != "if"):
                return made
            return clauses.clause(self.going)
        if proper:
            made = clauses.clause(self.going, form)
            while len(made.heads) != 1 or made.heads[0].label not in _CLAUSE_LABELS:
                made = clauses.clause(self.going, form)
            return made
        return clauses.clause(self.going, form)


def _read_slot(item: str) -> tuple[str, str, str]:
    """`<B.ing<A>`: (B, ing, A)."""
    inner, _, above = item[1:-1].partition("<")
    slot, _, form = inner.partition(".")
    return slot, form, above


def _rooted(made: Fragment) -> None:
    for word in made.heads:
        if not word.arc:
            word.arc = "root" if word.label in _CLAUSE_LABELS else "again"


def _wrapped(by: Speaker, made: Fragment) -> Fragment:
    """With politeness, reasons and other words that change nothing; with something taken back."""
    wrap: Callable[[str], list[Word]] = lambda name: plain_words(expand(by.template("wrap", name), by.rng))  # noqa: E731
    words = made.words
    if by.chance(0.35):
        words = wrap("before") + words
        if by.chance(0.15):
            words = wrap("before") + words
    if by.chance(0.04):
        words = wrap("harmless") * 0 + words + wrap("harmless")
    if by.chance(0.02):
        seen = wrap("own_views" if by.chance(0.4) else "views")
        for word in seen:
            word.arc, word.head = ("mark", made.heads[0]) if word.label == "view" else ("", None)
        words = seen + [Word(",")] + words if by.chance(0.3) else words + seen
    if by.chance(0.06):
        words = words + wrap("reasons")
    if by.chance(0.25):
        words = words + wrap("after")
    if by.chance(0.04):
        words = wrap("asides") + words
    if by.chance(0.05) and by.language == "en":
        place = by.rng.randrange(len(words) + 1)
        words = (
            words[:place]
            + [Word(by.pick(["um", "uh", "er", "like", "you know", "well", "uhm"]).split()[0])]
            + words[place:]
        )
    if by.chance(0.04):
        words = _corrected(by, words)
    return Fragment(words, made.heads)


def _corrected(by: Speaker, words: list[Word]) -> list[Word]:
    """A colour said wrongly and put right: `the red, no, the blue block`."""
    places = [i for i, word in enumerate(words) if word.label == "col" and word.arc != "part"]
    if not places:
        return words
    i = by.rng.choice(places)
    wrong = plain_words(by.colour_word(by.of_role("moved")).split())
    item = by.pick(by.told.data["corrections"]["slips"])
    made: list[Word] = []
    for part in expand(item, by.rng):
        made += wrong if part == "<W>" else [] if part == "<T>" else [Word(part)]
    article = [Word("the")] if by.language == "en" and by.chance(0.3) else []
    return words[:i] + made + article + words[i:]


def _written(words: list[Word], language: Language, rng: random.Random) -> tuple[str, list[tuple[Word, int, int]]]:
    """The text, and where each word stands in it."""
    dictated, shout = rng.random() < 0.16, rng.random() < 0.03
    capital = rng.random() < 0.6
    text, places = "", []
    for word in words:
        piece = word.text
        if dictated and piece in _TIGHT and word.label == "nil":
            continue
        space = language == "en" and text and piece not in _TIGHT and not piece.startswith("'")
        if piece == "n't":
            space = False
        text += " " if space else ""
        if capital and language == "en" and (not text or text.rstrip()[-1:] in (".", "!", "?")):
            piece = piece[:1].upper() + piece[1:] if word.label != "id" else piece
        start = len(text)
        text += piece.upper() if shout and word.label != "id" else piece
        places.append((word, start, len(text)))
    if not dictated and language == "en" and rng.random() < 0.5 and text[-1:] not in _TIGHT:
        text += "."
    if language == "zh":
        wide = str.maketrans({",": "\uff0c", ".": "\u3002", "?": "\uff1f"})
        text = "".join(c.translate(wide) if rng.random() < 0.9 else c for c in text)
    return text, places


def _projected(
    text: str, places: list[tuple[Word, int, int]], kind: str, language: Language, ids: set[str]
) -> Taught | None:
    """The parse of the words as a parse of the tokens that the text is read as."""
    tokens = tokenize(plain(text), han_words(), ids)
    told = [place for place in places if place[0].label != "nil"]
    of_token: list[Word | None] = [None] * len(tokens)
    last: dict[int, int] = {}
    for word, start, end in told:
        for i, token in enumerate(tokens):
            if token.start < end and token.end > start:
                if of_token[i] is not None:
                    return None
                of_token[i] = word
                last[id(word)] = i
    labels = tuple("nil" if word is None else word.label for word in of_token)
    hung = [_hung(i, word, last) for i, word in enumerate(of_token)]
    found = [pair for pair in hung if pair is not None]
    if len(found) < len(hung):
        return None
    arcs, heads = tuple(arc for arc, _ in found), tuple(head for _, head in found)
    return Taught(text, tuple(tokens), labels, arcs, heads, kind, language)


def _hung(i: int, word: Word | None, last: dict[int, int]) -> tuple[str, int] | None:
    """(arc, head) of a token; None where its head is no token of its own or it hangs nowhere."""
    if word is None:
        return "", -1
    if last[id(word)] != i:
        return "part", i + 1
    if not word.arc or (word.head is not None and id(word.head) not in last):
        return None
    return word.arc, -1 if word.head is None else last[id(word.head)]
