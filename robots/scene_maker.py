"""Random table scenes: one to six named things and some zones on a table, the same for the same seed.

Things are blocks and cylinders of the sizes that the Fetch gripper takes; zones are flat trays and discs. The table is
that of Gymnasium-Robotics' FetchPush, so frame B is the world.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from embodied.errors import UserError
from embodied.rng import child_generator

COLOURS: dict[str, tuple[float, float, float]] = {
    "red": (0.85, 0.10, 0.10), "orange": (0.95, 0.50, 0.05), "yellow": (0.95, 0.85, 0.15), "green": (0.10, 0.60, 0.15),
    "teal": (0.10, 0.65, 0.65), "blue": (0.10, 0.20, 0.85), "purple": (0.55, 0.15, 0.65), "pink": (0.95, 0.55, 0.70),
}  # fmt: skip
ZONE_COLOURS: dict[str, tuple[float, float, float]] = {
    "white": (0.95, 0.95, 0.95), "black": (0.08, 0.08, 0.08), "yellow": (0.95, 0.85, 0.15),
    "purple": (0.55, 0.15, 0.65),
}  # fmt: skip
TABLE_CENTRE_M = (1.30, 0.75)
TABLE_HALF_M = (0.25, 0.35)
TABLE_TOP_M = 0.40
LIFT_M = 0.001
"""Things begin so much above the table: MuJoCo's collision of a cylinder with a box that it exactly touches can find
a depth of the box's width, and throws the cylinder away."""
MOST_THINGS = 6
_TRIES = 200
"""Draws of one centre before the whole scene is drawn again."""
_SCENES = 100
"""Scenes drawn before giving up."""

ThingKind = Literal["block", "cylinder"]
ZoneKind = Literal["tray", "disc"]


@dataclass(frozen=True)
class SceneMakerConfig:
    """What scenes are made of; lengths in metres, masses in kilograms."""

    half_size_m: tuple[float, float] = (0.018, 0.03)
    """Half an edge of a block, radius of a cylinder."""
    half_height_m: tuple[float, float] = (0.02, 0.03)
    """Half the height; a block is as high as it is wide."""
    mass_kg: tuple[float, float] = (0.2, 0.6)
    cylinders: float = 0.35
    """Share of the things that are cylinders."""
    edge_m: float = 0.05
    """Centres keep this far from the table's edges."""
    gap_m: float = 0.10
    """Least distance between the centres of two things."""
    zone_half_m: tuple[float, float] = (0.06, 0.08)
    zone_gap_m: float = 0.045
    """Between a zone's border and the centre of a thing outside it."""

    def __post_init__(self) -> None:
        widest = math.sqrt(2) * self.half_size_m[1]
        if self.gap_m < 2 * widest:
            raise UserError(f"gap_m must be at least {2 * widest:.3f} m, or two blocks may overlap; got {self.gap_m}")


@dataclass(frozen=True)
class MadeThing:
    """A movable thing; its position is that of its centre."""

    name: str
    kind: ThingKind
    rgb: tuple[float, float, float]
    half_size_m: float
    half_height_m: float
    mass_kg: float
    position_m: tuple[float, float, float]
    yaw_rad: float

    @property
    def rest_height_m(self) -> float:
        """Height of its centre when it lies on the table."""
        return TABLE_TOP_M + self.half_height_m


@dataclass(frozen=True)
class MadeZone:
    """A tray (a square along the table's sides) or a disc, flat on the table."""

    name: str
    kind: ZoneKind
    rgb: tuple[float, float, float]
    half_m: float
    """Half an edge, or the radius."""
    position_m: tuple[float, float]

    def distance(self, point_m: np.ndarray) -> float:
        """From the zone's border to a point (2,); negative inside."""
        offset = np.abs(point_m - np.asarray(self.position_m))
        if self.kind == "disc":
            return float(np.hypot(*offset)) - self.half_m
        beyond = offset - self.half_m
        return float(np.hypot(*np.maximum(beyond, 0.0)) + min(beyond.max(), 0.0))


@dataclass(frozen=True)
class MadeScene:
    """A scene as data; `xml` is the MJCF."""

    name: str
    things: tuple[MadeThing, ...]
    zones: tuple[MadeZone, ...]

    @property
    def xml(self) -> str:
        """The scene without a robot; its things rest on the table."""
        parts = [_zone_xml(zone) for zone in self.zones] + [_thing_xml(thing) for thing in self.things]
        return _FRAME.format(name=self.name, parts="\n".join(parts))

    def write(self, folder: Path) -> Path:
        """The MJCF file, `<name>.xml` in a folder that is made where it is missing."""
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{self.name}.xml"
        path.write_text(self.xml, encoding="utf-8")
        return path


def make_scene(seed: int, things: int, zones: int = 0, config: SceneMakerConfig | None = None) -> MadeScene:
    """A random scene; the same seed and counts give the same one.

    Args:
        seed: Root of the draws, 0 or more.
        things: Movable things, 1 to 6, none of them in a zone.
        zones: Trays and discs, 0 to 2.
        config: Sizes and gaps; the defaults where None.

    Raises:
        UserError: A count that is not offered, or things that do not fit on the table with these gaps.
    """
    if not 1 <= things <= MOST_THINGS:
        raise UserError(f"a scene has 1 to {MOST_THINGS} things, got {things}")
    if not 0 <= zones <= 2:
        raise UserError(f"a scene has 0 to 2 zones, got {zones}")
    config = config or SceneMakerConfig()
    rng = child_generator(seed, f"scene/{things}/{zones}")
    for _ in range(_SCENES):
        drawn = _draw_zones(rng, zones, config)
        centres = free_centres(rng, things, drawn, config) if drawn is not None else None
        if drawn is not None and centres is not None:
            kinds = [_draw_thing(rng, centre, config) for centre in centres]
            return MadeScene(f"made_{seed}_{things}", _named(rng, kinds), drawn)
    raise UserError(f"{things} things and {zones} zones do not fit on the table; use smaller gaps or fewer of them")


def free_centres(
    rng: np.random.Generator, count: int, zones: tuple[MadeZone, ...] = (), config: SceneMakerConfig | None = None
) -> np.ndarray | None:
    """Random places for so many things, clear of each other and of the zones: (count, 2); None where none was found."""
    config = config or SceneMakerConfig()
    low, high = surface_m(config.edge_m)
    centres = np.empty((0, 2))
    for _ in range(_TRIES):
        point = rng.uniform(low, high)
        clear = not len(centres) or np.linalg.norm(centres - point, axis=1).min() >= config.gap_m
        if clear and all(zone.distance(point) >= config.zone_gap_m for zone in zones):
            centres = np.vstack([centres, point])
        if len(centres) == count:
            return centres
    return None


def surface_m(edge_m: float) -> tuple[np.ndarray, np.ndarray]:
    """Lowest and highest x and y on the table so far from its edges: two arrays (2,)."""
    centre, half = np.asarray(TABLE_CENTRE_M), np.asarray(TABLE_HALF_M) - edge_m
    return centre - half, centre + half


def _draw_zones(rng: np.random.Generator, count: int, config: SceneMakerConfig) -> tuple[MadeZone, ...] | None:
    """Zones apart from each other, each of its own colour; None where the second found no place."""
    colours = rng.permutation(list(ZONE_COLOURS))[:count]
    made: list[MadeZone] = []
    for colour in (str(c) for c in colours):
        kind: ZoneKind = "tray" if rng.random() < 0.5 else "disc"
        half = float(rng.uniform(*config.zone_half_m))
        low, high = surface_m(half + 0.01)
        for _ in range(_TRIES):
            x, y = (float(v) for v in rng.uniform(low, high))
            if all(np.hypot(x - z.position_m[0], y - z.position_m[1]) >= 1.5 * (half + z.half_m) for z in made):
                made.append(MadeZone(f"{colour}_{kind}", kind, ZONE_COLOURS[colour], half, (x, y)))
                break
        else:
            return None
    return tuple(made)


def _draw_thing(rng: np.random.Generator, centre: np.ndarray, config: SceneMakerConfig) -> MadeThing:
    """A thing at a centre (2,), without a name and colour yet."""
    kind: ThingKind = "cylinder" if rng.random() < config.cylinders else "block"
    half = float(rng.uniform(*config.half_size_m))
    height = float(rng.uniform(*config.half_height_m)) if kind == "cylinder" else half
    yaw, mass = float(rng.uniform(-math.pi, math.pi)), float(rng.uniform(*config.mass_kg))
    place = (float(centre[0]), float(centre[1]), TABLE_TOP_M + height + LIFT_M)
    return MadeThing("", kind, (0.0, 0.0, 0.0), half, height, mass, place, yaw)


def _named(rng: np.random.Generator, things: list[MadeThing]) -> tuple[MadeThing, ...]:
    """The things, each of another colour and called by colour and kind."""
    colours = [str(colour) for colour in rng.permutation(list(COLOURS))[: len(things)]]
    return tuple(
        MadeThing(
            f"{colour}_{thing.kind}", thing.kind, COLOURS[colour], thing.half_size_m, thing.half_height_m,
            thing.mass_kg, thing.position_m, thing.yaw_rad,
        )
        for colour, thing in zip(colours, things, strict=True)
    )  # fmt: skip


_FRAME = """<mujoco model="{name}">
  <option timestep="0.002"/>
  <visual>
    <global offwidth="640" offheight="480"/>
    <headlight ambient="0.3 0.3 0.3" diffuse="0.15 0.15 0.15"/>
  </visual>
  <asset>
    <texture name="sky" type="skybox" builtin="gradient" rgb1="0.85 0.9 0.95" rgb2="0.6 0.7 0.8" width="64"
     height="384"/>
    <material name="wood" rgba="0.80 0.68 0.50 1"/>
    <material name="floor" rgba="0.55 0.55 0.55 1"/>
  </asset>
  <worldbody>
    <light pos="1.0 0.2 2.0" dir="0.1 0.2 -1" castshadow="true"/>
    <geom name="floor" type="plane" size="3 3 0.1" material="floor"/>
    <camera name="front" pos="2.15 0.75 1.05" xyaxes="0 1 0 -0.62 0 0.78" fovy="45"/>
    <camera name="top" pos="1.30 0.75 1.45" xyaxes="0 1 0 -1 0 0" fovy="45"/>
    <body name="table" pos="1.30 0.75 0.20"><geom type="box" size="0.25 0.35 0.20" material="wood" mass="60"/></body>
{parts}
  </worldbody>
</mujoco>
"""


def _thing_xml(thing: MadeThing) -> str:
    x, y, z = thing.position_m
    turn = f"{math.cos(thing.yaw_rad / 2):.6f} 0 0 {math.sin(thing.yaw_rad / 2):.6f}"
    r, h = thing.half_size_m, thing.half_height_m
    shape = f'type="box" size="{r:.4f} {r:.4f} {h:.4f}"'
    shape = f'type="cylinder" size="{r:.4f} {h:.4f}"' if thing.kind == "cylinder" else shape
    look = f'rgba="{" ".join(f"{v:.2f}" for v in thing.rgb)} 1" mass="{thing.mass_kg:.3f}" condim="4"'
    place = f'pos="{x:.4f} {y:.4f} {z:.4f}" quat="{turn}"'
    return f'    <body name="{thing.name}" {place}><freejoint/><geom {shape} {look}/></body>'


def _zone_xml(zone: MadeZone) -> str:
    (x, y), r = zone.position_m, zone.half_m
    tint = " ".join(f"{v:.2f}" for v in zone.rgb)
    flat, solid, thick = ("box", f"{r:.4f} {r:.4f} 0.03", 0.002)
    slab = f"{r:.4f} {r:.4f} {thick}"
    if zone.kind == "disc":
        flat, solid, slab = "cylinder", f"{r:.4f} 0.03", f"{r:.4f} 0.001"
    place = f'pos="{x:.4f} {y:.4f} {TABLE_TOP_M + 0.001:.4f}"'
    return (
        f'    <body name="{zone.name}" {place}><geom type="{flat}" size="{slab}" rgba="{tint} 1"/>'
        f'<site name="{zone.name}" type="{flat}" size="{solid}" pos="0 0 0.03" rgba="{tint} 0.05"/></body>'
    )
