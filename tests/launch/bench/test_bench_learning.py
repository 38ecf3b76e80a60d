"""`embodied bench suite=learning` from its words to its table, mostly with canned results instead of trainings."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from embodied_launch.bench import estimates, learning, systems
from embodied_launch.bench.runs import says_all

from embodied.errors import JobFailed
from embodied.run.config import TrainConfig
from embodied.run.result import THRESHOLDS

WORDS = ("bench", "suite=learning", "task=fetch_reach", "preset=debug", "total_steps=200")


class Canned:
    """Stands for the trainings: remembers what was asked for and answers at once."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.stopped_at: int | None = None
        self.fails = ""

    def __call__(self, words: Sequence[str], log: Path, path: Path) -> dict[str, Any]:
        self.asked.append(path.parent.name)
        if self.fails and self.fails in path.parent.name:
            raise JobFailed("failed", f"{path.parent.name} failed (out of luck)")
        steps = self.stopped_at or 200
        times = {"env_steps": steps, "cpu_train_s": 2.0, "cpu_s": 3.0, "wall_s": 4.0, "stopped_at": self.stopped_at}
        rates = {"success_rate": 0.5, "success_final": 0.5, "success_any": 0.5, "episodes": 4}
        return {
            **times, **rates, "success_ci95": [0.1, 0.9], "updates": 10, "sample_updates": 320,
            "steps_to": {str(t): 100 if t < 0.8 else None for t in THRESHOLDS},
            "cpu_s_to": {str(t): 1.0 if t < 0.8 else None for t in THRESHOLDS},
            "evaluations": [{"env_steps": 100, "cpu_train_s": 1.0, **rates}],
        }  # fmt: skip


@pytest.fixture
def canned(monkeypatch: pytest.MonkeyPatch) -> Canned:
    found = Canned()
    monkeypatch.setattr(learning, "result_of", found)
    monkeypatch.setattr(estimates, "REPETITIONS", 20)
    return found


def table(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "learning.jsonl").read_text().splitlines()]


def test_a_row_for_each_system_and_seed_and_one_for_nobody(
    cli_here: Callable[..., Any], canned: Canned, tmp_path: Path
) -> None:
    pytest.importorskip("stable_baselines3")
    ended = cli_here(*WORDS, "systems=ours,sb3_sac_her", "seeds=2", "seed=5", "out=made")
    assert ended.code == 0, ended.err
    rows = ended.result["rows"]
    assert rows == table(tmp_path / "made")
    assert [(row["system"], row["seed"]) for row in rows] == [
        ("null", None), ("ours", 5), ("sb3_sac_her", 5), ("ours", 6), ("sb3_sac_her", 6),
    ]  # fmt: skip
    assert (rows[1]["steps_to_0.5"], rows[1]["steps_to_0.9"]) == (100, None)
    assert "batch_size=2048" in rows[2]["settings"]
    assert all("mean_success" in row for row in rows)
    assert not any(isinstance(value, list | dict) for row in rows for value in row.values())
    assert {"torch", "mujoco", "processor"} <= rows[1].keys()
    assert [entry["system"] for entry in ended.result["aggregates"]] == ["ours", "sb3_sac_her"]
    assert (tmp_path / "made" / "fetch_reach.png").is_file()
    assert ended.out.count("never") > 8


def test_resume_makes_what_is_missing(cli_here: Callable[..., Any], canned: Canned) -> None:
    words = (*WORDS, "systems=ours", "out=made")
    assert cli_here(*words).code == 0
    refused = cli_here(*words)
    assert (refused.code, refused.out) == (2, "")
    assert "resume=auto" in refused.err
    assert canned.asked == ["ours-fetch_reach-0"]
    assert cli_here(*words, "seeds=2", "resume=auto").code == 0
    assert canned.asked == ["ours-fetch_reach-0", "ours-fetch_reach-1"]


def test_a_run_that_was_cut_off_is_made_again_with_more_time_only(cli_here: Callable[..., Any], canned: Canned) -> None:
    words = (*WORDS, "systems=ours", "out=made")
    canned.stopped_at = 150
    assert cli_here(*words, "max_cpu_s=2").result["rows"][1]["stopped_at"] == 150
    assert cli_here(*words, "max_cpu_s=2", "resume=auto").code == 0
    assert len(canned.asked) == 1
    canned.stopped_at = None
    ended = cli_here(*words, "max_cpu_s=9", "resume=auto")
    assert len(canned.asked) == 2
    assert [entry["runs"] for entry in ended.result["aggregates"]] == [1], "the newer row counts"


def test_runs_of_other_settings_are_not_counted_together(cli_here: Callable[..., Any], canned: Canned) -> None:
    words = (*WORDS, "systems=ours", "out=made")
    assert cli_here(*words).code == 0
    ended = cli_here(*words[:3], "preset=fast", *words[4:], "seeds=2", "resume=auto")
    assert ended.code == 2
    assert "were made with preset=debug" in ended.err


def test_a_failure_costs_its_own_row(cli_here: Callable[..., Any], canned: Canned) -> None:
    canned.fails = "ours-fetch_reach-0"
    ended = cli_here(*WORDS, "systems=ours", "seeds=2", "out=made")
    assert ended.code == 3
    assert [row["seed"] for row in ended.result["rows"]] == [None, 1]
    assert "ours-fetch_reach-0 failed (out of luck)" in ended.out


def test_a_peer_that_is_not_installed_is_left_out(
    cli_here: Callable[..., Any], canned: Canned, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(systems, "find_spec", lambda name: None)
    ended = cli_here(*WORDS, "systems=ours,sb3_tqc_her", "out=made")
    assert ended.code == 0
    assert canned.asked == ["ours-fetch_reach-0"]
    line = next(line for line in ended.out.splitlines() if line.startswith("sb3_tqc_her"))
    assert "embodied-control[peers]" in line


@pytest.mark.parametrize(
    ("words", "mention"),
    [
        (["suite=lerning"], "did you mean 'learning'"),
        (["suite=table"], "learning"),
        (["suite=learning", "systems=ours,them"], "sb3_tqc_her"),
        (["suite=learning", "systems=ours,,"], "a,b"),
        (["suite=learning", "task=fetch_pull"], "fetch_push"),
        (["suite=learning", "max_cpu_s=0"], "max_cpu_s"),
        (["suite=learning", "seeds=0"], "seeds"),
    ],
)
def test_mistakes(cli_here: Callable[..., Any], tmp_path: Path, words: list[str], mention: str) -> None:
    ended = cli_here("bench", *words, "out=made")
    assert (ended.code, ended.out) == (2, "")
    assert len(ended.err.strip().splitlines()) == 1, ended.err
    assert mention in ended.err
    assert not (tmp_path / "made").exists()


def test_peers_need_a_task_of_gymnasiums(cli_here: Callable[..., Any]) -> None:
    ended = cli_here("bench", "suite=learning", "task=tabletop", "systems=ours,sb3_sac_her", "out=made")
    assert ended.code == 2
    assert "systems=ours" in ended.err


@pytest.mark.parametrize(
    ("row", "loop", "all_said"),
    [
        ({"env_steps": 200, "stopped_at": None, "max_cpu_s": 9.0}, {"total_steps": 200, "max_cpu_s": 99.0}, True),
        ({"env_steps": 200, "stopped_at": None, "max_cpu_s": 9.0}, {"total_steps": 300, "max_cpu_s": 99.0}, False),
        ({"env_steps": 150, "stopped_at": 150, "max_cpu_s": 9.0}, {"total_steps": 200, "max_cpu_s": 9.0}, True),
        ({"env_steps": 150, "stopped_at": 150, "max_cpu_s": 9.0}, {"total_steps": 200}, False),
    ],
)
def test_when_a_row_says_all(row: dict[str, Any], loop: dict[str, Any], all_said: bool) -> None:
    assert says_all(row, TrainConfig(**loop)) is all_said


def test_real_runs_ours_cut_off_and_a_peer(cli_here: Callable[..., Any], tmp_path: Path) -> None:
    """A peer trains to its end, and ours goes on from where its time was up."""
    pytest.importorskip("stable_baselines3")
    words = (*WORDS, "systems=ours,sb3_sac_her_small_b256", "out=made")
    cut = cli_here(*words[:-2], "systems=ours", "out=made", "max_cpu_s=0.01")
    assert cut.code == 0, cut.err
    first = cut.result["rows"][1]
    assert first["stopped_at"] == first["env_steps"] < 200
    assert first["steps_to_0.5"] is None
    ended = cli_here(*words, "resume=auto")
    assert ended.code == 0, ended.err
    ours, peer = ended.result["rows"][2:]
    assert [(row["system"], row["env_steps"], row["stopped_at"]) for row in (ours, peer)] == [
        ("ours", 200, None), ("sb3_sac_her_small_b256", 200, None),
    ]  # fmt: skip
    assert 0 < peer["cpu_train_s"] < peer["cpu_s"]
    assert peer["episodes"] == ours["episodes"] == 4
