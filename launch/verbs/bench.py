"""`embodied bench`: tables of measurements, peers included where they are installed."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

from embodied.errors import unknown_name

from .. import bench
from ..bench.table import Table
from ..idle import idle_by_choice, refuse
from ..keys import key
from ..outcome import Outcome, RunFolder

PRESETS = ("fast", "frugal", "debug")


@dataclass(frozen=True)
class KEYS:
    """Keys of `embodied bench`; those of one suite alone say so."""

    suite: str = key("which table: learning, learner, stepping, tabletop, describer, planning")
    seed: int = key("root of every random number; the first of several seeds", 0, minimum=0)
    resume: str = key("auto: go on behind the rows that are in out", "no", choices=("no", "auto"))
    task: str = key("a task that Gymnasium has too", "fetch_push", of=("learning",))
    systems: tuple[str, ...] = key(
        "who is measured, of launch/conf/bench/systems.yaml",
        ("ours", "sb3_sac_her_small", "sb3_sac_her", "sb3_tqc_her"), of=("learning",),
    )  # fmt: skip
    seeds: int = key("how many, from seed on", 1, minimum=1, of=("learning",))
    preset: str = key("of ours; its evaluations hold for everybody", "fast", choices=PRESETS, of=("learning",))
    total_steps: int | None = key(
        "environment steps of a run; default: that of task and preset", None, minimum=1, of=("learning",)
    )
    max_cpu_s: float = key(
        "processor seconds of training, evaluations not counted, after which a run is stopped",
        3600.0, unit="s", of=("learning",),
    )  # fmt: skip
    controller: str = key("who acts: run folder or zoo:<name>", "zoo:tabletop", literal=True, of=("tabletop",))
    scenes: int = key("how many for each skill", 100, minimum=1, of=("tabletop",))
    describers: tuple[str, ...] = key(
        "who is judged: oracle, clip, blip, geometry, threshold; and words: what is understood of words",
        ("oracle", "clip", "geometry", "threshold", "words"), of=("describer",),
    )  # fmt: skip
    frames: int = key(
        "of each of the four splits, to the nearest 10, from 80 on to the nearest 80; those in which a robot hits "
        "something are left out",
        320, minimum=1, of=("describer",),
    )  # fmt: skip
    model: str = key("of clip: folder of a fitted model, or a public one's name", "", literal=True, of=("describer",))
    pretrained: str = key("of clip: weights of a public model", "", literal=True, of=("describer",))
    captioner: str = key(
        "of blip: folder of a fitted or public model, or a public one's name; default: the shipped one",
        "", literal=True, of=("describer",),
    )  # fmt: skip
    instructions: str = key("planning: a file with a line for each instruction (JSON)", "", literal=True)
    planner: str = key("planning: who plans", "rules")
    describer: str = key("planning: who says what is in the scene: oracle, clip, blip", "oracle")
    variations: int = key("planning: arrangements of each line's scene, the first as it is", 5, minimum=1)
    disturb: str = key(
        "planning: disturb each run once; true: moved, dropped or bumped, drawn", "false",
        choices=("false", "true", "moved", "dropped", "bumped", "taken"),
    )  # fmt: skip
    out: str = key("folder of the table; default runs/bench/<time>-<suite>", "", literal=True)


def suite_names() -> list[str]:
    """Modules of `launch/bench` that are suites: those that define `run`."""
    files = Path(bench.__file__).parent.glob("*.py")
    return sorted(
        path.stem for path in files if re.search(r"^def run\(config\b", path.read_text("utf-8"), re.MULTILINE)
    )


def _idle_describer_keys(config: KEYS, names: Sequence[str]) -> dict[str, str]:
    """Of the keys that give one describer its model those whose describer is not judged."""
    whose = {"model": "clip", "pretrained": "clip", "captioner": "blip"}
    absent = {name: who for name, who in whose.items() if name in names and who not in config.describers}
    return {name: f"where describers= has no {who}" for name, who in absent.items()}


def run(config: KEYS, folder: RunFolder) -> Outcome:
    """Makes the rows that are missing and says what they come to."""
    if config.suite not in suite_names():
        raise unknown_name("suite", config.suite, suite_names())
    refuse(idle_by_choice(KEYS, "suite", config.suite, folder.asked) | _idle_describer_keys(config, folder.asked))
    suite = import_module(f"..bench.{config.suite}", __package__)
    table = Table(
        folder.unmade / f"{config.suite}.jsonl", resume=config.resume == "auto",
        on_claim=lambda: folder.write_config(config),
    )  # fmt: skip
    lines = suite.run(config, table)
    result = {"suite": config.suite, "rows": table.rows, **table.summary}
    return Outcome(not table.failures, result, (*lines, *table.failures))
