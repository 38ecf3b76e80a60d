"""A broken file gives its intact episodes and one line, or one line; never a traceback, never a wrong number."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from embodied.errors import IntegrityError, UserError
from embodied.learning.datasets.files import StagedFile
from embodied.learning.datasets.reader import read_demonstrations
from embodied.learning.datasets.recorder import open_recorder
from embodied.types import Episode
from robots.goal_layout import GoalLayout

LAYOUTS = ("minari", "robomimic")
POINTS = 40
Equal = Callable[[Episode, Episode], bool]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_file_cut_at_any_byte_gives_the_episodes_before_the_cut(
    layout: str, write: Callable[..., Path], tmp_path: Path, goals: GoalLayout, episodes: list[Episode], equal: Equal
) -> None:
    path = write(tmp_path, layout)
    whole = path.read_bytes()
    rng, counts, nothing = random.Random(3), [], []
    for size in sorted(rng.randrange(len(whole)) for _ in range(POINTS)):
        path.write_bytes(whole[:size])
        lines: list[str] = []
        try:
            found = list(read_demonstrations(path, goals, lines.append))
        except IntegrityError as error:
            nothing.append(str(error))
            continue
        assert all(equal(*pair) for pair in zip(found, episodes, strict=False))
        assert len(lines) == 1
        assert lines[0].startswith(f"{path}: it is damaged: {len(found)} episode")
        assert f"({sum(map(len, found))} steps) intact" in lines[0]
        assert f"{len(whole) - size:,} bytes are missing at its end" in lines[0]
        if layout == "minari" and len(found) < len(episodes):
            assert f"{len(episodes) - len(found)} episode" in lines[0].split("used, ")[1]
        counts.append(len(found))
        assert path.stat().st_size == size, "reading changed the file"
    assert counts == sorted(counts)
    assert len(counts) + len(nothing) == POINTS
    assert all(text.startswith(str(path)) and "\n" not in text for text in nothing)
    assert set(counts) >= {1, 2, 3, 4}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_flipped_bit_costs_at_most_the_episode_that_it_is_in(
    layout: str, write: Callable[..., Path], tmp_path: Path, goals: GoalLayout, episodes: list[Episode], equal: Equal
) -> None:
    path = write(tmp_path, layout)
    whole = path.read_bytes()
    rng, kept = random.Random(4), []
    for number in range(POINTS):
        # Half of them near the beginning, where the file's structure is.
        bit = rng.randrange(8 * (len(whole) if number % 2 else 4096))
        damaged = bytearray(whole)
        damaged[bit // 8] ^= 1 << bit % 8
        path.write_bytes(damaged)
        lines: list[str] = []
        found = list(read_demonstrations(path, goals, lines.append))
        places = [next(i for i, episode in enumerate(episodes) if equal(item, episode)) for item in found]
        assert places == sorted(set(places))
        assert len(places) >= len(episodes) - 1
        assert len(lines) == 1 or (lines == [] and len(found) == len(episodes))
        kept.append(len(found))
    assert set(kept) == {len(episodes) - 1, len(episodes)}


def test_resuming_a_damaged_recording_keeps_what_the_checkpoint_counts(
    write: Callable[..., Path], tmp_path: Path, goals: GoalLayout, episodes: list[Episode], equal: Equal
) -> None:
    path = write(tmp_path, "robomimic")
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) * 2 // 3])
    kept = len(list(read_demonstrations(path, goals, lambda line: None)))
    assert 0 < kept < len(episodes)
    with pytest.raises(UserError, match="of the first 6 episodes are gone"):
        open_recorder(path, "robomimic", goals, resume_at=6)
    assert path.stat().st_size == len(whole) * 2 // 3
    with open_recorder(path, "robomimic", goals, resume_at=kept) as recorder:
        for episode in episodes[kept:]:
            recorder.add(episode)
    lines: list[str] = []
    found = list(read_demonstrations(path, goals, lines.append))
    assert all(equal(*pair) for pair in zip(found, episodes, strict=True))
    assert lines == []
    assert [item.name for item in tmp_path.iterdir()] == [path.name]


def test_forgotten_episodes_are_not_found_in_a_broken_file(
    write: Callable[..., Path], tmp_path: Path, goals: GoalLayout, episodes: list[Episode], equal: Equal
) -> None:
    path = write(tmp_path, "robomimic")
    with open_recorder(path, "robomimic", goals, resume_at=2) as recorder:
        recorder.add(episodes[5])
    damaged = bytearray(path.read_bytes())
    damaged[48:96] = bytes(48)
    path.write_bytes(damaged)
    lines: list[str] = []
    found = list(read_demonstrations(path, goals, lines.append))
    assert all(equal(*pair) for pair in zip(found, [*episodes[:2], episodes[5]], strict=True))
    assert len(lines) == 1


def recording(script: str, layout: str, write: Callable[..., Path], folder: Path) -> tuple[Path, list[str]]:
    """Where a script that records goes to, and the command that starts it with its source, that path and the layout."""
    path, source = folder / ("set" if layout == "minari" else "set.hdf5"), folder / "source"
    source.mkdir()
    return path, [sys.executable, "-c", script, str(write(source, "robomimic")), str(path), layout]


RECORD_UNTIL_KILLED = """
import sys
from embodied.learning.datasets.reader import read_demonstrations
from embodied.learning.datasets.recorder import open_recorder
from robots.goal_layout import goal_layout
source, path, layout = sys.argv[1:]
goals = goal_layout("fetch_push")
episodes = list(read_demonstrations(source, goals))
recorder = open_recorder(path, layout, goals)
while True:
    recorder.add(episodes[recorder.episodes % len(episodes)])
    print(recorder.episodes, flush=True)
"""


@pytest.mark.parametrize("moment", [0, *(pytest.param(i, marks=pytest.mark.slow) for i in range(1, 20))])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_killed_while_recording(
    moment: int,
    layout: str,
    write: Callable[..., Path],
    tmp_path: Path,
    goals: GoalLayout,
    episodes: list[Episode],
    equal: Equal,
) -> None:
    path, command = recording(RECORD_UNTIL_KILLED, layout, write, tmp_path)
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        process.stdout.readline()
        time.sleep(random.Random(moment).uniform(0.05, 0.3))
        process.send_signal(signal.SIGKILL)
        told = 1 + len(process.stdout.read().splitlines())
    found = list(read_demonstrations(path, goals, lambda line: None))
    assert told <= len(found) <= told + 1
    assert all(equal(item, episodes[i % len(episodes)]) for i, item in enumerate(found))
    with open_recorder(path, layout, goals, resume_at=told - 1) as recorder:
        recorder.add(episodes[(told - 1) % len(episodes)])
    again = list(read_demonstrations(path, goals))
    assert len(again) == told
    assert all(equal(*pair) for pair in zip(again, found, strict=False))


RECORD_ON_A_FULL_DISK = """
import resource, sys
from embodied.errors import UserError
from embodied.learning.datasets.reader import read_demonstrations
from embodied.learning.datasets.recorder import open_recorder
from robots.goal_layout import goal_layout
source, path, layout = sys.argv[1:]
goals = goal_layout("fetch_push")
episodes = list(read_demonstrations(source, goals))
recorder = open_recorder(path, layout, goals)
resource.setrlimit(resource.RLIMIT_FSIZE, (60_000, resource.RLIM_INFINITY))
for attempt in range(2):
    try:
        while True:
            recorder.add(episodes[recorder.episodes % len(episodes)])
    except UserError as error:
        print(error)
recorder.close()
print(recorder.episodes)
"""


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_full_disk_ends_the_recording_in_one_line(
    layout: str, write: Callable[..., Path], tmp_path: Path, goals: GoalLayout, episodes: list[Episode], equal: Equal
) -> None:
    """The limit on a file's size stands for the disk: writing fails in the same place."""
    path, command = recording(RECORD_ON_A_FULL_DISK, layout, write, tmp_path)
    ended = subprocess.run(command, capture_output=True, text=True, check=True)
    first, second, count = ended.stdout.splitlines()
    assert ended.stderr == ""
    assert "File too large" in first
    assert f"ended after {count} episodes" in first
    assert second == first
    lines: list[str] = []
    found = list(read_demonstrations(path, goals, lines.append))
    assert len(found) == int(count) > 1
    assert all(equal(item, episodes[i % len(episodes)]) for i, item in enumerate(found))
    assert lines == []
    with open_recorder(path, layout, goals, resume_at=int(count)) as recorder:
        recorder.add(episodes[0])
    assert len(list(read_demonstrations(path, goals))) == int(count) + 1


def test_nothing_reaches_the_disk_before_commit_and_all_of_it_after(tmp_path: Path) -> None:
    """Against a plain file: the same writes, reads and truncations at random places."""
    rng = random.Random(5)
    plain, staged = (tmp_path / "plain").open("w+b"), StagedFile(tmp_path / "staged")
    for _ in range(300):
        at, data = rng.randrange(20_000), rng.randbytes(rng.randrange(1, 6_000))
        if rng.random() < 0.1:
            for file in (plain, staged):
                file.truncate(at)
        for file in (plain, staged):
            file.seek(at)
            file.write(data)
        at = rng.randrange(25_000)
        seen = []
        for file in (plain, staged):
            file.seek(at)
            seen.append(file.read(3_000))
        assert seen[0] == seen[1]
        plain.flush()
        if rng.random() < 0.2:
            staged.commit()
            assert (tmp_path / "staged").read_bytes() == (tmp_path / "plain").read_bytes()
    before = (tmp_path / "staged").read_bytes()
    staged.seek(0)
    staged.write(b"never")
    staged.close()
    plain.close()
    assert (tmp_path / "staged").read_bytes() == before


def test_what_does_not_fit_leaves_the_file_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"x" * 10_000)
    staged, really = StagedFile(path), os.pwrite

    def full(descriptor: int, data: bytes, offset: int) -> int:
        if offset > 12_000:
            raise OSError(28, "No space left on device")
        return really(descriptor, data[:1000], offset)

    monkeypatch.setattr(os, "pwrite", full)
    staged.write(b"y" * 20_000)
    with pytest.raises(OSError, match="No space"):
        staged.commit()
    assert path.read_bytes() == b"x" * 10_000
    monkeypatch.setattr(os, "pwrite", really)
    staged.commit()
    assert path.read_bytes() == b"y" * 20_000
    staged.close()
