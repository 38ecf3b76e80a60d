"""A language model behind a server with OpenAI's chat completions: vLLM, Ollama, llama.cpp, LM Studio or a provider.

What is asked for stands in https://platform.openai.com/docs/api-reference/chat; what servers make of it is checked
here: none of them is trusted to keep to the schema (`answers.py`).
"""

from __future__ import annotations

import email.utils
import json
import os
import time
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import urlsplit

from embodied.errors import UserError
from embodied.planning.asking import Answer, Grant, ModelError, Question
from embodied.planning.http_post import HttpLimits, Response, post_json
from embodied.planning.places import quoted
from embodied.planning.secret import Secret, read_secret

MESSAGE_TOKENS = 64
"""Allowed for a chat template around each message."""
_ADAPTED = {
    "response_format": ("response_format", "json_schema", "schema", "grammar", "structured"),
    "max_tokens": ("max_tokens",), "temperature": ("temperature",), "seed": ("seed",),
}  # fmt: skip
"""Parameters that a server may refuse, and the words that it then says."""


@dataclass(frozen=True)
class ServerConfig:
    """Where a model is served and how it is asked."""

    base_url: str = ""
    """Up to and with `/v1`; empty: the environment's OPENAI_BASE_URL."""
    model: str = ""
    """Its name there; empty: the environment's OPENAI_MODEL, else `default`."""
    key_variable: str = "OPENAI_API_KEY"
    """Name of the environment variable that holds the key."""
    key_file: str = ""
    """A file that holds the key instead."""
    limits: HttpLimits = field(default_factory=HttpLimits)


class ServedModel:
    """Implements `LanguageModel` over HTTP. The key is sent to `base_url` alone, and masked in all that comes back."""

    def __init__(self, config: ServerConfig) -> None:
        """
        Raises:
            UserError: No base URL, one that cannot be used, or a key that cannot be sent.
        """
        self.config = config
        self.base_url = _checked(config.base_url.strip() or os.environ.get("OPENAI_BASE_URL", "").strip())
        self.model = config.model.strip() or os.environ.get("OPENAI_MODEL", "").strip() or "default"
        self._key = read_secret(config.key_variable, config.key_file)
        self._refused: set[str] = set()
        """Parameters that this server does not take."""

    @property
    def name(self) -> str:
        return f"{self.model} at {self.base_url}"

    def prompt_bound(self, question: Question) -> int:
        """A token is at least a byte; templates add some, and some servers put the schema into the prompt."""
        schema = 0 if question.schema is None else len(json.dumps(question.schema))
        return question.bytes + schema + MESSAGE_TOKENS * (len(question.messages) + 1)

    def answer(self, question: Question, grant: Grant) -> Answer:
        """One request; where the server refuses a parameter by name, the next ones go without it."""
        limits = self.config.limits
        limits = replace(limits, total_s=min(limits.total_s, grant.seconds), read_s=min(limits.read_s, grant.seconds))
        headers = {"Authorization": f"Bearer {self._key.reveal()}"} if self._key else {}
        response = post_json(f"{self.base_url}/chat/completions", self._body(question, grant), headers, limits)
        if response.status != 200:
            raise self._error(response)
        return _answer(self._data(response), response.headers.get("content-type", ""), self._key)

    def _body(self, question: Question, grant: Grant) -> dict[str, Any]:
        body: dict[str, Any] = {
            "model": self.model, "stream": False, "temperature": question.temperature, "seed": question.sample,
            "messages": [{"role": message.role, "content": message.text} for message in question.messages],
            "max_tokens": grant.max_tokens,
        }  # fmt: skip
        if question.schema is not None:
            named = {"name": "plan", "strict": True, "schema": question.schema}
            body["response_format"] = {"type": "json_schema", "json_schema": named}
        for name in self._refused:
            value = body.pop(name, None)
            if name == "max_tokens":
                body["max_completion_tokens"] = value
        return body

    def _data(self, response: Response) -> Any:
        """The body as JSON data, with the key masked."""
        try:
            return json.loads(self._key.hidden_in(response.body.decode("utf-8")))
        except (ValueError, RecursionError):
            kind = quoted(response.headers.get("content-type", "no content type"))
            raise ModelError("bad_response", f"{self._where} answers 200 with {kind} that is no JSON") from None

    def _error(self, response: Response) -> ModelError:
        """A response that is no answer, as its class and a line."""
        status, said = response.status, self._said(response)
        line = f"{self._where} answers {status}{': ' + said if said else ''}"
        wait = _retry_after(response.headers.get("retry-after", ""))
        if status == 429:
            return ModelError("rate_limited", line, wait, final="insufficient_quota" in said)
        if status >= 500 or status == 408:
            return ModelError("server_error", line, wait)
        if 300 <= status < 400:
            return ModelError("redirect", f"{line}: redirects are not followed; give the final address as base_url=")
        if status in (400, 422) and self._adapt(said):
            return ModelError("server_error", line, retry_after_s=0.0)
        hints = {401: "; check the key", 403: "; check the key", 404: "; check base_url= and model="}
        return ModelError("rejected", line + hints.get(status, ""))

    def _adapt(self, said: str) -> bool:
        """Notes a parameter that the server complains about; whether there is one that can be done without."""
        for name, words in _ADAPTED.items():
            if name not in self._refused and any(word in said for word in words):
                self._refused.add(name)
                return True
        return False

    def _said(self, response: Response) -> str:
        """The server's own words on one line, the key masked."""
        text = self._key.hidden_in(response.body[:20_000].decode("utf-8", "replace"))
        try:
            error = json.loads(text)
            error = error.get("error", error) if isinstance(error, dict) else error
            if isinstance(error, dict):
                text = " ".join(str(error[name]) for name in ("message", "code") if error.get(name)) or text
            else:
                text = str(error)
        except (ValueError, RecursionError):
            pass
        plain = "".join(c if c.isprintable() else " " for c in self._key.hidden_in(text))
        return " ".join(plain.split())[:200]

    @property
    def _where(self) -> str:
        return urlsplit(self.base_url).netloc


def _checked(url: str) -> str:
    """The address without the slash at its end; never shows what may be a password in it."""
    if not url:
        raise UserError("planner=openai needs a server: give base_url=http://<host>:<port>/v1 or set OPENAI_BASE_URL")
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError:
        raise UserError("base_url= is no address; give for instance http://127.0.0.1:8000/v1") from None
    if "@" in parts.netloc or parts.query or parts.fragment:
        raise UserError(
            "base_url= holds a name, password or query: give the plain address, and the key in the environment's "
            "OPENAI_API_KEY or key_file="
        )
    plain = all("!" <= c <= "~" for c in url)
    if parts.scheme not in ("http", "https") or not host or not plain:
        raise UserError(f"base_url={quoted(url)} is no address; give for instance http://127.0.0.1:8000/v1")
    return url.rstrip("/").removesuffix("/chat/completions")


def _answer(data: Any, content_type: str, key: Secret) -> Answer:
    """The first choice of a chat completion.

    Raises:
        ModelError: `bad_response`: there is none.
    """
    try:
        choice = data["choices"][0]
        message = choice["message"]
        content, refusal = _text(message.get("content")), _text(message.get("refusal"))
        reasoning = _text(message.get("reasoning_content")) or _text(message.get("reasoning"))
    except (AttributeError, IndexError, KeyError, TypeError):
        error = data.get("error") if isinstance(data, dict) else None
        why = f": {quoted(key.hidden_in(str(error)))}" if error else ""
        raise ModelError("bad_response", f"the server's answer is no chat completion{why}") from None
    usage = data.get("usage") if isinstance(data.get("usage"), dict) else {}
    remarks = () if "json" in content_type.lower() else ("content_type",)
    finish = choice.get("finish_reason")
    return Answer(
        content=key.hidden_in(content or refusal),
        reasoning=key.hidden_in(reasoning),
        finish=finish if isinstance(finish, str) else "",
        tokens_in=_count(usage.get("prompt_tokens")),
        tokens_out=_count(usage.get("completion_tokens")),
        remarks=remarks,
    )


def _text(value: Any) -> str:
    """A message's text: as it stands, or in parts."""
    if isinstance(value, list):
        return "".join(_text(part.get("text")) for part in value if isinstance(part, dict))
    return value if isinstance(value, str) else ""


def _count(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _retry_after(text: str) -> float | None:
    """Seconds of a Retry-After header: a number, or a date (RFC 9110, 10.2.3)."""
    text = text.strip()
    if text.isascii() and text.replace(".", "", 1).isdigit():
        return float(text)
    try:
        return max(0.0, email.utils.parsedate_to_datetime(text).timestamp() - time.time())
    except (ValueError, TypeError, OverflowError):
        return None
