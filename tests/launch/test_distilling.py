"""`embodied fit planner=embedded teacher=openai`: a server on loopback teaches."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from embodied_launch.distilling import Lessons, LessonSettings, asked_lines
from embodied_launch.parsing import make_embedded

from embodied.errors import UserError
from embodied.planning.teaching.fit import read_corpus

FEW = ("planner=embedded", "out=fit", "parser.sentences=16", "parser.passes=1", "parser.closing=8", "parser.judged=2")
PLAN = json.dumps({"plan": [{"skill": "place", "args": ["red_block", "left_tray"], "avoid": []}], "failure": None})


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_BASE_URL", "OPENAI_MODEL", "http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-none")


@pytest.fixture
def teaches(server: Any, manners: ModuleType) -> Any:
    """Plans one thing for everything, and rephrases by being polite."""

    def manner(connection: Any, asked: Any) -> None:
        text = asked.body["messages"][-1]["content"]
        said = PLAN
        if "wordings" in text:
            sentence = json.loads(text.partition("Instruction:\n")[2].partition("\n")[0])
            said = json.dumps({"wordings": [f"please {sentence}", "what a lovely day it is"]})
        manners.says(said)(connection, asked)

    return server.behaves(*[manner] * 40)


def settings(server: Any, **more: Any) -> LessonSettings:
    return LessonSettings(base_url=server.url, model="tutor", cache="none", **more)


def test_lessons_are_explained_and_written_once(teaches: Any, tmp_path: Path) -> None:
    lines = [
        {"scene": "tabletop_blocks", "instruction": "Put the red block in the left tray.", "goal": "not looked at"},
        {"scene": "tabletop_blocks", "instruction": "touch the blue block"},
    ]
    asked = tmp_path / "asked.jsonl"
    asked.write_text("\n".join(map(json.dumps, lines)) + "\n", "utf-8")
    lessons = Lessons("openai", settings(teaches, instructions=str(asked), rephrased=6), seed=0)
    files, told = lessons.written(make_embedded(), tmp_path, lambda what, share: None)
    assert told["lessons"] == 2 + 2 * 6
    assert 2 <= told["understood"] <= 1 + 6, "neither what was planned wrongly nor talk is understood"
    assert told["usage"]["calls"] == 8
    assert len(read_corpus(files).tokens) == told["understood"]
    assert lessons.written(make_embedded(), tmp_path, lambda what, share: None) == (files, told)
    assert len(teaches.asked) == 8, "nobody is asked twice"


def test_a_parser_that_understands_no_lesson_says_so(
    server: Any, manners: ModuleType, cli_here: Callable[..., Any]
) -> None:
    server.behaves(manners.says(json.dumps({"wordings": ["what a lovely day", "how nice"]})))
    words = (f"lessons.base_url={server.url}", "lessons.model=tutor", "lessons.rephrased=2", "lessons.cache=none")
    ended = cli_here("fit", *FEW, "teacher=openai", *words)
    assert ended.code == 2
    assert "the teacher gave 4 lessons, none of them understood" in ended.err


def test_mistakes_are_told_before_the_fit(cli_here: Callable[..., Any], tmp_path: Path) -> None:
    assert "without teacher=" in cli_here("fit", *FEW, "lessons.rephrased=3").err
    assert "belongs to planner=embedded" in cli_here("fit", "describer=clip", "teacher=openai").err
    where = ("lessons.base_url=http://127.0.0.1:9/v1", "lessons.key_file=nowhere")
    ended = cli_here("fit", *FEW, "teacher=openai", *where)
    assert ended.code == 2
    assert "nowhere" in ended.err
    assert not list(tmp_path.glob("fit/sentences/*"))
    asked = tmp_path / "asked.jsonl"
    asked.write_text('{"scene": "tabletop_blocks"}\n', "utf-8")
    with pytest.raises(UserError, match="line 1"):
        asked_lines(asked)
