"""Writes episodes to a data set as they finish."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from embodied.errors import UserError
from embodied.learning.datasets.columns import OWN, GoalLayout, split
from embodied.learning.datasets.files import StagedFile, stored_size
from embodied.learning.datasets.layouts import FileLayout, layout_named
from embodied.learning.datasets.reader import Opened, open_dataset
from embodied.learning.datasets.seal import EPISODE_MARK, FILE_MARK, EpisodeSeal, pack, unpack
from embodied.learning.datasets.sources import HEADER, RECORD
from embodied.learning.datasets.terms import file_record, fingerprint
from embodied.types import Episode


class EpisodeSink(Protocol):
    """What a trainer hands its finished episodes to."""

    @property
    def episodes(self) -> int:
        """Recorded so far: what a checkpoint remembers."""
        ...

    def add(self, episode: Episode, seed: int | None = None) -> None: ...
    def truncate_to(self, episodes: int) -> None: ...
    def sync(self) -> None: ...
    def close(self) -> None: ...


def open_recorder(path: str | Path, layout: str, goals: GoalLayout, resume_at: int | None = None) -> Recorder:
    """A recorder that begins a new data set, or goes on with one.

    Args:
        path: Minari: the data set's folder; robomimic: a file that ends in `.hdf5`.
        layout: `minari` or `robomimic`.
        goals: The goal dictionaries of the task that is recorded.
        resume_at: None for a new data set. A number: go on with the one that is there after its first so many
            episodes; what follows them is dropped, however it looks.

    Raises:
        UserError: The data set is there already, is another task's, has fewer intact episodes, or cannot be written.
    """
    kind = layout_named(layout)
    kind.check_name(Path(path))
    file = kind.file_of(Path(path))
    if file.exists() and resume_at is None:
        raise UserError(f"{file} is there already: choose another name, or resume the run that recorded it")
    if not file.exists() and resume_at:
        raise UserError(f"{file} is gone, in which the run that is resumed recorded {resume_at} episodes")
    try:
        if file.exists():
            opened = _resumed(file, kind, goals, resume_at or 0)
        else:
            file.parent.mkdir(parents=True, exist_ok=True)
            opened = _EpisodeFile.create(file, kind, goals)
    except OSError as error:
        raise UserError(f"cannot record into {file}: {error.strerror or error}") from None
    recorder = Recorder(file, kind, goals, opened)
    recorder.tell_totals()
    return recorder


class Recorder:
    """Appends episodes to a data set. Each is in the file when `add` returns, whatever becomes of the process then.

    A disk that is full ends the recording and leaves in the file what was recorded before.
    """

    def __init__(self, path: Path, layout: FileLayout, goals: GoalLayout, file: _EpisodeFile) -> None:
        self.path = path
        """The HDF5 file."""
        self._layout = layout
        self._goals = goals
        self._file: _EpisodeFile | None = file
        self._episodes = file.episodes
        self._ended = "it was closed"

    def __enter__(self) -> Recorder:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def episodes(self) -> int:
        """Recorded so far."""
        return self._episodes

    def add(self, episode: Episode, seed: int | None = None) -> None:
        """Record a finished episode, and the seed of its reset where that is known.

        Raises:
            UserError: The disk does not take it, or did not before; the episodes before it are safe.
        """
        file = self._open_file()
        try:
            file.append(episode, seed)
            self._episodes = file.episodes
            self._layout.write_beside(self.path, file.totals, self._goals)
        except BaseException as error:
            self._give_up(error)
            raise

    def truncate_to(self, episodes: int) -> None:
        """Forget all but the first so many; a run that is resumed from a checkpoint records the others again."""
        if episodes == self._episodes:
            return
        if not 0 <= episodes < self._episodes:
            raise UserError(f"{self.path} has {self._episodes} episodes, not the {episodes} that are to be kept")
        try:
            self._open_file().drop(episodes)
        except BaseException as error:
            self._give_up(error)
            raise
        self._episodes = episodes
        self.tell_totals()

    def tell_totals(self) -> None:
        """Bring what stands beside the file up to date."""
        try:
            self._layout.write_beside(self.path, self._open_file().totals, self._goals)
        except OSError as error:
            self._give_up(error)

    def sync(self) -> None:
        """What was recorded survives a loss of power; before a checkpoint that counts it."""
        self._open_file().sync()

    def close(self) -> None:
        """Ends the recording. May be called twice."""
        if self._file is not None:
            file, self._file = self._file, None
            try:
                file.close()
            except OSError as error:
                self._give_up(error)

    def discard(self) -> None:
        """Ends the recording and removes the data set."""
        self.close()
        for file in (self.path, *self._layout.beside(self.path)):
            file.unlink(missing_ok=True)

    def _open_file(self) -> _EpisodeFile:
        if self._file is None:
            raise UserError(self._stopped())
        return self._file

    def _give_up(self, error: BaseException) -> None:
        """Lets go of the file as it is on the disk; raises the one line where the disk is what failed."""
        if self._file is not None:
            self._file.abandon()
            self._file = None
        self._ended = " ".join(str(getattr(error, "strerror", None) or error).split()) or type(error).__name__
        if isinstance(error, OSError):
            raise UserError(self._stopped()) from None

    def _stopped(self) -> str:
        return f"recording into {self.path} ended after {self._episodes} episodes, which are safe there: {self._ended}"


class _EpisodeFile:
    """The HDF5 file under a recorder: h5py writes to memory, and whole episodes go to the disk."""

    def __init__(self, staged: StagedFile, layout: FileLayout, goals: GoalLayout, fresh: bool) -> None:
        import h5py

        self._staged = staged
        self._layout = layout
        self._goals = goals
        # Of this version on, HDF5 keeps checksums of its own structure.
        self._file = h5py.File(staged, "w" if fresh else "r+", libver=("v108", "v108"))
        self.totals = (0, 0)
        """Episodes and steps."""

    @classmethod
    def create(cls, path: Path, layout: FileLayout, goals: GoalLayout) -> _EpisodeFile:
        """A new file, which appears under its name with its header in it."""
        fresh = path.with_name(f".{path.name}.new")
        fresh.unlink(missing_ok=True)
        staged = StagedFile(fresh)
        try:
            file = cls(staged, layout, goals, fresh=True)
            header = pack(FILE_MARK, file_record(layout.name, goals))
            file._file.attrs[HEADER] = np.frombuffer(header, dtype=np.uint8)
            layout.begin(file._file, goals)
            file._commit()
            os.replace(fresh, path)
        except BaseException:
            staged.close()
            fresh.unlink(missing_ok=True)
            raise
        return file

    @property
    def episodes(self) -> int:
        return self.totals[0]

    def append(self, episode: Episode, seed: int | None) -> None:
        """An episode, on the disk when this returns."""
        number, steps = self.episodes, len(episode)
        columns, own = split(episode, self._goals)
        arrays = self._layout.arrays(columns) | {f"{OWN}/{name}": array for name, array in own.items()}
        group = self._file.create_group(self._layout.group_of(number))
        group.attrs.update(self._layout.attributes(number, steps, seed))
        for name in self._layout.empty_groups:
            group.create_group(name)
        offsets = {path: _write(group, path, array) for path, array in arrays.items()}
        head = {"layout": self._layout.name, "task": self._goals.spec.task, "terms": fingerprint(self._goals.spec)}
        seal = EpisodeSeal.of(head | {"episode": number, "steps": steps, "seed": seed}, arrays)
        _write(group, RECORD, np.frombuffer(pack(EPISODE_MARK, seal.record(offsets)), dtype=np.uint8))
        self.totals = (number + 1, self.totals[1] + steps)
        self._layout.write_totals(self._file, self.totals)
        self._commit()

    def drop(self, episodes: int) -> None:
        """Forget all but the first so many, and their records, which could be found where HDF5's structure breaks."""
        steps = self.totals[1]
        for number in range(episodes, self.episodes):
            name = self._layout.group_of(number)
            record = self._file[f"{name}/{RECORD}"]
            steps -= (unpack(record[()].tobytes(), EPISODE_MARK) or {"steps": 0})["steps"]
            record[...] = 0
            del self._file[name]
        self.totals = (episodes, steps)
        self._layout.write_totals(self._file, self.totals)
        self._commit()

    def sync(self) -> None:
        self._staged.sync()

    def close(self) -> None:
        self._file.close()
        try:
            self._staged.commit()
            self._staged.sync()
        finally:
            self._staged.close()

    def abandon(self) -> None:
        """Let go without writing."""
        with suppress(Exception):  # HDF5's own state no longer matters
            self._file.close()
        self._staged.close()

    def _commit(self) -> None:
        self._file.flush()
        self._staged.commit()


def _write(group: Any, path: str, array: np.ndarray) -> int:
    """Writes an array in one piece and says where in the file it begins."""
    return group.create_dataset(path, data=array, track_times=False).id.get_offset() or 0


def _resumed(path: Path, layout: FileLayout, goals: GoalLayout, episodes: int) -> _EpisodeFile:
    """The file with its first `episodes` and no others: as it is where it is whole, else written anew."""
    staged = StagedFile(path)
    try:
        opened = open_dataset(path, goals, empty=True)
        try:
            _check_kept(opened, path, layout, episodes)
            if _is_whole(opened, path):
                file = _EpisodeFile(staged, layout, goals, fresh=False)
                file.totals = (len(opened.data.listed), opened.data.contents.steps)
                file.drop(episodes)
                return file
            file = _rewritten(opened, path, layout, goals, episodes)
        finally:
            opened.data.close()
    except BaseException:
        staged.close()
        raise
    staged.close()
    return file


def _check_kept(opened: Opened, path: Path, layout: FileLayout, episodes: int) -> None:
    source, found = opened.data.source, opened.data.contents
    if source.header is None or not found.exact:
        raise UserError(f"{path} was not recorded by this software on this task: record elsewhere")
    if source.layout.name != layout.name:
        raise UserError(f"{path} has the layout {source.layout.name}, not {layout.name}")
    missing = set(range(episodes)) - set(found.intact)
    if missing:
        raise UserError(
            f"{path}: {len(missing)} of the first {episodes} episodes are gone or damaged "
            f"(the first of them is {min(missing)}): record elsewhere"
        )


def _is_whole(opened: Opened, path: Path) -> bool:
    with path.open("rb") as file:
        ends_well = stored_size(file.read(64)) == path.stat().st_size
    return ends_well and opened.damage is None and opened.data.listed == list(range(len(opened.data.listed)))


def _rewritten(opened: Opened, path: Path, layout: FileLayout, goals: GoalLayout, episodes: int) -> _EpisodeFile:
    """The first episodes in a new file that takes the place of the old one when it is complete."""
    kept = path.with_name(f".{path.name}.kept")
    try:
        file = _EpisodeFile.create(kept, layout, goals)
        try:
            for number in range(episodes):
                recorded = opened.data.load(number)
                file.append(recorded.episode, recorded.seed)
            file.sync()
            os.replace(kept, path)
        except BaseException:
            file.abandon()
            raise
    finally:
        kept.unlink(missing_ok=True)
    return file
