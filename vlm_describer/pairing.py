"""Which of the things that somebody found or speaks of is which labelled one."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from scipy.optimize import linear_sum_assignment

from embodied.labels import EntityLabel, FrameLabel, Triple

NEAR_M, NEAR_MAP_M = 0.05, 0.6
"""A thing is the labelled one whose centre is within this, on a map within the second."""


def paired(places_b_m: Mapping[str, Triple], label: FrameLabel, reach_m: float) -> dict[str, EntityLabel]:
    """Labelled things of which any pixel is visible, by id of what they are paired with.

    The pairing has the least sum of distances.

    Args:
        places_b_m: Centres in frame B, metres, by id.
        label: What is there.
        reach_m: The largest distance of a pair.
    """
    seen = [entity for entity in label.entities if entity.pixels > 0 and entity.role != "place"]
    if not seen or not places_b_m:
        return {}
    ids, centres = list(places_b_m), np.array([entity.center_b_m for entity in seen])
    distances = np.linalg.norm(np.array(list(places_b_m.values()))[:, None] - centres[None], axis=2)
    rows, columns = linear_sum_assignment(np.minimum(distances, 10 * reach_m))
    return {
        ids[row]: seen[column] for row, column in zip(rows, columns, strict=True) if distances[row, column] <= reach_m
    }
