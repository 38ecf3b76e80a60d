"""Reads recorded episodes, ours and those of others, and says what of a damaged file is left."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from embodied.errors import IntegrityError, UserError
from embodied.learning.datasets.columns import GoalLayout, adopt, join
from embodied.learning.datasets.files import SIGNATURE, stored_size
from embodied.learning.datasets.layouts import UnknownLayout, all_layouts
from embodied.learning.datasets.probe import OthersSource, probe
from embodied.learning.datasets.replay_file import ReplayFile, replay_file_at
from embodied.learning.datasets.sources import Broken, Lacking, RawSource, Source, has_records, hdf5_source
from embodied.learning.datasets.terms import recorded_here, refuse_other_environment
from embodied.types import Episode

Say = Callable[[str], None]


@dataclass(frozen=True)
class Recorded:
    """An episode as it was recorded."""

    episode: Episode
    seed: int | None
    """Of the reset that it began with, where that was kept."""
    exact: bool
    """Recorded by this software for this very task: nothing was guessed, and the checksum holds."""
    clipped: int = 0
    """Steps whose action was outside the limits."""
    other_rewards: int = 0
    """Steps whose reward is not the task's."""


@dataclass
class Contents:
    """What a look through a file found."""

    intact: list[int] = field(default_factory=list)
    steps: int = 0
    lost: list[int] = field(default_factory=list)
    lacking: str = ""
    """What the first episode that is none of ours lacks."""
    exact: bool = True
    clipped: int = 0
    other_rewards: int = 0


class Dataset:
    """An open file of episodes that was looked through once. `close` it."""

    def __init__(self, file: Path, source: Source, goals: GoalLayout) -> None:
        """Checks every episode.

        Raises:
            Broken: The file does not tell which episodes it has.
            UserError: It holds another task's.
        """
        self.file = file
        self.source = source
        self._goals = goals
        self.contents = Contents()
        try:
            self._same_task = source.header is not None and recorded_here(source.header, goals)
            if source.header is None:
                refuse_other_environment(source.env_id(file), goals)
            self.listed = source.numbers()
            for number in self.listed:
                self._look_at(number)
        except BaseException:
            self.close()
            raise

    def load(self, number: int) -> Recorded:
        """An episode.

        Raises:
            Broken: It is not intact.
            UserError: It is of another task.
        """
        stored = self.source.load(number)
        if stored.own is not None and self._same_task:
            return Recorded(join(stored.columns, stored.own, self._goals), stored.seed, exact=True)
        try:
            adopted = adopt(stored.columns, self._goals)
        except ValueError as error:
            raise Broken(str(error)) from error
        return Recorded(adopted.episode, stored.seed, False, adopted.clipped, adopted.other_rewards)

    @property
    def task(self) -> str:
        """The task that the episodes are read for."""
        return self._goals.spec.task

    def close(self) -> None:
        """Lets go of the file."""
        with suppress(Broken):
            self.source.close()

    def _look_at(self, number: int) -> None:
        found = self.contents
        try:
            recorded = self.load(number)
        except Broken as error:
            found.lost.append(number)
            found.lacking = found.lacking or (str(error) if isinstance(error, Lacking) else "")
            return
        found.intact.append(number)
        found.steps += len(recorded.episode)
        found.exact &= recorded.exact
        found.clipped += recorded.clipped
        found.other_rewards += recorded.other_rewards


@dataclass(frozen=True)
class Opened:
    """A data set and what is to be said about it."""

    data: Dataset
    damage: str | None
    """What is left of it and what was cut off; None where it is whole."""

    @property
    def remarks(self) -> str | None:
        """In one line what a user should know; None where there is nothing."""
        found, task = self.data.contents, self.data.task
        parts = [self.damage] if self.damage else []
        if found.clipped:
            parts.append(f"{found.clipped} of {found.steps} actions were clipped to the limits of {task}")
        if found.other_rewards:
            parts.append(f"{found.other_rewards} of {found.steps} rewards are not those of {task}")
        return f"{self.data.file}: {'; '.join(parts)}" if parts else None


def read_recorded(path: str | Path, goals: GoalLayout, say: Say | None = None) -> Iterator[Recorded]:
    """The intact episodes of a data set, with what is known about each.

    The whole file is checked before the first episode comes; then one episode is in memory at a time.

    Args:
        path: A file of either layout, a data set's folder, or a training run's folder; it is never written to.
        goals: The task's goal dictionaries.
        say: Gets one line where something was cut off or is not as the task would have it; default: to stderr.

    Raises:
        IntegrityError: No episode can be saved, or the file is of a newer version.
        UserError: No such file, neither layout, or another task.
    """
    replay = replay_file_at(Path(path))
    if replay is not None:
        return _replayed(replay, goals, say or _to_stderr)
    opened = open_dataset(Path(path), goals)
    if opened.remarks:
        (say or _to_stderr)(opened.remarks)
    return _episodes(opened.data)


def read_demonstrations(path: str | Path, goals: GoalLayout, say: Say | None = None) -> Iterator[Episode]:
    """`read_recorded` without what is known about each episode."""
    return (recorded.episode for recorded in read_recorded(path, goals, say))


def open_dataset(path: Path, goals: GoalLayout, empty: bool = False) -> Opened:
    """A data set, looked through; without an intact episode it is refused, unless it is ours and may be `empty`."""
    file = _file_at(path)
    with _naming(file):
        opened = _open(file, goals)
        found = opened.data.contents
        if found.intact or (empty and opened.data.source.header is not None):
            return opened
        opened.data.close()
        if found.lacking:
            raise UserError(f"its episodes are not of a goal task: {found.lacking}")
        if opened.damage:
            raise IntegrityError("it is damaged and no episode in it is intact: copy it again, or record anew")
        raise UserError("there is no episode in it")


def _open(file: Path, goals: GoalLayout) -> Opened:
    with file.open("rb") as stream:
        head = stream.read(64)
    signed, length = head.startswith(SIGNATURE), stored_size(head)
    missing = max(0, (length or 0) - file.stat().st_size)
    opened = None
    if has_records(file):
        opened = _open_ours(file, signed and not missing, missing, goals)
    if opened is None and signed:
        opened = _open_others(file, missing, goals)
    if opened is None:
        raise IntegrityError("it is no HDF5 file")
    return opened


def _open_ours(file: Path, by_hdf5: bool, missing: int, goals: GoalLayout) -> Opened | None:
    """Through HDF5 where that works, else by the records; None where only single episodes in it are ours."""
    first = None
    if by_hdf5:
        with suppress(Broken):
            source = hdf5_source(file)
            if source.header is None:
                source.close()
                return None
            first = Dataset(file, source, goals)
            if not first.contents.lost:
                return Opened(first, None)
    listed = None if first is None else first.listed
    try:
        raw = RawSource(file, listed)
        second = Dataset(file, raw, goals)
    except Broken as error:
        if first is None or not first.contents.intact:
            raise IntegrityError(f"it is damaged: {error}; copy it again, or record anew") from None
    else:
        if first is None or len(first.contents.intact) <= len(second.contents.intact):
            return Opened(second, _damage(second.contents, _lost(second, raw, listed), missing, raw=first is None))
    # Copied by a tool of HDF5: the numbers lie elsewhere than the records say.
    return Opened(first, _damage(first.contents, dict.fromkeys(first.contents.lost)))


def _open_others(file: Path, missing: int, goals: GoalLayout) -> Opened:
    length = file.stat().st_size + missing if missing else None
    gone = f"its last {missing:,} bytes are missing and" if missing else "HDF5 cannot read it;"
    nothing = IntegrityError(f"it is damaged: {gone} no episode can be saved; copy it again")
    try:
        data = Dataset(file, OthersSource(file, length, probe(file, length)), goals)
    except Broken:
        raise nothing from None
    except UnknownLayout:
        if missing:
            raise nothing from None
        raise
    if missing and not data.contents.intact:
        data.close()
        raise nothing
    lost = dict.fromkeys(data.contents.lost)
    absent = data.source.layout.promised(file) - len(data.listed)
    lost |= {-number: None for number in range(1, absent + 1)}
    return Opened(data, _damage(data.contents, lost, missing) if lost or missing else None)


def _lost(data: Dataset, raw: RawSource, listed: list[int] | None) -> dict[int, int | None]:
    """Episodes that were there and are not intact, and how many steps each had where that is known."""
    known = set(raw.records) if listed is None else set(listed)
    if listed is None:
        known |= set(range(max(raw.records, default=-1) + 1)) | set(range(raw.layout.promised(data.file)))
    gone = sorted(known - set(data.contents.intact))
    return {number: raw.records[number]["steps"] if number in raw.records else None for number in gone}


def _damage(found: Contents, lost: Mapping[int, int | None], missing: int = 0, raw: bool = False) -> str:
    """What is left of a damaged file. `raw`: nobody knows how many episodes there were."""
    told = [steps for steps in lost.values() if steps is not None]
    steps = f" ({sum(told):,} steps)" if told and len(told) == len(lost) else ""
    if lost:
        cut = f"{_count(len(lost))}{steps} cut off"
    else:
        cut = "what followed cut off" if raw and missing else "none is known to be lost"
    end = f"; {missing:,} bytes are missing at its end" if missing else ""
    return f"it is damaged: {_count(len(found.intact))} ({found.steps:,} steps) intact and used, {cut}{end}"


def _count(episodes: int) -> str:
    return f"{episodes} episode{'' if episodes == 1 else 's'}"


def _file_at(path: Path) -> Path:
    if not path.exists():
        raise UserError(f"{path}: there is no such file or folder")
    files = [layout.file_of(path) for layout in all_layouts()]
    for file in files:
        if file.is_file():
            return file
    raise UserError(f"{path} holds no data set: expected {' or '.join(str(file) for file in files)}")


@contextmanager
def _naming(file: Path) -> Iterator[None]:
    """Every error begins with the file's name."""
    try:
        yield
    except UserError as error:
        raise type(error)(f"{file}: {error}") from None
    except OSError as error:
        raise UserError(f"{file}: {error.strerror or error}") from None


def _episodes(data: Dataset) -> Iterator[Recorded]:
    try:
        for number in data.contents.intact:
            try:
                yield data.load(number)
            except Broken as error:
                raise IntegrityError(f"{data.file}: it changed while it was read ({error})") from None
    finally:
        data.close()


def _replayed(file: Path, goals: GoalLayout, say: Say) -> Iterator[Recorded]:
    with _naming(file):
        replay = ReplayFile(file, goals.spec)
        if not replay.contents.places:
            raise IntegrityError("no episode in it is intact")
    if replay.remarks:
        say(replay.remarks)
    return (Recorded(episode, None, exact=True) for episode in replay)


def _to_stderr(line: str) -> None:
    print(line, file=sys.stderr)
