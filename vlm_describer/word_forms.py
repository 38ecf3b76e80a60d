"""How words are written: spelling, plurals, Chinese affixes, and the lists of `data/words.toml`."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import TypeVar

from vlm_describer.vocabulary import DATA, read_toml

HAN = re.compile(r"[\u3400-\u9fff]")
_OF = re.compile(r"^(?!(?:kind|sort|type|piece|pair|set) of )(\S.*?) (?:of|with|made from) .*")
_LEAST_LETTERS = 5
"""Shorter words are not looked up with doubled letters evened out."""
Value = TypeVar("Value")


@dataclass(frozen=True)
class WordLists:
    """`data/words.toml`."""

    modifiers: frozenset[str]
    """What leaves a colour the colour that it is: light, very."""
    refusing: frozenset[str]
    """What makes a phrase name no single thing: not, or."""
    adjectives: Mapping[str, str]
    """`reddish` to red."""
    irregular: Mapping[str, str]
    """Plurals to singulars."""
    colour_before: tuple[str, ...]
    colour_after: tuple[str, ...]
    kind_before: tuple[str, ...]
    han_refusing: tuple[str, ...]
    background: tuple[str, ...]
    """Words that are neither a colour nor a kind."""


@cache
def word_lists() -> WordLists:
    """The shipped lists."""
    data = read_toml(DATA / "words.toml")
    colour, chinese = data["colour"], data["chinese"]
    return WordLists(
        modifiers=frozenset(colour["modifiers"]),
        refusing=frozenset(colour["refusing"]),
        adjectives={word: name for name, words in colour["adjectives"].items() for word in words},
        irregular=data["plural"]["irregular"],
        colour_before=_longest_first(chinese["colour_before"]),
        colour_after=_longest_first(chinese["colour_after"]),
        kind_before=_longest_first(chinese["kind_before"]),
        han_refusing=tuple(chinese["refusing"]),
        background=tuple(data["background"]["words"]),
    )


def _longest_first(words: list[str]) -> tuple[str, ...]:
    return tuple(sorted(words, key=len, reverse=True))


def plain(text: str) -> str:
    """Lower case, hyphens and slashes as spaces (`blue-ish` is one word), other punctuation away, Chinese in one."""
    text = unicodedata.normalize("NFKC", text).casefold()
    text = re.sub(r"(?<=\w)-(?=ish\b)", "", text)
    text = re.sub(r"[-_/\u2010-\u2015]+", " ", text)
    text = re.sub(r"[^\w\s]", "", text)
    text = " ".join(text.split())
    return text.replace(" ", "") if HAN.search(text) else text


def singulars(word: str, irregular: Mapping[str, str]) -> tuple[str, ...]:
    """The word, and what it may be the plural of by English spelling: `boxes` gives boxes, boxe, box."""
    found = [word]
    if word in irregular:
        found.append(irregular[word])
    if word.endswith("ies"):
        found.append(word[:-3] + "y")
    if word.endswith("ves"):
        found += [word[:-3] + "f", word[:-3] + "fe"]
    if word.endswith("s") and not word.endswith("ss"):
        found.append(word[:-1])
    if word.endswith("es"):
        found.append(word[:-2])
    return tuple(dict.fromkeys(found))


def head_of(text: str) -> str:
    """What a phrase is about, before `of` and `with`: `bottle of water` is about a bottle."""
    match = _OF.match(text)
    return match[1] if match else text


def evened(word: str) -> str:
    """The word without spaces and with doubled letters once, for looking up `vermilion` beside `vermillion`."""
    return re.sub(r"(.)\1+", r"\1", word.replace(" ", ""))


class SpellingIndex:
    """Looks a word up as it is, run together, and with doubled letters evened out where that is unambiguous."""

    def __init__(self, values: Mapping[str, str]) -> None:
        self._joined: dict[str, str] = {}
        for word, value in values.items():
            self._joined.setdefault(word.replace(" ", ""), value)
        self._evened: dict[str, str | None] = {}
        for word, value in self._joined.items():
            key = evened(word)
            self._evened[key] = value if self._evened.get(key, value) == value else None

    def exact(self, text: str) -> str | None:
        """The value of the word, its parts together or apart."""
        return self._joined.get(text.replace(" ", ""))

    def loose(self, text: str) -> str | None:
        """The value of the only word that differs in doubled letters alone."""
        return self._evened.get(evened(text)) if len(text) >= _LEAST_LETTERS else None


def han_core(text: str, before: tuple[str, ...], after: tuple[str, ...] = ()) -> str:
    """A Chinese word without what may stand before and after it; never empty."""
    changed = True
    while changed:
        changed = False
        for affix in before:
            if text.startswith(affix) and len(text) > len(affix):
                text, changed = text[len(affix) :], True
        for affix in after:
            if text.endswith(affix) and len(text) > len(affix):
                text, changed = text[: -len(affix)], True
    return text


def han_head(text: str, words: Mapping[str, Value]) -> Value | None:
    """The value of the longest word of two characters or more that a Chinese word ends with."""
    return next((words[text[i:]] for i in range(len(text) - 1) if text[i:] in words), None)
