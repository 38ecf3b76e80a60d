"""`python -m embodied_launch.convert` from the outside."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path

import h5py
import numpy as np
import pytest
from embodied_launch.convert import main

from embodied.learning.datasets.reader import read_recorded
from embodied.learning.datasets.recorder import open_recorder
from embodied.run.driver import Driver, EpisodeRecorder
from embodied.types import Episode
from robots.goal_layout import GoalLayout, goal_layout
from robots.registry import make_env

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture(scope="module")
def goals() -> GoalLayout:
    return goal_layout("fetch_reach")


@pytest.fixture(scope="module")
def episodes() -> list[Episode]:
    env, made, rng = make_env("fetch_reach"), [], np.random.default_rng(0)
    driver = Driver(env, EpisodeRecorder(env.spec, made.append))
    for seed in range(3):
        driver.run_episode(lambda o, g: rng.uniform(-1, 1, 4).astype(np.float32), seed)
    env.close()
    return made


@pytest.fixture
def source(tmp_path: Path, goals: GoalLayout, episodes: list[Episode]) -> Path:
    with open_recorder(tmp_path / "a set (of mine)", "minari", goals) as recorder:
        for seed, episode in enumerate(episodes):
            recorder.add(episode, seed)
    return tmp_path / "a set (of mine)"


@pytest.fixture
def run(capfd: pytest.CaptureFixture[str]) -> Run:
    def call(*words: str) -> tuple[int, str, str]:
        capfd.readouterr()
        code = main(words)
        return code, *capfd.readouterr()

    return call


def same(one: Episode, other: Episode) -> bool:
    return all(getattr(one, f.name).tobytes() == getattr(other, f.name).tobytes() for f in fields(Episode))


def test_to_the_other_layout_and_back(
    source: Path, tmp_path: Path, run: Run, goals: GoalLayout, episodes: list[Episode]
) -> None:
    middle, end = tmp_path / "one={x}.hdf5", tmp_path / "back"
    code, out, err = run(f"source={source}", f"out={middle}", "layout=robomimic", "task=fetch_reach")
    assert (code, err) == (0, "")
    assert out == f"3 episodes (150 steps) in robomimic's layout\n{middle}\n"
    assert run(f"source={middle}", f"out={end}", "task=fetch_reach")[0] == 0
    for path in (middle, end):
        found = list(read_recorded(path, goals))
        assert [item.seed for item in found] == [0, 1, 2]
        assert all(same(item.episode, episode) for item, episode in zip(found, episodes, strict=True))


def test_a_damaged_source_is_saved(source: Path, tmp_path: Path, run: Run, goals: GoalLayout) -> None:
    file = source / "data" / "main_data.hdf5"
    file.write_bytes(file.read_bytes()[:-12_000])
    code, out, err = run(f"source={source}", f"out={tmp_path / 'saved'}", "task=fetch_reach")
    assert code == 0
    assert err.count("\n") == 1
    assert "cut off" in err
    kept = int(out.split()[0])
    lines: list[str] = []
    assert len(list(read_recorded(tmp_path / "saved", goals, lines.append))) == kept in (1, 2)
    assert lines == []


MISTAKES = [
    ([], "source= is required"),
    (["source=x", "task=fetch_reach"], "out= is required"),
    (["source=x", "out=y", "task=fetch_raech"], "fetch_reach"),
    (["source=x", "out=y", "task=fetch_reach", "layout=rlds"], "minari, robomimic"),
    (["source=x", "out=y", "task=fetch_reach", "to=z"], "unknown key"),
    (["source=nowhere", "out=y", "task=fetch_reach"], "nowhere"),
    (["source=SET", "out=y", "task=fetch_push"], "recorded on fetch_reach"),
    (["source=SET", "out=SET", "task=fetch_reach"], "is there already"),
    (["source=SET", "out=y.hdf5", "task=fetch_reach"], "folder"),
    (["source=SET", "out=y", "task=fetch_reach", "layout=robomimic"], "ends in .hdf5"),
    (["source=SET", "out=/proc/nothing/y", "task=fetch_reach"], "/proc/nothing/y"),
    (["source=other.hdf5", "out=y", "task=fetch_reach"], "minari (groups"),
]


@pytest.mark.parametrize(("words", "mention"), MISTAKES, ids=[" ".join(words) or "nothing" for words, _ in MISTAKES])
def test_a_mistake_is_one_line(
    words: list[str], mention: str, source: Path, tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with h5py.File("other.hdf5", "w") as file:
        file["frames"] = np.zeros(3)
    code, out, err = run(*(word.replace("SET", str(source)) for word in words))
    assert (code, out) == (2, "")
    assert mention in err
    assert err.count("\n") == 1
    assert not Path("y").exists()


def test_nothing_is_left_where_it_fails_on_the_way(
    source: Path, tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    from embodied.learning.datasets.files import StagedFile

    commit = StagedFile.commit

    def full(self: StagedFile) -> None:
        if self.seek(0, 2) > 30_000:
            raise OSError(28, "No space left on device")
        commit(self)

    monkeypatch.setattr(StagedFile, "commit", full)
    out = tmp_path / "new.hdf5"
    code, printed, err = run(f"source={source}", f"out={out}", "layout=robomimic", "task=fetch_reach")
    assert (code, printed, err.count("\n")) == (2, "", 1)
    assert "No space left on device" in err
    assert not out.exists()


def test_as_a_program() -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "embodied_launch.convert", "--help"], capture_output=True, text=True, check=True
    )
    assert ended.stdout.startswith("python -m embodied_launch.convert key=value ...")
    assert all(f"{key}=" in ended.stdout for key in ("source", "out", "task", "layout"))
