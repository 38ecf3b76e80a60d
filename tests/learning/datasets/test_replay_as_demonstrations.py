"""A training run's own file of episodes is read as demonstrations, and is not touched."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from embodied.errors import IntegrityError, LayoutError
from embodied.learning.datasets.reader import read_demonstrations
from embodied.learning.episode_file import EpisodeFile, columns_of
from embodied.learning.replay import EpisodeReplay
from embodied.types import Episode
from robots.goal_layout import GoalLayout, goal_layout


@pytest.fixture
def run(tmp_path: Path, goals: GoalLayout, episodes: list[Episode]) -> Path:
    file = EpisodeFile(tmp_path / "episodes.bin", columns_of(EpisodeReplay(goals.spec, 100).rows))
    for episode in episodes:
        file.append(episode)
    file.close()
    return tmp_path


def test_it_comes_back_bit_for_bit(
    run: Path, goals: GoalLayout, episodes: list[Episode], equal: Callable[[Episode, Episode], bool]
) -> None:
    for path in (run, run / "episodes.bin"):
        assert all(equal(*pair) for pair in zip(read_demonstrations(path, goals), episodes, strict=True))


def test_what_is_damaged_is_cut_off(
    run: Path, goals: GoalLayout, episodes: list[Episode], equal: Callable[[Episode, Episode], bool]
) -> None:
    path = run / "episodes.bin"
    damaged = bytearray(path.read_bytes()[:-10])
    damaged[5_000] ^= 1
    path.write_bytes(damaged)
    lines: list[str] = []
    found = list(read_demonstrations(run, goals, lines.append))
    assert all(equal(*pair) for pair in zip(found, episodes[1:-1], strict=True))
    assert len(lines) == 1
    assert "4 episodes (127 steps) intact and used, 1 more and " in lines[0]
    assert path.read_bytes() == damaged


def test_refusals(run: Path, goals: GoalLayout) -> None:
    path = run / "episodes.bin"
    whole = path.read_bytes()
    with pytest.raises(LayoutError, match=r"its state has shape \(10,\), point_umaze has \(4,\)"):
        read_demonstrations(run, goal_layout("point_umaze"))
    for data, text in [
        (whole[:30], "header"),
        (whole[:40] + b"x" + whole[41:], "header"),
        (whole.replace(b"episodes 1\n", b"episodes 2\n", 1), "newer version"),
        (whole[: whole.index(b"]]]") + 20], "no episode in it is intact"),
    ]:
        path.write_bytes(data)
        with pytest.raises(IntegrityError, match=text):
            read_demonstrations(run, goals)
