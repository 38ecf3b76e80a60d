"""From words and a scene to a plan, and with a robot in it to an execution that leaves its evidence."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from embodied.errors import JobFailed, UserError
from embodied.planning.grounding import ground
from embodied.planning.plan import load_plan
from embodied.planning.prompting import skills_of
from embodied.planning.saycan import SayCanPlanner
from embodied.protocols import Planner
from embodied.types import SKILLS, Plan, PlanFailure, PlanStep, SceneDescription

from . import build
from .operating import operating, refuse_inoperable
from .outcome import RESULT_FILE, RunFolder
from .planners import AskingPlanner, PlannerSettings

SCENE = ("scene_compiled.xml", "assets")
"""The scene with its robot, as it is simulated."""
EVIDENCE = (
    *SCENE, "plan.json", "states.npz", "timeline.json", "timeline", "execution.mp4", "contact_sheet.png",
)  # fmt: skip
"""What an execution leaves in its folder."""
KEYLESS = ("max_tokens", "retries")
"""Settings of a planner that the verb has no key for."""

if TYPE_CHECKING:
    from embodied.hierarchy.monitor import ExecutionReport, StepRecord
    from embodied.hierarchy.operator import Operator
    from robots.base import CheckedSceneEnv

    from .affordance import CriticAffordance, Opinion


@dataclass(frozen=True)
class Planned:
    """A plan, or why there is none; and what came of it where it was carried out."""

    plan: Plan | PlanFailure
    description: SceneDescription
    in_reach: tuple[bool, ...]
    """Per subgoal."""
    robot_position_m: tuple[float, float, float]
    robot_yaw_rad: float
    chance: tuple[float | None, ...] = ()
    """Per subgoal what its controller's critic holds of it, in [0, 1]; None where no critic can say."""
    doubt: tuple[str, ...] = ()
    """Per subgoal the critic's warning; empty where it has none."""
    notes: tuple[str, ...] = ()
    """What was decided about the scene, such as where the robot stands."""
    report: ExecutionReport | None = None
    files: Mapping[str, Path] = field(default_factory=dict)
    """`compiled_scene`, `states`, `timeline`, `video`, `contact_sheet`."""
    llm: Mapping[str, Any] = field(default_factory=dict)
    """What a language model was asked and what that took; empty where none was."""
    llm_line: str = ""

    @property
    def ok(self) -> bool:
        """There is a plan, and it was carried out where that was asked for."""
        return isinstance(self.plan, Plan) and (self.report is None or self.report.ok)


def plan(
    scene: str,
    instruction: str,
    *,
    planner: str = "embedded",
    settings: PlannerSettings | None = None,
    describer: str = "oracle",
    robot: str = "auto",
    run: str = "",
    base: build.Base | None = None,
    files_from: str = "",
    saved: str | Path | None = None,
    execute: bool = False,
    film: bool = True,
    out: str | Path | RunFolder | None = None,
    interactive: bool = False,
    say: Callable[[str], None] = lambda line: None,
) -> Planned:
    """Plans an instruction on a scene, and with `execute` carries it out.

    Args:
        scene: A shipped scene or the path of an MJCF file.
        instruction: In words; may be empty with `saved`.
        planner: Who plans.
        settings: Of a planner that asks a language model.
        describer: Who says what is there.
        robot: `auto`, `fetch`, `point` or `none`.
        run: Whose controller acts; empty: the zoo's.
        base: The robot's base by hand.
        files_from: A folder that the scene may read files from besides its own.
        saved: A plan file instead of a planner.
        execute: Move the robot.
        film: Write the film and the timeline's pictures.
        out: Folder for all files; needed with `execute`. One that holds another run is refused; the same may be made
            again. A `RunFolder` was looked at already.
        interactive: Keys of the terminal stop the robot, skip or replace the current subgoal.
        say: Takes progress, a line at a time.

    Raises:
        UserError: A name, file or value that has to be changed.
        JobFailed: No robot can act in the scene, or no controller offers a skill of the plan.
    """
    if interactive:
        refuse_inoperable(execute)
    request = _Request(
        scene, instruction, planner, settings, describer, robot, run, base, files_from, saved, execute, film,
        interactive,
    )  # fmt: skip
    return request.carry_out(request.folder(out), say)


@dataclass(frozen=True)
class _Request:
    """What `plan` was asked for; fields as its arguments."""

    scene: str
    instruction: str
    planner: str
    settings: PlannerSettings | None
    describer: str
    robot: str
    run: str
    base: build.Base | None
    files_from: str
    saved: str | Path | None
    execute: bool
    film: bool
    interactive: bool

    def folder(self, out: str | Path | RunFolder | None) -> RunFolder | None:
        """Where files go; None where nothing is written.

        Raises:
            UserError: There is none for an execution, or it is another run's.
        """
        if isinstance(out, RunFolder) or not self.execute:
            return out if isinstance(out, RunFolder) else None
        if out is None:
            raise UserError("out= is needed to carry a plan out: the film and the states are written there")
        return _looked_at(str(out), self._keys() | settings_as_keys(self.settings))

    def _keys(self) -> dict[str, object]:
        """What was asked for under the names of the verb's keys."""
        return {
            "scene": self.scene, "instruction": self.instruction, "planner": self.planner,
            "describer": self.describer, "robot": self.robot, "run": self.run, "execute": self.execute,
            "base": "" if self.base is None else ",".join(map(str, self.base)), "plan": str(self.saved or ""),
            "film": self.film, "interactive": self.interactive, "files_from": self.files_from,
        }  # fmt: skip

    def carry_out(self, folder: RunFolder | None, say: Callable[[str], None]) -> Planned:
        """Plans, and moves the robot where that was asked for."""
        steps = load_plan(self.saved) if self.saved else None
        # Before the scene: a model that cannot be had is said at once.
        asked = build.make_planner(self.planner, self.settings, say) if steps is None else None
        try:
            return replace(self._made(asked, steps, folder, say), **used(asked))
        except JobFailed as failure:
            if folder is not None:
                folder.discard(EVIDENCE)
            failure.detail |= {name: value for name, value in used(asked).items() if name == "llm"}
            raise
        finally:
            if isinstance(asked, AskingPlanner):
                asked.close()

    def _made(
        self, asked: Planner | None, steps: Sequence[PlanStep] | None, folder: RunFolder | None,
        say: Callable[[str], None],
    ) -> Planned:  # fmt: skip
        compiled = folder.unmade if folder is not None and self.execute else None
        opened = build.open_world(self.scene, self.robot, self.base, compiled, self.files_from)
        with contextlib.closing(opened) as world:
            session = _Session(world, self.describer, self.instruction, self.run, refuse_unreachable=self.execute)
            made = session.plan(asked, steps)
            if folder is not None and self.execute and isinstance(made.plan, Plan):
                for line in plan_lines(made):
                    say(line)
                by_hand = operating(made.plan, say, period_s=1 / world.spec.control_hz)
                with by_hand if self.interactive else contextlib.nullcontext() as operator:
                    return session.carry_out(made, self.film, folder, say, operator)
            if folder is not None:
                folder.discard(EVIDENCE)
            return made


def plan_lines(planned: Planned) -> list[str]:
    """A plan as a terminal shows it, a line for each subgoal, after what was decided about the scene."""
    if not isinstance(planned.plan, Plan):
        return []
    doubts, found = planned.doubt or ("",) * len(planned.in_reach), list(planned.notes)
    rows = zip(planned.plan.subgoals, planned.in_reach, doubts, strict=True)
    for number, (subgoal, near, doubt) in enumerate(rows, 1):
        x, y, z = subgoal.target_m
        found.append(
            f"{number}. {subgoal.skill}({', '.join(subgoal.args)}) at ({x:.3f}, {y:.3f}, {z:.3f}) m, "
            f"{'in reach' if near else 'OUT OF REACH'}, at most {subgoal.max_steps} steps"
            + (f"; doubt: {doubt}" if doubt else "")
        )
    return found


def used(planner: Planner | None) -> dict[str, Any]:
    """What a language model was asked, as fields of `Planned`; nothing for a planner that asks none."""
    if not isinstance(planner, AskingPlanner):
        return {}
    return {"llm": planner.usage(), "llm_line": planner.usage_line()}


def settings_as_keys(settings: PlannerSettings | None) -> dict[str, Any]:
    """What a planner is told, under the names of the verb's keys; what it has no key for where that was changed."""
    usual, told = asdict(PlannerSettings()), asdict(settings or PlannerSettings())
    budget = told.pop("budget")
    told = {name: value for name, value in told.items() if name not in KEYLESS or value != usual[name]}
    return told | {name if name.startswith("price_") else f"budget_{name}": value for name, value in budget.items()}


def _looked_at(out: str, keys: Mapping[str, object]) -> RunFolder:
    """The folder of an execution, after another run's was refused; what an earlier run of the same left may go."""
    folder = RunFolder("plan", out, settings=keys)
    folder.refuse_others(None, {}, EVIDENCE)
    folder.refuse_unmakeable()
    return folder


class _Session:
    """One instruction in one world."""

    def __init__(
        self, world: CheckedSceneEnv, describer: str, instruction: str, run: str, refuse_unreachable: bool
    ) -> None:
        self._world, self._instruction, self._run = world, instruction, run
        self._seeing = seeing = build.watched(world, describer)
        self._acted, self._describer = seeing.world, seeing.describer
        self._context = build.grounding_context(world, refuse_unreachable)
        self._planner: Planner | None = None
        self._source = "saved"
        self._critics: CriticAffordance | None = None

    def plan(self, planner: Planner | None, saved: Sequence[PlanStep] | None) -> Planned:
        """The plan, grounded in what the describer says now; `saved` steps, or those of the planner."""
        description = self._describer.describe(())
        if planner is not None:
            self._planner, self._source = planner, planner.name
            self._adapt(planner)
        proposed = planner.propose(self._instruction, description) if planner is not None else saved or ()
        made = proposed if isinstance(proposed, PlanFailure) else self._ground(proposed, description)
        subgoals = () if isinstance(made, PlanFailure) else made.subgoals
        placement, opinions = self._world.placement, self._opinions(made)
        return Planned(
            plan=made,
            description=description,
            in_reach=tuple(self._context.in_reach(subgoal, description) for subgoal in subgoals),
            robot_position_m=placement.position_m,
            robot_yaw_rad=placement.yaw_rad,
            chance=tuple(opinion.chance for opinion in opinions),
            doubt=tuple(opinion.doubt for opinion in opinions),
            notes=placement.notes,
        )

    def _opinions(self, made: Plan | PlanFailure) -> tuple[Opinion, ...]:
        """What critics hold of an arm's plan before anything moves; nothing where torch is not installed."""
        if isinstance(made, PlanFailure) or self._world.spec.robot != "fetch" or find_spec("torch") is None:
            return ()
        build.one_thread()
        from .affordance import second_opinions

        skills = {subgoal.skill for subgoal in made.subgoals}
        controllers = build.controllers_for(tuple(skills), self._world.spec.robot, self._run)
        return second_opinions(made, self._seeing.observe(), controllers)

    def _adapt(self, planner: Planner) -> None:
        """Tells a planner that asks a model what this robot can do, and what its controllers hold of a step."""
        if isinstance(planner, AskingPlanner):
            planner.adapt(skills_of(self._world.spec.robot), self._against)
        if isinstance(planner, SayCanPlanner):
            build.one_thread()
            from .affordance import CriticAffordance

            controllers = build.controllers_for(SKILLS, self._world.spec.robot, self._run)
            self._critics = CriticAffordance(controllers, self._ground, self._seeing.observe())
            planner.affordance = self._critics

    def _against(self, steps: Sequence[PlanStep], seen: SceneDescription) -> PlanFailure | None:
        made = self._ground(steps, seen)
        return made if isinstance(made, PlanFailure) else None

    def carry_out(
        self, made: Planned, film: bool, out: RunFolder, say: Callable[[str], None], operator: Operator | None = None
    ) -> Planned:
        """Moves the robot, and writes the evidence into `out` in place of what an earlier run of the same left."""
        from embodied.hierarchy.executor import Executor

        from .filming import Recorder
        from .progress import Progress

        assert isinstance(made.plan, Plan)
        build.one_thread()
        controllers = build.acting_controllers(self._world, self._run)
        executor = Executor(
            self._acted, controllers, self._describer, self._planner, build.executor_config(self._world),
            ground=self._ground, withdraw=self._seeing.withdraw, operator=operator,
        )  # fmt: skip
        executor.check(made.plan)
        out.discard((RESULT_FILE, *(name for name in EVIDENCE if name not in SCENE)))
        out.write_config()
        folder = out.path
        names = [f"{s.skill}({', '.join(s.args)})" for s in made.plan.subgoals]
        recorder = Recorder(self._world, folder, self._seeing.tell, names, film, self._used)
        shown = Progress(say, len(names))

        def keep(record: StepRecord) -> None:
            if self._critics is not None:
                self._critics.observation = record.observation

        executor.observers, executor.listeners = (recorder, keep, shown), (recorder.happened, shown.happened)
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

    def _used(self) -> Mapping[str, Any]:
        return used(self._planner).get("llm", {}) if self._planner is not None else {}

    def _ground(self, steps: Sequence[PlanStep], seen: SceneDescription) -> Plan | PlanFailure:
        return ground(steps, seen, self._context, instruction=self._instruction, planner=self._source)
