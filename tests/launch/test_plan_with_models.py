"""`embodied plan` with a language model: what it writes, what it refuses, what it never shows."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

KEY = "sk-do-not-tell-9f3a"
PLAN = json.dumps([{"skill": "place", "args": ["red_block", "left_tray"]}])
WORDS = ("plan", "scene=tabletop_blocks", "instruction=Put the red block in the left tray.")
LLM = {"calls", "cached", "tokens_in", "tokens_out", "cost", "seconds", "errors", "budget", "model", "prompt_sha256"}

Cli = Callable[..., Any]


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("OPENAI_BASE_URL", "OPENAI_MODEL", "http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def steps_of(ended: Any) -> list[tuple[str, list[str]]]:
    return [(row["skill"], row["args"]) for row in ended.result["plan"]]


def test_a_served_model_plans_and_its_answer_is_kept(
    cli_here: Cli, server: Any, manners: ModuleType, tmp_path: Path
) -> None:
    server.behaves(manners.says(PLAN))
    asking = (*WORDS, "planner=openai", f"base_url={server.url}", "model=tiny", "notes=the floor is wet")
    ended = cli_here(*asking, "price_in=2", "price_out=10", "budget_cost=1", "record=deep/answers.jsonl")
    assert ended.code == 0, ended.err
    assert steps_of(ended) == [("place", ["red_block", "left_tray"])]
    assert ended.result["planner"] == "openai"
    llm = ended.result["llm"]
    assert set(llm) >= LLM
    assert (llm["calls"], llm["tokens_in"], llm["tokens_out"], llm["errors"]) == (1, 100, 20, {})
    assert llm["cost"] == pytest.approx(100 * 2e-6 + 20 * 10e-6)
    assert "1 of 20 calls" in ended.out
    assert "the floor is wet" in str(server.asked[0].body)
    again = cli_here(*asking)
    assert (again.result["llm"]["calls"], again.result["llm"]["cached"]) == (0, 1)
    assert steps_of(again) == steps_of(ended)
    replayed = cli_here(*WORDS, "planner=replay", "answers=deep/answers.jsonl", "notes=the floor is wet")
    assert steps_of(replayed) == steps_of(ended)
    assert len(server.asked) == 1
    shown = "".join(e.out + e.err for e in (ended, again, replayed))
    files = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    assert KEY not in shown
    assert KEY.encode() not in files


def test_the_environment_names_the_server(
    cli_here: Cli, server: Any, manners: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.behaves(manners.says(PLAN))
    monkeypatch.setenv("OPENAI_BASE_URL", server.url)
    monkeypatch.setenv("OPENAI_MODEL", "theirs")
    assert cli_here(*WORDS, "planner=openai", "cache=none").code == 0
    assert server.asked[0].body["model"] == "theirs"
    assert server.asked[0].headers["authorization"] == f"Bearer {KEY}"


def test_votes(cli_here: Cli, server: Any, manners: ModuleType) -> None:
    blue = manners.says(PLAN.replace("red", "blue"))
    server.behaves(blue, manners.says(PLAN), manners.says(PLAN))
    ended = cli_here(*WORDS, "planner=openai", f"base_url={server.url}", "votes=3")
    assert steps_of(ended) == [("place", ["red_block", "left_tray"])]
    assert ended.result["llm"]["calls"] == 3


@pytest.mark.parametrize(
    ("said", "kind", "reason"),
    [
        ('[{"skill": "place", "args": ["red_block", "99,99,99"]}]', "refused_plan", "unreachable"),
        ('[{"skill": "place", "args": ["cup", "left_tray"]}]', "refused_plan", "unknown_object"),
        ('[{"skill": "go_to", "args": ["table"]}]', "refused_plan", "impossible"),
        ("I cannot say.", "no_json", "unparsable"),
    ],
)
def test_nothing_moves_on_a_bad_plan(
    said: str, kind: str, reason: str, cli_here: Cli, server: Any, manners: ModuleType, tmp_path: Path
) -> None:
    server.behaves(manners.says(said))
    ended = cli_here(*WORDS, "planner=openai", f"base_url={server.url}", "execute=true", "out=run")
    assert ended.code == 3
    assert ended.result["failure"]["reason"] == reason
    assert ended.result["llm"]["errors"] == {kind: 2}
    assert "executed" not in ended.result
    assert not (tmp_path / "run" / "states.npz").exists()


def test_a_budget_of_nothing_asks_nothing(cli_here: Cli, server: Any, manners: ModuleType) -> None:
    server.behaves(manners.says(PLAN))
    ended = cli_here(*WORDS, "planner=openai", f"base_url={server.url}", "budget_calls=0")
    assert ended.code == 3
    assert ended.result["failure"]["reason"] == "budget"
    assert "budget_calls=" in ended.result["failure"]["message"]
    assert server.asked == []


def test_what_a_model_cost_is_told_where_no_controller_can_do_it(
    cli_here: Cli, server: Any, manners: ModuleType
) -> None:
    server.behaves(manners.says(PLAN))
    words = (*WORDS, "planner=openai", f"base_url={server.url}", "execute=true", "run=zoo:fetch_reach")
    ended = cli_here(*words)
    assert ended.code == 3
    assert ended.result["llm"]["calls"] == 1


def test_a_server_that_is_not_there_is_a_line(cli_here: Cli) -> None:
    ended = cli_here(*WORDS, "planner=openai", "base_url=http://127.0.0.1:9/v1")
    assert ended.code == 3
    assert ended.result["failure"]["reason"] == "model_unavailable"
    assert "127.0.0.1:9 cannot be reached" in ended.out


@pytest.mark.parametrize(
    ("words", "mention"),
    [
        (["planner=openai"], "OPENAI_BASE_URL"),
        (["planner=openai", f"base_url=http://me:{KEY}@127.0.0.1/v1"], "key_file="),
        (["planner=openai", "base_url=here"], "no address"),
        (["planner=openai", "base_url=http://127.0.0.1:9", "key_file=nothing"], "cannot be read"),
        (["planner=openai", f"api_key={KEY}"], "unknown key 'api_key'"),
        (["planner=openai", "base_url=http://127.0.0.1:9", "votes=99"], "votes=99"),
        (["planner=openai", "base_url=http://127.0.0.1:9", "budget_cost=1"], "price_in="),
        (["planner=openai", "base_url=http://127.0.0.1:9", "answers=x"], "planner=replay"),
        (["planner=rules", "votes=3"], "votes= belongs to planner=openai"),
        (["planner=rules", "model=x"], "model= belongs to"),
        (["planner=replay"], "answers="),
        (["planner=replay", "answers=nothing"], "cannot be read"),
        (["planner=saycan"], "model="),
        (["planner=saycan", "model=/no/where"], "no folder"),
        (["planner=saycan", "model=x", "votes=2"], "votes= belongs to"),
        (["planner=openia"], "did you mean 'openai'"),
    ],
)
def test_a_mistake_is_a_line(words: list[str], mention: str, cli_here: Cli, tmp_path: Path) -> None:
    ended = cli_here(*WORDS, *words)
    assert ended.code == 2
    assert ended.out == ""
    assert len(ended.err.strip().splitlines()) == 1
    assert mention in ended.err
    assert KEY not in ended.err
    assert not (tmp_path / "runs").exists()


class Words:
    """Stands in for a model in process: likes one step's words, then the end."""

    name = "words"
    asked = 0

    def prompt_bound(self, question: Any) -> int:
        return question.bytes

    def score(self, question: Any, continuations: Sequence[str]) -> Any:
        self.asked += 1
        liked = "put the red block (red_block) in the white tray" if self.asked == 1 else "done"
        values = tuple(0.0 if liked in text else -20.0 for text in continuations)
        return SimpleNamespace(values=values, tokens=7)


def test_saycan_weighs_words_with_the_controllers_critics(cli_here: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("embodied.planning.local_model.load_local_model", lambda model: Words())
    ended = cli_here(*WORDS, "planner=saycan", "model=words")
    assert ended.code == 0, ended.err
    assert steps_of(ended) == [("place", ["red_block", "left_tray"])]
    assert (ended.result["llm"]["calls"], ended.result["llm"]["tokens_in"]) == (2, 14)


def test_a_step_is_worth_to_its_controller_what_it_can_do() -> None:
    """The critic's chance lies in [0, 1], falls with the distance, and is nothing where there is no controller."""
    from embodied_launch import build
    from embodied_launch.affordance import CriticAffordance

    from embodied.planning.grounding import GroundingContext, ground
    from embodied.types import SKILLS, PlanStep
    from vlm_describer.oracle import OracleDescriber

    world = build.open_world("tabletop_blocks", "fetch", None, None)
    context = GroundingContext.for_robot("fetch", refuse_unreachable=False)
    controllers = build.controllers_for(SKILLS, "fetch", "")
    chance = CriticAffordance(controllers, lambda steps, seen: ground(steps, seen, context), world.reset(0))
    scene = OracleDescriber(world.scene_state).describe(())
    x, y, z = world.scene_state().gripper_position_m or (0.0, 0.0, 0.0)
    here, there, away = (chance(PlanStep("reach", (f"{x + d},{y},{z}",)), scene) for d in (0.0, 0.12, 0.25))
    assert 1.0 >= here > there > away >= 0.0
    assert here > 0.8
    assert chance(PlanStep("hold", ()), scene) == 1.0
    assert chance(PlanStep("pick", ("table",)), scene) == 0.0
    assert chance(PlanStep("go_to", ("table",)), scene) == 0.0
    assert 0.0 < chance(PlanStep("place", ("red_block", "left_tray")), scene) <= 1.0
    world.close()
