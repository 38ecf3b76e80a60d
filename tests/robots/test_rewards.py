"""Sparse rewards, their edges and their masks."""

from __future__ import annotations

import numpy as np

from embodied.types import Goal
from robots.rewards import NegativeSparseReward, PositiveSparseReward, masked_distance, wish_distance, wish_of


def test_distance_counts_masked_components_only() -> None:
    achieved = np.array([[3.0, 4.0, 100.0], [1.0, 1.0, 1.0]], dtype=np.float32)
    goal = np.zeros((2, 3), dtype=np.float32)
    mask = np.array([[True, True, False], [False, False, False]])
    np.testing.assert_array_equal(masked_distance(achieved, goal, mask), [5.0, 0.0])


def test_edges_are_gymnasiums() -> None:
    # 0.5 is exact in binary. Fetch: reward -(d > tol), success d < tol. Mazes: both d <= tol.
    achieved = np.array([[0.25], [0.5], [0.75]], dtype=np.float32)
    goal, mask = np.zeros((3, 1), dtype=np.float32), np.ones((3, 1), dtype=bool)
    fetch = NegativeSparseReward(0.5)(achieved, goal, mask)
    np.testing.assert_array_equal(fetch.reward, [0.0, 0.0, -1.0])
    np.testing.assert_array_equal(fetch.success, [True, False, False])
    maze = PositiveSparseReward(0.5)(achieved, goal, mask)
    np.testing.assert_array_equal(maze.reward, [1.0, 1.0, 0.0])
    np.testing.assert_array_equal(maze.success, [True, True, False])


def test_batch_equals_single_calls_bit_for_bit() -> None:
    rng = np.random.default_rng(0)
    achieved = rng.normal(0, 0.05, (500, 3)).astype(np.float32)
    goal = np.zeros_like(achieved)
    mask = rng.random((500, 3)) < 0.8
    for reward in (NegativeSparseReward(0.05), PositiveSparseReward(0.05)):
        batch = reward(achieved, goal, mask)
        assert batch.reward.dtype == np.float32
        assert not batch.terminated.any()
        assert 0 < batch.success.sum() < 500
        for index in range(500):
            rows = slice(index, index + 1)
            single = reward(achieved[rows], goal[rows], mask[rows])
            assert (single.reward[0], single.success[0]) == (batch.reward[index], batch.success[index])
            wish = wish_of(Goal("gripper", goal[index], mask[index]))
            assert reward.of_step(achieved[index].tolist(), wish) == (single.reward[0], single.success[0])


def test_a_distance_without_arrays_is_the_same_to_the_last_bit() -> None:
    rng = np.random.default_rng(1)
    achieved, goal = rng.normal(0, 1, (2, 1000, 3)).astype(np.float32)
    mask = rng.random((1000, 3)) < 0.7
    wishes = [wish_of(Goal("gripper", *pair)) for pair in zip(goal, mask, strict=True)]
    found = [wish_distance(row, wish) for row, wish in zip(achieved.tolist(), wishes, strict=True)]
    np.testing.assert_array_equal(found, masked_distance(achieved, goal, mask))
