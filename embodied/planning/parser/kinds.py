"""What nouns say of the kind of a thing: the strictest reading first."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Protocol

from embodied.planning.parser.features import Names
from embodied.planning.parser.program import Description
from embodied.planning.parser.shapes import Test, is_flat, shape_of_noun
from embodied.planning.places import listing, quoted
from embodied.planning.words import Refused
from embodied.types import DescribedObject, SceneDescription

_ALIKE: dict[str, tuple[str, ...]] = {
    "tray": ("plate", "disc"), "disc": ("plate", "tray"), "plate": ("disc", "tray"), "pillar": ("cylinder",),
    "cylinder": ("pillar",),
}  # fmt: skip
"""Kinds that people call by each other's names, the likeliest first."""


class NamesOfThings(Names, Protocol):
    """The vocabulary, and what beside it is known of nouns."""

    def generic(self, noun: str) -> str | None:
        """`thing`, `zone`, `landmark`, `start` for a noun that says no more, else None."""
        ...

    def also(self, noun: str) -> Collection[str]:
        """Further kinds that the noun may name."""
        ...


def kind_tests(
    what: Description, slot: str, coloured: bool, names: NamesOfThings, scene: SceneDescription
) -> list[Test]:
    """What a thing of the description's kind fulfils, the strictest reading first.

    Raises:
        Refused: `unknown_object`: nobody knows the noun, and no id holds it.
    """
    noun = what.noun
    if noun is None:
        return [lambda item: item.kind != "wall" or coloured]
    generic = names.generic(noun)
    if generic == "thing":
        return (
            [lambda item: item.role == "object", lambda item: True]
            if slot in ("moved", "touched")
            else [lambda item: True]
        )
    if generic == "start":
        return [lambda item: "start" in item.id.lower(), lambda item: item.role == "place"]
    kind = names.kind(noun)
    also = set(names.also(noun))
    named = noun.lower()
    if generic is not None and kind is None:
        return [lambda item: item.role == generic, lambda item: slot == "goal" or item.role == "zone"]
    if kind is None and not also and not any(named in _parts(item.id) for item in scene.objects):
        raise Refused("unknown_object", f"there is no {quoted(what.words)} here; there are: {listing(scene.objects)}")
    alike = dict.fromkeys(other for own in (kind, *also) if own is not None for other in _ALIKE.get(own, ()))
    tests: list[Callable[[DescribedObject], bool]] = [
        lambda item: item.kind == kind or named in _parts(item.id),
        lambda item: item.kind in also,
        lambda item: item.kind == "cylinder" and is_flat(item) and shape_of_noun(named) is is_flat,
        *(_of_kind(other) for other in alike),
    ]
    if generic is not None:
        tests.append(lambda item: item.role == generic)
    return tests


def _of_kind(kind: str) -> Callable[[DescribedObject], bool]:
    return lambda item: item.kind == kind


def _parts(ident: str) -> set[str]:
    for mark in "-.":
        ident = ident.replace(mark, "_")
    return {part.lower() for part in ident.split("_") if part and not part.isdigit()}
