"""The cache of answers: the same question once, two processes at once, damage set aside in one line."""

from __future__ import annotations

import multiprocessing
import os
import sqlite3
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from embodied.planning.asking import Answer, Message, Question
from embodied.planning.cache import AnswerCache

QUESTION = Question((Message("user", "what now?"),), {"type": "object"}, 0.3, 100, 2)
ANSWER = Answer("this", "because", "stop", 12, 3)


def test_an_answer_is_found_again_for_the_same_question_only(tmp_path: Path) -> None:
    AnswerCache(tmp_path / "deep" / "answers.sqlite").put("a model", QUESTION, ANSWER)
    cache = AnswerCache(tmp_path / "deep" / "answers.sqlite")
    assert cache.get("a model", QUESTION) == Answer("this", "because", "stop", cached=True)
    assert cache.get("another model", QUESTION) is None
    for other in (
        replace(QUESTION, messages=(Message("user", "what now??"),)),
        replace(QUESTION, messages=(Message("system", "what now?"),)),
        replace(QUESTION, schema=None),
        replace(QUESTION, temperature=0.0),
        replace(QUESTION, max_tokens=101),
        replace(QUESTION, sample=3),
    ):
        assert cache.get("a model", other) is None


def fill(path: Path, first: int, count: int) -> None:
    cache = AnswerCache(path)
    for number in range(first, first + count):
        cache.put("model", replace(QUESTION, sample=number), replace(ANSWER, content=str(number)))
    os._exit(0 if cache.get("model", replace(QUESTION, sample=first)) else 1)


def test_two_processes_write_at_once(tmp_path: Path) -> None:
    path = tmp_path / "answers.sqlite"
    fork = multiprocessing.get_context("fork")
    writers = [fork.Process(target=fill, args=(path, 1000 * k, 40)) for k in range(2)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join(60)
    assert [writer.exitcode for writer in writers] == [0, 0]
    cache = AnswerCache(path)
    found = [cache.get("model", replace(QUESTION, sample=1000 * k + i)) for k in range(2) for i in range(40)]
    assert [answer and answer.content for answer in found] == [str(1000 * k + i) for k in range(2) for i in range(40)]


def damaged(path: Path, way: str) -> None:
    AnswerCache(path).put("model", QUESTION, ANSWER)
    sqlite3.connect(path).execute("PRAGMA wal_checkpoint(TRUNCATE)")
    data = path.read_bytes()
    if way == "other table":
        path.unlink()
        with sqlite3.connect(path) as connection:
            connection.execute("CREATE TABLE answers (a, b)")
        return
    path.write_bytes({"no database": b"hello, world" * 100, "cut": data[: len(data) // 3]}[way])


@pytest.mark.parametrize("way", ["no database", "cut", "other table"])
def test_a_damaged_file_is_set_aside(way: str, tmp_path: Path) -> None:
    path, lines = tmp_path / "answers.sqlite", list[str]()
    damaged(path, way)
    cache = AnswerCache(path, lines.append)
    assert cache.get("model", QUESTION) is None
    cache.put("model", QUESTION, ANSWER)
    assert cache.get("model", QUESTION) == replace(ANSWER, tokens_in=None, tokens_out=None, cached=True)
    assert len(lines) == 1
    assert "answers.sqlite.damaged-1" in lines[0]
    assert (tmp_path / "answers.sqlite.damaged-1").exists()
    assert AnswerCache(path, lines.append).get("model", QUESTION) is not None
    assert len(lines) == 1


def test_a_row_that_was_changed_does_not_count(tmp_path: Path) -> None:
    path = tmp_path / "answers.sqlite"
    AnswerCache(path).put("model", QUESTION, ANSWER)
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE answers SET answer = replace(answer, 'this', 'that')")
    assert AnswerCache(path).get("model", QUESTION) is None


def test_one_that_cannot_be_written_is_done_without(tmp_path: Path) -> None:
    lines: list[str] = []
    (tmp_path / "file").write_text("")
    cache = AnswerCache(tmp_path / "file" / "answers.sqlite", lines.append)
    cache.put("model", QUESTION, ANSWER)
    assert cache.get("model", QUESTION) is None
    assert len(lines) == 1
    assert "answers are not kept" in lines[0]


def test_a_file_that_goes_bad_meanwhile_does_no_harm(tmp_path: Path) -> None:
    lines: list[str] = []
    path = tmp_path / "answers.sqlite"
    cache = AnswerCache(path, lines.append)
    other: Any = sqlite3.connect(path)
    other.execute("DROP TABLE answers")
    other.close()
    cache.put("model", QUESTION, ANSWER)
    assert cache.get("model", QUESTION) is None
    assert len(lines) == 1
