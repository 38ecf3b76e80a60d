"""Random mazes and rooms, seen from above: walls, doors, fixed things, zones, sometimes a point robot.

Mazes are like Gymnasium-Robotics' PointMaze (cells with walls as wide as the ways), rooms like the shipped scene
`rooms`. Frame B is the pose of the site `start`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from embodied.colours import lab
from robots.random_camera import CameraRange, draw_camera
from robots.random_look import draw_colour, draw_look, draw_surfaces, level_light
from robots.random_place import Spot, is_clear, outline_radius
from robots.random_rules import Rules, allowed_colours
from robots.random_scene import (
    Area,
    Part,
    RandomScene,
    RandomThing,
    SceneKind,
    Surface,
    View,
    numbers,
)
from robots.random_things import draw_pillar, draw_zone
from robots.random_views import draw_views, put_at, spot_top

POINT_BODY = "particle"
_FAR_M = (0.1, 200.0)
"""Distances of cameras from above: whatever shows the whole area."""
_TRIES = 40
_APART = 25.0
"""How far, in CIELAB, things stand out from what is about them."""

Region = tuple[float, float, float, float]
"""x from, x to, y from, y to, metres."""


@dataclass(frozen=True)
class Plan:
    """A floor with walls; lengths in metres, the origin in the middle."""

    half_m: tuple[float, float]
    regions: tuple[Region, ...]
    """Free rectangles."""
    walls: tuple[Region, ...]
    height_m: float
    """Of the walls."""
    gaps: tuple[Region, ...] = ()
    """Where doors may be."""
    scale_m: float = 1.0
    """Half the width of the narrowest way."""


def draw_rooms_scene(rng: np.random.Generator, seed: int, rules: Rules, kind: SceneKind) -> RandomScene:
    """A maze or rooms, with as many views as the rules say."""
    plan = _draw_maze(rng) if kind == "maze" else _draw_rooms(rng)
    area = Area((0.0, 0.0, 0.0), plan.half_m)
    tops, grounds = _draw_contrast(rng, rules)
    robot = rng.random() < (0.7 if kind == "maze" else 0.3)
    things = _draw_things(rng, plan, rules)
    if robot:
        things = (*things, _point_robot(rng, plan))
    doors = [(_door(index, gap, plan), gap) for index, gap in enumerate(plan.gaps)]
    scene = RandomScene(
        seed=seed, split=rules.split, kind=kind, robot="point" if robot else "none", area=area,
        things=(*things, *(door for door, _ in doors)), views=(), tops=tops, grounds=grounds,
        fixed=_fixed_xml(rng, plan),
    )  # fmt: skip
    views = draw_views(rules.views, lambda _: _draw_view(rng, scene, things, doors, plan, rules))
    return replace(scene, views=views) if views else draw_rooms_scene(rng, seed, rules, kind)


def _draw_view(
    rng: np.random.Generator,
    scene: RandomScene,
    things: tuple[RandomThing, ...],
    doors: list[tuple[RandomThing, Region]],
    plan: Plan,
    rules: Rules,
) -> View | None:
    spots = _scatter(rng, things, plan)
    chosen = rules.draw_camera_range(rng)
    elevation = (50.0, 69.0) if rules.split == "new_camera" else (70.0, 90.0)
    camera = draw_camera(rng, scene.area, CameraRange(elevation, chosen.fov_deg, _FAR_M, 1.25))
    if spots is None or camera is None:
        return None
    look = draw_look(rng, scene.area, len(scene.tops), len(scene.grounds), rules.unusual_light)
    ground = scene.grounds[look.ground]
    special = rules.draw_special(rng, things)
    wanted = [
        (spot, special.get(index) or allowed_colours(spot.thing.kind), ground) for index, spot in enumerate(spots)
    ]
    for door, (x0, x1, y0, y1) in doors:
        spot = Spot(door, (x0 + x1) / 2, (y0 + y1) / 2, door.half_m[2], 0.0)
        wanted.append((spot, allowed_colours(door.kind), scene.tops[look.top]))
    puts = []
    for spot, names, surface in wanted:
        light = level_light(look, spot_top(spot, scene.area))
        colour = draw_colour(rng, names, surface.tones, _APART, light)
        if colour is None:
            return None
        puts.append(put_at(spot, colour, scene.area))
    return View(tuple(puts), look, camera)


def _scatter(rng: np.random.Generator, things: Sequence[RandomThing], plan: Plan) -> list[Spot] | None:
    """A place for each thing in one of the free rectangles, clear of the others; None where one found none."""
    spots: list[Spot] = []
    for thing in things:
        radius = outline_radius(thing) + 0.05 * plan.scale_m
        for _ in range(_TRIES):
            x0, x1, y0, y1 = plan.regions[int(rng.integers(len(plan.regions)))]
            if min(x1 - x0, y1 - y0) <= 2 * radius:
                continue
            x, y = float(rng.uniform(x0 + radius, x1 - radius)), float(rng.uniform(y0 + radius, y1 - radius))
            spot = Spot(thing, x, y, thing.half_m[2], float(rng.uniform(-math.pi, math.pi)))
            if is_clear(spot, spots):
                spots.append(spot)
                break
        else:
            return None
    return spots


def _draw_things(rng: np.random.Generator, plan: Plan, rules: Rules) -> tuple[RandomThing, ...]:
    """Zones, pillars, blocks and balls that suit the width of the ways; all of them are fixed."""
    scale = plan.scale_m
    # Ordinary splits have few things here: mazes are narrow.
    few, many = (rules.objects[0], rules.objects[1]) if rules.objects[0] > 1 else (0, 5)
    count = int(rng.integers(few, many + 1))
    sizes = replace(rules.sizes, zone_half_m=(0.3 * scale, 0.5 * scale))
    things = [
        _raised(draw_zone(rng, f"zone{i + 1}", str(rng.choice(("tray", "disc"))), sizes), 0.004)
        for i in range(int(rng.choice([0, 1, 2], p=[0.6, 0.25, 0.15])))
    ]
    for index in range(count):
        name, dice = f"thing{index + 1}", rng.random()
        if dice < 0.6:
            things.append(draw_pillar(rng, name, (0.15 * scale, 0.35 * scale)))
            continue
        half = float(rng.uniform(0.15, 0.35)) * scale
        part = Part("box", (half,) * 3) if dice < 0.85 else Part("sphere", (half,))
        kind = "block" if part.shape == "box" else "ball"
        things.append(RandomThing(name, "landmark", kind, (part,), (half,) * 3, kind == "ball", kind == "block"))
    return tuple(things)


def _raised(zone: RandomThing, half_m: float) -> RandomThing:
    """A zone as a slab without a rim, thick enough to be seen from afar."""
    part = replace(zone.parts[0], size_m=(*zone.parts[0].size_m[:-1], half_m))
    return replace(zone, parts=(part,), half_m=(*zone.half_m[:2], half_m))


def _point_robot(rng: np.random.Generator, plan: Plan) -> RandomThing:
    radius = float(rng.uniform(0.15, 0.3)) * plan.scale_m
    return RandomThing(POINT_BODY, "robot", "robot", (Part("sphere", (radius,)),), (radius,) * 3, True, False)


def _door(index: int, gap: Region, plan: Plan) -> RandomThing:
    half = ((gap[1] - gap[0]) / 2, (gap[3] - gap[2]) / 2, 0.45 * plan.height_m)
    return RandomThing(f"door{index + 1}", "landmark", "door", (Part("box", half),), half)


def _draw_contrast(rng: np.random.Generator, rules: Rules) -> tuple[tuple[Surface, ...], tuple[Surface, ...]]:
    """Materials of walls and floors, each wall's clearly unlike each floor's."""
    while True:
        tops, grounds = draw_surfaces(rng, "top", 2, rules.textures), draw_surfaces(rng, "ground", 2, rules.textures)
        one, two = (lab(np.array([tone for s in group for tone in s.tones])) for group in (tops, grounds))
        if np.linalg.norm(one[:, None] - two[None], axis=-1).min() > 10.0:
            return tops, grounds


def _draw_maze(rng: np.random.Generator) -> Plan:
    """Ways carved depth first between odd cells, and some walls taken away again."""
    rows, columns = (int(rng.choice([5, 7, 9])) for _ in range(2))
    solid = np.ones((rows, columns), dtype=bool)
    path = [(1, 1)]
    solid[1, 1] = False
    while path:
        row, column = path[-1]
        ways = [(0, 2), (0, -2), (2, 0), (-2, 0)]
        ahead = [(row + a, column + b) for a, b in ways if 0 < row + a < rows - 1 and 0 < column + b < columns - 1]
        ahead = [cell for cell in ahead if solid[cell]]
        if not ahead:
            path.pop()
            continue
        nxt = ahead[int(rng.integers(len(ahead)))]
        solid[nxt] = solid[(row + nxt[0]) // 2, (column + nxt[1]) // 2] = False
        path.append(nxt)
    solid[1:-1, 1:-1] &= rng.random((rows - 2, columns - 2)) > rng.uniform(0.0, 0.4)
    cell = float(rng.uniform(0.6, 1.4))
    return _plan_of(solid, cell, float(rng.uniform(0.25, 0.6)) * cell)


def _plan_of(solid: np.ndarray, cell: float, height: float) -> Plan:
    """Walls are the runs of solid cells in each row."""
    rows, columns = solid.shape
    half = columns * cell / 2, rows * cell / 2

    def box(row: int, first: int, last: int) -> Region:
        return first * cell - half[0], last * cell - half[0], row * cell - half[1], (row + 1) * cell - half[1]

    walls, regions = [], []
    for row in range(rows):
        start = 0
        for column in range(columns + 1):
            if column == columns or not solid[row, column]:
                if column > start:
                    walls.append(box(row, start, column))
                start = column + 1
            if column < columns and not solid[row, column]:
                regions.append(box(row, column, column + 1))
    return Plan(half, tuple(regions), tuple(walls), height, (), cell / 2)


def _draw_rooms(rng: np.random.Generator) -> Plan:
    """Two to four rooms: one or two inner walls from side to side, with openings."""
    a, b = (float(rng.uniform(3.5, 8.5)) for _ in range(2))
    thick, height = float(rng.uniform(0.08, 0.2)), float(rng.uniform(0.4, 1.2))
    walls: list[Region] = [
        (-a - thick, a + thick, b, b + 2 * thick), (-a - thick, a + thick, -b - 2 * thick, -b),
        (a, a + 2 * thick, -b - thick, b + thick), (-a - 2 * thick, -a, -b - thick, b + thick),
    ]  # fmt: skip
    x, y = float(rng.uniform(-0.4, 0.4)) * a, float(rng.uniform(-0.4, 0.4)) * b
    columns, rows = [(-a, a)], [(-b, b)]
    both = rng.random() < 0.6
    gaps: list[Region] = []
    if both or rng.random() < 0.5:
        columns = [(-a, x - thick), (x + thick, a)]
        _divide(
            rng,
            [(-b, y - thick), (y + thick, b)] if both else rows,
            walls,
            gaps,
            lambda u, v: (x - thick, x + thick, u, v),
        )
    if both or len(columns) == 1:
        rows = [(-b, y - thick), (y + thick, b)]
        _divide(rng, columns, walls, gaps, lambda u, v: (u, v, y - thick, y + thick))
    if both:
        walls.append((x - thick, x + thick, y - thick, y + thick))
    regions = tuple((*c, *r) for c in columns for r in rows)
    doors = tuple(gap for gap in gaps if rng.random() < 0.35)
    return Plan((a + 2 * thick, b + 2 * thick), regions, tuple(walls), height, doors, 1.0)


def _divide(
    rng: np.random.Generator,
    spans: list[tuple[float, float]],
    walls: list[Region],
    gaps: list[Region],
    region: Callable[[float, float], Region],
) -> None:
    """Walls along each span, left open for one door each."""
    for low, high in spans:
        width = min(float(rng.uniform(1.0, 1.8)), 0.5 * (high - low))
        start = float(rng.uniform(low + 0.2 * width, high - 1.2 * width))
        walls += [region(low, start), region(start + width, high)]
        gaps.append(region(start, start + width))


def _fixed_xml(rng: np.random.Generator, plan: Plan) -> str:
    lines = ['    <geom name="floor" type="plane" size="0 0 0.1" material="ground"/>']
    half = plan.height_m / 2
    for index, (x0, x1, y0, y1) in enumerate(plan.walls):
        size = numbers(((x1 - x0) / 2, (y1 - y0) / 2, half))
        place = numbers(((x0 + x1) / 2, (y0 + y1) / 2, half))
        lines.append(
            f'    <body name="wall{index + 1}" pos="{place}"><geom type="box" size="{size}" material="top"/></body>'
        )
    x0, x1, y0, y1 = plan.regions[int(rng.integers(len(plan.regions)))]
    place = numbers((float(rng.uniform(x0, x1)), float(rng.uniform(y0, y1)), 0.1))
    lines.append(
        f'    <site name="start" pos="{place}" size="{0.2 * plan.scale_m!r}" rgba="0 0 0 {rng.choice([0, 0.3])}"/>'
    )
    return "\n".join(lines) + "\n"
