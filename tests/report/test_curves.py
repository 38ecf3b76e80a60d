from __future__ import annotations

from pathlib import Path

import numpy as np

from embodied.report.curves import median_curve, success_curves


def test_the_median_is_drawn_where_all_runs_have_points() -> None:
    first, second = np.array([[0.0, 10.0, 20.0], [0.0, 1.0, 1.0]]), np.array([[5.0, 15.0], [0.0, 1.0]])
    # At 5: 0.5 and 0; at 10: 1 and 0.5; at 15: 1 and 1. The second has nothing at 0 and 20.
    assert median_curve([first, second]).tolist() == [[5, 10, 15], [0.25, 0.75, 1.0]]


def test_runs_that_do_not_overlap_have_no_median() -> None:
    runs = [np.array([[0.0, 1.0], [0.0, 0.0]]), np.array([[2.0, 3.0], [1.0, 1.0]])]
    assert median_curve(runs).shape == (2, 0)


def test_a_picture_is_written_also_of_nothing(tmp_path: Path) -> None:
    point = {"system": "ours", "seed": 0, "env_steps": 100, "cpu_train_s": 3.0, "success_rate": 0.5}
    for name, points in (("one", [point]), ("none", [])):
        path = success_curves(tmp_path / f"{name}.png", points, 0.05, "title")
        assert path.read_bytes()[:4] == b"\x89PNG"
