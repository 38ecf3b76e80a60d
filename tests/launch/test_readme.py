"""What the README shows works: its Python block is run, its commands are read by the real parser."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

README = (Path(__file__).resolve().parents[2] / "README.md").read_text("utf-8")
COMMANDS = [line.split("  #")[0].strip() for line in README.splitlines() if line.startswith("embodied ")]


def block(language: str) -> str:
    found = re.findall(rf"```{language}\n(.*?)```", README, re.DOTALL)
    assert len(found) == 1 or language != "python"
    return found[0]


def test_the_python_block_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    exec(compile(block("python"), "README.md", "exec"), {})
    out = capfd.readouterr().out
    assert "red block" in out
    assert "[True]" in out
    assert (tmp_path / "runs" / "python_bundle" / "manifest.json").is_file()


def test_it_opens_with_the_two_commands() -> None:
    first = block("bash").splitlines()
    assert first[0].startswith("bash launch/demo.sh")
    assert first[1].startswith("bash launch/test.sh")


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_is_understood(command: str) -> None:
    from embodied_launch.cli import VERBS, configure, load

    name, *words = shlex.split(command)[1:]
    configure(VERBS[name], load(VERBS[name]), words)


def test_there_are_commands() -> None:
    assert len(COMMANDS) >= 8
