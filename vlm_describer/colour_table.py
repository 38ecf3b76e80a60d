"""Names of colours with their RGB, and the canonical name of an RGB value: colour words that nobody listed.

The names are the 949 of the xkcd colour survey (Randall Munroe, 2010, CC0: what visitors called random colours on their
screens) and those of CSS Color Module Level 4, both as matplotlib carries them.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from embodied.colours import COLOURS, REFERENCES, lab

Array = NDArray[np.float64]
Rgb = tuple[float, float, float]

WIDTH_LAB = 10.0
"""How far an example speaks in CIELAB, standard deviation. Chosen, with the exponent below, on the fitting half of the
survey's names, each left out in turn: .90 right, and .87 as the mean over the colours."""
CROWD_EXPONENT = 0.5
"""An example of a colour with n examples counts n^-0.5: the survey has 70 greens for 4 teals."""


@cache
def survey() -> Mapping[str, Rgb]:
    """The xkcd survey's names, lower case, words apart, with sRGB in [0, 1]."""
    from matplotlib.colors import XKCD_COLORS

    return {name.removeprefix("xkcd:"): _rgb(value) for name, value in XKCD_COLORS.items()}


@cache
def css() -> Mapping[str, Rgb]:
    """CSS Level 4's names, lower case, words run together, with sRGB in [0, 1]."""
    from matplotlib.colors import CSS4_COLORS

    return {name: _rgb(value) for name, value in CSS4_COLORS.items()}


def _rgb(value: str) -> Rgb:
    red, green, blue = (int(value[i : i + 2], 16) / 255 for i in (1, 3, 5))
    return red, green, blue


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

    def name(self, rgb: Rgb) -> tuple[str, float]:
        """(canonical name, its share of the vote in (0, 1]) of an sRGB colour with values in [0, 1].

        A kernel estimate of the colours' densities: Gaussians of one width round the examples, Rosenblatt (1956).
        """
        exponent = -np.square(self.lab - lab(rgb)).sum(axis=1) / (2 * WIDTH_LAB**2)
        crowd = Counter(self.names)
        votes = dict.fromkeys(COLOURS, 0.0)
        for name, weight in zip(self.names, np.exp(exponent - exponent.max()), strict=True):
            votes[name] += float(weight) * crowd[name] ** -CROWD_EXPONENT
        best = max(votes, key=lambda name: votes[name])
        return best, votes[best] / sum(votes.values())


def fitted_rule(names: Iterable[str] | None = None) -> ColourRule:
    """The rule whose examples are the project's references and, of `names` (default: the fitting half of the survey),
    those that say their colour themselves."""
    chosen = names if names is not None else (name for name in survey() if for_fitting(name))
    told = [(colour, survey()[name]) for name in chosen if (colour := told_colour(name)) is not None]
    examples = [*REFERENCES, *told]
    return ColourRule(tuple(name for name, _ in examples), lab(np.array([rgb for _, rgb in examples])))
