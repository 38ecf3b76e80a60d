"""A bench that is killed loses the run under way only, and that from its last checkpoint on."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

WORDS = ("bench", "suite=learning", "task=fetch_reach", "preset=debug", "systems=ours", "seeds=2", "total_steps=900")
SAME = ("system", "seed", "env_steps", "updates", "success_rate", "stopped_at")


def rows(folder: Path) -> list[list[Any]]:
    lines = (folder / "learning.jsonl").read_text().splitlines()
    return [[row.get(name) for name in SAME] for row in map(json.loads, lines)]


@pytest.mark.slow
def test_kill_and_resume(cli: Callable[..., Any], tmp_path: Path) -> None:
    assert cli(*WORDS, "out=whole").code == 0
    running = subprocess.Popen(
        [Path(sys.executable).with_name("embodied"), *WORDS, "out=killed"], cwd=tmp_path, stderr=subprocess.DEVNULL
    )
    second = tmp_path / "killed" / "runs" / "ours-fetch_reach-1" / "checkpoints"
    deadline = time.monotonic() + 300
    while not second.is_dir() or not any(second.iterdir()):
        assert time.monotonic() < deadline
        assert running.poll() is None
        time.sleep(0.01)
    running.kill()
    running.wait()
    assert rows(tmp_path / "killed") == rows(tmp_path / "whole")[:2]
    resumed = cli(*WORDS, "out=killed", "resume=auto")
    assert resumed.code == 0, resumed.err
    assert resumed.err.count("begins") == 1
    assert rows(tmp_path / "killed") == rows(tmp_path / "whole")
