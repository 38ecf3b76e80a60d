"""Sealed records: what an episode consists of, where its bytes lie in the file, and a hash over all of it.

A record is found by its first 16 bytes, without HDF5, so that episodes can be read from a file whose structure is
broken; and it says whether the numbers that HDF5 gives are those that were written.
"""

from __future__ import annotations

import hashlib
import json
import mmap
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from embodied.errors import IntegrityError

SCHEMA = 1
"""Of the records and of the group in which they lie."""
FILE_MARK = bytes.fromhex("d6f04c1b9a3e57c2e85d7721b40af993")
EPISODE_MARK = bytes.fromhex("a35e0dc4781b92f66c41e9d0275fb83a")
"""Random; a record is one of these, the length and CRC-32 of its JSON (each 4 bytes, little-endian), and the JSON."""
_FRAME = len(FILE_MARK) + 8

Arrays = dict[str, NDArray[Any]]
Record = dict[str, Any]


def pack(mark: bytes, record: Record) -> bytes:
    """A record as bytes."""
    text = json.dumps(record, sort_keys=True, separators=(",", ":")).encode()
    return mark + len(text).to_bytes(4, "little") + zlib.crc32(text).to_bytes(4, "little") + text


def unpack(data: bytes | mmap.mmap, mark: bytes, start: int = 0) -> Record | None:
    """The record at `start`; None where it is damaged.

    Raises:
        IntegrityError: It is of a newer schema than this version reads.
    """
    if data[start : start + len(mark)] != mark:
        return None
    first = start + _FRAME
    length = int.from_bytes(data[first - 8 : first - 4], "little")
    text = data[first : first + length]
    if len(text) < length or zlib.crc32(text) != int.from_bytes(data[first - 4 : first], "little"):
        return None
    record = json.loads(text)
    if record["schema"] > SCHEMA:
        raise IntegrityError(
            f"it has schema {record['schema']}, this version reads up to {SCHEMA}: update the software"
        )
    return record


def scan(data: mmap.mmap, mark: bytes) -> Iterator[Record]:
    """Every undamaged record in the bytes of a file, in order."""
    start = data.find(mark)
    while start >= 0:
        record = unpack(data, mark, start)
        if record is not None:
            yield record
        start = data.find(mark, start + 1)


@dataclass(frozen=True)
class EpisodeSeal:
    """What an episode's record says."""

    layout: str
    task: str
    terms: str
    """Fingerprint of the task's terms."""
    episode: int
    """Number of the episode, from 0."""
    steps: int
    seed: int | None
    shapes: Mapping[str, tuple[str, tuple[int, ...]]]
    """For each array by its path in the episode's group: dtype and shape."""
    sha256: str
    """Over everything above and the bytes of the arrays."""

    @classmethod
    def of(cls, head: Record, arrays: Arrays) -> EpisodeSeal:
        """The seal of an episode; `head` has the fields before `shapes`."""
        shapes = {path: (array.dtype.str, array.shape) for path, array in sorted(arrays.items())}
        return cls(**head, shapes=shapes, sha256=_digest({**head, "shapes": shapes}, arrays))

    @classmethod
    def from_record(cls, record: Record) -> EpisodeSeal:
        """Undo `record`."""
        shapes = {path: (dtype, tuple(shape)) for path, (dtype, shape) in record["shapes"].items()}
        names = ("layout", "task", "terms", "episode", "steps", "seed", "sha256")
        return cls(**{name: record[name] for name in names}, shapes=shapes)

    def record(self, offsets: Mapping[str, int]) -> Record:
        """As JSON; `offsets` says where in the file each array begins."""
        return {**vars(self), "schema": SCHEMA, "shapes": dict(self.shapes), "offsets": dict(offsets)}

    def holds(self, arrays: Arrays) -> bool:
        """Whether these are the arrays that were sealed, bit for bit."""
        if {path: (array.dtype.str, array.shape) for path, array in arrays.items()} != dict(self.shapes):
            return False
        head = {key: value for key, value in vars(self).items() if key != "sha256"}
        return _digest({**head, "shapes": dict(sorted(self.shapes.items()))}, arrays) == self.sha256


def arrays_at(data: mmap.mmap, record: Record) -> Arrays | None:
    """A record's arrays straight from the file's bytes; None where they are not all there."""
    arrays = {}
    for path, (dtype, shape) in record["shapes"].items():
        kind, start = np.dtype(dtype), record["offsets"][path]
        stop = start + int(np.prod(shape)) * kind.itemsize
        if stop > len(data):
            return None
        arrays[path] = np.frombuffer(data[start:stop], dtype=kind).reshape(shape)
    return arrays


def _digest(head: Record, arrays: Arrays) -> str:
    whole = hashlib.sha256(json.dumps(head, sort_keys=True).encode())
    for _, array in sorted(arrays.items()):
        whole.update(np.ascontiguousarray(array).tobytes())
    return whole.hexdigest()
