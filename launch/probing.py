"""Fitting a linear probe on a public model: frames of random scenes, probes, their calibration, and how they do."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .fitting import FitSettings, bar, frame_set, measured, write_card


def fit_probe(
    folder: Path, settings: FitSettings, seed: int, about: Mapping[str, Any], source: tuple[str, str]
) -> dict[str, Any]:
    """Probes for `source` (model, pretrained) into `folder`/model; their card.

    Raises:
        UserError: The model cannot be had; said before anything is rendered.
    """
    from vlm_describer.clip import NamingLooker
    from vlm_describer.clip_model import load_clip
    from vlm_describer.fit_clip import examples_of
    from vlm_describer.naming import SIDE
    from vlm_describer.probe import CARD, ProbeConfig, ProbeNamer, fit_probes, save_probes

    from .outcome import plain

    clip = load_clip(*source)
    frames, model, config = folder / "frames", folder / "model", ProbeConfig(seed=seed)
    with bar() as progress:
        fit = frame_set(frames, "fit", settings.frames, seed, progress)
        probes = fit_probes(clip, examples_of(fit, folder / "work" / "examples", SIDE, progress), config)
        data = {"data": {"frames": len(fit), "seed": seed, **about}}
        save_probes(probes, model, clip, source, data)
        found = measured(frames, model, NamingLooker(ProbeNamer(clip, probes)), settings, seed, progress)
    card = {**json.loads((model / CARD).read_text("utf-8")), **found}
    write_card(model / CARD, plain(card))
    return card
