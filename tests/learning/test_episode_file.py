"""The append-only file: exact, cut at the length that a checkpoint knows, and never silently wrong."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest

from embodied.errors import IntegrityError, UserError
from embodied.learning.episode_file import Column, EpisodeFile, columns_of
from embodied.learning.replay import EpisodeReplay
from embodied.spec import EnvSpec
from embodied.types import Episode

Make = Callable[..., Episode]


@pytest.fixture
def columns(spec: EnvSpec) -> tuple[Column, ...]:
    return columns_of(EpisodeReplay(spec, 50).rows)


@pytest.fixture
def written(tmp_path: Path, columns: tuple[Column, ...], make_episode: Make) -> tuple[Path, list[Episode], list[int]]:
    """A file of six episodes, these, and the length after each."""
    path, ends = tmp_path / "run" / "episodes.bin", []
    file = EpisodeFile(path, columns)
    episodes = [make_episode(number, 1 + number % 5) for number in range(6)]
    for episode in episodes:
        file.append(episode)
        ends.append(file.length)
    file.sync()
    file.close()
    return path, episodes, ends


def same(one: Episode, other: Episode) -> bool:
    return all(np.array_equal(getattr(one, field.name), getattr(other, field.name)) for field in fields(Episode))


def test_episodes_come_back_bit_for_bit(written: tuple, columns: tuple[Column, ...]) -> None:
    path, episodes, ends = written
    file = EpisodeFile(path, columns, ends[-1])
    assert all(same(one, other) for one, other in zip(file, episodes, strict=True))
    assert file.length == path.stat().st_size


def test_what_lies_behind_the_known_length_is_cut_off_and_written_again(
    written: tuple, columns: tuple[Column, ...], make_episode: Make
) -> None:
    path, episodes, ends = written
    with path.open("ab") as raw:
        raw.write(b"half a record")
    file = EpisodeFile(path, columns, ends[2])
    assert path.stat().st_size == ends[2]
    fresh = make_episode(9, 4)
    file.append(fresh)
    assert all(same(a, b) for a, b in zip(EpisodeFile(path, columns, file.length), [*episodes[:3], fresh], strict=True))


def test_every_cut_and_many_flips_are_noticed(written: tuple, columns: tuple[Column, ...]) -> None:
    path, episodes, ends = written
    whole = path.read_bytes()
    rng = np.random.default_rng(0)
    for cut in rng.integers(0, len(whole), 40):
        path.write_bytes(whole[:cut])
        with pytest.raises(IntegrityError) as caught:
            list(EpisodeFile(path, columns, ends[-1]))
        assert "\n" not in str(caught.value)
        assert path.read_bytes() == whole[:cut], "a refused file is left as it is"
    for position in rng.integers(0, len(whole), 200):
        data = bytearray(whole)
        data[position] ^= 1 << int(rng.integers(8))
        path.write_bytes(bytes(data))
        with pytest.raises((IntegrityError, UserError)):
            list(EpisodeFile(path, columns, ends[-1]))


def test_damage_in_episodes_that_are_not_read_costs_nothing(written: tuple, columns: tuple[Column, ...]) -> None:
    path, episodes, ends = written
    data = bytearray(path.read_bytes())
    data[ends[0] - 1] ^= 1
    path.write_bytes(bytes(data))
    file = EpisodeFile(path, columns, ends[-1])
    assert same(file.read(file.places[-1]), episodes[-1])
    with pytest.raises(IntegrityError, match="checksum"):
        file.read(file.places[0])


def test_other_tasks_newer_versions_and_foreign_files(
    written: tuple, columns: tuple[Column, ...], tmp_path: Path
) -> None:
    path, _, ends = written
    with pytest.raises(UserError, match="another task"):
        EpisodeFile(path, (*columns[:-1], Column(columns[-1].name, "<f4", (7,))), ends[-1])
    path.write_bytes(path.read_bytes().replace(b"embodied-episodes 1\n", b"embodied-episodes 2\n"))
    with pytest.raises(IntegrityError, match="newer version"):
        EpisodeFile(path, columns, ends[-1])
    path.write_bytes(b"x" * ends[-1])
    with pytest.raises(IntegrityError, match="no file of episodes"):
        EpisodeFile(path, columns, ends[-1])
    with pytest.raises(IntegrityError, match="missing"):
        EpisodeFile(tmp_path / "nothing.bin", columns, 10)


def test_a_full_disk_leaves_what_was_there(
    written: tuple, columns: tuple[Column, ...], make_episode: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, episodes, ends = written
    file = EpisodeFile(path, columns, ends[-1])
    real = os.pwrite

    def half(fd: int, data: memoryview, offset: int) -> int:
        if offset > ends[-1]:
            raise OSError(28, "No space left on device")
        return real(fd, data[:10], offset)

    monkeypatch.setattr(os, "pwrite", half)
    with pytest.raises(OSError, match="No space"):
        file.append(make_episode(7, 3))
    monkeypatch.undo()
    assert path.stat().st_size == ends[-1]
    file.append(make_episode(8, 2))
    assert len(list(EpisodeFile(path, columns, file.length))) == 7
