"""A text as tokens: Latin words, numbers and marks; Chinese cut into known words, the longest first."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Iterable
from dataclasses import dataclass

HAN = re.compile(r"[\u3400-\u9fff]")
_PIECE = re.compile(r"[\u3400-\u9fff]+|\d+(?:\.\d+)?|[^\W_]+(?:[_.'\-][^\W_]+)*|[^\s\w]|_")
_MARKS = str.maketrans({
    "\u2019": "'", "\u2018": "'", "\u201c": '"', "\u201d": '"', "\u3002": ".", "\uff0c": ",", "\u3001": ",",
    "\uff1b": ";", "\uff1a": ":", "\uff01": "!", "\uff1f": "?", "\u2014": ",", "\u2013": ",", "\u2026": ".",
    "\uff08": "(", "\uff09": ")",
})  # fmt: skip
LONGEST_HAN = 6
_LETTERS = "abcdefghijklmnopqrstuvwxyz"


@dataclass(frozen=True)
class Token:
    """A piece of the text."""

    text: str
    """Lower case; an id as it is written."""
    start: int
    end: int
    """Characters of the text as `plain` gives it."""


def plain(text: str) -> str:
    """Full-width forms and typographic marks as plain ones, one character for one."""
    return "".join(
        c if len(n := unicodedata.normalize("NFKC", c)) != 1 else n for c in text.translate(_MARKS)
    )  # fmt: skip


def tokenize(text: str, han_words: Collection[str], ids: Collection[str] = ()) -> list[Token]:
    """The tokens of a text that went through `plain`.

    Args:
        han_words: Known Chinese words of at most six characters.
        ids: Names that stay whole whatever characters they hold.
    """
    found: list[Token] = []
    for match in _PIECE.finditer(text):
        piece, start = match[0], match.start()
        if HAN.match(piece):
            found += _han(piece, start, han_words)
        elif piece in ids:
            found.append(Token(piece, start, match.end()))
        else:
            found += _latin(piece.lower(), start)
    return found


def _han(piece: str, start: int, words: Collection[str]) -> Iterable[Token]:
    i = 0
    while i < len(piece):
        size = next((n for n in range(min(LONGEST_HAN, len(piece) - i), 1, -1) if piece[i : i + n] in words), 1)
        yield Token(piece[i : i + size], start + i, start + i + size)
        i += size


def _latin(piece: str, start: int) -> Iterable[Token]:
    """`don't` stays whole, `it's` and `block's` are cut before the apostrophe, hyphened words at their hyphens."""
    if piece.endswith("'s") and len(piece) > 2:
        return [*_latin(piece[:-2], start), Token("'s", start + len(piece) - 2, start + len(piece))]
    found, at = [], 0
    for part in re.split(r"([\-_.])", piece):
        if part:
            found.append(Token(part, start + at, start + at + len(part)))
        at += len(part)
    return [token for token in found if token.text != "-"]


class Spelling:
    """Puts right a word that one slip (a letter left out, doubled, changed, or two swapped) parts from a known one.

    Args:
        words: What a word may be put right to.
        real: Words that are left as they are: they exist.
        first: Known words that are meant where several are near.
    """

    def __init__(self, words: Collection[str], real: Collection[str], first: Collection[str] = ()) -> None:
        self._first = frozenset(first)
        self._words = frozenset(word for word in words if word.isalpha() and word.isascii())
        self._real = real
        self._short: dict[str, set[str]] = {}
        for word in self._first:
            if word.isalpha() and word.isascii() and len(word) > 2:
                self._short.setdefault(_consonants(word), set()).add(word)

    def right(self, word: str) -> str:
        """The only known word that is one slip away, else the word itself; for words of four letters or more.

        A word without vowels is the only one of the first ones that has these consonants: `grn` is green.
        """
        meant = self._short.get(word, set()) if word not in self._words and word not in self._real else set()
        if len(meant) == 1:
            return next(iter(meant))
        if len(word) < 4 or not (word.isalpha() and word.isascii()) or word in self._words or word in self._real:
            return word
        swapped = {word[:i] + word[i + 1] + word[i] + word[i + 2 :] for i in range(len(word) - 1)} & self._words
        if len(swapped) == 1:
            return swapped.pop()
        near = {found for found in _one_off(word) if found in self._words}
        if len(near) > 1:
            near = near & self._first or near
        if len(near) > 1:
            near = {found for found in near if found[0] == word[0] and len(found) >= len(word)} or near
        return near.pop() if len(near) == 1 else word


def _consonants(word: str) -> str:
    return word[0] + "".join(c for c in word[1:] if c not in "aeiou")


def _one_off(word: str) -> Iterable[str]:
    for i in range(len(word) + 1):
        if i < len(word):
            yield word[:i] + word[i + 1 :]
            yield from (word[:i] + c + word[i + 1 :] for c in _LETTERS)
        yield from (word[:i] + c + word[i:] for c in _LETTERS)
