"""What an instruction asks for, as facts: which hold at the end, in which order they come true, which never may.

Facts are written as JSON lists: `["in", "red_block", "left_tray"]`, `["not", fact]`, `["or", fact, ...]`,
`["and", fact, ...]`. A touch is an event: `touching` in a goal has to hold at some moment, not at the end.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from embodied.errors import UserError, unknown_name
from embodied.facts import PREDICATES, holds
from embodied.types import Predicate, SceneState

EVENTS = frozenset({"touching"})
"""Facts of a goal that are moments."""
MAX_DEPTH = 8
_JOINERS: dict[str, Callable[[Sequence[bool]], bool]] = {"or": any, "and": all}


@dataclass(frozen=True)
class Condition:
    """A fact, or several joined by `and`, `or`, `not`."""

    word: str
    """`fact`, `not`, `or` or `and`."""
    fact: Predicate | None = None
    parts: tuple[Condition, ...] = ()

    def true(self, of: Callable[[Predicate], bool]) -> bool:
        """Whether it is true, where `of` says so of each fact."""
        if self.fact is not None:
            return of(self.fact)
        parts = [part.true(of) for part in self.parts]
        return not parts[0] if self.word == "not" else _JOINERS[self.word](parts)

    def facts(self) -> tuple[Predicate, ...]:
        """All facts in it."""
        return (self.fact,) if self.fact is not None else tuple(f for part in self.parts for f in part.facts())

    def __str__(self) -> str:
        if self.fact is not None:
            return str(self.fact)
        told = [str(part) for part in self.parts]
        return f"not {told[0]}" if self.word == "not" else f"({f' {self.word} '.join(told)})"


def read_condition(data: Any, depth: int = 0) -> Condition:
    """A condition from its JSON form.

    Raises:
        UserError: It has another form, is nested more than 8 deep, or names a predicate that there is not.
    """
    words = data if isinstance(data, list) else []
    if not words or not isinstance(words[0], str) or depth > MAX_DEPTH:
        raise UserError(
            f'no fact: {_short(data)}; write ["in", "red_block", "left_tray"], ["not", fact] or ["or", ...]'
        )
    name, *rest = words
    if name in ("not", *_JOINERS):
        if not rest or (name == "not" and len(rest) != 1):
            raise UserError(f"'{name}' is followed by {'one fact' if name == 'not' else 'facts'}: {_short(data)}")
        return Condition(name, parts=tuple(read_condition(part, depth + 1) for part in rest))
    if name not in PREDICATES:
        raise unknown_name("predicate", name, PREDICATES)
    if len(rest) != PREDICATES[name][1] or not all(isinstance(item, str) for item in rest):
        raise UserError(f"'{name}' is about {PREDICATES[name][1]} thing(s): {_short(data)}")
    return Condition("fact", Predicate(name, tuple(rest)))


@dataclass(frozen=True)
class Wish:
    """What is asked for."""

    goal: tuple[Condition, ...] = ()
    """All hold at the end; events happen at some moment."""
    order: tuple[tuple[Condition, ...], ...] = ()
    """Groups that come true one after another, within a group in any order."""
    forbid: tuple[Condition, ...] = ()
    """None ever holds."""

    @classmethod
    def read(cls, data: Mapping[str, Any]) -> Wish:
        """From the keys `goal`, `order` and `forbid`, each a list; what is left out asks for nothing.

        Raises:
            UserError: One of them has another form.
        """
        for name in ("goal", "order", "forbid"):
            if not isinstance(data.get(name, []), list):
                raise UserError(f"{name} is no list of facts: {_short(data[name])}")
        groups = []
        for item in data.get("order", []):
            together = item.get("all") if isinstance(item, dict) else [item]
            if not isinstance(together, list) or not together:
                raise UserError(f'in order there are facts and {{"all": [facts]}}, not {_short(item)}')
            groups.append(tuple(read_condition(part) for part in together))
        goal, forbid = ([read_condition(part) for part in data.get(name, [])] for name in ("goal", "forbid"))
        return cls(tuple(goal), tuple(groups), tuple(forbid))

    def facts(self) -> tuple[Predicate, ...]:
        """All facts that it speaks of."""
        conditions = (*self.goal, *(c for group in self.order for c in group), *self.forbid)
        return tuple(fact for condition in conditions for fact in condition.facts())


@dataclass
class Watch:
    """Follows a wish through the states of a run, the first and the last included."""

    wish: Wish
    _seen: int = 0
    _last: SceneState | None = None
    _happened: set[Predicate] = field(default_factory=set)
    """Events of the goal."""
    _rises: dict[Condition, list[int]] = field(default_factory=dict)
    """When each condition of the order came true: indices of states; one that is true at first did at 0."""
    _was: dict[Condition, bool] = field(default_factory=dict)
    _broken: list[tuple[int, Condition]] = field(default_factory=list)

    def see(self, state: SceneState) -> None:
        """One more state.

        Raises:
            UserError: The wish speaks of a thing that is not there.
        """

        def now(fact: Predicate) -> bool:
            return holds(fact, state)

        for condition in self.wish.goal:
            self._happened |= {fact for fact in condition.facts() if fact.name in EVENTS and now(fact)}
        for condition in (c for group in self.wish.order for c in group):
            true = condition.true(now)
            if true and not self._was.get(condition, False):
                self._rises.setdefault(condition, []).append(self._seen)
            self._was[condition] = true
        self._broken += [(self._seen, condition) for condition in self.wish.forbid if condition.true(now)]
        self._last, self._seen = state, self._seen + 1

    def against(self) -> str:
        """What of the wish is not fulfilled by the states seen, on one line; empty where all of it is."""
        if self._broken:
            index, condition = self._broken[0]
            return f"{condition} is forbidden and held at state {index} of {self._seen}"
        missing = [str(condition) for condition in self.wish.goal if not condition.true(self._fulfilled)]
        if missing:
            return f"not so at the end: {', '.join(missing)}"
        return self._against_order()

    def _fulfilled(self, fact: Predicate) -> bool:
        if fact.name in EVENTS:
            return fact in self._happened
        return self._last is not None and holds(fact, self._last)

    def _against_order(self) -> str:
        moment = -1
        for group in self.wish.order:
            times = [min((t for t in self._rises.get(c, []) if t > moment), default=None) for c in group]
            late = [str(c) for c, time in zip(group, times, strict=True) if time is None]
            if late:
                before = "" if moment < 0 else " after what comes before it"
                return f"did not come true{before}: {', '.join(late)}"
            moment = max(time for time in times if time is not None)
        return ""


def _short(data: Any) -> str:
    text = repr(data)
    return text if len(text) <= 100 else f"{text[:100]}..."
