"""From scores to the best parse that the grammar allows, and how sure the network is of it."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, replace
from functools import cache

import numpy as np
from numpy.typing import NDArray

from embodied.planning.parser.grammar import ALLOWED, ARC_INDEX, ARCS, LABEL_INDEX, LABELS, NIL

Log = NDArray[np.float64]
TRIED_LABELS = 3


@dataclass(frozen=True)
class Parse:
    """Every token's label, arc and head (-1: root, or nothing), and the logarithm of its probability."""

    labels: tuple[str, ...]
    arcs: tuple[str, ...]
    heads: tuple[int, ...]
    log_each: tuple[float, ...]
    """Of each token's label, head and arc together."""

    @property
    def log_probability(self) -> float:
        return sum(self.log_each)


@cache
def _allowed() -> NDArray[np.bool_]:
    """(labels, arcs, 1 + labels): index 0 of the last is the root."""
    found = np.zeros((len(LABELS), len(ARCS), 1 + len(LABELS)), bool)
    for below, arc, above in ALLOWED:
        found[LABEL_INDEX[below], ARC_INDEX[arc], 0 if above == "root" else 1 + LABEL_INDEX[above]] = True
    return found


def decode(labels: Log, heads: Log, arcs: Log) -> Parse:
    """The parse by these logarithms of probabilities.

    Labels are chosen first, each for itself; then every token that means something gets the best head and arc that the
    grammar allows between the two labels. A token for which there is none takes its next label. Rings are cut where
    that costs least.

    Args:
        labels: (T, labels)
        heads: (T, 1+T), the root first.
        arcs: (T, 1+T, arcs)
    """
    order = np.argsort(-labels, axis=1)
    chosen = order[:, 0].copy()
    joint = heads[:, :, None] + arcs
    # Ends: from the third round on every token that is cut says nothing.
    for attempt in itertools.count(1):
        best = _options(chosen, joint)
        lost = [i for i in range(len(chosen)) if _says(chosen[i]) and not math.isfinite(best[i].max())]
        found, cut = ([], lost) if lost else _without_rings(chosen, best)
        if not cut:
            break
        for i in cut:
            chosen[i] = order[i, attempt] if attempt < TRIED_LABELS and lost else LABEL_INDEX[NIL]
    each, names = [], []
    for i, head in enumerate(found):
        log, arc = float(labels[i, chosen[i]]), ""
        if _says(chosen[i]):
            place = int(np.argmax(best[i][head + 1]))
            arc = ARCS[place]
            log += float(best[i][head + 1, place])
        names.append(arc)
        each.append(log)
    return Parse(tuple(LABELS[c] for c in chosen), tuple(names), tuple(found), tuple(each))


def likelihood(parse: Parse, labels: Log, heads: Log, arcs: Log) -> Parse:
    """The same parse with its probabilities by these scores, see `decode`."""
    each = []
    for i, (label, arc, head) in enumerate(zip(parse.labels, parse.arcs, parse.heads, strict=True)):
        log = float(labels[i, LABEL_INDEX[label]])
        each.append(log + (float(heads[i, head + 1] + arcs[i, head + 1, ARC_INDEX[arc]]) if label != NIL else 0.0))
    return replace(parse, log_each=tuple(each))


def _says(label: np.int64) -> bool:
    return LABELS[label] != NIL


def _options(chosen: NDArray[np.int64], joint: Log) -> list[Log]:
    """Per token (1+T, arcs), minus infinity where the grammar forbids it."""
    above = np.concatenate([[0], 1 + chosen])
    nil = np.concatenate([[False], chosen == LABEL_INDEX[NIL]])
    part, places = ARC_INDEX["part"], np.arange(len(above))
    options = []
    for i, label in enumerate(chosen):
        allowed = _allowed()[label][:, above].T & ~nil[:, None]
        allowed[i + 1] = False
        allowed[:, part] &= places == i + 2
        options.append(np.where(allowed, joint[i], -math.inf))
    return options


def _without_rings(chosen: NDArray[np.int64], best: list[Log]) -> tuple[list[int], list[int]]:
    """(the head of each token, -1 for the root, so that none is above itself; a token that no cut can free)."""
    totals = [option.max(1) for option in best]
    heads = [int(np.argmax(total)) - 1 if _says(chosen[i]) else -1 for i, total in enumerate(totals)]
    while ring := _ring(heads):
        below = [j for j in range(len(heads)) if ring[0] in _chain(heads, j)]
        costs = []
        for i in ring:
            other = totals[i].copy()
            other[[j + 1 for j in below]] = -math.inf
            costs.append((float(totals[i].max() - other.max()), i, int(np.argmax(other)) - 1))
        cost, i, head = min(costs)
        if not math.isfinite(cost):
            return heads, [i]
        heads[i] = head
    return heads, []


def _chain(heads: list[int], i: int) -> list[int]:
    """The token and those above it, each once."""
    seen: list[int] = []
    while i >= 0 and i not in seen:
        seen.append(i)
        i = heads[i]
    return seen


def _ring(heads: list[int]) -> list[int]:
    for start in range(len(heads)):
        chain = _chain(heads, start)
        if heads[chain[-1]] >= 0:
            return chain[chain.index(heads[chain[-1]]) :]
    return []
