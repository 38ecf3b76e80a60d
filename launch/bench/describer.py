"""`bench suite=describer`: what is said of frames that nothing was fitted on, held against the truth.

Splits are those of `robots.randomize`: other cameras, other textures and lights, pairs of kind and colour that were
never shown, more things than ever. A row is one describer on one split.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from embodied.errors import unknown_name

from .. import build
from ..fitting import HELD_OUT_SPLITS, frame_set, views_of
from .machine import machine
from .table import Row, Table

if TYPE_CHECKING:
    from vlm_describer.calibration import Calibration
    from vlm_describer.seeing import Looker

    from ..verbs.bench import KEYS

SEED_STEP = 1_000
"""Between the scenes that models were fitted with and those that they are judged on, in `fit`'s seeds."""
TOLD = ("f1", "precision", "recall", "position_median_m", "position_p95_m", "cpu_ms")
MOST_CONFUSED = 20
RELATIONS = ("left_of", "in_front_of", "near", "on", "in", "touching")


def run(config: KEYS, table: Table) -> list[str]:
    """Makes the rows that are missing and prints them.

    Raises:
        UserError: An unknown describer, or one whose model cannot be had.
    """
    build.one_thread()
    makers = {name: maker for name, maker in _makers(config).items() if name in config.describers}
    for name in config.describers:
        if name not in makers:
            raise unknown_name("describer", name, _makers(config))
    for name, make in makers.items():
        missing = [s for s in HELD_OUT_SPLITS if not table.done(describer=name, split=s, seed=config.seed)]
        if not missing:
            continue
        looker, calibration = make()
        for split in missing:
            table.append({"describer": name, "split": split, "seed": config.seed, "model": looker.identity,
                          **_judged(config, table.folder, split, looker, calibration), **machine()})  # fmt: skip
    return [_line(row) for row in table.rows if row["describer"] in config.describers and row["seed"] == config.seed]


def _makers(config: KEYS) -> dict[str, Callable[[], tuple[Looker, Calibration]]]:
    """Who can be judged: a looker and what its confidences mean."""
    from vlm_describer.blip import CaptionLooker
    from vlm_describer.calibration import Calibration
    from vlm_describer.clip import NamingLooker, load_clip_looker
    from vlm_describer.naming import GeometryNamer
    from vlm_describer.sim_blip import load_sim_blip
    from vlm_describer.threshold import ThresholdLooker

    return {
        "clip": lambda: load_clip_looker(config.model, config.pretrained),
        "blip": lambda: (CaptionLooker(load_sim_blip()), Calibration()),
        "geometry": lambda: (NamingLooker(GeometryNamer()), Calibration()),
        "threshold": lambda: (ThresholdLooker(), Calibration()),
    }


def _judged(config: KEYS, folder: Path, split: str, looker: Looker, calibration: Calibration) -> Row:
    from vlm_describer.judge import judge

    quiet: Callable[[str, float], None] = lambda task, share: None  # noqa: E731 (nothing to tell)
    frames = frame_set(folder / "frames", split, config.frames, SEED_STEP + config.seed, quiet)
    score = judge(views_of(frames, looker, quiet), calibration)
    confused = [f"{true} as {said} {n}" for (true, said), n in score.confusion.most_common() if true != said]
    return {"frames": len(frames), **score.summary(), "confused": "; ".join(confused[:MOST_CONFUSED])}


def _line(row: dict[str, Any]) -> str:
    told = ", ".join(f"{name} {row[name]:.3f}" for name in TOLD if row[name] is not None)
    facts = ", ".join(
        f"{name} {row[f'{name}_accuracy']:.3f} of {row[f'{name}_answered']:.2f}"
        for name in RELATIONS
        if row.get(f"{name}_accuracy") is not None
    )
    return f"{row['describer']} on {row['split']}: {told}; right of answered: {facts}"
