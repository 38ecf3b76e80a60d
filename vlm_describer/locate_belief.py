"""How sure a fitted form is: covariance of its centre, scores of shapes, confidence that it is one thing."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from vlm_describer.located import SHAPES
from vlm_describer.shapes_fit import Form, Visible

Array = NDArray[np.float64]

WALL_RATIO = 4.0
"""A wall is so many times as long as it is thick."""
_PLACE_PIXELS = 0.18
_MISFIT_PIXELS = 0.15
"""Standard deviation of a centre across the view in pixels: of a perfect fit, and for each pixel of its residual."""


def covariance(seen: Visible, form: Form, low: float, cut: bool) -> Array:
    """(3, 3) of the centre: pixels' trace on the ground along and across the view, what is hidden, how well it fits."""
    ray = seen.eye - form.center
    distance = float(np.linalg.norm(ray))
    rise = float(np.clip(ray[2] / distance, 0.2, 1.0))
    angle = np.arctan2(ray[1], ray[0])
    across = (_PLACE_PIXELS + _MISFIT_PIXELS * min(form.residual, 4.0)) * seen.pixel_m
    along = across / rise
    up = 0.0005 + 0.15 * seen.pixel_m
    if not seen.flat and low - seen.bottom > 0.3 * form.size[2]:
        # Sides are not seen down to the ground: there may be something beneath.
        up += 0.12 * form.size[2]
    if seen.hidden.any():
        extra = 0.15 * max(form.size[0], form.size[1])
        along, across = np.hypot(along, extra), np.hypot(across, extra)
    if cut:
        extra = 0.3 * max(form.size[0], form.size[1])
        along, across = np.hypot(along, extra), np.hypot(across, extra)
    c, s = np.cos(angle), np.sin(angle)
    turn = np.array([[c, -s, 0.0], [s, c, 0.0], [0.0, 0.0, 1.0]])
    return turn @ np.diag([along**2 + 1e-6, across**2 + 1e-6, up**2]) @ turn.T


def scores_of(forms: dict[str, Form], form: Form, flat: bool) -> dict[str, float]:
    """Of each shape, from how well it explains the points: exp(-residual), made to sum up to one with `other`."""
    raw = {name: float(np.exp(-2 * each.residual)) for name, each in forms.items()}
    scores = dict.fromkeys(SHAPES, 0.0)
    total = sum(raw.values()) + 0.05
    scores.update({name: value / total for name, value in raw.items()})
    scores["other"] = 0.05 / total
    if flat:
        scores["flat"] = 1.0 - scores["other"]
    length, width, height = form.size
    scores["tall"] = float(np.clip(height / max(length, 1e-4) - 1.0, 0.0, 1.0))
    scores["wall_like"] = float(np.clip(length / max(width, 1e-4) / WALL_RATIO - 0.5, 0.0, 1.0))
    return scores


def confidence(pixels: int, form: Form) -> float:
    return float(np.clip(1.0 - np.exp(-pixels / 15.0), 0.0, 1.0) * np.clip(1.15 - 0.12 * form.residual, 0.3, 1.0))
