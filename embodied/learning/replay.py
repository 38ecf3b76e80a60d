"""Whole episodes in preallocated arrays: what happened, nothing derived."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from embodied.errors import UserError
from embodied.learning.episode_file import STATE_FIELDS
from embodied.learning.memory import refuse_too_large
from embodied.spec import EnvSpec
from embodied.types import BoolArray, Episode, FloatArray

Arrays = dict[str, NDArray[Any]]


class EpisodeReplay:
    """A ring of rows in which every episode lies in one piece.

    An episode of T steps takes T + 1 rows, the last of which holds only the final state. One that does not fit before
    the end of the arrays starts again at row 0; the oldest episodes in its way are forgotten. Memory is reserved at
    once and touched as it fills.
    """

    def __init__(self, spec: EnvSpec, capacity: int) -> None:
        """Args:
        spec: Gives the widths.
        capacity: Rows; must hold at least one episode of `spec.horizon` steps.
        """
        if capacity < spec.horizon + 1:
            raise UserError(f"replay capacity {capacity} is too small: one episode takes {spec.horizon + 1} rows")
        self.capacity, self._horizon = capacity, spec.horizon
        shapes = _shapes(spec)
        each = sum(_bytes(shape, dtype) for shape, dtype in shapes.values())
        refuse_too_large(capacity, each + 4 * len(spec.layout.entities))
        # A row lies in one piece: a drawn one is one place in memory to fetch, not one in every array. What is achieved
        # lies apart, because several rows of it are looked at, one after the other.
        pursued = ("pursued", np.int32, (len(spec.layout.entities),))
        together = [(name, dtype, shape) for name, (shape, dtype) in shapes.items() if name != "achieved"]
        table = np.zeros(capacity, [*together, pursued])
        achieved = np.zeros((capacity, *shapes["achieved"][0]), np.float32)
        self.rows = {name: achieved if name == "achieved" else table[name] for name in shapes}
        self.pursued = table["pursued"]
        """(N, E) 1 + the last row of a row's episode in which this entity's goal was pursued; 0: never."""
        self._episodes = _Episodes()
        self._free = 0

    def __len__(self) -> int:
        """Transitions that can be drawn."""
        return self._episodes.steps

    def __iter__(self) -> Iterator[Episode]:
        """Episodes, oldest first, as copies."""
        for start, length in self._episodes:
            parts = {
                name: rows[start : start + length + (name in STATE_FIELDS)].copy() for name, rows in self.rows.items()
            }
            yield Episode(**parts)

    def add(self, episode: Episode) -> None:
        """Take in a finished episode of any length from 1 step on."""
        start = self._make_room(len(episode))
        self._fill(start, episode)

    def draw(self, size: int, rng: np.random.Generator) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Transitions drawn uniformly, with replacement, in the order in which they lie: near ones are found faster.

        Returns:
            Rows t, and for each the row of its episode's final state T (t < T), both of shape (size,).
        """
        if len(self) == 0:
            raise UserError("the replay is empty: no episode was finished yet")
        return self._episodes.locate(np.sort(rng.integers(0, len(self), size)))

    def refill(self, steps: Sequence[int], read: Callable[[int], Episode]) -> None:
        """Back to the state after adding episodes of these lengths; only those that are still there are read.

        Args:
            steps: Length of every episode that was ever added, oldest first.
            read: The episode with this index.
        """
        self._episodes = _Episodes()
        self._free = 0
        for length in steps:
            self._make_room(length)
        first = len(steps) - len(self._episodes)
        for index, (start, _) in enumerate(self._episodes):
            self._fill(start, read(first + index))

    def achieved(self, row: NDArray[np.int64], entity: NDArray[np.int32]) -> FloatArray:
        """What these entities have achieved in these rows: both of one shape (...), result (..., G)."""
        rows = self.rows["achieved"]
        return rows.reshape(-1, rows.shape[2]).take(row * rows.shape[1] + entity, axis=0)

    def broken_off(self, last: NDArray[np.int64]) -> BoolArray:
        """Whether the episodes with these final rows ended before their time, neither by the task nor by success."""
        return self.rows["truncated"][last]

    @property
    def bytes_per_row(self) -> int:
        """Memory of a row; an episode of T steps takes T + 1."""
        return row_bytes({**self.rows, "pursued": self.pursued})

    def _make_room(self, length: int) -> int:
        """Reserves rows for an episode of so many steps, forgets what lies there, and returns the first."""
        if not 0 < length < self.capacity:
            raise UserError(f"an episode of {length} steps does not fit a replay of {self.capacity} rows")
        if self._free + length + 1 > self.capacity:
            self._forget(self._free, self.capacity)
            self._free = 0
        start, stop = self._free, self._free + length + 1
        self._forget(start, stop)
        self._episodes.append(start, length)
        self._free = stop
        return start

    def _fill(self, start: int, episode: Episode) -> None:
        stop = start + len(episode) + 1
        for name, rows in self.rows.items():
            rows[start : stop - (name not in STATE_FIELDS)] = getattr(episode, name)
        last = np.zeros(self.pursued.shape[1], dtype=np.int32)
        last[episode.goal_entity] = start + 1 + np.arange(len(episode))
        self.pursued[start:stop] = last
        # A final state has no step of its own to be truncated: its place says how the episode ended.
        short = len(episode) < self._horizon and not episode.success[-1]
        self.rows["truncated"][stop - 1] = bool(episode.truncated[-1]) and short

    def _forget(self, start: int, stop: int) -> None:
        while len(self._episodes):
            first, length = self._episodes.oldest
            if first >= stop or first + length + 1 <= start:
                return
            self._episodes.forget_oldest()


class _Episodes:
    """Where the episodes lie, oldest first, as arrays that grow at one end and are forgotten from the other.

    An episode costs the same however many there are: the arrays are moved to new ones, twice as long as what is left,
    only when their end is reached.
    """

    def __init__(self) -> None:
        self._starts, self._ends, self._before = (np.zeros(64, dtype=np.int64) for _ in range(3))
        self._first = self._last = 0

    def __len__(self) -> int:
        return self._last - self._first

    def __iter__(self) -> Iterator[tuple[int, int]]:
        """First row and steps of each."""
        for start, end in zip(
            *(part[self._first : self._last].tolist() for part in (self._starts, self._ends)), strict=True
        ):
            yield start, end - start

    @property
    def steps(self) -> int:
        """Steps of all episodes together."""
        return int(self._before[self._last] - self._before[self._first])

    @property
    def oldest(self) -> tuple[int, int]:
        """Its first row and its steps."""
        start = int(self._starts[self._first])
        return start, int(self._ends[self._first]) - start

    def append(self, start: int, steps: int) -> None:
        """One more, the newest."""
        last = self._last
        if last + 1 == len(self._before):
            self._move()
            last = self._last
        self._starts[last], self._ends[last] = start, start + steps
        self._before[last + 1] = self._before[last] + steps
        self._last += 1

    def forget_oldest(self) -> None:
        """One less."""
        self._first += 1

    def locate(self, picks: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Rows of these steps, counted through all episodes, and the rows of their episodes' final states."""
        before = self._before[self._first : self._last + 1]
        picks = picks + before[0]
        episode = np.searchsorted(before, picks, side="right") + (self._first - 1)
        return self._starts[episode] + picks - self._before[episode], self._ends[episode]

    def _move(self) -> None:
        kept, size = len(self), max(64, 2 * len(self) + 2)
        for name in ("_starts", "_ends", "_before"):
            old, new = getattr(self, name), np.zeros(size, dtype=np.int64)
            new[: kept + 1] = old[self._first : self._last + 1]
            setattr(self, name, new)
        self._before[: kept + 1] -= self._before[0]
        self._first, self._last = 0, kept


def _shapes(spec: EnvSpec) -> dict[str, tuple[tuple[int, ...], Any]]:
    """Shape of a row and type, by field of `Episode`."""
    layout, actions = spec.layout, spec.action_width
    entities, goal = len(layout.entities), layout.goal_width
    shapes: dict[str, tuple[tuple[int, ...], Any]] = {
        "state": ((layout.state_width,), np.float32),
        "entities": ((entities, layout.entity_width), np.float32),
        "achieved": ((entities, goal), np.float32),
        "goal_entity": ((), np.int32),
        "goal_value": ((goal,), np.float32),
        "goal_mask": ((goal,), np.bool_),
        "action": ((actions,), np.float32),
        "interval": ((2, actions), np.float32),
        "reward": ((), np.float32),
        "terminated": ((), np.bool_),
        "truncated": ((), np.bool_),
        "success": ((), np.bool_),
        "subgoal_id": ((), np.int32),
    }
    if set(shapes) != {field.name for field in fields(Episode)}:
        raise TypeError("the replay's rows and the fields of Episode have come apart")
    return shapes


def row_bytes(rows: Arrays) -> int:
    """Memory of a row of all arrays together."""
    return sum(array.nbytes // len(array) for array in rows.values())


def _bytes(shape: tuple[int, ...], dtype: Any) -> int:
    return int(np.prod(shape, dtype=np.int64)) * np.dtype(dtype).itemsize
