"""A key that does not show: not when printed, not in a traceback, not in what others say."""

from __future__ import annotations

import os
import re
from pathlib import Path

from embodied.errors import UserError

MASK = "***"
LONGEST = 4096


class Secret:
    """Text that only `reveal` gives away."""

    __slots__ = ("_spelled", "_text")

    def __init__(self, text: str = "") -> None:
        """
        Raises:
            UserError: The text cannot be sent in a header; does not show it.
        """
        text = text.strip()
        if len(text) > LONGEST or not all("!" <= c <= "~" for c in text):
            raise UserError("the model server's key holds blanks, line ends or other signs that no key has; check it")
        self._text = text
        # JSON may spell any letter as an escape, and JSON within JSON the backslash too.
        self._spelled = re.compile("".join(rf"(?:{re.escape(c)}|\\+u00(?i:{ord(c):02x}))" for c in text))

    def __repr__(self) -> str:
        return f"Secret({MASK})" if self._text else "Secret()"

    __str__ = __repr__

    def __bool__(self) -> bool:
        return bool(self._text)

    def __reduce__(self) -> tuple[object, ...]:
        raise TypeError("a secret is not written to files")

    def reveal(self) -> str:
        """The text itself."""
        return self._text

    def hidden_in(self, text: str) -> str:
        """The text with every occurrence of the secret masked, those in JSON's escapes too."""
        return self._spelled.sub(MASK, text) if self._text else text


def read_secret(variable: str, file: str = "") -> Secret:
    """The key in a file, or without one in an environment variable; empty where there is none.

    Raises:
        UserError: The file cannot be read, or what it holds is no key.
    """
    if not file:
        return Secret(os.environ.get(variable, "")) if variable else Secret()
    try:
        with Path(file).expanduser().open(encoding="utf-8") as opened:
            return Secret(opened.read(LONGEST + 2))
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "not UTF-8 text"
        raise UserError(f"key_file={file} cannot be read ({why}): give a file that holds the key alone") from None
