"""Names of colours and things: the injected vocabulary first, then what the wordings were written with."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, Protocol

from embodied.planning.teaching.wordings import any_nouns, known_colours, known_kinds

_SHADES = {
    "dark": "black", "darker": "black", "light": "white", "lighter": "white", "pale": "white",
    "\u6df1\u8272": "black", "\u6d45\u8272": "white",
}  # fmt: skip
"""Shades that stand for a colour where nothing else is said."""


class Vocabulary(Protocol):
    """Words and short phrases to canonical names, None where they name none."""

    def colour(self, text: str, listed: bool) -> str | None:
        """`listed`: only by lists and tables, not by likeness."""
        ...

    def kind(self, text: str, listed: bool) -> str | None: ...


@dataclass
class KnownNames:
    """Implements `lookup.NamesOfThings`.

    Args:
        vocabulary: Asked for what the wordings do not hold; None: nothing else is known.
        listed: Only by lists and tables.
    """

    vocabulary: Vocabulary | None = None
    listed: bool = False
    _colours: dict[str, str | None] = field(default_factory=dict)
    _kinds: dict[str, str | None] = field(default_factory=dict)

    def colour(self, text: str) -> str | None:
        """The canonical colour."""
        if text not in self._colours:
            taught = known_colours()
            self._colours[text] = taught.get(text) or self._asked("colour", text) or _SHADES.get(text)
        return self._colours[text]

    def kind(self, text: str) -> str | None:
        """The canonical kind; `table` is one here."""
        if text not in self._kinds:
            self._kinds[text] = self._kind(text)
        return self._kinds[text]

    def _kind(self, text: str) -> str | None:
        taught = known_kinds()
        for noun in singulars(text):
            if noun in taught:
                return taught[noun][0]
        return None if self.generic(text) is not None else self._asked("kind", text)

    def _asked(self, what: Literal["colour", "kind"], text: str) -> str | None:
        if self.vocabulary is None:
            return None
        found: str | None = getattr(self.vocabulary, what)(text, self.listed)
        return found

    def also(self, noun: str) -> tuple[str, ...]:
        """Further kinds that the noun may name: a box may be a tray."""
        taught = known_kinds()
        return next((taught[word] for word in singulars(noun) if word in taught), ())

    def generic(self, noun: str) -> str | None:
        """`thing`, `zone`, `landmark` or `start` for a noun that says no more."""
        table = any_nouns()
        return next((table[word] for word in singulars(noun) if word in table), None)


def singulars(noun: str) -> tuple[str, ...]:
    """The noun, and what it may be the plural of."""
    found = [noun]
    if noun == "dice":
        found.append("die")
    if noun.endswith("ies"):
        found.append(noun[:-3] + "y")
    if noun.endswith("es"):
        found.append(noun[:-2])
    if noun.endswith("s") and not noun.endswith("ss"):
        found.append(noun[:-1])
    return tuple(found)
