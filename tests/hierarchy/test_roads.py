"""Ways over a floor, and a controller of a corridor that follows them."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from embodied.hierarchy.roads import LARGE_MAZE_CORRIDOR, RoadController, RoadsConfig, find_way
from embodied.spec import Layout, Term
from embodied.types import Goal, Observation


@dataclass(frozen=True)
class Grid:
    """10 x 10 m in cells of 0.25 m with a wall across at x = 5 m, open from y = 7 m to 8.5 m unless closed."""

    clearance: Any
    corner_m: tuple[float, float] = (0.0, 0.0)
    cell_m: float = 0.25
    movable: tuple[str, ...] = field(default=())


def grid(closed: bool = False) -> Grid:
    free = np.ones((40, 40), dtype=bool)
    free[20] = False
    if not closed:
        free[20, 28:35] = True
    level, clear = free, free.astype(np.int8)
    for _ in range(5):
        padded = np.pad(level, 1, constant_values=False)
        level = np.logical_and.reduce([padded[i : i + 40, j : j + 40] for i in range(3) for j in range(3)])
        clear += level
    return Grid(clear)


def test_a_way_leads_through_the_door_and_touches_nothing() -> None:
    floor = grid()
    way = find_way(floor, (2.0, 2.0), (8.0, 2.0))
    assert way is not None
    assert way[-1] == (8.0, 2.0)
    points = [(2.0, 2.0), *way]
    for a, b in pairwise(points):
        for t in np.linspace(0, 1, 50):
            x, y = (a[k] + t * (b[k] - a[k]) for k in (0, 1))
            assert floor.clearance[round(x / 0.25), round(y / 0.25)] > 0
    assert len(way) <= 6, "straight stretches are one leg"
    assert find_way(grid(closed=True), (2.0, 2.0), (8.0, 2.0)) is None


def test_what_cannot_be_stood_on_is_reached_from_beside_it() -> None:
    floor = grid()
    way = find_way(floor, (2.0, 2.0), (5.0, 2.0), RoadsConfig(near_m=1.0))
    assert way is not None
    assert 0 < np.hypot(way[-1][0] - 5.0, way[-1][1] - 2.0) <= 1.0
    assert way[-1][0] < 5.0


class Maze:
    """A proportional controller that only knows its corridor: anywhere else it does nothing."""

    manifest = None

    def act(self, observation: Observation, goal: Goal) -> np.ndarray:
        x, y = observation.achieved[0, :2]
        begin, length = LARGE_MAZE_CORRIDOR.begin_m, LARGE_MAZE_CORRIDOR.length_m
        if not (begin[0] - 0.5 <= x <= begin[0] + length and abs(y - begin[1]) < 0.5):
            return np.zeros(2, dtype=np.float32)
        return np.clip(goal.value[:2] - (x, y) - 0.5 * observation.state[2:4], -1, 1).astype(np.float32)


@pytest.mark.parametrize("turn", [0, 1])
def test_the_corridor_s_controller_drives_the_whole_way(turn: int) -> None:
    terms = (Term("position", 2, "m"), Term("velocity", 2, "m/s"))
    layout = Layout(terms, (), (Term("position", 3, "m"),), ("robot",))
    floor = grid() if not turn else Grid(grid().clearance.T.copy())
    place, speed = np.array([2.0, 2.0]), np.zeros(2)
    goal = Goal("robot", np.array([2.0, 8.0, 0.0] if turn else [8.0, 2.0, 0.0]), np.array([True, True, False]))
    driver = RoadController(Maze(), floor)  # type: ignore[arg-type]
    for _ in range(600):
        state = np.concatenate([place, speed]).astype(np.float32)
        shown = Observation(state, np.zeros((1, 0), np.float32), np.array([[*place, 0.0]], np.float32), layout)
        speed = 0.9 * speed + 0.5 * driver.act(shown, goal)
        place = place + 0.05 * speed
        assert floor.clearance[round(place[0] / 0.25), round(place[1] / 0.25)] > 0
    assert goal.distance(np.array([*place, 0.0], dtype=np.float32)) < 0.6


def test_where_there_is_no_way_nothing_is_pushed() -> None:
    layout = Layout((Term("position", 2, "m"), Term("velocity", 2, "m/s")), (), (Term("position", 3, "m"),), ("robot",))
    shown = Observation(
        np.array([2, 2, 0, 0], np.float32), np.zeros((1, 0), np.float32), np.array([[2, 2, 0]], np.float32), layout
    )
    goal = Goal("robot", np.array([8.0, 2.0, 0.0]), np.array([True, True, False]))
    assert not RoadController(Maze(), grid(closed=True)).act(shown, goal).any()  # type: ignore[arg-type]
