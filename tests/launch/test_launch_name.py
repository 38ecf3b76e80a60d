"""ROS 2 owns a package named `launch`: with it first on the path ours starts, and ours does not hide it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.fixture
def foreign(tmp_path: Path) -> dict[str, str]:
    package = tmp_path / "ros"
    (package / "launch").mkdir(parents=True)
    (package / "launch" / "__init__.py").write_text("OWNER = 'ros'\n")
    return {**os.environ, "PYTHONPATH": str(package)}


def test_ours_starts_with_a_foreign_launch_first_on_the_path(foreign: dict[str, str]) -> None:
    program = Path(sys.executable).with_name("embodied")
    ended = subprocess.run([program, "--help"], env=foreign, capture_output=True, text=True, cwd="/")
    assert ended.returncode == 0, ended.stderr
    assert "deploy" in ended.stdout


def test_ours_does_not_hide_theirs(foreign: dict[str, str]) -> None:
    code = "import embodied_launch.cli, launch; print(launch.OWNER)"
    ended = subprocess.run([sys.executable, "-c", code], env=foreign, capture_output=True, text=True, cwd="/")
    assert ended.stdout.strip() == "ros", ended.stderr
