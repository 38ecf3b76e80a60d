"""A person at the terminal while a robot works: one key stops it, others show, skip or replace what it is at."""

from __future__ import annotations

import contextlib
import os
import select
import sys
import time
from collections.abc import Callable, Iterator
from typing import TextIO

from embodied.errors import UserError
from embodied.hierarchy.monitor import StepRecord
from embodied.hierarchy.operator import Order
from embodied.planning.plan import check_arity
from embodied.types import Plan, PlanFailure, PlanStep

KEYS_HELP = "keys: space or q stops, l looks at the current subgoal, s skips it, r replaces it"


class KeyOperator:
    """An `embodied.hierarchy.operator.Operator` fed by single keys.

    Args:
        key: The key that was pressed since it was last asked, empty where none was.
        line: Asks for a line of text, while the simulation waits.
        say: Takes what is to be read, a line at a time.
        names: What the plan's subgoals are called, in its order.
        period_s: A control step takes at least so long, so that a person can follow and interfere.
    """

    def __init__(
        self,
        key: Callable[[], str],
        line: Callable[[str], str],
        say: Callable[[str], None],
        names: list[str],
        period_s: float = 0.0,
    ) -> None:
        self._key, self._line, self._say, self._names = key, line, say, names
        self._period_s, self._due = period_s, 0.0

    def __call__(self, record: StepRecord) -> Order | None:
        """What the operator wants after a control step."""
        now = time.monotonic()
        time.sleep(max(0.0, self._due - now))
        self._due = max(self._due, now) + self._period_s
        pressed = self._key()
        if pressed in (" ", "q", "\x03"):
            return Order("stop")
        if pressed == "s":
            return Order("skip")
        if pressed == "l":
            self._say(self._told(record))
        elif pressed == "r":
            return self._replacement()
        elif pressed:
            self._say(KEYS_HELP)
        return None

    def _told(self, record: StepRecord) -> str:
        number = record.subgoal
        name = self._names[number] if number < len(self._names) else f"subgoal {number + 1}"
        return f"step {record.step}: {name}, {record.phase}, {record.distance_m:.3f} m to go"

    def _replacement(self) -> Order | None:
        text = self._line("do instead (for example: place red_block left_tray): ").split()
        if not text:
            return None
        step = PlanStep(text[0], tuple(text[1:]))
        try:
            check_arity(step)
        except UserError as error:
            self._say(f"refused: {error}")
            return None
        return Order("replace", step)


def refuse_inoperable(execute: bool) -> None:
    """
    Raises:
        UserError: There is nothing to operate, or no terminal to do it from.
    """
    if not execute:
        raise UserError("interactive=true is about a robot that moves: it belongs to execute=true")
    if not sys.stdin.isatty():
        raise UserError("interactive=true needs a terminal: standard input is none; leave it out")


@contextlib.contextmanager
def operating(
    plan: Plan | PlanFailure, say: Callable[[str], None], terminal: TextIO | None = None, period_s: float = 0.0
) -> Iterator[KeyOperator]:
    """The operator at a terminal, whose keys are read as they are pressed until the context ends; see `KeyOperator`."""
    terminal = terminal if terminal is not None else sys.stdin
    import termios
    import tty

    before = termios.tcgetattr(terminal)

    def key() -> str:
        ready, _, _ = select.select([terminal], [], [], 0)
        return os.read(terminal.fileno(), 1).decode("latin-1") if ready else ""

    def line(prompt: str) -> str:
        termios.tcsetattr(terminal, termios.TCSADRAIN, before)
        try:
            print(prompt, end="", file=sys.stderr, flush=True)
            return terminal.readline()
        finally:
            tty.setcbreak(terminal)

    names = [f"{s.skill}({', '.join(s.args)})" for s in plan.subgoals] if isinstance(plan, Plan) else []
    say(KEYS_HELP)
    try:
        tty.setcbreak(terminal)
        yield KeyOperator(key, line, say, names, period_s)
    finally:
        termios.tcsetattr(terminal, termios.TCSADRAIN, before)
