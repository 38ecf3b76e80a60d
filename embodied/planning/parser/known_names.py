"""Names of colours and things: the injected vocabulary first, then what the wordings were written with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from embodied.planning.teaching.wordings import any_nouns, known_colours, known_kinds

Lookup = Callable[[str], str | None]


def _nothing(text: str) -> str | None:
    return None


@dataclass
class KnownNames:
    """Implements `lookup.NamesOfThings`.

    Args:
        colour_of: A word or short phrase to a canonical colour, None where it names none; asked first.
        kind_of: The same for kinds.
    """

    colour_of: Lookup = _nothing
    kind_of: Lookup = _nothing
    _colours: dict[str, str | None] = field(default_factory=dict)
    _kinds: dict[str, str | None] = field(default_factory=dict)

    def colour(self, text: str) -> str | None:
        """The canonical colour."""
        if text not in self._colours:
            taught = known_colours()
            self._colours[text] = taught.get(text) or self.colour_of(text)
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
        return self.kind_of(text)

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
