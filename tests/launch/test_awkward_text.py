"""Free text and paths are taken as they stand: no grammar of ours, Hydra's or the shell's is applied to them."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

DATA = Path(__file__).resolve().parent.parent / "data" / "instructions" / "handed.jsonl"
LINES = [json.loads(line) for line in DATA.read_text("utf-8").splitlines()]
AWKWARD = [
    "touch the red block, then the blue block",
    "don't {touch} the 'red' block",
    "a=b=c",
    "${oc.env:HOME}",
    '??? null ~ + [1, 2] (x) \\n "quoted"',
    "把红色方块放到左边的托盘里",
    "-m --help",
    "x" * 3000,
    "; rm -rf / && $(touch pwned) `touch pwned`",
    "\u202egnidaer \x07 bell",
    "touch \udcff the block",
]


@pytest.mark.parametrize("line", LINES, ids=[line["instruction"][:40] for line in LINES])
def test_every_handed_line_is_planned_or_refused(cli_here: Callable[..., Any], line: dict[str, Any]) -> None:
    ended = cli_here("plan", f"scene={line['scene']}", f"instruction={line['instruction']}")
    assert ended.code in (0, 3), ended
    assert ended.result["instruction"] == line["instruction"]
    if line.get("expect") == "failure":
        assert ended.code == 3


@pytest.mark.parametrize("text", AWKWARD, ids=range(len(AWKWARD)))
def test_awkward_instructions_through_the_real_program(cli: Callable[..., Any], tmp_path: Path, text: str) -> None:
    ended = cli("plan", "scene=tabletop_blocks", f"instruction={text}")
    assert ended.code in (0, 3), ended
    assert ended.result["instruction"] == text
    assert "Traceback" not in ended.err
    assert not (tmp_path / "pwned").exists()


def test_awkward_paths(cli: Callable[..., Any], tmp_path: Path) -> None:
    from robots.scene import resolve_scene

    folder = tmp_path / "my scenes (new), a=b {c} 场景"
    folder.mkdir()
    scene = folder / "desk's [1].xml"
    shutil.copy(resolve_scene("tabletop_blocks"), scene)
    ended = cli("plan", f"scene={scene}", "instruction=touch the red block", f"out={folder / 'out, (1)'}")
    assert ended.code == 0, ended
    assert ended.out.splitlines()[-1] == str(folder / "out, (1)" / "result.json")
    assert ended.result["scene"] == str(scene)
