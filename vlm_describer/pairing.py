"""Which of the things that somebody found or speaks of is which labelled one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from scipy.optimize import linear_sum_assignment

from embodied.labels import EntityLabel, FrameLabel, Triple

NEAR_M, NEAR_MAP_M = 0.05, 0.6
"""A thing is the labelled one whose centre is within this, on a map within the second."""


OVERLAP_M = 0.5
"""What two boxes in the picture that do not overlap at all add to a distance, in reaches; equal ones add nothing."""
Box = tuple[int, int, int, int]
"""Left, top, right and bottom in pixels, the last two exclusive."""


def paired(
    places_b_m: Mapping[str, Triple], label: FrameLabel, reach_m: float, boxes_px: Mapping[str, Box] | None = None
) -> dict[str, EntityLabel]:
    """Labelled things of which any pixel is visible, by id of what they are paired with.

    The pairing has the least sum of distances. Where it is known where in the picture things were found, what lies
    elsewhere there counts as farther away: of two things one on the other the hidden one is not taken for the seen one.

    Args:
        places_b_m: Centres in frame B, metres, by id.
        label: What is there.
        reach_m: The largest distance of a pair.
        boxes_px: Of the same things.
    """
    seen = [entity for entity in label.entities if entity.pixels > 0 and entity.role != "place"]
    if not seen or not places_b_m:
        return {}
    ids, centres = list(places_b_m), np.array([entity.center_b_m for entity in seen])
    distances = np.linalg.norm(np.array(list(places_b_m.values()))[:, None] - centres[None], axis=2)
    costs = np.where(distances <= reach_m, distances, 10 * reach_m)
    if boxes_px is not None:
        shared = np.array([[_overlap(boxes_px[name], entity.box_px) for entity in seen] for name in ids])
        costs = costs + OVERLAP_M * reach_m * (1.0 - shared)
    rows, columns = linear_sum_assignment(costs)
    return {
        ids[row]: seen[column] for row, column in zip(rows, columns, strict=True) if distances[row, column] <= reach_m
    }


def _overlap(one: Sequence[int], other: Sequence[int] | None) -> float:
    """Common area of two boxes as a share of their union."""
    if other is None:
        return 0.0
    width, height = (min(one[i + 2], other[i + 2]) - max(one[i], other[i]) for i in (0, 1))
    common = max(width, 0) * max(height, 0)
    areas = [(box[2] - box[0]) * (box[3] - box[1]) for box in (one, other)]
    return common / max(sum(areas) - common, 1)
