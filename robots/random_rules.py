"""What the splits of random scenes are made of: fitting, validation, and four that differ from it in one way each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from embodied.errors import unknown_name
from robots.random_camera import CameraRange
from robots.random_look import COLOURS
from robots.random_scene import RandomThing
from robots.random_things import ThingSizes

HELD_OUT: dict[str, tuple[str, ...]] = {
    "block": ("pink", "grey"),
    "cylinder": ("orange", "white"),
    "ball": ("teal", "brown"),
    "plate": ("red", "black"),
    "disc": ("green", "blue"),
    "thing": ("yellow", "purple"),
    "tray": ("orange", "teal"),
    "pillar": ("brown",),
}
"""Colours that no thing of a kind has in any split but `new_pairs`: 15 of the 96 pairs."""

FIT_CAMERAS = (CameraRange((20.0, 90.0), (35.0, 70.0), (0.6, 2.0)),)
NEW_CAMERAS = (
    CameraRange((11.0, 19.0), (35.0, 70.0), (0.6, 2.0)),
    CameraRange((20.0, 90.0), (71.0, 88.0), (0.45, 2.0)),
    CameraRange((20.0, 90.0), (20.0, 34.0), (1.2, 3.0)),
    CameraRange((35.0, 90.0), (25.0, 45.0), (2.1, 3.0)),
)
"""Lower, wider, narrower and farther than in fitting."""
FIT_TEXTURES = ("plain", "checker", "gradient", "marks", "noise", "wood", "speckle")
NEW_TEXTURES = ("stripes", "bricks", "marble", "dots")


@dataclass(frozen=True)
class Rules:
    """What one split is made of."""

    split: str
    cameras: tuple[CameraRange, ...] = FIT_CAMERAS
    textures: tuple[str, ...] = FIT_TEXTURES
    unusual_light: bool = False
    objects: tuple[int, int] = (0, 6)
    """Movable things, least and most."""
    new_pairs: bool = False
    """At least one thing in every view has a held-out colour."""
    sizes: ThingSizes = field(default_factory=ThingSizes)
    views: int = 10
    """Views of each scene."""

    def draw_camera_range(self, rng: np.random.Generator) -> CameraRange:
        """One of the ranges."""
        return self.cameras[int(rng.integers(len(self.cameras)))]

    def draw_special(self, rng: np.random.Generator, things: Sequence[RandomThing]) -> dict[int, tuple[str, ...]]:
        """Things that get one of their kind's held-out colours in a view: their indices and these colours."""
        able = [i for i, thing in enumerate(things) if thing.kind in HELD_OUT]
        if not self.new_pairs or not able:
            return {}
        chosen = [i for i in able if rng.random() < 0.5] or [able[int(rng.integers(len(able)))]]
        return {i: HELD_OUT[things[i].kind] for i in chosen}


SPLITS: dict[str, Rules] = {
    rules.split: rules
    for rules in (
        Rules("fit"),
        Rules("validation"),
        Rules("new_camera", cameras=NEW_CAMERAS),
        Rules("new_look", textures=NEW_TEXTURES, unusual_light=True),
        Rules("new_pairs", objects=(1, 6), new_pairs=True),
        Rules("more_things", objects=(7, 9)),
    )
}
"""`validation` is drawn as `fit` is, from other seeds."""


def split_rules(split: str) -> Rules:
    """The rules of a split.

    Raises:
        UserError: There is no such split; the message lists those there are.
    """
    if split not in SPLITS:
        raise unknown_name("split", split, SPLITS)
    return SPLITS[split]


def allowed_colours(kind: str) -> tuple[str, ...]:
    """The colours that things of a kind have outside `new_pairs`."""
    return tuple(colour for colour in COLOURS if colour not in HELD_OUT.get(kind, ()))
