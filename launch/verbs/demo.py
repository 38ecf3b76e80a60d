"""`embodied demo`: the main job end to end: train, tell, do, export, deploy."""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from embodied.errors import UserError
from embodied.report.plots import learning_curve

from .. import api, records
from ..compose import hydra_config
from ..keys import key
from ..outcome import BEGUN_FILE, Outcome, RunFolder
from . import deploy as deploy_verb
from . import plan as plan_verb
from . import train as train_verb

TASK, SCENE, INSTRUCTION = "fetch_reach", "tabletop_blocks", "touch the red block, then the blue block"


@dataclass(frozen=True)
class KEYS:
    """Keys of `embodied demo`."""

    seed: int = key("root of every random number of the training", 0, minimum=0)
    out: str = key("run folder; default runs/demo/<time>", "", literal=True)


@dataclass(frozen=True)
class Chapter:
    """One part of the demo, done."""

    ok: bool
    result: dict[str, Any]
    row: tuple[str, str]
    """What, and what came of it."""


def run(config: KEYS, folder: RunFolder) -> Outcome:
    """Does the main job and tells what happened; later parts use what earlier ones made."""
    if (folder.unmade / BEGUN_FILE).exists():
        raise UserError(f"'{folder.unmade}' holds a training already: choose another out=")
    parts = []
    for number, (title, chapter) in enumerate(CHAPTERS, 1):
        print(f"[{number}/{len(CHAPTERS)}] {title}", file=sys.stderr, flush=True)
        began = time.time()
        done = chapter(config, folder.path)
        parts.append(done)
        print(f"      {done.row[1]} ({time.time() - began:.0f} s)", file=sys.stderr, flush=True)
    result: dict[str, Any] = {}
    for done in parts:
        # The training's evaluation is the one that the demo's success rate stands for.
        result = {**done.result, **result}
    result = {name: value for name, value in result.items() if name not in ("wall_s", "cpu_s")}
    result |= {"task": TASK, "seed": config.seed, "scene": SCENE, "instruction": INSTRUCTION}
    return Outcome(all(done.ok for done in parts), result, table(parts, folder.path))


def train(config: KEYS, out: Path) -> Chapter:
    """Trains from nothing and draws the learning curve."""
    keys = hydra_config(train_verb.KEYS, [f"task={TASK}", f"seed={config.seed}"], ("task", "preset"))
    trained = api.train(TASK, out, train_verb.loop_config(keys), keys.sac, keys.replay,
                        command=f"embodied train task={TASK} seed={config.seed}")  # fmt: skip
    result = trained.to_dict()
    curve = learning_curve(out / "learning_curve.png", result["evaluations"], f"{TASK}, seed {config.seed}")
    said = (
        f"success {trained.final.success_rate:.2f} after {trained.env_steps:,} steps, {trained.cpu_train_s:.0f} CPU-s"
    )
    return Chapter(True, {**result, "learning_curve": curve}, ("trained from nothing", said))


def tell(config: KEYS, out: Path) -> Chapter:
    """Carries the instruction out with the controller just trained."""
    planned = api.plan(SCENE, INSTRUCTION, run=str(out), execute=True, out=out / "plan")
    result = records.planned_record(planned)
    if planned.report is None:
        return Chapter(False, result, ("told in words", plan_verb.lines(planned)[0]))
    reached = [subgoal.reached for subgoal in planned.report.subgoals]
    said = f"{sum(reached)} of {len(reached)} subgoals reached in {planned.report.steps} steps"
    return Chapter(planned.ok, result, (f'told "{INSTRUCTION}"', said))


def export(config: KEYS, out: Path) -> Chapter:
    """Writes the bundle and proves it equal."""
    exported = api.export(api.load_controller(out), out / "bundle", source=str(out))
    result = records.exported_record(exported)
    parity, steps = exported.result.parity_max_abs, exported.result.trace_steps
    return Chapter(True, result, ("exported to ONNX", f"largest difference {parity:.1e} over {steps:,} steps"))


def deploy(config: KEYS, out: Path) -> Chapter:
    """Runs the bundle in a process without torch on the evaluation's 100 seeds."""
    report = deploy_verb.run_runtime(deploy_verb.KEYS(bundle=str(out / "bundle"), driver="sim"))
    rate = report["success_rate"]
    said = f"success {rate:.2f} over {report['episodes']} episodes" if rate is not None else str(report["failure"])
    return Chapter(bool(report["ok"]), {"deploy": report}, ("ran without torch", said))


CHAPTERS = (
    (f"training {TASK} from nothing", train),
    (f'"{INSTRUCTION}" on {SCENE}', tell),
    ("exporting the controller and proving the file equal", export),
    ("running the file in a process without torch, mujoco or hydra", deploy),
)


def table(parts: list[Chapter], out: Path) -> tuple[str, ...]:
    """What happened, and where the files are."""
    files = (
        ("learning curve", out / "learning_curve.png"), ("film", out / "plan" / "execution.mp4"),
        ("contact sheet", out / "plan" / "contact_sheet.png"), ("bundle", out / "bundle"),
    )  # fmt: skip
    width = max(len(done.row[0]) for done in parts)
    rows = [f"{'ok  ' if done.ok else 'FAIL'} {done.row[0].ljust(width)}  {done.row[1]}" for done in parts]
    return (*rows, *(f"     {name.ljust(width)}  {path}" for name, path in files if path.exists()))
