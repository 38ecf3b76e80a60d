"""The describer that looks: things found in RGB-D, named by a picture model, related by geometry.

It never reads a simulator's state: frames and frame B are all that it is given. What is not sure enough is not said.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from embodied.colours import COLOURS
from embodied.errors import UserError
from embodied.labels import MAPS
from embodied.types import BaseFrame, DescribedObject, EntityRole, Fact, Frame, Predicate, SceneDescription
from vlm_describer.calibration import Calibration
from vlm_describer.describer import make_description
from vlm_describer.doubt import doubtful, fits, gap, strange
from vlm_describer.examples import SCENES
from vlm_describer.frames import listed, used_frame
from vlm_describer.fuse import fuse
from vlm_describer.located import COLOUR_STATISTICS, Item, Located
from vlm_describer.naming import Names
from vlm_describer.relations import questions
from vlm_describer.text import unnamed_phrase

YES, NO = 0.8, 0.2
"""Where a fact is stated, and where it is denied, as far as a calibration says nothing else."""
FIXED = ("pillar", "wall", "door")
UNNAMED = ("nothing", "robot")
THERE = "there"
"""Under this name a calibration has the least probability that something is a thing at all."""
HUELESS = 6
"""Channels that differ by no more are those of grey; noise and compression make so much."""
LEAST_THERE = 0.1
"""In a scene of a strange kind, what is less likely to be a thing than this is none."""
UNCOLOURED = ("wall",)
"""Lit so unevenly that one side of it has another colour than the other."""
LIT = 0.4
"""Largest channel of the brightest surface or thing from which a picture is lit; the least of 335 rendered frames was
.45."""
SHADED = 0.08
"""A thing whose largest channel is below this, on a surface of which it is too, lies in the dark: of 1,766 things in
these frames none did, black ones included."""
_BENEATH = COLOUR_STATISTICS.index("surface_r")
STANDS_M, STANDS_PIXELS, STANDS_APART_M = 0.03, 60, 0.06
"""What is nowhere smaller, shows so many pixels and is so far from a robot is a thing, whatever a namer says: of what
was no thing in these frames and was called nothing, none was so."""


class Looker(Protocol):
    """Finds things in a picture and says what they could be."""

    identity: str

    def look(self, frame: Frame, base: BaseFrame | None) -> tuple[Located, Names]:
        """Things in the frame, in frame B, and the logits of their names."""
        ...


@dataclass(frozen=True)
class Named:
    """A located thing with its names and how sure they are."""

    item: Item
    kind: str
    kind_chance: float
    colour: str
    colour_chance: float
    doubted: bool = False
    """Geometry speaks against any name: it is counted and placed, and no fact is about it."""
    there_chance: float = 1.0
    """Probability that it is a thing at all, whatever its name: no shadow, no part of a robot or of another thing."""

    @property
    def role(self) -> EntityRole:
        """What it is in a scene: what lies flat is a zone, what belongs to a building a landmark."""
        if self.kind in FIXED:
            return "landmark"
        return "zone" if self.kind == "tray" or (self.kind == "disc" and self.item.flat) else "object"


class SeeingDescriber:
    """Looks, names and relates. The same frames give the same description."""

    def __init__(
        self, name: str, looker: Looker, calibration: Calibration | None = None, base: BaseFrame | None = None
    ) -> None:
        """
        Args:
            name: Whose word it is: the source of what is not geometry's.
            looker: Finds things and names them.
            calibration: What its confidences mean; raw where None.
            base: Frame B in the world; the world itself where None.
        """
        self.name, self._looker = name, looker
        self._calibration, self._base = calibration or Calibration(), base

    def describe(self, frames: Sequence[Frame]) -> SceneDescription:
        """What the frames show together: views of one scene at one time, or the first where poses are not known.

        Raises:
            UserError: There is no frame, or one that cannot be used.
        """
        if not listed(frames):
            raise UserError("there is no frame to describe: give one")
        used = [used_frame(frame) for frame in listed(frames)]
        fused = fuse([self._looker.look(frame, self._base) for frame in used])
        located, names = fused.located, fused.names
        coloured = any(shows_colours(frame) for frame in used)
        named = name_items(located, names, self._calibration, coloured)
        kept = replace(located, items=tuple(thing.item for thing in named if not thing.doubted))
        facts, open_questions = related(kept, named, self._calibration)
        dark = bool(named) and not lit(located)
        plain = bool(named) and not coloured
        scene = [] if dark or plain or strange(located, doubtful(located)) else self._scene(names, located)
        unknown = [
            *(["any colour: there is hardly any light in the picture"] if dark else []),
            *(["any colour: the picture is grey all over"] if plain and not dark else []),
            *unsure(named, colours=not (dark or plain)),
            *([] if scene else ["what kind of scene this is"]),
            *open_questions,
            *([located.reason] if located.reason else []),
            *fused.left_out,
            *names.untold,
        ]
        base = located.base if located.frame == "world" else BaseFrame()
        return make_description([described(t) for t in named], [*scene, *facts], unknown, located.frame, base)

    def _scene(self, names: Names, located: Located) -> list[Fact]:
        """The kind of scene, where it is sure and geometry does not speak against it."""
        chances = self._calibration.names("scenes", names.scene)
        best = int(np.argmax(chances))
        kind = SCENES[best]
        if located.map_view != (kind in MAPS) or chances[best] < self._calibration.threshold("scenes", YES):
            return []
        return [Fact(Predicate("scene", (kind,)), float(chances[best]), self.name)]


def related(located: Located, named: Sequence[Named], calibration: Calibration) -> tuple[list[Fact], list[str]]:
    """Facts that are sure enough, and a phrase for each question that is not answered either way. Nothing is said about
    what may not be there."""
    roles: Mapping[str, str] = {thing.item.id: thing.role for thing in named}
    unsure_of = unsure_things(named, calibration)
    facts, unknown = [], [f"whether {name} is there" for name in sorted(unsure_of)]
    for predicate, raw in questions(located, roles):
        if not unsure_of.isdisjoint(predicate.args):
            continue
        chance = calibration.fact(predicate.name, raw)
        if chance >= calibration.threshold(predicate.name, YES):
            facts.append(Fact(predicate, chance, "locate"))
        elif chance > 1 - calibration.threshold(predicate.name, 1 - NO):
            unknown.append(f"whether {predicate}")
    return facts, unknown


def unsure_things(named: Sequence[Named], calibration: Calibration) -> frozenset[str]:
    """Ids of what may be no thing at all, though it is likelier to be one."""
    least = calibration.threshold(THERE, 0.0)
    return frozenset(thing.item.id for thing in named if not thing.doubted and thing.there_chance < least)


def lit(located: Located) -> bool:
    """Whether anything in the picture shows enough light for colours to be told."""
    shown = [*(surface.colour for surface in located.surfaces), *(item.colour for item in located.items)]
    return max((max(colour) for colour in shown), default=0.0) >= LIT


def shows_colours(frame: Frame) -> bool:
    """Whether any part of a picture has a hue: a camera without colours has none, nor has one that sees only glare."""
    rgb = frame.rgb[::2, ::2].astype(np.int16)
    return float(np.percentile(rgb.max(axis=-1) - rgb.min(axis=-1), 99.5)) > HUELESS


def in_the_dark(item: Item) -> bool:
    """Whether both a thing and what it lies on show next to no light."""
    return max(*item.colour, *item.colour_features[_BENEATH : _BENEATH + 3]) < SHADED


def stands(item: Item, located: Located) -> bool:
    """Whether geometry alone is sure that a thing is there, as far as it is not doubted: upright, whole in sight on a
    surface, neither small nor near a robot."""
    robots = [other for other in located.items if other.role_hint == "robot-like"]
    whole = not (item.cut or item.occluded or item.flat or located.map_view) and item.pixels >= STANDS_PIXELS
    upright = item.rests_on is not None and item.role_hint == "thing" and min(item.size_m) >= STANDS_M
    return whole and upright and all(gap(item, robot) >= STANDS_APART_M for robot in robots)


def unsure(named: Sequence[Named], colours: bool = True) -> list[str]:
    """A phrase for each name that is not known, and unless `colours` is false for each colour."""
    told = unnamed_phrase([thing.item.id for thing in named if thing.doubted])
    for thing in (thing for thing in named if not thing.doubted):
        if thing.kind == "thing":
            told.append(f"what {thing.item.id} is")
        if thing.colour == "unknown" and colours:
            told.append(f"the colour of {thing.item.id}")
    return told


def name_items(located: Located, names: Names, calibration: Calibration, coloured: bool = True) -> list[Named]:
    """Names for what is a thing, `thing` and `unknown` where none is sure enough; the robot and what is nothing left
    out. In a scene of another kind than any that names were learned in, `nothing` is no name either where it is not
    sure, nor where no thing would be left; nor where geometry is sure of a thing. In the dark no colour is one."""
    kinds = calibration.names("kinds", names.items["kinds"])
    colours = calibration.names("colours", names.items["colours"])
    named: list[Named] = []
    doubted = doubtful(located)
    foreign, light = strange(located, doubted), coloured and lit(located)
    for row, item in enumerate(located.items):
        kind, kind_chance = _surest("kinds", names.kinds, kinds[row], calibration)
        colour, colour_chance = _surest("colours", COLOURS, colours[row], calibration)
        likeliest = names.kinds[int(np.argmax(kinds[row]))]
        there = 1.0 - float(sum(kinds[row][names.kinds.index(name)] for name in UNNAMED))
        unlike = likeliest == "nothing" and item.id not in doubted and stands(item, located)
        if likeliest in UNNAMED and not unlike and not (foreign and item.id in doubted and likeliest != "robot"):
            continue
        if unlike or item.id in doubted or not fits(kind, located.map_view):
            named.append(Named(item, "thing", item.confidence, "unknown", 0.0, doubted=True, there_chance=there))
        else:
            seen = light and likeliest not in UNCOLOURED and not in_the_dark(item)
            shade = colour if seen else "unknown"
            named.append(Named(item, kind or "thing", kind_chance, shade or "unknown", colour_chance, False, there))
    return [thing for thing in named if thing.there_chance > LEAST_THERE] or named if foreign else named


def _surest(group: str, names: Sequence[str], chances: np.ndarray, calibration: Calibration) -> tuple[str, float]:
    """The likeliest name, empty below the threshold, and its probability."""
    best = int(np.argmax(chances))
    sure = float(chances[best])
    return (names[best] if sure >= calibration.threshold(group) else ""), sure


def described(thing: Named) -> DescribedObject:
    """A named thing as descriptions hold it."""
    position = thing.item.position_m
    if thing.doubted and len(thing.item.points_m):
        # Its middle would be a guess; what is seen of it is certain.
        x, y, z = (float(value) for value in np.mean(thing.item.points_m, axis=0))
        position = x, y, z
    confidence = thing.kind_chance * (thing.colour_chance if thing.colour != "unknown" else 1.0)
    return DescribedObject(
        id=thing.item.id,
        role=thing.role,
        kind=thing.kind,
        colour=thing.colour,
        position_m=position,
        half_extents_m=thing.item.half_extents_m,
        confidence=confidence,
    )
