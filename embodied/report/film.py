"""mp4 files, written frame by frame."""

from __future__ import annotations

from pathlib import Path
from types import TracebackType

import imageio.v2 as imageio
import numpy as np
from numpy.typing import NDArray

from embodied.errors import UserError


class Film:
    """An mp4 under construction; a context manager. Frames are (H, W, 3) uint8, all of one size."""

    def __init__(self, path: Path, fps: float) -> None:
        if path.suffix.lower() != ".mp4":
            raise UserError(f"a video is written as .mp4, not '{path.name}'")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._writer = imageio.get_writer(path, fps=fps, codec="libx264", quality=7, macro_block_size=16)
        except OSError as error:
            raise UserError(f"cannot write the video '{path}': {error}") from None
        self.path = path
        self.frames = 0

    def add(self, rgb: NDArray[np.uint8]) -> None:
        """Appends a frame."""
        self._writer.append_data(rgb)
        self.frames += 1

    def close(self) -> None:
        """Finishes the file."""
        self._writer.close()

    def __enter__(self) -> Film:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.close()
