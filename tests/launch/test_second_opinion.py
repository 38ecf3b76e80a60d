"""The critic as a second opinion on a plan, and what a terminal and a timeline show of its execution."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from embodied_launch import affordance, api, build
from embodied_launch.affordance import second_opinions
from embodied_launch.planning import plan_lines

from embodied.types import Goal, Plan, Subgoal

ALL = np.ones(3, dtype=bool)


@pytest.fixture(scope="module")
def world() -> Any:
    opened = build.open_world("tabletop_blocks", "fetch", None, None)
    yield opened
    opened.close()


def reach(at: tuple[float, float, float]) -> Subgoal:
    return Subgoal("reach", ("there",), Goal("gripper", np.array(at, dtype=np.float32), ALL), at, 0.05, 50, ())


def test_what_is_far_out_of_what_it_was_trained_for_is_doubted(world: Any) -> None:
    controllers = build.controllers_for(("reach", "hold"), "fetch", "")
    near, far = reach((1.35, 0.75, 0.5)), reach((1.9, 1.5, 1.1))
    hold = Subgoal("hold", (), Goal("gripper", np.zeros(3, dtype=np.float32), ~ALL), (0, 0, 0), 0.05, 5, ())
    said = second_opinions(Plan("", (near, far, hold), "test"), world.reset(0), controllers)
    assert said[0].doubt == ""
    assert said[0].chance is not None
    assert said[0].chance > 0.6
    assert "values it at" in said[1].doubt
    assert said[2].chance is None


def test_a_later_subgoal_is_judged_from_where_the_earlier_ones_lead(world: Any) -> None:
    controllers = build.controllers_for(("reach",), "fetch", "")
    left, right = reach((1.3, 0.95, 0.5)), reach((1.3, 0.55, 0.5))
    alone, _ = second_opinions(Plan("", (right, right), "test"), world.reset(0), controllers)
    _, after_left = second_opinions(Plan("", (left, right), "test"), world.reset(0), controllers)
    _, twice = second_opinions(Plan("", (right, right), "test"), world.reset(0), controllers)
    assert twice.chance > alone.chance > after_left.chance  # type: ignore[operator]


def test_a_doubt_is_shown_and_refuses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(affordance, "DOUBTED_BELOW", {"fetch_reach": 1.1})
    made = api.plan("tabletop_blocks", "touch the red block", planner="rules")
    assert isinstance(made.plan, Plan)
    assert plan_lines(made)[0].endswith("less than nearly all that fetch_reach reaches (1.10)")
    monkeypatch.undo()
    sure = api.plan("tabletop_blocks", "touch the red block", planner="rules")
    assert sure.doubt == ("",)
    assert sure.chance == made.chance
    assert plan_lines(replace(sure, doubt=()))[0].endswith("steps")


def test_doubts_are_in_the_plans_file(cli_here: Any, tmp_path: Path) -> None:
    ended = cli_here("plan", "scene=tabletop_blocks", "instruction=touch the red block", "planner=rules", "out=made")
    assert ended.code == 0
    saved = json.loads((tmp_path / "made" / "plan.json").read_text("utf-8"))
    assert saved["doubt"] == [None]
    assert 0.0 < saved["chance"][0] <= 1.0
    again = cli_here("plan", "scene=tabletop_blocks", "plan=made/plan.json", "out=again")
    assert again.result["plan"] == saved["plan"]


def test_the_terminal_and_the_timeline_follow_each_subgoal(cli_here: Any, tmp_path: Path) -> None:
    ended = cli_here(
        "plan", "scene=tabletop_blocks", "instruction=touch the red block, then put it in the left tray",
        "planner=rules", "execute=true", "film=false", "out=made",
    )  # fmt: skip
    assert ended.code == 0, ended.err
    lines = ended.err.splitlines()
    assert lines[0].startswith("1. touch(red_block) at (")
    told = [line for line in lines if line.startswith("[")]
    assert told[0] == "[1/2] touch(red_block), at most 50 steps"
    assert told[1].startswith("[1/2] reached at step ")
    assert told[-1].startswith("[2/2] reached at step ")
    assert any("m to go" in line for line in lines)
    timeline = json.loads((tmp_path / "made" / "timeline.json").read_text("utf-8"))
    assert [event["kind"] for event in timeline["events"]] == ["begins", "reached"] * 2
    assert {"calls", "cost", "attempt", "text"} <= set(timeline["events"][0])
    assert {row["attempt"] for row in timeline["steps"]} == {0, 1}
    assert timeline["llm"] == {}
