"""Labels of camera frames from the simulator's state and segmentation pictures: ground truth, for fitting and tests.

How much of a thing is visible is its number of pixels in the picture of the whole scene, as a share of its pixels in a
picture of it alone. Things whose boxes lie apart in the picture cannot hide each other, so they share one such picture.
"""

from __future__ import annotations

from dataclasses import dataclass

import mujoco
import numpy as np
from numpy.typing import NDArray

from embodied.facts import all_facts
from embodied.labels import EntityLabel, FrameLabel
from embodied.types import EntityState, Frame, SceneState
from robots.rendering import SceneRenderer
from robots.scene_state import SceneReader

_APART_PX = 2.0
"""Boxes of things that share a picture lie at least so far apart."""
_NEAREST_M = 1e-3
"""Corners nearer than this to the camera's plane have no place in the picture."""


@dataclass(frozen=True)
class Origin:
    """Where a frame comes from: what its label says beside what is seen."""

    scene_kind: str
    split: str
    seed: int
    view: int


class FrameLabeller:
    """Labels of frames of one model. Colours and kinds are read when it is made."""

    def __init__(self, model: mujoco.MjModel, reader: SceneReader, renderer: SceneRenderer) -> None:
        self._model, self._reader, self._renderer = model, reader, renderer

    def label(
        self, data: mujoco.MjData, frame: Frame, origin: Origin, camera: str | mujoco.MjvCamera | None = None
    ) -> FrameLabel:
        """The label of a frame that `SceneRenderer.render` made of `data` with this camera."""
        height, width = frame.rgb.shape[:2]
        state = self._reader.read(data)
        seen = self._renderer.segmentation(data, camera, width, height)
        owners = self._owners(state)
        counts = _counts(owners, seen, len(state.entities))
        alone, cut = self._silhouettes(state, owners, data, frame, camera)
        entities = tuple(
            _entity_label(entity, owners, seen, index, (int(counts[index]), int(alone[index]), bool(cut[index])))
            for index, entity in enumerate(state.entities)
        )
        return FrameLabel(
            scene_kind=origin.scene_kind, entities=entities, facts=all_facts(state), base=state.frame,
            surface_height_m=state.surface_height_m, robot=state.robot,
            robot_pixels=int(np.isin(seen, self._reader.robot_geoms).sum()),
            split=origin.split, seed=origin.seed, view=origin.view,
        )  # fmt: skip

    def _owners(self, state: SceneState) -> NDArray[np.int64]:
        """For each geom the index of its entity, -1 where it has none; one more -1 at the end, for no geom."""
        owners = np.full(self._model.ngeom + 1, -1)
        for index, entity in enumerate(state.entities):
            owners[list(self._reader.geoms_of(entity.id))] = index
        return owners

    def _silhouettes(
        self,
        state: SceneState,
        owners: NDArray[np.int64],
        data: mujoco.MjData,
        frame: Frame,
        camera: str | mujoco.MjvCamera | None,
    ) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """Each entity's pixels when alone, and whether its silhouette reaches the border."""
        height, width = frame.rgb.shape[:2]
        count = len(state.entities)
        pixels, cut = np.zeros(count, dtype=np.int64), np.zeros(count, dtype=bool)
        boxes = [_projected_box(entity, state, frame) for entity in state.entities]
        shown = [i for i in range(count) if self._reader.geoms_of(state.entities[i].id) and _meets(boxes[i], frame)]
        for group in _groups(shown, boxes):
            geoms = {g for i in group for g in self._reader.geoms_of(state.entities[i].id)}
            alone = self._renderer.segmentation(data, camera, width, height, geoms)
            pixels += _counts(owners, alone, count)
            border = np.concatenate([alone[0], alone[-1], alone[:, 0], alone[:, -1]])
            cut |= _counts(owners, border, count) > 0
        return pixels, cut


def _counts(owners: NDArray[np.int64], geoms: NDArray[np.int32], count: int) -> NDArray[np.int64]:
    """Pixels of each entity, (count,), in a picture of geom ids."""
    return np.bincount(owners[geoms].ravel() + 1, minlength=count + 1)[1:]


def _entity_label(
    entity: EntityState,
    owners: NDArray[np.int64],
    seen: NDArray[np.int32],
    index: int,
    measured: tuple[int, int, bool],
) -> EntityLabel:
    pixels, alone, cut = measured
    box = None
    if pixels:
        mask = owners[seen] == index
        columns, rows = np.flatnonzero(mask.any(axis=0)), np.flatnonzero(mask.any(axis=1))
        box = int(columns[0]), int(rows[0]), int(columns[-1]) + 1, int(rows[-1]) + 1
    return EntityLabel(
        id=entity.id, role=entity.role, kind=entity.kind, colour=entity.colour, center_b_m=entity.center_b_m,
        half_extents_m=entity.half_extents_m, position_m=entity.position_m, quaternion=entity.quaternion,
        box_px=box, pixels=pixels, visible_share=min(1.0, pixels / alone) if alone else 0.0, cut=cut,
    )  # fmt: skip


def _projected_box(entity: EntityState, state: SceneState, frame: Frame) -> NDArray[np.float64]:
    """Left, top, right and bottom of the picture of the box round an entity; the whole plane where it is too near."""
    assert frame.world_from_camera is not None
    assert frame.intrinsics is not None
    signs = np.array([[x, y, z] for x in (-1, 1) for y in (-1, 1) for z in (-1, 1)], dtype=np.float64)
    world = state.frame.to_world(np.asarray(entity.center_b_m) + signs * entity.half_extents_m)
    rotation, place = frame.world_from_camera[:3, :3], frame.world_from_camera[:3, 3]
    points = (world - place) @ rotation
    if points[:, 2].max() < _NEAREST_M:
        return np.array([np.nan] * 4)
    if points[:, 2].min() < _NEAREST_M:
        return np.array([-np.inf, -np.inf, np.inf, np.inf])
    pixels = (points / points[:, 2:]) @ frame.intrinsics.T
    return np.concatenate([pixels[:, :2].min(axis=0), pixels[:, :2].max(axis=0)])


def _meets(box: NDArray[np.float64], frame: Frame) -> bool:
    """Whether a box and the picture overlap."""
    height, width = frame.rgb.shape[:2]
    return bool(box[0] < width and box[1] < height and box[2] > -1 and box[3] > -1)


def _groups(shown: list[int], boxes: list[NDArray[np.float64]]) -> list[list[int]]:
    """Entities in few groups, in each of which all boxes lie apart."""
    groups: list[list[int]] = []
    for index in shown:
        for group in groups:
            if all(_apart(boxes[index], boxes[other]) for other in group):
                group.append(index)
                break
        else:
            groups.append([index])
    return groups


def _apart(a: NDArray[np.float64], b: NDArray[np.float64]) -> bool:
    return bool(np.any(a[:2] > b[2:] + _APART_PX) or np.any(b[:2] > a[2:] + _APART_PX))
