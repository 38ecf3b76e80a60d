"""What `locate` finds: surfaces and things, as numbers without names."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from embodied.types import BaseFrame, BoolArray, FloatArray

SurfaceRole = Literal["work", "floor", "other"]
"""work: what things are handled on; floor: the largest one below it."""

RoleHint = Literal["thing", "zone", "wall-like", "robot-like"]
"""thing: may be moved or is a landmark; zone: flat on a surface; the others as their shape suggests."""

COLOUR_STATISTICS = (
    "lit_r", "lit_g", "lit_b", "median_r", "median_g", "median_b", "dark_r", "dark_g", "dark_b", "chroma_r", "chroma_g",
    "chroma_b", "chroma_spread", "surface_r", "surface_g", "surface_b", "level_r", "level_g", "level_b",
)  # fmt: skip
"""Names of an item's colour features, all in [0, 1]: medians of its brightest quarter, of all of it and of its darkest
quarter, the median share of each channel and its spread, the median of the surface beneath, as a reference for the
light, and the median of what faces up, which lies in the same light as the surface."""

SHAPES = ("box", "cylinder", "ball", "flat", "tall", "wall_like", "other")
"""Names of the shape scores."""


@dataclass(frozen=True)
class Surface:
    """A horizontal plane that things can lie on; positions in the frame of `Located`."""

    id: str
    role: SurfaceRole
    position_m: tuple[float, float, float]
    """Middle of its outline's box."""
    center_b_m: tuple[float, float, float]
    """The same in B."""
    half_extents_m: tuple[float, float, float]
    """Half of the box round the visible outline, along B's axes; the third is 0."""
    height_m: float
    """In B, at the middle."""
    polygon_b_m: NDArray[np.float64]
    """(K, 2) convex outline of what is seen of it, x and y in B, anticlockwise."""
    plane: tuple[float, float, float]
    """a, b, c of z = a x + b y + c in B."""
    colour: tuple[float, float, float]
    """Median sRGB in [0, 1]."""
    mask: BoolArray
    """(H, W) pixels that show it."""
    noise_m: float
    """Standard deviation of the depth readings about the plane."""


@dataclass(frozen=True)
class Item:
    """One thing, as far as a picture shows it. What is hidden is completed by the support below and by symmetry."""

    id: str
    mask: BoolArray
    """(H, W)"""
    box_px: tuple[int, int, int, int]
    """First and last column and row: left, top, right, bottom."""
    pixels: int
    colour: tuple[float, float, float]
    """sRGB in [0, 1] of its lit part, highlights left out."""
    colour_features: FloatArray
    """(19,), named by `COLOUR_STATISTICS`."""
    points_m: FloatArray
    """(N, 3) visible points in the frame of `Located`."""
    position_m: tuple[float, float, float]
    """Centre of the box below, in the frame of `Located`."""
    center_b_m: tuple[float, float, float]
    """The same in B."""
    half_extents_m: tuple[float, float, float]
    """Half extents of the box round it whose axes lie along B's."""
    yaw_rad: float
    """Of its own longer horizontal side in B, in (-pi/2, pi/2]; 0 for round things."""
    size_m: tuple[float, float, float]
    """Length, width (both horizontal, own axes) and height."""
    covariance_m2: NDArray[np.float64]
    """(3, 3) of the centre, along B's axes."""
    shape: str
    """The fitted form that explains the points best: box, cylinder, ball or other."""
    shape_scores: dict[str, float]
    """Of each of `SHAPES`, in [0, 1]; box to flat and other sum up to one, tall and wall_like stand alone."""
    flat: bool
    """Lies on a surface like a tray or a disc, at most 6 mm high."""
    cut: bool
    """Reaches the border of the picture."""
    occluded: bool
    """A nearer thing hides part of it."""
    rests_on: str | None
    """Id of the item or surface beneath; None where it seems to rest on nothing."""
    role_hint: RoleHint
    confidence: float
    """That this is one thing, from its size in pixels and how well a form fits."""


@dataclass(frozen=True)
class Located:
    """Everything found in a frame."""

    items: tuple[Item, ...]
    surfaces: tuple[Surface, ...]
    frame: Literal["world", "camera"]
    """camera where the pose is not known."""
    base: BaseFrame
    """Frame B. Where the pose is not known, B's place is taken by the view's own level frame: origin at the camera, z
    away from the dominant plane, x where the camera looks, y to its left."""
    reason: str = ""
    """Why nothing was found; empty where something was."""
    map_view: bool = False
    """Seen from far above, as a map: things are pillars and walls."""
    level_from_camera: NDArray[np.float64] | None = None
    """(4, 4) the camera in B, or in the view's own level frame; None where nothing was placed."""

    def item(self, item_id: str) -> Item:
        """The item with this id; KeyError where there is none."""
        for item in self.items:
            if item.id == item_id:
                return item
        raise KeyError(item_id)
