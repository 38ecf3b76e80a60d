"""Random described scenes to speak of: tables with things and zones, twins, stacks, and rooms with landmarks."""

from __future__ import annotations

import random

from embodied.planning.teaching.mentions import Thing
from embodied.types import DescribedObject, Fact, Predicate, SceneDescription

COLOURS = ("red", "orange", "yellow", "green", "teal", "blue", "purple", "pink", "brown", "white", "grey", "black")
_HEIGHT = 0.4


def draw_scene(rng: random.Random) -> SceneDescription:
    """A table in three of four, else rooms."""
    return _table(rng) if rng.random() < 0.85 else _rooms(rng)


def things_of(scene: SceneDescription) -> list[Thing]:
    return [Thing(item.id, item.role, item.kind, item.colour) for item in scene.objects if item.role != "place"]


def _table(rng: random.Random) -> SceneDescription:
    spots = [(x, y) for x in (1.12, 1.22, 1.32, 1.42) for y in (0.45, 0.57, 0.69, 0.81, 0.93, 1.05)]
    rng.shuffle(spots)
    named = rng.random() < 0.5
    objects = [DescribedObject("table", "landmark", "table", "brown", (1.30, 0.75, 0.20), (0.25, 0.40, 0.20), 1.0)]
    facts: list[Fact] = []
    for i in range(rng.randint(0, 3)):
        kind, colour = rng.choice(("tray", "tray", "disc", "plate")), rng.choice(COLOURS)
        x, y = spots.pop()
        name = f"zone_{kind}_{i}" if named else f"z{i}"
        objects.append(DescribedObject(name, "zone", kind, colour, (x, y, 0.401), (0.07, 0.07, 0.002), 1.0))
    count = rng.randint(2, 6)
    looks = [(rng.choice(("block", "block", "block", "cylinder", "ball")), rng.choice(COLOURS)) for _ in range(count)]
    if rng.random() < 0.35:
        looks[-1] = looks[0]
    below: DescribedObject | None = None
    for i, (kind, colour) in enumerate(looks):
        half = rng.choice((0.018, 0.025, 0.025, 0.03))
        x, y = spots.pop()
        z = _HEIGHT + half
        name = f"{colour}_{kind}_{i}" if named else f"obj{i}"
        on = "table"
        if below is not None and rng.random() < 0.1:
            x, y, z, on = (
                below.position_m[0],
                below.position_m[1],
                below.position_m[2] + below.half_extents_m[2] + half,
                below.id,
            )
        item = DescribedObject(name, "object", kind, colour, (x, y, z), (half, half, half), 1.0)
        objects.append(item)
        facts.append(Fact(Predicate("on", (name, on)), 1.0, "oracle"))
        below = item if on == "table" and kind == "block" else None
    return SceneDescription(tuple(objects), tuple(facts), (), "", "", "world")


def _rooms(rng: random.Random) -> SceneDescription:
    colours = rng.sample(COLOURS, rng.randint(2, 6))
    objects = []
    for i, colour in enumerate(colours):
        kind = "pillar" if rng.random() < 0.8 else rng.choice(("block", "door", "wall", "cylinder"))
        at = (rng.uniform(-6, 6), rng.uniform(-6, 6), 0.6)
        name = f"{colour}_{kind}" if rng.random() < 0.5 else f"lm{i}"
        objects.append(DescribedObject(name, "landmark", kind, colour, at, (0.35, 0.35, 0.6), 1.0))
    objects.append(DescribedObject("start", "place", "place", "unknown", (0.0, 0.0, 0.1), (0.2, 0.2, 0.2), 1.0))
    return SceneDescription(tuple(objects), (), (), "", "", "world")
