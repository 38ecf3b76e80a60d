from __future__ import annotations

import dataclasses
import json
import shutil
import signal
from collections.abc import Callable
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from embodied.errors import IntegrityError, UserError
from embodied.learning.checkpoint import CheckpointStore
from embodied.learning.controller import load_controller
from embodied.learning.episode_file import EpisodeFile, columns_of
from embodied.learning.her import HindsightReplay, ReplayConfig
from embodied.learning.sac import SacConfig, SacLearner
from embodied.run.evaluate import evaluate
from embodied.run.lock import RunLock
from embodied.run.metrics import CLOCK_KEYS
from embodied.run.same import RunIdentity
from embodied.run.train import TrainConfig, train
from embodied.types import Episode

TINY = TrainConfig(
    total_steps=150,
    start_steps=40,
    batch_size=16,
    eval_every=50,
    eval_episodes=3,
    final_episodes=4,
    log_every=25,
    checkpoint_every=60,
)
SAC = SacConfig(hidden=(32, 32))
REPLAY = ReplayConfig(capacity=60)
"""Smaller than the run: old episodes are forgotten."""


def episodes_in(run: Run) -> list[Episode]:
    """The episodes of a run's file."""
    env, path = run.make_env(), run.folder / "episodes.bin"
    replay = HindsightReplay(env.spec, env.reward, REPLAY, 0)
    return list(EpisodeFile(path, columns_of(replay.episodes.rows), path.stat().st_size))


def held_for(episode: Episode) -> list[int]:
    """For how many steps in a row an episode was at its goal, each time."""
    return [len(list(same)) for reached, same in groupby(episode.success.tolist()) if reached]


class Run:
    """Trains on the point mass in a folder."""

    def __init__(self, folder: Path, make_env: Callable[[], Any]) -> None:
        self.folder, self.make_env = folder, make_env
        self.said: list[str] = []

    def __call__(
        self, config: TrainConfig, sac: SacConfig = SAC, replay: ReplayConfig = REPLAY, **options: Any
    ) -> dict[str, Any]:
        result = train(
            config,
            self.make_env,
            lambda spec: SacLearner(spec, sac, config.seed),
            lambda spec, reward: HindsightReplay(spec, reward, replay, config.seed, self.folder / "episodes.bin"),
            CheckpointStore(self.folder / "checkpoints", self.said.append),
            self.folder,
            progress=False,
            **options,
        )
        return json.loads(json.dumps(result.to_dict()))

    def rows(self) -> list[dict[str, Any]]:
        lines = (self.folder / "metrics.jsonl").read_text().splitlines()
        return [{k: v for k, v in json.loads(line).items() if k not in CLOCK_KEYS} for line in lines]

    def checkpoints(self) -> list[str]:
        return sorted(path.name for path in (self.folder / "checkpoints").iterdir())


def _timeless(result: dict[str, Any]) -> dict[str, Any]:
    """A result without its times."""
    kept = {k: v for k, v in result.items() if k not in (*CLOCK_KEYS, "cpu_s_to")}
    kept["evaluations"] = [{k: v for k, v in item.items() if k not in CLOCK_KEYS} for item in result["evaluations"]]
    return kept


@pytest.fixture
def run(tmp_path: Path, make_point_mass: Callable) -> Run:
    return Run(tmp_path / "run", make_point_mass)


def test_the_point_mass_is_learned(run: Run) -> None:
    config = dataclasses.replace(
        TINY, total_steps=1500, start_steps=200, batch_size=64, eval_every=500, eval_episodes=20, final_episodes=50
    )
    result = run(config, dataclasses.replace(SAC, actor_lr=3e-3, critic_lr=3e-3))
    assert result["success_rate"] >= 0.9
    assert result["evaluations"][0]["success_rate"] < result["success_rate"]
    loaded = load_controller(run.folder)
    again = evaluate(run.make_env(), loaded, 50, 2_000_000)
    assert again.success_rate == result["success_rate"] == loaded.extra["success_rate"]


def test_result_has_the_keys_and_counts_of_its_contract(run: Run) -> None:
    result = run(TINY, provenance={"command": "train"})
    assert result["task"] == "point_mass"
    assert result["env_steps"] == 150
    assert result["updates"] == 111  # one after each of the steps 40 to 150
    assert result["sample_updates"] == 111 * 16
    assert [point["env_steps"] for point in result["evaluations"]] == [50, 100, 150]
    keys = {"env_steps", "cpu_train_s", "success_rate", "success_final", "success_any", "episodes"}
    assert all(point.keys() == keys for point in result["evaluations"])
    assert all(set(result[name]) == {"0.5", "0.8", "0.9", "0.95"} for name in ("steps_to", "cpu_s_to"))
    assert len(result["success_ci95"]) == 2
    assert result["episodes"] == 4
    assert 0 < result["cpu_train_s"] <= result["cpu_s"]
    assert load_controller(run.folder).extra["command"] == "train"
    assert run.checkpoints() == ["step_000000000120", "step_000000000150"]


def test_metrics_name_the_share_of_goals_that_were_already_satisfied(run: Run) -> None:
    run(TINY)
    training = [row for row in run.rows() if "critic_loss" in row]
    assert training
    assert all(0.0 <= row["relabelled_already_satisfied"] <= 1.0 for row in training)
    assert all(0.5 < row["relabelled"] < 1.0 for row in training)


def test_one_seed_gives_the_same_metrics_bit_for_bit_and_another_seed_others(
    tmp_path: Path, make_point_mass: Callable
) -> None:
    runs = [Run(tmp_path / name, make_point_mass) for name in ("one", "twin", "other")]
    results = [run(dataclasses.replace(TINY, seed=seed)) for run, seed in zip(runs, (3, 3, 4), strict=True)]
    assert runs[0].rows() == runs[1].rows()
    assert runs[0].rows() != runs[2].rows()
    assert _timeless(results[0]) == _timeless(results[1])


def test_seeds_of_evaluation_and_training_are_apart(tmp_path: Path, make_point_mass: Callable) -> None:
    made: list[Any] = []

    def make() -> Any:
        made.append(make_point_mass())
        return made[-1]

    Run(tmp_path, make)(dataclasses.replace(TINY, workers=2))
    scheduled, final = list(range(1_000_000, 1_000_003)), list(range(2_000_000, 2_000_004))
    evaluations = [env for env in made if env.seeds == scheduled * 3 + final]
    assert len(evaluations) == 1
    training = [env.seeds for env in made if env not in evaluations]
    assert len(training) == 2
    assert min(min(seeds) for seeds in training) >= 10_000_000
    assert not set(training[0]) & set(training[1])
    assert all(env.closed for env in made)


@pytest.mark.parametrize("workers", [2, 3])
def test_workers_take_turns_and_every_step_counts(tmp_path: Path, make_point_mass: Callable, workers: int) -> None:
    run = Run(tmp_path, make_point_mass)
    result = run(dataclasses.replace(TINY, workers=workers))
    assert result["env_steps"] == 150
    last = [row for row in run.rows() if "episodes" in row][-1]
    assert last["episodes"] == sum((150 // workers + (w < 150 % workers)) // 12 for w in range(workers))


def test_less_than_an_episode_trains_nothing_and_still_ends_well(run: Run) -> None:
    result = run(dataclasses.replace(TINY, total_steps=7, start_steps=0))
    assert (result["env_steps"], result["updates"]) == (7, 0)
    assert result["evaluations"] == []
    assert load_controller(run.folder).extra["env_steps"] == 7


class _Interrupting:
    """An environment in which Ctrl-C is pressed at one step."""

    def __init__(self, env: Any, at: int) -> None:
        self._env, self._left = env, at

    def __getattr__(self, name: str) -> Any:
        return getattr(self._env, name)

    def step(self, action: np.ndarray) -> Any:
        self._left -= 1
        if self._left == 0:
            signal.raise_signal(signal.SIGINT)
        return self._env.step(action)


@pytest.mark.parametrize(("which", "at", "saved"), [(1, 77, 77), (0, 40, 100)])
def test_ctrl_c_saves_says_how_to_go_on_and_resume_does(
    tmp_path: Path,
    make_point_mass: Callable,
    capsys: pytest.CaptureFixture[str],
    which: int,
    at: int,
    saved: int,
) -> None:
    """In a training step, and in an evaluation (environment 0), whose 40th step belongs to the one after step 100."""
    made: list[Any] = []

    def make() -> Any:
        made.append(_Interrupting(make_point_mass(), at if len(made) == which else 0))
        return made[-1]

    interrupted = Run(tmp_path, make)
    handler = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        interrupted(TINY, resume_command="embodied train resume=auto")
    assert signal.getsignal(signal.SIGINT) == handler
    told = capsys.readouterr().err.splitlines()
    assert [line for line in told if "resume=auto" in line] == told[-1:]
    assert f"step {saved}" in told[-1]
    assert load_controller(interrupted.folder).extra["env_steps"] == saved
    resumed = Run(tmp_path, make_point_mass)
    result = resumed(TINY, resume=True)
    assert result["env_steps"] == 150
    assert [point["env_steps"] for point in result["evaluations"]] == [50, 100, 150]
    undisturbed = Run(tmp_path / "undisturbed", make_point_mass)
    expected = undisturbed(TINY)
    assert resumed.rows() == undisturbed.rows()
    assert _timeless(result) == _timeless(expected)


def test_resume_passes_over_a_damaged_checkpoint(run: Run) -> None:
    run(TINY)
    newest = run.folder / "checkpoints" / "step_000000000150" / "learner.safetensors"
    newest.write_bytes(newest.read_bytes()[:-1])
    result = run(dataclasses.replace(TINY, total_steps=180), resume=True)
    assert len(run.said) == 1
    assert "step_000000000150" in run.said[0]
    assert result["env_steps"] == 180
    assert result["updates"] == 141


def test_no_usable_checkpoint_is_refused_and_nothing_is_lost(run: Run) -> None:
    run(TINY)
    files = [path for path in (run.folder / "checkpoints").rglob("learner.safetensors")]
    for path in files:
        path.write_bytes(path.read_bytes()[:-1])
    before = {path: path.read_bytes() for path in run.folder.rglob("*") if path.is_file()}
    with pytest.raises(IntegrityError, match="no checkpoint in .* can be used"):
        run(TINY, resume=True)
    assert {path: path.read_bytes() for path in run.folder.rglob("*") if path.is_file()} == before


@pytest.mark.parametrize("victim", ["episodes.bin", "metrics.jsonl"])
def test_damage_behind_the_previous_checkpoint_costs_one_interval(
    run: Run, capsys: pytest.CaptureFixture[str], victim: str
) -> None:
    run(TINY)
    rows = run.rows()
    path = run.folder / victim
    data = bytearray(path.read_bytes())
    data[-20] ^= 4
    path.write_bytes(bytes(data))
    run(TINY, resume=True)
    said = [line for line in capsys.readouterr().err.splitlines() if "passing over" in line]
    assert len(said) == 1
    assert "150" in said[0]
    assert run.rows() == rows


@pytest.mark.parametrize("victim", ["episodes.bin", "metrics.jsonl"])
def test_damage_before_every_checkpoint_is_refused(run: Run, victim: str) -> None:
    """Checkpoints at 140 and 150 know 11 and 12 episodes: the eleventh is damaged, or an early row."""
    run(dataclasses.replace(TINY, checkpoint_every=140))
    path = run.folder / victim
    data = bytearray(path.read_bytes())
    data[len(data) * (21 if victim == "episodes.bin" else 9) // 24] ^= 4
    path.write_bytes(bytes(data))
    with pytest.raises(IntegrityError, match=f"no checkpoint in .*{victim}"):
        run(dataclasses.replace(TINY, checkpoint_every=140), resume=True)


def test_other_settings_and_newer_versions(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    run(TINY, identity=RunIdentity({"sac.gamma": 0.9}, {"torch": "2.0", "mujoco": "3.8.1"}))
    begun = {"settings": {"loop.batch_size": 32, "task": "fetch_push"}, "versions": {}}
    with pytest.raises(UserError, match="begun with task=fetch_push, not fetch_reach"):
        RunIdentity({"loop.batch_size": 64, "task": "fetch_reach"}).check(begun, print)
    with pytest.raises(UserError, match="begun with sac.gamma=0.9, not 0.8"):
        run(TINY, resume=True, identity=RunIdentity({"sac.gamma": 0.8}, {}))
    with pytest.raises(UserError, match=r"another version, which does not have sac.law: .* another run_dir="):
        run(TINY, resume=True, identity=RunIdentity({"sac.gamma": 0.9, "sac.law": "beta"}, {}))
    with pytest.raises(UserError, match=r"another version, which has sac.gamma"):
        run(TINY, resume=True, identity=RunIdentity({}, {}))
    run(TINY, resume=True, identity=RunIdentity({"sac.gamma": 0.9}, {"torch": "2.1", "mujoco": "3.8.1"}))
    said = [line for line in capsys.readouterr().err.splitlines() if "numbers may differ" in line]
    assert said == ["the checkpoint was made with torch 2.0, this is torch 2.1: numbers may differ from here on"]


def test_a_second_process_in_the_folder_is_refused(run: Run) -> None:
    with RunLock(run.folder), pytest.raises(UserError, match="another process trains in"):
        run(TINY)
    assert not (run.folder / "metrics.jsonl").exists()
    run(TINY)


@pytest.mark.parametrize("ends", [0, 1, 2])
def test_episodes_are_broken_off_where_they_reach_their_goal_if_wanted(run: Run, ends: int) -> None:
    run(dataclasses.replace(TINY, ends_at_goal=ends, random_share=1.0))
    episodes = episodes_in(run)
    assert not any(episode.terminated.any() for episode in episodes), "what follows is only not seen"
    early = [episode for episode in episodes if len(episode) < 12]
    assert bool(early) == bool(ends)
    assert all(held_for(episode)[-1] == ends and episode.success[-1] for episode in early)
    assert all(episode.truncated[-1] for episode in episodes)
    longest = max(max(held_for(episode), default=0) for episode in episodes)
    assert longest == ends if ends else longest > 2


def test_recorder_and_demonstrations(run: Run) -> None:
    class Recorder:
        def __init__(self, resume_at: int | None) -> None:
            asked.append(resume_at)
            recorded[resume_at or 0 :] = []
            self.episodes = len(recorded)

        def add(self, episode: Episode) -> None:
            recorded.append(episode)

        def sync(self) -> None:
            pass

        def close(self) -> None:
            closed.append(True)

    recorded: list[Episode] = []
    closed: list[bool] = []
    asked: list[int | None] = []
    run(dataclasses.replace(TINY, total_steps=100), make_recorder=Recorder)
    assert len(recorded) == 100 // 12
    run(TINY, resume=True, make_recorder=Recorder)
    assert len(recorded) == 150 // 12
    assert len(closed) == 2
    assert asked == [None, 100 // 12]
    shutil.rmtree(run.folder / "checkpoints")
    shutil.rmtree(run.folder / "controller")
    run(dataclasses.replace(TINY, total_steps=50), resume=True, make_recorder=Recorder)
    assert asked[-1] == 0, "a run that was begun and has no checkpoint drops what it recorded"
    fresh = Run(run.folder / "fresh", run.make_env)
    fresh(dataclasses.replace(TINY, total_steps=50), resume=True, make_recorder=Recorder)
    assert asked[-1] is None, "a run that was never begun overwrites nothing"
    other = Run(run.folder / "other", run.make_env)
    other(dataclasses.replace(TINY, total_steps=45), demonstrations=recorded)
    assert len(episodes_in(other)) == 50 // 12 + 45 // 12


def test_resume_without_a_checkpoint_and_a_fresh_start_over_an_old_run(run: Run) -> None:
    first = run(TINY, resume=True)
    assert first["env_steps"] == 150
    rows = run.rows()
    again = run(TINY)
    assert run.rows() == rows
    assert _timeless(again) == _timeless(first)


def test_a_run_whose_checkpoints_are_gone_is_not_begun_anew(run: Run) -> None:
    run(TINY)
    shutil.rmtree(run.folder / "checkpoints")
    before = {path: path.read_bytes() for path in run.folder.rglob("*") if path.is_file()}
    with pytest.raises(IntegrityError, match="no checkpoint to go on from: copy the whole run folder again"):
        run(TINY, resume=True)
    assert {path: path.read_bytes() for path in run.folder.rglob("*") if path.is_file()} == before


def test_a_run_that_had_saved_nothing_begins_anew_and_says_so(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    run.folder.mkdir()
    RunIdentity().begin(run.folder)
    result = run(TINY, resume=True)
    assert "nothing had been saved" in capsys.readouterr().err
    assert result["env_steps"] == 150
    run(TINY, resume=True)
    assert "nothing had been saved" not in capsys.readouterr().err


def test_missing_metrics_are_told_with_one_remedy(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    run(TINY)
    (run.folder / "metrics.jsonl").unlink()
    with pytest.raises(IntegrityError, match="metrics.jsonl is missing; copy the whole run folder again, or train"):
        run(TINY, resume=True)
    assert "copy" not in capsys.readouterr().err


@pytest.mark.parametrize(
    ("changes", "horizon", "why"),
    [
        ({"start_steps": 1_000}, 12, "loop.start_steps=1000 is more than total_steps=50"),
        ({"start_steps": 10}, 200, "no episode was finished within 50 steps"),
    ],
)
def test_a_run_that_learned_nothing_says_why(
    tmp_path: Path,
    make_point_mass: Callable,
    capsys: pytest.CaptureFixture[str],
    changes: dict[str, int],
    horizon: int,
    why: str,
) -> None:
    run = Run(tmp_path / "run", lambda: make_point_mass(horizon=horizon))
    config = dataclasses.replace(TINY, total_steps=50, eval_episodes=1, final_episodes=1, **changes)
    result = run(config, replay=dataclasses.replace(REPLAY, capacity=300))
    assert result["updates"] == 0
    assert result["warning"].endswith(why)
    assert ("nothing will be learned" in capsys.readouterr().err) == ("start_steps" in why)


def test_a_run_that_learned_has_no_warning(run: Run) -> None:
    assert run(TINY)["warning"] is None


def test_settings_are_named_as_a_user_writes_them() -> None:
    begun = {"settings": {"loop.seed": 1, "loop.batch_size": 16}, "versions": {}}
    with pytest.raises(UserError, match="begun with seed=1, not 2"):
        RunIdentity({"loop.seed": 2, "loop.batch_size": 16}).check(begun, print)
    with pytest.raises(UserError, match="begun with loop.batch_size=16, not 8"):
        RunIdentity({"loop.seed": 1, "loop.batch_size": 8}).check(begun, print)
    with pytest.raises(UserError, match="^loop.batch_size must be at least 1"):
        TrainConfig(batch_size=0)
    with pytest.raises(UserError, match="^workers must be"):
        TrainConfig(workers=0)


def test_a_finished_run_that_is_resumed_is_only_evaluated_again(run: Run) -> None:
    first = run(TINY)
    again = run(TINY, resume=True)
    assert _timeless(again) == _timeless(first)


def test_schedule_of_evaluations() -> None:
    config = TrainConfig()
    due = [step for step in range(1, 240_001) if config.evaluation_due(step)]
    assert due == [*range(2_000, 200_001, 2_000), 220_000, 240_000]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"total_steps": -5}, "total_steps must be at least 1"),
        ({"workers": 0}, "workers"),
        ({"random_share": 1.5}, "random_share"),
        ({"batch_size": 0}, "batch_size"),
        ({"seed": -1}, "seed"),
    ],
)
def test_settings_out_of_range_are_refused(change: dict[str, Any], words: str) -> None:
    with pytest.raises(UserError, match=words):
        TrainConfig(**change)


def test_random_actions_become_fewer() -> None:
    config = TrainConfig(start_steps=10, random_share=0.4, random_until=100)
    assert [config.random_share_at(step) for step in (0, 9, 50, 100, 500)] == [1.0, 1.0, 0.2, 0.0, 0.0]
    assert dataclasses.replace(config, random_until=None).random_share_at(500) == 0.4


def test_episodes_are_shorter_than_the_horizon_if_wanted(run: Run) -> None:
    run(dataclasses.replace(TINY, ends_after=5))
    episodes = episodes_in(run)
    assert {len(episode) for episode in episodes} == {5}
    assert all(episode.truncated[-1] and not episode.terminated.any() for episode in episodes)
