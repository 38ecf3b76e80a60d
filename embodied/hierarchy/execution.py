"""One execution of one plan: drive, watch, retry, step back, replan, else stop; the robot holds at the end."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Literal

import numpy as np

from embodied.facts import all_facts, holds
from embodied.hierarchy.agenda import Agenda
from embodied.hierarchy.handling import HANDLED_SKILLS, Astray, Handling, astray_now, shown_with
from embodied.hierarchy.monitor import Entry, Event, ExecutionReport, Monitor, Phase, StepRecord, call
from embodied.hierarchy.motion import (
    Fingers,
    Waypoint,
    close_fingers,
    hold_action,
    nothing_wanted,
    set_fingers,
    slow_down,
    way_to_touch,
    way_up,
)
from embodied.hierarchy.operator import Order
from embodied.hierarchy.recoveries import Recoveries
from embodied.hierarchy.recovery import MOVING_SKILLS, displaced, references, stays
from embodied.protocols import Controller
from embodied.types import FloatArray, Goal, Observation, Plan, PlanFailure, Predicate, SceneDescription, Subgoal

if TYPE_CHECKING:
    from embodied.hierarchy.executor import Executor

CLOSED_SKILLS = frozenset({"reach", "touch"})
"""Skills that keep the gripper closed whatever the controller says of it."""


class Execution:
    """One execution of one plan."""

    def __init__(self, executor: Executor, plan: Plan) -> None:
        self.x, self.env, self.config, self.plan = executor, executor.env, executor.config, plan
        self.current: Entry | None = None
        self.steps: int = 0
        self.agenda = Agenda(plan)
        self.recoveries = Recoveries(
            executor, self.agenda, plan.instruction, self._see, self._noted, lambda: self.steps
        )
        self.rise_due = self.spoilt = False
        self.grasp: Fingers | None = None
        """How a thing is held, while one is."""
        self.failure: PlanFailure | None = None
        self.order: Order | None = None
        """What the operator wants, until it is done."""
        self.moved_meanwhile: str | None = None
        """What a target was computed from and has been moved during the attempt."""
        self.references: dict[str, FloatArray] = {}
        self.observation: Observation = None  # type: ignore[assignment]
        """The last one; set before anything is asked of a controller."""

    def execute(self, observation: Observation | None) -> ExecutionReport:
        self.state = self.env.scene_state()
        if observation is None:
            self._hold_still(1, None)
        else:
            self.observation = observation
        while True:
            while self.agenda.queue and self.failure is None:
                self._step_back()
                self._advance()
            self._withdraw()
            self._hold_still(self._hold_steps(), None)
            self._look_again()
            if self.failure is not None or not self._step_back():
                break
        self._judge_again()
        return self._report()

    def _advance(self) -> None:
        """Attempts the next subgoal; where it is not reached the planner is asked, or `failure` says why not."""
        if self._attain(self.agenda.queue[0]):
            self.agenda.finish()
        elif self.order is not None:
            order, self.order = self.order, None
            if order.kind != "stop":
                self.recoveries.obey(order)
        elif self.failure is not None and not self.spoilt:
            self.failure = self.recoveries.plan_anew(self.failure)

    def _attain(self, entry: Entry) -> bool:
        """Attempts a subgoal until it is reached or the retries are used up; `failure` says why it was not.

        Where something has to be done before it can be tried again, that is attained first.
        """
        attempts = 0
        while True:
            self.current = entry
            missed = self._pursue(entry)
            if entry.reached or self.failure is not None or self.order is not None:
                break
            if missed and self.x.ground is None:
                break
            self.rise_due = True
            moved, self.moved_meanwhile = self.moved_meanwhile, None
            more = self.recoveries.again(entry, attempts, moved)
            if more is None:
                break
            attempts += more
            refused = self.recoveries.aim_again()
            if refused is not None:
                entry.why, self.failure = f"{entry.why}; no retry: {refused.message}", refused
                return False
            while self.agenda.queue[0] is not entry:
                if not self._attain(self.agenda.queue[0]):
                    return False
                self.agenda.finish()
                attempts = 0
        if entry.reached:
            self.rise_due = entry.subgoal.skill == "touch"
            return True
        if self.order is None and self.failure is None:
            late = PlanFailure("timed_out", f"{call(entry.subgoal)}: {entry.why}")
            self.failure = PlanFailure("impossible", missed) if missed else late
        return False

    def _step_back(self) -> bool:
        """Back to the first subgoal that was reached and no longer holds, as often as allowed; True where it was."""
        if self.spoilt or self.failure is not None:
            return False
        undone = self.recoveries.step_back(self.state)
        if undone is None:
            return False
        self.rise_due = True
        refused = self.recoveries.aim_again()
        if refused is not None:
            undone.why, self.failure = f"{undone.why}, then undone; not again: {refused.message}", refused
        return True

    def _withdraw(self) -> None:
        """An arm whose work is judged from pictures goes out of them, unless it holds something."""
        if self.x.withdraw is None or self._holds_something() or self.spoilt:
            return
        self.grasp = None
        for taken in range(self.config.rest_steps):
            action = self.x.withdraw(self.observation, taken)
            if action is None:
                return
            self._take(action, nothing_wanted(self.env.spec), "rise", None)

    def _holds_something(self) -> bool:
        """Fingers that are shut on nothing hold nothing."""
        things = (e.id for e in self.state.entities if e.role == "object")
        return self.grasp is not None and any(holds(Predicate("holding", (thing,)), self.state) for thing in things)

    def _see(self) -> SceneDescription:
        """The scene as it is described now, the arm out of the way."""
        self._withdraw()
        return self.x.describer.describe(self.x.look())

    def _look_again(self) -> None:
        """Facts are those that are seen now."""
        if self.x.withdraw is not None:
            self.x.describer.describe(self.x.look())
            self.state = self.env.scene_state()

    def _pursue(self, entry: Entry) -> str:
        """One attempt, at most `max_steps` control steps; what made it impossible, empty where nothing did."""
        subgoal, before, missed = entry.subgoal, self.steps, ""
        entry.attempts += 1
        self._happened("begins", f"at most {subgoal.max_steps} steps")
        if subgoal.skill == "hold":
            self._hold_still(subgoal.max_steps, entry)
            entry.reached = self.failure is None
            entry.why = self._stopped() or "held still"
        else:
            by_hand = self._by_hand(subgoal)
            monitor = Monitor(subgoal, self.observation, self.state, at_the_end=by_hand)
            self.references, self.moved_meanwhile = references(subgoal, self.state), None
            if not monitor.already:
                missed = (self._handle if by_hand else self._drive)(subgoal, monitor)
            entry.reached, entry.distance_m = monitor.reached, monitor.distance_m
            stopped = "" if monitor.reached else self._stopped() or missed
            entry.why = stopped or monitor.why(self.steps - before)
        entry.steps += self.steps - before
        self._happened("reached" if entry.reached else "missed", entry.why)
        return missed

    def _noted(self, text: str) -> str:
        """A recovery as it is noted; listeners are told."""
        self._happened("recovery", text)
        return f"step {self.steps}: {text}"

    def _happened(self, kind: Literal["begins", "reached", "missed", "recovery"], text: str) -> None:
        entry = self.current
        if entry is not None:
            index = self.agenda.index(entry)
            event = Event(kind, self.steps, index, call(entry.subgoal), text, entry.attempts)
            for listener in self.x.listeners:
                listener(event)

    def _drive(self, subgoal: Subgoal, monitor: Monitor) -> str:
        left = subgoal.max_steps
        for point in self._waypoints(subgoal):
            left -= self._approach(subgoal, monitor, point, left // 2)
            if monitor.reached or self._halted:
                return ""
        controller = self.x.controllers[subgoal.skill]
        for _ in range(left):
            if self._step(controller, subgoal.goal, "go", monitor, subgoal.skill in CLOSED_SKILLS):
                break
        return ""

    def _by_hand(self, subgoal: Subgoal) -> bool:
        """The subgoal is about a thing, and its controller has learned to take hold of one."""
        skills = self.x.controllers[subgoal.skill].manifest.skills
        return subgoal.skill in HANDLED_SKILLS and not {"pick", "place"}.isdisjoint(skills)

    def _handle(self, subgoal: Subgoal, monitor: Monitor) -> str:
        """Takes the thing where it shall be, stage by stage; what made that impossible, empty where nothing did."""
        controller, spec, thing = self.x.controllers[subgoal.skill], self.env.spec, subgoal.goal.entity
        mover, astray, left = self._mover(), Astray(), subgoal.max_steps
        if self.rise_due and self.agenda.done and self.agenda.done[-1].subgoal.skill == "touch":
            # Fingers that still press on a thing would push it along.
            left -= self._approach(subgoal, monitor, self._way_up(subgoal), left // 2)
        self.rise_due = False
        handling = Handling(subgoal.skill, thing, subgoal.goal.value, subgoal.tolerance_m, self.config.handling)
        for _ in range(left):
            command = handling.command(self.observation, self.state)
            self.grasp = command.fingers if command.fingers.press_m else None
            if handling.done or self._out_of_steps():
                break
            action = np.zeros(spec.action_width, dtype=np.float32)
            if command.goal is not None:
                astray = astray_now(astray, command, self._gripper())
                acting = mover if mover is not None and astray.gone else controller
                action[:] = acting.act(shown_with(self.observation, thing), command.goal)
                slow_down(action, spec, command.pace)
                self.env.set_goal(command.goal)
            set_fingers(action, spec, self.observation, command.fingers)
            self._take(action, command.goal or nothing_wanted(spec), command.stage, monitor)
            if self._halted:
                return ""
        if handling.done and not handling.failure:
            monitor.conclude()
        return handling.failure

    def _approach(self, subgoal: Subgoal, monitor: Monitor, point: Waypoint, limit: int) -> int:
        """Towards a waypoint until near, stalled, or the limit; returns the steps taken."""
        mover, stalled = self._mover() or self.x.controllers[subgoal.skill], 0
        best = point.left(self._gripper())
        near = 0.0 if point.height_m is not None else self.config.waypoint_tolerance_m
        for taken in range(limit):
            if best <= near or stalled >= self.config.stall_steps:
                return taken
            if self._step(mover, point.goal, point.phase, monitor, closed=True):
                return taken + 1
            left = point.left(self._gripper())
            stalled = 0 if left < best - self.config.stall_m else stalled + 1
            best = min(best, left)
        return limit

    def _way_up(self, subgoal: Subgoal) -> Waypoint:
        return way_up(self._gripper(), self.config.rise_m, subgoal.tolerance_m)

    def _waypoints(self, subgoal: Subgoal) -> list[Waypoint]:
        """Where the gripper goes first: up from what it touched; above the target, before it touches it."""
        points: list[Waypoint] = []
        if self._mover() is None:
            return points
        here, c = self._gripper(), self.config
        if self.rise_due:
            self.rise_due = False
            points.append(self._way_up(subgoal))
            here = points[0].goal.value
        if subgoal.skill == "touch":
            target = self.state.frame.to_base(np.asarray(subgoal.target_m)).astype(np.float32)
            points += way_to_touch(here, target, c.hover_m, c.rise_m, c.waypoint_tolerance_m)
        return points

    def _step(self, controller: Controller, goal: Goal, phase: Phase, monitor: Monitor, closed: bool) -> bool:
        """One control step; True when the subgoal is reached or the execution has to stop."""
        if self._out_of_steps():
            return True
        action = np.array(controller.act(self.observation, goal), dtype=np.float32)
        if self.grasp is not None:
            set_fingers(action, self.env.spec, self.observation, self.grasp)
        elif closed:
            close_fingers(action, self.env.spec)
        self.env.set_goal(goal)
        self._take(action, goal, phase, monitor)
        return monitor.reached or self._halted

    @property
    def _halted(self) -> bool:
        """The attempt has to be broken off: for good, for the operator, or to aim again."""
        return self.failure is not None or self.order is not None or self.moved_meanwhile is not None

    def _out_of_steps(self) -> bool:
        if self.steps >= self.config.max_total_steps:
            self.failure = PlanFailure("timed_out", f"stopped after {self.steps} control steps, the most allowed")
        return self.failure is not None

    def _take(self, action: FloatArray, goal: Goal, phase: Phase, monitor: Monitor | None) -> None:
        step = self.env.step(action)
        self.steps += 1
        self.observation, self.state = step.observation, self.env.scene_state()
        reached = monitor is not None and monitor.update(self.observation, self.state)
        self._watch_forbidden()
        self._watch_references()
        if step.terminated and not reached:
            self.failure = PlanFailure("impossible", "the environment ended the episode")
        distance = monitor.distance_m if monitor is not None else math.nan
        record = StepRecord(
            step=self.steps,
            time_s=self.state.time_s,
            subgoal=self.agenda.index(self.current),
            phase=phase,
            goal=goal,
            distance_m=distance,
            observation=self.observation,
            action=step.action,
            state=self.state,
            reached=reached,
            attempt=self.current.attempts if self.current is not None else 0,
        )
        for observer in self.x.observers:
            observer(record)
        if self.x.operator is not None and self.order is None:
            self.order = self.x.operator(record)
            if self.order is not None and self.order.kind == "stop":
                self.failure = PlanFailure("impossible", "stopped by the operator; the robot holds")

    def _watch_references(self) -> None:
        """A target that was computed from a thing is not where it was when that thing has been moved."""
        if self.current is None or self.moved_meanwhile is not None or not self.recoveries.may_aim_again:
            return
        self.moved_meanwhile = displaced(self.references, self.state, self.config.displaced_m)

    def _watch_forbidden(self) -> None:
        """What was to be left alone and is touched cannot be untouched: the plan has failed for good."""
        if self.current is None:
            return
        subgoal = self.current.subgoal
        for thing in subgoal.avoid:
            if self.failure is None and holds(Predicate("touching", ("gripper", thing)), self.state):
                message = f"the gripper touched {thing}, which was to be left alone, during {call(subgoal)}"
                self.failure, self.spoilt = PlanFailure("impossible", message), True

    def _hold_still(self, steps: int, entry: Entry | None) -> None:
        """Zero action for so many control steps; as a subgoal (entry given) it counts against the total."""
        for _ in range(steps):
            if entry is not None and self._out_of_steps():
                return
            action = hold_action(self.env.spec, self.observation)
            if self.grasp is not None:
                set_fingers(action, self.env.spec, self.observation, self.grasp)
            self._take(action, nothing_wanted(self.env.spec), "hold", None)

    def _judge_again(self) -> None:
        """After holding still: what was put somewhere has to be there, unless a later subgoal moved it on."""
        moved: set[str] = set()
        for entry in reversed(self.agenda.done):
            if entry.subgoal.skill not in MOVING_SKILLS:
                continue
            subject = entry.subgoal.args[0]
            if subject not in moved and not stays(entry.subgoal, self.state, moved):
                entry.reached, entry.why = False, f"{entry.why}, but no longer after holding still"
                self.failure = self.failure or PlanFailure("timed_out", f"{call(entry.subgoal)}: {entry.why}")
            moved.add(subject)

    def _report(self) -> ExecutionReport:
        done, reason = self.recoveries, None if self.failure is None else self.failure.reason
        return ExecutionReport(
            subgoals=tuple(entry.report() for entry in self.agenda.entries),
            ok=self.failure is None,
            reason=reason,
            message=self._stopped(),
            steps=self.steps,
            retries=done.retries,
            replans=done.replans,
            step_backs=done.step_backs,
            adjustments=done.adjustments,
            recoveries=tuple(done.notes),
            final_facts=all_facts(self.state),
        )

    def _stopped(self) -> str:
        """Why the execution cannot go on; empty where it can."""
        return "" if self.failure is None else self.failure.message

    def _mover(self) -> Controller | None:
        """The controller that brings the gripper to a point, if there is one."""
        for skill in ("reach", "touch"):
            if skill in self.x.controllers and "gripper" in self.observation.layout.entities:
                return self.x.controllers[skill]
        return None

    def _gripper(self) -> FloatArray:
        return self.observation.achieved[self.observation.layout.entity_index("gripper")]

    def _hold_steps(self) -> int:
        return math.ceil(self.config.hold_s * self.env.spec.control_hz)
