"""One instruction in one arrangement of its scene: planned, judged on paper, carried out, judged by what came of it."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from embodied.errors import JobFailed, UserError
from embodied.hierarchy.executor import Executor
from embodied.hierarchy.monitor import ExecutionReport, StepRecord
from embodied.hierarchy.perceived import PerceivedEnv
from embodied.planning.conditions import Watch, Wish
from embodied.planning.grounding import GroundingContext, ground
from embodied.planning.prompting import skills_of
from embodied.planning.simulation import Impossible, simulate
from embodied.protocols import Controller, Planner
from embodied.rng import child_generator, child_seed
from embodied.types import EntityState, Plan, PlanFailure, PlanStep, SceneDescription, SceneState
from robots.arrange import scatter
from robots.disturb import Disturber

from .. import build
from ..outcome import cpu_seconds
from ..planners import AskingPlanner
from ..seeing import perceived
from .instructions import Instruction
from .table import Row

if TYPE_CHECKING:
    from robots.base import CheckedSceneEnv

STEPS_SHOWN = 12


@dataclass
class Worlds:
    """The scenes of a file, each compiled once, with the controllers that act in them."""

    _open: dict[str, CheckedSceneEnv | JobFailed] = field(default_factory=dict)
    _controllers: dict[str, Mapping[str, Controller]] = field(default_factory=dict)
    """By scene."""
    _contexts: dict[str, GroundingContext] = field(default_factory=dict)
    _seen: dict[str, PerceivedEnv] = field(default_factory=dict)

    def of(self, scene: str) -> CheckedSceneEnv:
        """The scene with a robot in it.

        Raises:
            UserError: It cannot be used.
            JobFailed: No robot can act in it.
        """
        if scene not in self._open:
            try:
                self._open[scene] = build.open_world(scene, "auto", None, None)
            except JobFailed as failure:
                self._open[scene] = failure
        found = self._open[scene]
        if isinstance(found, JobFailed):
            raise found
        return found

    def seen(self, scene: str, describer: str) -> PerceivedEnv:
        """The scene as its cameras show it."""
        if scene not in self._seen:
            self._seen[scene], _ = perceived(self.of(scene), describer)
        return self._seen[scene]

    def context(self, scene: str) -> GroundingContext:
        """What grounding has to know of a scene."""
        if scene not in self._contexts:
            self._contexts[scene] = build.grounding_context(self.of(scene))
        return self._contexts[scene]

    def controllers(self, scene: str) -> Mapping[str, Controller]:
        """The zoo's, by skill, for the robot of a scene."""
        if scene not in self._controllers:
            self._controllers[scene] = build.acting_controllers(self.of(scene), "")
        return self._controllers[scene]

    def close(self) -> None:
        """Closes all."""
        for world in self._open.values():
            if not isinstance(world, JobFailed):
                world.close()


@dataclass(frozen=True)
class Setting:
    """What a table is about."""

    planner: str
    describer: str
    disturb: str
    """`false`, or what is done to a run: `true` (drawn) or a kind of disturbance."""
    seed: int


def attempt(line: Instruction, variation: int, setting: Setting, planner: Planner, worlds: Worlds) -> Row:
    """The row of one line in one arrangement, without what it is a row of."""
    began, cpu = time.perf_counter(), cpu_seconds()
    calls = _calls(planner)
    try:
        row = _Attempt(line, variation, setting, planner, worlds).row()
    except JobFailed as failure:
        row = refused(line, f"{failure.reason}: {failure}")
    used = {"seconds": round(time.perf_counter() - began, 3), "cpu_s": round(cpu_seconds() - cpu, 3)}
    return {**row, **used, "calls": _calls(planner) - calls}


def refused(line: Instruction, why: str) -> Row:
    """The row of a line for which there is no plan."""
    executed = False if line.feasible else None
    return {**_NOTHING, "planned": not line.feasible, "executed": executed, "refused": True, "why": why}


_NOTHING: Row = {
    "plan": "", "subgoals": 0, "reached": 0, "retries": 0, "step_backs": 0, "replans": 0, "steps": 0,
    "disturbance": "", "plan_seconds": 0.0,
}  # fmt: skip


class _Attempt:
    def __init__(self, line: Instruction, variation: int, setting: Setting, planner: Planner, worlds: Worlds) -> None:
        self._line, self._setting, self._planner, self._worlds = line, setting, planner, worlds
        self._name = f"{line.scene}/{line.line}/{variation}"
        self._world = world = worlds.of(line.path)
        world.reset(0)
        if variation:
            scatter(world, child_generator(setting.seed, self._name))
        self._start = world.scene_state()
        _check_ids(line.wish, self._start)
        self._context = worlds.context(line.path)
        perceived = None if setting.describer == "oracle" else worlds.seen(line.path, setting.describer)
        self._seeing = build.watched(world, setting.describer, perceived)
        self._acted, self._describer = self._seeing.world, self._seeing.describer
        self._start = world.scene_state()
        if isinstance(planner, AskingPlanner):
            planner.adapt(skills_of(world.spec.robot), self._refusal)

    def row(self) -> Row:
        """Plans, and acts where something is to be done."""
        began = time.perf_counter()
        made = self._plan()
        seconds = {"plan_seconds": round(time.perf_counter() - began, 4)}
        if isinstance(made, PlanFailure):
            return {**refused(self._line, f"{made.reason}: {made.message}"), **seconds}
        row = {**_NOTHING, **seconds, "plan": _told(made), "subgoals": len(made.subgoals), "refused": False}
        if not self._line.feasible:
            return {**row, "planned": False, "executed": None, "why": "it should have been refused"}
        on_paper = self._against_on_paper(made)
        report, acted, happened = self._carry_out(made)
        why = [f"planned: {on_paper}"] if on_paper else []
        why += [f"executed: {acted}"] if acted else []
        why += [f"{report.reason}: {report.message}"] if not report.ok else []
        return {
            **row, "planned": not on_paper, "executed": not acted, "why": "; ".join(why),
            "reached": sum(subgoal.reached for subgoal in report.subgoals), "retries": report.retries,
            "step_backs": report.step_backs, "replans": report.replans, "steps": report.steps, "disturbance": happened,
        }  # fmt: skip

    def _plan(self) -> Plan | PlanFailure:
        scene = self._describer.describe(())
        steps = self._planner.propose(self._line.words, scene)
        return steps if isinstance(steps, PlanFailure) else self._ground(steps, scene)

    def _ground(self, steps: Sequence[PlanStep], scene: SceneDescription) -> Plan | PlanFailure:
        return ground(steps, scene, self._context, instruction=self._line.words, planner=self._planner.name)

    def _refusal(self, steps: Sequence[PlanStep], scene: SceneDescription) -> PlanFailure | None:
        made = self._ground(steps, scene)
        return made if isinstance(made, PlanFailure) else None

    def _against_on_paper(self, plan: Plan) -> str:
        """What speaks against the plan when each of its steps does what it says; empty where nothing does."""
        watch = Watch(self._line.wish)
        try:
            for state in simulate(self._in_truth(plan), self._start):
                watch.see(state)
        except Impossible as error:
            return str(error)
        return watch.against()

    def _in_truth(self, plan: Plan) -> Plan:
        """The plan about the simulator's ids: what was seen is the thing that is nearest to where it was seen."""
        if self._acted is self._world:
            return plan
        names = {seen.id: _nearest(seen, self._start) for seen in self._acted.scene_state().entities}

        def renamed(arg: str) -> str:
            side, colon, thing = arg.rpartition(":")
            return f"{side}{colon}{names.get(thing, thing)}"

        subgoals = [replace(s, args=tuple(renamed(arg) for arg in s.args)) for s in plan.subgoals]
        return replace(plan, subgoals=tuple(subgoals))

    def _carry_out(self, plan: Plan) -> tuple[ExecutionReport, str, str]:
        """The report, what speaks against the outcome, and the disturbance."""
        world, watch = self._world, Watch(self._line.wish)
        watch.see(self._start)
        disturb = self._disturber(plan)

        def follow(record: StepRecord) -> None:
            del record
            state = world.scene_state()
            watch.see(state)
            if disturb is not None:
                disturb(state)

        controllers = self._worlds.controllers(self._line.path)
        executor = Executor(
            self._acted,
            controllers,
            self._describer,
            self._planner,
            observers=(follow,),
            ground=self._ground,
            withdraw=self._seeing.withdraw,
            config=build.executor_config(world),
        )
        report = executor.run(plan)
        return report, watch.against(), "" if disturb is None else disturb.happened

    def _disturber(self, plan: Plan) -> Disturber | None:
        if self._setting.disturb == "false":
            return None
        kind = "any" if self._setting.disturb == "true" else self._setting.disturb
        steps = self._in_truth(plan).subgoals
        about = tuple(dict.fromkeys(arg.rpartition(":")[2] for subgoal in steps for arg in subgoal.args))
        return Disturber(self._world, kind, child_seed(self._setting.seed, self._name), about)


def _check_ids(wish: Wish, state: SceneState) -> None:
    """
    Raises:
        UserError: The wish speaks of what is not in the scene.
    """
    ids = {entity.id for entity in state.entities} | {"gripper", "left_finger", "right_finger", "robot"}
    for fact in wish.facts():
        if unknown := [arg for arg in fact.args if arg not in ids]:
            raise UserError(f"{fact}: there is no '{unknown[0]}' in the scene; there are: {', '.join(sorted(ids))}")


def _nearest(seen: EntityState, state: SceneState) -> str:
    """Id of the thing that was seen: of those as movable as it, the one whose middle is nearest."""
    alike = [e for e in state.entities if (e.role == "object") == (seen.role == "object") and e.role != "place"]
    if seen.kind == "table":
        alike = [e for e in alike if e.kind == "table"] or alike
    return min(alike, key=lambda e: float(np.linalg.norm(np.subtract(e.position_m, seen.position_m))), default=seen).id


def _told(plan: Plan) -> str:
    steps = [f"{s.skill}({', '.join(s.args)})" for s in plan.subgoals]
    more = [f"and {len(steps) - STEPS_SHOWN} more"] if len(steps) > STEPS_SHOWN else []
    return "; ".join([*steps[:STEPS_SHOWN], *more])


def _calls(planner: Any) -> int:
    """How often a planner has asked a language model, where it asks one."""
    usage = getattr(planner, "usage", None)
    return int(usage().get("calls", 0)) if usage is not None else 0
