"""What is done about mishaps: trying again, stepping back, aiming anew, planning anew, an operator's wish."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from embodied.hierarchy.agenda import Agenda
from embodied.hierarchy.monitor import Entry, call, same_step
from embodied.hierarchy.operator import Order
from embodied.hierarchy.recovery import MOVING_SKILLS, first_undone, stays, step_of
from embodied.protocols import RemindedPlanner
from embodied.types import Plan, PlanFailure, SceneDescription, SceneState, StepOutcome

if TYPE_CHECKING:
    from embodied.hierarchy.executor import Executor


class Recoveries:
    """The recoveries of one execution: each changes the agenda, has its bound, and leaves a note.

    Attributes:
        retries, replans, step_backs, adjustments: How often each was done.
        notes: What was done, in order, each with its control step.
    """

    def __init__(
        self,
        executor: Executor,
        agenda: Agenda,
        instruction: str,
        see: Callable[[], SceneDescription],
        noted: Callable[[str], str],
        steps: Callable[[], int],
    ) -> None:
        """
        Args:
            executor: Has the bounds, the planner and the grounding.
            agenda: Of the execution.
            instruction: That the plan came from; empty where it came from none.
            see: Describes the scene as it is now.
            noted: Told of each recovery; returns its note.
            steps: Control steps taken so far.
        """
        self._x, self._config, self._agenda = executor, executor.config, agenda
        self._instruction, self._see = instruction, see
        self._noted, self._steps = noted, steps
        self.retries = self.replans = self.step_backs = self.adjustments = 0
        self.notes: list[str] = []

    def note(self, text: str) -> None:
        """Notes what was done."""
        self.notes.append(self._noted(text))

    @property
    def may_aim_again(self) -> bool:
        """Whether an attempt may be broken off because its target was moved."""
        return self.adjustments < self._config.adjustments

    def again(self, entry: Entry, attempts: int, moved: str | None) -> int | None:
        """Whether an entry that was missed is attempted again: by how much that adds to its attempts, None for no.

        Args:
            entry: The entry.
            attempts: Retries of it so far.
            moved: What its target was computed from and has been moved meanwhile.
        """
        if moved is not None and self.may_aim_again:
            self.adjustments += 1
            self.note(f"{moved} was moved during {call(entry.subgoal)}: aimed again")
            return 0
        if attempts >= self._config.retries:
            return None
        self.retries += 1
        self.note(f"{call(entry.subgoal)} is tried again: {entry.why}")
        return 1

    def step_back(self, state: SceneState) -> Entry | None:
        """Goes back to the first subgoal that was reached and no longer holds, as often as allowed; that subgoal."""
        agenda = self._agenda
        if self.step_backs >= self._config.step_backs:
            return None
        first = first_undone([e.subgoal for e in agenda.done], [e.subgoal for e in agenda.queue], state)
        if first is None:
            return None
        self.step_backs += 1
        undone = agenda.done[first]
        self.note(f"stepped back to {call(undone.subgoal)}, which no longer held")
        later = [
            e for e in agenda.done[first + 1 :] if e.subgoal.skill in MOVING_SKILLS and not stays(e.subgoal, state)
        ]
        agenda.go_back([undone, *later])
        return undone

    def aim_again(self) -> PlanFailure | None:
        """Targets of all that is ahead, in the scene as it is now described; why not, where the next has none."""
        if self._x.ground is None or not self._agenda.queue:
            return None
        scene = self._see()
        ahead = [step_of(entry.subgoal) for entry in self._agenda.queue]
        plan = self._x.ground(ahead, scene)
        if isinstance(plan, PlanFailure):
            # A later step may be what cannot be done; it is said when its turn comes.
            plan, ahead = self._x.ground(ahead[:1], scene), ahead[:1]
        if isinstance(plan, PlanFailure):
            return plan
        self._agenda.take_over(plan.subgoals, len(ahead))
        return None

    def plan_anew(self, failure: PlanFailure) -> PlanFailure | None:
        """What to do instead, without the steps already done; the failure that is left where there is nothing."""
        planner, ground = self._x.planner, self._x.ground
        spent = self.replans >= self._config.replans or self._steps() >= self._config.max_total_steps
        if planner is None or ground is None or not self._instruction or spent:
            return failure
        self.replans += 1
        scene = self._see()
        if isinstance(planner, RemindedPlanner):
            tried = [e for e in self._agenda.entries if e.attempts]
            planner.remind([StepOutcome(step_of(e.subgoal), e.reached, e.why) for e in tried])
        steps = planner.propose(self._instruction, scene)
        plan = steps if isinstance(steps, PlanFailure) else ground(steps, scene)
        if isinstance(plan, PlanFailure):
            return PlanFailure(plan.reason, f"{failure.message}; replanning failed: {plan.message}")
        self._x.check(plan)
        fresh, done = list(plan.subgoals), [entry.subgoal for entry in self._agenda.done]
        while fresh and done and same_step(fresh[0], done[0]):
            fresh.pop(0), done.pop(0)
        if not fresh:
            return failure
        self.note(f"planned anew: {failure.message}")
        self._agenda.plan_anew(fresh)
        return None

    def obey(self, order: Order) -> None:
        """Skips or replaces the current subgoal as the operator wants."""
        entry = self._agenda.queue[0]
        if order.kind == "skip":
            entry.why = "skipped by the operator"
            self._agenda.skip()
            self.note(f"{call(entry.subgoal)} was skipped by the operator")
            return
        made: Plan | PlanFailure = PlanFailure("impossible", "nothing here turns words into targets")
        if self._x.ground is not None and order.step is not None:
            made = self._x.ground([order.step], self._x.describer.describe(self._x.look()))
        if isinstance(made, PlanFailure):
            self.note(f"the operator's step is refused: {made.reason}: {made.message}")
            return
        entry.why = "replaced by the operator"
        self._agenda.put_instead(made.subgoals)
        self.note(f"{call(entry.subgoal)} was replaced by the operator: {call(made.subgoals[0])}")
