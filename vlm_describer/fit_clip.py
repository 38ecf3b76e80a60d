"""`embodied fit describer=clip`: crops, tower, heads and calibration, in steps that are taken up where they ended."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch

from embodied.labels import FrameLabel
from embodied.types import FloatArray, Frame
from vlm_describer import sim_clip
from vlm_describer.dataset import FrameSet
from vlm_describer.examples import Examples, joined, load_examples, make_examples, save_examples
from vlm_describer.fit_state import Progress, run_epochs
from vlm_describer.fit_tower import TowerConfig, TowerFit
from vlm_describer.heads import load_heads, save_heads
from vlm_describer.naming import ITEM_GROUPS, HeadNamer, PromptNamer
from vlm_describer.relief_tower import load_relief_tower, save_relief_tower
from vlm_describer.vocabulary import Vocabulary, load_vocabulary

HEADS = "heads.safetensors"
RELIEF_TOWER = "relief.safetensors"
CHUNK = 80
"""Frames whose crops are written together."""


@dataclass(frozen=True)
class FitClipConfig:
    """How sim-clip is fitted."""

    sim: sim_clip.SimClipConfig = field(default_factory=sim_clip.SimClipConfig)
    tower: TowerConfig = field(default_factory=TowerConfig)


def fit_clip(
    fit: FrameSet, folder: Path, work: Path, config: FitClipConfig, card: Mapping[str, Any], progress: Progress
) -> HeadNamer:
    """Fits tower and heads, writes them into `folder`; intermediate files lie in `work`.

    Args:
        fit: Labelled frames.
        folder: Weights, heads and card.
        work: Crops and the tower's latest epoch; what is there is used.
        config: Sizes and lengths.
        card: Added to the card: what made the frames.
        progress: See `Progress`.
    """
    work.mkdir(parents=True, exist_ok=True)
    examples = examples_of(fit, work / "examples", config.sim.image_size, progress)
    torch.manual_seed(config.tower.seed)
    network, tokenizer = sim_clip.build(config.sim)
    tower = TowerFit(network, tokenizer, load_vocabulary(), examples, config.tower)
    losses = run_epochs(tower, work / "tower.safetensors", "the tower", progress)
    told = {"fit": asdict(config), "crops": int(len(examples)), "losses": losses, **card}
    sim_clip.save(network, config.sim, folder, told)
    save_heads(tower.heads(), folder / HEADS)
    save_relief_tower(tower.relief_tower, folder / RELIEF_TOWER)
    return load_namer(folder)


def load_namer(folder: Path | None = None, vocabulary: Vocabulary | None = None) -> HeadNamer:
    """The shipped sim-clip with its heads, or the one in `folder`; `vocabulary`: with a user's lines."""
    folder = sim_clip.SHIPPED if folder is None else folder
    relief_tower = load_relief_tower(folder / RELIEF_TOWER)
    return HeadNamer(sim_clip.load_sim_clip(folder), load_heads(folder / HEADS), relief_tower, vocabulary)


def examples_of(frames: FrameSet, folder: Path, side: int, progress: Progress) -> Examples:
    """Crops of a whole set, written in parts."""
    folder.mkdir(parents=True, exist_ok=True)
    parts = []
    for start in range(0, len(frames), CHUNK):
        rows = range(start, min(start + CHUNK, len(frames)))
        # Its end too: where the set has grown since, the last part is another one.
        path = folder / f"part-{rows.start:06d}-{rows.stop:06d}.h5"
        progress("finding things", start / len(frames))
        if not path.exists():
            save_examples(make_examples(labelled(frames, rows), side), path)
        parts.append(load_examples(path))
    progress("finding things", 1.0)
    return joined(parts)


def labelled(frames: FrameSet, rows: range) -> Iterator[tuple[Frame, FrameLabel]]:
    """Frames with their labels."""
    for row in rows:
        yield frames.frame(row), frames.label(row)


def named_rightly(namer: HeadNamer, examples: Examples) -> dict[str, dict[str, float]]:
    """Share of the crops that wordings alone, and heads, name rightly, by group."""
    vectors = namer.model.encode_images(list(examples.crops))
    heads = namer.head_logits(vectors, examples.reliefs, examples.features)
    return {
        "wordings": _accuracies(PromptNamer(namer.model).logits(vectors), examples),
        "heads": _accuracies(heads, examples),
    }


def _accuracies(logits: Mapping[str, FloatArray], examples: Examples) -> dict[str, float]:
    labels = {"kinds": examples.kind, "colours": examples.colour, "sizes": examples.size}
    known = {group: label >= 0 for group, label in labels.items()}
    return {
        group: float(np.mean(logits[group].argmax(axis=1)[known[group]] == labels[group][known[group]]))
        for group in ITEM_GROUPS
        if known[group].any()
    }
