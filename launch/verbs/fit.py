"""`embodied fit`: a describer's model, from rendered frames."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from embodied.errors import UserError

from ..fitting import FitSettings
from ..idle import refuse
from ..keys import key, nested
from ..outcome import CONFIG_FILE, Outcome, RunFolder, git_commit


@dataclass(frozen=True)
class KEYS:
    """Keys of `embodied fit`."""

    describer: str = key("whose model: clip (sim-clip) or blip (sim-blip)", choices=("clip", "blip"))
    seed: int = key("root of every random number: scenes, weights, order", 0, minimum=0)
    out: str = key(
        "folder for frames, intermediate files and the model; default runs/fit/<time>-<describer>", "", literal=True
    )
    resume: str = key("auto: go on with what is in out", "no", choices=("no", "auto"))
    model: str = key("with probe=true: a public CLIP model's name, or local-dir:<folder>", "", literal=True)
    pretrained: str = key("with probe=true: its weights: tag, file or local-dir:<folder>", "", literal=True)
    probe: bool = key("only a linear probe on the vectors of a public model (describer=clip)", False)
    fit: FitSettings = nested(FitSettings)


def run(config: KEYS, folder: RunFolder) -> Outcome:
    """Renders, fits, calibrates and judges; the model lies in <out>/model."""
    from .. import fitting, probing

    if config.probe != bool(config.model or config.pretrained) or (config.probe and config.describer != "clip"):
        raise UserError("a probe takes describer=clip, probe=true and model=, a public model with pretrained=")
    refuse(_idle(config, folder.asked))
    if (folder.unmade / CONFIG_FILE).exists() and (differs := folder.other_setting()):
        raise UserError(f"'{folder.unmade}' holds a fit with other settings ({differs}): choose another out=")
    folder.write_config(config)
    fit = {"clip": fitting.fit_clip, "blip": fitting.fit_blip}[config.describer]
    words = [word for word in folder.words if not word.startswith(("out=", "resume="))]
    about = {"arguments": words, "git_commit": git_commit()}
    if config.probe:
        card = probing.fit_probe(folder.path, config.fit, config.seed, about, (config.model, config.pretrained))
    else:
        card = fit(folder.path, config.fit, config.seed, about)
    lines = [f"{split}: {_told(row)}" for split, row in card["held_out"].items()]
    return Outcome(True, {"task": None, "seed": config.seed, "card": card}, (*lines, f"model: {folder.path / 'model'}"))


def _idle(config: KEYS, names: Sequence[str]) -> dict[str, str]:
    """How long is fitted is said for each model by a key of its own."""
    of = {"fit.epochs": "clip", "fit.caption_epochs": "blip"}
    if config.probe:
        return {name: "with probe=true" for name in of if name in names}
    return {name: f"with describer={config.describer}" for name in of if name in names and of[name] != config.describer}


def _told(row: dict[str, float]) -> str:
    told = f"F1 of named things {row['f1']:.3f}"
    if "sentence_contradicted" in row:
        told += f"; of raw captions {row['sentence_contradicted']:.3f} is false"
    return told
