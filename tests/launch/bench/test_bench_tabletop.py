"""`bench suite=tabletop`: a proportional controller stands in for a trained one; scenes and judging are real."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from embodied_launch.bench import tabletop
from embodied_launch.bench.table import Table
from embodied_launch.verbs.bench import KEYS

from embodied.errors import UserError
from embodied.learning.controller import load_zoo
from embodied.types import FloatArray, Goal, Observation


class Proportional:
    """Moves the gripper by what the goal's entity is away from the goal; never moves with `gain` 0."""

    def __init__(self, gain: float = 12.0, skills: tuple[str, ...] = ("pick", "place", "stack")) -> None:
        self.manifest = replace(load_zoo("fetch_reach").manifest, task="tabletop", skills=skills)
        self.gain = gain

    def act(self, observation: Observation, goal: Goal) -> FloatArray:
        error = goal.value - observation.achieved[observation.layout.entity_index(goal.entity)]
        return np.append(np.clip(self.gain * error, -1, 1), 0.0).astype(np.float32)


@pytest.fixture
def controller(monkeypatch: pytest.MonkeyPatch) -> Proportional:
    made = Proportional()
    monkeypatch.setattr("embodied.learning.controller.open_controller", lambda reference: made)
    return made


def keys(**given: Any) -> KEYS:
    return KEYS(suite="tabletop", controller="scripted", scenes=2, **given)


def test_one_place_and_one_stack_are_done_and_judged() -> None:
    for skill in ("place", "stack"):
        row = tabletop.attempt(skill, 1, 0, Proportional())
        assert row["success"], row
        assert row["scene_seed"] == tabletop.FIRST_SEED + 1
        assert (row["at_rest"], row["released"]) == (True, True)
        assert row["distance_m"] < 0.03
        assert 20 < row["steps"] <= 150
        assert row["others_moved_m"] < 0.03
        assert row["on"] is (True if skill == "stack" else None)


def test_who_does_nothing_fails_after_all_steps() -> None:
    row = tabletop.attempt("place", 2, 0, Proportional(gain=0.0))
    assert (row["success"], row["steps"]) == (False, 150)
    assert row["distance_m"] >= 0.05


def test_rows_are_made_once_and_told_with_intervals(
    tmp_path: Path, controller: Proportional, capfd: pytest.CaptureFixture[str]
) -> None:
    table = Table(tmp_path / "tabletop.jsonl")
    lines = tabletop.run(keys(), table)
    told = capfd.readouterr().err
    assert "place: " in told
    assert "stack: " in told
    assert [(row["skill"], row["scene"]) for row in table.rows] == [(s, i) for s in ("place", "stack") for i in (0, 1)]
    assert [line.split(":")[0] for line in lines] == ["place", "stack"]
    assert set(table.summary) == {"place", "stack"}
    controller.gain = 0.0
    again = Table(tmp_path / "tabletop.jsonl", resume=True)
    assert tabletop.run(keys(), again) == lines
    assert len(again.rows) == 4


def test_fewer_scenes_are_the_first_ones_and_another_seed_is_another_table(
    tmp_path: Path, controller: Proportional
) -> None:
    table = Table(tmp_path / "tabletop.jsonl")
    for index in range(3):
        row = {"success": index < 1, "others_moved_m": 0.0, "distance_m": 0.01, "steps": 40}
        for skill in tabletop.SKILLS:
            table.append({"skill": skill, "scene": index, "controller": "scripted", "seed": 0, **row})
    lines = tabletop.run(keys(), table)
    assert table.summary["place"]["scenes"] == 2
    assert lines[0].startswith("place: 0.50 of 2 scenes")
    with pytest.raises(UserError, match="seed=0, not 1"):
        tabletop.run(keys(seed=1), table)
    with pytest.raises(UserError, match="controller=scripted, not zoo:tabletop"):
        tabletop.run(replace(keys(), controller="zoo:tabletop"), table)


def test_summary_counts_successes_and_disturbances() -> None:
    rows = [
        {"success": i < 9, "others_moved_m": 0.031 if i == 0 else 0.0, "distance_m": 0.01 * i, "steps": 40 + i}
        for i in range(10)
    ]
    found = tabletop.summary(rows)
    assert (found.scenes, found.success_rate, found.undisturbed_rate) == (10, 0.9, 0.9)
    assert found.success_ci95 == pytest.approx((0.596, 0.982), abs=1e-3)  # Wilson for 9 of 10
    assert (found.median_distance_m, found.median_steps) == (pytest.approx(0.045), 44.5)


def test_a_controller_without_these_skills_is_refused(tmp_path: Path, controller: Proportional) -> None:
    controller.manifest = replace(controller.manifest, skills=("reach",))
    with pytest.raises(UserError, match="offers neither place nor stack"):
        tabletop.run(keys(), Table(tmp_path / "tabletop.jsonl"))
