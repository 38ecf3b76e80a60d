"""An instruction as a row of tokens, and a cursor over it; linear in the text, without regular expressions."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NoReturn, TypeVar

from embodied.planning.places import quoted
from embodied.types import FailureReason, PlanFailure

T = TypeVar("T")
MAX_CHARACTERS = 2_000
PUNCTUATION = frozenset(",;.:!?")
_WORD = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.'")
_APOSTROPHES = str.maketrans({"\u2019": "'", "\u2018": "'"})


class Refused(Exception):
    """The instruction cannot be planned; carries why."""

    def __init__(self, reason: FailureReason, message: str) -> None:
        super().__init__(message)
        self.failure = PlanFailure(reason, message)


def tokenize(text: str) -> list[str]:
    """Words, numbers and punctuation marks.

    Raises:
        Refused: `unparsable`: empty, too long, or holding characters that no English instruction needs.
    """
    if len(text) > MAX_CHARACTERS:
        raise Refused(
            "unparsable", f"the instruction is longer than {MAX_CHARACTERS} characters; say it in fewer words"
        )
    text = text.translate(_APOSTROPHES)
    foreign = [c for c in text if not (c in _WORD or c in PUNCTUATION or c.isspace())]
    if foreign:
        raise Refused(
            "unparsable", f"the rules planner reads plain English only; it cannot read {quoted(''.join(foreign))}"
        )
    tokens: list[str] = []
    for chunk in text.split():
        tokens += _tokens_of(chunk)
    if not any(token not in PUNCTUATION for token in tokens):
        raise Refused("unparsable", "the instruction is empty; say for instance: touch the red block")
    return tokens


def _tokens_of(chunk: str) -> list[str]:
    """The chunk cut at punctuation; full stops inside it stay (`1.5`, `box.001`), those at the end of a word do not."""
    tokens, word = [], ""
    for place, c in enumerate(chunk):
        inside = c == "." and word and place + 1 < len(chunk) and chunk[place + 1] not in PUNCTUATION
        if c in PUNCTUATION and not inside:
            tokens += [word] if word else []
            tokens.append(c)
            word = ""
        else:
            word += c
    return tokens + ([word] if word else [])


class Cursor:
    """A place in the row of tokens. Phrases are matched in lower case, the longest first."""

    def __init__(self, tokens: list[str]) -> None:
        self.tokens = tokens
        self.lower = [token.lower() for token in tokens]
        self.i = 0

    @property
    def done(self) -> bool:
        return self.i >= len(self.tokens)

    def word(self, ahead: int = 0) -> str:
        """The token so many places ahead, lower case; empty past the end."""
        place = self.i + ahead
        return self.lower[place] if place < len(self.lower) else ""

    def peek(self, phrases: Iterable[str]) -> str | None:
        """The longest of the phrases that stands here, or None."""
        best = None
        for phrase in phrases:
            parts = phrase.split()
            if self.lower[self.i : self.i + len(parts)] == parts and (best is None or len(parts) > len(best.split())):
                best = phrase
        return best

    def take(self, phrases: Iterable[str]) -> str | None:
        """As `peek`, and moves behind it."""
        found = self.peek(phrases)
        if found is not None:
            self.i += len(found.split())
        return found

    def take_value(self, table: dict[str, T]) -> T | None:
        """The value of the longest phrase of the table that stands here, or None."""
        found = self.take(table)
        return None if found is None else table[found]

    def not_understood(self) -> NoReturn:
        """Raises `Refused` with the words from here to the next punctuation mark."""
        words: list[str] = []
        for token in self.tokens[self.i : self.i + 8]:
            if token in PUNCTUATION and words:
                break
            words.append(token)
        raise Refused("unparsable", f"the rules planner did not understand {quoted(' '.join(words) or 'the end')}")
