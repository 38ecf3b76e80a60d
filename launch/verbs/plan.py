"""`embodied plan`: words and a scene to subgoals, and with execute=true to a moving robot."""

from __future__ import annotations

import sys
from dataclasses import dataclass

from embodied.errors import UserError
from embodied.planning.budget import BudgetConfig
from embodied.types import Plan

from ..api import Planned
from ..catalogue import DESCRIBERS, PLANNERS
from ..keys import key
from ..outcome import Outcome, RunFolder
from ..planners import PlannerSettings
from ..planning import EVIDENCE, plan_lines


@dataclass(frozen=True)
class KEYS:
    """Keys of `embodied plan`."""

    scene: str = key("a shipped scene or the path of an MJCF file", literal=True)
    files_from: str = key("a folder that the scene's file may read from besides its own", "", literal=True)
    instruction: str = key("what the robot shall do, in words; required without plan=", "", literal=True)
    planner: str = key("who plans", "embedded", choices=PLANNERS)
    base_url: str = key(
        "openai: a server's address up to and with /v1; default: OPENAI_BASE_URL; its key is OPENAI_API_KEY of the "
        "environment",
        "", literal=True,
    )  # fmt: skip
    model: str = key(
        "openai: the model's name on the server; transformers, saycan: its folder or hub name", "", literal=True
    )
    key_file: str = key("openai: a file that holds the server's key instead of OPENAI_API_KEY", "", literal=True)
    votes: int = key("answers to one question; the plan that most agree on counts", PlannerSettings.votes, minimum=1)
    temperature: float | None = key(
        "of a model's answers; default: 0, with votes= 0.3", PlannerSettings.temperature, minimum=0
    )
    timeout_s: float = key("openai: longest wait for one answer", PlannerSettings.timeout_s, unit="s", minimum=0.001)
    notes: str = key("what a model should know of the place, in words", "", literal=True)
    cache: str = key("file that keeps models' answers, or none; default: in the user's cache folder", "", literal=True)
    record: str = key("a file to append a model's answers to, for planner=replay", "", literal=True)
    answers: str = key("replay: a file of recorded answers", "", literal=True)
    budget_calls: int = key("most requests to a model, retries included", BudgetConfig.calls, minimum=0)
    budget_tokens: int = key("most tokens of prompts and answers", BudgetConfig.tokens, minimum=0)
    budget_seconds: float = key("longest time spent on a model", BudgetConfig.seconds, unit="s", minimum=0)
    budget_cost: float | None = key("most money, in the currency of the prices; default: no limit", None, minimum=0)
    price_in: float = key("price of a million tokens of prompt", BudgetConfig.price_in, minimum=0)
    price_out: float = key("price of a million tokens of answer", BudgetConfig.price_out, minimum=0)
    describer: str = key("who says what is in the scene", "oracle", choices=DESCRIBERS)
    robot: str = key("auto: by the scene's looks", "auto", choices=("auto", "fetch", "point", "none"))
    run: str = key("whose controller acts: run folder or zoo:<name>; default: the zoo's", "", literal=True)
    execute: bool = key("carry the plan out", False)
    base: str = key(
        "the robot's base by hand: x,y,z,yaw_deg; default: before the work surface", "", unit="m,m,m,degrees"
    )
    plan: str = key("a saved or hand-written plan (JSON) instead of a planner", "", literal=True)
    interactive: bool = key("with execute=true, in a terminal: keys stop the robot, skip or replace a subgoal", False)
    film: bool = key("with execute=true: write the film and the timeline's pictures", True)
    out: str = key("run folder; default runs/plan/<time>-<scene>", "", literal=True)


LEAVES = EVIDENCE


def run(config: KEYS, folder: RunFolder) -> Outcome:
    """Plans, and moves the robot where that was asked for."""
    from .. import api, records

    if not config.instruction.strip() and not config.plan:
        raise UserError("instruction= is required (or plan= with a saved plan): what shall the robot do?")
    planner_settings(config).refuse_unused(config.planner)
    if config.run:
        api.load_controller(config.run)
    planned = _plan(config, folder)
    result = {"task": None, "scene": config.scene, "instruction": config.instruction, **records.planned_record(planned)}
    if isinstance(planned.plan, Plan):
        folder.write_json("plan.json", {name: result[name] for name in ("instruction", "plan", "chance", "doubt")})
    return Outcome(planned.ok, result, tuple(lines(planned)))


def _plan(config: KEYS, folder: RunFolder) -> Planned:
    from .. import api, build

    return api.plan(
        config.scene, config.instruction, planner=config.planner,
        settings=planner_settings(config), describer=config.describer, robot=config.robot,
        run=config.run, base=build.parse_base(config.base), files_from=config.files_from, saved=config.plan or None,
        execute=config.execute, film=config.film, out=folder, interactive=config.interactive,
        say=lambda line: print(line, file=sys.stderr),
    )  # fmt: skip


def planner_settings(config: KEYS) -> PlannerSettings:
    """The keys about language models as what they configure."""
    budget = BudgetConfig(
        config.budget_calls, config.budget_tokens, config.budget_seconds, config.budget_cost, config.price_in,
        config.price_out,
    )  # fmt: skip
    return PlannerSettings(
        base_url=config.base_url, model=config.model, key_file=config.key_file, votes=config.votes,
        temperature=config.temperature, timeout_s=config.timeout_s, notes=config.notes, cache=config.cache,
        record=config.record, answers=config.answers, budget=budget,
    )  # fmt: skip


def lines(planned: Planned) -> list[str]:
    """The plan, what became of it, and where the files are."""
    asked = [planned.llm_line] if planned.llm_line else []
    if not isinstance(planned.plan, Plan):
        return [f"no plan: {planned.plan.reason}: {planned.plan.message}", *asked]
    found = plan_lines(planned)
    if planned.report is not None:
        found += [
            f"{'reached' if s.reached else 'FAILED '} {s.skill}({', '.join(s.args)}) in {s.steps} steps: {s.why}"
            for s in planned.report.subgoals
        ]
        found += [f"recovery at {text}" for text in planned.report.recoveries]
        found += [f"failed: {planned.report.reason}: {planned.report.message}"] if not planned.report.ok else []
        found += [f"{name.replace('_', ' ')}: {path}" for name, path in planned.files.items()]
    return found + asked
