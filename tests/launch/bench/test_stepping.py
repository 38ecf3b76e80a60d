"""`embodied bench suite=stepping`: what its rows say, and that the physics is stepped through the same states."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from types import SimpleNamespace

import mujoco
import numpy as np
import pytest
from embodied_launch.bench import stepping
from embodied_launch.bench.table import Table

from robots.registry import make_env


@pytest.mark.parametrize(("task", "skip"), [("fetch_reach", 20), ("point_umaze", 1), ("tabletop", 20)])
def test_a_row_says_rates_and_shares(task: str, skip: int) -> None:
    row = stepping.measure(task, 0, rounds=1, round_steps=3)
    assert row["frame_skip"] == skip
    assert row["steps"] % make_env(task).spec.horizon == 0
    assert row["ours_of_raw"] == pytest.approx(row["ours_steps_per_s"] / row["raw_steps_per_s"], rel=1e-3)
    assert row["ours_reset_ms"] > 0
    if task == "tabletop":
        assert row["gymnasium_steps_per_s"] is row["gymnasium_of_raw"] is row["gymnasium_reset_ms"] is None
    else:
        assert row["gymnasium_of_raw"] == pytest.approx(row["gymnasium_steps_per_s"] / row["raw_steps_per_s"], rel=1e-3)


@pytest.mark.parametrize(("task", "skip"), [("fetch_pick_place", 20), ("point_umaze", 1)])
def test_the_bare_physics_goes_through_the_states_of_the_episode(task: str, skip: int) -> None:
    with closing(make_env(task)) as env:
        episode = stepping._record(env, 3)
        data = mujoco.MjData(episode.model)
        stepping._physics(episode, data, skip)
        np.testing.assert_array_equal(data.qpos, env.data.qpos)
        np.testing.assert_array_equal(data.qvel, env.data.qvel)


def test_rows_that_are_there_are_not_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[str] = []

    def measure(task: str, seed: int) -> stepping.Row:
        made.append(task)
        row: stepping.Row = {f"{name}_steps_per_s": 1000.0 * (len(name) - 2) for name in ("ours", "gymnasium", "raw")}
        peer = None if task == "tabletop" else 0.25
        return {**row, "ours_of_raw": 0.5, "gymnasium_of_raw": peer}

    monkeypatch.setattr(stepping, "measure", measure)
    monkeypatch.setattr(stepping, "task_names", lambda: ("fetch_reach", "tabletop"))
    table = Table(tmp_path / "stepping.jsonl")
    first = stepping.run(SimpleNamespace(seed=0), table)
    assert stepping.run(SimpleNamespace(seed=0), Table(table.path, resume=True)) == first
    assert made == ["fetch_reach", "tabletop"]
    assert "ours 2,000" in first[0]
    assert first[0].endswith("ours 50% of it, Gymnasium 25%")
    assert first[1].endswith("ours 50% of it, Gymnasium -")
    assert len(stepping.run(SimpleNamespace(seed=1), Table(table.path, resume=True))) == 2
