"""A thousand answers made bad by chance: none crashes, none is accepted that does not hold, the budget holds."""

from __future__ import annotations

import json
import random
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from embodied.errors import UserError
from embodied.planning.answers import AnswerError, AnswerErrorKind, read_answer
from embodied.planning.asking import Answer, Asker, Grant, Question
from embodied.planning.budget import Account, BudgetConfig
from embodied.planning.checks import check_steps
from embodied.planning.grounding import GroundingContext, ground
from embodied.planning.model_planner import ModelPlanner, ModelPlannerConfig
from embodied.planning.naming import Names
from embodied.planning.plan import PLAN_SCHEMA, first_error
from embodied.types import Plan, PlanFailure, PlanStep, SceneDescription

ANSWERS = 1000
FETCH = GroundingContext.for_robot("fetch")
KINDS = set(AnswerErrorKind.__args__)  # type: ignore[attr-defined]
VALID: list[Any] = [
    {"plan": [{"skill": "place", "args": ["red_block", "left_tray"], "avoid": []}], "failure": None},
    {"plan": [{"skill": "stack", "args": ["blue_block", "green_block"], "avoid": ["red_block"]}], "failure": None},
    {"plan": [{"skill": "touch", "args": ["green_block"]}, {"skill": "touch", "args": ["red_block"]}]},
    [{"skill": "push", "args": ["red_block", "left_of:blue_block"]}, {"skill": "hold", "args": []}],
    {"plan": [], "failure": {"reason": "ambiguous", "message": "Which one?"}},
]
JUNK: list[Any] = [
    None, True, 0, -1, 10**30, 1e308, "", " ", "cup", "red_block\n", "\ud800", "../../etc/passwd", "x" * 5000, [], {},
    [[]], "left_of:", "left_of:cup", "1,2", "99,99,99", "nan,0,0", "in:red_block", "on:table", "$(reboot)", "table",
]  # fmt: skip


def places(data: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The path of every value in JSON data."""
    inner = list(data.items()) if isinstance(data, dict) else list(enumerate(data)) if isinstance(data, list) else []
    return [path] + [found for key, value in inner for found in places(value, (*path, key))]


def changed(data: Any, path: tuple[Any, ...], value: Any) -> Any:
    if not path:
        return value
    copy = dict(data) if isinstance(data, dict) else list(data)
    copy[path[0]] = changed(data[path[0]], path[1:], value)
    return copy


def spoilt_data(data: Any, rng: random.Random) -> Any:
    """The data with a value exchanged, a key added or taken away, or a step doubled many times."""
    way = rng.randrange(4)
    path = rng.choice(places(data))
    if way == 0:
        return changed(data, path, rng.choice(JUNK))
    here = data
    for key in path:
        here = here[key]
    if way == 1 and isinstance(here, dict):
        return changed(data, path, {**here, rng.choice(["note", "force", "target_m", "max_steps"]): rng.choice(JUNK)})
    if way == 2 and isinstance(here, dict) and here:
        return changed(data, path, {k: v for k, v in here.items() if k != rng.choice(list(here))})
    if way == 3 and isinstance(here, list) and here:
        return changed(data, path, here * rng.choice([2, 60]))
    return changed(data, path, rng.choice(JUNK))


def spoilt_text(text: str, rng: random.Random) -> str:
    """The text cut, mixed up, wrapped, or with signs exchanged."""
    way, place = rng.randrange(8), rng.randrange(len(text) + 1)
    if way == 0:
        return text[:place]
    if way == 1:
        return text[place:]
    if way == 2:
        return text[:place] + rng.choice(['"', "{", "}", "[", "]", ",", "\\", "\0", "\u202e"]) + text[place:]
    if way == 3:
        return text.replace(rng.choice(["red", "block", "plan", "skill", "args", ":", ","]), rng.choice(["", "x", "'"]))
    if way == 4:
        return f"Sure! {text} But perhaps rather {rng.choice([json.dumps, str])(rng.choice(VALID))}"
    if way == 5:
        return text * rng.choice([2, 3])
    if way == 6:
        return " " * rng.randrange(5000)
    return "".join(rng.sample(text, len(text)))


def malformed(seed: int) -> Answer:
    """The answer with this number; a few come out well formed, which is for `judge` to see."""
    rng = random.Random(seed)
    data = rng.choice(VALID)
    for _ in range(rng.randrange(3)):
        data = spoilt_data(data, rng)
    text = json.dumps(data, ensure_ascii=rng.random() < 0.5)
    for _ in range(rng.randrange(3)):
        text = spoilt_text(text, rng) if text else text
    if rng.random() < 0.1:
        return Answer("", text, rng.choice(["stop", "length", ""]))
    return Answer(text, "", rng.choice(["stop", "length", ""]))


def verify(steps: Any, scene: SceneDescription) -> PlanFailure | None:
    made = ground(steps, scene, FETCH)
    return made if isinstance(made, PlanFailure) else None


def judge(steps: tuple[PlanStep, ...], scene: SceneDescription) -> None:
    """What was accepted is a plan, by everything that plans are held to."""
    data = [{"skill": s.skill, "args": list(s.args), "max_steps": s.max_steps, "avoid": list(s.avoid)} for s in steps]
    assert first_error(PLAN_SCHEMA, data) == ""
    assert check_steps(steps, scene) is None
    assert all(step.target_m is None for step in steps)
    ids = {item.id for item in scene.objects}
    assert {thing for step in steps for thing in step.avoid} <= ids
    assert isinstance(ground(steps, scene, FETCH), Plan)


def test_no_answer_crashes_and_none_that_is_bad_is_accepted(blocks: SceneDescription) -> None:
    counted: Counter[str] = Counter()
    names = Names.of(blocks)
    for seed in range(ANSWERS):
        try:
            read = read_answer(malformed(seed), blocks, names, verify)
        except AnswerError as error:
            counted[error.kind if str(error) else "no words"] += 1
            continue
        counted["accepted"] += 1
        if isinstance(read, PlanFailure):
            assert "\n" not in read.message
        else:
            judge(read, blocks)
    assert sum(counted.values()) == ANSWERS
    assert set(counted) <= {*KINDS, "accepted"}
    assert counted["accepted"] < ANSWERS / 2
    # The generator is worth its name only if it meets every class.
    assert set(counted) >= {"schema", "truncated", "no_json", "refused_plan", "several_plans", "white_space"}


class Babbler:
    """A model that gives malformed answers, and reports tokens as it likes."""

    name = "babbler"

    def __init__(self) -> None:
        self.calls, self.tokens = 0, 0

    def prompt_bound(self, question: Question) -> int:
        return question.bytes

    def answer(self, question: Question, grant: Grant) -> Answer:
        rng = random.Random(self.calls)
        told = rng.choice([None, 0, -5, 10**9, grant.max_tokens])
        answer = replace(malformed(self.calls), tokens_in=question.bytes // 4, tokens_out=told)
        self.calls += 1
        self.tokens += question.bytes // 4 + (told if told == grant.max_tokens else 0)
        return answer


@pytest.mark.parametrize("limit", ["calls", "tokens", "cost"])
def test_the_budget_is_never_exceeded_whatever_comes_back(limit: str, blocks: SceneDescription) -> None:
    budget = {
        "calls": BudgetConfig(calls=37),
        "tokens": BudgetConfig(calls=10**6, tokens=60_000),
        "cost": BudgetConfig(calls=10**6, tokens=10**9, cost=0.05, price_in=1.0, price_out=4.0),
    }[limit]
    model = Babbler()
    planner = ModelPlanner("openai", Asker(model, Account(budget)), ModelPlannerConfig(max_tokens=500), verify)
    failures = []
    while not failures or failures[-1].reason != "budget":
        made = planner.propose("put the red block in the left tray", blocks)
        if isinstance(made, PlanFailure):
            failures.append(made)
        else:
            judge(made, blocks)
        assert model.calls < 1000
    used = planner.usage()
    assert used["calls"] == model.calls <= budget.calls
    assert used["tokens_in"] + used["tokens_out"] <= budget.tokens
    assert model.tokens <= budget.tokens
    assert used["cost"] <= (budget.cost or 0.0) + 1e-12 or budget.cost is None
    assert used["budget_spent"] == limit
    # It went as far as it could: one more question of the same size might not have fitted.
    assert used["calls"] == budget.calls or used["calls"] > 5


def test_a_budget_of_money_needs_prices() -> None:
    with pytest.raises(UserError, match="price_in="):
        BudgetConfig(cost=1.0)
