"""A real HTTP server with bad manners: each gets its class and a line, none crashes, none costs more than allowed."""

from __future__ import annotations

import json
import logging
import random
import socket
import time
import traceback
from collections.abc import Callable
from dataclasses import replace
from types import ModuleType
from typing import Any

import pytest

from embodied.errors import UserError
from embodied.planning.asking import Asker, Message, ModelError, Question, RetryConfig
from embodied.planning.budget import Account, BudgetConfig
from embodied.planning.http_post import HttpLimits
from embodied.planning.model_planner import ModelPlanner, ModelPlannerConfig
from embodied.planning.secret import Secret
from embodied.planning.server import ServedModel, ServerConfig
from embodied.types import PlanFailure, PlanStep, SceneDescription

KEY = "sk-do-not-tell-9f3a"
PLAN = {"plan": [{"skill": "place", "args": ["red_block", "left_tray"], "avoid": []}], "failure": None}
GOOD = json.dumps(PLAN)
STEPS = (PlanStep("place", ("red_block", "left_tray")),)
FAST = HttpLimits(connect_s=1.0, read_s=0.05, total_s=0.15, max_bytes=200_000)


class Clock:
    """Sleeps without time; remembers for how long."""

    def __init__(self) -> None:
        self.slept: list[float] = []

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_BASE_URL", "OPENAI_MODEL", "http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("OPENAI_API_KEY", KEY)


Make = Callable[..., tuple[ModelPlanner, Clock]]


@pytest.fixture
def make(server: Any) -> Make:
    """A planner that asks the rude server."""

    def build(
        limits: HttpLimits = FAST, retry: RetryConfig | None = None, budget: BudgetConfig | None = None, **config: Any
    ) -> tuple[ModelPlanner, Clock]:
        clock = Clock()
        model = ServedModel(ServerConfig(server.url, "tiny", limits=limits))
        account = Account(budget or BudgetConfig())
        asker = Asker(model, account, retry=retry or RetryConfig(), sleep=clock.sleep, jitter=random.Random(1))
        return ModelPlanner("openai", asker, ModelPlannerConfig(**config)), clock

    return build


def errors(planner: ModelPlanner) -> dict[str, int]:
    return planner.usage()["errors"]


def test_a_plain_answer(server: Any, manners: ModuleType, make: Make, blocks: SceneDescription) -> None:
    server.behaves(manners.says(GOOD))
    planner, _ = make()
    assert planner.propose("put the red block in the left tray", blocks) == STEPS
    (asked,) = server.asked
    assert asked.path == "/v1/chat/completions"
    assert asked.headers["authorization"] == f"Bearer {KEY}"
    assert asked.body["model"] == "tiny"
    assert asked.body["stream"] is False
    assert asked.body["response_format"]["json_schema"]["strict"] is True
    assert "put the red block in the left tray" in asked.body["messages"][-1]["content"]
    usage = planner.usage()
    assert (usage["calls"], usage["tokens_in"], usage["tokens_out"], usage["errors"]) == (1, 100, 20, {})
    assert len(usage["prompt_sha256"]) == 1


ODD_BUT_GOOD = {
    "prose": (f"Sure! Here is the plan:\n{GOOD}\nGood luck.", None),
    "fenced": (f"```json\n{GOOD}\n```", None),
    "a bare list": (json.dumps(PLAN["plan"]), None),
    "thought": (f"<think>the tray {{is}} [left]</think>\n{GOOD}", None),
    "as in a result file": (json.dumps([{**PLAN["plan"][0], "target_m": [1.3, 0.98, 0.43], "max_steps": None}]), None),
    "in the reasoning": (None, f"The answer is {GOOD}"),
    "empty and in the reasoning": ("", GOOD),
    "in parts": ([{"type": "text", "text": GOOD[:20]}, {"type": "text", "text": GOOD[20:]}], None),
    "twice the same": (f"{GOOD} as I said: {GOOD}", None),
}


@pytest.mark.parametrize("name", ODD_BUT_GOOD)
def test_a_good_plan_is_found(
    name: str, server: Any, manners: ModuleType, make: Make, blocks: SceneDescription
) -> None:
    server.behaves(manners.says(*ODD_BUT_GOOD[name]))
    planner, _ = make()
    assert planner.propose("put the red block in the left tray", blocks) == STEPS
    assert len(server.asked) == 1


BAD = {
    "empty": ("", None, "stop", "empty"),
    "white space to the limit": (" \n" * 500, None, "length", "white_space"),
    "no JSON": ("I would put it into the tray.", None, "stop", "no_json"),
    "truncated": (GOOD[:-30], None, "length", "truncated"),
    "another key": (json.dumps({**PLAN, "confidence": 0.9}), None, "stop", "schema"),
    "another key in a step": (json.dumps([{**PLAN["plan"][0], "force_n": 90}]), None, "stop", "schema"),
    "coordinates of its own": (json.dumps([{**PLAN["plan"][0], "target_m": [9, 9, 9]}]), None, "stop", "schema"),
    "the schema": (json.dumps({"type": "object", "properties": {"plan": {}}}), None, "stop", "schema_echoed"),
    "another schema": (json.dumps({"actions": ["go"]}), None, "stop", "schema"),
    "no steps": (json.dumps({"plan": [], "failure": None}), None, "stop", "refused_plan"),
    "plan and failure": (json.dumps({**PLAN, "failure": {"reason": "impossible"}}), None, "stop", "schema"),
    "a skill that is none": (json.dumps([{"skill": "throw", "args": ["red_block"]}]), None, "stop", "schema"),
    "too many arguments": (json.dumps([{"skill": "pick", "args": ["red_block", "table"]}]), None, "stop", "schema"),
    "a thing that is not there": (json.dumps([{"skill": "pick", "args": ["cup"]}]), None, "stop", "refused_plan"),
    "a fixed thing": (json.dumps([{"skill": "pick", "args": ["table"]}]), None, "stop", "refused_plan"),
    "a skill of another robot": (json.dumps([{"skill": "go_to", "args": ["table"]}]), None, "stop", "refused_plan"),
    "a draft in what is cut off": (f'{{"draft": {GOOD}, "plan": [{{"skill": "pi', None, "length", "truncated"),
    "a broken one after it": (f'{GOOD} or rather {{"plan": [', None, "stop", "truncated"),
    "two plans": (f'{GOOD} or {GOOD.replace("red", "blue")}', None, "stop", "several_plans"),
    "a key twice": ('{"plan": [], "plan": []}', None, "stop", "truncated"),
    "no number": ('[{"skill": "hold", "args": [], "max_steps": NaN}]', None, "stop", "truncated"),
    "deep": ("[" * 900 + "]" * 900, None, "stop", "truncated"),
    "very deep": ("[" * 50_000, None, "stop", "truncated"),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_a_bad_answer_is_counted_and_corrected_once(
    name: str, server: Any, manners: ModuleType, make: Make, blocks: SceneDescription
) -> None:
    content, reasoning, finish, kind = BAD[name]
    server.behaves(manners.says(content, reasoning, finish), manners.says(GOOD))
    planner, _ = make(skills=("touch", "pick", "place", "stack", "hold"))
    assert planner.propose("put the red block in the left tray", blocks) == STEPS
    assert errors(planner) == {kind: 1}
    repair = server.asked[1].body["messages"]
    assert [message["role"] for message in repair] == ["system", "user", "assistant", "user"]
    assert "refused" in repair[-1]["content"]
    server.behaves(manners.says(content, reasoning, finish))
    stubborn, _ = make(skills=("touch", "pick", "place", "stack", "hold"))
    refused = stubborn.propose("put the red block in the left tray", blocks)
    assert isinstance(refused, PlanFailure)
    assert "correction" in refused.message
    assert len(server.asked) == 2
    assert errors(stubborn) == {kind: 2}


def test_the_error_is_quoted_in_the_repair(
    server: Any, manners: ModuleType, make: Make, blocks: SceneDescription
) -> None:
    server.behaves(manners.says(json.dumps([{"skill": "pick", "args": ["cup"]}])), manners.says(GOOD))
    make()[0].propose("put the red block in the left tray", blocks)
    assert "there is no 'cup' here" in server.asked[1].body["messages"][-1]["content"]


def test_the_model_may_refuse(server: Any, manners: ModuleType, make: Make, blocks: SceneDescription) -> None:
    said = {"plan": [], "failure": {"reason": "unknown_object", "message": "There is\x1b[31m no\nbanana."}}
    server.behaves(manners.says(json.dumps(said)))
    planner, _ = make()
    refused = planner.propose("pick up the banana", blocks)
    assert refused == PlanFailure("unknown_object", "the model says: There is [31m no banana.")


def transport(manners: ModuleType) -> dict[str, tuple[Any, str, str, int]]:
    """Manner, class, reason of the failure, requests."""
    return {
        "silent": (manners.silent, "timeout", "timed_out", 3),
        "drips": (manners.drips, "timeout", "timed_out", 3),
        "reset": (manners.resets, "reset", "model_unavailable", 3),
        "cut off": (manners.raw(200, b'{"choices"', length=500), "reset", "model_unavailable", 3),
        "500": (manners.status(500), "server_error", "model_unavailable", 3),
        "503": (manners.status(503), "server_error", "model_unavailable", 3),
        "429": (manners.status(429), "rate_limited", "model_unavailable", 3),
        "no quota": (manners.status(429, "insufficient_quota"), "rate_limited", "model_unavailable", 1),
        "401": (manners.status(401), "rejected", "model_unavailable", 1),
        "404": (manners.status(404, "no such model"), "rejected", "model_unavailable", 1),
        "redirect": (manners.status(307, Location="http://127.0.0.1:1/v1"), "redirect", "model_unavailable", 1),
        "gigantic": (manners.endless, "too_large", "model_unavailable", 1),
        "no HTTP": (manners.noise, "bad_response", "model_unavailable", 1),
        "no JSON": (manners.raw(200, b"<html>ok</html>", "text/html"), "bad_response", "model_unavailable", 1),
        "no text": (manners.raw(200, b"\xff\xfe\x00"), "bad_response", "model_unavailable", 1),
        "a stream": (manners.raw(200, b"data: {}\n\n", "text/event-stream"), "bad_response", "model_unavailable", 1),
        "no choices": (manners.raw(200, b'{"choices": []}'), "bad_response", "model_unavailable", 1),
        "an error": (manners.raw(200, b'{"error": {"message": "no"}}'), "bad_response", "model_unavailable", 1),
        "a number": (manners.raw(200, b"17"), "bad_response", "model_unavailable", 1),
        "odd choice": (manners.raw(200, b'{"choices": [{"message": 3}]}'), "bad_response", "model_unavailable", 1),
    }  # fmt: skip


TRANSPORT = [
    "silent", "drips", "reset", "cut off", "500", "503", "429", "no quota", "401", "404", "redirect", "gigantic",
    "no HTTP", "no JSON", "no text", "a stream", "no choices", "an error", "a number", "odd choice",
]  # fmt: skip


@pytest.mark.parametrize("name", TRANSPORT)
def test_a_bad_server_is_a_failure_with_its_class(
    name: str, server: Any, manners: ModuleType, make: Make, blocks: SceneDescription
) -> None:
    manner, kind, reason, requests = transport(manners)[name]
    server.behaves(manner)
    limits = FAST if reason == "timed_out" else replace(FAST, read_s=2.0, total_s=5.0)
    planner, clock = make(limits=limits)
    refused = planner.propose("put the red block in the left tray", blocks)
    assert isinstance(refused, PlanFailure)
    assert refused.reason == reason
    assert "\n" not in refused.message
    assert errors(planner) == {kind: requests}
    assert len(server.asked) == requests == planner.usage()["calls"]
    assert len(clock.slept) == requests - 1
    if requests == 3:
        # 0.5 and 1 s, each cut by up to a half.
        assert 0.25 <= clock.slept[0] <= 0.5 <= clock.slept[1] <= 1.0


def test_the_list_of_manners_is_whole(manners: ModuleType) -> None:
    assert set(TRANSPORT) == set(transport(manners))


def test_it_comes_right_after_a_while(server: Any, manners: ModuleType, make: Make, blocks: SceneDescription) -> None:
    server.behaves(manners.status(429, Retry_After="7"), manners.status(502), manners.says(GOOD))
    planner, clock = make()
    assert planner.propose("put the red block in the left tray", blocks) == STEPS
    assert clock.slept[0] == 7.0
    assert 0.5 <= clock.slept[1] <= 1.0
    assert errors(planner) == {"rate_limited": 1, "server_error": 1}
    assert planner.usage()["seconds"] >= 7.5


def test_a_long_wait_is_not_waited_for(server: Any, manners: ModuleType, make: Make, blocks: SceneDescription) -> None:
    server.behaves(manners.status(429, Retry_After="3600"), manners.says(GOOD))
    planner, clock = make()
    refused = planner.propose("put the red block in the left tray", blocks)
    assert isinstance(refused, PlanFailure)
    assert "3600 s" in refused.message
    assert clock.slept == []
    assert len(server.asked) == 1


def test_a_date_to_wait_for_is_understood(
    server: Any, manners: ModuleType, make: Make, blocks: SceneDescription
) -> None:
    past = "Wed, 21 Oct 2015 07:28:00 GMT"
    server.behaves(manners.status(503, Retry_After=past), manners.says(GOOD))
    planner, clock = make()
    assert planner.propose("put the red block in the left tray", blocks) == STEPS
    assert clock.slept == [0.0]


def test_a_redirect_is_not_followed_with_the_key(
    server: Any, manners: ModuleType, make: Make, blocks: SceneDescription
) -> None:
    with manners.serving() as other:
        other.behaves(manners.says(GOOD))
        server.behaves(manners.status(302, Location=f"{other.url}/chat/completions"))
        assert isinstance(make()[0].propose("put the red block in the left tray", blocks), PlanFailure)
        assert other.asked == []


def test_a_wrong_content_type_is_counted_and_forgiven(
    server: Any, manners: ModuleType, make: Make, blocks: SceneDescription
) -> None:
    server.behaves(manners.says(GOOD, kind="text/plain"))
    planner, _ = make()
    assert planner.propose("put the red block in the left tray", blocks) == STEPS
    assert errors(planner) == {"content_type": 1}


@pytest.mark.parametrize(
    ("complaint", "gone", "instead"),
    [
        ("'response_format' of type 'json_schema' is not supported", "response_format", None),
        ("Unsupported parameter: 'max_tokens' is not supported", "max_tokens", "max_completion_tokens"),
        ("'temperature' does not support 0", "temperature", None),
    ],
)
def test_a_parameter_that_is_refused_is_left_out(
    complaint: str, gone: str, instead: str | None, server: Any, manners: ModuleType, make: Make,
    blocks: SceneDescription,
) -> None:  # fmt: skip
    server.behaves(manners.status(400, complaint), manners.says(GOOD))
    planner, clock = make()
    assert planner.propose("put the red block in the left tray", blocks) == STEPS
    assert gone in server.asked[0].body
    assert gone not in server.asked[1].body
    assert instead is None or instead in server.asked[1].body
    assert clock.slept == [0.0]


def test_nobody_there_is_said_at_once(make: Make, server: Any, blocks: SceneDescription) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    planner, clock = make()
    planner.asker.model = ServedModel(ServerConfig(f"http://127.0.0.1:{port}/v1"))
    began = time.monotonic()
    refused = planner.propose("put the red block in the left tray", blocks)
    assert time.monotonic() - began < 2.0
    assert isinstance(refused, PlanFailure)
    assert refused.reason == "model_unavailable"
    assert clock.slept == []
    assert errors(planner) == {"connection": 1}


def test_a_name_that_is_looked_for_without_end_is_given_up(
    make: Make, monkeypatch: pytest.MonkeyPatch, blocks: SceneDescription
) -> None:
    monkeypatch.setattr(socket, "getaddrinfo", lambda *args, **kwargs: time.sleep(2.0))
    planner, _ = make(limits=replace(FAST, connect_s=0.05))
    refused = planner.propose("put the red block in the left tray", blocks)
    assert isinstance(refused, PlanFailure)
    assert "takes no connection within 0.05 s" in refused.message


class TestSecrets:
    """The key is sent to the server and shown nowhere."""

    def test_a_server_that_echoes_it_is_masked(
        self, server: Any, manners: ModuleType, make: Make, blocks: SceneDescription, caplog: pytest.LogCaptureFixture
    ) -> None:
        caplog.set_level(logging.DEBUG)
        echo = f"Incorrect API key provided: {KEY}"
        spelled = "\\u0073" + KEY[1:]
        shown = []
        for manner in (
            manners.status(401, echo),
            manners.raw(500, echo.encode(), "text/plain"),
            manners.raw(200, json.dumps({"error": echo}).encode()),
            manners.raw(200, f'{{"error": "{spelled}"}}'.encode()),
            manners.raw(401, f'{{"error": {{"message": "{spelled}"}}}}'.encode()),
            manners.says(json.dumps({"plan": [], "failure": {"reason": "impossible", "message": echo}})),
            manners.says(echo),
            manners.says(f'{{"plan": [{{"skill": "{spelled}", "args": []}}]}}'),
            manners.status(302, echo, Location=f"http://127.0.0.1/{KEY}"),
        ):
            server.behaves(manner)
            planner, _ = make()
            shown += [planner.propose("put the red block in the left tray", blocks), planner.usage()]
            shown += [message["content"] for asked in server.asked[1:] for message in asked.body["messages"]]
        assert KEY not in str(shown)
        assert "***" in str(shown)
        assert KEY not in caplog.text

    def test_it_is_in_no_repr_and_no_traceback(self, server: Any) -> None:
        model = ServedModel(ServerConfig(server.url))
        assert KEY not in repr(vars(model))
        assert KEY not in repr(Secret(KEY)) + str(Secret(KEY)) + f"{Secret(KEY)}"

        def broken() -> None:
            secret = Secret(KEY)
            raise RuntimeError(f"{secret}")

        with pytest.raises(RuntimeError) as told:
            broken()
        assert KEY not in "".join(traceback.format_exception(told.value))

    @pytest.mark.parametrize("key", [f"{KEY}\r\nX-Evil: 1", f"{KEY} {KEY}", f"{KEY}é", KEY * 1000])
    def test_a_key_that_cannot_be_sent_is_refused_unseen(
        self, key: str, server: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("OPENAI_API_KEY", key)
        with pytest.raises(UserError, match="no key has") as told:
            ServedModel(ServerConfig(server.url))
        assert KEY not in "".join(traceback.format_exception(told.value))

    def test_a_file_may_hold_it(self, server: Any, manners: ModuleType, tmp_path: Any) -> None:
        (tmp_path / "key").write_text("from-a-file\n")
        server.behaves(manners.says(GOOD))
        model = ServedModel(ServerConfig(server.url, key_file=str(tmp_path / "key")))
        model.answer(Question((Message("user", "?"),)), Account().grant(10, 100))
        assert server.asked[0].headers["authorization"] == "Bearer from-a-file"
        with pytest.raises(UserError, match="cannot be read"):
            ServedModel(ServerConfig(server.url, key_file=str(tmp_path / "nothing")))

    @pytest.mark.parametrize(
        "url", [f"http://me:{KEY}@127.0.0.1/v1", f"http://127.0.0.1/v1?key={KEY}", f"http://127.0.0.1/v1#{KEY}"]
    )
    def test_an_address_holds_none(self, url: str) -> None:
        with pytest.raises(UserError, match="key_file=") as told:
            ServedModel(ServerConfig(url))
        assert KEY not in str(told.value)


@pytest.mark.parametrize(
    "url", ["", "127.0.0.1:80", "ftp://here/v1", "file:///etc/passwd", "http://", "http://a b/v1", "http://h:x/"]
)
def test_an_address_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(UserError, match="base_url="):
        ServedModel(ServerConfig(url))


def test_a_prompt_has_no_more_tokens_than_was_set_aside() -> None:
    """A tokenizer of bytes is the worst there is: its tokens are as many as the bytes."""
    question = Question((Message("system", "ab"), Message("user", "红é")))
    assert ServedModel(ServerConfig("http://127.0.0.1/v1")).prompt_bound(question) >= len("ab红é".encode())


def test_a_question_is_not_asked_beyond_the_budget(server: Any, manners: ModuleType, make: Make) -> None:
    server.behaves(manners.says(GOOD))
    planner, _ = make(budget=BudgetConfig(calls=0))
    with pytest.raises(ModelError, match="budget of 0 calls"):
        planner.asker.ask(Question((Message("user", "?"),)))
    assert server.asked == []
