"""What a language model may cost: calls, tokens, seconds and money, checked before each call and never after it."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import asdict, dataclass, field
from typing import Any

from embodied.errors import UserError
from embodied.planning.asking import WORKED_ON, Answer, Grant, ModelError

LEAST_ANSWER = 64
"""Tokens: with fewer left nothing is asked, since no plan would fit."""
LEAST_SECONDS = 0.05


@dataclass(frozen=True)
class BudgetConfig:
    """Limits for one run, and the prices that make tokens to money."""

    calls: int = 20
    """Requests that are sent, retries included."""
    tokens: int = 200_000
    """Of prompts and answers."""
    seconds: float = 120.0
    """Spent waiting for answers, pauses before retries included."""
    cost: float | None = None
    """In the currency of the prices; None: no limit."""
    price_in: float = 0.0
    """Of a million tokens of prompt."""
    price_out: float = 0.0
    """Of a million tokens of answer."""

    def __post_init__(self) -> None:
        for name in ("calls", "tokens", "seconds", "cost", "price_in", "price_out"):
            value = getattr(self, name)
            if value is not None and not (0 <= value < math.inf):
                raise UserError(f"the budget's {name} must be a number of at least 0, got {value}")
        if self.cost is not None and not self.price_in + self.price_out:
            raise UserError("a budget of money needs prices: give price_in= and price_out= (of a million tokens)")


@dataclass
class Account:
    """What was used so far, and what may still be.

    A call is granted only where its worst case fits: every byte of the prompt a token, an answer as long as is allowed,
    all the time that is left. So no limit is passed, whatever comes back; only a server that sends more tokens than it
    was allowed can go beyond, by that one answer, and is then asked no more.
    """

    config: BudgetConfig = field(default_factory=BudgetConfig)
    calls: int = 0
    cached: int = 0
    """Answers that were known already."""
    tokens_in: int = 0
    tokens_out: int = 0
    tokens_unanswered: int = 0
    """The most that calls can have used that failed after they were sent: counts against the budget."""
    cost: float = 0.0
    seconds: float = 0.0
    errors: Counter[str] = field(default_factory=Counter)
    """By class."""
    spent: str = ""
    """The limit that stopped a question, empty while none did."""

    def grant(self, prompt_tokens: int, max_tokens: int) -> Grant:
        """Sets aside what one call may use, and counts the call.

        Raises:
            ModelError: `budget`: it might exceed a limit.
        """
        limits = self.config
        if self.calls >= limits.calls:
            raise self._stop("calls", f"{limits.calls} calls")
        seconds = self.seconds_left
        if seconds < LEAST_SECONDS:
            raise self._stop("seconds", f"{limits.seconds:g} seconds")
        tokens = min(max_tokens, limits.tokens - self._tokens - prompt_tokens)
        if tokens < min(LEAST_ANSWER, max_tokens):
            raise self._stop("tokens", f"{limits.tokens} tokens (a prompt may have {prompt_tokens})")
        if limits.cost is not None:
            left = limits.cost - self.cost - self._price(prompt_tokens, 0)
            if limits.price_out:
                tokens = min(tokens, math.floor(left * 1e6 / limits.price_out))
            if left < 0 or tokens < min(LEAST_ANSWER, max_tokens):
                raise self._stop("cost", f"{limits.cost:g} in money")
        self.calls += 1
        return Grant(tokens, seconds, prompt_tokens)

    def answered(self, answer: Answer, grant: Grant, seconds: float) -> None:
        """Charges an answer; where the server does not tell its tokens, or none that can be, the most it can have."""
        self.seconds += seconds
        self.errors.update(answer.remarks)
        said = len((answer.content + answer.reasoning).encode("utf-8", "replace"))
        tokens_in = self._told(answer.tokens_in, grant.prompt_tokens, grant.prompt_tokens)
        most = max(grant.max_tokens, said)
        tokens_out = self._told(answer.tokens_out, most, min(grant.max_tokens, said) or 1)
        if tokens_out > grant.max_tokens:
            self.errors["over_limit"] += 1
        self.tokens_in += tokens_in
        self.tokens_out += tokens_out
        self.cost += self._price(tokens_in, tokens_out)

    def failed(self, kind: str, grant: Grant, seconds: float) -> None:
        """Charges a call without an answer; the server may have worked on it all the same."""
        self.seconds += seconds
        self.errors[kind] += 1
        if kind in WORKED_ON or kind == "stopped":
            self.tokens_unanswered += grant.prompt_tokens + grant.max_tokens
            self.cost += self._price(grant.prompt_tokens, grant.max_tokens)

    def wait(self, seconds: float) -> None:
        """Charges a pause before it is made.

        Raises:
            ModelError: `budget`: so many seconds are not left.
        """
        if seconds > self.seconds_left - LEAST_SECONDS:
            raise self._stop("seconds", f"{self.config.seconds:g} seconds")
        self.seconds += seconds

    @property
    def seconds_left(self) -> float:
        return self.config.seconds - self.seconds

    def record(self) -> dict[str, Any]:
        """As result files tell it."""
        return {
            "calls": self.calls, "cached": self.cached, "tokens_in": self.tokens_in, "tokens_out": self.tokens_out,
            "cost": self.cost, "seconds": self.seconds, "tokens_unanswered": self.tokens_unanswered,
            "errors": dict(sorted(self.errors.items())), "budget": asdict(self.config), "budget_spent": self.spent,
        }  # fmt: skip

    def line(self) -> str:
        """The same in a line, limits included."""
        c = self.config
        money = f", {self.cost:.4f} of {c.cost:g} in money" if c.cost is not None else (
            f", {self.cost:.4f} in money" if c.price_in + c.price_out else ""
        )  # fmt: skip
        lost = f" (and at most {self.tokens_unanswered} unanswered)" if self.tokens_unanswered else ""
        wrong = ", ".join(f"{name} {count}" for name, count in sorted(self.errors.items()))
        tokens = f"{self.tokens_in}+{self.tokens_out}{lost} of {c.tokens} tokens"
        return (
            f"language model: {self.calls} of {c.calls} calls, {self.cached} from the cache, {tokens}, "
            f"{self.seconds:.1f} of {c.seconds:g} s{money}{'; errors: ' + wrong if wrong else ''}"
        )

    @property
    def _tokens(self) -> int:
        return self.tokens_in + self.tokens_out + self.tokens_unanswered

    def _told(self, told: int | None, most: int, otherwise: int) -> int:
        if told is None:
            return otherwise
        if not 0 <= told <= most:
            self.errors["bad_usage"] += 1
            return otherwise
        return told

    def _price(self, tokens_in: int, tokens_out: int) -> float:
        return (tokens_in * self.config.price_in + tokens_out * self.config.price_out) / 1e6

    def _stop(self, limit: str, words: str) -> ModelError:
        self.spent = limit
        self.errors["budget"] += 1
        return ModelError("budget", f"the language model's budget of {words} is used up; raise budget_{limit}=")
