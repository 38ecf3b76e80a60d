"""Runs the real command line as a user would."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

PROGRAM = Path(sys.executable).with_name("embodied")


@dataclass(frozen=True)
class Ended:
    """How a command ended."""

    code: int
    out: str
    err: str

    @property
    def result(self) -> dict[str, Any]:
        """The result.json that the last line of stdout names."""
        return json.loads(Path(self.out.splitlines()[-1]).read_text("utf-8"))


Cli = Callable[..., Ended]


@pytest.fixture
def cli_here(tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Cli:
    """The same in this process: for tables of many short commands."""
    from embodied_launch.cli import main

    monkeypatch.chdir(tmp_path)

    def run(*words: str) -> Ended:
        capfd.readouterr()
        code = main(words)
        captured = capfd.readouterr()
        return Ended(code, captured.out, captured.err)

    return run


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    """`cli(verb, "key=value", ...)` in an empty folder."""

    def run(*words: str, env: Mapping[str, str] | None = None, cwd: Path = tmp_path, timeout: float = 300) -> Ended:
        command: Sequence[str] = [str(PROGRAM), *words]
        ended = subprocess.run(
            command, capture_output=True, text=True, cwd=cwd, timeout=timeout, env={**os.environ, **(env or {})}
        )
        return Ended(ended.returncode, ended.stdout, ended.stderr)

    return run
