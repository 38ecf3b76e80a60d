"""`embodied plan`: words and a scene to subgoals, and with execute=true to a moving robot."""

from __future__ import annotations

import sys
from dataclasses import dataclass

from embodied.errors import JobFailed, UserError
from embodied.types import Plan

from ..api import Planned
from ..catalogue import PLANNERS
from ..keys import key
from ..outcome import Outcome, RunFolder


@dataclass(frozen=True)
class KEYS:
    """Keys of `embodied plan`."""

    scene: str = key("a shipped scene or the path of an MJCF file", literal=True)
    instruction: str = key("what the robot shall do, in words; required without plan=", "", literal=True)
    planner: str = key("who plans", "rules", choices=PLANNERS)
    describer: str = key("who says what is in the scene", "oracle", choices=("oracle",))
    robot: str = key("auto: by the scene's looks", "auto", choices=("auto", "fetch", "point", "none"))
    run: str = key("whose controller acts: run folder or zoo:<name>; default: the zoo's", "", literal=True)
    execute: bool = key("carry the plan out", False)
    base: str = key(
        "the robot's base by hand: x,y,z,yaw_deg; default: before the work surface", "", unit="m,m,m,degrees"
    )
    plan: str = key("a saved or hand-written plan (JSON) instead of a planner", "", literal=True)
    film: bool = key("with execute=true: write the film and the timeline's pictures", True)
    out: str = key("run folder; default runs/plan/<time>-<scene>", "", literal=True)


EVIDENCE = ("plan.json", "states.npz", "timeline.json", "execution.mp4", "contact_sheet.png", "scene_compiled.xml")
"""What an execution leaves in its folder."""


def run(config: KEYS, folder: RunFolder) -> Outcome:
    """Plans, and moves the robot where that was asked for."""
    from .. import api, records

    if not config.instruction.strip() and not config.plan:
        raise UserError("instruction= is required (or plan= with a saved plan): what shall the robot do?")
    if config.run:
        api.load_controller(config.run)
    try:
        planned = _plan(config, folder)
    except JobFailed:
        folder.discard(EVIDENCE)
        raise
    if planned.report is None:
        folder.discard(EVIDENCE)
    result = {"task": None, "scene": config.scene, "instruction": config.instruction, **records.planned_record(planned)}
    if isinstance(planned.plan, Plan):
        folder.write_json("plan.json", {"instruction": config.instruction, "plan": result["plan"]})
    return Outcome(planned.ok, result, tuple(lines(planned)))


def _plan(config: KEYS, folder: RunFolder) -> Planned:
    from .. import api, build

    return api.plan(
        config.scene, config.instruction, planner=config.planner, describer=config.describer, robot=config.robot,
        run=config.run, base=build.parse_base(config.base), saved=config.plan or None, execute=config.execute,
        film=config.film, out=folder.unmade, say=lambda line: print(line, file=sys.stderr),
    )  # fmt: skip


def lines(planned: Planned) -> list[str]:
    """The plan, what became of it, and where the files are."""
    if not isinstance(planned.plan, Plan):
        return [f"no plan: {planned.plan.reason}: {planned.plan.message}"]
    found = list(planned.notes)
    for number, (subgoal, near) in enumerate(zip(planned.plan.subgoals, planned.in_reach, strict=True), 1):
        x, y, z = subgoal.target_m
        found.append(
            f"{number}. {subgoal.skill}({', '.join(subgoal.args)}) at ({x:.3f}, {y:.3f}, {z:.3f}) m, "
            f"{'in reach' if near else 'OUT OF REACH'}, at most {subgoal.max_steps} steps"
        )
    if planned.report is not None:
        found += [
            f"{'reached' if s.reached else 'FAILED '} {s.skill}({', '.join(s.args)}) in {s.steps} steps: {s.why}"
            for s in planned.report.subgoals
        ]
        found += [f"failed: {planned.report.reason}: {planned.report.message}"] if not planned.report.ok else []
        found += [f"{name.replace('_', ' ')}: {path}" for name, path in planned.files.items()]
    return found
