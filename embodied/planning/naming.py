"""Names for language models: what comes out of a scene is data, and shown only where it is short and plain."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from embodied.planning.places import parse_place
from embodied.types import SKILLS, DescribedObject, FailureReason, SceneDescription

MAX_NAME = 32
MAX_WORDS = 4
_PLAIN = re.compile(r"[A-Za-z][A-Za-z0-9_.-]*")
_WORDS = re.compile(r"[A-Za-z]+")
_OWN = frozenset({*SKILLS, "gripper", "robot", "static"})
_KIND = re.compile(r"[a-z][a-z ]{0,19}")
FAILURES: tuple[FailureReason, ...] = (
    "unknown_object", "ambiguous", "impossible", "contradictory", "unreachable", "unparsable",
)  # fmt: skip
"""Reasons that a planner may give for having no plan."""


def is_plain(name: str) -> bool:
    """Whether a name may stand in a prompt as it is: ASCII, short, few words, no sentence in disguise."""
    return (
        len(name) <= MAX_NAME
        and _PLAIN.fullmatch(name) is not None
        and len(_WORDS.findall(name)) <= MAX_WORDS
        and name not in _OWN
    )


@dataclass(frozen=True)
class Names:
    """Ids of a scene as a model is shown them, both ways."""

    shown: dict[str, str] = field(default_factory=dict)
    """By the scene's id."""
    meant: dict[str, str] = field(default_factory=dict)
    """By what is shown."""

    @classmethod
    def of(cls, scene: SceneDescription) -> Names:
        """Plain ids stay as they are; others become `thing_1`, `thing_2`, ..., numbers that no id has."""
        ids = [item.id for item in scene.objects]
        taken, names, number = set(ids), cls(), 0
        for ident in ids:
            shown = ident
            if not is_plain(ident):
                number += 1
                while (shown := f"thing_{number}") in taken:
                    number += 1
            names.shown[ident], names.meant[shown] = shown, ident
        return names

    def to_scene(self, arg: str) -> str:
        """An argument of a model's plan with the scene's own id in it; what is not known stays as it is."""
        return self._changed(arg, self.meant)

    def to_model(self, arg: str) -> str:
        """An argument of a plan as the model is to see it."""
        return self._changed(arg, self.shown)

    def masked(self, text: str) -> str:
        """A text about the scene with the ids in it as the model is shown them."""
        for ident in sorted(self.shown, key=len, reverse=True):
            if self.shown[ident] != ident:
                text = text.replace(ident, self.shown[ident])
        return text

    @staticmethod
    def _changed(arg: str, table: dict[str, str]) -> str:
        if arg in table:
            return table[arg]
        place = parse_place(arg)
        if place is None or place.side is None or place.reference is None:
            return arg
        return f"{place.side}:{table.get(place.reference, place.reference)}"


def kind_of(item: DescribedObject) -> str:
    """`red block`, with words that a describer cannot have meant left out."""
    kind = item.kind if _KIND.fullmatch(item.kind) else "thing"
    colour = item.colour if _KIND.fullmatch(item.colour) else "unknown"
    return kind if colour == "unknown" else f"{colour} {kind}"


def clean(text: str, limit: int) -> str:
    """Text on one line: control signs and what does not print become blanks, the end is cut off."""
    line = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    return line if len(line) <= limit else line[: limit - 3] + "..."
