"""What is said of a table made by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from embodied_launch.bench.summary import aggregates, newest, ratio_lines, report, run_lines
from embodied_launch.bench.table import Table

from embodied.run.result import THRESHOLDS


def row(
    system: str, seed: int, success: float, steps: int | None, seconds: float | None, **more: Any
) -> dict[str, Any]:
    reached = {f"steps_to_{t}": steps for t in THRESHOLDS} | {f"cpu_s_to_{t}": seconds for t in THRESHOLDS}
    rest = {"task": "t", "success_rate": success, "cpu_train_s": 1000.0, "stopped_at": None, **more}
    return {"system": system, "seed": seed, **reached, **rest}


OURS = [row("ours", 0, 1.0, 40_000, 100.0), row("ours", 1, 0.9, 60_000, 120.0), row("ours", 2, 0.98, 50_000, 110.0)]
PEER = [row("peer", 0, 0.9, 200_000, 550.0), row("peer", 1, 0.2, None, None, stopped_at=70_000)]
ALL = [*OURS, *PEER]


def test_medians_and_worst() -> None:
    ours, peer = aggregates(ALL, None)
    assert (ours["runs"], ours["reached_0.9"]) == (3, 3)
    assert (ours["steps_to_0.9_median"], ours["steps_to_0.9_worst"]) == (50_000, 60_000)
    assert (ours["cpu_s_to_0.5_median"], ours["cpu_s_to_0.5_worst"]) == (110, 120)
    assert (ours["success_rate_median"], ours["success_rate_worst"]) == (0.98, 0.9)
    assert peer["reached_0.9"] == 1
    assert (peer["steps_to_0.9_median"], peer["steps_to_0.9_worst"]) == (None, None)
    assert "success_rate_iqm" not in ours


def test_with_intervals(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("rliable")
    from embodied_launch.bench import estimates

    monkeypatch.setattr(estimates, "REPETITIONS", 50)

    rows = [row("ours", seed, 0.9, steps, 1.0) for seed, steps in enumerate((10, 20, 30, 1000))]
    ours, alone = aggregates([*rows, row("alone", 0, 1.0, None, None)], estimates.make_estimator())
    # Of four one is cut off at each end: (20 + 30) / 2.
    assert ours["steps_to_0.8_iqm"] == 25
    assert 10 <= ours["steps_to_0.8_iqm_low"] < 25 < ours["steps_to_0.8_iqm_high"] <= 1000
    assert (ours["success_rate_iqm"], ours["success_rate_iqm_low"]) == (pytest.approx(0.9), pytest.approx(0.9))
    assert "success_rate_iqm" not in alone, "one run has no spread"


def test_run_lines_say_never_and_where_it_was_stopped() -> None:
    lines = run_lines(ALL)
    assert len(lines) == 1 + len(ALL)
    assert lines[1].split()[:4] == ["ours", "0", "1.00", "40,000"]
    assert lines[-1].count("never") == 8
    assert lines[-1].endswith("70,000 steps, 1,000 CPU-s")


def test_ratios() -> None:
    # 0.9 after 110 CPU-s; the peer's median is never, and its runs took 550 and 1000: at least 775 / 110.
    assert ratio_lines(ALL) == ["CPU-s to 0.9, medians: peer takes more than 7.0 times as much as ours"]
    arrived = [*OURS, row("peer", 0, 0.9, 200_000, 550.0)]
    assert ratio_lines(arrived) == ["CPU-s to 0.9, medians: peer takes 5.0 times as much as ours"]
    assert ratio_lines(PEER) == []


def test_a_run_that_was_made_again_counts_once() -> None:
    again = row("ours", 0, 0.5, None, None)
    assert newest([*OURS, again])["ours", 0] is again
    assert len(newest([*OURS, again])) == 3


def test_report(tmp_path: Path) -> None:
    table, curves = Table(tmp_path / "learning.jsonl"), Table(tmp_path / "curves.jsonl")
    idle = {"success_rate": 0.05, "episodes": 100, "success_low": 0.02, "success_high": 0.11}
    table.append({"system": "null", "task": "t", "seed": None, **idle})
    assert report("t", table, curves, None) == [
        "t: a policy that does nothing has success 0.050 over 100 episodes (95 %: 0.020 to 0.110)"
    ]
    for item in ALL:
        table.append(item)
        for steps in (1000, 2000):
            point = {"env_steps": steps, "cpu_train_s": steps / 10, "success_rate": 0.5}
            curves.append({"system": item["system"], "task": "t", "seed": item["seed"], **point})
    lines = report("t", table, curves, None)
    assert any("rliable is not installed" in line for line in lines)
    assert "  0.9 in 1 of 2: steps median never, worst never; CPU-s median never, worst never" in lines
    assert (tmp_path / "t.png").read_bytes()[:4] == b"\x89PNG"
    assert table.summary["null_success_rate"] == 0.05
    assert [entry["system"] for entry in table.summary["aggregates"]] == ["ours", "peer"]
