"""Wordings with marks: `put/v_put <T> (on|upon)/ ...` as data, expanded by chance to words that carry their parse.

`(a|b c|)` is a choice, which may be nested. `word/label` is a word that means something. `<name>` is a slot that the
grammar fills. `word/label@B` is a mark that belongs to the clause in slot B.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import dataclass, field


@dataclass(eq=False)
class Word:
    """A word of a taught sentence and its place in the parse."""

    text: str
    label: str = "nil"
    arc: str = ""
    head: Word | None = None
    """None with an arc: the root."""


@dataclass
class Fragment:
    """Words in their order, and the heads of what they are about."""

    words: list[Word] = field(default_factory=list)
    heads: list[Word] = field(default_factory=list)
    """Mentions of a list, or the clause's head."""

    def hang(self, arc: str, head: Word | None) -> None:
        """Hangs every head that hangs nowhere yet."""
        for word in self.heads:
            if not word.arc:
                word.arc, word.head = arc, head


def expand(template: str, rng: random.Random) -> list[str]:
    """The words, marks and slots of one way of saying it.

    Raises:
        ValueError: Brackets do not match.
    """
    words, rest = _sequence(template, 0, rng)
    if rest != len(template):
        raise ValueError(f"a bracket too many: {template}")
    return "".join(words).split()


def _sequence(text: str, i: int, rng: random.Random) -> tuple[list[str], int]:
    found: list[str] = []
    while i < len(text) and text[i] not in "|)":
        if text[i] == "(":
            chosen, i = _choice(text, i + 1, rng)
            found += chosen
        else:
            found.append(text[i])
            i += 1
    return found, i


def _choice(text: str, i: int, rng: random.Random) -> tuple[list[str], int]:
    options = []
    while True:
        option, i = _sequence(text, i, rng)
        options.append(option)
        if i >= len(text):
            raise ValueError(f"a bracket is not closed: {text}")
        i += 1
        if text[i - 1] == ")":
            return rng.choice(options), i


def split_mark(item: str) -> tuple[str, str, str]:
    """(word, label, slot) of `word/label@slot`; label and slot may be empty."""
    word, slash, mark = item.partition("/")
    if not slash or not word:
        return item, "", ""
    label, _, slot = mark.partition("@")
    return word, label, slot


def plain_words(items: Iterable[str]) -> list[Word]:
    """Words without slots: those with a label get it, and hang nowhere yet."""
    made = []
    for item in items:
        word, label, _ = split_mark(item)
        made.append(Word(word, label or "nil"))
    return made
