"""`bench suite=tabletop`: one controller, the executor, and scenes with one to six things that no training has seen.

A scene is made from its seed, one thing of it is to be placed at a point, in a zone, or on another thing, once, within
150 control steps. Judged is the state after half a second of holding still, by positions and facts alone.
"""

from __future__ import annotations

import tempfile
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from embodied.errors import UserError
from embodied.facts import holding, on
from embodied.hierarchy.executor import Executor, ExecutorConfig
from embodied.hierarchy.monitor import ExecutionReport, StepRecord
from embodied.learning.offers import offered_skills
from embodied.planning.grounding import GroundingContext, ground
from embodied.protocols import Controller
from embodied.rng import child_generator
from embodied.run.evaluate import wilson_interval
from embodied.run.progress import ProgressBar
from embodied.types import PlanFailure, PlanStep, SceneState, Subgoal
from robots.base import CheckedSceneEnv, checked
from robots.scene_maker import MadeScene, SceneMakerConfig, make_scene, surface_m
from robots.tabletop import TabletopEnv
from vlm_describer.oracle import OracleDescriber

from .. import build
from .machine import machine
from .table import Row, Table

if TYPE_CHECKING:
    from ..verbs.bench import KEYS

SKILLS = ("place", "stack")
FIRST_SEED = 1_000_000
"""Scenes of trainings are made from far smaller seeds."""
SEED_STEP = 100_000
"""Between the scenes of one `seed=` and the next."""
MOST_STEPS = 150
PLACED_M = 0.03
MOVED_M = 0.03
"""Another thing that moved further was disturbed."""
REST_M_PER_S = 0.01
ZONE_SHARE = 0.3
"""Of the places, in scenes that have zones."""


def run(config: KEYS, table: Table) -> list[str]:
    """Makes the rows that are missing and prints, for each skill, what they come to.

    Raises:
        UserError: No such controller, one that offers no skill of the suite, or a table of another one or seed.
    """
    about = {"controller": config.controller, "seed": config.seed}
    _refuse_others(table.rows, about)
    offered = offered_skills(config.controller)
    if offered is not None:
        _skills(config, offered)
    from embodied.learning.controller import open_controller

    build.one_thread()
    controller = open_controller(config.controller)
    skills = _skills(config, controller.manifest.skills)
    on_what = machine()
    for skill in skills:
        missing = [index for index in range(config.scenes) if not table.done(skill=skill, scene=index, **about)]
        bar = ProgressBar(config.scenes, config.scenes - len(missing), shown=bool(missing), unit="scene", name=skill)
        with closing(bar):
            for index in missing:
                row = attempt(skill, index, config.seed, controller)
                table.append({"skill": skill, "scene": index, **about, **row, **on_what})
                bar.advance()
    rows = [row for row in table.rows if row["scene"] < config.scenes]
    found = {skill: summary([row for row in rows if row["skill"] == skill]) for skill in skills}
    table.summary |= {skill: asdict(each) for skill, each in found.items()}
    return [_line(skill, each) for skill, each in found.items()]


def _refuse_others(rows: list[Row], about: Row) -> None:
    """A table is about one controller and one seed: all of its rows are counted together."""
    for row in rows:
        for name, value in about.items():
            if row[name] != value:
                raise UserError(f"the table's rows are of {name}={row[name]}, not {value}: choose another out=")


def _skills(config: KEYS, offered: tuple[str, ...]) -> list[str]:
    """Skills of the suite that a controller offers."""
    skills = [skill for skill in SKILLS if skill in offered]
    if not skills:
        raise UserError(f"controller={config.controller} offers neither place nor stack; train one: task=tabletop")
    return skills


def attempt(skill: str, index: int, seed: int, controller: Controller) -> Row:
    """One scene, one thing, one attempt: the row without what it is a row of."""
    scene_seed = FIRST_SEED + SEED_STEP * seed + index
    least = 2 if skill == "stack" else 1
    made = make_scene(scene_seed, least + index % (7 - least), index % 3)
    rng = child_generator(scene_seed, skill)
    with tempfile.TemporaryDirectory(prefix="bench_tabletop_") as folder:
        path = made.write(Path(folder))
        with closing(_opened(path, Path(folder))) as env:
            observation = env.reset(0)
            watch = _Watch(made.things[0].name, env.scene_state())
            step = PlanStep(skill, (watch.thing, _target(skill, made, rng)), max_steps=MOST_STEPS)
            describer = OracleDescriber(env.scene_state)
            plan = ground([step], describer.describe(()), GroundingContext.for_robot("fetch"))
            if isinstance(plan, PlanFailure):
                raise UserError(f"scene {scene_seed}: {plan.message}")
            once = ExecutorConfig(retries=0, replans=0)
            executor = Executor(env, {skill: controller}, describer, config=once, observers=(watch,))
            report = executor.run(plan, observation)
    return {"scene_seed": scene_seed, "kind": made.things[0].kind, "things": len(made.things),
            "zones": len(made.zones), **judged(skill, plan.subgoals[0], report, watch)}  # fmt: skip


def _opened(path: Path, folder: Path) -> CheckedSceneEnv:
    env = checked(TabletopEnv(path, out_dir=folder / "compiled"))
    assert isinstance(env, CheckedSceneEnv)
    return env


class _Watch:
    """Follows the things through an execution."""

    def __init__(self, thing: str, state: SceneState) -> None:
        self.thing, self.state = thing, state
        self._began = _centres(state)
        self.speed_m_per_s = self.others_moved_m = 0.0

    def __call__(self, record: StepRecord) -> None:
        before, now = _centres(self.state), _centres(record.state)
        passed = record.state.time_s - self.state.time_s
        self.speed_m_per_s = float(np.linalg.norm(now[self.thing] - before[self.thing])) / max(passed, 1e-9)
        others = [float(np.linalg.norm(now[name] - at)) for name, at in self._began.items() if name != self.thing]
        self.others_moved_m = max([self.others_moved_m, *others])
        self.state = record.state


def judged(skill: str, subgoal: Subgoal, report: ExecutionReport, watch: _Watch) -> Row:
    """What became of it, from the last state of the execution."""
    state, thing = watch.state, watch.thing
    centre = np.asarray(state.entity(thing).position_m)
    distance = float(np.linalg.norm(centre - np.asarray(subgoal.target_m)))
    released, at_rest = not holding(state, thing), watch.speed_m_per_s <= REST_M_PER_S
    stands = on(state, thing, subgoal.args[1]) if skill == "stack" else distance <= PLACED_M
    steps = report.subgoals[0].steps
    return {
        "success": stands and released and at_rest and steps <= MOST_STEPS, "distance_m": round(distance, 4),
        "on": stands if skill == "stack" else None, "at_rest": at_rest, "released": released, "steps": steps,
        "others_moved_m": round(watch.others_moved_m, 4), "why": report.subgoals[0].why,
    }  # fmt: skip


@dataclass(frozen=True)
class Summary:
    """What the rows of one skill come to."""

    scenes: int
    success_rate: float
    success_ci95: tuple[float, float]
    undisturbed_rate: float
    undisturbed_ci95: tuple[float, float]
    median_distance_m: float
    median_steps: float


def summary(rows: list[Row]) -> Summary:
    """Rates with Wilson's intervals; undisturbed: no other thing moved by more than 0.03 m."""
    successes = sum(row["success"] for row in rows)
    undisturbed = sum(row["others_moved_m"] <= MOVED_M for row in rows)
    return Summary(
        scenes=len(rows),
        success_rate=successes / len(rows),
        success_ci95=wilson_interval(successes, len(rows)),
        undisturbed_rate=undisturbed / len(rows),
        undisturbed_ci95=wilson_interval(undisturbed, len(rows)),
        median_distance_m=float(np.median([row["distance_m"] for row in rows])),
        median_steps=float(np.median([row["steps"] for row in rows])),
    )


def _target(skill: str, made: MadeScene, rng: np.random.Generator) -> str:
    """The second argument of the step: another thing, a zone, or a point on the table clear of everything."""
    thing, others = made.things[0], made.things[1:]
    if skill == "stack":
        return others[int(rng.integers(len(others)))].name
    if made.zones and rng.random() < ZONE_SHARE:
        return made.zones[int(rng.integers(len(made.zones)))].name
    config = SceneMakerConfig()
    low, high = surface_m(config.edge_m)
    while True:
        spot = rng.uniform(low, high)
        clear = all(np.hypot(*(spot - item.position_m[:2])) >= config.gap_m for item in made.things)
        if clear and all(zone.distance(spot) >= config.zone_gap_m for zone in made.zones):
            return f"{spot[0]:.4f},{spot[1]:.4f},{thing.rest_height_m:.4f}"


def _centres(state: SceneState) -> dict[str, np.ndarray]:
    return {item.id: np.asarray(item.position_m) for item in state.entities if item.role == "object"}


def _line(skill: str, found: Summary) -> str:
    low, high = found.success_ci95
    calm_low, calm_high = found.undisturbed_ci95
    return (
        f"{skill}: {found.success_rate:.2f} of {found.scenes} scenes (95 %: {low:.2f} to {high:.2f}), "
        f"{found.median_distance_m * 1000:.0f} mm off and {found.median_steps:.0f} steps in the middle; "
        f"nothing else moved in {found.undisturbed_rate:.2f} ({calm_low:.2f} to {calm_high:.2f})"
    )
