"""`embodied bench suite=learner`: what its rows say, and how many operations an update takes."""

from __future__ import annotations

import time
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace

import pytest
from embodied_launch.bench import learner
from embodied_launch.bench.table import Table

from embodied.learning.sac import SacConfig, SacLearner
from robots.registry import make_env


@pytest.mark.parametrize("case", ["3x128", "fetch_push's own"])
def test_a_row_says_times_ratios_and_shares(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(learner, "TRANSITIONS", 100)
    monkeypatch.setattr(learner, "LARGE", 1_000)
    row = learner.measure(case, 0, rounds=1, updates=2)
    for name in learner.OURS:
        kind = name.removesuffix("_eager")
        assert row[f"{name}_of_limit"] == pytest.approx(row[f"products_{kind}_ms"] / row[f"{name}_ms"], rel=1e-2)
        assert row[f"{name}_sampling_share"] == pytest.approx(row["sampling_large_ms"] / row[f"{name}_ms"], rel=1e-2)
        if case in learner.PEERS_CASES and row["sb3_ms"] is not None:
            assert row[f"{name}_over_sb3"] == pytest.approx(row["sb3_ms"] / row[f"{name}_ms"], rel=1e-2)
        else:
            assert row[f"{name}_over_sb3"] is None
    assert any("ours bfloat16_eager" in line for line in learner._lines({"case": case, **row}))


def test_operations_are_those_of_the_widths_by_hand() -> None:
    """Policy 28-4-8, critic 32-4-1, two of them: 144 and 132 multiplications a row, 32 and 4 from the second layer on.

    Forward 2 * 144 + 3 * 2 * 132, to parameters 144 + 2 * 132, below 32 + 3 * 4, to the action 4 * 4.
    """
    with closing(make_env("fetch_reach")) as env:
        inputs = env.spec.layout.state_width + env.spec.layout.entity_width + env.spec.layout.goal_width
        one = SacLearner(env.spec, SacConfig(hidden=(4,)), 0)
    policy, critic = 4 * inputs + 32, 4 * (inputs + 4) + 4
    by_hand = 2 * policy + 6 * critic + policy + 2 * critic + 32 + 3 * 4 + 16
    assert learner._products(one, 10)[0] == 2.0 * 10 * by_hand


def test_works_take_turns_and_a_first_round_does_not_count() -> None:
    order: list[str] = []

    def busy() -> None:
        order.append("busy")
        began = time.process_time()
        while time.process_time() - began < 2e-3:
            pass

    spent = learner._take_turns({"busy": busy, "idle": lambda: order.append("idle")}, rounds=2, count=2)
    assert order == ["busy", "busy", "idle", "idle"] * 3
    assert [len(times) for times in spent.values()] == [2, 2]
    assert min(spent["busy"]) >= 2e-3 > max(spent["idle"])


def test_rows_that_are_there_are_not_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[str] = []

    def measure(case: str, seed: int) -> learner.Row:
        made.append(case)
        row: learner.Row = {"batch": 256, "sb3_ms": 12.0 if case in learner.PEERS_CASES else None}
        for name in learner.OURS:
            row |= {f"{name}_ms": 4.0, f"{name}_of_limit": 0.75, f"{name}_sampling_share": 0.0625}
            row[f"{name}_over_sb3"] = 3.0 if case in learner.PEERS_CASES else None
        return row

    monkeypatch.setattr(learner, "measure", measure)
    table = Table(tmp_path / "learner.jsonl")
    first = learner.run(SimpleNamespace(seed=0), table)
    assert learner.run(SimpleNamespace(seed=0), Table(table.path, resume=True)) == first
    assert made == list(learner.CASES)
    assert "  Stable-Baselines3 12.00" in first
    assert (
        "  ours float32 4.00 (75%), draw from a million rows 6%; 3.00 times as many updates as Stable-Baselines3"
        in first
    )
    assert "  ours float32 4.00 (75%), draw from a million rows 6%" in first
