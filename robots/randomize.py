"""Random scenes by seed, and their labelled frames."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path

import numpy as np

from embodied.errors import UserError
from embodied.labels import MAPS, FrameLabel
from embodied.rng import child_generator
from embodied.types import Frame
from robots.random_rooms import draw_rooms_scene
from robots.random_rules import HELD_OUT, SPLITS, split_rules
from robots.random_scene import RandomScene, SceneKind
from robots.random_stage import Stage
from robots.random_table import draw_table_scene
from robots.rendering import drawing

__all__ = ["HELD_OUT", "SPLITS", "RandomScene", "RandomizerConfig", "SceneRandomizer", "labelled_frames"]

SCENE_KINDS: tuple[SceneKind, ...] = ("table", "floor", "maze", "rooms")


@dataclass(frozen=True)
class RandomizerConfig:
    """Which scenes are drawn."""

    split: str = "fit"
    """One of SPLITS."""
    views: int = 10
    """Of each scene. Compiling one costs as much as several pictures."""
    shares: tuple[float, float, float, float] = (0.74, 0.06, 0.1, 0.1)
    """Of tables, floors, mazes and rooms."""
    arm: float = 0.22
    """Share of the tables that have a Fetch arm before them."""

    def __post_init__(self) -> None:
        split_rules(self.split)
        if self.views < 1:
            raise UserError(f"views must be at least 1, got {self.views}")
        if min(self.shares) < 0 or abs(sum(self.shares) - 1.0) > 1e-6:
            raise UserError(f"shares must be four numbers, 0 or more, that add up to 1; got {self.shares}")
        if not 0.0 <= self.arm <= 1.0:
            raise UserError(f"arm must be a share within 0 and 1, got {self.arm}")


class SceneRandomizer:
    """Draws scenes; the same configuration and seed give the same scene, in every process."""

    def __init__(self, config: RandomizerConfig | None = None) -> None:
        self.config = config or RandomizerConfig()
        self._rules = replace(split_rules(self.config.split), views=self.config.views)

    def draw(self, seed: int) -> RandomScene:
        """The scene of this seed, 0 or more. Splits have nothing in common but the rules."""
        if seed < 0:
            raise UserError(f"a seed must be 0 or more, got {seed}")
        rng = child_generator(seed, f"random scene/{self.config.split}")
        kind = SCENE_KINDS[int(rng.choice(len(SCENE_KINDS), p=np.array(self.config.shares)))]
        if kind in MAPS:
            return draw_rooms_scene(rng, seed, self._rules, kind)
        arm = kind == "table" and rng.random() < self.config.arm
        return draw_table_scene(rng, seed, self._rules, kind, arm)

    def frames(self, seed: int, width: int = 320, height: int = 240) -> Iterator[tuple[Frame, FrameLabel]]:
        """The labelled frames of one scene, with depth. A view in which the arm hits something is left out."""
        scene = self.draw(seed)
        with tempfile.TemporaryDirectory(prefix="random_scene_") as folder:
            stage = Stage(scene, Path(folder))
            try:
                yield from stage.frames(width, height)
            finally:
                stage.close()


def labelled_frames(
    config: RandomizerConfig, first_seed: int, scenes: int | None = None, width: int = 320, height: int = 240
) -> Iterator[tuple[Frame, FrameLabel]]:
    """Labelled frames scene by scene, of so many scenes from this seed on; without end where None."""
    randomizer = SceneRandomizer(config)
    with drawing():
        for seed in count(first_seed) if scenes is None else range(first_seed, first_seed + scenes):
            yield from randomizer.frames(seed, width, height)
