"""The colours that a simulated scene shows, by canonical name."""

from __future__ import annotations

import mujoco
import numpy as np
from numpy.typing import NDArray

from embodied.colours import UNKNOWN, colour_name

Array = NDArray[np.float64]

DEFAULT_RGBA = (0.5, 0.5, 0.5, 1.0)
"""MuJoCo's geom colour where nothing is said; with a material, the material's colour then holds."""


def geom_rgba(model: mujoco.MjModel, geom: int) -> Array:
    """The colour that a geom shows, (4,): its own, else its material's times the mean of the material's texture."""
    own, material = model.geom_rgba[geom].astype(np.float64), int(model.geom_matid[geom])
    if material < 0 or not np.allclose(own, DEFAULT_RGBA, atol=1e-6):
        return own
    rgba = model.mat_rgba[material].astype(np.float64)
    texture = int(model.mat_texid[material, mujoco.mjtTextureRole.mjTEXROLE_RGB])
    if texture >= 0:
        rgba[:3] *= _texture_mean(model, texture)
    return rgba


def _texture_mean(model: mujoco.MjModel, texture: int) -> Array:
    channels = int(model.tex_nchannel[texture])
    count = int(model.tex_height[texture]) * int(model.tex_width[texture]) * channels
    start = int(model.tex_adr[texture])
    pixels = model.tex_data[start : start + count].reshape(-1, channels)
    mean = pixels.mean(axis=0) / 255.0
    return mean[:3] if channels >= 3 else np.repeat(mean[:1], 3)


def shown_colour(model: mujoco.MjModel, geoms: list[int]) -> str:
    """The canonical colour of several geoms together: that of the largest visible one; `unknown` where none is."""
    visible = [geom for geom in geoms if geom_rgba(model, geom)[3] > 0.05]
    if not visible:
        return UNKNOWN
    largest = max(visible, key=lambda geom: (float(np.prod(model.geom_aabb[geom, 3:] + 1e-4)), -geom))
    return colour_name(geom_rgba(model, largest)[:3])
