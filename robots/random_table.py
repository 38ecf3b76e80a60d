"""Random tables with things on them, and things on a floor: what is drawn once a scene, and once a view."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from robots.random_camera import draw_camera
from robots.random_look import WHITE_LIGHT, draw_colour, draw_look, draw_surfaces, keeps_name, level_light
from robots.random_place import Habits, Spot, arrange
from robots.random_rules import Rules, allowed_colours
from robots.random_scene import (
    FINISHES,
    TABLE,
    Area,
    Grip,
    Part,
    Put,
    RandomScene,
    RandomThing,
    SceneKind,
    Surface,
    Triple,
    View,
    numbers,
)
from robots.random_things import OBJECT_KINDS, ZONE_KINDS, draw_object, draw_pillar, draw_zone
from robots.random_views import draw_views, put_at, spot_top, turned

_OBJECT_SHARES = (0.27, 0.21, 0.14, 0.12, 0.12, 0.14)
"""Of OBJECT_KINDS."""
_MOST_HELD_M = 0.04
_FURNITURE_M = (2.6, 3.6)
"""How far from the middle of the table furniture stands."""


def draw_table_scene(rng: np.random.Generator, seed: int, rules: Rules, kind: SceneKind, robot: bool) -> RandomScene:
    """A table (or, of the kind `floor`, a part of the floor) with as many views as the rules say."""
    area = _draw_area(rng, kind, robot, rules)
    tops = draw_surfaces(rng, "top", 3, rules.textures)
    grounds = draw_surfaces(rng, "ground", 2, rules.textures)
    furniture = _draw_furniture(rng, area)
    fixed = _floor_xml(rng) + (_table_xml(rng, area, robot) if kind == "table" else "")
    fixed += _marks_xml(rng, area) + _backdrop_xml(rng, area)
    things = _draw_things(rng, rules)
    scene = RandomScene(
        seed=seed, split=rules.split, kind=kind, robot="fetch" if robot else "none", area=area,
        things=(*things, *(thing for thing, _ in furniture)), views=(), tops=tops,
        grounds=grounds, fixed=fixed, sky=_sky(rng), haze=0.05 if rng.random() < 0.4 else 0.0,
    )  # fmt: skip
    views = draw_views(rules.views, lambda first: _draw_view(rng, scene, things, furniture, rules, first))
    return replace(scene, views=views) if views else draw_table_scene(rng, seed, rules, kind, robot)


def _draw_area(rng: np.random.Generator, kind: SceneKind, robot: bool, rules: Rules) -> Area:
    height = 0.0 if kind == "floor" else float(rng.uniform(0.25, 0.85) if robot else rng.uniform(0.05, 1.0))
    half = float(rng.uniform(0.2, 0.32)), float(rng.uniform(0.25, 0.42))
    if rules.objects[1] > 6:
        half = float(rng.uniform(0.26, 0.34)), float(rng.uniform(0.34, 0.44))
    x, y = (float(v) for v in rng.uniform(-1.0, 1.5, 2))
    return Area((x, y, height), half, float(rng.uniform(-math.pi, math.pi)) if rng.random() < 0.7 else 0.0)


def _draw_things(rng: np.random.Generator, rules: Rules) -> tuple[RandomThing, ...]:
    """Zones and pillars first: what moves is placed round them."""
    zones = [
        draw_zone(rng, f"zone{index + 1}", str(rng.choice(ZONE_KINDS)), rules.sizes)
        for index in range(int(rng.choice([0, 1, 2, 3], p=[0.35, 0.3, 0.25, 0.1])))
    ]
    pillars = [draw_pillar(rng, "pillar1", rules.sizes.pillar_radius_m)] if rng.random() < 0.2 else []
    objects: list[RandomThing] = []
    for index in range(int(rng.integers(rules.objects[0], rules.objects[1] + 1))):
        name = f"thing{index + 1}"
        if objects and rng.random() < 0.15:
            objects.append(replace(objects[int(rng.integers(len(objects)))], name=name))
        else:
            objects.append(draw_object(rng, name, str(rng.choice(OBJECT_KINDS, p=_OBJECT_SHARES)), rules.sizes))
    return (*zones, *pillars, *objects)


def _draw_view(
    rng: np.random.Generator,
    scene: RandomScene,
    things: tuple[RandomThing, ...],
    furniture: list[tuple[RandomThing, Put]],
    rules: Rules,
    first: bool,
) -> View | None:
    """None where the things found no place or no camera shows the area."""
    order = sorted(range(len(things)), key=lambda i: (_rank(things[i]), rng.random()))
    placed = arrange(rng, [things[i] for i in order], scene.area.half_m, Habits())
    if placed is None:
        return None
    spots = [placed[order.index(i)] for i in range(len(things))]
    look = draw_look(rng, scene.area, len(scene.tops), len(scene.grounds), rules.unusual_light)
    behind = math.degrees(robot_yaw(scene.area)) + 180.0 if scene.robot == "fetch" else None
    camera = draw_camera(rng, scene.area, rules.draw_camera_range(rng), behind)
    if camera is None:
        return None
    surface = scene.tops[look.top] if scene.kind == "table" else scene.grounds[look.ground]
    painted = _paint(rng, things, surface, rules, [level_light(look, spot_top(spot, scene.area)) for spot in spots])
    if painted is None:
        return None
    puts = [
        put_at(spot, colour, scene.area, int(rng.integers(len(FINISHES))))
        for spot, colour in zip(spots, painted, strict=True)
    ]
    grip = _draw_grip(rng, scene.area, spots, holds=not first) if scene.robot == "fetch" else None
    if grip is not None and grip.holds is not None:
        turn = turned(robot_yaw(scene.area))
        puts[grip.holds] = replace(puts[grip.holds], position_m=grip.target_m, quaternion=turn)
    return View((*puts, *(put for _, put in furniture)), look, camera, grip)


def _rank(thing: RandomThing) -> int:
    return ("zone", "landmark", "object").index(thing.role)


def _paint(
    rng: np.random.Generator,
    things: tuple[RandomThing, ...],
    surface: Surface,
    rules: Rules,
    lights: Sequence[Triple],
) -> list[tuple[str, Triple]] | None:
    """A colour for each thing: flat ones stand out from what they lie on, twins have the same. None where the light
    at its place (`lights`, one for each) spoils a colour that a thing has to have."""
    painted: list[tuple[str, Triple]] = []
    special = rules.draw_special(rng, things)
    zones: list[Triple] = []
    for index, thing in enumerate(things):
        twin = next((i for i in range(index) if things[i].parts == thing.parts), None)
        alike = twin is not None and index not in special and rng.random() < 0.7
        if alike and keeps_name(painted[twin], lights[index]):
            painted.append(painted[twin])
            continue
        zone = thing.role == "zone"
        names = special.get(index) or allowed_colours(thing.kind)
        others = [*surface.tones, *([] if zone else zones)]
        colour = draw_colour(rng, names, others, 25.0 if zone else 16.0, lights[index])
        if colour is None:
            return None
        painted.append(colour)
        zones += [painted[-1][1]] if zone else []
    return painted


def _draw_grip(rng: np.random.Generator, area: Area, spots: list[Spot], holds: bool) -> Grip:
    """Above what lies there, empty or (sometimes) with a thing that nothing stands on."""
    yaw = robot_yaw(area)
    forward = np.array([math.cos(yaw), math.sin(yaw)])
    x, y = np.array(area.center_m[:2]) + rng.uniform(-0.12, 0.12) * forward
    x, y = x - forward[1] * rng.uniform(-0.2, 0.2), y + forward[0] * rng.uniform(-0.2, 0.2)
    highest = max((spot.z + spot.thing.half_m[2] for spot in spots), default=0.0)
    z = area.center_m[2] + highest + float(rng.uniform(0.05, 0.2))
    held = None
    if holds and rng.random() < 0.45:
        able = [i for i, spot in enumerate(spots) if _graspable(spot) and not _burdened(spot, spots)]
        held = int(rng.choice(able)) if able else None
    opening = float(rng.choice([0.0, 0.05, rng.uniform(0.005, 0.05)]))
    return Grip((float(x), float(y), z + (0.05 if held is not None else 0.0)), opening, held)


def _graspable(spot: Spot) -> bool:
    thing = spot.thing
    shape = thing.kind in ("block", "ball") or (thing.kind == "cylinder" and thing.round)
    return shape and thing.half_m[1] <= _MOST_HELD_M and thing.half_m[2] <= 0.035


def _burdened(spot: Spot, spots: list[Spot]) -> bool:
    return any(other.level > spot.level and spot.gap(other.x, other.y) < 0 for other in spots)


def robot_yaw(area: Area) -> float:
    """Which way the arm looks that stands before the area by the rule of `robots.placement`: along its shorter side."""
    x, y = math.cos(area.yaw_rad), math.sin(area.yaw_rad)
    if area.half_m[0] > area.half_m[1]:
        x, y = -y, x
    key = x if abs(x) > 1e-6 else y
    return math.atan2(y, x) if key > 0 else math.atan2(-y, -x)


def _sky(rng: np.random.Generator) -> tuple[Triple, Triple]:
    grey = float(rng.uniform(0.1, 0.95))
    one = np.clip(grey + rng.normal(0, 0.06, 3), 0, 1)
    two = np.clip(one * rng.uniform(0.5, 1.2), 0, 1)
    return tuple(float(v) for v in one), tuple(float(v) for v in two)  # type: ignore[return-value]


def _floor_xml(rng: np.random.Generator) -> str:
    size = float(rng.choice([0.0, 3.0, 6.0]))
    return f'    <geom name="floor" type="plane" size="{size} {size} 0.1" material="ground"/>\n'


def _table_xml(rng: np.random.Generator, area: Area, robot: bool) -> str:
    """A block or, not before a robot, sometimes a top on legs."""
    (x, y, height), (a, b) = area.center_m, area.half_m
    turn = numbers(turned(area.yaw_rad))
    body = f'    <body name="{TABLE}" pos="{numbers((x, y, height))}" quat="{turn}">'
    half = height / 2
    if robot or height < 0.3 or rng.random() < 0.6:
        return f'{body}<geom type="box" size="{a!r} {b!r} {half!r}" pos="0 0 {-half!r}" material="top"/></body>\n'
    thick, leg = 0.015, 0.02
    geoms = f'<geom type="box" size="{a!r} {b!r} {thick!r}" pos="0 0 {-thick!r}" material="top"/>'
    for i in (-1, 1):
        for j in (-1, 1):
            place = numbers((i * (a - leg), j * (b - leg), -half))
            geoms += f'<geom type="box" size="{leg} {leg} {half - thick!r}" pos="{place}" material="top"/>'
    return f"{body}{geoms}</body>\n"


def _marks_xml(rng: np.random.Generator, area: Area) -> str:
    """Up to four small flat marks that belong to the surface and that nothing collides with."""
    lines = []
    for _ in range(int(rng.choice([0, 1, 2, 4], p=[0.55, 0.2, 0.15, 0.1]))):
        x, y = (float(rng.uniform(-0.85, 0.85)) * half for half in area.half_m)
        size = numbers((*rng.uniform(0.003, 0.02, 2), 0.0001))
        shape = 'type="box"' if rng.random() < 0.5 else 'type="cylinder"'
        size = size if "box" in shape else numbers((float(rng.uniform(0.004, 0.015)), 0.0001))
        turn = numbers(turned(float(rng.uniform(-math.pi, math.pi))))
        lines.append(
            f'    <geom {shape} size="{size}" pos="{numbers(area.to_world(x, y, 0.0001))}" quat="{turn}"'
            f' rgba="{numbers(rng.uniform(0.05, 0.95, 3))} 1" contype="0" conaffinity="0"/>'
        )
    return "\n".join(lines) + "\n"


def _backdrop_xml(rng: np.random.Generator, area: Area) -> str:
    """Sometimes two walls of a room, far behind."""
    if rng.random() < 0.6:
        return ""
    x, y, _ = area.center_m
    far, rgb = float(rng.uniform(4.2, 5.0)), numbers(np.clip(rng.uniform(0.3, 0.95) + rng.normal(0, 0.05, 3), 0, 1))
    walls = (((x + far, y, 1.2), (0.05, 5.0, 1.3)), ((x, y + far, 1.2), (5.0, 0.05, 1.3)))
    return "".join(
        f'    <geom type="box" pos="{numbers(place)}" size="{numbers(size)}" rgba="{rgb} 1"/>\n'
        for place, size in walls
    )


def _draw_furniture(rng: np.random.Generator, area: Area) -> list[tuple[RandomThing, Put]]:
    """Up to three things that stand on the floor far from the table; they are fixed and have names."""
    found = []
    for index in range(int(rng.choice([0, 1, 2, 3], p=[0.5, 0.25, 0.15, 0.1]))):
        half = tuple(float(v) for v in rng.uniform(0.06, 0.3) * rng.uniform(0.55, 1.0, 3))
        around, far = float(rng.uniform(0, 2 * math.pi)), float(rng.uniform(*_FURNITURE_M))
        colour = draw_colour(rng, allowed_colours("block"), (), 0.0, WHITE_LIGHT)
        assert colour is not None
        thing = RandomThing(f"furniture{index + 1}", "landmark", "block", (Part("box", half),), half)  # type: ignore[arg-type]
        place = (area.center_m[0] + far * math.cos(around), area.center_m[1] + far * math.sin(around), half[2])
        turn = turned(float(rng.uniform(-math.pi, math.pi)))
        found.append((thing, Put(*colour, place, turn)))
    return found
