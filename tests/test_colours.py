"""Names of colours in CIELAB."""

from __future__ import annotations

import numpy as np
import pytest

from embodied.colours import COLOURS, REFERENCES, colour_name, lab


@pytest.mark.parametrize(
    ("rgb", "name"),
    [
        ((1, 0, 0), "red"), ((0.5, 0, 0), "red"), ((1, 0.5, 0), "orange"), ((1, 1, 0), "yellow"), ((0, 1, 0), "green"),
        ((0, 0.4, 0), "green"), ((0, 0.5, 0.5), "teal"), ((0, 0, 1), "blue"), ((0, 0, 0.5), "blue"),
        ((0.5, 0, 0.5), "purple"), ((1, 0.75, 0.8), "pink"), ((0.55, 0.27, 0.07), "brown"), ((1, 1, 1), "white"),
        ((0.5, 0.5, 0.5), "grey"), ((0.05, 0.05, 0.05), "black"),
    ],
)  # fmt: skip
def test_colour_names(rgb: tuple[float, float, float], name: str) -> None:
    assert colour_name(rgb) == name


def test_lab_of_known_colours() -> None:
    # White is (100, 0, 0); sRGB red is (53.24, 80.09, 67.20), as any colour table has it.
    np.testing.assert_allclose(lab((1, 1, 1)), (100, 0, 0), atol=0.01)
    np.testing.assert_allclose(lab((1, 0, 0)), (53.24, 80.09, 67.20), atol=0.02)


def test_every_canonical_colour_has_examples_and_every_example_is_called_so() -> None:
    assert {name for name, _ in REFERENCES} == set(COLOURS)
    assert [colour_name(rgb) for _, rgb in REFERENCES] == [name for name, _ in REFERENCES]
