"""Which labelled thing a found one is."""

from __future__ import annotations

from embodied.labels import EntityLabel, FrameLabel
from embodied.types import BaseFrame
from vlm_describer.pairing import paired


def entity(ident: str, z: float, box: tuple[int, int, int, int]) -> EntityLabel:
    place = (0.5, 0.0, z)
    return EntityLabel(
        ident, "object", "block", "red", place, (0.02, 0.02, 0.02), place, (1.0, 0.0, 0.0, 0.0), box, 60, 0.6, False
    )


UPPER, LOWER = entity("upper", 0.47, (10, 10, 30, 30)), entity("lower", 0.43, (12, 26, 28, 34))
LABEL = FrameLabel("table", (UPPER, LOWER), (), BaseFrame(), 0.4, "none", 0, "fit", 0, 0)
BETWEEN = {"item": (0.5, 0.0, 0.449)}
"""Nearer to the lower one by a hair."""


def test_of_two_things_as_near_the_one_is_meant_that_shows_there() -> None:
    assert paired(BETWEEN, LABEL, 0.05)["item"] is LOWER
    assert paired(BETWEEN, LABEL, 0.05, {"item": (10, 9, 30, 30)})["item"] is UPPER
    assert paired(BETWEEN, LABEL, 0.05, {"item": (12, 27, 28, 34)})["item"] is LOWER


def test_what_lies_beyond_reach_is_no_pair_wherever_it_shows() -> None:
    assert paired({"item": (0.5, 0.2, 0.47)}, LABEL, 0.05, {"item": (10, 10, 30, 30)}) == {}
    assert paired({}, LABEL, 0.05, {}) == {}
