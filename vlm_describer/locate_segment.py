"""Which pixels are which thing: parts that stand over a surface, cut at jumps of depth and changes of colour."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import connected_components

from embodied.types import BoolArray, FloatArray
from vlm_describer.locate_cloud import Cloud
from vlm_describer.locate_parts import join_faces, join_flats, join_rims, part_levels
from vlm_describer.locate_surfaces import BAND_M, Plane

LabelArray = NDArray[np.int32]

FOOT_M = 0.02
"""What stands over a surface may reach so far beyond its outline."""
JUMP_M = 0.012
"""Neighbouring pixels of one thing are at most so far apart, or..."""
JUMP_PIXELS = 4.0
"""... so many sizes of a pixel, ..."""
DROP = 0.2
"""... where heights count so much only: a steep view shows a whole side within a pixel or two."""
CHROMA_STEP = 0.07
"""Change of chroma (sum over the channels' shares) between neighbours that parts two things."""
LIGHT_STEP = 2.5
"""Change of brightness (a factor) between neighbours of one face that parts two things."""
LEAST_PIXELS = 10
"""A part with fewer pixels is joined to a neighbour or dropped."""
FLAT_M = 0.0011
"""Least height of a flat thing over its surface, where the readings' noise allows..."""
FLAT_NOISES = 2.5
"""... and in standard deviations of the readings, or of their mean over 3 x 3 where single ones are too coarse."""
_FLAT_LEVEL = 0.9
_LEVEL_SHARE = 0.3
_FLAT_NOISE_LIMIT_M = 0.0007
"""Above this noise a flat thing is told by its colour alone."""


@dataclass(frozen=True)
class Segment:
    """One part of the picture."""

    mask: BoolArray
    """(h, w) of the thinned picture."""
    plane: Plane
    """The surface below."""
    flat: bool


def find_segments(cloud: Cloud, planes: Sequence[Plane], work: Plane) -> list[Segment]:
    """Parts over the work surface, then flat ones on it, then those on lower and other surfaces."""
    taken = np.zeros(cloud.valid.shape, dtype=bool)
    segments: list[Segment] = []
    ordered = [work, *sorted((p for p in planes if p is not work), key=lambda p: -p.height_m)]
    for plane in ordered:
        over = plane.height_over(cloud.points)
        inside = _inside(plane, cloud, taken, over)
        raised = inside & (over > max(BAND_M, 4 * plane.noise_m))
        solids = _masks(_split(cloud, raised))
        if plane is work:
            flats = _masks(_flat_labels(cloud, plane, inside & ~raised, over))
            flats, solids = join_rims(flats, solids, cloud, over)
            segments += [Segment(mask, plane, True) for mask in flats]
        segments += [Segment(mask, plane, False) for mask in solids]
        taken |= inside | _column(plane, cloud, over)
    return segments


def _inside(plane: Plane, cloud: Cloud, taken: BoolArray, over: FloatArray) -> BoolArray:
    """Pixels not yet explained that lie on or above the plane's outline."""
    candidate = cloud.valid & ~taken & (over > -BAND_M)
    rows = np.flatnonzero(candidate.ravel())
    flat = cloud.points.reshape(3, -1)
    candidate.ravel()[rows] = plane.inside(flat[0, rows], flat[1, rows], FOOT_M)
    return candidate


def _column(plane: Plane, cloud: Cloud, over: FloatArray) -> BoolArray:
    """What carries the plane: pixels below it within its outline."""
    below = cloud.valid & (over <= 0.0)
    rows = np.flatnonzero(below.ravel())
    flat = cloud.points.reshape(3, -1)
    below.ravel()[rows] = plane.inside(flat[0, rows], flat[1, rows], 2 * FOOT_M)
    return below


def _masks(labels: LabelArray) -> list[BoolArray]:
    """A mask for each label from 1 on that has enough pixels."""
    counts = np.bincount(labels.ravel())
    return [labels == k for k in range(1, len(counts)) if counts[k] >= LEAST_PIXELS]


def _split(cloud: Cloud, raised: BoolArray) -> LabelArray:
    """Labels of raised pixels: first cut at jumps and colours, then small parts joined to what they touch."""
    points, colours = cloud.points.reshape(3, -1), cloud.chroma.reshape(3, -1)
    jump = np.maximum(np.float32(JUMP_M), np.float32(JUMP_PIXELS) * cloud.pixel_m).ravel()
    light, steep = cloud.brightness.ravel() + np.float32(0.02), cloud.up.ravel()
    links, bridges = [], []
    for one, other in _neighbours(raised):
        apart = points[:, one] - points[:, other]
        apart[2] *= np.float32(DROP)
        near = _squares(apart) < jump[one] ** 2
        one, other = one[near], other[near]
        ratio = light[one] / light[other]
        same = (ratio < LIGHT_STEP) & (ratio > 1 / LIGHT_STEP) | (np.abs(steep[one] - steep[other]) >= 0.1)
        same &= _change(colours, one, other) < CHROMA_STEP
        links.append((one[same], other[same]))
        bridges.append((one, other))
    parts = _join_small(_components(links, raised), _components(bridges, raised))
    parts = join_faces(parts, _touching(parts, bridges), cloud)
    return part_levels(parts, cloud)


def _touching(labels: LabelArray, bridges: list[tuple[NDArray[np.intp], NDArray[np.intp]]]) -> list[tuple[int, int]]:
    """Pairs of different labels that meet at some pixels without a jump, in order."""
    flat = labels.ravel()
    one = np.concatenate([flat[a] for a, _ in bridges])
    other = np.concatenate([flat[b] for _, b in bridges])
    meet = (one != other) & (one > 0) & (other > 0)
    low, high = np.minimum(one[meet], other[meet]), np.maximum(one[meet], other[meet])
    pairs, counts = np.unique(np.stack([low, high], axis=1), axis=0, return_counts=True)
    return [(int(a), int(b)) for (a, b), count in zip(pairs, counts, strict=True) if count >= 3]


def _neighbours(mask: BoolArray) -> list[tuple[NDArray[np.intp], NDArray[np.intp]]]:
    """Flat indices of each pair of the mask's pixels that lie side by side, then one below the other."""
    width = mask.shape[1]
    beside = np.zeros_like(mask)
    beside[:, :-1] = mask[:, :-1] & mask[:, 1:]
    rows = np.flatnonzero(beside)
    below = np.flatnonzero(mask[:-1] & mask[1:])
    return [(rows, rows + 1), (below, below + width)]


def _change(colours: FloatArray, one: NDArray[np.intp], other: NDArray[np.intp]) -> FloatArray:
    """Change of chroma, sum over the channels, between pixels of flat colours (3, N)."""
    step = np.abs(colours[:, one] - colours[:, other])
    return step[0] + step[1] + step[2]


def _squares(vectors: FloatArray) -> FloatArray:
    return vectors[0] * vectors[0] + vectors[1] * vectors[1] + vectors[2] * vectors[2]


def _components(links: list[tuple[NDArray[np.intp], NDArray[np.intp]]], mask: BoolArray) -> LabelArray:
    """Connected components of the mask's pixels under the links, numbered from 1; 0 outside."""
    labels = np.zeros(mask.size, dtype=np.int32)
    rows = np.flatnonzero(mask.ravel())
    if len(rows):
        compact = np.zeros(mask.size, dtype=np.int32)
        compact[rows] = np.arange(len(rows), dtype=np.int32)
        one = compact[np.concatenate([a for a, _ in links])]
        other = compact[np.concatenate([b for _, b in links])]
        graph = coo_matrix((np.ones(len(one), dtype=np.int8), (one, other)), shape=(len(rows), len(rows)))
        labels[rows] = connected_components(graph, directed=False)[1] + 1
    return labels.reshape(mask.shape)


def _join_small(parts: LabelArray, blobs: LabelArray) -> LabelArray:
    """Pixels of small parts go to the nearest large part of the same blob (mixed pixels lie on borders)."""
    rows, columns = np.flatnonzero(blobs.any(axis=1)), np.flatnonzero(blobs.any(axis=0))
    if not len(rows):
        return parts
    box = (slice(rows[0], rows[-1] + 1), slice(columns[0], columns[-1] + 1))
    joined = parts.copy()
    joined[box] = _joined_small(parts[box], blobs[box])
    return joined


def _joined_small(parts: LabelArray, blobs: LabelArray) -> LabelArray:
    counts = np.bincount(parts.ravel())
    blob_counts = np.bincount(blobs.ravel())
    needed = np.clip(0.08 * blob_counts, LEAST_PIXELS, 4 * LEAST_PIXELS)
    large = (counts[parts] >= needed[blobs]) | ((counts[parts] >= LEAST_PIXELS) & _solid(parts))
    large &= parts > 0
    lonely = (parts > 0) & ~large
    if not lonely.any():
        return parts
    joined = np.where(large, parts, 0)
    for number, window in enumerate(ndimage.find_objects(blobs), start=1):
        here = blobs[window] == number
        loose = lonely[window] & here
        if not loose.any():
            continue
        sources = large[window] & here
        if not sources.any():
            joined[window][here] = parts[window][here].max()
            continue
        near = ndimage.distance_transform_edt(~sources, return_distances=False, return_indices=True)
        joined[window][loose] = joined[window][near[0][loose], near[1][loose]]
    return joined


def _solid(parts: LabelArray) -> BoolArray:
    """Pixels of parts that are somewhere three pixels wide: lines of mixed colour along borders are not."""
    core = np.zeros(parts.shape, dtype=bool)
    middle = parts[1:-1, 1:-1]
    core[1:-1, 1:-1] = middle > 0
    h, w = parts.shape
    for down in (0, 1, 2):
        for right in (0, 1, 2):
            core[1:-1, 1:-1] &= middle == parts[down : h - 2 + down, right : w - 2 + right]
    solid = np.zeros(int(parts.max()) + 1, dtype=bool)
    solid[parts[core]] = True
    return solid[parts]


def _flat_labels(cloud: Cloud, plane: Plane, band: BoolArray, over: FloatArray) -> LabelArray:
    """Labels of flat things among pixels of the plane's band: by height where the readings allow it, else by colour."""
    if plane.noise_m > _FLAT_NOISE_LIMIT_M:
        different = _colour_differs(cloud, plane, band)
    elif FLAT_NOISES * plane.noise_m <= FLAT_M:
        different = band & (over > FLAT_M)
    else:
        weight = ndimage.uniform_filter(band.astype(np.float32), 3)
        mean = ndimage.uniform_filter(np.where(band, over, np.float32(0.0)), 3) / np.maximum(weight, np.float32(0.1))
        different = band & (mean > max(FLAT_M, FLAT_NOISES * plane.noise_m / 3))
    different = ndimage.binary_opening(different, np.ones((3, 3), dtype=bool))
    colours = cloud.chroma.reshape(3, -1)
    links = []
    for one, other in _neighbours(different):
        same = _change(colours, one, other) < CHROMA_STEP
        links.append((one[same], other[same]))
    labels = _join_small(_components(links, different), ndimage.label(different)[0])
    return join_flats(_level_only(labels, cloud), cloud, over, ~band)


def _level_only(labels: LabelArray, cloud: Cloud) -> LabelArray:
    """Labels without parts that are not level: low ends of sides."""
    counts = np.bincount(labels.ravel())
    level = np.bincount(labels[cloud.up > _FLAT_LEVEL].ravel(), minlength=len(counts))
    kept = level >= _LEVEL_SHARE * counts
    kept[0] = False
    return np.where(kept[labels], labels, 0)


def _colour_differs(cloud: Cloud, plane: Plane, band: BoolArray) -> BoolArray:
    """Pixels of the band whose chroma or brightness none of the surface's main colours has.

    The main colours are the modes of a coarse histogram of chroma and brightness over the surface that hold at least
    a quarter of it, the most frequent one in any case; shadows keep the chroma and are at most three times as dark.
    """
    tint = cloud.chroma
    shade = np.log2(cloud.brightness + np.float32(0.02))
    cells = np.rint(tint[:2] * 12).astype(np.int32)
    key = (cells[0] * 64 + cells[1]) * 64 + np.clip(np.rint(shade), -10, 10).astype(np.int32) + 16
    values, counts = np.unique(key[plane.region], return_counts=True)
    main = values[counts >= min(0.25 * counts.sum(), counts.max())]
    different = band.copy()
    for value in main:
        members = plane.region & (key == value)
        middle, level = np.median(tint[:, members], axis=1), float(np.median(shade[members]))
        away = np.abs(tint - middle[:, None, None].astype(np.float32))
        same = away[0] + away[1] + away[2] < 1.5 * CHROMA_STEP
        different &= ~(same & (shade < level + 0.8) & (shade > level - 1.6))
    return different
