"""What a namer learns from: crops of located things with the names that labels give them, and whole frames.

Things are found as they will be later, by `locate`, and given to the nearest labelled thing, so a namer also sees what
`locate` gets wrong: pieces of robots, marks and shadows are examples of `nothing`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields
from pathlib import Path

import h5py
import numpy as np
from numpy.typing import NDArray

from embodied.colours import COLOURS
from embodied.errors import IntegrityError
from embodied.labels import MAPS, EntityLabel, FrameLabel
from embodied.types import BoolArray, FloatArray, Frame
from vlm_describer.crops import FEATURES, RELIEF, crop, features, relief
from vlm_describer.locate import locate
from vlm_describer.located import Item, Located
from vlm_describer.pairing import NEAR_M, NEAR_MAP_M, paired

KINDS = ("block", "cylinder", "ball", "tray", "disc", "plate", "pillar", "wall", "door", "robot", "thing", "nothing")
"""Names that a located thing can have; `nothing`: it is no thing at all."""
SIZES = ("small", "medium", "large")
SIZE_LIMITS_M = (0.045, 0.065)
"""Longest side up to which a thing is small, and medium."""
SCENES = ("table", "floor", "maze", "rooms")
NONE = -1


@dataclass(frozen=True)
class Examples:
    """Crops (N, side, side, 3) with their names, and frames (M, side, side, 3) with their kinds of scene."""

    crops: NDArray[np.uint8]
    reliefs: NDArray[np.uint8]
    """(N, RELIEF, RELIEF, 4), see `crops.relief`."""
    features: FloatArray
    """(N, F), named by `crops.FEATURES`."""
    kind: NDArray[np.int64]
    """(N,) in KINDS."""
    colour: NDArray[np.int64]
    """(N,) in COLOURS, -1 where it has none of them."""
    size: NDArray[np.int64]
    """(N,) in SIZES, -1 for what is no thing on a table."""
    group: NDArray[np.int64]
    """(N,) seed of the scene: what comes from one scene must not be parted."""
    frames: NDArray[np.uint8]
    scene: NDArray[np.int64]
    """(M,) in SCENES."""
    frame_group: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.crops)

    def rows(self, chosen: BoolArray, frames: BoolArray) -> Examples:
        """Some of the crops and some of the frames."""
        own = ("frames", "scene", "frame_group")
        return Examples(**{f.name: getattr(self, f.name)[frames if f.name in own else chosen] for f in fields(self)})


def match(located: Located, label: FrameLabel) -> dict[str, EntityLabel]:
    """Which located thing is which labelled one, by item id: see `paired`."""
    places = {item.id: item.center_b_m for item in located.items}
    boxes = {item.id: (*item.box_px[:2], item.box_px[2] + 1, item.box_px[3] + 1) for item in located.items}
    return paired(places, label, NEAR_MAP_M if located.map_view else NEAR_M, boxes)


def name_indices(item: Item, entity: EntityLabel | None, label: FrameLabel) -> tuple[int, int, int]:
    """Kind, colour and size of an example."""
    if entity is None:
        return KINDS.index(unlabelled_kind(item, label)), NONE, NONE
    kind = entity.kind if entity.kind in KINDS else "thing"
    colour = COLOURS.index(entity.colour) if entity.colour in COLOURS else NONE
    longest = 2 * max(entity.half_extents_m)
    size = int(np.searchsorted(SIZE_LIMITS_M, longest)) if entity.role == "object" else NONE
    return KINDS.index(kind), colour, size


def unlabelled_kind(item: Item, label: FrameLabel) -> str:
    """What a located thing is that is none of the labelled ones: a part of a robot, walls on a map, or nothing."""
    if is_point_robot(item, label):
        return "ball"
    if label.scene_kind in MAPS and item.role_hint == "wall-like":
        return "wall"
    return "robot" if label.robot_in_view and item.role_hint == "robot-like" else "nothing"


def is_point_robot(item: Item, label: FrameLabel) -> bool:
    """Whether an unlabelled thing may be the point robot, which is a ball for whoever sees it."""
    return label.robot == "point" and label.robot_in_view and item.shape == "ball"


def make_examples(frames: Iterable[tuple[Frame, FrameLabel]], side: int) -> Examples:
    """Examples from labelled frames, crops `side` pixels wide."""
    crops, rows, groups, pictures, scenes, seeds = [], [], [], [], [], []
    told: list[FloatArray] = []
    reliefs: list[NDArray[np.uint8]] = []
    for frame, label in frames:
        located = locate(frame, label.base)
        found = match(located, label)
        for item in located.items:
            crops.append(crop(frame, item, side))
            reliefs.append(relief(frame, item, located))
            told.append(features(item, located))
            rows.append(name_indices(item, found.get(item.id), label))
            groups.append(label.seed)
        pictures.append(shrunk(frame.rgb, side))
        scenes.append(SCENES.index(label.scene_kind))
        seeds.append(label.seed)
    names = np.array(rows, dtype=np.int64).reshape(-1, 3)
    return Examples(
        np.array(crops, dtype=np.uint8).reshape(-1, side, side, 3),
        np.array(reliefs, dtype=np.uint8).reshape(-1, RELIEF, RELIEF, 4),
        np.array(told, dtype=np.float32).reshape(-1, len(FEATURES)),
        names[:, 0],
        names[:, 1],
        names[:, 2],
        np.array(groups, dtype=np.int64),
        np.array(pictures, dtype=np.uint8).reshape(-1, side, side, 3),
        np.array(scenes, dtype=np.int64),
        np.array(seeds, dtype=np.int64),
    )


def shrunk(rgb: NDArray[np.uint8], side: int) -> NDArray[np.uint8]:
    """A whole picture, squashed to (side, side, 3)."""
    from PIL import Image

    return np.asarray(Image.fromarray(rgb).resize((side, side), Image.Resampling.BILINEAR))


def joined(parts: Iterable[Examples]) -> Examples:
    """All of them, one after the other."""
    listed = list(parts)
    return Examples(**{f.name: np.concatenate([getattr(part, f.name) for part in listed]) for f in fields(Examples)})


def save_examples(examples: Examples, path: Path) -> None:
    """As HDF5; the file appears when it is whole."""
    partial = path.with_suffix(".partial")
    with h5py.File(partial, "w") as file:
        for field in fields(examples):
            file.create_dataset(field.name, data=getattr(examples, field.name), compression="gzip", fletcher32=True)
    partial.replace(path)


def load_examples(path: Path) -> Examples:
    """What `save_examples` wrote.

    Raises:
        IntegrityError: The file is damaged.
    """
    try:
        with h5py.File(path) as file:
            return Examples(**{field.name: file[field.name][:] for field in fields(Examples)})
    except (OSError, KeyError) as error:
        raise IntegrityError(f"{path} is damaged ({type(error).__name__}); delete it, it is made again") from None
