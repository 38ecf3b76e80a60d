"""`bench suite=planning`: instructions judged on paper and by what came of them."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from embodied_launch.bench import planning
from embodied_launch.bench.instructions import read_instructions
from embodied_launch.bench.table import Table
from embodied_launch.verbs.bench import KEYS

from embodied.errors import UserError

IN_TRAY = {"scene": "tabletop_blocks", "instruction": "put the red block in the left tray",
           "goal": [["in", "red_block", "left_tray"]]}  # fmt: skip
WRONG_GOAL = {**IN_TRAY, "goal": [["in", "red_block", "right_tray"]]}
REFUSED = {"scene": "tabletop_blocks", "instruction": "put the yellow block in the left tray", "goal": [],
           "expect": "failure"}  # fmt: skip
NOT_REFUSED = {**IN_TRAY, "goal": [], "expect": "failure"}


def file(folder: Path, *lines: Any) -> Path:
    path = folder / "lines.jsonl"
    path.write_text("\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines) + "\n")
    return path


def keys(path: Path, **given: Any) -> KEYS:
    return KEYS(suite="planning", instructions=str(path), **{"variations": 1, **given})


def test_what_is_planned_done_refused_and_what_is_not(tmp_path: Path) -> None:
    table = Table(tmp_path / "planning.jsonl")
    config = keys(file(tmp_path, IN_TRAY, WRONG_GOAL, "", REFUSED, NOT_REFUSED))
    lines = planning.run(config, table)
    rows = table.summary["rows"]
    assert [(r["planned"], r["executed"], r["refused"]) for r in rows[:-1]] == [
        (True, True, False), (False, False, False), (True, None, True), (False, None, False),
    ]  # fmt: skip
    assert [r["line"] for r in rows[:-1]] == [1, 2, 4, 5]
    assert "right_tray" in rows[1]["why"]
    total = rows[-1]
    assert total["instruction"] == "total"
    assert (total["planned"], total["executed"], total["refused"]) == (0.5, 0.5, 0.5)
    assert total["planned_low"] < 0.5 < total["planned_high"]
    assert (rows[0]["subgoals"], rows[0]["reached"], rows[0]["calls"], rows[0]["retries"]) == (1, 1, 0, 0)
    assert lines[-2].startswith("line 2") or "line 5" in lines[-1]
    again = Table(tmp_path / "planning.jsonl", resume=True)
    assert planning.run(config, again) == lines
    assert len(again.rows) == 4
    with pytest.raises(UserError, match="disturb=false, not true"):
        planning.run(replace(config, disturb="true"), again)


def test_variations_differ_and_disturbances_are_told(tmp_path: Path) -> None:
    table = Table(tmp_path / "planning.jsonl")
    planning.run(keys(file(tmp_path, IN_TRAY), variations=2, disturb="moved"), table)
    first, second = table.rows
    assert (first["variation"], second["variation"]) == (0, 1)
    assert first["disturbance"].startswith("moved red_block")
    assert first["disturbance"] != second["disturbance"]
    assert first["executed"] is True, first["why"]


class Idle:
    """A controller that does nothing."""

    def __init__(self, manifest: Any) -> None:
        self.manifest = manifest

    def act(self, observation: Any, goal: Any) -> np.ndarray:
        return np.zeros(4, dtype=np.float32)


def test_who_does_nothing_gets_nothing_done_and_it_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from embodied_launch import build

    made = build.controllers_for

    def idle(*args: Any) -> dict[str, Any]:
        return {skill: Idle(controller.manifest) for skill, controller in made(*args).items()}

    monkeypatch.setattr(build, "controllers_for", idle)
    table = Table(tmp_path / "planning.jsonl")
    planning.run(keys(file(tmp_path, IN_TRAY)), table)
    (row,) = table.rows
    assert (row["planned"], row["executed"], row["reached"]) == (True, False, 0)
    assert "nothing moved" in row["why"]
    assert table.summary["rows"][-1]["executed"] == 0.0


def test_names_that_are_not_there_are_said_in_one_line(tmp_path: Path) -> None:
    path = file(tmp_path, IN_TRAY)
    table = Table(tmp_path / "planning.jsonl")
    with pytest.raises(UserError, match="unknown planner 'oracle'"):
        planning.run(keys(path, planner="oracle"), table)
    with pytest.raises(UserError, match="unknown describer 'gpt'"):
        planning.run(keys(path, describer="gpt"), table)
    with pytest.raises(UserError, match="instructions= is required"):
        planning.run(replace(keys(path), instructions=""), table)
    ghost = file(tmp_path, {**IN_TRAY, "goal": [["in", "ghost", "left_tray"]]})
    with pytest.raises(UserError, match="line 1 .*no 'ghost'"):
        planning.run(keys(ghost), table)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("{", "no JSON"), ("[]", "no JSON object"), ({**IN_TRAY, "scene": "nowhere"}, "no scene 'nowhere'"),
        ({**IN_TRAY, "goal": []}, "needs a 'goal'"), ({**IN_TRAY, "expect": "success"}, "'expect'"),
        ({**IN_TRAY, "goals": []}, "unknown key 'goals'"), ({**IN_TRAY, "goal": [["inside", "a", "b"]]}, "inside"),
        ({**IN_TRAY, "order": [{"any": []}]}, "in order"), ({"scene": "rooms"}, "'instruction'"),
    ],
)  # fmt: skip
def test_lines_of_another_form_are_refused_with_their_number(tmp_path: Path, line: Any, said: str) -> None:
    with pytest.raises(UserError, match="line 2: ") as caught:
        read_instructions(file(tmp_path, IN_TRAY, line))
    assert said in str(caught.value)


def test_scenes_are_found_beside_the_file_then_by_path_then_by_name(tmp_path: Path) -> None:
    (tmp_path / "scenes").mkdir()
    (tmp_path / "instructions").mkdir()
    for place in (tmp_path / "scenes" / "rooms.xml", tmp_path / "instructions" / "mine.xml"):
        place.write_text("<mujoco/>")
    path = file(tmp_path / "instructions", *({**IN_TRAY, "scene": s} for s in ("rooms", "mine.xml", "desk_unnamed")))
    assert [line.path for line in read_instructions(path)] == [
        str((tmp_path / "scenes" / "rooms.xml").resolve()), str((tmp_path / "instructions" / "mine.xml").resolve()),
        "desk_unnamed",
    ]  # fmt: skip
