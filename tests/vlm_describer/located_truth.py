"""Scenes with known truth for `locate`: made tables of any height, with stacks and balls, and how well it did there."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

import mujoco
import numpy as np

from embodied.facts import all_facts
from embodied.types import BaseFrame, EntityState, Frame, SceneState
from robots.rendering import SceneRenderer
from robots.scene_maker import TABLE_TOP_M, MadeScene, SceneMakerConfig, make_scene
from robots.scene_state import SceneReader
from vlm_describer.locate import locate
from vlm_describer.located import Item, Located

MATCH_M = 0.05
"""An item is the thing whose centre is the nearest, within this."""
CONFIG = SceneMakerConfig(gap_m=0.09)


@dataclass(frozen=True)
class Shot:
    """A frame and the truth about it."""

    frame: Frame
    state: SceneState
    visible: dict[str, float]
    """Share of each thing's silhouette in the picture that nothing hides."""


@dataclass
class Tally:
    """What came of many shots; lengths in metres."""

    errors: list[float] = field(default_factory=list)
    extents: list[float] = field(default_factory=list)
    nees: list[float] = field(default_factory=list)
    """Squared errors in units of the covariance said, mean 3 where it is honest."""
    kinds: list[tuple[str, str]] = field(default_factory=list)
    """True kind, fitted shape."""
    missed: list[str] = field(default_factory=list)
    false: list[str] = field(default_factory=list)
    found: int = 0
    said: int = 0

    @property
    def recall(self) -> float:
        return self.found / max(self.found + len(self.missed), 1)

    @property
    def precision(self) -> float:
        return 1.0 - len(self.false) / max(self.said, 1)

    def summary(self) -> str:
        errors, extents = np.array(self.errors or [np.nan]), np.array(self.extents or [np.nan])
        return (
            f"n {self.found + len(self.missed)}  recall {self.recall:.3f}  precision {self.precision:.3f}  "
            f"centre mm 50% {1e3 * np.median(errors):.1f} 95% {1e3 * np.quantile(errors, 0.95):.1f} "
            f"max {1e3 * errors.max():.1f}  extent mm 50% {1e3 * np.median(extents):.1f} "
            f"95% {1e3 * np.quantile(extents, 0.95):.1f}  nees {np.mean(self.nees or [np.nan]):.2f}"
        )


def match(located: Located, state: SceneState) -> dict[str, Item]:
    """Entity id to its item: pairs by growing distance of their centres, within 5 cm, none used twice."""
    entities = [e for e in state.entities if e.role in ("object", "zone")]
    pairs = sorted(
        (math.dist(item.position_m, entity.position_m), entity.id, item.id)
        for item in located.items
        for entity in entities
    )
    found: dict[str, Item] = {}
    used: set[str] = set()
    for distance, entity_id, item_id in pairs:
        if distance <= MATCH_M and entity_id not in found and item_id not in used:
            found[entity_id] = located.item(item_id)
            used.add(item_id)
    return found


def count(shot: Shot, tally: Tally, least_visible: float = 0.6, tag: str = "") -> Located:
    """Locates a shot's things and adds what came of it to the tally."""
    located = locate(shot.frame, shot.state.frame)
    found = match(located, shot.state)
    matched = {item.id for item in found.values()}
    for entity in shot.state.entities:
        if entity.role not in ("object", "zone") or shot.visible.get(entity.id, 1.0) < least_visible:
            continue
        item = found.get(entity.id)
        if item is None:
            tally.missed.append(f"{tag}{entity.id}")
            continue
        tally.found += 1
        _compare(entity, item, tally)
    tally.said += len(located.items)
    tally.false += [f"{tag}{item.id}" for item in located.items if item.id not in matched]
    return located


def _compare(entity: EntityState, item: Item, tally: Tally) -> None:
    error = np.subtract(item.center_b_m, entity.center_b_m)
    tally.errors.append(float(np.linalg.norm(error)))
    tally.extents.append(float(np.abs(np.subtract(item.half_extents_m, entity.half_extents_m)).max()))
    tally.nees.append(float(error @ np.linalg.solve(item.covariance_m2, error)))
    tally.kinds.append((entity.kind, item.shape))


class TableScene:
    """A made scene that can be photographed from anywhere."""

    def __init__(
        self, made: MadeScene, height_m: float = TABLE_TOP_M, balls: bool = False, yaw_rad: float = 0.0,
        change: Callable[[mujoco.MjSpec], None] | None = None,
    ) -> None:  # fmt: skip
        spec = mujoco.MjSpec.from_string(made.xml)
        rise = height_m - TABLE_TOP_M
        for body in spec.worldbody.bodies:
            if body.name == "table":
                body.pos = [*body.pos[:2], height_m / 2]
                body.geoms[0].size = [*body.geoms[0].size[:2], height_m / 2]
            else:
                body.pos = [*body.pos[:2], body.pos[2] + rise]
        if balls:
            _to_ball(spec, made.things[0].name)
        if change is not None:
            change(spec)
        self.model = spec.compile()
        self.data = mujoco.MjData(self.model)
        mujoco.mj_step(self.model, self.data, nstep=250)
        mujoco.mj_forward(self.model, self.data)
        frame = BaseFrame((0.4, 0.5, 0.0), yaw_rad)
        self.state = SceneReader(self.model, frame, None).read(self.data)
        self._renderer = SceneRenderer(self.model)
        self._centre = np.array([1.30, 0.75, height_m])

    def shot(self, azimuth: float, elevation: float, distance: float, fovy: float = 45.0) -> Shot:
        """From a free camera that looks at the table's middle; angles in degrees, elevation downwards."""
        self.model.vis.global_.fovy = fovy
        camera = mujoco.MjvCamera()
        camera.type = mujoco.mjtCamera.mjCAMERA_FREE
        camera.azimuth, camera.elevation, camera.distance = azimuth, -elevation, distance
        camera.lookat[:] = self._centre
        return self._shot(camera)

    def fixed(self, name: str) -> Shot:
        """From one of the scene's own cameras."""
        return self._shot(name)

    def close(self) -> None:
        self._renderer.close()

    def _shot(self, camera: mujoco.MjvCamera | str) -> Shot:
        frame = self._renderer.render(self.data, camera, 320, 240, depth=True)
        return Shot(frame, self.state, self._visible(camera, frame))

    def _visible(self, camera: mujoco.MjvCamera | str, frame: Frame) -> dict[str, float]:
        """By moving all free bodies but one out of sight."""
        away = mujoco.MjData(self.model)
        away.qpos[:] = self.data.qpos
        starts = [int(self.model.jnt_qposadr[j]) for j in range(self.model.njnt)]
        names = [self.model.body(int(self.model.jnt_bodyid[j])).name for j in range(self.model.njnt)]
        away.qpos[[s + 2 for s in starts]] = -50.0
        mujoco.mj_forward(self.model, away)
        empty = self._renderer.render(away, camera, 320, 240, depth=True).depth_m
        shares = {}
        for name, start in zip(names, starts, strict=True):
            away.qpos[start + 2] = self.data.qpos[start + 2]
            mujoco.mj_forward(self.model, away)
            alone = self._renderer.render(away, camera, 320, 240, depth=True).depth_m
            away.qpos[start + 2] = -50.0
            silhouette = np.abs(alone - empty) > 1e-4
            shown = silhouette & (np.abs(alone - frame.depth_m) < 1e-4)
            rim = silhouette[0].any() or silhouette[-1].any() or silhouette[:, 0].any() or silhouette[:, -1].any()
            shares[name] = 0.0 if rim else float(shown.sum()) / max(float(silhouette.sum()), 1.0)
        return shares


def _to_ball(spec: mujoco.MjSpec, name: str) -> None:
    geom = spec.body(name).geoms[0]
    geom.type = mujoco.mjtGeom.mjGEOM_SPHERE
    geom.size = [geom.size[0], 0.0, 0.0]


def stacked(made: MadeScene) -> MadeScene:
    """The scene with its second thing on the first, and its third in the first tray, where there are such."""
    things = list(made.things)
    if len(things) > 1:
        below, above = things[0], things[1]
        top = below.position_m[2] + below.half_height_m + above.half_height_m + 0.0005
        things[1] = replace(above, position_m=(*below.position_m[:2], top), yaw_rad=below.yaw_rad + 0.3)
    if len(things) > 2 and made.zones:
        zone, inner = made.zones[0], things[2]
        things[2] = replace(inner, position_m=(*zone.position_m, inner.position_m[2] + 0.004))
    return replace(made, things=tuple(things))


def quantised(shot: Shot, step_m: float = 0.001) -> Shot:
    """The shot as a sensor with whole millimetres would give it."""
    depth = np.asarray(shot.frame.depth_m)
    return replace(shot, frame=replace(shot.frame, depth_m=np.round(depth / step_m).astype(np.float32) * step_m))


def table_scenes(seeds: range, **options: object) -> Iterator[tuple[int, TableScene]]:
    """Scenes of one to six things and up to two zones, every second one with a stack, every third with a ball."""
    for seed in seeds:
        rng = np.random.default_rng(seed)
        made = make_scene(seed, 1 + seed % 6, seed % 3, CONFIG)
        made = stacked(made) if seed % 2 else made
        height = float(rng.uniform(0.2, 0.9))
        scene = TableScene(made, height, balls=seed % 3 == 0 and not seed % 2, yaw_rad=float(rng.uniform(-3, 3)))
        yield seed, scene
        scene.close()


def shots_of(scene: TableScene, seed: int, number: int = 2) -> Iterator[Shot]:
    """Random views that see the whole table top."""
    rng = np.random.default_rng(1000 + seed)
    for _ in range(number):
        elevation = float(rng.uniform(25, 88))
        fovy = float(rng.uniform(38, 68))
        distance = float(rng.uniform(0.52, 0.75)) / math.tan(math.radians(fovy / 2))
        yield scene.shot(float(rng.uniform(0, 360)), elevation, distance, fovy)


def true_facts(state: SceneState) -> set[tuple[str, tuple[str, ...]]]:
    """Names and ids of what holds."""
    return {(p.name, p.args) for p in all_facts(state)}
