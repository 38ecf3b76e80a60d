"""Random colours, materials and light.

A shade keeps its name: it lies nearer to examples of its own canonical colour than to those of any other by a clear
margin, and is nearer to them still when the light of the view falls on it where it lies. Light is scaled so that what
faces it is shown about as bright as its colour says; with twice as much, brown would be orange.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from embodied.colours import REFERENCES, lab
from robots.random_scene import LIGHTS, Area, LightSetup, Look, Surface, Triple
from robots.random_textures import Texture

COLOURS = tuple(dict.fromkeys(name for name, _ in REFERENCES))
"""The canonical colours."""
SHADE_MARGIN, SHOWN_MARGIN = 8.0, 3.0
"""How much nearer, in CIELAB, a shade is to its own name than to any other: by itself, and as the light shows it."""
WHITE_LIGHT: Triple = (1.0, 1.0, 1.0)
_SPREAD = 0.07
"""Standard deviation of a shade round an example, sRGB."""
_TRIES = 60
_REFERENCE_LAB = lab(np.array([rgb for _, rgb in REFERENCES]))
_REFERENCE_NAMES = np.array([name for name, _ in REFERENCES])

_HEAD_ON = 0.7
"""About what share of the camera's light a level surface throws back to it."""
BRIGHTNESS = (0.85, 1.1)
"""Light on a level surface, as a multiple of what shows its colour as it is."""


def draw_shade(
    rng: np.random.Generator,
    name: str,
    apart_from: Sequence[Triple] = (),
    least: float = 0.0,
    light: Triple = WHITE_LIGHT,
) -> Triple | None:
    """An sRGB colour that a canonical name means, where possible `least` (CIELAB) away from other colours.

    The farthest of the shades tried, where none is far enough; None where none of them looks like its name under this
    light (`level_light`).
    """
    examples = np.array([rgb for other, rgb in REFERENCES if other == name])
    others = lab(np.array(apart_from)) if apart_from else np.empty((0, 3))
    best, best_gap = None, -1.0
    for _ in range(_TRIES):
        shade = np.clip(examples[rng.integers(len(examples))] + rng.normal(0.0, _SPREAD, 3), 0.0, 1.0)
        if shade_margin(shade, name) < SHADE_MARGIN or not keeps_name((name, _triple(shade)), light):
            continue
        gap = float(np.linalg.norm(others - lab(shade), axis=1).min()) if len(others) else math.inf
        if gap > best_gap:
            best, best_gap = shade, gap
        if gap >= least:
            break
    return None if best is None else _triple(best)


def draw_colour(
    rng: np.random.Generator, names: Sequence[str], others: Sequence[Triple], least: float, light: Triple
) -> tuple[str, Triple] | None:
    """One of the colours, in a shade that differs from others by `least`, else the one that differs most of six names;
    None where the light spoils all of them."""
    best: tuple[float, str, Triple] | None = None
    for name in rng.permutation(names)[:6]:
        shade = draw_shade(rng, str(name), others, least, light)
        if shade is None:
            continue
        gap = float(np.linalg.norm(lab(np.array(others)) - lab(shade), axis=1).min()) if others else math.inf
        if best is None or gap > best[0]:
            best = gap, str(name), shade
        if gap >= least:
            break
    return None if best is None else (best[1], best[2])


def keeps_name(colour: tuple[str, Triple], light: Triple) -> bool:
    """Whether a shade still looks like its name under this light."""
    name, rgb = colour
    return shade_margin(shown(np.asarray(rgb), light), name) >= SHOWN_MARGIN


def shown(shade: NDArray[np.float64], light: Triple) -> NDArray[np.float64]:
    """What a picture shows of a level face in a shade, sRGB."""
    return np.asarray(np.clip(shade * np.asarray(light), 0.0, 1.0))


def level_light(look: Look, point_m: Triple) -> Triple:
    """What a level face at this place in the world throws back of each channel, shadows apart."""
    light = np.asarray(look.ambient) + _HEAD_ON * np.asarray(look.headlight)
    for lamp in look.lights:
        light = light + _on_level(lamp, point_m) * np.asarray(lamp.diffuse)
    return _triple(light)


def shade_margin(rgb: NDArray[np.float64], name: str) -> float:
    """How much nearer (CIELAB) a colour is to an example of `name` than to one of any other name; may be negative."""
    distance = np.linalg.norm(_REFERENCE_LAB - lab(rgb), axis=1)
    own = np.isin(_REFERENCE_NAMES, name)
    return float(distance[~own].min() - distance[own].min())


def draw_surfaces(rng: np.random.Generator, prefix: str, count: int, families: Sequence[str]) -> tuple[Surface, ...]:
    """Materials of a table or floor: plain, or with a texture of one of the families."""
    return tuple(_draw_surface(rng, f"{prefix}{index}", families) for index in range(count))


def _draw_surface(rng: np.random.Generator, name: str, families: Sequence[str]) -> Surface:
    base = _muted(rng)
    reflectance = float(rng.uniform(0.02, 0.15)) if rng.random() < 0.1 else 0.0
    specular = float(rng.uniform(0.0, 0.5))
    if "plain" in families and rng.random() < 0.4:
        return Surface(base, None, 1.0, reflectance, specular)
    textured = [family for family in families if family != "plain"]
    family = textured[int(rng.integers(len(textured)))]
    other = _triple(np.clip(np.array(base) * rng.uniform(0.6, 1.3), 0.03, 1.0))
    if rng.random() < 0.25:
        other = _muted(rng)
    texture = Texture(name, family, base, other, int(rng.integers(2**31)))
    return Surface((1.0, 1.0, 1.0), texture, float(rng.integers(1, 5)), reflectance, specular)


def _muted(rng: np.random.Generator) -> Triple:
    """Colours that tables and floors have: mostly woods and greys, sometimes anything."""
    if rng.random() < 0.35:
        return _triple(np.clip(np.array((0.62, 0.45, 0.28)) * rng.uniform(0.45, 1.4) + rng.normal(0, 0.04, 3), 0.03, 1))
    if rng.random() < 0.75:
        return _triple(np.clip(rng.uniform(0.08, 0.95) + rng.normal(0, 0.025, 3), 0.03, 1))
    return _triple(rng.uniform(0.1, 0.9, 3))


def draw_look(rng: np.random.Generator, area: Area, tops: int, grounds: int, unusual: bool = False) -> Look:
    """Light and materials for a view of an area.

    Args:
        unusual: Kinds of light that ordinary views never have: one low lamp from the side, coloured lamps, a narrow
            cone, or no lamp but the one at the camera.
    """
    ambient = float(rng.uniform(0.25, 0.5))
    head = float(rng.uniform(0.0, 0.3))
    lamps = _unusual_lamps(rng, area) if unusual else _lamps(rng, area, int(rng.integers(1, LIGHTS + 1)))
    tint = _temperature(rng)
    wanted = float(rng.uniform(*BRIGHTNESS)) - ambient - _HEAD_ON * head
    given = sum(_on_level(lamp, area.center_m) * float(np.mean(lamp.diffuse)) for lamp in lamps)
    scale = min(wanted / max(given, 1e-3), 1.6)
    head += (wanted - scale * given) / _HEAD_ON
    lights = tuple(_scaled(lamp, scale, tint) for lamp in lamps)
    grey = (1.0, 1.0, 1.0) if rng.random() < 0.5 else tint
    top, ground = int(rng.integers(tops)), int(rng.integers(grounds))
    return Look(_triple(np.array(grey) * ambient), _triple(np.array(grey) * head), lights, top, ground)


def _lamps(rng: np.random.Generator, area: Area, count: int) -> list[LightSetup]:
    """Suns and wide spots from well above, the first of which may cast shadows."""
    shadow = rng.random() < 0.55
    return [_lamp(rng, area, (35.0, 88.0), shadow and index == 0) for index in range(count)]


def _unusual_lamps(rng: np.random.Generator, area: Area) -> list[LightSetup]:
    family = int(rng.integers(4))
    if family == 0:
        return [_lamp(rng, area, (18.0, 30.0), True)]
    if family == 1:
        return [_lamp(rng, area, (35.0, 80.0), False, 0.25) for _ in range(2)]
    if family == 2:
        lamp = _lamp(rng, area, (70.0, 88.0), True)
        return [LightSetup(False, lamp.position_m, lamp.direction, lamp.diffuse, 0.3, True, 28.0, 8.0)]
    return []


def _lamp(
    rng: np.random.Generator, area: Area, elevation: tuple[float, float], shadow: bool, colour: float = 0.03
) -> LightSetup:
    """A lamp that shines on about the middle of the area, from one of these elevations in degrees."""
    high, around = math.radians(rng.uniform(*elevation)), float(rng.uniform(0, 2 * math.pi))
    reach = max(area.half_m) * float(rng.uniform(3.0, 6.0)) + 0.5
    back = np.array([math.cos(high) * math.cos(around), math.cos(high) * math.sin(around), math.sin(high)])
    aim = np.asarray(area.center_m) + np.append(rng.uniform(-0.3, 0.3, 2) * area.half_m, 0.0)
    diffuse = np.clip(rng.uniform(0.4, 1.0) * (1 + rng.normal(0, colour, 3)), 0.05, 2.0)
    return LightSetup(
        sun=bool(rng.random() < 0.5), position_m=_triple(aim + reach * back), direction=_triple(-back),
        diffuse=_triple(diffuse), specular=float(rng.uniform(0.0, 0.4)), shadow=shadow,
        cutoff_deg=float(rng.uniform(45.0, 80.0)), exponent=float(rng.uniform(0.0, 8.0)),
    )  # fmt: skip


def _on_level(lamp: LightSetup, point_m: Triple) -> float:
    """Share of a lamp's diffuse light that a level surface at this place throws back.

    OpenGL's fixed lighting: the cosine of the angle of incidence, for a spot times cos(angle off its axis)^exponent.
    """
    back = -np.asarray(lamp.direction)
    if lamp.sun:
        return float(back[2])
    way = np.asarray(lamp.position_m) - np.asarray(point_m)
    way /= np.linalg.norm(way)
    off = float(way @ back)
    inside = off >= math.cos(math.radians(lamp.cutoff_deg))
    return float(max(way[2], 0.0) * off**lamp.exponent) if inside else 0.0


def _temperature(rng: np.random.Generator) -> Triple:
    """A white between warm and cold."""
    warmth = float(rng.uniform(-1.0, 1.0))
    return _triple(np.array([1.0 + 0.05 * warmth, 1.0, 1.0 - 0.08 * warmth]))


def _scaled(lamp: LightSetup, scale: float, tint: Triple) -> LightSetup:
    diffuse = _triple(np.array(lamp.diffuse) * scale * tint)
    return LightSetup(
        lamp.sun, lamp.position_m, lamp.direction, diffuse, lamp.specular, lamp.shadow, lamp.cutoff_deg, lamp.exponent
    )


def _triple(values: object) -> Triple:
    x, y, z = (round(float(v), 6) for v in np.asarray(values))
    return x, y, z
