"""Recorded episodes: what a training writes down as it goes, and what it is shown before."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from embodied.errors import UserError
from embodied.types import Episode

if TYPE_CHECKING:
    from embodied.learning.datasets.recorder import EpisodeSink
    from embodied.run.parts import RecorderMaker
    from robots.goal_layout import GoalLayout


def recorder_maker(path: str | Path, layout: str, goals: GoalLayout, run_dir: Path, resume: bool) -> RecorderMaker:
    """What opens the HDF5 record of a training, at its beginning or where a resumed run stands.

    Raises:
        UserError: A name that the layout does not allow, one that is taken, or another run's record.
    """
    from embodied.learning.datasets.layouts import layout_named
    from embodied.learning.datasets.recorder import open_recorder

    if layout == "auto":
        layout = "robomimic" if str(path).endswith((".hdf5", ".h5")) else "minari"
    kind = layout_named(layout)
    kind.check_name(Path(path))
    file = kind.file_of(Path(path))
    if not resume and file.exists():
        raise UserError(f"'{path}' is there already: choose another record=, or resume the run that recorded it")

    def make(resume_at: int | None) -> EpisodeSink:
        if resume_at and file.exists():
            _refuse_other_record(path, goals, run_dir)
        return open_recorder(path, layout, goals, resume_at)

    return make


def _refuse_other_record(path: str | Path, goals: GoalLayout, run_dir: Path) -> None:
    """A resumed run may only go on with its own record: its first episode has to be one of the run's."""
    from embodied.learning.datasets.reader import open_dataset, read_demonstrations

    opened = open_dataset(Path(path), goals, empty=True)
    opened.data.close()
    if not opened.data.contents.intact:
        return
    first = next(read_demonstrations(path, goals, say=lambda line: None)).action.tobytes()
    ours = read_demonstrations(run_dir / "episodes.bin", goals, say=lambda line: None)
    if not any(episode.action.tobytes() == first for episode in ours):
        raise UserError(f"'{path}' holds another run's episodes: choose another record=, it is begun anew there")


def demonstrations(path: str | Path, goals: GoalLayout) -> Iterator[Episode]:
    """Recorded episodes of this task; a file that cannot be used is refused here and not when they are read.

    Raises:
        UserError: No such file, another task's, or nothing in it can be read.
    """
    from embodied.learning.datasets.reader import read_demonstrations

    episodes = read_demonstrations(path, goals)
    first = next(episodes, None)
    if first is None:
        raise UserError(f"'{path}' holds no episode")
    return chain([first], episodes)
