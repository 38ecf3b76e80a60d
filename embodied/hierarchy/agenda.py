"""What is done and what is ahead in one execution, and how both change when a plan does."""

from __future__ import annotations

from collections.abc import Sequence

from embodied.hierarchy.monitor import Entry, same_step
from embodied.types import Plan, Subgoal


class Agenda:
    """The subgoals of an execution.

    Attributes:
        entries: All, in the order of the plan; those of a new plan take the place of the ones it replaces.
        queue: What is ahead; its first is pursued.
        done: What was reached, in the order in which that happened.
    """

    def __init__(self, plan: Plan) -> None:
        self.entries = [Entry(subgoal) for subgoal in plan.subgoals]
        self.queue, self.done = list(self.entries), list[Entry]()

    def index(self, entry: Entry | None) -> int:
        """Where an entry stands among all; 0 for one that is there no more."""
        return self.entries.index(entry) if entry in self.entries else 0

    def finish(self) -> None:
        """The first of what is ahead was reached."""
        self.done.append(self.queue.pop(0))

    def go_back(self, again: Sequence[Entry]) -> None:
        """What was done and has to be done again comes first."""
        for entry in again:
            entry.reached = False
        self.done = [entry for entry in self.done if entry not in again]
        self.queue[:0] = again

    def take_over(self, fresh: Sequence[Subgoal], count: int) -> None:
        """New subgoals in the place of the first `count` entries ahead: those of the same step go on."""
        old, made = self.queue[:count], []
        left = list(old)
        for subgoal in fresh:
            entry = next((e for e in left if same_step(e.subgoal, subgoal)), None)
            if entry is None:
                entry = Entry(subgoal)
            else:
                left.remove(entry)
                entry.subgoal = subgoal
            made.append(entry)
        first = min((self.entries.index(e) for e in old), default=len(self.entries))
        self.entries = [e for e in self.entries if e not in old or e in made]
        self.entries[first:first] = [e for e in made if e not in self.entries]
        self.queue[:count] = made

    def plan_anew(self, fresh: Sequence[Subgoal]) -> None:
        """A new plan for all that is ahead; attempts at the step that failed are counted on."""
        failed, rest = self.queue[0], self.queue[1:]
        self.entries = [e for e in self.entries if e not in rest]
        made = [Entry(subgoal) for subgoal in fresh]
        if same_step(fresh[0], failed.subgoal):
            failed.subgoal, made[0] = fresh[0], failed
        self.entries += [e for e in made if e not in self.entries]
        self.queue = made

    def skip(self) -> Entry:
        """The first of what is ahead is given up; it stays among the entries."""
        return self.queue.pop(0)

    def put_instead(self, fresh: Sequence[Subgoal]) -> None:
        """The first of what is ahead gives way to others."""
        at = self.entries.index(self.skip()) + 1
        made = [Entry(subgoal) for subgoal in fresh]
        self.entries[at:at] = made
        self.queue[:0] = made
