"""Answers of language models in a file: written while a model answers, and read in its place later.

A line of JSON for each: `prompt_sha256`, `sample`, `model`, `content`, `reasoning`, `finish`, `tokens_in`,
`tokens_out`. A prompt is everything that a model was told, so an answer is found again only for the same question.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from embodied.errors import IntegrityError, UserError
from embodied.planning.asking import Answer, Grant, ModelError, Question

MAX_FILE_BYTES = 200_000_000


class AnswerRecorder:
    """Appends answers to a file, each at once, so that what was answered before a kill is kept."""

    def __init__(self, path: str | Path) -> None:
        """
        Raises:
            UserError: The file cannot be written, or holds something else.
        """
        self.path = Path(path).expanduser()
        whole = 0
        if self.path.exists():
            read_answers(self.path)
            whole = self.path.read_bytes().rfind(b"\n") + 1
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._file = self.path.open("a", encoding="utf-8")
            # A last line that a kill cut off would spoil the next one.
            self._file.truncate(whole)
        except OSError as error:
            raise UserError(
                f"answers cannot be written to {self.path} ({error.strerror}); choose another file"
            ) from None

    def __call__(self, model: str, question: Question, answer: Answer) -> None:
        """Writes one answer."""
        row = {
            "prompt_sha256": question.prompt_sha256, "sample": question.sample, "model": model,
            "content": answer.content, "reasoning": answer.reasoning, "finish": answer.finish,
            "tokens_in": answer.tokens_in, "tokens_out": answer.tokens_out,
        }  # fmt: skip
        self._file.write(json.dumps(row) + "\n")
        self._file.flush()

    def close(self) -> None:
        """Lets the file go."""
        self._file.close()


class RecordedModel:
    """Implements `LanguageModel` with recorded answers; the last one of several to the same question counts."""

    def __init__(self, path: str | Path) -> None:
        """
        Raises:
            UserError: There is no such file, or it holds no answers.
        """
        if not str(path):
            raise UserError("planner=replay needs answers=<file>: one that a run with record=<file> has written")
        self.path = Path(path).expanduser()
        self._answers = read_answers(self.path)

    @property
    def name(self) -> str:
        return f"recorded in {self.path.name}"

    def prompt_bound(self, question: Question) -> int:
        return question.bytes

    def answer(self, question: Question, grant: Grant) -> Answer:
        """The recorded answer.

        Raises:
            ModelError: `not_recorded`: this question was not asked then.
        """
        found = self._answers.get((question.prompt_sha256, question.sample))
        if found is None:
            raise ModelError(
                "not_recorded", f"{self.path} holds no answer to this question (prompt {question.prompt_sha256[:12]}): "
                "scene, instruction, notes and history have to be as they were",
            )  # fmt: skip
        return found


def read_answers(path: Path) -> dict[tuple[str, int], Answer]:
    """Answers by prompt hash and sample; a last line that was cut off is left out.

    Raises:
        UserError: The file cannot be read.
        IntegrityError: A line is no recorded answer.
    """
    try:
        if path.stat().st_size > MAX_FILE_BYTES:
            raise UserError(f"{path} has more than {MAX_FILE_BYTES} bytes: it is no file of recorded answers")
        text = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "not UTF-8 text"
        raise UserError(f"recorded answers {path}: cannot be read ({why})") from None
    found = {}
    lines = text.split("\n")
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
            found[_text(row, "prompt_sha256"), _number(row, "sample") or 0] = _answer(row)
        except (ValueError, KeyError, TypeError, RecursionError):
            if number < len(lines):
                raise IntegrityError(f"recorded answers {path}: line {number} is no recorded answer") from None
    return found


def _answer(row: dict[str, Any]) -> Answer:
    return Answer(
        content=_text(row, "content"),
        reasoning=_text(row, "reasoning"),
        finish=_text(row, "finish"),
        tokens_in=_number(row, "tokens_in"),
        tokens_out=_number(row, "tokens_out"),
    )


def _text(row: dict[str, Any], name: str) -> str:
    if not isinstance(row[name], str):
        raise TypeError(name)
    return row[name]


def _number(row: dict[str, Any], name: str) -> int | None:
    value = row[name]
    if value is not None and (not isinstance(value, int) or isinstance(value, bool)):
        raise TypeError(name)
    return value
