"""Answers of language models that were of use, kept in one SQLite file that several processes may share."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import sqlite3
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from embodied.planning.asking import Answer, Question

FILE = "answers.sqlite"
BUSY_S = 2.0
"""How long another process's write is waited for."""
_TABLE = """
CREATE TABLE IF NOT EXISTS answers (
    key TEXT PRIMARY KEY, model TEXT NOT NULL, prompt_sha256 TEXT NOT NULL, parameters TEXT NOT NULL,
    answer TEXT NOT NULL, sha256 TEXT NOT NULL, created REAL NOT NULL
) WITHOUT ROWID
"""


def default_path() -> Path:
    """`answers.sqlite` in the user's cache folder."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "embodied-control" / FILE


class AnswerCache:
    """Answers by model, prompt and parameters.

    A cache never stops the work: a damaged file is set aside and another begun, one that cannot be written is done
    without; each says so in one line. Rows carry a checksum, and one that does not fit it is as if it were not there.
    """

    def __init__(self, path: Path, say: Callable[[str], None] = lambda line: None) -> None:
        """
        Args:
            path: The file; made where it is missing.
            say: Takes the line about a file that cannot be used.
        """
        self.path, self._say = path, say
        self._connection: sqlite3.Connection | None = None
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._connection = self._opened()
        except (OSError, sqlite3.Error) as error:
            say(f"the cache of answers {path} cannot be used ({_words(error)}): answers are not kept")

    def get(self, model: str, question: Question) -> Answer | None:
        """The answer that this model gave to this question, or None."""
        key = _key(model, question)
        row = None
        with self._guarded() as connection:
            if connection is not None:
                row = connection.execute("SELECT answer, sha256 FROM answers WHERE key = ?", (key,)).fetchone()
        if row is None or not isinstance(row[0], str) or row[1] != _sealed(key, row[0]):
            return None
        data = json.loads(row[0])
        return Answer(data["content"], data["reasoning"], data["finish"], cached=True)

    def put(self, model: str, question: Question, answer: Answer) -> None:
        """Keeps an answer in place of what was kept for this question."""
        key = _key(model, question)
        text = json.dumps({"content": answer.content, "reasoning": answer.reasoning, "finish": answer.finish})
        told = json.dumps(question.parameters, sort_keys=True)
        row = (key, model, question.prompt_sha256, told, text, _sealed(key, text), time.time())
        with self._guarded() as connection:
            if connection is not None:
                connection.execute("INSERT OR REPLACE INTO answers VALUES (?, ?, ?, ?, ?, ?, ?)", row)

    def close(self) -> None:
        """Lets the file go."""
        if self._connection is not None:
            with contextlib.suppress(sqlite3.Error):
                self._connection.close()
        self._connection = None

    @contextlib.contextmanager
    def _guarded(self) -> Iterator[sqlite3.Connection | None]:
        """The connection; an error in using it is told, and the cache done without or begun anew."""
        try:
            yield self._connection
        except sqlite3.OperationalError as error:
            self.close()
            self._say(f"the cache of answers {self.path} cannot be used ({_words(error)}): answers are not kept")
        except sqlite3.Error:
            self.close()
            with contextlib.suppress(OSError, sqlite3.Error):
                self._connection = self._opened()

    def _opened(self) -> sqlite3.Connection:
        try:
            return self._checked()
        except sqlite3.OperationalError:
            raise
        except sqlite3.DatabaseError:
            self._set_aside()
            return self._checked()

    def _checked(self) -> sqlite3.Connection:
        """A connection to a file that is whole.

        Raises:
            sqlite3.DatabaseError: It is damaged.
        """
        connection = sqlite3.connect(self.path, timeout=BUSY_S, isolation_level=None, check_same_thread=False)
        try:
            connection.execute("PRAGMA journal_mode=WAL")
            connection.execute("PRAGMA synchronous=NORMAL")
            found = connection.execute("PRAGMA quick_check(1)").fetchone()
            if found != ("ok",):
                raise sqlite3.DatabaseError("damaged")
            connection.execute(_TABLE)
            columns = [row[1] for row in connection.execute("PRAGMA table_info(answers)")]
            if columns != ["key", "model", "prompt_sha256", "parameters", "answer", "sha256", "created"]:
                raise sqlite3.DatabaseError("another program's table")
        except BaseException:
            connection.close()
            raise
        return connection

    def _set_aside(self) -> None:
        """Renames the damaged file; one process at a time, and not where another has done it meanwhile."""
        with open(self.path.with_name(self.path.name + ".lock"), "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            with contextlib.suppress(sqlite3.Error):
                self._checked().close()
                return
            number = 1
            while (aside := self.path.with_name(f"{self.path.name}.damaged-{number}")).exists():
                number += 1
            for ending in ("-wal", "-shm"):
                self.path.with_name(self.path.name + ending).unlink(missing_ok=True)
            self.path.rename(aside)
        self._say(f"the cache of answers {self.path} is damaged: it is kept as {aside.name}, another is begun")


def _key(model: str, question: Question) -> str:
    whole = [model, question.prompt_sha256, question.parameters]
    return hashlib.sha256(json.dumps(whole, sort_keys=True).encode()).hexdigest()


def _sealed(key: str, text: str) -> str:
    return hashlib.sha256(f"{key}\n{text}".encode()).hexdigest()


def _words(error: Exception) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or str(error) or type(error).__name__
