"""`embodied bench`: tables of measurements, peers included where they are installed."""

from __future__ import annotations

import re
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

from embodied.errors import unknown_name

from .. import bench
from ..bench.table import Table
from ..keys import key
from ..outcome import Outcome, RunFolder

PRESETS = ("fast", "frugal", "debug")


@dataclass(frozen=True)
class KEYS:
    """Keys of `embodied bench`; which of them a suite looks at stands in their help."""

    suite: str = key("which table: learning, learner, stepping, tabletop, describer")
    seed: int = key("root of every random number; the first of several seeds", 0, minimum=0)
    resume: str = key("auto: go on behind the rows that are in out", "no", choices=("no", "auto"))
    task: str = key("learning: a task that Gymnasium has too", "fetch_push")
    systems: tuple[str, ...] = key(
        "learning: who is measured, of launch/conf/bench/systems.yaml",
        ("ours", "sb3_sac_her_small", "sb3_sac_her", "sb3_tqc_her"),
    )  # fmt: skip
    seeds: int = key("learning: how many, from seed on", 1, minimum=1)
    preset: str = key("learning: of ours; its evaluations hold for everybody", "fast", choices=PRESETS)
    total_steps: int | None = key("learning: environment steps of a run; default: the task's", None, minimum=1)
    max_cpu_s: float = key(
        "learning: processor seconds of training, evaluations not counted, after which a run is stopped",
        3600.0, unit="s",
    )  # fmt: skip
    controller: str = key("tabletop: who acts: run folder or zoo:<name>", "zoo:tabletop", literal=True)
    scenes: int = key("tabletop: how many for each skill", 100, minimum=1)
    describers: tuple[str, ...] = key(
        "describer: who is judged: oracle, clip, blip, geometry, threshold; and words: what is understood of words",
        ("oracle", "clip", "geometry", "threshold", "words"),
    )  # fmt: skip
    frames: int = key("describer: of each split, about", 320, minimum=1)
    model: str = key("describer: of clip: folder of a fitted model, or a public one's name", "", literal=True)
    pretrained: str = key("describer: weights of a public model", "", literal=True)
    captioner: str = key(
        "describer: of blip: folder of a fitted or public model, or a public one's name; default: the shipped one",
        "", literal=True,
    )  # fmt: skip
    out: str = key("folder of the table; default runs/bench/<time>-<suite>", "", literal=True)


def suite_names() -> list[str]:
    """Modules of `launch/bench` that are suites: those that define `run`."""
    files = Path(bench.__file__).parent.glob("*.py")
    return sorted(
        path.stem for path in files if re.search(r"^def run\(config\b", path.read_text("utf-8"), re.MULTILINE)
    )


def run(config: KEYS, folder: RunFolder) -> Outcome:
    """Makes the rows that are missing and says what they come to."""
    if config.suite not in suite_names():
        raise unknown_name("suite", config.suite, suite_names())
    suite = import_module(f"..bench.{config.suite}", __package__)
    table = Table(
        folder.unmade / f"{config.suite}.jsonl", resume=config.resume == "auto",
        on_claim=lambda: folder.write_config(config),
    )  # fmt: skip
    lines = suite.run(config, table)
    result = {"suite": config.suite, "rows": table.rows, **table.summary}
    return Outcome(not table.failures, result, (*lines, *table.failures))
