"""A disk that fills up costs one line; the last good state stays, and the run goes on when there is room again."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

WORDS = ("train", "task=fetch_reach", "preset=debug", "loop.checkpoint_every=50", "total_steps=900")


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of its own, in memory."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=160k", "tmpfs", str(disk)], capture_output=True)
    if mounted.returncode:
        pytest.skip("mounting a tmpfs needs privileges")
    yield disk
    subprocess.run(["umount", "-l", str(disk)], check=True)


def rows(folder: Path) -> list[dict[str, Any]]:
    timeless = {"wall_s", "cpu_s", "cpu_train_s", "steps_per_s"}
    lines = (folder / "metrics.jsonl").read_text().splitlines()
    return [{k: v for k, v in json.loads(line).items() if k not in timeless} for line in lines]


def test_a_full_disk(cli: Callable[..., Any], small_disk: Path, tmp_path: Path) -> None:
    run_dir = small_disk / "run"
    ended = cli(*WORDS, f"run_dir={run_dir}")
    assert ended.code == 2, ended
    assert ended.out == ""
    assert "Traceback" not in ended.err
    told = ended.err.splitlines()[-1]
    assert told.startswith("embodied train: the disk is full")
    assert "saved up to step" in told
    assert "resume=auto" in told
    again = cli(*WORDS, f"run_dir={run_dir}", "resume=auto")
    assert again.code == 2, again
    assert "the disk is full" in again.err.splitlines()[-1]
    subprocess.run(["mount", "-o", "remount,size=50m", str(small_disk)], check=True)
    resumed = cli(*WORDS, f"run_dir={run_dir}", "resume=auto")
    assert resumed.code == 0, resumed.err
    assert "going on from step" in resumed.err
    undisturbed = cli(*WORDS, f"run_dir={tmp_path / 'undisturbed'}")
    assert undisturbed.code == 0
    assert rows(run_dir) == rows(tmp_path / "undisturbed")
