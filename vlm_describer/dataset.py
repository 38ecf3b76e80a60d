"""Labelled frames on disk: a folder of HDF5 files, one for each part, that is written once and read at random.

A part is written under another name and renamed when it is whole, so a writer that was killed goes on after the last
whole part, and no file is ever half there. HDF5's own checksums stand over every array. Depth is kept in whole
millimetres, 0 where nothing was measured or farther than 65.535 m.
"""

from __future__ import annotations

import json
import os
import platform
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from types import TracebackType
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

from embodied.errors import IntegrityError, UserError
from embodied.labels import LABEL_VERSION, FrameLabel, label_from_json
from embodied.types import Frame

FORMAT = "embodied-frames"
FORMAT_VERSION = 1
MM_PER_M = 1000.0
MOST_MM = 65535
_LABEL_CHUNK = 1 << 14
_ARRAYS = ("rgb", "depth_mm", "intrinsics", "world_from_camera", "time_s", "label_bytes", "label_ends")
_PACKAGES = ("mujoco", "numpy", "h5py")

Labelled = tuple[Frame, FrameLabel]


def write_frames(
    folder: Path,
    part: Callable[[int], Iterable[Labelled]],
    parts: int,
    about: Mapping[str, Any],
    progress: Callable[[int, int], None] | None = None,
) -> FrameSet:
    """Writes the parts that are not there yet, and opens the whole.

    Args:
        folder: Made where it is missing.
        part: The labelled frames of part i, the same ones whenever it is asked; all frames of one size, with depth,
            intrinsics and pose.
        parts: How many there are to be. A set grows when it is asked for more; what is there is never written again.
        about: What the frames were made from (seed, configuration), JSON; a set can only go on with the same.
        progress: Called with (parts that are there, parts) before the first and after each one.

    Raises:
        UserError: The folder holds a set about something else, or cannot be written.
        IntegrityError: One of its files is damaged.
    """
    text = json.dumps(dict(about), sort_keys=True)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _check_same(folder, text)
        for index in range(parts):
            if progress is not None:
                progress(index, parts)
            path = folder / _part_name(index)
            if not path.exists():
                _write_part(path, list(part(index)), text)
    except OSError as error:
        raise UserError(f"cannot write frames to '{folder}': {error.strerror or error}") from None
    if progress is not None:
        progress(parts, parts)
    return FrameSet(folder)


class FrameSet:
    """Labelled frames of a folder that `write_frames` filled; files stay open until `close`."""

    def __init__(self, folder: str | Path) -> None:
        """
        Raises:
            UserError: There is no such folder, or it holds no frames.
            IntegrityError: A file in it is damaged, of another format, or missing between others.
        """
        self.folder = Path(folder)
        paths = _parts_in(self.folder)
        if not paths:
            raise UserError(f"'{folder}' holds no frames; give the folder of a data set that was made with fit")
        for index, path in enumerate(paths):
            if path.name != _part_name(index):
                raise IntegrityError(f"'{folder}': {_part_name(index)} is missing; make the data set again")
        self._files = [_open(path) for path in paths]
        abouts = {file.attrs["about"] for file in self._files}
        if len(abouts) > 1:
            self.close()
            raise IntegrityError(f"the files in '{folder}' do not belong together; make the data set again")
        self.about: dict[str, Any] = json.loads(str(abouts.pop()))
        """What the frames were made from."""
        self.versions: dict[str, str] = json.loads(str(self._files[0].attrs["versions"]))
        """Of the packages that the first part was made with."""
        self._ends = np.cumsum([int(file.attrs["count"]) for file in self._files]).tolist()
        self._label = lru_cache(maxsize=4096)(self._read_label)

    def __len__(self) -> int:
        return int(self._ends[-1])

    def __enter__(self) -> FrameSet:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: object, trace: TracebackType | None) -> None:
        self.close()

    def frame(self, index: int) -> Frame:
        """Frame i, with depth (0 where nothing was measured), intrinsics and pose."""
        file, row = self._find(index)
        with _reading(file):
            return Frame(
                rgb=file["rgb"][row],
                camera="stored",
                time_s=float(file["time_s"][row]),
                depth_m=(file["depth_mm"][row] / MM_PER_M).astype(np.float32),
                intrinsics=file["intrinsics"][row],
                world_from_camera=file["world_from_camera"][row],
            )

    def picture(self, index: int) -> NDArray[np.uint8]:
        """The colours of frame i alone, (H, W, 3)."""
        file, row = self._find(index)
        with _reading(file):
            return file["rgb"][row]

    def label(self, index: int) -> FrameLabel:
        """The label of frame i."""
        return self._label(*self._place(index))

    def indices(self, split: str) -> list[int]:
        """Which frames belong to a split."""
        splits = [name for file in self._files for name in json.loads(str(file.attrs["splits"]))]
        return [index for index, name in enumerate(splits) if name == split]

    def close(self) -> None:
        """Closes the files."""
        for file in self._files:
            file.close()

    def _place(self, index: int) -> tuple[int, int]:
        if not 0 <= index < len(self):
            raise IndexError(f"frame {index} of {len(self)}")
        part = bisect_right(self._ends, index)
        return part, index - (self._ends[part - 1] if part else 0)

    def _find(self, index: int) -> tuple[h5py.File, int]:
        part, row = self._place(index)
        return self._files[part], row

    def _read_label(self, part: int, row: int) -> FrameLabel:
        file = self._files[part]
        with _reading(file):
            ends = file["label_ends"]
            start = int(ends[row - 1]) if row else 0
            text = file["label_bytes"][start : int(ends[row])].tobytes().decode("utf-8")
        return label_from_json(text)


def _part_name(index: int) -> str:
    return f"part-{index:05d}.h5"


def _parts_in(folder: Path) -> list[Path]:
    return sorted(folder.glob("part-[0-9][0-9][0-9][0-9][0-9].h5")) if folder.is_dir() else []


def _check_same(folder: Path, about: str) -> None:
    for path in _parts_in(folder):
        with _open(path) as file:
            if str(file.attrs["about"]) != about:
                raise UserError(
                    f"'{folder}' holds frames that were made from another seed or configuration; give another folder"
                )


def _write_part(path: Path, frames: list[Labelled], about: str) -> None:
    if not frames:
        raise UserError(f"{path.name} of the data set would hold no frames; give each part at least one")
    waiting = path.with_suffix(".partial")
    with h5py.File(waiting, "w") as file:
        for name, values, chunk in _arrays(frames):
            file.create_dataset(
                name, data=values, chunks=chunk, compression="gzip", compression_opts=4, shuffle=True, fletcher32=True
            )
        file.attrs["format"], file.attrs["version"], file.attrs["labels"] = FORMAT, FORMAT_VERSION, LABEL_VERSION
        file.attrs["about"], file.attrs["count"] = about, len(frames)
        file.attrs["splits"] = json.dumps([label.split for _, label in frames])
        file.attrs["versions"] = json.dumps(_versions())
    with waiting.open("rb") as written:
        os.fsync(written.fileno())
    waiting.rename(path)


def _arrays(frames: list[Labelled]) -> Iterator[tuple[str, NDArray[Any], tuple[int, ...]]]:
    """Name, values and chunk of each array; pictures are compressed one by one, so that any one is read alone."""
    rgb, depth = [], []
    for frame, _ in frames:
        if frame.depth_m is None or frame.intrinsics is None or frame.world_from_camera is None:
            raise UserError("a frame of a data set needs depth, intrinsics and pose; render it with depth=True")
        if frame.rgb.shape != frames[0][0].rgb.shape:
            raise UserError(f"frames of one data set have one size, got {frame.rgb.shape}, {frames[0][0].rgb.shape}")
        rgb.append(frame.rgb)
        depth.append(to_millimetres(frame.depth_m))
    count = len(frames)
    yield "rgb", np.stack(rgb), (1, *rgb[0].shape)
    yield "depth_mm", np.stack(depth), (1, *depth[0].shape)
    yield "intrinsics", np.array([f.intrinsics for f, _ in frames], dtype=np.float64), (count, 3, 3)
    yield "world_from_camera", np.array([f.world_from_camera for f, _ in frames], dtype=np.float64), (count, 4, 4)
    yield "time_s", np.array([frame.time_s for frame, _ in frames]), (count,)
    texts = [label.to_json().encode("utf-8") for _, label in frames]
    joined = np.frombuffer(b"".join(texts), dtype=np.uint8)
    yield "label_bytes", joined, (min(_LABEL_CHUNK, len(joined)),)
    yield "label_ends", np.cumsum([len(text) for text in texts]), (count,)


def to_millimetres(depth_m: NDArray[np.floating]) -> NDArray[np.uint16]:
    """Depth in whole millimetres; 0 where it is no number, not positive or too far."""
    millimetres = np.round(np.asarray(depth_m, dtype=np.float64) * MM_PER_M)
    known = np.isfinite(millimetres) & (millimetres > 0) & (millimetres <= MOST_MM)
    return np.where(known, millimetres, 0).astype(np.uint16)


def _open(path: Path) -> h5py.File:
    try:
        file = h5py.File(path, "r")
    except OSError:
        raise IntegrityError(f"'{path}' is damaged or no HDF5 file; delete it and make the data set again") from None
    attrs = file.attrs
    if attrs.get("format") != FORMAT or not {*_ARRAYS} <= set(file):
        file.close()
        raise IntegrityError(f"'{path}' is no part of a data set of frames; take it out of the folder")
    if (int(attrs["version"]), int(attrs["labels"])) != (FORMAT_VERSION, LABEL_VERSION):
        file.close()
        raise IntegrityError(f"'{path}' was written by another version of this software; make the data set again")
    return file


@contextmanager
def _reading(file: h5py.File) -> Iterator[None]:
    """Damage that shows when an array is read becomes one line."""
    try:
        yield
    except (OSError, UnicodeDecodeError):
        raise IntegrityError(f"'{file.filename}' is damaged; delete it and make the data set again") from None


def _versions() -> dict[str, str]:
    found = {"python": platform.python_version()}
    for name in _PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found
