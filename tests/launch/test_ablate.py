"""`embodied ablate` from its words to its comparisons, mostly with canned results instead of trainings."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml
from embodied_launch.bench import estimates
from embodied_launch.outcome import NO_LLM
from embodied_launch.verbs import ablate

from embodied.errors import JobFailed
from embodied.run.result import THRESHOLDS

WORDS = ("ablate", "task=fetch_reach", "preset=debug", "total_steps=200")
VARIANTS = "variants=[base,replay.n_step=3,sac.hidden=[8,8]+loop.batch_size=16]"
NAMES = ["base", "replay.n_step=3", "sac.hidden=[8,8]+loop.batch_size=16"]


class Canned:
    """Stands for the trainings; `base` never arrives, the others do."""

    def __init__(self) -> None:
        self.asked: list[list[str]] = []
        self.fails = False

    def __call__(self, words: Sequence[str], log: Path, path: Path) -> dict[str, Any]:
        self.asked.append(list(words))
        if self.fails:
            raise JobFailed("failed", f"{path.parent.name} failed")
        arrives = not path.parent.name.startswith("base")
        reached = {str(t): 100.0 if arrives else None for t in THRESHOLDS}
        return {
            "task": "fetch_reach", "steps_to": reached, "cpu_s_to": reached, "success_ci95": [0.0, 1.0],
            "success_rate": float(arrives), "success_final": 1.0, "success_any": 1.0, "episodes": 4, "env_steps": 200,
            "updates": 1, "sample_updates": 32, "cpu_train_s": 1.0, "cpu_s": 2.0, "wall_s": 3.0, "stopped_at": None,
            "llm": NO_LLM, "evaluations": [{"success_rate": 0.25 + arrives / 2}, {"success_rate": 0.0}],
        }  # fmt: skip


@pytest.fixture
def canned(monkeypatch: pytest.MonkeyPatch) -> Canned:
    found = Canned()
    monkeypatch.setattr(ablate, "result_of", found)
    monkeypatch.setattr(estimates, "REPETITIONS", 20)
    return found


def test_rows_and_comparisons(cli_here: Callable[..., Any], canned: Canned) -> None:
    ended = cli_here(*WORDS, VARIANTS, "seeds=2", "seed=4", "out=made", "max_cpu_s=60")
    assert ended.code == 0, ended.err
    result = ended.result
    assert [(row["variant"], row["seed"]) for row in result["rows"]] == [(name, s) for name in NAMES for s in (4, 5)]
    row = result["rows"][0]
    assert row["steps_to"] == dict.fromkeys(map(str, THRESHOLDS))
    assert row["llm"] == NO_LLM
    assert {"success_rate", "stopped_at"} <= row.keys()
    compared = result["comparisons"]
    assert {(item["variant"], item["against"]) for item in compared} == {(name, "base") for name in NAMES[1:]}
    assert (compared[0]["metric"], compared[0]["median"], compared[0]["median_against"]) == ("success_rate", 1, 0)
    assert (compared[1]["metric"], compared[1]["median"], compared[1]["median_against"]) == (
        "mean_success",
        0.375,
        0.125,
    )
    assert (compared[2]["median"], compared[2]["median_against"]) == (100, None)
    assert f"{NAMES[1]} against base, mean_success: median 0.375 against 0.125" in ended.out
    assert f"{NAMES[1]} against base, steps_to_0.9: median 100 against never" in ended.out


def test_every_run_gets_the_common_settings_and_its_own(cli_here: Callable[..., Any], canned: Canned) -> None:
    words = [*WORDS, VARIANTS, "seeds=1", "out=made", "max_cpu_s=60", "loop.batch_size=64", "workers=2"]
    assert cli_here(*words).code == 0
    base, _, last = canned.asked
    assert {"task=fetch_reach", "preset=debug", "total_steps=200", "workers=2", "loop.batch_size=64"} <= set(base)
    assert {"seed=0", "resume=auto", "loop.max_cpu_s=60.0"} <= set(base)
    assert {"loop.batch_size=16", "sac.hidden=[8,8]"} <= set(last)
    assert "loop.batch_size=64" not in last


def test_resume_skips_what_is_there_and_keeps_settings_apart(cli_here: Callable[..., Any], canned: Canned) -> None:
    words = [*WORDS, "variants=base,replay.n_step=2", "out=made"]
    assert cli_here(*words, "seeds=1").code == 0
    assert len(canned.asked) == 2
    assert "resume=auto" in cli_here(*words).err
    assert cli_here(*words, "seeds=2", "resume=auto").code == 0
    assert len(canned.asked) == 4
    other = cli_here(*words, "seeds=3", "resume=auto", "sac.gamma=0.9")
    assert other.code == 2
    assert "choose another out=" in other.err


def test_failed_runs_are_told(cli_here: Callable[..., Any], canned: Canned) -> None:
    canned.fails = True
    ended = cli_here(*WORDS, "variants=base", "seeds=1", "out=made")
    assert ended.code == 3
    assert ended.result["rows"] == []
    assert "failed" in ended.out


@pytest.mark.parametrize(
    ("words", "mention"),
    [
        ([], "variants= is required"),
        (["variants=base,nothing"], "no_relay"),
        (["variants=sac.gamme=1"], "sac.gamma"),
        (["variants=sac.gamma=2"], "gamma"),
        (["variants=seed=3"], "cannot set seed"),
        (["variants=base,base"], "twice"),
        (["variants=[base"], "a,b"),
        (["variants=base", "record=data.hdf5"], "record="),
        (["variants=base", "max_cpu_s=-1"], "max_cpu_s"),
        (["variants=base", "seeds=0"], "seeds"),
        (["variants=base", "stepz=1"], "stepz"),
        (["variants=base", "run_dir=elsewhere"], "out="),
        (["variants=base,relay.mix=0.3"], "relay.mix: does nothing in fetch_reach"),
        (["variants=base,replay.n_step=1"], "'base' and 'replay.n_step=1' come to the same settings"),
        (["variants=base,no_relay"], "'base' and 'no_relay' come to the same settings"),
        (["variants=base,total_steps=200"], "same settings"),
        (["variants=base,sac.actor_critics=3"], "sac.critics=2"),
        (["variants=base", "relay.mix=0.3"], "relay.mix: does nothing"),
    ],
)
def test_mistakes(cli_here: Callable[..., Any], tmp_path: Path, words: list[str], mention: str) -> None:
    ended = cli_here(*WORDS, *words, "out=made")
    assert (ended.code, ended.out) == (2, "")
    assert len(ended.err.strip().splitlines()) == 1, ended.err
    assert mention in ended.err
    assert not (tmp_path / "made").exists()


def test_what_a_delta_brings_and_does_nothing_is_left_out(cli_here: Callable[..., Any], canned: Canned) -> None:
    ended = cli_here(*WORDS, "variants=replay.n_step=3,plain_her", "seeds=1", "out=made")
    assert ended.code == 0, ended.err
    assert "replay.settle=0" in canned.asked[1]
    assert not any(word.startswith(("relay.", "replay.gripper_share")) for word in canned.asked[1])


def test_what_is_given_for_all_is_left_out_where_it_does_nothing(cli_here: Callable[..., Any], canned: Canned) -> None:
    words = ["ablate", "task=fetch_push", "preset=debug", "variants=base,no_relay", "seeds=1"]
    ended = cli_here(*words, "relay.mix=0.3", "out=made")
    assert ended.code == 0, ended.err
    with_relay, without = canned.asked
    assert "relay.mix=0.3" in with_relay
    assert "relay.enabled=false" in without
    assert not any(word.startswith("relay.mix") for word in without)
    never = cli_here(*words, "relay.enabled=false", "relay.mix=0.3", "out=never")
    assert never.code == 2
    assert "relay.mix: does nothing with relay.enabled=false" in never.err


def test_an_ablation_goes_on_without_its_settings(cli_here: Callable[..., Any], canned: Canned) -> None:
    assert cli_here(*WORDS, "variants=base,replay.n_step=2", "seeds=1", "out=made").code == 0
    ended = cli_here("ablate", "out=made", "resume=auto", "seeds=2")
    assert ended.code == 0, ended.err
    assert "settings that are not given are those of" in ended.err
    assert [(row["variant"], row["seed"]) for row in ended.result["rows"]] == [
        ("base", 0), ("base", 1), ("replay.n_step=2", 0), ("replay.n_step=2", 1),
    ]  # fmt: skip
    assert "total_steps=200" in canned.asked[-1]
    nothing = cli_here("ablate", "out=nowhere", "resume=auto")
    assert nothing.code == 2
    assert "holds no config.yaml" in nothing.err


def test_help_lists_what_an_ablation_takes(cli_here: Callable[..., Any]) -> None:
    told = cli_here("ablate", "--help").out
    assert not any(f" {name}= " in told for name in ("run_dir", "record", "record_layout"))
    resume = next(line for line in told.splitlines() if line.strip().startswith("resume="))
    assert "rows" in resume
    task = next(line for line in told.splitlines() if line.strip().startswith("task="))
    assert task.endswith("they are those of out")


def test_a_real_run(cli_here: Callable[..., Any], tmp_path: Path) -> None:
    ended = cli_here(*WORDS[:3], "total_steps=100", "variants=sac.hidden=[8,8]", "seeds=1", "out=made")
    assert ended.code == 0, ended.err
    row = ended.result["rows"][0]
    assert (row["env_steps"], row["stopped_at"], row["episodes"]) == (100, None, 4)
    config = yaml.safe_load((tmp_path / "made" / row["run"] / "config.yaml").read_text())
    assert config["config"]["sac"]["hidden"] == [8, 8]
