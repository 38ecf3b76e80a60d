"""What people put between the words that count, leave out, or say in words that nobody knows."""

from __future__ import annotations

import random
from functools import cache

from embodied.planning.parser.grammar import ATTRIBUTES, CONDITIONS, RELATIONS, UNKNOWN, VERBS
from embodied.planning.teaching.markup import Fragment, Word, expand, plain_words
from embodied.planning.teaching.mentions import Speaker

_MADE_UP = 500
_VOWELS = ("a", "e", "i", "o", "u", "oo", "ee", "ai")
_ONSETS = tuple("bcdfghjklmnprstvwz") + ("bl", "br", "cr", "dr", "fl", "fr", "gl", "gr", "pl", "sk", "sn", "tr", "qu")
_CODAS = ("", "b", "d", "g", "k", "l", "m", "n", "p", "r", "t", "x", "ng", "rp", "nk", "zz", "st")
_HIDDEN = frozenset((*VERBS, *RELATIONS, *CONDITIONS, *ATTRIBUTES)) - {"col", "all", "any"}
"""Labels of words that a made-up one may stand for."""


@cache
def made_up_words() -> tuple[str, ...]:
    """Words that do not exist, the same every time."""
    rng = random.Random("made up")
    return tuple(dict.fromkeys(_syllables(rng) for _ in range(_MADE_UP)))


def _syllables(rng: random.Random) -> str:
    count = rng.choice((1, 1, 2, 2, 2, 3))
    parts = [rng.choice(_ONSETS) + rng.choice(_VOWELS) for _ in range(count)]
    return "".join(parts) + rng.choice(_CODAS)


def strange_word(by: Speaker) -> str:
    """A made-up word, in Chinese a rare character."""
    if by.language == "zh":
        return by.pick(by.told.data["noise"]["rare"][0])
    return by.pick(made_up_words())


def noised(by: Speaker, made: Fragment) -> Fragment:
    """The same words with fillers between them, with some that say nothing left out, and with other marks."""
    words = list(made.words)
    if by.chance(0.025):
        _hide_one(by, words)
    if by.chance(0.2):
        words = _thinned(by, words)
    for _ in range(by.rng.choices((0, 1, 2, 3), (66, 25, 7, 2))[0]):
        words = _filled(by, words)
    if by.chance(0.22):
        words = _remarked(by, words)
    if by.chance(0.13):
        words = with_chatter(by, words)
    return Fragment(words, made.heads)


def with_chatter(by: Speaker, words: list[Word]) -> list[Word]:
    """With talk before or behind that asks for nothing."""
    told = by.told.data["chatter"]
    before = by.chance(0.5)
    said: list[Word] = []
    for item in expand(by.pick(told["lead" if before else "tail"]), by.rng):
        said += chatter(by) if item == "<C>" else [Word(item)]
    return said + words if before else words + said


def chatter(by: Speaker, part: str = "whole") -> list[Word]:
    """Words of a sentence that has nothing to do with the scene."""
    made: list[Word] = []
    for item in expand(by.pick(by.told.data["chatter"][part]), by.rng):
        made += chatter(by, item[1:-1]) if item.startswith("<") else [Word(item)]
    return made


def _hide_one(by: Speaker, words: list[Word]) -> None:
    """Puts a made-up word in the place of one that decides what is meant."""
    fit = [w for i, w in enumerate(words) if w.label in _HIDDEN and not _in_a_name(words, i)]
    if fit:
        word = by.rng.choice(fit)
        word.text, word.label = strange_word(by), UNKNOWN


def _in_a_name(words: list[Word], i: int) -> bool:
    return words[i].arc == "part" or (i > 0 and words[i - 1].arc == "part")


def _thinned(by: Speaker, words: list[Word]) -> list[Word]:
    """Without some of the words that people leave out."""
    light = frozenset(by.told.data["noise"]["light"])
    p = by.pick(["some", "many", "all"])
    share = {"some": 0.25, "many": 0.6, "all": 1.0}[p]
    return [w for w in words if not (w.label == "nil" and w.text in light and by.chance(share))]


def _filled(by: Speaker, words: list[Word]) -> list[Word]:
    """With a filler somewhere: at an end, where a mark stands, or between any two words."""
    told = by.told.data["noise"]
    where = by.rng.choices(("start", "end", "mark", "any"), (28, 26, 22, 24))[0]
    if where == "start":
        return _fillers(by, told["start"]) + words
    if where == "end":
        return words + _fillers(by, told["end"])
    gaps = [i for i in range(1, len(words)) if words[i - 1].arc != "part"]
    marks = [i for i in gaps if words[i - 1].text in ",.;" and words[i - 1].label == "nil"]
    gaps = marks if where == "mark" and marks else gaps
    if not gaps:
        return words
    i = by.rng.choice(gaps)
    return words[:i] + _fillers(by, told["between"]) + words[i:]


def _fillers(by: Speaker, told: list[str]) -> list[Word]:
    made: list[Word] = []
    for item in expand(by.pick(told), by.rng):
        if item == "<N>":
            names = by.told.data["noise"]["names"]
            made.append(Word(by.pick(names) if by.chance(0.6) else strange_word(by)))
        else:
            made += plain_words([item])
    return made


def _remarked(by: Speaker, words: list[Word]) -> list[Word]:
    """With other marks between clauses, or none."""
    found: list[Word] = []
    for word in words:
        if word.label != "nil" or word.text not in (",", ".", ";", ":"):
            found.append(word)
            continue
        chosen = by.rng.choices(("same", "none", "comma", "stop", "other"), (50, 18, 12, 8, 12))[0]
        if chosen == "none":
            continue
        if chosen == "other":
            found += [Word(mark) for mark in by.pick(["- -", ". . .", ";", "!", "-", "/", "&", "+"]).split()]
        else:
            found.append(Word({"same": word.text, "comma": ",", "stop": "."}[chosen]))
    return found
