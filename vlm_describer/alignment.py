"""Which words of a caption mean which located thing: both come from left to right."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from embodied.colours import COLOURS, REFERENCES, lab
from vlm_describer.captions import Mention
from vlm_describer.located import Item
from vlm_describer.relations import geometric_kind

FLAT_KINDS = ("tray", "disc", "plate")
COLOUR_SCALE = 45.0
"""Distance in CIELAB at which a colour speaks neither for nor against."""
LEAST = 0.2
"""Of a pair that is made."""
_LABS = {name: lab(np.array([rgb for other, rgb in REFERENCES if other == name])) for name in COLOURS}


def align(mentions: Sequence[Mention], items: Sequence[Item]) -> dict[str, Mention]:
    """The mention of each thing, by item id, where it has one.

    The order of both is kept, and the sum of how well pairs fit is as large as it can be (Needleman and Wunsch 1970).
    """
    placed = sorted(items, key=_column)
    fit = np.array([[fits(mention, item) for item in placed] for mention in mentions]).reshape(
        len(mentions), len(placed)
    )
    best = np.zeros((len(mentions) + 1, len(placed) + 1))
    for row in range(1, len(mentions) + 1):
        for column in range(1, len(placed) + 1):
            value = float(fit[row - 1, column - 1])
            paired = best[row - 1, column - 1] + value if value >= LEAST else -np.inf
            best[row, column] = max(paired, best[row - 1, column], best[row, column - 1])
    return _trace(best, fit, mentions, placed)


def fits(mention: Mention, item: Item) -> float:
    """How well a thing fits the words: about 1 where form and colour agree, below 0 where either speaks against it."""
    colour, _, kind = mention.phrase.rpartition(" ")
    found, _ = geometric_kind(item)
    form = 0.5 if found == kind else (0.1 if (kind in FLAT_KINDS) == (found in FLAT_KINDS) else -0.6)
    if colour not in _LABS:
        return form
    distance = float(np.linalg.norm(_LABS[colour] - lab(item.colour), axis=1).min())
    return form + 0.5 * max(1.0 - distance / COLOUR_SCALE, -1.0)


def _trace(
    best: NDArray[np.float64], fit: NDArray[np.float64], mentions: Sequence[Mention], placed: Sequence[Item]
) -> dict[str, Mention]:
    pairs: dict[str, Mention] = {}
    row, column = len(mentions), len(placed)
    while row and column:
        if best[row, column] == best[row - 1, column]:
            row -= 1
        elif best[row, column] == best[row, column - 1]:
            column -= 1
        else:
            pairs[placed[column - 1].id] = mentions[row - 1]
            row, column = row - 1, column - 1
    return pairs


def _column(item: Item) -> tuple[float, str]:
    return (item.box_px[0] + item.box_px[2]) / 2, item.id
