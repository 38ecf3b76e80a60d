"""From scores to the best parse that the grammar allows, and how sure the network is of it."""

from __future__ import annotations

import math
from dataclasses import dataclass
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
    for attempt in range(TRIED_LABELS):
        best = _options(chosen, joint)
        lost = [i for i in range(len(chosen)) if LABELS[chosen[i]] != NIL and not math.isfinite(best[i].max())]
        if not lost:
            break
        for i in lost:
            chosen[i] = order[i, attempt + 1] if attempt + 1 < TRIED_LABELS else LABEL_INDEX[NIL]
    best = _options(chosen, joint)
    found = _without_rings(chosen, best)
    each, arc_names = [], []
    for i, head in enumerate(found):
        log = float(labels[i, chosen[i]])
        if LABELS[chosen[i]] == NIL:
            arc_names.append("")
        else:
            arc = int(np.argmax(best[i][head + 1])) if math.isfinite(best[i][head + 1].max()) else 0
            arc_names.append(ARCS[arc])
            log += float(best[i][head + 1, arc]) if math.isfinite(best[i][head + 1, arc]) else -50.0
        each.append(log)
    return Parse(tuple(LABELS[c] for c in chosen), tuple(arc_names), tuple(found), tuple(each))


def _options(chosen: NDArray[np.int64], joint: Log) -> list[Log]:
    """Per token (1+T, arcs), minus infinity where the grammar forbids it."""
    above = np.concatenate([[0], 1 + chosen])
    nil = np.concatenate([[False], chosen == LABEL_INDEX[NIL]])
    options = []
    for i, label in enumerate(chosen):
        allowed = _allowed()[label][:, above].T & ~nil[:, None]
        allowed[i + 1] = False
        part = ARC_INDEX["part"]
        allowed[:, part] &= np.arange(len(above)) == i + 2
        options.append(np.where(allowed, joint[i], -math.inf))
    return options


def _without_rings(chosen: NDArray[np.int64], best: list[Log]) -> list[int]:
    """The head of each token, -1 for the root; no token is above itself."""
    totals = [option.max(1) for option in best]
    heads = [int(np.argmax(t)) - 1 if LABELS[chosen[i]] != NIL else -1 for i, t in enumerate(totals)]
    for _ in range(len(heads)):
        ring = _ring(heads, chosen)
        if not ring:
            return heads
        costs = []
        for i in ring:
            other = totals[i].copy()
            other[[j + 1 for j in ring]] = -math.inf
            costs.append((totals[i][heads[i] + 1] - other.max(), i, int(np.argmax(other)) - 1))
        _, i, head = min(costs, key=lambda cost: (cost[0], cost[1]))
        heads[i] = head
    return heads


def _ring(heads: list[int], chosen: NDArray[np.int64]) -> list[int]:
    for start in range(len(heads)):
        seen: list[int] = []
        i = start
        while i >= 0 and LABELS[chosen[i]] != NIL:
            if i in seen:
                return seen[seen.index(i) :]
            seen.append(i)
            i = heads[i]
    return []
