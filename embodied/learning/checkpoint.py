"""Checkpoints of a run: written atomically, checked when read, the last two kept."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from embodied.errors import IntegrityError
from embodied.learning.files import Arrays, read_index, read_tensors, write_folder

KIND = "embodied checkpoint"
SCHEMA = 1
INDEX = "checkpoint.json"


class CheckpointStore:
    """The `checkpoints` folder of a run: one folder `step_<number>` per checkpoint."""

    def __init__(self, folder: Path, say: Callable[[str], None], keep: int = 2) -> None:
        """Args:
        folder: Made when the first checkpoint is saved.
        say: Takes one line about a checkpoint that had to be passed over.
        keep: Checkpoints that stay.
        """
        self.folder = folder
        self._say = say
        self._keep = keep

    def save(self, step: int, parts: dict[str, tuple[Arrays, dict[str, Any]]]) -> None:
        """Write a checkpoint.

        Args:
            step: Environment steps so far.
            parts: Name of a part to its arrays and JSON values.
        """
        index = {
            "kind": KIND,
            "schema": SCHEMA,
            "step": step,
            "parts": {name: meta for name, (_, meta) in parts.items()},
        }
        tensors = {f"{name}.safetensors": arrays for name, (arrays, _) in parts.items()}
        write_folder(self.folder / f"step_{step:012d}", INDEX, index, tensors)
        # Beside old checkpoints: drafts that a crash left behind.
        for old in (*self._folders()[self._keep :], *self.folder.glob(".step_*")):
            shutil.rmtree(old, ignore_errors=True)

    def newest_first(self) -> Iterator[dict[str, tuple[Arrays, dict[str, Any]]]]:
        """The parts of each checkpoint that is whole; one line is said about each that is not."""
        for folder in self._folders():
            try:
                index = read_index(folder, INDEX, KIND, SCHEMA)
                yield {
                    name: (read_tensors(folder, index, f"{name}.safetensors"), meta)
                    for name, meta in index["parts"].items()
                }
            except IntegrityError as error:
                self._say(f"passing over a checkpoint: {error}")

    @property
    def any(self) -> bool:
        """There are checkpoints, whole or not."""
        return bool(self._folders())

    def clear(self) -> None:
        """Forget every checkpoint: a run that starts afresh."""
        shutil.rmtree(self.folder, ignore_errors=True)

    def _folders(self) -> list[Path]:
        return sorted(self.folder.glob("step_*"), reverse=True) if self.folder.is_dir() else []
