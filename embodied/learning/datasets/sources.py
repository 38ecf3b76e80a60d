"""Ways to get at the episodes of a file: through HDF5, or by their records where the file's structure is broken."""

from __future__ import annotations

import mmap
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Protocol, TypeVar

import numpy as np

from embodied.errors import EmbodiedError, UserError
from embodied.learning.datasets.columns import OWN, Arrays, Columns
from embodied.learning.datasets.files import PaddedFile
from embodied.learning.datasets.layouts import FileLayout, UnknownLayout, all_layouts, layout_named
from embodied.learning.datasets.seal import EPISODE_MARK, FILE_MARK, EpisodeSeal, Record, arrays_at, scan, unpack

RECORD = f"{OWN}/record"
HEADER = OWN
"""Attribute of the file that holds its record."""
T = TypeVar("T")


class Broken(Exception):
    """Something in a file cannot be read, or is not what was written; the message says what in a few words."""


@dataclass(frozen=True)
class Stored:
    """An episode as it lies in a file."""

    columns: Columns
    own: Arrays | None
    """Our arrays by name; None where other software recorded the episode."""
    seed: int | None


class Lacking(Broken):
    """An episode has not the arrays that a goal task's has."""


class Source(Protocol):
    """Episodes of one file."""

    layout: FileLayout
    header: Record | None
    """The file's record; None for files of others."""

    def env_id(self, file: Path) -> str | None:
        """Gymnasium's name of the environment, where the data set says it."""
        ...

    def numbers(self) -> list[int]:
        """Those that the file has, readable or not; `Broken` where it does not tell."""
        ...

    def load(self, number: int) -> Stored:
        """An episode; `Broken` where it is not intact."""
        ...

    def close(self) -> None: ...


def guarded(action: Callable[[], T]) -> T:
    """What `action` returns; whatever HDF5 raises on a damaged file becomes `Broken`."""
    try:
        return action()
    except (EmbodiedError, Broken):
        raise
    except ModuleNotFoundError as error:
        raise UserError(f"'{error.name}' is missing: pip install 'embodied-control[train]'") from None
    except Exception as error:  # a damaged file makes h5py raise nearly anything
        raise Broken(" ".join(str(error).split())[:120] or type(error).__name__) from error


class Hdf5Source:
    """Through HDF5. Of a truncated file there are two views, which differ in what stands behind its end: what reads the
    same in both does not depend on it."""

    def __init__(self, layout: FileLayout, files: Sequence[Any], data: mmap.mmap | None = None) -> None:
        """
        Args:
            layout: Of the files.
            files: Open in h5py: the file, or its two views.
            data: The bytes of a file of ours, where it is whole: HDF5 then says where numbers lie, and they are taken
                from there, which is many times faster.
        """
        self.layout = layout
        self._files = files
        self._bytes = data
        self.header = guarded(lambda: _header(files[0]))

    def numbers(self) -> list[int]:
        return guarded(lambda: self.layout.numbers(self._files[0]) or [])

    def env_id(self, file: Path) -> str | None:
        return guarded(lambda: self.layout.env_id(self._files[0], file))

    def load(self, number: int) -> Stored:
        first, *others = (guarded(partial(self._load, file, number)) for file in self._files)
        if any(not _alike(first, other) for other in others):
            raise Broken("it goes on behind the end of the file")
        return first

    def close(self) -> None:
        for file in self._files:
            guarded(file.close)
        if self._bytes is not None:
            self._bytes.close()

    def _load(self, file: Any, number: int) -> Stored:
        group = file[self.layout.group_of(number)]
        if self.header is not None and RECORD in group:
            return self._sealed(group)
        paths = [*self.layout.needed, *(path for path in self.layout.optional if path in group)]
        missing = [path for path in paths if path not in group]
        if missing:
            raise Lacking(f"there is no {missing[0]}, but {', '.join(sorted(_leaves(group)))}")
        seed = group.attrs.get("seed")
        columns = self.layout.columns({path: _read(group[path]) for path in paths})
        return Stored(columns, None, None if seed is None else int(seed))

    def _sealed(self, group: Any) -> Stored:
        record = unpack(_read(group[RECORD]).tobytes(), EPISODE_MARK)
        if record is None:
            raise Broken("its record is damaged")
        seal = EpisodeSeal.from_record(record)
        arrays = None
        if self._bytes is not None and _lies_as_written(group, record["offsets"]):
            arrays = arrays_at(self._bytes, record)
        if arrays is None:
            arrays = {path: _read_as(group[path], *kind) for path, kind in seal.shapes.items()}
        return opened(seal, arrays, self.layout)


class RawSource:
    """By the records in the file's bytes, without HDF5."""

    def __init__(self, path: Path, listed: Collection[int] | None) -> None:
        """Of the episodes only those `listed`, where there is a list.

        Raises:
            IntegrityError: A record is of a newer schema.
            Broken: No record is undamaged.
        """
        self._data = _mapped(path)
        header = next(scan(self._data, FILE_MARK), None)
        records = {record["episode"]: record for record in scan(self._data, EPISODE_MARK)}
        newest = header or next(iter(records.values()), None)
        if newest is None:
            raise Broken("no record in it is undamaged")
        self.header: Record | None = {"named": None, "env_id": None, **newest}
        self.layout = layout_named(newest["layout"])
        self.records = {number: record for number, record in records.items() if listed is None or number in listed}
        """By episode; of two records the later one counts."""

    def env_id(self, file: Path) -> str | None:
        del file
        return None

    def numbers(self) -> list[int]:
        return sorted(self.records)

    def load(self, number: int) -> Stored:
        record = self.records[number]
        arrays = arrays_at(self._data, record)
        if arrays is None:
            raise Broken("it goes on behind the end of the file")
        return opened(EpisodeSeal.from_record(record), arrays, self.layout)

    def close(self) -> None:
        self._data.close()


def opened(seal: EpisodeSeal, arrays: Arrays, layout: FileLayout) -> Stored:
    """A sealed episode's parts; `Broken` where the arrays are not those that were sealed."""
    if not seal.holds(arrays):
        raise Broken("its checksum is not that of its numbers")
    own = {path.removeprefix(f"{OWN}/"): array for path, array in arrays.items() if path.startswith(f"{OWN}/")}
    common = {path: array for path, array in arrays.items() if not path.startswith(f"{OWN}/")}
    return Stored(layout.columns(common), own, seal.seed)


def has_records(path: Path) -> bool:
    """Whether there is anything of ours in the file's bytes."""
    if path.stat().st_size == 0:
        return False
    with _mapped(path) as data:
        return data.find(FILE_MARK) >= 0 or data.find(EPISODE_MARK) >= 0


def hdf5_source(path: Path) -> Hdf5Source:
    """A file of ours that is whole as far as its length goes."""
    file = open_hdf5(path)
    try:
        return Hdf5Source(layout_of(file), [file], _mapped(path))
    except BaseException:
        file.close()
        raise


def _mapped(path: Path) -> mmap.mmap:
    with path.open("rb") as file:
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)


def open_hdf5(path: Path) -> Any:
    """The file in h5py, read only, whether or not someone is writing it; `Broken` where HDF5 does not take it."""

    def action() -> Any:
        import h5py

        try:
            return h5py.File(path, "r", locking=False)
        except OSError:
            # Open in this process already, with locks.
            return h5py.File(path, "r")

    return guarded(action)


def open_padded(path: Path, length: int) -> list[Any]:
    """Two views of a truncated file in h5py, continued with zeros and with ones."""

    def action() -> list[Any]:
        import h5py

        return [h5py.File(PaddedFile(path, length, fill), "r") for fill in (0x00, 0xFF)]

    return guarded(action)


def layout_of(file: Any) -> FileLayout:
    """The layout of an open file.

    Raises:
        UnknownLayout: It has neither.
        Broken: It does not tell.
    """
    header = guarded(lambda: _header(file))
    if header is not None:
        return layout_named(header["layout"])
    for layout in all_layouts():
        if guarded(partial(layout.numbers, file)) is not None:
            return layout
    known = "; ".join(f"{layout.name} ({layout.looks_like})" for layout in all_layouts())
    raise UnknownLayout(f"it is HDF5 but of no known layout: {known}")


def _header(file: Any) -> Record | None:
    if HEADER not in file.attrs:
        return None
    record = unpack(np.asarray(file.attrs[HEADER], dtype=np.uint8).tobytes(), FILE_MARK)
    if record is None:
        raise Broken("its header is damaged")
    return record


def _read(dataset: Any) -> np.ndarray:
    """All of a dataset whose declared size is one that the file can hold."""
    space = dataset.nbytes
    if dataset.chunks is None:
        held = dataset.id.get_storage_size()
    else:
        held = dataset.id.get_num_chunks() * int(np.prod(dataset.chunks)) * dataset.dtype.itemsize
    if space > held:
        raise Broken(f"{dataset.name} is not all there")
    return dataset[()]


def _read_as(dataset: Any, dtype: str, shape: tuple[int, ...]) -> np.ndarray:
    if dataset.dtype != np.dtype(dtype) or dataset.shape != shape:
        raise Broken(f"{dataset.name} is not what was written")
    return dataset[()].astype(dtype, copy=False)


def _lies_as_written(group: Any, offsets: Mapping[str, int]) -> bool:
    """Whether HDF5 finds the arrays where their record says; not so where a tool made them anew."""
    from h5py import h5d

    return all((h5d.open(group.id, path.encode()).get_offset() or 0) == at for path, at in offsets.items())


def _leaves(group: Any, prefix: str = "") -> Iterator[str]:
    for name, item in group.items():
        if hasattr(item, "keys"):
            yield from _leaves(item, f"{prefix}{name}/")
        else:
            yield prefix + name


def _alike(one: Stored, other: Stored) -> bool:
    pairs = [(getattr(one.columns, name), getattr(other.columns, name)) for name in vars(one.columns)]
    same = (a is b if a is None or b is None else a.tobytes() == b.tobytes() and a.shape == b.shape for a, b in pairs)
    return one.seed == other.seed and all(same)
