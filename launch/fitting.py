"""Fitting a describer: frames of random scenes, the model, its calibration, and how it does on what it never saw."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tqdm import tqdm

from embodied.errors import UserError

if TYPE_CHECKING:
    from embodied.labels import FrameLabel
    from vlm_describer.blip import Speaker
    from vlm_describer.dataset import FrameSet
    from vlm_describer.judge import View
    from vlm_describer.seeing import Looker

HELD_OUT_SPLITS = ("new_camera", "new_look", "new_pairs", "more_things")
SCENES_A_PART = 8
VIEWS = 10
"""Of a scene: frames of a part of a data set."""
BAR = "{desc}{percentage:3.0f}%|{bar}| {elapsed}<{remaining}"
Progress = Callable[[str, float], None]


@dataclass(frozen=True)
class FitSettings:
    """How much is rendered, and how long is fitted."""

    frames: int = 7_000
    """To fit on, about: views in which a robot hits something are left out."""
    validation_frames: int = 640
    """To calibrate on."""
    held_out_frames: int = 320
    """Of each held-out split."""
    epochs: int = 9
    """Of sim-clip's image tower over the crops."""
    caption_epochs: int = 12
    """Of sim-blip over the crops."""

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if value < 1:
                raise UserError(f"fit.{name}={value}: must be at least 1")


def frame_set(folder: Path, split: str, frames: int, seed: int, progress: Progress) -> FrameSet:
    """Labelled frames of random scenes, rendered as far as they are not there yet; `frames` to the nearest part, less
    those in which a robot hits something."""
    from robots.randomize import RandomizerConfig, labelled_frames
    from vlm_describer.dataset import write_frames

    scenes, views, parts = shares_of(frames)
    config = RandomizerConfig(split=split, views=views)
    first = seed * 1_000_000

    def part(index: int) -> Iterator[Any]:
        return labelled_frames(config, first + scenes * index, scenes)

    about = {"split": split, "seed": seed, "views": views, "scenes": scenes}
    told = lambda done, whole: progress(f"rendering {split}", done / whole)  # noqa: E731 (one use, one line)
    return write_frames(folder / split, part, parts, about, told)


def shares_of(frames: int) -> tuple[int, int, int]:
    """How many scenes a part of a data set shows, in how many views each, and how many parts make so many frames.

    A set of less than a part is one of fewer scenes, so that a trial costs what it says.
    """
    views = min(VIEWS, frames)
    scenes = min(SCENES_A_PART, max(1, round(frames / views)))
    return scenes, views, max(1, round(frames / (scenes * views)))


def fit_clip(folder: Path, settings: FitSettings, seed: int, about: Mapping[str, Any]) -> dict[str, Any]:
    """sim-clip from nothing into `folder`/model; its card."""
    from vlm_describer.clip import NamingLooker
    from vlm_describer.fit_clip import FitClipConfig, fit_clip
    from vlm_describer.fit_tower import TowerConfig
    from vlm_describer.sim_clip import read_card

    frames, model = folder / "frames", folder / "model"
    with bar() as progress:
        fit = frame_set(frames, "fit", settings.frames, seed, progress)
        config = FitClipConfig(tower=TowerConfig(epochs=settings.epochs, seed=seed))
        data = {"frames": len(fit), "seed": seed, **about}
        looker = NamingLooker(fit_clip(fit, model, folder / "work", config, {"data": data}, progress))
        card = {**read_card(model), **measured(frames, model, looker, settings, seed, progress)}
    _write_card(model, card)
    return read_card(model)


def fit_blip(folder: Path, settings: FitSettings, seed: int, about: Mapping[str, Any]) -> dict[str, Any]:
    """sim-blip from nothing into `folder`/model; its card."""
    from vlm_describer.blip_crops import CropLooker
    from vlm_describer.fit_blip import FitBlipConfig, fit_blip
    from vlm_describer.sim_blip import load_sim_blip
    from vlm_describer.sim_clip import read_card

    frames, model = folder / "frames", folder / "model"
    with bar() as progress:
        fit = frame_set(frames, "fit", settings.frames, seed, progress)
        config = FitBlipConfig(epochs=settings.caption_epochs, seed=seed)
        fit_blip(fit, model, folder / "work", config, {"data": {"frames": len(fit), "seed": seed, **about}}, progress)
        looker = CropLooker(load_sim_blip(model))
        card = {**read_card(model), **measured(frames, model, looker, settings, seed, progress, looker)}
    _write_card(model, card)
    return read_card(model)


def measured(
    frames: Path,
    model: Path,
    looker: Looker,
    settings: FitSettings,
    seed: int,
    progress: Progress,
    speaker: Speaker | None = None,
) -> dict[str, Any]:
    """How a fitted looker does on what it never saw, for its card; its calibration is made and written to `model`.

    `speaker` is the looker itself, where it goes by sentences: they are judged too.
    """
    from vlm_describer.calibration import CALIBRATION
    from vlm_describer.judge import calibrate, judge
    from vlm_describer.statements import Tally, told_by_sentence

    validation = frame_set(frames, "validation", settings.validation_frames, seed, progress)
    calibration = calibrate(views_of(validation, looker, progress), looker.identity)
    calibration.save(model / CALIBRATION)
    numbers: dict[str, dict[str, Any]] = {}
    for split in HELD_OUT_SPLITS:
        held_out = frame_set(frames, split, settings.held_out_frames, seed, progress)
        tally = Tally()

        def hear(label: FrameLabel, tally: Tally = tally) -> None:
            if speaker is not None:
                tally.add(told_by_sentence(speaker.sentence, label))

        numbers[split] = judge(views_of(held_out, looker, progress, hear), calibration).summary()
        if tally.frames:
            numbers[split] |= {f"sentence_{name}": value for name, value in tally.flat().items()}
    errors = dict(calibration.errors)
    return {"validation_frames": len(validation), "calibration_errors": errors, "held_out": numbers}


def _write_card(model: Path, card: Mapping[str, Any]) -> None:
    from vlm_describer.sim_clip import CARD

    from .outcome import plain

    write_card(model / CARD, plain(dict(card)))


def views_of(
    frames: FrameSet, looker: Looker, progress: Progress, looked: Callable[[FrameLabel], None] | None = None
) -> list[View]:
    """Every frame of a set as the describer's parts see it; `looked` is called with each label after its frame."""
    from vlm_describer.judge import view

    views = []
    for index in range(len(frames)):
        progress("looking", index / len(frames))
        label = frames.label(index)
        seen = view(frames.frame(index), label, looker)
        if looked is not None:
            looked(label)
        # Masks and points of thousands of frames would fill the memory, and nothing looks at them again.
        views.append(replace(seen, located=without_pixels(seen.located)))
    return views


def without_pixels(located: Any) -> Any:
    """The same without masks and points."""
    import numpy as np

    none, no_points = np.zeros((0, 0), bool), np.zeros((0, 3), np.float32)
    items = tuple(replace(item, mask=none, points_m=no_points) for item in located.items)
    surfaces = tuple(replace(surface, mask=none) for surface in located.surfaces)
    return replace(located, items=items, surfaces=surfaces)


def write_card(path: Path, card: Mapping[str, Any]) -> None:
    """The card as JSON."""
    import json

    path.write_text(json.dumps(card, indent=1) + "\n", "utf-8")


@contextmanager
def bar() -> Iterator[Progress]:
    """A bar on stderr that begins anew with every new task."""
    bars: dict[str, tqdm[Any]] = {}

    def progress(task: str, share: float) -> None:
        name = task.split(",")[0]
        if name not in bars:
            for bar in bars.values():
                bar.close()
            bars.clear()
            bars[name] = tqdm(total=100, desc=name, file=sys.stderr, bar_format=BAR)
        bar = bars[name]
        bar.set_description(task, refresh=False)
        bar.update(100 * share - bar.n)

    try:
        yield progress
    finally:
        for bar in bars.values():
            bar.close()
