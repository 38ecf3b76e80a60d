"""Names of colours with their RGB, and the canonical name of an RGB value: colour words that nobody listed.

The names are the 949 of the xkcd colour survey (Randall Munroe, 2010, CC0: what visitors called random colours on their
screens) and those of CSS Color Module Level 4, both as matplotlib carries them.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from embodied.colours import COLOURS, REFERENCES, lab
from vlm_describer.vocabulary import DATA, read_toml

Array = NDArray[np.float64]
Rgb = tuple[float, float, float]

WIDTH = 9.0
"""How far an example speaks in CIELAB, standard deviation. This and the next two were chosen on the examples, each left
out in turn: .91 right over them, .88 as the mean over the colours."""
LIGHTNESS = 0.8
"""A difference of lightness counts so much of one of hue."""
REFERENCE_WEIGHT = 4.0
"""Each of the project's references counts as so many names."""


@cache
def survey() -> Mapping[str, Rgb]:
    """The xkcd survey's names, lower case, words apart, with sRGB in [0, 1]."""
    from matplotlib.colors import XKCD_COLORS, to_rgb

    return {name.removeprefix("xkcd:"): to_rgb(value) for name, value in XKCD_COLORS.items()}


@cache
def css() -> Mapping[str, Rgb]:
    """CSS Level 4's names, lower case, words run together, with sRGB in [0, 1]."""
    from matplotlib.colors import CSS4_COLORS, to_rgb

    return {name: to_rgb(value) for name, value in CSS4_COLORS.items()}


def for_fitting(name: str) -> bool:
    """Whether a survey's name belongs to the half that rules are fitted on; the other half is for measuring."""
    return hashlib.sha256(name.encode()).digest()[0] % 2 == 0


def told_colour(name: str) -> str | None:
    """The canonical colour that a name says itself: it has one canonical word, as its last (`forest green`)."""
    words = re.split(r"[ /-]", name)
    canonical = [word for word in words if word in COLOURS]
    return canonical[0] if len(canonical) == 1 and words[-1] == canonical[0] else None


def told_by_css(name: str) -> str | None:
    """The same of a CSS name, whose words are run together: `darkseagreen`, `slategray`."""
    canonical = re.findall("|".join(COLOURS), name.replace("gray", "grey"))
    return canonical[0] if len(canonical) == 1 and name.replace("gray", "grey").endswith(canonical[0]) else None


@dataclass(frozen=True)
class ColourRule:
    """The canonical name of an sRGB colour: a vote of named examples, weighted by their distance in CIELAB."""

    names: tuple[str, ...]
    """Canonical name of each example."""
    lab: Array
    """CIELAB of each example, (N, 3)."""
    weight: Array
    """What each example counts, (N,)."""

    def name(self, rgb: Rgb) -> tuple[str, float]:
        """(canonical name, its share of the vote in (0, 1]) of an sRGB colour with values in [0, 1].

        A kernel estimate of the colours' densities: a Gaussian of one width round each example, Rosenblatt (1956).
        """
        apart = (self.lab - lab(rgb)) * (LIGHTNESS, 1.0, 1.0)
        exponent = -np.square(apart).sum(axis=1) / (2 * WIDTH**2)
        votes = dict.fromkeys(COLOURS, 0.0)
        for name, vote in zip(self.names, self.weight * np.exp(exponent - exponent.max()), strict=True):
            votes[name] += float(vote)
        best = max(votes, key=lambda name: votes[name])
        return best, votes[best] / sum(votes.values())


def examples() -> dict[str, tuple[str, Rgb]]:
    """Names that the rule is fitted on, to (canonical colour, sRGB).

    The fitting half of the survey, where a name says its colour or `data/colour_labels.toml` does, and CSS's names that
    say theirs; without any that has a word in it which is kept for measuring.
    """
    labels = {name: colour for colour, names in _data("colour_labels", "colours").items() for name in names}
    kept = {word for words in _data("words_held_out", "colours").values() for word in words}
    told = {
        name: (colour, rgb)
        for name, rgb in survey().items()
        if for_fitting(name) and (colour := told_colour(name) or labels.get(name)) is not None
    }
    told |= {f"css {name}": (colour, rgb) for name, rgb in css().items() if (colour := told_by_css(name)) is not None}
    return {name: found for name, found in told.items() if not any(word in name for word in kept)}


def _data(file: str, group: str) -> dict[str, list[str]]:
    content: dict[str, list[str]] = read_toml(DATA / f"{file}.toml")[group]
    return content


@cache
def fitted_rule() -> ColourRule:
    """The rule of the project's references and of `examples`."""
    told = list(examples().values())
    named = [*REFERENCES, *told]
    weight = np.array([REFERENCE_WEIGHT] * len(REFERENCES) + [1.0] * len(told))
    return ColourRule(tuple(name for name, _ in named), lab(np.array([rgb for _, rgb in named])), weight)
