"""One execution of one plan: drive, watch, retry, replan once, else stop; the robot holds at the end."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from embodied.facts import all_facts, holds
from embodied.hierarchy.handling import HANDLED_SKILLS, Handling, shown_with
from embodied.hierarchy.monitor import (
    Entry,
    ExecutionReport,
    Monitor,
    Phase,
    StepRecord,
    call,
    lasts,
    same_step,
)
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
from embodied.protocols import Controller, RemindedPlanner
from embodied.types import (
    FailureReason,
    FloatArray,
    Goal,
    Observation,
    Plan,
    PlanFailure,
    PlanStep,
    Predicate,
    StepOutcome,
    Subgoal,
)

if TYPE_CHECKING:
    from embodied.hierarchy.executor import Executor

CLOSED_SKILLS = frozenset({"reach", "touch"})
"""Skills that keep the gripper closed whatever the controller says of it."""
MOVING_SKILLS = frozenset({"push", "pick", "place", "stack"})


class Execution:
    """One execution of one plan."""

    def __init__(self, executor: Executor, plan: Plan) -> None:
        self.x, self.env, self.config, self.plan = executor, executor.env, executor.config, plan
        self.entries: list[Entry] = []
        self.steps = self.retries = self.replans = 0
        self.rise_due = self.spoilt = False
        self.grasp: Fingers | None = None
        """How a thing is held, while one is."""
        self.failure: PlanFailure | None = None
        self.observation: Observation

    def execute(self, observation: Observation | None) -> ExecutionReport:
        self.state = self.env.scene_state()
        if observation is None:
            self._hold_still(1, None)
        else:
            self.observation = observation
        queue = list(self.plan.subgoals)
        while queue and self.failure is None:
            if self._attain(queue[0]):
                queue.pop(0)
            else:
                queue = self._replan(queue)
        tried = 1 if queue and self._is_last(queue[0]) else 0
        self.entries += [Entry(subgoal) for subgoal in queue[tried:]]
        self._hold_still(self._hold_steps(), None)
        self._judge_again()
        return self._report()

    def _attain(self, subgoal: Subgoal) -> bool:
        """Attempts a subgoal until it is reached or the retries are used up; `failure` says why it was not."""
        if not self._is_last(subgoal):
            self.entries.append(Entry(subgoal))
        entry = self.entries[-1]
        for attempt in range(1 + self.config.retries):
            if attempt:
                self.retries += 1
                fresh = self._grounded_again(subgoal)
                if isinstance(fresh, PlanFailure):
                    entry.why, self.failure = f"{entry.why}; no retry: {fresh.message}", fresh
                    return False
                subgoal = entry.subgoal = fresh
            self._pursue(entry)
            if entry.reached or self.failure is not None:
                break
            self.rise_due = True
        if entry.reached:
            self.rise_due = subgoal.skill == "touch"
            return True
        self.failure = self.failure or PlanFailure("timed_out", f"{call(subgoal)}: {entry.why}")
        return False

    def _pursue(self, entry: Entry) -> None:
        """One attempt, at most `max_steps` control steps."""
        subgoal, before = entry.subgoal, self.steps
        entry.attempts += 1
        if subgoal.skill == "hold":
            self._hold_still(subgoal.max_steps, entry)
            entry.reached = self.failure is None
            entry.why = self._stopped() or "held still"
        else:
            by_hand = self._by_hand(subgoal)
            monitor = Monitor(subgoal, self.observation, self.state, at_the_end=by_hand)
            if not monitor.already:
                (self._handle if by_hand else self._drive)(subgoal, monitor)
            entry.reached, entry.distance_m = monitor.reached, monitor.distance_m
            stopped = "" if monitor.reached else self._stopped()
            entry.why = stopped or monitor.why(self.steps - before)
        entry.steps += self.steps - before

    def _drive(self, subgoal: Subgoal, monitor: Monitor) -> None:
        left = subgoal.max_steps
        for point in self._waypoints(subgoal):
            left -= self._approach(subgoal, monitor, point, left // 2)
            if monitor.reached or self.failure is not None:
                return
        controller = self.x.controllers[subgoal.skill]
        for _ in range(left):
            if self._step(controller, subgoal.goal, "go", monitor, subgoal.skill in CLOSED_SKILLS):
                return

    def _by_hand(self, subgoal: Subgoal) -> bool:
        """The subgoal is about a thing, and its controller has learned to take hold of one."""
        skills = self.x.controllers[subgoal.skill].manifest.skills
        return subgoal.skill in HANDLED_SKILLS and not {"pick", "place"}.isdisjoint(skills)

    def _handle(self, subgoal: Subgoal, monitor: Monitor) -> None:
        """Takes the thing where it shall be, stage by stage."""
        controller, spec, thing = self.x.controllers[subgoal.skill], self.env.spec, subgoal.goal.entity
        handling = Handling(subgoal.skill, thing, subgoal.goal.value, subgoal.tolerance_m, self.config.handling)
        self.rise_due = False
        for _ in range(subgoal.max_steps):
            command = handling.command(self.observation, self.state)
            self.grasp = command.fingers if command.fingers.press_m else None
            if handling.done or self._out_of_steps():
                break
            action = np.zeros(spec.action_width, dtype=np.float32)
            if command.goal is not None:
                action[:] = controller.act(shown_with(self.observation, thing), command.goal)
                slow_down(action, spec, command.pace)
                self.env.set_goal(command.goal)
            set_fingers(action, spec, self.observation, command.fingers)
            self._take(action, command.goal or nothing_wanted(spec), command.stage, monitor)
            if self.failure is not None:
                return
        if handling.failure:
            self.failure = PlanFailure("impossible", handling.failure)
        elif handling.done:
            monitor.conclude()

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

    def _waypoints(self, subgoal: Subgoal) -> list[Waypoint]:
        """Where the gripper goes first: up from what it touched; above the target, before it touches it."""
        points: list[Waypoint] = []
        if self._mover() is None:
            return points
        here, c = self._gripper(), self.config
        if self.rise_due:
            self.rise_due = False
            points.append(way_up(here, c.rise_m, subgoal.tolerance_m))
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
        return monitor.reached or self.failure is not None

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
        if step.terminated and not reached:
            self.failure = PlanFailure("impossible", "the environment ended the episode")
        distance = monitor.distance_m if monitor is not None else math.nan
        index = max(len(self.entries) - 1, 0)
        record = StepRecord(
            step=self.steps,
            time_s=self.state.time_s,
            subgoal=index,
            phase=phase,
            goal=goal,
            distance_m=distance,
            observation=self.observation,
            action=step.action,
            state=self.state,
            reached=reached,
        )
        for observer in self.x.observers:
            observer(record)

    def _watch_forbidden(self) -> None:
        """What was to be left alone and is touched cannot be untouched: the plan has failed for good."""
        if not self.entries:
            return
        subgoal = self.entries[-1].subgoal
        for thing in subgoal.avoid:
            if self.failure is None and holds(Predicate("touching", ("gripper", thing)), self.state):
                message = f"the gripper touched {thing}, which was to be left alone, during {call(subgoal)}"
                self.failure, self.spoilt = PlanFailure("impossible", message), True

    def _hold_still(self, steps: int, entry: Entry | None) -> None:
        """Zero action for so many control steps; as a subgoal (entry given) it counts against the total."""
        for _ in range(steps):
            if entry is not None and self._out_of_steps():
                return
            action = hold_action(self.env.spec)
            if self.grasp is not None:
                set_fingers(action, self.env.spec, self.observation, self.grasp)
            self._take(action, nothing_wanted(self.env.spec), "hold", None)

    def _grounded_again(self, subgoal: Subgoal) -> Subgoal | PlanFailure:
        """The same step in the scene as it is now described."""
        if self.x.ground is None:
            return subgoal
        plan = self.x.ground([_step_of(subgoal)], self.x.describer.describe(self.x.look()))
        return plan if isinstance(plan, PlanFailure) else plan.subgoals[0]

    def _replan(self, queue: list[Subgoal]) -> list[Subgoal]:
        """What to do instead, without the steps already done; the old queue, `failure` kept, where there is nothing."""
        planner, ground = self.x.planner, self.x.ground
        spent = self.replans >= self.config.replans or self.steps >= self.config.max_total_steps
        if planner is None or ground is None or not self.plan.instruction or spent:
            return queue
        self.replans += 1
        scene = self.x.describer.describe(self.x.look())
        if isinstance(planner, RemindedPlanner):
            planner.remind([StepOutcome(_step_of(e.subgoal), e.reached, e.why) for e in self.entries])
        steps = planner.propose(self.plan.instruction, scene)
        plan = steps if isinstance(steps, PlanFailure) else ground(steps, scene)
        if isinstance(plan, PlanFailure):
            self.failure = PlanFailure(plan.reason, f"{self._stopped()}; replanning failed: {plan.message}")
            return queue
        self.x.check(plan)
        fresh, done = list(plan.subgoals), [entry.subgoal for entry in self.entries if entry.reached]
        while fresh and done and same_step(fresh[0], done[0]):
            fresh.pop(0), done.pop(0)
        if not fresh:
            return queue
        self.failure = None
        return fresh

    def _judge_again(self) -> None:
        """After holding still: what was put somewhere has to be there, unless a later subgoal moved it on."""
        moved: set[str] = set()
        for entry in reversed(self.entries):
            subject = entry.subgoal.args[0] if entry.subgoal.skill in MOVING_SKILLS else None
            if entry.reached and subject not in moved and not lasts(entry.subgoal, self.state):
                entry.reached, entry.why = False, f"{entry.why}, but no longer after holding still"
                self.failure = self.failure or PlanFailure("timed_out", f"{call(entry.subgoal)}: {entry.why}")
            moved |= {subject} if subject is not None else set()

    def _report(self) -> ExecutionReport:
        reason: FailureReason | None = None if self.failure is None else self.failure.reason
        return ExecutionReport(
            subgoals=tuple(entry.report() for entry in self.entries),
            ok=self.failure is None,
            reason=reason,
            message=self._stopped(),
            steps=self.steps,
            retries=self.retries,
            replans=self.replans,
            final_facts=all_facts(self.state),
        )

    def _stopped(self) -> str:
        """Why the execution cannot go on; empty where it can."""
        return "" if self.failure is None else self.failure.message

    def _is_last(self, subgoal: Subgoal) -> bool:
        """The newest entry is about this step and not reached: attempts at it are counted together."""
        return bool(self.entries) and not self.entries[-1].reached and same_step(self.entries[-1].subgoal, subgoal)

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


def _step_of(subgoal: Subgoal) -> PlanStep:
    """The step that a subgoal was grounded from, without its target."""
    return PlanStep(subgoal.skill, subgoal.args, max_steps=subgoal.max_steps, avoid=subgoal.avoid)
