"""Reads a training run's own file of episodes without touching it; `embodied.learning.episode_file` has its layout."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from struct import Struct

import numpy as np

from embodied.errors import IntegrityError, LayoutError
from embodied.learning.datasets.terms import names_of
from embodied.learning.episode_file import MAGIC, RECORD_HEAD, Column
from embodied.spec import EnvSpec
from embodied.types import Episode

NAME = "episodes.bin"
_HEADER = Struct("<II")
_RECORD = Struct("<IQII")


@dataclass
class ReplayContents:
    """What a look through a run's file found."""

    places: list[tuple[int, int]]
    """For each intact episode where its numbers begin, in bytes, and its steps."""
    lost: int = 0
    """Episodes whose checksum fails."""
    cut: int = 0
    """Bytes behind the last record that can be told apart."""


def replay_file_at(path: Path) -> Path | None:
    """The run's file at `path`, or in the run folder `path`; None where there is none."""
    file = path / NAME if path.is_dir() else path
    if not file.is_file():
        return None
    with file.open("rb") as stream:
        return file if stream.read(len(MAGIC) - 2) == MAGIC[:-2] else None


class ReplayFile:
    """Whole episodes, oldest first."""

    def __init__(self, file: Path, spec: EnvSpec) -> None:
        """Checks every episode.

        Raises:
            IntegrityError: The header is damaged, or a newer version's.
            LayoutError: The file holds another task's episodes.
        """
        self.file = file
        self._data = np.memmap(file, dtype=np.uint8, mode="r")
        self._columns, start = self._header()
        self._check_task(spec)
        self.contents = self._look_through(start)

    def __iter__(self) -> Iterator[Episode]:
        for start, steps in self.contents.places:
            arrays = {}
            for column in self._columns:
                stop = start + column.nbytes(steps)
                flat = np.frombuffer(self._data[start:stop].tobytes(), dtype=column.dtype)
                arrays[column.name] = flat.reshape(column.rows(steps), *column.shape).copy()
                start = stop
            yield Episode(**arrays)

    @property
    def remarks(self) -> str | None:
        """In one line what was cut off; None where the file is whole."""
        found = self.contents
        if not (found.lost or found.cut):
            return None
        steps = sum(steps for _, steps in found.places)
        kept = f"{len(found.places)} episodes ({steps:,} steps) intact and used"
        return f"{self.file}: it is damaged: {kept}, {found.lost} more and {found.cut:,} bytes at its end cut off"

    def _header(self) -> tuple[tuple[Column, ...], int]:
        first = self._data[: len(MAGIC)].tobytes()
        if first != MAGIC:
            raise IntegrityError("it was written by a newer version: update the software")
        start = len(MAGIC) + _HEADER.size
        head = self._data[len(MAGIC) : start].tobytes()
        length, check = _HEADER.unpack(head) if len(head) == _HEADER.size else (0, 0)
        text = self._data[start : start + length].tobytes()
        if not text or zlib.crc32(text) != check:
            raise IntegrityError("it is damaged: its header fails its checksum")
        return tuple(Column(name, dtype, tuple(shape)) for name, dtype, shape in json.loads(text)), start + length

    def _check_task(self, spec: EnvSpec) -> None:
        layout, entities = spec.layout, len(spec.layout.entities)
        wanted = {
            "state": (layout.state_width,),
            "entities": (entities, layout.entity_width),
            "achieved": (entities, layout.goal_width),
            "action": (spec.action_width,),
        }
        there = {column.name: column.shape for column in self._columns}
        for name, shape in wanted.items():
            if there.get(name) != shape:
                terms = names_of((*layout.robot, *layout.entity, *layout.goal, *spec.actions))
                raise LayoutError(
                    f"its {name} has shape {there.get(name)}, {spec.task} has {shape}; its terms: {terms}"
                )

    def _look_through(self, start: int) -> ReplayContents:
        found, size = ReplayContents([]), len(self._data)
        while start < size:
            head = self._data[start : start + RECORD_HEAD].tobytes()
            if len(head) < RECORD_HEAD:
                break
            steps, payload, head_check, check = _RECORD.unpack(head)
            first = start + RECORD_HEAD
            fits = payload == sum(column.nbytes(steps) for column in self._columns)
            if zlib.crc32(head[:12]) != head_check or not fits or first + payload > size:
                break
            if zlib.crc32(self._data[first : first + payload].tobytes()) == check:
                found.places.append((first, steps))
            else:
                found.lost += 1
            start = first + payload
        found.cut = size - start
        return found
