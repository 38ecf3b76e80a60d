"""Random scenes as data, and the MJCF that they mean.

A scene holds what takes a compilation to change: shapes, furniture, materials. Its views hold what can be changed in a
compiled model: where things lie, their colours, lights, camera, the arm's pose. `xml(view)` is the scene as a view has
it, without an arm.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from embodied.types import EntityRole
from robots.random_textures import Texture

SceneKind = Literal["table", "floor", "maze", "rooms"]
Triple = tuple[float, float, float]
Quaternion = tuple[float, float, float, float]
"""wxyz"""

CAMERA = "view"
"""Name of the camera of every random scene."""
TABLE = "table"
"""Name of the body of a table."""
FINISHES = (("matte", 0.05, 0.1), ("plain", 0.5, 0.5), ("glossy", 0.9, 0.8))
"""Materials of things: name, MuJoCo's specular and shininess."""
LIGHTS = 3
"""Lights in every scene; a view switches on as many as it likes."""
UPRIGHT: Quaternion = (1.0, 0.0, 0.0, 0.0)


@dataclass(frozen=True)
class Part:
    """One geom of a thing, in the thing's frame; MuJoCo's shape and size parameters, metres."""

    shape: Literal["box", "cylinder", "sphere", "mesh"]
    size_m: tuple[float, ...] = ()
    position_m: Triple = (0.0, 0.0, 0.0)
    quaternion: Quaternion = UPRIGHT
    vertices_m: tuple[Triple, ...] = ()
    """Of a mesh, which is their convex hull."""


@dataclass(frozen=True)
class RandomThing:
    """A named thing. Its frame is that of its resting pose, with z up and the origin at the middle of its box."""

    name: str
    role: EntityRole | Literal["robot"]
    kind: str
    """As the scene's state calls it."""
    parts: tuple[Part, ...]
    half_m: Triple
    """Half extents of its box along its own axes."""
    round: bool = False
    """Its outline from above is a circle."""
    flat: bool = True
    """Something can stand on it."""
    inside_m: tuple[float, ...] = ()
    """Of a zone: size parameters of the box or cylinder site above it."""


@dataclass(frozen=True)
class Put:
    """One thing in one view."""

    colour: str
    """Canonical."""
    rgb: Triple
    position_m: Triple
    """Of the middle of its box, in the world."""
    quaternion: Quaternion
    finish: int = 0
    """Index in FINISHES."""


@dataclass(frozen=True)
class LightSetup:
    """One lamp. A sun shines everywhere alike, a spot from a point into a cone."""

    sun: bool
    position_m: Triple
    direction: Triple
    diffuse: Triple
    specular: float
    shadow: bool
    cutoff_deg: float = 60.0
    exponent: float = 1.0


@dataclass(frozen=True)
class Look:
    """Light, and which of the scene's materials are shown."""

    ambient: Triple
    """Of the light at the camera."""
    headlight: Triple
    """Its diffuse part."""
    lights: tuple[LightSetup, ...]
    top: int
    """Index of the work surface's material."""
    ground: int
    """Index of the floor's material."""


@dataclass(frozen=True)
class CameraPose:
    """Where the camera is and how much it sees."""

    position_m: Triple
    quaternion: Quaternion
    """world_from_camera, MuJoCo's camera: x right, y up, looking along -z."""
    fov_deg: float
    """Vertical."""


@dataclass(frozen=True)
class Grip:
    """What the arm does."""

    target_m: Triple
    """Where the grip site is sent, world."""
    opening_m: float
    """Each finger's way from shut."""
    holds: int | None = None
    """Index of the thing between the fingers."""


@dataclass(frozen=True)
class View:
    """The scene as one frame shows it; `puts` goes with the scene's things."""

    puts: tuple[Put, ...]
    look: Look
    camera: CameraPose
    grip: Grip | None = None


@dataclass(frozen=True)
class Surface:
    """A material of table, floor or wall."""

    rgb: Triple
    """Multiplies the texture."""
    texture: Texture | None = None
    repeat: float = 1.0
    reflectance: float = 0.0
    specular: float = 0.2

    @property
    def tones(self) -> tuple[Triple, ...]:
        """The colours that it is made of."""
        if self.texture is None:
            return (self.rgb,)
        return tuple(_times(self.rgb, tone) for tone in (self.texture.rgb1, self.texture.rgb2))


@dataclass(frozen=True)
class Area:
    """What the things lie on, and the camera shows: a level rectangle."""

    center_m: Triple
    half_m: tuple[float, float]
    yaw_rad: float = 0.0

    def to_world(self, x: float, y: float, z: float = 0.0) -> Triple:
        """A point of the area's frame (origin in its middle) in the world."""
        c, s = math.cos(self.yaw_rad), math.sin(self.yaw_rad)
        cx, cy, cz = self.center_m
        return cx + c * x - s * y, cy + s * x + c * y, cz + z


@dataclass(frozen=True)
class RandomScene:
    """One compiled scene's worth of views; equal for equal seeds and configurations."""

    seed: int
    split: str
    kind: SceneKind
    robot: Literal["none", "fetch", "point"]
    area: Area
    things: tuple[RandomThing, ...]
    views: tuple[View, ...]
    tops: tuple[Surface, ...]
    grounds: tuple[Surface, ...]
    fixed: str
    """MJCF of the bodies and geoms that no view changes; their materials are `top` and `ground`."""
    sky: tuple[Triple, Triple] = ((0.85, 0.9, 0.95), (0.6, 0.7, 0.8))
    haze: float = 0.0
    """How opaque the insides of zones are drawn; MuJoCo lets even faint ones cast shadows."""

    @property
    def xml(self) -> str:
        """The scene as its first view has it."""
        return self.view_xml(0)

    @property
    def camera(self) -> CameraPose:
        """Of the first view."""
        return self.views[0].camera

    def listing(self, view: int = 0) -> tuple[tuple[str, str, str, Triple], ...]:
        """(name, kind, colour, half extents in m along its own axes) of each thing in a view."""
        puts = self.views[view].puts
        return tuple((t.name, t.kind, put.colour, t.half_m) for t, put in zip(self.things, puts, strict=True))

    def view_xml(self, view: int) -> str:
        """The scene as a view has it, without an arm (a thing that the arm holds then hangs in the air)."""
        return scene_xml(self, self.views[view])

    def write(self, folder: Path, view: int = 0) -> Path:
        """The MJCF file with its textures beside it, in a folder that is made where it is missing."""
        folder.mkdir(parents=True, exist_ok=True)
        for surface in (*self.tops, *self.grounds):
            if surface.texture is not None:
                surface.texture.write(folder)
        path = folder / "scene.xml"
        path.write_text(self.view_xml(view), encoding="utf-8")
        return path


def numbers(values: Iterable[float]) -> str:
    """Numbers as MJCF has them, in full precision."""
    return " ".join(repr(float(v)) for v in values)


def scene_xml(scene: RandomScene, view: View) -> str:
    """The MJCF of a view."""
    look = view.look
    fixed = scene.fixed.replace('"top"', f'"top{look.top}"').replace('"ground"', f'"ground{look.ground}"')
    bodies = "\n".join(_thing_xml(thing, put, scene.haze) for thing, put in zip(scene.things, view.puts, strict=True))
    camera, kind = view.camera, f"{scene.kind}_{scene.seed}"
    return f"""<mujoco model="{kind}">
  <option timestep="0.002"/>
  <visual>
    <global offwidth="640" offheight="480"/>
    <quality shadowsize="1024"/>
    <map znear="0.005" zfar="40"/>
    <headlight ambient="{numbers(look.ambient)}" diffuse="{numbers(look.headlight)}" specular="0 0 0"/>
  </visual>
  <statistic extent="1.5" center="{numbers(scene.area.center_m)}"/>
  <asset>
    <texture name="sky" type="skybox" builtin="gradient" rgb1="{numbers(scene.sky[0])}" rgb2="{numbers(scene.sky[1])}"
     width="32" height="192"/>
{_assets_xml(scene)}
  </asset>
  <worldbody>
    <camera name="{CAMERA}" pos="{numbers(camera.position_m)}" quat="{numbers(camera.quaternion)}"
     fovy="{camera.fov_deg!r}"/>
{_lights_xml(look.lights)}
{fixed}
{bodies}
  </worldbody>
</mujoco>
"""


def geom_name(thing: str, part: int) -> str:
    """Name of a thing's geom."""
    return f"{thing}_g{part}"


def light_name(index: int) -> str:
    """Name of a scene's light."""
    return f"light{index}"


def _times(a: Triple, b: Triple) -> Triple:
    return a[0] * b[0], a[1] * b[1], a[2] * b[2]


def _assets_xml(scene: RandomScene) -> str:
    lines = [f'    <material name="{n}" specular="{s}" shininess="{h}"/>' for n, s, h in FINISHES]
    for role, surfaces in (("top", scene.tops), ("ground", scene.grounds)):
        for index, surface in enumerate(surfaces):
            texture = ""
            if surface.texture is not None:
                lines.append(f"    {surface.texture.xml}")
                texture = f' texture="{surface.texture.name}" texrepeat="{surface.repeat!r} {surface.repeat!r}"'
            lines.append(
                f'    <material name="{role}{index}"{texture} rgba="{numbers(surface.rgb)} 1"'
                f' reflectance="{surface.reflectance!r}" specular="{surface.specular!r}"/>'
            )
    for thing in scene.things:
        for index, part in enumerate(thing.parts):
            if part.shape == "mesh":
                points = "  ".join(numbers(vertex) for vertex in part.vertices_m)
                lines.append(f'    <mesh name="{geom_name(thing.name, index)}" vertex="{points}"/>')
    return "\n".join(lines)


def _lights_xml(lights: tuple[LightSetup, ...]) -> str:
    off = LightSetup(True, (0.0, 0.0, 3.0), (0.0, 0.0, -1.0), (0.0, 0.0, 0.0), 0.0, False)
    lines = []
    for index in range(LIGHTS):
        light = lights[index] if index < len(lights) else off
        lines.append(
            f'    <light name="{light_name(index)}" type="{"directional" if light.sun else "spot"}"'
            f' active="{_flag(index < len(lights))}" castshadow="{_flag(light.shadow)}"'
            f' pos="{numbers(light.position_m)}" dir="{numbers(light.direction)}"'
            f' diffuse="{numbers(light.diffuse)}" specular="{numbers((light.specular,) * 3)}"'
            f' cutoff="{light.cutoff_deg!r}" exponent="{light.exponent!r}"/>'
        )
    return "\n".join(lines)


def _flag(value: bool) -> str:
    return "true" if value else "false"


def _thing_xml(thing: RandomThing, put: Put, haze: float) -> str:
    lines = [f'    <body name="{thing.name}" pos="{numbers(put.position_m)}" quat="{numbers(put.quaternion)}">']
    if thing.role == "object":
        lines.append("      <freejoint/>")
    if thing.role == "robot":
        lines += [
            f'      <joint name="ball_{a}" type="slide" axis="{v}"/>' for a, v in (("x", "1 0 0"), ("y", "0 1 0"))
        ]
    mass = f' mass="{0.2 / len(thing.parts)!r}" condim="4"' if thing.role == "object" else ""
    look = f'material="{FINISHES[put.finish][0]}" rgba="{numbers(put.rgb)} 1"{mass}'
    for index, part in enumerate(thing.parts):
        name = geom_name(thing.name, index)
        size = f'mesh="{name}"' if part.shape == "mesh" else f'size="{numbers(part.size_m)}"'
        place = f'pos="{numbers(part.position_m)}" quat="{numbers(part.quaternion)}"'
        lines.append(f'      <geom name="{name}" type="{part.shape}" {size} {place} {look}/>')
    if thing.role == "zone":
        shape = "cylinder" if thing.round else "box"
        up = thing.inside_m[-1]
        lines.append(
            f'      <site name="{thing.name}" type="{shape}" size="{numbers(thing.inside_m)}" pos="0 0 {up!r}"'
            f' rgba="{numbers((*put.rgb, haze))}"/>'
        )
    return "\n".join([*lines, "    </body>"])
