"""What is asked of a language model and what comes back; asking within a budget, with retries and a cache."""

from __future__ import annotations

import hashlib
import json
import random
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Protocol

from embodied.errors import EmbodiedError

if TYPE_CHECKING:
    from embodied.planning.budget import Account
    from embodied.planning.cache import AnswerCache
    from embodied.planning.recorded import AnswerRecorder

ModelErrorKind = Literal[
    "connection", "timeout", "reset", "rate_limited", "server_error", "rejected", "redirect", "too_large",
    "bad_response", "not_recorded", "budget",
]  # fmt: skip
RETRIED: frozenset[ModelErrorKind] = frozenset({"timeout", "reset", "rate_limited", "server_error"})
"""What may be otherwise a moment later. A server that is not there is not asked again."""
WORKED_ON: frozenset[ModelErrorKind] = frozenset({"timeout", "reset", "too_large", "bad_response"})
"""After these the server may have used tokens of which it has not told."""


class ModelError(EmbodiedError):
    """A question that got no answer.

    Attributes:
        kind: Its class, as it is counted.
        retry_after_s: How long the server asks to wait; None where it does not say.
        final: Asking again is of no use, whatever the kind.
    """

    def __init__(
        self, kind: ModelErrorKind, message: str, retry_after_s: float | None = None, final: bool = False
    ) -> None:
        super().__init__(message)
        self.kind: ModelErrorKind = kind
        self.retry_after_s = retry_after_s
        self.final = final or kind not in RETRIED


@dataclass(frozen=True)
class Message:
    """One message of a conversation."""

    role: Literal["system", "user", "assistant"]
    text: str


@dataclass(frozen=True)
class Question:
    """A conversation that a model is to go on with, and how."""

    messages: tuple[Message, ...]
    schema: Mapping[str, Any] | None = None
    """JSON schema that the answer is asked to keep to."""
    temperature: float = 0.0
    max_tokens: int = 1024
    """Length of the answer."""
    sample: int = 0
    """Number of the answer where several are asked for; the seed of its draw."""

    @property
    def prompt_sha256(self) -> str:
        """Hash of the messages."""
        return _sha256([[message.role, message.text] for message in self.messages])

    @property
    def parameters(self) -> dict[str, Any]:
        """What else the answer depends on, as JSON data."""
        schema = None if self.schema is None else _sha256(self.schema)
        return {"temperature": self.temperature, "max_tokens": self.max_tokens, "sample": self.sample, "schema": schema}

    @property
    def bytes(self) -> int:
        """Length of the messages in UTF-8."""
        return sum(len(message.text.encode("utf-8", "replace")) for message in self.messages)


@dataclass(frozen=True)
class Answer:
    """What a model said."""

    content: str
    reasoning: str = ""
    """What it thought, where it tells."""
    finish: str = ""
    """Why it ended: `stop`, `length`, ..."""
    tokens_in: int | None = None
    """None: not told."""
    tokens_out: int | None = None
    remarks: tuple[str, ...] = ()
    """Classes of bad manners that did no harm, for the account."""
    cached: bool = False


@dataclass(frozen=True)
class Grant:
    """What one call may use."""

    max_tokens: int
    seconds: float
    prompt_tokens: int
    """Upper bound that was set aside for the prompt."""


class LanguageModel(Protocol):
    """Something that answers questions; one attempt, no retries."""

    @property
    def name(self) -> str:
        """Which model, where: part of the cache's key; holds no secret."""
        ...

    def prompt_bound(self, question: Question) -> int:
        """The most tokens that the question's prompt can have."""
        ...

    def answer(self, question: Question, grant: Grant) -> Answer:
        """The answer, within the grant.

        Raises:
            ModelError: There is none.
        """
        ...


@dataclass(frozen=True)
class RetryConfig:
    """How often and after how long a question is put again."""

    retries: int = 2
    """Further attempts after timeouts, resets, 429 and 5xx."""
    backoff_s: float = 0.5
    """Wait before the first retry; doubled for each further one, and cut by chance by up to a half."""
    max_wait_s: float = 30.0
    """A server that asks for a longer wait is given up."""


@dataclass
class Asker:
    """Puts questions to a model: first to the cache, then within the budget, with retries; counts what goes wrong."""

    model: LanguageModel
    account: Account
    cache: AnswerCache | None = None
    retry: RetryConfig = field(default_factory=RetryConfig)
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    jitter: random.Random = field(default_factory=lambda: random.Random(0))
    recorder: AnswerRecorder | None = None
    """Told of every answer."""

    def ask(self, question: Question) -> Answer:
        """The model's answer.

        Raises:
            ModelError: There is none; of kind `budget` where nothing was asked because that could exceed the budget.
        """
        answer = self.cache.get(self.model.name, question) if self.cache is not None else None
        if answer is not None:
            self.account.cached += 1
        else:
            answer = self._answer(question)
        if self.recorder is not None:
            self.recorder(self.model.name, question, answer)
        return answer

    def accept(self, question: Question, answer: Answer) -> None:
        """The answer was of use: it is kept for the next time that the same is asked."""
        if self.cache is not None and not answer.cached:
            self.cache.put(self.model.name, question, answer)

    def close(self) -> None:
        """Lets cache and record go."""
        if self.cache is not None:
            self.cache.close()
        if self.recorder is not None:
            self.recorder.close()

    def _answer(self, question: Question) -> Answer:
        bound = self.model.prompt_bound(question)
        for attempt in range(self.retry.retries + 1):
            grant = self.account.grant(bound, question.max_tokens)
            began = self.clock()
            try:
                answer = self.model.answer(question, grant)
            except ModelError as error:
                self.account.failed(error.kind, grant, self.clock() - began)
                if error.final or attempt == self.retry.retries:
                    raise
                self._wait(attempt, error)
            except BaseException:
                self.account.failed("stopped", grant, self.clock() - began)
                raise
            else:
                self.account.answered(answer, grant, self.clock() - began)
                return answer
        raise AssertionError("the loop returns or raises")

    def _wait(self, attempt: int, error: ModelError) -> None:
        """Sleeps before the next attempt; raises the error where that would take too long."""
        wait = self.retry.backoff_s * 2**attempt * (1.0 - self.jitter.random() / 2)
        if error.retry_after_s is not None:
            wait = max(error.retry_after_s, 0.0)
        if wait > self.retry.max_wait_s:
            raise ModelError(
                error.kind, f"{error}; it asks to wait {wait:.0f} s, more than the {self.retry.max_wait_s:g} s allowed"
            ) from None
        self.account.wait(wait)
        self.sleep(wait)


def _sha256(data: Any) -> str:
    text = json.dumps(data, sort_keys=True, ensure_ascii=True, separators=(",", ":"))
    return hashlib.sha256(text.encode("ascii")).hexdigest()
