"""What is true of a camera frame: the labels that describers are fitted to and judged by, as plain data.

A label comes from the simulator, never from a describer. Lengths are metres, pixels count from the picture's upper left
corner, centres and extents have the meaning of `embodied.facts`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from embodied.errors import IntegrityError
from embodied.types import BaseFrame, EntityRole, Predicate

LABEL_VERSION = 1
"""Grows when the meaning of a field changes."""

MAPS = ("maze", "rooms")
"""Kinds of scene that are shown from far above, as a map."""
Triple = tuple[float, float, float]
_FLOATS = {"center_b_m": 3, "half_extents_m": 3, "position_m": 3, "quaternion": 4}


@dataclass(frozen=True)
class EntityLabel:
    """One thing of the scene, and how much of it the frame shows."""

    id: str
    role: EntityRole
    kind: str
    colour: str
    center_b_m: Triple
    """Centre in frame B of the box round its geoms whose axes lie along B."""
    half_extents_m: Triple
    """Half extents of that box, along B's axes."""
    position_m: Triple
    """The same centre in the world."""
    quaternion: tuple[float, float, float, float]
    """Orientation in the world, wxyz."""
    box_px: tuple[int, int, int, int] | None
    """Left, top, right and bottom of its visible pixels, the last two exclusive; None where none is visible."""
    pixels: int
    """Number of its visible pixels."""
    visible_share: float
    """Visible pixels as a share of those that it would have alone in the picture, 0 where it would have none."""
    cut: bool
    """Its silhouette reaches the picture's border, so it may go on beyond."""


@dataclass(frozen=True)
class FrameLabel:
    """Everything that is true of a frame."""

    scene_kind: str
    """`table`, `floor`, `maze` or `rooms`."""
    entities: tuple[EntityLabel, ...]
    """All of the scene, in its order; those that the frame does not show too."""
    facts: tuple[Predicate, ...]
    """The true ones of `embodied.facts.all_facts`; what is not listed is false."""
    base: BaseFrame
    """Frame B in the world."""
    surface_height_m: float | None
    """World height of the work surface."""
    robot: str
    """`fetch`, `point`, ... or `none`: what is in the scene."""
    robot_pixels: int
    """Number of pixels that show it."""
    split: str
    seed: int
    view: int
    """Of the random scene that the frame was made from."""

    @property
    def robot_in_view(self) -> bool:
        """Whether any pixel shows the robot."""
        return self.robot_pixels > 0

    def entity(self, entity_id: str) -> EntityLabel:
        """The entity with this id; KeyError where there is none."""
        for entity in self.entities:
            if entity.id == entity_id:
                return entity
        raise KeyError(entity_id)

    def to_json(self) -> str:
        """One line of JSON, from which `label_from_json` makes an equal label."""
        entities = [{key: getattr(entity, key) for key in _ENTITY_KEYS} for entity in self.entities]
        data = {key: getattr(self, key) for key in _PLAIN_KEYS}
        base = [*self.base.origin_m, self.base.yaw_rad]
        facts = [[fact.name, *fact.args] for fact in self.facts]
        return json.dumps({**data, "base": base, "facts": facts, "entities": entities}, separators=(",", ":"))


_ENTITY_KEYS = tuple(EntityLabel.__dataclass_fields__)
_PLAIN_KEYS = tuple(key for key in FrameLabel.__dataclass_fields__ if key not in ("entities", "facts", "base"))


def label_from_json(text: str) -> FrameLabel:
    """The label that `FrameLabel.to_json` wrote.

    Raises:
        IntegrityError: The text is no label of this version; one line.
    """
    try:
        data = json.loads(text)
        x, y, z, yaw = (float(value) for value in data.pop("base"))
        facts = tuple(Predicate(str(name), tuple(str(a) for a in args)) for name, *args in data.pop("facts"))
        entities = tuple(_entity(entry) for entry in data.pop("entities"))
        return FrameLabel(entities=entities, facts=facts, base=BaseFrame((x, y, z), yaw), **data)
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise IntegrityError(f"this is no label of a frame ({type(error).__name__}); make the data set again") from None


def _entity(entry: Mapping[str, Any]) -> EntityLabel:
    values = dict(entry)
    for key, count in _FLOATS.items():
        values[key] = tuple(float(v) for v in values[key])
        if len(values[key]) != count:
            raise ValueError(key)
    box = values["box_px"]
    return EntityLabel(**{**values, "box_px": None if box is None else tuple(int(v) for v in box)})
