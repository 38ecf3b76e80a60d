"""Statistics by rliable, against numbers worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("rliable")

from embodied_launch.bench.estimates import RliableEstimator, improvement, interquartile_mean, make_estimator

NEVER = float("inf")


@pytest.fixture(scope="module")
def estimator() -> RliableEstimator:
    found = make_estimator()
    assert found is not None
    return found


def test_interquartile_mean(estimator: RliableEstimator) -> None:
    # A quarter of eight is cut off at each end: (3 + 4 + 5 + 6) / 4.
    found = estimator.iqm([1, 2, 3, 4, 5, 6, 7, 1000])
    assert found.value == 4.5
    assert found.low is not None
    assert found.high is not None
    assert 1 <= found.low < 4.5 < found.high


@pytest.mark.parametrize("runs", [1, 2, 3, 4, 5, 8, 11])
def test_the_interquartile_mean_is_rliables(runs: int) -> None:
    from rliable.metrics import aggregate_iqm

    scores = np.random.default_rng(runs).normal(size=(runs, 1))
    assert interquartile_mean(scores) == pytest.approx(aggregate_iqm(scores))


def test_one_that_never_arrives_is_cut_off_two_are_not(estimator: RliableEstimator) -> None:
    one = estimator.iqm([10, 20, 30, 40, NEVER])
    assert (one.value, one.high) == (30, None), "some resamples hold it more than once"
    assert estimator.iqm([10, 20, 30, NEVER, NEVER]).value is None


def test_probability_of_improvement(estimator: RliableEstimator) -> None:
    # Pairs: 3 > 1, 3 > 2, 3 = 3 (half), 2 > 1, 2 = 2 (half), 2 < 3: 4 of 6.
    assert estimator.improvement([3, 2], [1, 2, 3]).value == pytest.approx(4 / 6)
    # Later is worse, never the worst of all.
    assert estimator.improvement([-1, -NEVER], [-2, -NEVER]).value == pytest.approx((1 + 1 + 0 + 0.5) / 4)


def test_it_is_rliables_probability_of_improvement() -> None:
    from rliable.metrics import probability_of_improvement

    rng = np.random.default_rng(0)
    for runs in (3, 5, 8):
        first, second = rng.integers(0, 6, (runs, 1)).astype(float), rng.integers(0, 6, (5, 1)).astype(float)
        assert improvement(first, second) == pytest.approx(probability_of_improvement(first, second))


def test_difference(estimator: RliableEstimator) -> None:
    found = estimator.difference([1.0, 1.0], [0.5, 0.5])
    assert (found.value, found.low, found.high) == (0.5, 0.5, 0.5)
    assert estimator.difference([1.0, 2.0], [NEVER, 1.0]).value is None


def test_the_same_every_time_and_nobody_elses_random_numbers_are_touched(estimator: RliableEstimator) -> None:
    np.random.seed(7)
    expected = np.random.random(3)
    np.random.seed(7)
    first = estimator.iqm([1, 2, 3])
    assert estimator.iqm([1, 2, 3]) == first
    assert np.random.random(3).tolist() == expected.tolist()
