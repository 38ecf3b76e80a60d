"""What the two layouts have in common: one protocol, and the way from a file to its layout."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

from embodied.errors import UserError, unknown_name
from embodied.learning.datasets.columns import Arrays, Columns, GoalLayout


class UnknownLayout(UserError):
    """An HDF5 file of neither layout."""


class FileLayout(Protocol):
    """Where a tool looks for what in an HDF5 file; `h5py` objects are passed as Any so that h5py is imported late."""

    name: str
    looks_like: str
    """In a few words, for who has a file of neither layout."""
    needed: tuple[str, ...]
    """Paths of the arrays in an episode's group without which it is none."""
    optional: tuple[str, ...]
    empty_groups: tuple[str, ...]
    """Groups that an episode's group has even where there is nothing in them."""

    def file_of(self, path: Path) -> Path:
        """The HDF5 file of a data set at `path`, whether it is there or not."""
        ...

    def check_name(self, path: Path) -> None:
        """UserError where a new data set cannot be called `path`."""
        ...

    def begin(self, file: Any, goals: GoalLayout) -> None:
        """What stands in a file before its first episode."""
        ...

    def group_of(self, number: int) -> str:
        """The path of an episode's group."""
        ...

    def numbers(self, file: Any) -> list[int] | None:
        """The episodes in a file by number, in order; None where it is not of this layout."""
        ...

    def arrays(self, columns: Columns) -> Arrays:
        """What the layout keeps of an episode, by path in its group; little-endian, as it lies on the disk."""
        ...

    def columns(self, arrays: Mapping[str, Any]) -> Columns:
        """Undo `arrays`, also for what others wrote; ValueError where the arrays do not fit together."""
        ...

    def attributes(self, number: int, steps: int, seed: int | None) -> dict[str, Any]:
        """Of an episode's group."""
        ...

    def write_totals(self, file: Any, totals: tuple[int, int]) -> None:
        """Episodes and steps, inside the file."""
        ...

    def write_beside(self, path: Path, totals: tuple[int, int], goals: GoalLayout) -> None:
        """What stands in other files."""
        ...

    def beside(self, path: Path) -> tuple[Path, ...]:
        """The other files of a data set whose HDF5 file is at `path`."""
        ...

    def promised(self, path: Path) -> int:
        """Episodes that other files than the HDF5 file at `path` say there are; 0 where none does."""
        ...

    def env_id(self, file: Any, path: Path) -> str | None:
        """Gymnasium's name of the environment that was recorded; None where the data set does not say."""
        ...


def layout_named(name: str) -> FileLayout:
    """`minari` or `robomimic`; UserError for another name."""
    for layout in all_layouts():
        if layout.name == name:
            return layout
    raise unknown_name("layout", name, (layout.name for layout in all_layouts()))


def all_layouts() -> tuple[FileLayout, ...]:
    """The known layouts."""
    from embodied.learning.datasets.minari import MinariLayout
    from embodied.learning.datasets.robomimic import RobomimicLayout

    return MinariLayout(), RobomimicLayout()
