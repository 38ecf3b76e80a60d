"""What a training is put together from: the seams that the loop sees, and nothing concrete."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol

from numpy.typing import NDArray

from embodied.protocols import Controller
from embodied.types import Batch, Episode, FloatArray, Goal, Observation, PolicyManifest

Saved = tuple[dict[str, NDArray[Any]], dict[str, Any]]
"""Arrays and JSON values of one part of a checkpoint."""


class Learner(Protocol):
    """What is trained."""

    manifest: PolicyManifest
    updates: int

    def act(self, observation: FloatArray, goal: FloatArray) -> FloatArray:
        """Exploring actions (B, A) for input vectors (B, S+F) and (B, G)."""
        ...

    def observe(self, observation: FloatArray, goal: FloatArray) -> None:
        """New inputs, for running statistics."""
        ...

    def update(self, batch: Batch) -> dict[str, float]:
        """One update; what happened, by name, always under the same names."""
        ...

    def controller(self) -> Controller:
        """The policy as it is now, without exploration."""
        ...

    def save_controller(self, folder: Path, extra: dict[str, Any]) -> None: ...
    def state(self) -> Saved: ...
    def restore(self, arrays: dict[str, NDArray[Any]], meta: dict[str, Any]) -> None: ...


class Replay(Protocol):
    """What the learner is trained on. Its episodes lie in a file; a checkpoint notes how long that is."""

    def __len__(self) -> int: ...

    def begin(self) -> None:
        """Start with nothing."""
        ...

    def add(self, episode: Episode) -> None: ...
    def sample(self, size: int) -> Batch: ...

    def state(self) -> Saved:
        """For a checkpoint; all that it speaks of is on the disk afterwards."""
        ...

    def restore(self, arrays: dict[str, NDArray[Any]], meta: dict[str, Any]) -> None:
        """Back to where `state` was taken; IntegrityError where the file is damaged before that."""
        ...

    def close(self) -> None: ...

    @property
    def summary(self) -> str:
        """Size and memory in one line."""
        ...


class Explorer(Protocol):
    """Which goal is pursued while training, where it is not simply the task's."""

    def begin(self, worker: int) -> None:
        """An episode begins there."""
        ...

    def pursue(self, worker: int, observation: Observation, task: Goal) -> Goal:
        """The goal of the next step."""
        ...

    def restrain(self, worker: int, observation: Observation, task: Goal, action: FloatArray) -> FloatArray:
        """The action that is taken instead of this one."""
        ...

    def over(self, worker: int, observation: Observation, task: Goal) -> bool:
        """Whether to break the episode off: there is nothing left to learn from it."""
        ...

    def state(self) -> dict[str, Any]: ...
    def restore(self, state: Mapping[str, Any]) -> None: ...


class Checkpoints(Protocol):
    """Where a run can be taken up again."""

    def save(self, step: int, parts: dict[str, Saved]) -> None: ...

    def newest_first(self) -> Iterator[dict[str, Saved]]:
        """Those that are whole; a line is said about each that is not."""
        ...

    @property
    def any(self) -> bool:
        """There are checkpoints, whole or not."""
        ...

    def clear(self) -> None: ...


class Recorder(Protocol):
    """Where finished training episodes are written besides, for others to read."""

    @property
    def episodes(self) -> int:
        """How many it holds."""
        ...

    def add(self, episode: Episode) -> None: ...

    def sync(self) -> None:
        """What was added is on the disk afterwards."""
        ...

    def close(self) -> None: ...


class RecorderMaker(Protocol):
    """Opens the recorder once it is known how many of its episodes a resumed run keeps."""

    def __call__(self, resume_at: int | None) -> Recorder: ...


Demonstrations = Iterable[Episode]
"""Episodes that the replay begins with."""
