"""The rules planner: what it understands, what it refuses, and that it never guesses."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from embodied.planning import lexicon
from embodied.planning.grounding import GroundingContext, ground
from embodied.planning.rules import RulesPlanner
from embodied.types import PlanFailure, SceneDescription

PLANNER = RulesPlanner()
HANDED = Path(__file__).parents[1] / "data" / "instructions" / "handed.jsonl"
LINES = [json.loads(line) for line in HANDED.read_text(encoding="utf-8").splitlines()]


def said(instruction: str, scene: SceneDescription) -> str:
    """The plan in one line, or the reason of the refusal."""
    answer = PLANNER.propose(instruction, scene)
    if isinstance(answer, PlanFailure):
        assert "\n" not in answer.message
        assert answer.message.isprintable()
        return answer.reason
    return "; ".join(" ".join((step.skill, *step.args)) for step in answer)


@pytest.mark.parametrize(
    ("instruction", "expected"),
    [
        ("touch the red block, then the blue block", "touch red_block; touch blue_block"),
        ("Touch the red block and then touch the blue one.", "touch red_block; touch blue_block"),
        ("tap the red cube. afterwards press green", "touch red_block; touch green_block"),
        ("touch the red, the green and the blue block", "touch red_block; touch green_block; touch blue_block"),
        ("touch the red block, the blue one first", "touch blue_block; touch red_block"),
        ("touch everything except the red block", "touch green_block; touch blue_block"),
        ("touch every block but not the red one", "touch green_block; touch blue_block"),
        ("touch all three blocks", "touch red_block; touch green_block; touch blue_block"),
        ("touch the block closest to the red block", "ambiguous"),
        ("touch the left block", "touch blue_block"),
        ("touch the tray on the left", "touch left_tray"),
        ("touch the right tray", "touch right_tray"),
        ("please touch red_block now", "touch red_block"),
        ("could you touch the table?", "touch table"),
        ("touch red and don't touch blue", "touch red_block"),
        ("don't touch the blue block", "hold"),
        ("hold", "hold"),
        ("wait, then touch the red block", "hold; touch red_block"),
        ("hold the red block", "pick red_block"),
        ("pick the red block up", "pick red_block"),
        ("reach for the red block", "reach red_block"),
        ("hover above the black tray", "reach right_tray"),
        ("move the gripper to the white tray", "reach left_tray"),
        ("move to 1.3, 0.75, 0.6", "reach 1.3,0.75,0.6"),
        ("pick up the red block and put it in the left tray", "pick red_block; place red_block left_tray"),
        ("put the red and the blue block into the white tray", "place red_block left_tray; place blue_block left_tray"),
        (
            "put the red block in the left tray and the blue block in the right tray",
            "place red_block left_tray; place blue_block right_tray",
        ),
        (
            "put the red block in the left tray, then the blue one too",
            "place red_block left_tray; place blue_block left_tray",
        ),
        ("put red in the left tray, then in no case blue", "unparsable"),
        ("put the red block onto the blue block", "stack red_block blue_block"),
        ("put the red block on the table", "place red_block on:table"),
        ("put the green block next to the red block", "place green_block near:red_block"),
        ("put the green block in front of the red block", "place green_block in_front_of:red_block"),
        ("put the green block behind the red block", "place green_block behind:red_block"),
        ("put the green block on the right side of the red block", "place green_block right_of:red_block"),
        ("push the red block into the right tray", "push red_block right_tray"),
        ("push the red block to the blue block", "push red_block near:blue_block"),
        ("stack red on blue and green on red", "stack red_block blue_block; stack green_block red_block"),
        (
            "put the red block in the left tray, then put it in the right tray",
            "place red_block left_tray; place red_block right_tray",
        ),
        (
            "put everything else in the left tray",
            "place red_block left_tray; place green_block left_tray; place blue_block left_tray",
        ),
        (
            "put red in the left tray. everything else goes into the right one",
            "place red_block left_tray; place green_block right_tray; place blue_block right_tray",
        ),
        ("go to the table", "go_to table"),
        ("touch right_tray", "touch right_tray"),
    ],
)  # fmt: skip
def test_what_is_understood_on_the_table(blocks: SceneDescription, instruction: str, expected: str) -> None:
    assert said(instruction, blocks) == expected


@pytest.mark.parametrize(
    ("instruction", "reason"),
    [
        ("", "unparsable"),
        ("   \n\t ", "unparsable"),
        ("...", "unparsable"),
        ("touch", "unparsable"),
        ("the red block", "unparsable"),
        ("red", "unparsable"),
        ("touch the shiny block", "unparsable"),
        ("touch the red block gently", "unparsable"),
        ("touch the red block twice", "unparsable"),
        ("touch the red block or the blue block", "unparsable"),
        ("if you can, touch the red block", "unparsable"),
        ("touch the red block, then the blue block on the table", "unparsable"),
        ("put the red block", "unparsable"),
        ("move the red block to the blue block", "unparsable"),
        ("lege den roten Block in die linke Schale", "unparsable"),
        ("touche le bloc rouge", "unparsable"),
        ("把红色方块放到左边的托盘里", "unparsable"),
        ("touch {red_block}", "unparsable"),
        ("touch the red block; rm -rf /", "unparsable"),
        ("touch the purple block", "unknown_object"),
        ("touch the red ball", "unknown_object"),
        ("touch the banana", "unknown_object"),
        ("touch obj7", "unknown_object"),
        ("touch both red blocks", "unknown_object"),
        ("touch the block", "ambiguous"),
        ("touch it", "ambiguous"),
        ("touch two blocks", "ambiguous"),
        ("put the red block in the tray", "ambiguous"),
        ("put red in both trays", "ambiguous"),
        ("put the table in the left tray", "impossible"),
        ("push the left tray behind the red block", "impossible"),
        ("put the red block in the blue block", "impossible"),
        ("stack red on red", "impossible"),
        ("stack red on blue, and blue on red", "contradictory"),
        ("put red left of blue and blue left of red", "contradictory"),
        ("touch the red block and don't touch the red block", "contradictory"),
        ("put everything in the left tray without touching the blue block", "contradictory"),
        ("put red in the left tray and put red in the right tray", "contradictory"),
        ("build a tower: green, red, blue", "unparsable"),
    ],
)
def test_what_is_refused_and_why(blocks: SceneDescription, instruction: str, reason: str) -> None:
    assert said(instruction, blocks) == reason


@pytest.mark.parametrize(
    ("instruction", "told"),
    [
        ("touch the purple block", "red block (red_block), green block (green_block), blue block (blue_block)"),
        ("touch the block", "red block (red_block), green block (green_block), blue block (blue_block)"),
        ("touch the red block gently, then the blue block", "'gently'"),
        ("pick up the banana", "'banana'"),
        ("put the table in the left tray", "fixed"),
    ],
)
def test_refusals_name_words_and_things(blocks: SceneDescription, instruction: str, told: str) -> None:
    answer = PLANNER.propose(instruction, blocks)
    assert isinstance(answer, PlanFailure)
    assert told in answer.message


@pytest.mark.parametrize(
    ("instruction", "expected"),
    [
        ("touch the teal cylinder", "touch obj1"),
        ("touch obj1", "touch obj1"),
        ("touch the orange cube", "ambiguous"),
        ("touch the orange block obj2", "touch obj2"),
        ("touch an orange block", "touch obj0"),
        ("touch both orange blocks", "touch obj0; touch obj2"),
        ("touch the left orange block", "touch obj2"),
        ("touch the orange cube that is closest to the yellow circle", "touch obj2"),
        ("touch the orange cube nearest to the teal cylinder", "touch obj0"),
        ("touch the smallest block", "touch obj3"),
        ("touch the biggest block", "ambiguous"),
        ("stack an orange block on the other orange block", "stack obj0 obj2"),
        ("put one of the orange blocks on the purple disc", "place obj0 z1"),
        ("put the teal cylinder on the table", "place obj1 on:b0"),
    ],
)
def test_alike_things_are_told_apart_or_not_at_all(desk: SceneDescription, instruction: str, expected: str) -> None:
    assert said(instruction, desk) == expected


@pytest.mark.parametrize(
    ("instruction", "expected"),
    [
        ("go to the red pillar, then to the blue one", "go_to red_pillar; go_to blue_pillar"),
        ("move to the green pillar", "go_to green_pillar"),
        ("visit every pillar except the red one", "go_to green_pillar; go_to blue_pillar; go_to yellow_pillar"),
        ("return to start", "go_to start"),
        ("go to 1,-2,0", "go_to 1.0,-2.0,0.0"),
        ("push the red pillar next to the blue pillar", "impossible"),
    ],
)
def test_driving(rooms: SceneDescription, instruction: str, expected: str) -> None:
    assert said(instruction, rooms) == expected


def expected_steps(line: dict) -> set[tuple[str, ...]]:
    """The goal facts of a handed line that stand without alternatives."""
    return {tuple(goal) for goal in line["goal"] if goal[0] not in ("or", "not")}


@pytest.mark.parametrize("line", LINES, ids=[line["instruction"][:40] for line in LINES])
def test_handed_instructions_are_planned_or_refused(scenes: dict[str, SceneDescription], line: dict) -> None:
    scene = scenes[line["scene"]]
    steps = PLANNER.propose(line["instruction"], scene)
    if isinstance(steps, PlanFailure):
        assert line.get("expect") == "failure" or not line["instruction"].isascii()
        return
    assert line.get("expect") != "failure"
    plan = ground(steps, scene, GroundingContext.for_robot("fetch" if line["scene"] != "rooms" else "point"))
    assert not isinstance(plan, PlanFailure), plan
    promised = {(fact.name, *fact.args) for subgoal in plan.subgoals for fact in subgoal.success}
    assert expected_steps(line) <= promised


def test_it_says_the_same_each_time(scenes: dict[str, SceneDescription]) -> None:
    for line in LINES:
        scene = scenes[line["scene"]]
        assert PLANNER.propose(line["instruction"], scene) == RulesPlanner().propose(line["instruction"], scene)


def test_any_row_of_words_is_answered(scenes: dict[str, SceneDescription]) -> None:
    """Word salads of the grammar's own words, ids and noise: a plan that can be grounded, or a refusal."""
    tables = (
        lexicon.VERBS, lexicon.PREPOSITIONS, lexicon.SEPARATORS, lexicon.COLOURS, lexicon.KINDS, lexicon.FORBIDDING,
        lexicon.EXCEPT, lexicon.THAT_IS, lexicon.SIDES, lexicon.SIZES, lexicon.FILLERS, lexicon.TRAILERS,
    )  # fmt: skip
    words = [word for table in tables for word in sorted(table)]
    extra = "the a all both it them everything else one ones other last first closest to obj1 red_block 1.5 -2 xyz"
    words += extra.split()
    generator = np.random.default_rng(0)
    planned = 0
    for scene in scenes.values():
        for _ in range(1500):
            text = " ".join(generator.choice(words, size=generator.integers(1, 12)))
            answer = PLANNER.propose(text, scene)
            if isinstance(answer, PlanFailure):
                assert "\n" not in answer.message, text
            else:
                planned += 1
                ground(answer, scene, GroundingContext.for_robot("none"))
    assert planned > 10  # some of it makes sense, so the loop tests plans too


@pytest.mark.parametrize(
    "text",
    [
        "touch red and " * 200,
        "touch " + "the block closest to " * 90,
        "touch everything except " * 80,
        "put red in the left tray, then in the right tray, " * 38,
        ", and then" * 190,
        "touch everything, then " * 80,
        "x" * 2000,
        "touch the red block" + " " * 5000,
    ],
)
def test_long_instructions_are_bounded(blocks: SceneDescription, text: str) -> None:
    assert isinstance(PLANNER.propose(text, blocks), PlanFailure)


def test_too_many_steps_are_a_matter_of_budget(blocks: SceneDescription) -> None:
    assert said("touch everything, then " * 20 + "touch red", blocks) == "budget"


def test_names_cannot_change_the_grammar(make_scene: Callable, make_thing: Callable) -> None:
    half = (0.025, 0.025, 0.025)
    hostile = ("and", "touch", "the", "then", "red", "everything", "to_do_not_touch", "block")
    things = [
        make_thing(name, "object", "ball", "grey", (1.0 + 0.1 * k, 0.7, 0.4), half) for k, name in enumerate(hostile)
    ]
    scene = make_scene(make_thing("r", "object", "block", "red", (1.2, 0.9, 0.4), half), *things)
    assert said("touch the red block and then touch the red block", scene) == "touch r; touch r"
    assert said("touch red", scene) == "touch r"


def test_a_names_words_help_only_where_they_fit(make_scene: Callable, make_thing: Callable) -> None:
    mug = make_thing("coffee_mug", "object", "thing", "unknown", (1.2, 0.9, 0.4), (0.03, 0.03, 0.05))
    scene = make_scene(mug)
    assert said("touch the mug", scene) == "touch coffee_mug"
    assert said("touch the red mug", scene) == "unknown_object"


def test_a_side_is_not_taken_from_the_only_thing_of_the_other_side(blocks: SceneDescription) -> None:
    scene = replace(blocks, objects=tuple(item for item in blocks.objects if item.id != "right_tray"))
    assert said("touch the right tray", scene) == "unknown_object"
    assert said("touch the left tray", scene) == "touch left_tray"


def test_what_is_to_be_left_alone_goes_with_every_step_down_to_the_subgoals(blocks: SceneDescription) -> None:
    steps = PLANNER.propose("touch red, then green, and don't touch the blue block", blocks)
    assert not isinstance(steps, PlanFailure)
    assert [step.avoid for step in steps] == [("blue_block",)] * 2
    plan = ground(steps, blocks, GroundingContext.for_robot("fetch"))
    assert not isinstance(plan, PlanFailure)
    assert all(subgoal.avoid == ("blue_block",) for subgoal in plan.subgoals)


@pytest.mark.parametrize(
    ("instruction", "mention"),
    [
        ("turn the red block", "no joint"),
        ("open the left tray", "no joint"),
        ("pick up all blocks", "still hold"),
        ("pick up red, put the blue block in the left tray", "still hold"),
    ],
)
def test_what_no_gripper_can_do(blocks: SceneDescription, instruction: str, mention: str) -> None:
    answer = PLANNER.propose(instruction, blocks)
    assert isinstance(answer, PlanFailure)
    assert answer.reason == "impossible"
    assert mention in answer.message


def test_an_arm_goes_nowhere(blocks: SceneDescription) -> None:
    steps = PLANNER.propose("go to the red block", blocks)
    assert not isinstance(steps, PlanFailure)
    answer = ground(steps, blocks, GroundingContext.for_robot("fetch"))
    assert isinstance(answer, PlanFailure)
    assert answer.reason == "impossible"
