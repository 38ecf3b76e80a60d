"""Data sets that Minari and robomimic made become episodes of ours; they carry no checksums, but errors are caught."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from embodied.errors import IntegrityError, LayoutError, UserError
from embodied.learning.datasets import probe
from embodied.learning.datasets.reader import read_demonstrations, read_recorded
from embodied.types import Episode
from robots.goal_layout import GoalLayout, goal_layout

Make = Callable[[GoalLayout, int, int], Episode]
STEPS = (12, 30, 30, 5)


@pytest.fixture(scope="module")
def originals(goals: GoalLayout, plain_episode: Make) -> list[Episode]:
    return [plain_episode(goals, steps, 50 + number) for number, steps in enumerate(STEPS)]


def minari_file(folder: Path, goals: GoalLayout, episodes: list[Episode], env_id: str = "FetchPush-v4") -> Path:
    """As Minari 0.5.4 writes it: float64, chunked, one row of infos more than steps."""
    folder.mkdir(parents=True)
    (folder / "metadata.json").write_text(
        json.dumps({"total_episodes": len(episodes), "env_spec": json.dumps({"id": env_id})})
    )
    with h5py.File(folder / "main_data.hdf5", "a", track_order=True) as file:
        for number, episode in enumerate(episodes):
            group = file.create_group(f"episode_{number}")
            group.attrs.update({"id": number, "seed": 7 + number, "total_steps": len(episode)})
            for key, value in goals.to_goal_dict(episode).items():
                group.create_dataset(
                    f"observations/{key}", data=value.astype(float), chunks=True, maxshape=(None, value.shape[1])
                )
            group["actions"], group["rewards"] = episode.action, episode.reward.astype(float)
            group["terminations"], group["truncations"] = episode.terminated, episode.truncated
            group["infos/is_success"] = np.zeros(len(episode) + 1)
    return folder / "main_data.hdf5"


def robomimic_file(path: Path, goals: GoalLayout, episodes: list[Episode], followed: bool = True) -> Path:
    """As robomimic's own scripts write it: float64, compressed, whole numbers for `dones`."""
    with h5py.File(path, "w") as file:
        data = file.create_group("data")
        data.attrs["env_args"] = json.dumps({"env_name": "FetchPush-v1", "type": 2, "env_kwargs": {}})
        for number, episode in enumerate(episodes):
            group = data.create_group(f"demo_{number}")
            group.attrs["num_samples"] = len(episode)
            for key, value in goals.to_goal_dict(episode).items():
                group.create_dataset(f"obs/{key}", data=value[:-1].astype(float), compression="gzip")
                if followed:
                    group[f"next_obs/{key}"] = value[1:].astype(float)
            group["actions"], group["rewards"] = episode.action.astype(float), episode.reward
            group["dones"] = episode.truncated.astype(int)
            group["states"] = np.zeros((len(episode), 40))
        file["mask/train"] = np.array(["demo_0"], dtype="S")
    return path


@pytest.mark.parametrize("kind", ["minari", "robomimic"])
def test_theirs_become_ours(
    kind: str, tmp_path: Path, goals: GoalLayout, originals: list[Episode], equal: Callable[[Episode, Episode], bool]
) -> None:
    if kind == "minari":
        minari_file(tmp_path / "set" / "data", goals, originals)
        path = tmp_path / "set"
    else:
        path = robomimic_file(tmp_path / "set.hdf5", goals, originals)
    lines: list[str] = []
    found = list(read_recorded(path, goals, lines.append))
    assert all(equal(item.episode, episode) for item, episode in zip(found, originals, strict=True))
    assert [item.seed for item in found] == ([7, 8, 9, 10] if kind == "minari" else [None] * 4)
    assert not any(item.exact for item in found)
    assert lines == []


def test_without_next_obs_the_last_action_is_left_out(
    tmp_path: Path, goals: GoalLayout, originals: list[Episode]
) -> None:
    path = robomimic_file(tmp_path / "set.hdf5", goals, originals, followed=False)
    found = list(read_demonstrations(path, goals))
    assert [len(item) for item in found] == [steps - 1 for steps in STEPS]
    assert np.array_equal(found[0].state, originals[0].state[:-1])
    assert np.array_equal(found[0].action, originals[0].action[:-1])
    assert found[0].truncated.tolist() == [False] * (STEPS[0] - 2) + [True]


def test_what_is_not_the_tasks_own_is_said(tmp_path: Path, goals: GoalLayout, originals: list[Episode]) -> None:
    path = minari_file(tmp_path / "data", goals, originals, env_id="FetchPushDense-v2")
    with h5py.File(path, "r+") as file:
        file["episode_1/actions"][0, 0] = 1.5
        file["episode_1/rewards"][:3] = -0.3
    lines: list[str] = []
    found = list(read_demonstrations(path, goals, lines.append))
    total = sum(STEPS)
    assert lines == [
        f"{path}: 1 of {total} actions were clipped to the limits of fetch_push; "
        f"3 of {total} rewards are not those of fetch_push"
    ]
    assert found[1].action[0, 0] == 1.0
    assert found[1].reward[0] == np.float32(-0.3)


def test_another_environment_is_refused(tmp_path: Path, goals: GoalLayout, originals: list[Episode]) -> None:
    path = minari_file(tmp_path / "data", goals, originals)
    with pytest.raises(UserError, match=r"recorded on FetchPush-v4, the task fetch_pick_place is FetchPickAndPlace-v4"):
        read_demonstrations(path, goal_layout("fetch_pick_place"))
    path.with_name("metadata.json").unlink()
    with pytest.raises(LayoutError, match=r"shape \(25,\), fetch_reach has \(10,\) made of: grip_pos 3"):
        read_demonstrations(path, goal_layout("fetch_reach"))


def test_episodes_without_goals_are_refused(tmp_path: Path, goals: GoalLayout) -> None:
    with h5py.File(tmp_path / "lift.hdf5", "w") as file:
        group = file.create_group("data/demo_0")
        group["obs/robot0_eef_pos"], group["actions"] = np.zeros((9, 3)), np.zeros((9, 7))
    with pytest.raises(
        UserError, match="not of a goal task: there is no obs/observation, but actions, obs/robot0_eef_pos"
    ):
        read_demonstrations(tmp_path / "lift.hdf5", goals)


@pytest.mark.parametrize(
    "damage",
    [
        lambda group: group.__delitem__("rewards"),
        lambda group: group["rewards"].__setitem__(0, np.nan),
        lambda group: group["observations/achieved_goal"].resize(3, axis=0),
    ],
    ids=["an array is missing", "a number is none", "rows are missing"],
)
def test_an_episode_that_is_none_is_cut_off(
    damage: Callable[[Any], None], tmp_path: Path, goals: GoalLayout, originals: list[Episode]
) -> None:
    path = minari_file(tmp_path / "data", goals, originals)
    with h5py.File(path, "r+") as file:
        damage(file["episode_2"])
    lines: list[str] = []
    found = list(read_demonstrations(path, goals, lines.append))
    assert [len(item) for item in found] == [12, 30, 5]
    assert lines == [f"{path}: it is damaged: 3 episodes (47 steps) intact and used, 1 episode cut off"]


def test_fewer_episodes_than_minari_counted(tmp_path: Path, goals: GoalLayout, originals: list[Episode]) -> None:
    path = minari_file(tmp_path / "data", goals, originals)
    with h5py.File(path, "r+") as file:
        del file["episode_3"]
    lines: list[str] = []
    assert len(list(read_demonstrations(path, goals, lines.append))) == 3
    assert "1 episode cut off" in lines[0]


@pytest.mark.parametrize("kind", ["minari", "robomimic"])
def test_theirs_cut_at_any_byte(kind: str, tmp_path: Path, goals: GoalLayout, plain_episode: Make) -> None:
    make = minari_file if kind == "minari" else robomimic_file
    episodes = [plain_episode(goals, 30, seed) for seed in range(12)]
    path = make(tmp_path / ("data" if kind == "minari" else "set.hdf5"), goals, episodes)
    whole = path.read_bytes()
    expected = [item.state.tobytes() for item in read_demonstrations(path, goals)]
    rng, counts = random.Random(6), []
    for size in [*(rng.randrange(len(whole)) for _ in range(12)), len(whole) - 1]:
        path.write_bytes(whole[:size])
        lines: list[str] = []
        try:
            found = [item.state.tobytes() for item in read_demonstrations(path, goals, lines.append)]
        except UserError as error:
            counts.append(0)
            lines.append(str(error))
        else:
            assert [item for item in expected if item in found] == found, "an episode that was never recorded"
            counts.append(len(found))
        assert len(lines) == 1
        assert "\n" not in lines[0]
    if kind == "robomimic":
        # Minari's table of episodes lies at the end, where the first cut takes it.
        assert len(set(counts)) > 3
        assert max(counts) >= len(expected) - 1


@pytest.mark.parametrize("kind", ["minari", "robomimic"])
def test_theirs_with_a_flipped_bit(kind: str, tmp_path: Path, goals: GoalLayout, originals: list[Episode]) -> None:
    """In numbers it cannot be seen; in the file's structure it is one line."""
    make = minari_file if kind == "minari" else robomimic_file
    path = make(tmp_path / ("data" if kind == "minari" else "set.hdf5"), goals, originals)
    whole = path.read_bytes()
    rng, told = random.Random(7), 0
    for _ in range(15):
        bit = rng.randrange(8 * min(len(whole), 16_384))
        damaged = bytearray(whole)
        damaged[bit // 8] ^= 1 << bit % 8
        path.write_bytes(damaged)
        lines: list[str] = []
        try:
            list(read_demonstrations(path, goals, lines.append))
        except UserError as error:
            lines.append(str(error))
        assert len(lines) <= 1
        assert all("\n" not in line for line in lines)
        told += len(lines)
    assert told > 0


@pytest.mark.parametrize(("steps", "kept"), [(["listed", "first"], 1), (["listed"], 0), ([], 0)])
def test_a_file_that_hdf5_does_not_get_through(
    steps: list[str], kept: int, tmp_path: Path, goals: GoalLayout, originals: list[Episode], monkeypatch: Any
) -> None:
    """A program that stops in the middle stands for the library, which can run for ever on a damaged file."""
    path = minari_file(tmp_path / "data", goals, originals[:2])
    said = {
        "listed": {"layout": "minari", "env_id": None, "listed": [0, 1]},
        "first": {"episode": 0, "problem": None, "lacking": False},
    }
    stuck = tmp_path / "python"
    stuck.write_text(
        "#!/bin/sh\n" + "".join(f"echo '{json.dumps(said[step])}'\n" for step in steps) + "exec sleep 60\n"
    )
    stuck.chmod(0o755)
    monkeypatch.setattr(probe, "PATIENCE_S", 0.5)
    monkeypatch.setattr("sys.executable", str(stuck))
    lines: list[str] = []
    if kept:
        assert len(list(read_demonstrations(path, goals, lines.append))) == kept
        assert lines == [f"{path}: it is damaged: 1 episode (12 steps) intact and used, 1 episode cut off"]
    else:
        with pytest.raises(IntegrityError, match=r"main_data\.hdf5: it is damaged.*copy it again"):
            read_demonstrations(path, goals)


def test_minari_reads_ours_and_ours_is_read_from_minari(
    tmp_path: Path, goals: GoalLayout, originals: list[Episode], monkeypatch: pytest.MonkeyPatch, equal: Any, write: Any
) -> None:
    minari = pytest.importorskip("minari", reason="pip install minari")
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    write(tmp_path, "minari")
    (tmp_path / "set").rename(tmp_path / "set-v0")
    theirs = minari.load_dataset("set-v0")
    assert (theirs.total_episodes, theirs.env_spec.id) == (6, "FetchPush-v4")
    episodes = list(read_demonstrations(tmp_path / "set-v0", goals))
    for item, episode in zip(theirs, episodes, strict=True):
        assert all(np.array_equal(item.observations[k], v) for k, v in goals.to_goal_dict(episode).items())
        assert np.array_equal(item.actions, episode.action)
        assert np.array_equal(item.terminations, episode.terminated)
        assert np.array_equal(item.truncations, episode.truncated)
    buffers = [
        minari.data_collector.EpisodeBuffer(
            observations={k: v.astype(float) for k, v in goals.to_goal_dict(episode).items()},
            actions=episode.action, rewards=list(map(float, episode.reward)),
            terminations=list(episode.terminated), truncations=list(episode.truncated), infos={},
        )
        for episode in originals
    ]  # fmt: skip
    made = minari.create_dataset_from_buffers("theirs-v0", buffers, env="FetchPush-v4")
    back = list(read_demonstrations(Path(made.storage.data_path), goals))
    assert all(equal(*pair) for pair in zip(back, originals, strict=True))


def test_robomimic_reads_ours(write: Any, tmp_path: Path, goals: GoalLayout, episodes: list[Episode]) -> None:
    dataset = pytest.importorskip("robomimic.utils.dataset", reason="pip install robomimic")
    from robomimic.utils import file_utils, obs_utils

    keys = ("observation", "achieved_goal", "desired_goal")
    obs_utils.initialize_obs_utils_with_obs_specs({"obs": {"low_dim": list(keys)}})
    path = str(write(tmp_path, "robomimic"))
    theirs = dataset.SequenceDataset(path, keys, ("actions", "rewards", "dones"))
    assert len(theirs) == sum(map(len, episodes))
    assert file_utils.get_env_metadata_from_dataset(path)["env_name"] == "FetchPush-v4"
    whole = theirs.get_trajectory_at_index(3)
    numbers = goals.to_goal_dict(episodes[3])
    assert all(np.array_equal(whole["obs"][key], numbers[key][:-1]) for key in keys)
    assert all(np.array_equal(whole["next_obs"][key], numbers[key][1:]) for key in keys)
    assert np.array_equal(whole["actions"], episodes[3].action)
