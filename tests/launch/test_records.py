"""Records of a training from the command line: others' layouts out, others' episodes in, nothing overwritten."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import pytest

DEBUG = ("train", "task=fetch_push", "preset=debug", "total_steps=200", "loop.eval_every=200")


@pytest.mark.parametrize("name", ["data.hdf5", "push-v0"])
def test_a_record_is_written_and_trains(cli_here: Callable[..., Any], tmp_path: Path, name: str) -> None:
    ended = cli_here(*DEBUG, "run_dir=first", f"record=first/{name}")
    assert ended.code == 0, ended.err
    file = tmp_path / "first" / name
    file = file if file.is_file() else file / "data" / "main_data.hdf5"
    with h5py.File(file) as data:
        group = data["data"]["demo_0"] if "data" in data else data["episode_0"]
        assert len(group["actions"]) == 50
    later = cli_here(*DEBUG, "run_dir=second", f"demonstrations=first/{name}")
    assert later.code == 0, later.err
    # Four episodes of the run and four demonstrations.
    sizes = [(tmp_path / run / "episodes.bin").stat().st_size for run in ("first", "second")]
    assert sizes[1] > 1.9 * sizes[0]


def test_a_resumed_run_goes_on_with_its_record(cli_here: Callable[..., Any], tmp_path: Path) -> None:
    words = [*DEBUG, "run_dir=run", "record=run/data.hdf5"]
    assert cli_here(*words).code == 0
    ended = cli_here(*words[:3], "total_steps=400", *words[4:], "resume=auto")
    assert ended.code == 0, ended.err
    with h5py.File(tmp_path / "run" / "data.hdf5") as data:
        assert len(data["data"]) == 8


@pytest.mark.parametrize(
    ("words", "mention"),
    [
        (["record=taken.hdf5"], "is there already"),
        (["record=set.hdf5", "record_layout=minari"], "folder"),
        (["record_layout=zarr"], "robomimic"),
        (["demonstrations=nowhere.hdf5"], "nowhere.hdf5"),
        (["demonstrations=taken.hdf5"], "taken.hdf5"),
        (["replay.capacity=900000000000"], "at most replay.capacity="),
        (["replay.capacity=10"], "one episode takes 51 rows"),
    ],
)
def test_mistakes(cli_here: Callable[..., Any], tmp_path: Path, words: list[str], mention: str) -> None:
    (tmp_path / "taken.hdf5").write_bytes(b"something else")
    before = sorted(tmp_path.iterdir())
    ended = cli_here(*DEBUG, "run_dir=run", *words)
    assert (ended.code, ended.out) == (2, "")
    assert len(ended.err.strip().splitlines()) == 1, ended.err
    assert mention in ended.err
    assert sorted(tmp_path.iterdir()) == before


def test_a_resumed_run_mixes_no_records_and_may_record_elsewhere(cli_here: Callable[..., Any], tmp_path: Path) -> None:
    run = [*DEBUG, "run_dir=run", "record=run/data.hdf5"]
    assert cli_here(*run).code == 0
    assert cli_here(*DEBUG, "seed=1", "run_dir=other", "record=other/data.hdf5").code == 0
    theirs = (tmp_path / "other" / "data.hdf5").read_bytes()
    (tmp_path / "run" / "data.hdf5").write_bytes(theirs)
    longer = [*run[:3], "total_steps=400", *run[4:6]]
    mixed = cli_here(*longer, "record=run/data.hdf5", "resume=auto")
    assert mixed.code == 2, mixed
    assert "another run's episodes" in mixed.err
    assert (tmp_path / "run" / "data.hdf5").read_bytes() == theirs
    elsewhere = cli_here(*longer, "record=run/new.hdf5", "resume=auto")
    assert elsewhere.code == 0, elsewhere.err
    with h5py.File(tmp_path / "run" / "new.hdf5") as data:
        assert len(data["data"]) == 4


def test_a_refused_resume_changes_no_file(cli_here: Callable[..., Any], tmp_path: Path) -> None:
    assert cli_here(*DEBUG, "run_dir=run").code == 0
    before = {path: path.read_bytes() for path in (tmp_path / "run").rglob("*") if path.is_file()}
    ended = cli_here(*DEBUG, "run_dir=run", "sac.actor_lr=0.5", "resume=auto")
    assert ended.code == 2
    assert "begun with sac.actor_lr=" in ended.err
    assert {path: path.read_bytes() for path in (tmp_path / "run").rglob("*") if path.is_file()} == before
