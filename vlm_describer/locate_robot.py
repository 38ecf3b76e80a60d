"""A robot's arm in view: many parts of many colours, told by hanging in the air, joined to one item."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import cKDTree

Array = NDArray[np.float64]

HANGS_M = 0.05
"""What hangs at least so far over its support may be part of a robot."""
TALL_M = 0.20
"""What stands beside the work surface is part of a robot where it is so much higher than it, ..."""
BESIDE_M = 1.0
"""... so near to its middle."""
LARGE_M = 0.15
"""A hanging part begins a robot where it is so large or reaches out of the picture."""
LINK_M = 0.06
HANG_LINK_M = 0.15
"""Parts so near to a robot belong to it, hanging ones from farther: its own arm hides what links them."""
PLAIN = 0.15
"""Spread of the channels' shares up to which a part is white, grey or black."""
COLOURFUL = 0.25
"""Spread of the channels' shares from which a small thing has a colour of its own: a held one, not a finger."""
SMALL_M = 0.09


class RobotParts:
    """Which parts make up a robot."""

    def __init__(
        self,
        points: Sequence[Array],
        hangs: Sequence[bool],
        cut: Sequence[bool],
        colourful: Sequence[float],
        on_work: Sequence[bool],
        over_work: Sequence[bool],
        middle: Array,
        work_height: float,
    ) -> None:
        """
        Args:
            points: (N, 3) of each part, level frame.
            hangs: Whether it hangs at least `HANGS_M` over everything beneath.
            cut: Whether it reaches the border of the picture.
            colourful: Spread of its channels' shares.
            on_work: Whether it stands on the work surface or on something that does.
            over_work: Whether it lies over the work surface's outline.
            middle: (2,) of the work surface.
            work_height: Of the work surface.
        """
        self._points, self._hangs, self._cut = points, hangs, cut
        self._colourful, self._on_work, self._over_work = colourful, on_work, over_work
        self._middle, self._height = middle, work_height

    def members(self) -> list[int]:
        """Indices of the parts that are one robot, in order; empty where none begins one."""
        group = {k for k in range(len(self._points)) if self._begins(k)}
        open_parts = set(range(len(self._points))) - group
        fresh = set(group)
        while fresh and open_parts:
            tree = cKDTree(np.concatenate([self._points[k] for k in sorted(fresh)]))
            fresh = {k for k in open_parts if self._belongs(k, tree)}
            group |= fresh
            open_parts -= fresh
        return sorted(group)

    def _begins(self, k: int) -> bool:
        points = self._points[k]
        large = float(np.ptp(points, axis=0).max()) > LARGE_M
        if self._hangs[k]:
            plain = self._colourful[k] < PLAIN and float(np.ptp(points, axis=0).max()) > SMALL_M
            return large or plain or self._cut[k]
        if self._on_work[k]:
            return False
        beside = float(np.linalg.norm(points[:, :2] - self._middle, axis=1).min()) < BESIDE_M
        return large and beside and float(points[:, 2].max()) > self._height + TALL_M

    def _belongs(self, k: int, robot: cKDTree) -> bool:
        """Near parts that stand on no work surface, but for small ones of a colour of their own over it: held ones."""
        if self._on_work[k]:
            return False
        points = self._points[k]
        small = float(np.ptp(points, axis=0).max()) < SMALL_M
        held = small and self._over_work[k] and not self._cut[k] and self._colourful[k] > COLOURFUL
        if held:
            return False
        distance = float(robot.query(points[:: max(1, len(points) // 100)], k=1)[0].min())
        return distance < (HANG_LINK_M if self._hangs[k] else LINK_M)
