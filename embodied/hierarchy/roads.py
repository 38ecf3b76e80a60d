"""Ways over a floor: the cheapest one on a grid, straightened, and a controller that follows it leg by leg.

The controller that drives was trained in a maze. Each leg is shown to it as a stretch of a straight corridor of that
maze: moved and turned, positions and speeds, and its forces are turned back.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from itertools import pairwise
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from embodied.protocols import Controller
from embodied.types import FloatArray, Goal, Observation

Cell = tuple[int, int]
Point = tuple[float, float]
_STEPS = [(i, j) for i in (-1, 0, 1) for j in (-1, 0, 1) if (i, j) != (0, 0)]


class Floor(Protocol):
    """Where the robot can stand, on a grid in B."""

    @property
    def corner_m(self) -> Point: ...
    @property
    def cell_m(self) -> float: ...
    @property
    def clearance(self) -> NDArray[np.int8]:
        """(X, Y): 0 where something is in the way, else cells to the nearest such place."""
        ...

    @property
    def movable(self) -> tuple[str, ...]: ...


@dataclass(frozen=True)
class RoadsConfig:
    """Lengths in metres."""

    room: int = 4
    """Cells of clearance that a way keeps where it can."""
    narrow_cost: float = 1.5
    """What each missing cell of clearance adds to the cost of a step."""
    near_m: float = 1.2
    """A thing that cannot be stood on is reached from so near its middle."""
    pass_m: float = 0.5
    """A waypoint nearer than this has been passed."""
    leg_m: float = 3.0
    """Longest leg that a controller is shown."""
    off_m: float = 1.0
    """Further than this from the leg, the way is looked for anew."""


def find_way(floor: Floor, start: Point, end: Point, config: RoadsConfig | None = None) -> tuple[Point, ...] | None:
    """Waypoints in B from a place to another, the second first and the end last; None where there is no way.

    Dijkstra's algorithm over cells, dearer where walls are near; then waypoints that a straight line can pass over are
    left out. An end on which nothing can stand is reached at the first free cell within `near_m` of it.
    """
    config = config or RoadsConfig()
    clear = floor.clearance
    first = _nearest_free(clear, _cell(floor, start))
    if first is None:
        return None
    goals = _goals(floor, end, config)
    came, found = _search(clear, first, goals, config)
    if found is None:
        return None
    cells = [found]
    while cells[-1] != first:
        cells.append(came[cells[-1]])
    points = [_point(floor, cell) for cell in _straightened(clear, cells[::-1], config)]
    if len(points) == 1:
        return (points[0],)
    last = _cell(floor, end)
    exact = _inside(clear, last) and bool(clear[last])
    return (*points[1:-1], end if exact else points[-1])


def _search(
    clear: NDArray[np.int8], first: Cell, goals: set[Cell], config: RoadsConfig
) -> tuple[dict[Cell, Cell], Cell | None]:
    best, came, heap = {first: 0.0}, dict[Cell, Cell](), [(0.0, first)]
    while heap:
        spent, cell = heapq.heappop(heap)
        if cell in goals:
            return came, cell
        if spent > best[cell]:
            continue
        for i, j in _STEPS:
            following = (cell[0] + i, cell[1] + j)
            if not _inside(clear, following) or not clear[following]:
                continue
            if i and j and not (clear[cell[0] + i, cell[1]] and clear[cell[0], cell[1] + j]):
                continue
            missing = max(config.room - int(clear[following]), 0)
            cost = spent + (i * i + j * j) ** 0.5 * (1.0 + config.narrow_cost * missing)
            if cost < best.get(following, np.inf):
                best[following], came[following] = cost, cell
                heapq.heappush(heap, (cost, following))
    return came, None


def _goals(floor: Floor, end: Point, config: RoadsConfig) -> set[Cell]:
    middle = _cell(floor, end)
    if _inside(floor.clearance, middle) and floor.clearance[middle]:
        return {middle}
    reach = int(config.near_m / floor.cell_m)
    around = [(i, j) for i in range(-reach, reach + 1) for j in range(-reach, reach + 1) if i * i + j * j <= reach**2]
    near = [(middle[0] + i, middle[1] + j) for i, j in around]
    return {cell for cell in near if _inside(floor.clearance, cell) and floor.clearance[cell]}


def _straightened(clear: NDArray[np.int8], cells: list[Cell], config: RoadsConfig) -> list[Cell]:
    """The ends, and between them only where a straight line would come too near to something."""
    kept, index = [cells[0]], 0
    while index < len(cells) - 1:
        following = index + 1
        for candidate in range(len(cells) - 1, index, -1):
            between = cells[index : candidate + 1]
            room = min(config.room, *(int(clear[cell]) for cell in between))
            if _line_clearance(clear, cells[index], cells[candidate]) >= room:
                following = candidate
                break
        kept.append(cells[following])
        index = following
    return kept


def _line_clearance(clear: NDArray[np.int8], a: Cell, b: Cell) -> int:
    count = 2 * max(abs(a[0] - b[0]), abs(a[1] - b[1])) + 1
    rows, columns = (np.linspace(a[k], b[k], count).round().astype(int) for k in (0, 1))
    return int(clear[rows, columns].min())


def _nearest_free(clear: NDArray[np.int8], cell: Cell) -> Cell | None:
    """The cell, or the nearest within 5 where the robot can stand: rounding may have put it into a wall."""
    around = sorted(((i, j) for i in range(-5, 6) for j in range(-5, 6)), key=lambda o: o[0] ** 2 + o[1] ** 2)
    cells = ((cell[0] + i, cell[1] + j) for i, j in around)
    return next((c for c in cells if _inside(clear, c) and clear[c]), None)


def _inside(clear: NDArray[np.int8], cell: Cell) -> bool:
    return 0 <= cell[0] < clear.shape[0] and 0 <= cell[1] < clear.shape[1]


def _cell(floor: Floor, point: Point) -> Cell:
    i, j = ((point[k] - floor.corner_m[k]) / floor.cell_m for k in (0, 1))
    return int(np.clip(round(i), -1, floor.clearance.shape[0])), int(np.clip(round(j), -1, floor.clearance.shape[1]))


def _point(floor: Floor, cell: Cell) -> Point:
    return floor.corner_m[0] + cell[0] * floor.cell_m, floor.corner_m[1] + cell[1] * floor.cell_m


@dataclass(frozen=True)
class Corridor:
    """A straight stretch of the maze that a controller was trained in: where it begins, and it leads along +x."""

    begin_m: Point
    length_m: float


LARGE_MAZE_CORRIDOR = Corridor((-4.2, 1.0), 4.4)
"""In PointMaze_Large (cells of 1 m) row 3 is free from x = -4.5 to 0.5 at y = 1."""


class RoadController:
    """Drives along ways over a floor with a controller that knows straight corridors.

    Args:
        controller: Trained on a point maze.
        floor: Where the robot can stand.
        corridor: A stretch of its maze.
    """

    def __init__(
        self, controller: Controller, floor: Floor, corridor: Corridor = LARGE_MAZE_CORRIDOR,
        config: RoadsConfig | None = None,
    ) -> None:  # fmt: skip
        self.manifest = controller.manifest
        self._controller, self._floor, self._corridor = controller, floor, corridor
        self._config = config or RoadsConfig()
        self._goal: Point | None = None
        self._way: list[Point] = []
        self._from: Point = (0.0, 0.0)

    def act(self, observation: Observation, goal: Goal) -> FloatArray:
        """The force towards the next waypoint, (2,), in action units; none where there is no way."""
        here = (float(observation.achieved[0, 0]), float(observation.achieved[0, 1]))
        end = (float(goal.value[0]), float(goal.value[1]))
        if end != self._goal or (self._way and self._off(here)):
            self._goal, self._from = end, here
            self._way = self._legs(here, end)
        while len(self._way) > 1 and self._passed(here):
            self._from = self._way.pop(0)
        if not self._way:
            return np.zeros(2, dtype=np.float32)
        return self._drive(observation, here, self._way[0])

    def _legs(self, here: Point, end: Point) -> list[Point]:
        """Waypoints at most `leg_m` apart."""
        points = [here, *(find_way(self._floor, here, end, self._config) or ())]
        found: list[Point] = []
        for a, b in pairwise(points):
            count = max(int(np.ceil(np.hypot(b[0] - a[0], b[1] - a[1]) / self._config.leg_m)), 1)
            found += [(a[0] + (b[0] - a[0]) * k / count, a[1] + (b[1] - a[1]) * k / count) for k in range(1, count + 1)]
        return found

    def _passed(self, here: Point) -> bool:
        """Near the waypoint, or beyond it along the leg."""
        target = np.subtract(self._way[0], here)
        return float(np.hypot(*target)) < self._config.pass_m

    def _off(self, here: Point) -> bool:
        along, across = self._split(here)
        del along
        return abs(across) > self._config.off_m

    def _split(self, here: Point) -> Point:
        """How far along the present leg, and how far beside it (left positive), metres."""
        turn = self._turn(self._way[0])
        along, across = turn.T @ np.subtract(here, self._from)
        return float(along), float(across)

    def _turn(self, target: Point) -> NDArray[np.float64]:
        """B_from_leg rotation, (2, 2): the leg's x axis leads from its beginning to the waypoint."""
        way = np.subtract(target, self._from)
        length = float(np.hypot(*way))
        c, s = way / length if length > 1e-6 else (1.0, 0.0)
        return np.array([[c, -s], [s, c]])

    def _drive(self, observation: Observation, here: Point, target: Point) -> FloatArray:
        turn = self._turn(target)
        begin = np.asarray(self._corridor.begin_m)
        place = begin + turn.T @ np.subtract(here, self._from)
        aim = begin + turn.T @ np.subtract(target, self._from)
        place[0] = np.clip(place[0], begin[0] - 0.2, begin[0] + self._corridor.length_m)
        speed = turn.T @ observation.state[2:4].astype(np.float64)
        state = np.concatenate([place, speed]).astype(np.float32)
        shown = Observation(state, observation.entities, np.array([[*place, 0.0]], np.float32), observation.layout)
        wish = Goal("robot", np.array([*aim, 0.0]), np.array([True, True, False]))
        force = self._controller.act(shown, wish)
        return (turn @ force.astype(np.float64)).astype(np.float32)
