"""After SIGKILL at any moment a resumed run equals the undisturbed one in every key but times and rates."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).with_name("kill_trainings.py")


def kill(tmp_path: Path, task: str, kills: int, seed: int) -> None:
    command = [sys.executable, str(SCRIPT), str(tmp_path), task, str(kills), str(seed)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=900)
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.startswith(f"{kills} kills")
    assert "Traceback" not in ended.stderr


def test_kills(tmp_path: Path) -> None:
    kill(tmp_path, "fetch_reach", 8, 0)


@pytest.mark.slow
def test_twenty_kills_of_fetch_push(tmp_path: Path) -> None:
    kill(tmp_path, "fetch_push", 20, 1)
