"""From words and a scene to a plan, and with a robot in it to an execution that leaves its evidence."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from embodied.errors import UserError
from embodied.planning.grounding import GroundingContext, ground
from embodied.planning.plan import load_plan
from embodied.protocols import Describer, Planner
from embodied.types import SKILLS, Plan, PlanFailure, PlanStep, SceneDescription

from . import build

if TYPE_CHECKING:
    from embodied.hierarchy.monitor import ExecutionReport, StepRecord
    from robots.base import CheckedSceneEnv


@dataclass(frozen=True)
class Planned:
    """A plan, or why there is none; and what came of it where it was carried out."""

    plan: Plan | PlanFailure
    description: SceneDescription
    in_reach: tuple[bool, ...]
    """Per subgoal."""
    robot_position_m: tuple[float, float, float]
    robot_yaw_rad: float
    notes: tuple[str, ...] = ()
    """What was decided about the scene, such as where the robot stands."""
    report: ExecutionReport | None = None
    files: Mapping[str, Path] = field(default_factory=dict)
    """`compiled_scene`, `states`, `timeline`, `video`, `contact_sheet`."""

    @property
    def ok(self) -> bool:
        """There is a plan, and it was carried out where that was asked for."""
        return isinstance(self.plan, Plan) and (self.report is None or self.report.ok)


def plan(
    scene: str,
    instruction: str,
    *,
    planner: str = "rules",
    describer: str = "oracle",
    robot: str = "auto",
    run: str = "",
    base: build.Base | None = None,
    saved: str | Path | None = None,
    execute: bool = False,
    film: bool = True,
    out: str | Path | None = None,
    say: Callable[[str], None] = lambda line: None,
) -> Planned:
    """Plans an instruction on a scene, and with `execute` carries it out.

    Args:
        scene: A shipped scene or the path of an MJCF file.
        instruction: In words; may be empty with `saved`.
        planner: Who plans.
        describer: Who says what is there.
        robot: `auto`, `fetch`, `point` or `none`.
        run: Whose controller acts; empty: the zoo's.
        base: The robot's base by hand.
        saved: A plan file instead of a planner.
        execute: Move the robot.
        film: Write the film and the timeline's pictures.
        out: Folder for all files; needed with `execute`.
        say: Takes progress, a line at a time.

    Raises:
        UserError: A name, file or value that has to be changed.
        JobFailed: No robot can act in the scene, or no controller offers a skill of the plan.
    """
    if execute and out is None:
        raise UserError("out= is needed to carry a plan out: the film and the states are written there")
    steps = load_plan(saved) if saved else None
    folder = Path(out) if execute and out is not None else None
    with contextlib.closing(build.open_world(scene, robot, base, folder)) as world:
        session = _Session(world, build.make_describer(describer, world), instruction)
        made = session.plan(build.make_planner(planner), steps, refuse_unreachable=execute)
        if folder is None or isinstance(made.plan, PlanFailure):
            return made
        return session.carry_out(made, run, film, folder, say)


class _Session:
    """One instruction in one world."""

    def __init__(self, world: CheckedSceneEnv, describer: Describer, instruction: str) -> None:
        self._world, self._describer, self._instruction = world, describer, instruction
        self._planner: Planner | None = None
        self._source = "saved"

    def plan(self, planner: Planner, saved: Sequence[PlanStep] | None, refuse_unreachable: bool) -> Planned:
        """The plan, grounded in what the describer says now."""
        self._context = GroundingContext.for_robot(self._world.spec.robot, refuse_unreachable=refuse_unreachable)
        description = self._describer.describe(())
        if saved is None:
            self._planner, self._source = planner, planner.name
        proposed = planner.propose(self._instruction, description) if saved is None else saved
        made = proposed if isinstance(proposed, PlanFailure) else self._ground(proposed, description)
        subgoals = () if isinstance(made, PlanFailure) else made.subgoals
        placement = self._world.placement
        return Planned(
            plan=made,
            description=description,
            in_reach=tuple(self._context.in_reach(subgoal, description) for subgoal in subgoals),
            robot_position_m=placement.position_m,
            robot_yaw_rad=placement.yaw_rad,
            notes=placement.notes,
        )

    def carry_out(self, made: Planned, run: str, film: bool, folder: Path, say: Callable[[str], None]) -> Planned:
        """Moves the robot, and writes the evidence into `folder`."""
        from embodied.hierarchy.executor import Executor

        from .filming import Recorder

        assert isinstance(made.plan, Plan)
        build.one_thread()
        controllers = build.controllers_for(SKILLS, self._world.spec.robot, run)
        executor = Executor(self._world, controllers, self._describer, self._planner, ground=self._ground)
        executor.check(made.plan)
        names = [f"{s.skill}({', '.join(s.args)})" for s in made.plan.subgoals]
        recorder = Recorder(self._world, folder, lambda: self._describer.describe(()), names, film)

        def progress(record: StepRecord) -> None:
            if record.reached:
                say(f"reached {recorder.name(record.subgoal)} at step {record.step}")

        executor.observers = (recorder, progress)
        try:
            report = executor.run(made.plan)
        except KeyboardInterrupt:
            recorder.finish()
            raise KeyboardInterrupt(f"film and states up to here are in '{folder}'") from None
        files = recorder.finish()
        if film:
            heading = self._instruction or "a saved plan"
            files["contact_sheet"] = recorder.sheet(folder / "contact_sheet.png", heading)
        return replace(made, report=report, files=files)

    def _ground(self, steps: Sequence[PlanStep], seen: SceneDescription) -> Plan | PlanFailure:
        return ground(steps, seen, self._context, instruction=self._instruction, planner=self._source)
