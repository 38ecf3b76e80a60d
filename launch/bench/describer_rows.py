"""Rows of `bench suite=describer`: one describer on one split, and what is understood of words."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from embodied.errors import UserError

from ..fitting import VIEWS, without_pixels
from .describer_page import Shown, chosen, example_of
from .table import Row

if TYPE_CHECKING:
    from embodied.labels import FrameLabel
    from embodied.types import Frame, SceneState
    from robots.random_scene import RandomScene
    from vlm_describer.blip import Speaker
    from vlm_describer.calibration import Calibration
    from vlm_describer.dataset import FrameSet
    from vlm_describer.nearest import Encoder
    from vlm_describer.score import Score
    from vlm_describer.seeing import Looker

_REMEDY = "they were made by another version of this software: give another out=, or leave out oracle"
MOST_CONFUSED = 20
"""Pairs of true and said names in a row."""


@dataclass(frozen=True)
class Subject:
    """Who is judged."""

    name: str
    looker: Looker
    calibration: Calibration
    speaker: Speaker | None = None
    """The looker, where it goes by sentences."""


def looked(subject: Subject, frames: FrameSet) -> tuple[Row, list[Shown]]:
    """What a describer says of the frames, as numbers and as examples."""
    from vlm_describer.judge import judge, view_and_words
    from vlm_describer.statements import Tally, told_by, told_by_sentence

    views, shown, said, raw = [], [], Tally(), Tally()
    for index in range(len(frames)):
        label = frames.label(index)
        view, words = view_and_words(frames.frame(index), label, subject.looker, subject.calibration, subject.name)
        told = told_by(words, label, view.pairs)
        said.add(told)
        sentence = subject.speaker.sentence if subject.speaker is not None else ""
        if subject.speaker is not None:
            raw.add(told_by_sentence(sentence, label))
        shown.append((len(told.false), (index, example_of(view, words, told, sentence))))
        # Masks and points of thousands of frames would fill the memory, and nothing looks at them again.
        views.append(replace(view, located=without_pixels(view.located)))
    score = judge(views, subject.calibration)
    sentences = {f"sentence_{key}": value for key, value in raw.flat().items()} if raw.frames else {}
    return {**score.summary(), **said.flat(), **sentences, "confused": _confused(score)}, chosen(shown)


def known(frames: FrameSet) -> Row:
    """What the oracle says of the frames' scenes, made again from their seeds, held against the frames' labels.

    Raises:
        UserError: The seeds no longer give the scenes of these frames.
    """
    from vlm_describer.judge import judge_all_knowing
    from vlm_describer.oracle import OracleDescriber
    from vlm_describer.score import Score
    from vlm_describer.statements import Tally, told_by

    score, said = Score(), Tally()
    for label, state in _states(frames):
        began = time.process_time()
        description = OracleDescriber(lambda state=state: state).describe()  # type: ignore[misc]
        score.cpu_s.append(time.process_time() - began)
        judge_all_knowing(description, label, score)
        said.add(told_by(description, label, {entity.id: entity for entity in label.entities}))
    return {**score.summary(), **said.flat(), "confused": _confused(score)}


def understood(encoder: Encoder) -> Iterator[Row]:
    """What is understood of words that nothing was fitted on, and the cosines of sentences that differ in meaning."""
    from vlm_describer.words_report import cosines, measure

    yield from (row.flat() for row in measure(encoder))
    for what, sentence, other, cosine in cosines(encoder):
        yield {"words_of": "sentences", "leg": what, "sentence": sentence, "other": other, "cosine": cosine}


def _states(frames: FrameSet) -> Iterator[tuple[FrameLabel, SceneState]]:
    """The state that each frame's label is about; scenes are compiled once."""
    from robots.random_stage import Stage
    from robots.randomize import RandomizerConfig, SceneRandomizer

    views = int(frames.about.get("views", VIEWS))
    for (split, seed), indices in groupby(range(len(frames)), lambda i: (frames.label(i).split, frames.label(i).seed)):
        scene = SceneRandomizer(RandomizerConfig(split=split, views=views)).draw(seed)
        with tempfile.TemporaryDirectory(prefix="random_scene_") as folder:
            stage = Stage(scene, Path(folder))
            for index in indices:
                label = frames.label(index)
                if not _shows(frames.frame(index), scene, label.view):
                    raise UserError(f"{split}: seed {seed} makes another scene than its frames show; {_REMEDY}")
                stage.apply(scene.views[label.view])
                yield label, stage.state()
            stage.close()


def _shows(frame: Frame, scene: RandomScene, view: int) -> bool:
    """Whether a frame was taken from where the view has its camera, which is drawn after all things."""
    if view >= len(scene.views) or frame.world_from_camera is None:
        return False
    place = scene.views[view].camera.position_m
    return bool(np.allclose(frame.world_from_camera[:3, 3], place, atol=1e-6))


def _confused(score: Score) -> str:
    confused = [f"{true} as {said} {n}" for (true, said), n in score.confusion.most_common() if true != said]
    return "; ".join(confused[:MOST_CONFUSED])
