"""Confidences that mean what they say."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scipy.special import expit, softmax

from embodied.errors import IntegrityError, UserError
from vlm_describer.calibration import (
    Calibration,
    fit_line,
    fit_temperature,
    load_calibration,
    reliability,
    threshold_for,
)

RNG = np.random.default_rng(0)


def drawn(logits: np.ndarray) -> np.ndarray:
    """A label for each row, drawn by its probabilities."""
    chances = softmax(logits, axis=1).cumsum(axis=1)
    return (RNG.random((len(logits), 1)) > chances).sum(axis=1)


def test_the_temperature_that_was_hidden_is_found() -> None:
    logits = RNG.normal(0.0, 2.0, (20_000, 5))
    labels = drawn(logits)
    assert fit_temperature(3.0 * logits, labels) == pytest.approx(3.0, rel=0.05)
    told = Calibration(temperatures={"kinds": 3.0}).names("kinds", 3.0 * logits)
    sure = told.max(axis=1)
    assert reliability(sure, told.argmax(axis=1) == labels).error < 0.02
    raw = Calibration().names("kinds", 3.0 * logits)
    assert reliability(raw.max(axis=1), raw.argmax(axis=1) == labels).error > 0.1


def test_the_line_that_was_hidden_is_found() -> None:
    odds = RNG.normal(0.0, 3.0, 20_000)
    truth = RNG.random(20_000) < expit(0.5 * odds - 1.0)
    slope, offset = fit_line(expit(odds), truth)
    assert slope == pytest.approx(0.5, abs=0.03)
    assert offset == pytest.approx(-1.0, abs=0.06)
    told = Calibration(lines={"on": (slope, offset)})
    assert told.fact("on", float(expit(2.0))) == pytest.approx(expit(0.0), abs=0.05)
    assert Calibration().fact("on", 0.3) == pytest.approx(0.3)
    assert Calibration().fact("on", 1.0) < 1.0


def test_few_examples_change_little() -> None:
    slope, offset = fit_line(np.array([0.9]), np.array([True]))
    assert (slope, offset) == pytest.approx((1.0, 0.0), abs=0.4)
    assert np.isfinite(fit_line(np.array([1.0, 0.0]), np.array([True, False]))).all()


def test_the_error_is_the_weighted_gap() -> None:
    found = reliability(np.array([0.95, 0.95, 0.05, 1.0]), np.array([True, False, False, True]), bins=10)
    assert found.count == (1, 3)
    assert found.error == pytest.approx((1 * 0.05 + 3 * abs(np.mean([0.95, 0.95, 1.0]) - 2 / 3)) / 4)
    assert reliability(np.zeros(0), np.zeros(0, bool)).error == 0.0


def test_the_threshold_answers_as_much_as_the_precision_allows() -> None:
    chances = np.array([0.99, 0.95, 0.9, 0.8, 0.7, 0.6])
    right = np.array([True, True, True, False, True, False])
    assert threshold_for(chances, right, precision=1.0) == pytest.approx(0.85)
    assert threshold_for(chances, right, precision=0.8) == pytest.approx(0.65)
    assert threshold_for(chances, right, precision=0.6) == 0.5
    assert threshold_for(chances, ~right, precision=1.0) == 1.0
    assert threshold_for(np.zeros(0), np.zeros(0, bool)) == 1.0


def test_equal_probabilities_are_not_divided() -> None:
    chances, right = np.array([0.9, 0.9, 0.9, 0.6]), np.array([True, True, False, True])
    assert threshold_for(chances, right, precision=0.9) == 1.0


def test_a_file_belongs_to_one_model(tmp_path: Path) -> None:
    made = Calibration("sim-clip-1", {"kinds": 2.0}, {"on": (0.5, 0.1)}, {"on": 0.8}, {"on": 0.01})
    path = tmp_path / "calibration.json"
    made.save(path)
    assert load_calibration(path, "sim-clip-1") == made
    with pytest.raises(UserError, match="made for sim-clip-1, not for sim-clip-2"):
        load_calibration(path, "sim-clip-2")
    with pytest.raises(UserError, match="there is no calibration"):
        load_calibration(tmp_path / "none.json", "sim-clip-1")
    path.write_text('{"model": 3}')
    with pytest.raises(IntegrityError, match="is no calibration"):
        load_calibration(path, "sim-clip-1")
