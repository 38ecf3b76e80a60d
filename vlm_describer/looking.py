"""A describer that looks for itself whenever it is asked."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from embodied.protocols import Describer
from embodied.types import Frame, SceneDescription
from vlm_describer.frames import listed


class LookingDescriber:
    """Describes the frames that it is given, or where there are none those that `look` takes."""

    def __init__(self, describer: Describer, look: Callable[[], Sequence[Frame]]) -> None:
        self.name = describer.name
        self._describer, self._look = describer, look

    def describe(self, frames: Sequence[Frame] = ()) -> SceneDescription:
        """What is seen now."""
        return self._describer.describe(listed(frames) or self._look())
