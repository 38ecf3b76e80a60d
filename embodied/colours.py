"""The canonical colours: examples of each, CIELAB, and the name of an sRGB colour."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

COLOURS = ("red", "orange", "yellow", "green", "teal", "blue", "purple", "pink", "brown", "white", "grey", "black")
"""The canonical names; every colour has one."""
UNKNOWN = "unknown"

REFERENCES: tuple[tuple[str, tuple[float, float, float]], ...] = (
    ("red", (0.85, 0.10, 0.10)),
    ("red", (1.00, 0.00, 0.00)),
    ("red", (0.60, 0.05, 0.05)),
    ("orange", (0.95, 0.50, 0.05)),
    ("orange", (1.00, 0.60, 0.20)),
    ("yellow", (0.95, 0.85, 0.15)),
    ("yellow", (1.00, 1.00, 0.00)),
    ("yellow", (0.95, 0.90, 0.50)),
    ("green", (0.10, 0.60, 0.15)),
    ("green", (0.00, 1.00, 0.00)),
    ("green", (0.50, 0.80, 0.30)),
    ("green", (0.05, 0.35, 0.10)),
    ("teal", (0.10, 0.65, 0.65)),
    ("teal", (0.00, 0.50, 0.50)),
    ("teal", (0.00, 0.90, 0.90)),
    ("blue", (0.10, 0.20, 0.85)),
    ("blue", (0.00, 0.00, 1.00)),
    ("blue", (0.20, 0.50, 0.90)),
    ("blue", (0.50, 0.70, 0.95)),
    ("blue", (0.05, 0.10, 0.40)),
    ("blue", (0.00, 0.00, 0.50)),
    ("purple", (0.55, 0.15, 0.65)),
    ("purple", (0.40, 0.10, 0.60)),
    ("purple", (0.50, 0.00, 1.00)),
    ("purple", (0.50, 0.00, 0.50)),
    ("purple", (0.70, 0.50, 0.90)),
    ("pink", (0.95, 0.55, 0.70)),
    ("pink", (1.00, 0.20, 0.60)),
    ("pink", (1.00, 0.75, 0.80)),
    ("pink", (1.00, 0.00, 1.00)),
    ("brown", (0.45, 0.27, 0.10)),
    ("brown", (0.60, 0.40, 0.20)),
    ("brown", (0.80, 0.68, 0.50)),
    ("brown", (0.30, 0.18, 0.08)),
    ("white", (1.00, 1.00, 1.00)),
    ("white", (0.93, 0.93, 0.93)),
    ("white", (0.90, 0.90, 0.86)),
    ("grey", (0.50, 0.50, 0.50)),
    ("grey", (0.70, 0.70, 0.70)),
    ("grey", (0.30, 0.30, 0.32)),
    ("black", (0.00, 0.00, 0.00)),
    ("black", (0.12, 0.12, 0.12)),
)
"""sRGB examples of the canonical colours; several each, because a name covers more than the neighbourhood of one."""

_LINEAR_TO_XYZ = np.array(
    [[0.4124564, 0.3575761, 0.1804375], [0.2126729, 0.7151522, 0.0721750], [0.0193339, 0.1191920, 0.9503041]]
)
_WHITE = _LINEAR_TO_XYZ.sum(axis=1)


def lab(rgb: Array | tuple[float, float, float]) -> Array:
    """CIELAB (D65) of sRGB values in [0, 1], (..., 3) to (..., 3).

    Formulas: IEC 61966-2-1 for the linearisation, CIE 15 for L*a*b*.
    """
    srgb = np.clip(np.asarray(rgb, dtype=np.float64), 0.0, 1.0)
    linear = np.where(srgb <= 0.04045, srgb / 12.92, ((srgb + 0.055) / 1.055) ** 2.4)
    ratio = (linear @ _LINEAR_TO_XYZ.T) / _WHITE
    f = np.where(ratio > (6 / 29) ** 3, np.cbrt(ratio), ratio / (3 * (6 / 29) ** 2) + 4 / 29)
    x, y, z = f[..., 0], f[..., 1], f[..., 2]
    return np.stack([116 * y - 16, 500 * (x - y), 200 * (y - z)], axis=-1)


_REFERENCE_LAB = lab(np.array([rgb for _, rgb in REFERENCES]))


def colour_name(rgb: Array | tuple[float, float, float]) -> str:
    """The canonical colour nearest to an sRGB colour."""
    nearest = np.argmin(np.linalg.norm(_REFERENCE_LAB - lab(rgb), axis=1))
    return REFERENCES[int(nearest)][0]
