"""Plan files: what is read, what is refused and how."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from embodied.errors import UserError
from embodied.planning.grounding import GroundingContext, ground
from embodied.planning.plan import MAX_STEPS_IN_PLAN, load_plan, parse_plan, plan_to_json, steps_of
from embodied.seal import sealed
from embodied.types import SKILLS, Plan, PlanStep, SceneDescription

TOUCH = {"skill": "touch", "args": ["red_block"]}


def test_a_list_and_a_result_file_hold_the_same_plan(tmp_path: Path) -> None:
    full = {"skill": "reach", "args": ["left_tray"], "target_m": [1, 0.5, 0.75], "max_steps": 30}
    (tmp_path / "list.json").write_text(json.dumps([TOUCH, full]))
    (tmp_path / "result (1).json").write_text(json.dumps({"schema": 1, "verb": "plan", "plan": [TOUCH, full]}))
    expected = (PlanStep("touch", ("red_block",)), PlanStep("reach", ("left_tray",), (1.0, 0.5, 0.75), 30))
    assert load_plan(tmp_path / "list.json") == expected
    assert load_plan(tmp_path / "result (1).json") == expected


def test_what_was_written_is_read_back_and_means_the_same(blocks: SceneDescription) -> None:
    steps = [
        PlanStep("touch", ("red_block",)),
        PlanStep("reach", ("1.2,0.8,0.6",), max_steps=7),
        PlanStep("stack", ("blue_block", "green_block")),
        PlanStep("hold", ()),
    ]
    plan = ground(steps, blocks, GroundingContext.for_robot("fetch"))
    assert isinstance(plan, Plan)
    data = plan_to_json(plan)
    assert [set(step) for step in data] == [{"skill", "args", "target_m", "max_steps"}] * 4
    again = ground(parse_plan(json.dumps(data)), blocks, GroundingContext.for_robot("fetch"))
    assert isinstance(again, Plan)
    for a, b in zip(plan.subgoals, again.subgoals, strict=True):
        assert (a.skill, a.args, a.target_m, a.max_steps, a.success) == (
            b.skill,
            b.args,
            b.target_m,
            b.max_steps,
            b.success,
        )
        np.testing.assert_array_equal(a.goal.value, b.goal.value)
    assert [step.args for step in steps_of(plan.subgoals)] == [step.args for step in steps]


def step(**changes: object) -> str:
    return json.dumps([{**TOUCH, **changes}])


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "not valid JSON"),
        ("{", "not valid JSON"),
        ("[" * 100_000, "not valid JSON"),
        ('[{"skill": "reach", "args": ["a"], "target_m": [NaN, 0, 0]}]', "NaN"),
        ('[{"skill": "reach", "args": ["a"], "target_m": [Infinity, 0, 0]}]', "Infinity"),
        ('[{"skill": "reach", "args": ["a"], "target_m": [1e999, 0, 0]}]', "at [0].target_m[0]"),
        ('[{"skill": "touch", "skill": "reach", "args": ["a"]}]', "given twice"),
        ('"touch"', "not of type 'array'"),
        ("3", "not of type 'array'"),
        ("{}", "no key 'plan'"),
        ('{"failure": {"reason": "ambiguous"}}', "holds a failure"),
        ('[["touch", "red_block"]]', "not of type 'object'"),
        ('[{"skill": "touch"}]', "'args' is a required property"),
        (step(skill="fly"), "'fly' is not one of"),
        (step(skill=3), "3 is not"),
        (step(args="red_block"), "not of type 'array'"),
        (step(args=[1]), "not of type 'string'"),
        (step(args=["x" * 129]), "too long"),
        (step(args=[]), "touch takes 1 argument(s) (object), got 0"),
        (step(args=["a", "b"]), "touch takes 1 argument(s)"),
        (step(skill="place", args=["a"]), "place takes 2 argument(s) (object, place)"),
        (step(skill="hold"), "hold takes 0 argument(s)"),
        (step(args=[""]), "empty argument"),
        (step(target_m=[0, 0]), "target_m"),
        (step(target_m=[0, 0, True]), "not of type 'number'"),
        (step(target_m=["0", 0, 0]), "not of type 'number'"),
        (step(target_m=[0, 0, 1e6]), "greater than the maximum"),
        (step(max_steps=0), "less than the minimum"),
        (step(max_steps=1e9), "greater than the maximum"),
        (step(max_steps=2.5), "not of type 'integer'"),
        (step(max_steps=True), "not of type 'integer'"),
        (step(speed=2), "'speed' was unexpected"),
        (json.dumps([TOUCH] * (MAX_STEPS_IN_PLAN + 1)), "too long"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(text: str, told: str) -> None:
    with pytest.raises(UserError) as caught:
        parse_plan(text, "plan file x.json")
    message = str(caught.value)
    assert told in message
    assert message.startswith("plan file x.json")
    assert "\n" not in message
    assert len(message) < 400


def test_files_that_cannot_be_read_are_refused(tmp_path: Path) -> None:
    (tmp_path / "binary.json").write_bytes(b"\xff\xfe\x00[")
    (tmp_path / "huge.json").write_text(" " * 1_000_001)
    for name in ("missing.json", "binary.json", "huge.json", "."):
        with pytest.raises(UserError) as caught:
            load_plan(tmp_path / name)
        assert str(caught.value).startswith("plan file ")
        assert "\n" not in str(caught.value)


def test_every_skill_can_be_written() -> None:
    from embodied.planning.plan import SKILL_ARGS

    assert set(SKILL_ARGS) == set(SKILLS)
    data = [{"skill": skill, "args": ["x"] * len(args)} for skill, args in SKILL_ARGS.items()]
    assert [step.skill for step in parse_plan(json.dumps(data))] == list(SKILL_ARGS)


def test_integers_may_be_written_as_floats_and_nulls_left_open() -> None:
    (read,) = parse_plan('[{"skill": "touch", "args": ["a"], "target_m": null, "max_steps": 5.0}]')
    assert read == PlanStep("touch", ("a",), None, 5)
    assert isinstance(read.max_steps, int)


def test_a_flipped_digit_in_a_sealed_plan_is_noticed() -> None:
    data = sealed({"plan": [{"skill": "touch", "args": ["red_block"], "target_m": [1.0, 2.0, 3.0]}]})
    assert parse_plan(json.dumps(data))[0].target_m == (1.0, 2.0, 3.0)
    with pytest.raises(UserError, match="damaged or was edited.*take out its sha256"):
        parse_plan(json.dumps(data).replace("2.0", "2.5"))
    del data["sha256"]
    assert parse_plan(json.dumps(data).replace("2.0", "2.5"))[0].target_m == (1.0, 2.5, 3.0)
