"""What is recorded comes back bit for bit, and lies in the file where other tools look for it."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import h5py
import numpy as np
import pytest

from embodied.errors import IntegrityError, LayoutError, UserError
from embodied.learning.datasets import seal
from embodied.learning.datasets.reader import read_demonstrations, read_recorded
from embodied.learning.datasets.recorder import open_recorder
from embodied.types import Episode
from robots.goal_layout import GoalLayout, goal_layout

LAYOUTS = ("minari", "robomimic")
Equal = Callable[[Episode, Episode], bool]
Make = Callable[[GoalLayout, int, int], Episode]


def test_every_field_comes_back_bit_for_bit(
    recorded: Path, goals: GoalLayout, episodes: list[Episode], equal: Equal
) -> None:
    lines: list[str] = []
    found = list(read_recorded(recorded, goals, lines.append))
    assert [item.seed for item in found] == [100, 101, 102, 103, 104, 105]
    assert all(item.exact for item in found)
    assert all(equal(item.episode, episode) for item, episode in zip(found, episodes, strict=True))
    assert lines == []


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("task", ["fetch_reach", "point_umaze", "gym:FetchReach-v4", "tabletop"])
def test_every_kind_of_task_comes_back(task: str, layout: str, tmp_path: Path, odd_episode: Make, equal: Equal) -> None:
    goals = goal_layout(task)
    episodes = [odd_episode(goals, steps, steps) for steps in (9, 30)]
    path = tmp_path / ("set" if layout == "minari" else "set.hdf5")
    with open_recorder(path, layout, goals) as recorder:
        for episode in episodes:
            recorder.add(episode)
    assert all(equal(*pair) for pair in zip(read_demonstrations(path, goals), episodes, strict=True))


def test_what_the_task_would_say_anyway_is_not_kept_twice(
    tmp_path: Path, goals: GoalLayout, plain_episode: Make
) -> None:
    with open_recorder(tmp_path / "set.hdf5", "robomimic", goals) as recorder:
        recorder.add(plain_episode(goals, 50, 0))
    with h5py.File(recorder.path) as file:
        own = file["data/demo_0/embodied"]
        assert not set(own) & {"state", "entities", "achieved", "goal_value"}
        assert own["interval"].shape == (1, 2, 4)


def test_minari_layout(write: Callable[..., Path], tmp_path: Path, goals: GoalLayout, episodes: list[Episode]) -> None:
    path = write(tmp_path, "minari")
    assert path == tmp_path / "set" / "data" / "main_data.hdf5"
    told = json.loads(path.with_name("metadata.json").read_text())
    steps = sum(map(len, episodes))
    assert (told["total_episodes"], told["total_steps"], told["data_format"]) == (6, steps, "hdf5")
    assert told["dataset_id"] == "set-v0"
    assert json.loads(told["env_spec"])["id"] == "FetchPush-v4"
    spaces = json.loads(told["observation_space"])["subspaces"]
    assert {key: space["shape"] for key, space in spaces.items()} == {
        "observation": [25], "achieved_goal": [3], "desired_goal": [3],
    }  # fmt: skip
    with h5py.File(path) as file:
        assert set(file) == {f"episode_{number}" for number in range(6)}
        group, episode = file["episode_4"], episodes[4]
        assert dict(group.attrs) == {"id": 4, "total_steps": 20, "seed": 104}
        assert {name: len(group["observations"][name]) for name in group["observations"]} == dict.fromkeys(spaces, 21)
        assert np.array_equal(group["actions"], episode.action)
        assert np.array_equal(group["rewards"], episode.reward)
        assert np.array_equal(group["terminations"], episode.terminated)
        assert np.array_equal(group["truncations"], episode.truncated)
        assert not np.array_equal(episode.terminated, episode.truncated)
        for key, value in goals.to_goal_dict(episode).items():
            assert np.array_equal(group["observations"][key], value)


def test_robomimic_layout(
    write: Callable[..., Path], tmp_path: Path, goals: GoalLayout, episodes: list[Episode]
) -> None:
    with h5py.File(write(tmp_path, "robomimic")) as file:
        data = file["data"]
        assert set(data) == {f"demo_{number}" for number in range(6)}
        assert data.attrs["total"] == sum(map(len, episodes))
        assert json.loads(data.attrs["env_args"])["env_name"] == "FetchPush-v4"
        group, episode = data["demo_2"], episodes[2]
        assert group.attrs["num_samples"] == len(episode) == 7
        for key, value in goals.to_goal_dict(episode).items():
            assert np.array_equal(group["obs"][key], value[:-1])
            assert np.array_equal(group["next_obs"][key], value[1:])
        assert np.array_equal(group["dones"], [0, 0, 0, 0, 0, 0, 1])


@pytest.mark.parametrize("layout", LAYOUTS)
def test_going_on_after_a_resume_records_nothing_twice(
    layout: str, write: Callable[..., Path], tmp_path: Path, goals: GoalLayout, episodes: list[Episode], equal: Equal
) -> None:
    write(tmp_path, layout)
    path = tmp_path / ("set" if layout == "minari" else "set.hdf5")
    with open_recorder(path, layout, goals, resume_at=6) as recorder:
        recorder.add(episodes[2])
        assert recorder.episodes == 7
        recorder.truncate_to(3)
        assert recorder.episodes == 3
        recorder.add(episodes[5], seed=7)
    found = list(read_recorded(path, goals))
    expected = [*episodes[:3], episodes[5]]
    assert all(equal(item.episode, episode) for item, episode in zip(found, expected, strict=True))
    assert [item.seed for item in found] == [100, 101, 102, 7]
    if layout == "minari":
        told = json.loads((path / "data" / "metadata.json").read_text())
        assert (told["total_episodes"], told["total_steps"]) == (4, sum(map(len, expected)))
    with open_recorder(path, layout, goals, resume_at=0) as recorder:
        assert recorder.episodes == 0
        recorder.add(episodes[0])
    assert len(list(read_demonstrations(path, goals))) == 1


def test_a_recorder_refuses_what_would_overwrite_or_mix(
    tmp_path: Path, goals: GoalLayout, write: Callable[..., Path]
) -> None:
    path = write(tmp_path, "robomimic")
    with pytest.raises(UserError, match="is there already"):
        open_recorder(path, "robomimic", goals)
    with pytest.raises(UserError, match="2 of the first 8 episodes are gone"):
        open_recorder(path, "robomimic", goals, resume_at=8)
    with pytest.raises(UserError, match="is gone"):
        open_recorder(tmp_path / "other.hdf5", "robomimic", goals, resume_at=3)
    with pytest.raises(LayoutError, match="recorded on fetch_push"):
        open_recorder(path, "robomimic", goal_layout("fetch_reach"), resume_at=3)
    with pytest.raises(UserError, match=r"ends in \.hdf5"):
        open_recorder(tmp_path / "demos", "robomimic", goals)
    with pytest.raises(UserError, match="folder"):
        open_recorder(tmp_path / "demos.hdf5", "minari", goals)
    with pytest.raises(UserError, match="minari, robomimic"):
        open_recorder(tmp_path / "demos", "rosbag", goals)
    with open_recorder(path, "robomimic", goals, resume_at=6), pytest.raises(UserError, match="another process"):
        open_recorder(path, "robomimic", goals, resume_at=6)


def test_the_wrong_task_is_refused_with_its_terms(recorded: Path) -> None:
    with pytest.raises(
        LayoutError, match=r"recorded on fetch_push .*object_pos 3.*not on fetch_reach .*grip_pos 3"
    ) as e:
        read_demonstrations(recorded, goal_layout("fetch_reach"))
    assert "\n" not in str(e.value)
    with pytest.raises(LayoutError, match="not on fetch_pick_place"):
        read_demonstrations(recorded, goal_layout("fetch_pick_place"))


def test_the_same_environment_under_another_name_is_read_from_the_goal_dictionaries(
    recorded: Path, goals: GoalLayout, episodes: list[Episode]
) -> None:
    foreign = goal_layout("gym:FetchPush-v4")
    lines: list[str] = []
    found = list(read_recorded(recorded, foreign, lines.append))
    assert not any(item.exact for item in found)
    for item, episode in zip(found, episodes, strict=True):
        numbers, original = foreign.to_goal_dict(item.episode), goals.to_goal_dict(episode)
        assert all(np.array_equal(numbers[key], original[key]) for key in numbers)
    assert len(lines) == 1
    assert "clipped" in lines[0]


def test_a_newer_schema_is_refused(
    tmp_path: Path, goals: GoalLayout, episodes: list[Episode], monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(seal, "SCHEMA", 2)
        patch.setattr("embodied.learning.datasets.terms.SCHEMA", 2)
        with open_recorder(tmp_path / "set.hdf5", "robomimic", goals) as recorder:
            recorder.add(episodes[0])
    with pytest.raises(IntegrityError, match=r"set\.hdf5: it has schema 2, this version reads up to 1: update"):
        read_demonstrations(tmp_path / "set.hdf5", goals)
    whole = recorder.path.read_bytes()
    recorder.path.write_bytes(whole[: len(whole) - 100])
    with pytest.raises(IntegrityError, match="schema 2"):
        read_demonstrations(tmp_path / "set.hdf5", goals)


def test_neither_layout(tmp_path: Path, goals: GoalLayout) -> None:
    path = tmp_path / "other.hdf5"
    with h5py.File(path, "w") as file:
        file["frames"] = np.zeros(3)
    with pytest.raises(UserError, match=r"no known layout: minari \(.*\); robomimic \(.*\)"):
        read_demonstrations(path, goals)
    for text in ("", "not a data set"):
        path.write_text(text)
        with pytest.raises(IntegrityError, match="no HDF5 file"):
            read_demonstrations(path, goals)
    with pytest.raises(UserError, match="no such file"):
        read_demonstrations(tmp_path / "missing", goals)
    with pytest.raises(UserError, match="holds no data set"):
        read_demonstrations(tmp_path, goals)


def test_an_episode_that_was_deleted_on_purpose_stays_deleted(
    recorded: Path, tmp_path: Path, goals: GoalLayout, episodes: list[Episode], equal: Equal
) -> None:
    copy = tmp_path / recorded.name
    shutil.copy(recorded, copy)
    with h5py.File(copy, "r+") as file:
        del (file if "episode_0" in file else file["data"])["episode_1" if "episode_1" in file else "demo_1"]
        file.require_group("mask" if "data" in file else "episode_0/notes")
    lines: list[str] = []
    found = list(read_demonstrations(copy, goals, lines.append))
    assert all(equal(*pair) for pair in zip(found, [episodes[0], *episodes[2:]], strict=True))
    assert lines == []


def test_a_copy_that_was_packed_anew_is_read(
    recorded: Path, tmp_path: Path, goals: GoalLayout, episodes: list[Episode], equal: Equal
) -> None:
    """As h5repack does: the numbers are the same and lie elsewhere."""
    path = tmp_path / "packed.hdf5"
    with h5py.File(recorded) as old, h5py.File(path, "w") as new:
        new.attrs.update(old.attrs)

        def pack(name: str, item: h5py.Group | h5py.Dataset) -> None:
            if isinstance(item, h5py.Dataset):
                new.create_dataset(name, data=item[()], compression="gzip" if item.size else None)

        old.visititems(pack)
    lines: list[str] = []
    found = list(read_demonstrations(path, goals, lines.append))
    assert all(equal(*pair) for pair in zip(found, episodes, strict=True))
    assert lines == []


def test_numbers_that_someone_replaced_are_not_taken_for_ours(
    recorded: Path, tmp_path: Path, goals: GoalLayout, episodes: list[Episode], equal: Equal
) -> None:
    path = tmp_path / "edited.hdf5"
    shutil.copy(recorded, path)
    with h5py.File(path, "r+") as file:
        for number, change in enumerate(("in place", "anew")):
            group = file[f"episode_{number}" if "episode_0" in file else f"data/demo_{number}"]
            if change == "in place":
                group["rewards"][0] = 5.0
            else:
                numbers = group["rewards"][()] + 1
                del group["rewards"]
                group["rewards"] = numbers
    lines: list[str] = []
    found = list(read_demonstrations(path, goals, lines.append))
    assert all(equal(*pair) for pair in zip(found, episodes[2:], strict=True))
    assert len(lines) == 1
    assert "2 episodes (100 steps) cut off" in lines[0]


def test_h5py_is_imported_late() -> None:
    code = "import sys; from embodied.learning.datasets import reader, recorder; print('h5py' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"
