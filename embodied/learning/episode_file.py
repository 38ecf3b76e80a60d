"""An append-only file of whole episodes: what a replay holds, on disk, whatever its size.

Layout (little endian): the line `MAGIC`, then u32 length and u32 CRC-32 of a JSON header that names every column; then
one record per episode: u32 T, u64 payload bytes, u32 CRC-32 of those twelve bytes, u32 CRC-32 of the payload, payload.
A payload is the episode's columns in the header's order. A record is written by one call and never touched again; what
a crash leaves of the last one is cut off when the file is opened at the length that a checkpoint noted.
"""

from __future__ import annotations

import json
import os
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from embodied.errors import IntegrityError, UserError
from embodied.types import Episode

MAGIC = b"embodied-episodes 1\n"
STATE_FIELDS = ("state", "entities", "achieved")
"""Columns with T + 1 rows; the others have T."""
_HEAD = struct.Struct("<II")
_SIZES = struct.Struct("<IQ")
_CHECKS = struct.Struct("<II")
RECORD_HEAD = _SIZES.size + _CHECKS.size
_MAX_HEADER = 1 << 20


@dataclass(frozen=True)
class Column:
    """One field of `Episode`: its type and the shape of a row."""

    name: str
    dtype: str
    shape: tuple[int, ...]

    def rows(self, steps: int) -> int:
        """Rows of an episode of so many steps."""
        return steps + (self.name in STATE_FIELDS)

    def nbytes(self, steps: int) -> int:
        """Bytes of an episode of so many steps."""
        return self.rows(steps) * int(np.prod(self.shape, dtype=np.int64)) * np.dtype(self.dtype).itemsize


def columns_of(rows: dict[str, NDArray[Any]]) -> tuple[Column, ...]:
    """The columns of preallocated row arrays (N, ...), by name."""
    return tuple(Column(name, array.dtype.str, array.shape[1:]) for name, array in rows.items())


@dataclass(frozen=True)
class Place:
    """Where an episode's record lies."""

    offset: int
    """Of its head, in bytes."""
    steps: int
    payload: int
    """Bytes."""

    @property
    def end(self) -> int:
        """First byte after it."""
        return self.offset + RECORD_HEAD + self.payload


class EpisodeFile:
    """Append and read back; one writer at a time."""

    def __init__(self, path: Path, columns: tuple[Column, ...], length: int | None = None) -> None:
        """
        Args:
            path: Made with its header where it is not there.
            columns: Of every episode.
            length: Bytes that a checkpoint vouches for: what lies behind them is cut off. None: start an empty file.

        Raises:
            IntegrityError: The file is not what it claims to be, or shorter than `length`.
        """
        self.path, self.columns = path, columns
        self.places: list[Place] = []
        if length is None:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.unlink(missing_ok=True)
        elif not path.is_file():
            raise IntegrityError(f"{path} is missing")
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            if length is None:
                self.length = self._start()
            else:
                self.length = self._scan(length)
                os.ftruncate(self._fd, self.length)
        except BaseException:
            os.close(self._fd)
            raise

    def append(self, episode: Episode) -> None:
        """Writes a record; an incomplete one (disk full) is taken back before the error is passed on."""
        steps = len(episode)
        payload = b"".join(
            np.ascontiguousarray(getattr(episode, column.name), dtype=column.dtype).tobytes() for column in self.columns
        )
        sizes = _SIZES.pack(steps, len(payload))
        record = sizes + _CHECKS.pack(zlib.crc32(sizes), zlib.crc32(payload)) + payload
        place = Place(self.length, steps, len(payload))
        try:
            self._write(record, self.length)
        except OSError:
            os.ftruncate(self._fd, self.length)
            raise
        self.places.append(place)
        self.length = place.end

    def read(self, place: Place) -> Episode:
        """An episode, after its checksum was compared.

        Raises:
            IntegrityError: It was damaged since it was written.
        """
        data = os.pread(self._fd, RECORD_HEAD + place.payload, place.offset)
        payload = memoryview(data)[RECORD_HEAD:]
        if len(data) != RECORD_HEAD + place.payload or zlib.crc32(payload) != _CHECKS.unpack_from(data, _SIZES.size)[1]:
            raise IntegrityError(f"{self.path} is damaged: the episode at byte {place.offset} fails its checksum")
        found, start = {}, 0
        for column in self.columns:
            count = column.nbytes(place.steps)
            array = np.frombuffer(payload[start : start + count], dtype=column.dtype)
            found[column.name] = array.reshape(column.rows(place.steps), *column.shape)
            start += count
        return Episode(**found)

    def __iter__(self) -> Iterator[Episode]:
        """Every episode, oldest first."""
        return (self.read(place) for place in self.places)

    def sync(self) -> None:
        """What was appended survives a loss of power from here on."""
        os.fsync(self._fd)

    def close(self) -> None:
        """Lets go of the file."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def _write(self, data: bytes, offset: int) -> None:
        view = memoryview(data)
        while view:
            written = os.pwrite(self._fd, view, offset)
            view, offset = view[written:], offset + written

    def _header(self) -> bytes:
        text = json.dumps([[c.name, c.dtype, list(c.shape)] for c in self.columns]).encode()
        return MAGIC + _HEAD.pack(len(text), zlib.crc32(text)) + text

    def _start(self) -> int:
        header = self._header()
        self._write(header, 0)
        return len(header)

    def _scan(self, length: int) -> int:
        """Reads the heads of all records up to `length` and returns it."""
        size = os.fstat(self._fd).st_size
        if size < length:
            raise IntegrityError(f"{self.path} is cut short: {size:,} bytes of the {length:,} that a checkpoint knows")
        offset = self._check_header()
        while offset < length:
            head = os.pread(self._fd, RECORD_HEAD, offset)
            sizes = head[: _SIZES.size]
            if len(head) < RECORD_HEAD or zlib.crc32(sizes) != _CHECKS.unpack_from(head, _SIZES.size)[0]:
                raise IntegrityError(f"{self.path} is damaged: no episode begins at byte {offset}")
            steps, payload = _SIZES.unpack(sizes)
            if payload != sum(column.nbytes(steps) for column in self.columns):
                raise IntegrityError(f"{self.path} is damaged: the episode at byte {offset} has a wrong size")
            self.places.append(Place(offset, steps, payload))
            offset = self.places[-1].end
        if offset != length:
            raise IntegrityError(f"{self.path} is damaged: its episodes do not end at byte {length}")
        return length

    def _check_header(self) -> int:
        start = os.pread(self._fd, len(MAGIC) + _HEAD.size, 0)
        if start[: len(MAGIC)] != MAGIC or len(start) < len(MAGIC) + _HEAD.size:
            found = start[: len(MAGIC)]
            if found.startswith(MAGIC[:-2]) and found[-1:] == b"\n":
                raise IntegrityError(f"{self.path} was written by a newer version: update the software")
            raise IntegrityError(f"{self.path} is no file of episodes")
        count, check = _HEAD.unpack_from(start, len(MAGIC))
        text = os.pread(self._fd, min(count, _MAX_HEADER), len(start))
        if len(text) != count or zlib.crc32(text) != check:
            raise IntegrityError(f"{self.path} is damaged: its header fails its checksum")
        if MAGIC + _HEAD.pack(count, check) + text != self._header():
            raise UserError(f"{self.path} holds episodes of another task: resume with the task that it was begun with")
        return len(start) + count
