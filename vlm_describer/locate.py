"""Where things are, from RGB-D alone: surfaces, and on them things with position, extent and covariance.

Steps: points in a level frame (`locate_cloud`), horizontal planes (`locate_surfaces`), parts over them cut at jumps of
depth and changes of colour (`locate_segment`), upright forms fitted to each part (`shapes_fit`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from embodied.types import BaseFrame, BoolArray, FloatArray, Frame
from vlm_describer.frames import checked_frame
from vlm_describer.locate_belief import WALL_RATIO, confidence, covariance, scores_of
from vlm_describer.locate_cloud import Cloud, make_cloud
from vlm_describer.locate_robot import HANGS_M, RobotParts
from vlm_describer.locate_segment import Segment, find_segments
from vlm_describer.locate_surfaces import Plane, find_planes, is_map, outline, work_plane
from vlm_describer.located import Item, Located, RoleHint, Surface, SurfaceRole
from vlm_describer.shapes_fit import FLAT_M, Form, Visible, choose, fit_forms, round_box, top_height

Array = NDArray[np.float64]

MOST_POINTS = 400
"""Points of one thing that forms are fitted to."""
SUPPORT_GAP_M = 0.025
"""What ends at most so far above a support stands on it."""
_SUPPORT_BELOW_M = 0.008
"""A support may reach so far above the lowest point that is seen, ..."""
_STEEPEST_M = 0.02
"""... and by what a line of sight drops within a pixel, up to this."""
_NEARER_M = 0.01
"""A neighbour so much nearer than a thing's edge hides part of it."""
_ROBOT_CONFIDENCE = 0.9
_LEVEL_UP, _LEAST_LEVEL = 0.9, 6
"""Upward share of a normal from which a face counts as level, and the fewest pixels that tell its colour."""
_WALL_M = 1.0
"""On a table or beside it, longer things are walls or furniture."""
_WALL_SHARE = 0.25
"""On a map, what takes up so much of it is a wall."""


@dataclass(frozen=True)
class _Part:
    """A segment with its points, before it is fitted."""

    segment: Segment
    points: Array
    """(N, 3)"""
    edge: BoolArray
    hidden: BoolArray
    hull: Array | None
    low: float
    high: float
    cut: bool
    middle: Array
    """(3,) mean of the points."""
    pixel_m: float
    """Median size of a pixel across the line of sight."""
    robot: bool = False


def locate(frame: Frame, base: BaseFrame | None = None) -> Located:
    """Finds surfaces and things in a frame.

    Args:
        frame: With depth and intrinsics; with a pose, results are in the world, else in the camera's frame.
        base: Frame B, along whose axes extents are meant; the world's where omitted.

    Returns:
        What was found; without depth, intrinsics or a surface nothing, and the reason.

    Raises:
        UserError: The frame's arrays are not what they should be (`vlm_describer.frames`).
    """
    frame = checked_frame(frame)
    base = base if base is not None else BaseFrame()
    kind: Literal["world", "camera"] = "world" if frame.world_from_camera is not None else "camera"
    if frame.depth_m is None or frame.intrinsics is None:
        lacking = "depth" if frame.depth_m is None else "intrinsics (fx,fy,cx,cy)"
        return Located((), (), kind, base, f"where anything is: there are no {lacking}; nothing can be placed without")
    cloud = make_cloud(frame, base)
    if cloud is None or not cloud.valid.any():
        why = "no depth readings" if not np.isfinite(frame.depth_m).any() else "no plane that could be the ground"
        return Located((), (), kind, base, why)
    planes = find_planes(cloud)
    work = work_plane(planes, cloud)
    if work is None:
        return Located((), (), kind, base, "no horizontal surface that things could lie on")
    return _Builder(frame, cloud, planes, work, base, kind == "world").build()


class _Builder:
    """Puts items and surfaces together; holds what all of them need."""

    def __init__(
        self, frame: Frame, cloud: Cloud, planes: Sequence[Plane], work: Plane, base: BaseFrame, world: bool
    ) -> None:
        self._frame, self._cloud, self._base, self._world = frame, cloud, base, world
        lowest = min(planes, key=lambda p: p.height_m)
        self._planes = [work, *(p for p in planes if p is not work)]
        self._floor = lowest if lowest is not work else None
        self._map = is_map(list(planes), cloud)
        self._plane_colours = {id(plane): self._plane_colour(plane) for plane in planes}

    def build(self) -> Located:
        segments = find_segments(self._cloud, self._planes, self._planes[0])
        owner = np.zeros(self._cloud.valid.shape, dtype=np.int32)
        for number, segment in enumerate(segments, start=1):
            owner[segment.mask] = number
        parts = [self._part(segment, owner, number) for number, segment in enumerate(segments, start=1)]
        parts = self._with_robot(parts, owner)
        parts.sort(key=lambda part: (part.segment.flat, *np.argwhere(part.segment.mask)[0]))
        ids = [f"item{k}" for k in range(len(parts))]
        items = tuple(self._item(parts, ids, k) for k in range(len(parts)))
        surfaces = tuple(self._surface(plane, k) for k, plane in enumerate(self._planes))
        reason = "" if items else "the surface is empty"
        base = self._base if self._world else BaseFrame()
        frame: Literal["world", "camera"] = "world" if self._world else "camera"
        return Located(items, surfaces, frame, base, reason, self._map, self._cloud.level_from_camera)

    def _part(self, segment: Segment, owner: NDArray[np.int32], number: int) -> _Part:
        mask, cloud = segment.mask, self._cloud
        rows = np.flatnonzero(mask.ravel())
        pixel = float(np.median(cloud.pixel_m.ravel()[rows]))
        edge, hidden = _edges(mask, owner, number, cloud, segment.flat, pixel)
        if len(rows) > MOST_POINTS:
            important = (edge | hidden).ravel()[rows]
            inner = rows[~important]
            step = max(1, len(inner) // (MOST_POINTS // 2))
            outer = rows[important]
            rows = np.concatenate([inner[::step], outer[:: max(1, len(outer) // (MOST_POINTS // 2))]])
        points = cloud.points.reshape(3, -1)[:, rows].T.astype(np.float64)
        h, w = mask.shape
        cut = bool(mask[0].any() or mask[-1].any() or mask[:, 0].any() or mask[:, -1].any())
        hull = outline(points[:, 0].astype(np.float32), points[:, 1].astype(np.float32))
        low, high = float(np.sort(points[:, 2])[: max(2, len(points) // 50)].mean()), top_height(points[:, 2])
        seen = points, edge.ravel()[rows], hidden.ravel()[rows]
        return _Part(segment, *seen, hull, low, high, cut, points.mean(axis=0), pixel)

    def _with_robot(self, parts: list[_Part], owner: NDArray[np.int32]) -> list[_Part]:
        """Parts in which those of a robot are one."""
        if self._map:
            return parts
        names = [str(k) for k in range(len(parts))]
        supports = [self._support(parts, names, k) for k in range(len(parts))]
        work = self._planes[0]
        robot = RobotParts(
            points=[part.points for part in parts],
            hangs=[
                below is None and part.low - self._ground(part) > HANGS_M
                for part, (_, below) in zip(parts, supports, strict=True)
            ],
            cut=[part.cut for part in parts],
            colourful=[self._spread_of_shares(part.segment) for part in parts],
            on_work=[self._stands_on_work(k, supports) for k in range(len(parts))],
            over_work=[_contains(work.hull, part.points[:, :2].mean(axis=0)) for part in parts],
            middle=(work.hull.min(axis=0) + work.hull.max(axis=0)) / 2,
            work_height=work.height_m,
        ).members()
        if not robot:
            return parts
        mask = np.logical_or.reduce([parts[k].segment.mask for k in robot])
        number = int(owner.max()) + 1
        owner[mask] = number
        joined = replace(self._part(Segment(mask, parts[robot[0]].segment.plane, False), owner, number), robot=True)
        return [joined, *(part for k, part in enumerate(parts) if k not in robot)]

    def _ground(self, part: _Part) -> float:
        a, b, c = part.segment.plane.coefficients
        x, y, _ = part.middle
        return float(a * x + b * y + c)

    def _spread_of_shares(self, segment: Segment) -> float:
        rows = np.flatnonzero(segment.mask)[::3]
        share = np.median(self._cloud.chroma.reshape(3, -1)[:, rows], axis=1)
        return float(share.max() - share.min())

    def _stands_on_work(self, index: int, supports: list[tuple[float, str | None]]) -> bool:
        """Whether what is beneath a part, and beneath that, is the work surface."""
        for _ in range(len(supports)):
            below = supports[index][1]
            if below is None or below.startswith("surface"):
                return below == "surface0"
            index = int(below)
        return False

    def _support(self, parts: list[_Part], ids: list[str], index: int) -> tuple[float, str | None]:
        """Height and id of what a part stands on."""
        part = parts[index]
        centre = (part.points[:, :2].min(axis=0) + part.points[:, :2].max(axis=0)) / 2
        a, b, c = part.segment.plane.coefficients
        reach = float(np.ptp(part.points[:, :2], axis=0).max()) / 2 + 0.01 + 2 * part.pixel_m
        best = a * centre[0] + b * centre[1] + c
        name: str | None = f"surface{[p is part.segment.plane for p in self._planes].index(True)}"
        if part.segment.flat:
            return best, name
        pixel = part.pixel_m
        blur = _SUPPORT_BELOW_M + min(pixel * self._steepness(part), _STEEPEST_M)
        for other, other_id in zip(parts, ids, strict=True):
            if other is part or not best < other.high < part.high - 0.004:
                continue
            if other.high > part.low + blur:
                continue
            # A hull may span what is open in the middle: what carries a thing is seen close by.
            nearest = float(np.linalg.norm(other.points[:, :2] - centre, axis=1).min())
            meets = abs(other.high - part.low) < blur
            beneath = other.hull is not None and _contains(other.hull, centre)
            if nearest < reach and (beneath or meets):
                best, name = other.high, other_id
            elif nearest < reach and part.low - other.high < SUPPORT_GAP_M and part.high - part.low > 2 * blur:
                # Of what lies beneath only a low strip is seen: its top is where this part ends.
                best, name = part.low, other_id
        if part.low - best > SUPPORT_GAP_M + 2 * pixel * self._steepness(part) and not _foot_hidden(part):
            return part.low, None
        return best, name

    def _steepness(self, part: _Part) -> float:
        """How far the line of sight drops for each length that it covers on the ground."""
        ray = self._cloud.eye - part.middle
        return max(1.0, float(ray[2]) / max(float(np.hypot(ray[0], ray[1])), 1e-3))

    def _item(self, parts: list[_Part], ids: list[str], index: int) -> Item:
        part, cloud = parts[index], self._cloud
        bottom, below = self._support(parts, ids, index)
        seen = Visible(part.points, part.edge, part.hidden, bottom, part.pixel_m, cloud.eye, part.segment.flat)
        forms = fit_forms(seen)
        form = round_box(seen) if part.robot else choose(forms)
        flat = part.segment.flat or form.size[2] <= FLAT_M
        mask = self._full(part.segment.mask)
        rows, columns = np.flatnonzero(mask.any(axis=1)), np.flatnonzero(mask.any(axis=0))
        colour, features = self._colours(part.segment)
        hint = self._hint(part, form, flat)
        return Item(
            id=ids[index],
            mask=mask,
            box_px=(int(columns[0]), int(rows[0]), int(columns[-1]), int(rows[-1])),
            pixels=int(mask.sum()),
            colour=colour,
            colour_features=features,
            points_m=self._placed(part.points).astype(np.float32),
            position_m=_triple(self._placed(form.center)),
            center_b_m=_triple(form.center),
            half_extents_m=form.half_extents(),
            yaw_rad=form.yaw,
            size_m=form.size,
            covariance_m2=covariance(seen, form, part.low, part.cut),
            shape=form.shape,
            shape_scores=scores_of(forms, form, flat),
            flat=flat,
            cut=part.cut,
            occluded=bool(part.hidden.sum() >= 2),
            rests_on=None if part.robot else below,
            role_hint=hint,
            confidence=_ROBOT_CONFIDENCE if part.robot else confidence(int(part.segment.mask.sum()), form),
        )

    def _hint(self, part: _Part, form: Form, flat: bool) -> RoleHint:
        if part.robot:
            return "robot-like"
        if flat:
            return "zone"
        length = max(form.size[0], form.size[1])
        if self._map:
            across = max(self._planes[0].hull.max(axis=0) - self._planes[0].hull.min(axis=0))
            long = length > WALL_RATIO * max(min(form.size[0], form.size[1]), 1e-3) or length > _WALL_SHARE * across
            return "wall-like" if long else "thing"
        thickness = min(form.size[0], form.size[1])
        if length > _WALL_M or (length > _WALL_M / 2 and length > WALL_RATIO * thickness):
            return "wall-like"
        return "thing"

    def _placed(self, points: Array) -> Array:
        """Level-frame points (..., 3) in the frame of the result."""
        if self._world:
            return self._base.to_world(points)
        level = self._cloud.level_from_camera
        return (np.asarray(points) - level[:3, 3]) @ level[:3, :3]

    def _full(self, mask: BoolArray) -> BoolArray:
        """A mask of the thinned picture at the picture's own size."""
        stride = self._cloud.stride
        if stride == 1:
            return mask
        h, w = self._frame.rgb.shape[:2]
        return np.repeat(np.repeat(mask, stride, axis=0), stride, axis=1)[:h, :w]

    def _colours(self, segment: Segment) -> tuple[tuple[float, float, float], FloatArray]:
        rows = np.flatnonzero(segment.mask)
        rows = rows[:: max(1, len(rows) // (2 * MOST_POINTS))]
        rows = rows[np.argsort(self._cloud.brightness.ravel()[rows], kind="stable")]
        rgb, count = self._cloud.rgb.reshape(3, -1)[:, rows], len(rows)
        lit = np.median(rgb[:, int(0.65 * count) : max(int(0.92 * count), int(0.65 * count) + 1)], axis=1)
        dark = np.median(rgb[:, : max(1, count // 4)], axis=1)
        tint = self._cloud.chroma.reshape(3, -1)[:, rows]
        share = np.median(tint, axis=1)
        spread = float(np.median(np.abs(tint - share[:, None]).sum(axis=0)))
        below = self._plane_colours[id(segment.plane)]
        level = self._cloud.up.ravel()[rows] > _LEVEL_UP
        facing_up = np.median(rgb[:, level], axis=1) if level.sum() >= _LEAST_LEVEL else lit
        stack = [*lit, *np.median(rgb, axis=1), *dark, *share, spread, *below, *facing_up]
        return _triple(lit), np.asarray(stack, dtype=np.float32)

    def _plane_colour(self, plane: Plane) -> FloatArray:
        rows = np.flatnonzero(plane.region)
        return np.median(self._cloud.rgb.reshape(3, -1)[:, rows[:: max(1, len(rows) // 1000)]], axis=1)

    def _surface(self, plane: Plane, index: int) -> Surface:
        low, high = plane.hull.min(axis=0), plane.hull.max(axis=0)
        centre = np.array([*((low + high) / 2), plane.height_m])
        half = (high - low) / 2
        role: SurfaceRole = "work" if index == 0 else "floor" if plane is self._floor else "other"
        return Surface(
            id=f"surface{index}",
            role=role,
            position_m=_triple(self._placed(centre)),
            center_b_m=_triple(centre),
            half_extents_m=(float(half[0]), float(half[1]), 0.0),
            height_m=plane.height_m,
            polygon_b_m=plane.hull,
            plane=plane.coefficients,
            colour=_triple(self._plane_colours[id(plane)]),
            mask=self._full(plane.region),
            noise_m=plane.noise_m,
        )


def _triple(values: Array | FloatArray) -> tuple[float, float, float]:
    x, y, z = (float(v) for v in values)
    return x, y, z


def _edges(
    mask: BoolArray, owner: NDArray[np.int32], number: int, cloud: Cloud, flat: bool, pixel_m: float
) -> tuple[BoolArray, BoolArray]:
    """Pixels on the mask's outline: those that end freely, and those that something nearer cuts off."""
    edge = np.zeros_like(mask)
    hidden = np.zeros_like(mask)
    rows, columns = np.flatnonzero(mask.any(axis=1)), np.flatnonzero(mask.any(axis=0))
    top, left = max(rows[0] - 1, 0), max(columns[0] - 1, 0)
    window = (slice(top, rows[-1] + 2), slice(left, columns[-1] + 2))
    own, who, depth = mask[window], owner[window], cloud.depth[window]
    step_m = max(_NEARER_M, 4 * pixel_m)
    out_edge, out_hidden = np.zeros_like(own), np.zeros_like(own)
    for axis, step in ((0, 1), (0, -1), (1, 1), (1, -1)):
        here, there = _pair(axis, step)
        border = own[here] & ~own[there]
        other = (who[there] > 0) & (who[there] != number)
        nearer = (depth[there] > 0) & (depth[there] < depth[here] - step_m)
        covered = border & (other if flat else nearer)
        out_hidden[here] |= covered
        out_edge[here] |= border & ~covered
    edge[window], hidden[window] = out_edge & ~out_hidden, out_hidden
    return edge, hidden


def _pair(axis: int, step: int) -> tuple[tuple[slice, slice], tuple[slice, slice]]:
    """Slices of an array and of its neighbours one step along an axis."""
    ahead, behind = slice(1, None), slice(None, -1)
    one, other = (behind, ahead) if step > 0 else (ahead, behind)
    whole = slice(None)
    return ((one, whole), (other, whole)) if axis == 0 else ((whole, one), (whole, other))


def _contains(hull: Array, point: Array) -> bool:
    """Whether a convex anticlockwise outline (K, 2) contains a point."""
    following = np.roll(hull, -1, axis=0) - hull
    offset = point - hull
    return bool(np.all(following[:, 0] * offset[:, 1] - following[:, 1] * offset[:, 0] >= 0.0))


def _foot_hidden(part: _Part) -> bool:
    """Whether something nearer covers the lower end of a part."""
    foot = part.points[:, 2] < part.low + 0.3 * (part.high - part.low)
    outline_there = foot & (part.edge | part.hidden)
    return bool((part.hidden & foot).sum() > 0.4 * max(int(outline_there.sum()), 1))
