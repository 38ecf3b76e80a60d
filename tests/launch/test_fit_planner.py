"""`embodied fit planner=embedded` on few sentences, taken up again; `plan` with the shipped one."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from embodied_launch.parsing import make_embedded

from embodied.planning.embedded import EmbeddedPlanner

FEW = ("planner=embedded", "out=fit", "parser.sentences=96", "parser.passes=1", "parser.closing=32", "parser.judged=10")


def test_a_planner_is_fitted_and_taken_up_again(cli_here: Callable[..., Any], tmp_path: Path) -> None:
    ended = cli_here("fit", *FEW)
    assert ended.code == 0, ended.err
    card = json.loads((tmp_path / "fit" / "model" / "card.json").read_text("utf-8"))
    assert card["data"]["seed"] == 0
    assert card["sentences"] == 96
    for judged in card["judged"].values():
        assert abs(judged["right"] + judged["wrong"] + judged["refused"] - (judged["can_be_done"] > 0)) < 1e-3
    weights = (tmp_path / "fit" / "model" / "model.safetensors").read_bytes()
    assert len(weights) < 15e6
    assert cli_here("fit", *FEW).code == 2
    assert cli_here("fit", *FEW, "resume=auto").code == 0
    assert (tmp_path / "fit" / "model" / "model.safetensors").read_bytes() == weights
    assert isinstance(make_embedded(tmp_path / "fit" / "model"), EmbeddedPlanner)


def test_plan_with_the_embedded_planner(cli_here: Callable[..., Any]) -> None:
    words = ("plan", "scene=tabletop_blocks", "planner=embedded")
    ended = cli_here(*words, "instruction=the crimson cube belongs in the white tray")
    assert ended.code == 0, ended.err
    assert [step["args"] for step in ended.result["plan"]] == [["red_block", "left_tray"]]
    assert ended.result["planner"] == "embedded"
    refused = cli_here(*words, "instruction=glorp the red snib")
    assert refused.code == 3
    assert refused.result["failure"]["reason"] == "unparsable"
