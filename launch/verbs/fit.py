"""`embodied fit`: a describer's model, from rendered frames; or the embedded planner's, from taught sentences."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from embodied.errors import UserError

from ..distilling import TEACHERS, LessonSettings
from ..fitting import FitSettings
from ..idle import refuse
from ..keys import key, nested
from ..outcome import CONFIG_FILE, Outcome, RunFolder, git_commit
from ..parsing import ParserFitSettings


@dataclass(frozen=True)
class KEYS:
    """Keys of `embodied fit`."""

    describer: str = key("whose model: clip (sim-clip) or blip (sim-blip)", "", choices=("", "clip", "blip"))
    planner: str = key("instead of a describer's: the parser of the planner embedded", "", choices=("", "embedded"))
    teacher: str = key(
        "with planner=embedded: a language model that plans lessons.instructions and says taught sentences in other "
        "words; it is asked as plan asks it",
        "", choices=("", *TEACHERS),
    )  # fmt: skip
    seed: int = key("root of every random number: scenes, weights, order", 0, minimum=0)
    out: str = key(
        "folder for frames, intermediate files and the model; default runs/fit/<time>-<describer or planner>",
        "",
        literal=True,
    )
    resume: str = key("auto: go on with what is in out", "no", choices=("no", "auto"))
    model: str = key("with probe=true: a public CLIP model's name, or local-dir:<folder>", "", literal=True)
    pretrained: str = key("with probe=true: its weights: tag, file or local-dir:<folder>", "", literal=True)
    probe: bool = key("only a linear probe on the vectors of a public model (describer=clip)", False)
    fit: FitSettings = nested(FitSettings)
    parser: ParserFitSettings = nested(ParserFitSettings)
    lessons: LessonSettings = nested(LessonSettings)


def run(config: KEYS, folder: RunFolder) -> Outcome:
    """Renders or writes, fits, calibrates and judges; the model lies in <out>/model."""
    from .. import fitting, parsing, probing
    from ..distilling import Lessons

    if bool(config.describer) == bool(config.planner):
        raise UserError("say what shall be fitted: describer=clip, describer=blip or planner=embedded")
    if config.teacher and not config.planner:
        raise UserError("teacher= belongs to planner=embedded")
    if config.probe != bool(config.model or config.pretrained) or (config.probe and config.describer != "clip"):
        raise UserError("a probe takes describer=clip, probe=true and model=, a public model with pretrained=")
    refuse(_idle(config, folder.asked))
    if (folder.unmade / CONFIG_FILE).exists() and (differs := folder.other_setting()):
        raise UserError(f"'{folder.unmade}' holds a fit with other settings ({differs}): choose another out=")
    folder.write_config(config)
    words = [word for word in folder.words if not word.startswith(("out=", "resume="))]
    about = {"arguments": words, "git_commit": git_commit()}
    if config.planner:
        lessons = Lessons(config.teacher, config.lessons, config.seed) if config.teacher else None
        card = parsing.fit_embedded(folder.path, config.parser, config.seed, about, lessons)
        lines = [f"{name}: {row['right']:.3f} right, {row['wrong']:.3f} wrong" for name, row in card["judged"].items()]
        return _outcome(config, folder, card, lines)
    fit = {"clip": fitting.fit_clip, "blip": fitting.fit_blip}[config.describer]
    if config.probe:
        card = probing.fit_probe(folder.path, config.fit, config.seed, about, (config.model, config.pretrained))
    else:
        card = fit(folder.path, config.fit, config.seed, about)
    lines = [f"{split}: {_told(row)}" for split, row in card["held_out"].items()]
    return _outcome(config, folder, card, lines)


def _outcome(config: KEYS, folder: RunFolder, card: dict[str, Any], lines: list[str]) -> Outcome:
    return Outcome(True, {"task": None, "seed": config.seed, "card": card}, (*lines, f"model: {folder.path / 'model'}"))


def _idle(config: KEYS, names: Sequence[str]) -> dict[str, str]:
    """How long is fitted is said for each model by a key of its own."""
    without = {name: "without teacher=" for name in names if name.startswith("lessons.") and not config.teacher}
    other, fitted = ("fit.", "planner=embedded") if config.planner else ("parser.", f"describer={config.describer}")
    without |= {name: f"with {fitted}" for name in names if name.startswith(other)}
    return without | ({} if config.planner else _idle_lengths(config, names))


def _idle_lengths(config: KEYS, names: Sequence[str]) -> dict[str, str]:
    of = {"fit.epochs": "clip", "fit.caption_epochs": "blip"}
    if config.probe:
        return {name: "with probe=true" for name in of if name in names}
    return {name: f"with describer={config.describer}" for name in of if name in names and of[name] != config.describer}


def _told(row: dict[str, float]) -> str:
    told = f"F1 of named things {row['f1']:.3f}"
    if "sentence_contradicted" in row:
        told += f"; of raw captions {row['sentence_contradicted']:.3f} is false"
    return told
