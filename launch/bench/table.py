"""A table that grows a row at a time and outlives a crash: one JSON object a line."""

from __future__ import annotations

import fcntl
import json
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO, Any

from embodied.errors import IntegrityError, UserError

from ..outcome import plain

Row = dict[str, Any]


class Table:
    """Rows in a jsonl file; each is on the disk before `append` returns.

    Only one process at a time may write a table, until it ends, however it ends. A last line without its end, as a kill
    in the middle of a write leaves it, is cut off with a line on stderr.
    """

    def __init__(self, path: Path, *, resume: bool = False, on_claim: Callable[[], object] = lambda: None) -> None:
        """
        Args:
            path: The file; made with the first row.
            resume: Go on behind the rows that are there.
            on_claim: Called once a new table is this process's own, before its first row.

        Raises:
            UserError: There are rows already, and `resume` is False; or another process writes it.
            IntegrityError: A line that is no JSON object.
        """
        self.path = path
        self.folder = path.parent
        """For what a suite leaves beside its rows."""
        self.summary: Row = {}
        """What a suite says of the rows as a whole; goes into result.json."""
        self.failures: list[str] = []
        """A line for each row that could not be made."""
        self._rows: list[Row] = []
        self._lock: IO[bytes] | None = None
        self._on_claim = on_claim
        if path.exists():
            if not resume:
                raise self._taken()
            self._take_lock()
            self._rows = self._read()

    @property
    def rows(self) -> list[Row]:
        """All rows, oldest first."""
        return list(self._rows)

    def done(self, **key: Any) -> bool:
        """Whether there is a row with all these values."""
        return any(all(name in row and row[name] == value for name, value in key.items()) for row in self._rows)

    def claim(self) -> None:
        """From now on no other process may begin or go on with this table; the first `append` does so too.

        Raises:
            UserError: Another process did in the meantime, or the folder cannot be made.
        """
        if self._lock is None:
            try:
                self.folder.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise UserError(
                    f"cannot make the folder '{self.folder}': {error.strerror}; choose another out="
                ) from None
            self._take_lock()
            if self.path.exists():
                raise self._taken()
            self._on_claim()

    def append(self, row: Mapping[str, Any]) -> None:
        """One more row: a flat object of JSON values; numbers that JSON cannot say become null.

        Raises:
            ValueError: A value that is a list or an object itself.
            UserError: Another process began the same table in the meantime.
        """
        clean: Row = plain(row)
        nested = [name for name, value in clean.items() if isinstance(value, list | dict)]
        if nested:
            raise ValueError(f"a row is flat: {', '.join(nested)} are not")
        self.claim()
        with self.path.open("ab") as file:
            file.write((json.dumps(clean, ensure_ascii=False, allow_nan=False) + "\n").encode())
            file.flush()
            os.fsync(file.fileno())
        self._rows.append(clean)

    def _take_lock(self) -> None:
        """It is the process's, so that one process may open a table twice."""
        lock = self.path.with_name(f".{self.path.name}.lock").open("ab")
        try:
            fcntl.lockf(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            lock.close()
            raise UserError(f"another process writes '{self.path}': wait for it, or choose another out=") from None
        self._lock = lock

    def _taken(self) -> UserError:
        return UserError(f"'{self.path}' is there already: go on with resume=auto, or choose another out=")

    def _read(self) -> list[Row]:
        data = self.path.read_bytes()
        whole = data[: data.rfind(b"\n") + 1]
        if len(whole) < len(data):
            print(f"{self.path}: the last line was not written to its end and is dropped", file=sys.stderr)
            os.truncate(self.path, len(whole))
        return [self._parse(number, line) for number, line in enumerate(whole.splitlines(), 1)]

    def _parse(self, number: int, line: bytes) -> Row:
        try:
            row = json.loads(line)
        except ValueError:
            row = None
        if not isinstance(row, dict):
            raise IntegrityError(f"{self.path}, line {number}, is no JSON object: take the line out, then go on")
        return row
