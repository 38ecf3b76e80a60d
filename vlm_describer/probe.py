"""A linear probe: what a public model sees in a crop, read by multinomial logistic regression into kinds and colours.

Radford et al. 2021, "Learning Transferable Visual Models From Natural Language Supervision" (arXiv 2103.00020), section
3.2, measure models so: the tower stays as it is, and one linear layer is fitted to its vectors by L-BFGS.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import log_softmax, softmax

from embodied.errors import IntegrityError, UserError
from embodied.types import FloatArray, Frame
from vlm_describer.clip_model import ClipModel, load_clip
from vlm_describer.crops import crop
from vlm_describer.examples import Examples, shrunk
from vlm_describer.located import Located
from vlm_describer.naming import GROUPS, ITEM_GROUPS, SIDE, Names, PromptNamer
from vlm_describer.vocabulary import Vocabulary, untold

CARD, WEIGHTS = "probe.json", "probe.safetensors"
PROBED = ("kinds", "colours")
_PARTS = ("mean", "scale", "weight", "bias")
_AGAIN = "fit it again with: embodied fit describer=clip probe=true"
Array = NDArray[np.float64]


@dataclass(frozen=True)
class ProbeConfig:
    """How a probe is fitted."""

    crops: int = 3_000
    """At most so many of the examples: a public tower takes some 150 ms of CPU for each."""
    decay: float = 1e-3
    """Weight of half the squared norm of the weights beside the mean loss of an example."""
    steps: int = 300
    """Of L-BFGS, at most."""
    seed: int = 0
    """Which crops are taken."""


@dataclass(frozen=True)
class Probe:
    """Standardised vectors times a matrix, plus a constant."""

    mean: FloatArray
    """(D,)"""
    scale: FloatArray
    """(D,)"""
    weight: FloatArray
    """(D, K)"""
    bias: FloatArray
    """(K,)"""

    def logits(self, vectors: FloatArray) -> FloatArray:
        """(N, D) to (N, K)."""
        return np.asarray((vectors - self.mean) / self.scale @ self.weight + self.bias, dtype=np.float32)


class ProbeNamer:
    """Kinds and colours by probes, sizes and scenes by wordings."""

    def __init__(self, model: ClipModel, probes: Mapping[str, Probe], vocabulary: Vocabulary | None = None) -> None:
        self._prompts, self._model, self._probes = PromptNamer(model, vocabulary), model, probes
        self.identity, self._untold = f"probe-{model.identity}", untold(self._prompts.vocabulary)

    def names(self, frame: Frame, located: Located) -> Names:
        """As `Namer.names`."""
        crops = [crop(frame, item, SIDE) for item in located.items]
        vectors = self._model.encode_images([*crops, shrunk(frame.rgb, SIDE)])
        logits = self._prompts.logits(vectors)
        logits |= {group: probe.logits(vectors) for group, probe in self._probes.items()}
        items = {group: logits[group][:-1] for group in ITEM_GROUPS}
        return Names(items, logits["scenes"][-1], untold=self._untold)


def fit_probe(vectors: FloatArray, labels: NDArray[np.int64], names: int, config: ProbeConfig | None = None) -> Probe:
    """The probe under which labels (N,) of vectors (N, D) are most likely, less the decay; -1 is no label.

    Raises:
        UserError: No example has a label.
    """
    config = config or ProbeConfig()
    known = labels >= 0
    if not known.any():
        raise UserError("there is no labelled example to fit a probe on: give more frames")
    rows = np.asarray(vectors[known], dtype=np.float64)
    mean, scale = rows.mean(axis=0), rows.std(axis=0) + 1e-6
    inputs, target = (rows - mean) / scale, np.eye(names)[labels[known]]
    width = inputs.shape[1]

    def loss(flat: Array) -> tuple[float, Array]:
        weight, bias = flat[: width * names].reshape(width, names), flat[width * names :]
        logits = inputs @ weight + bias
        value = -np.mean(np.sum(target * log_softmax(logits, axis=1), axis=1)) + config.decay * np.sum(weight**2) / 2
        error = (softmax(logits, axis=1) - target) / len(inputs)
        return float(value), np.concatenate([(inputs.T @ error + config.decay * weight).ravel(), error.sum(axis=0)])

    found = minimize(
        loss, np.zeros((width + 1) * names), jac=True, method="L-BFGS-B", options={"maxiter": config.steps}
    ).x
    weight, bias = found[: width * names].reshape(width, names), found[width * names :]
    return Probe(*(np.asarray(part, dtype=np.float32) for part in (mean, scale, weight, bias)))


def fit_probes(model: ClipModel, examples: Examples, config: ProbeConfig | None = None) -> dict[str, Probe]:
    """A probe for kinds and one for colours, on a model's vectors of crops."""
    config = config or ProbeConfig()
    order = np.random.default_rng(config.seed).permutation(len(examples))[: config.crops]
    vectors = model.encode_images(list(examples.crops[order]))
    labels = {"kinds": examples.kind[order], "colours": examples.colour[order]}
    return {group: fit_probe(vectors, labels[group], len(GROUPS[group]), config) for group in PROBED}


def save_probes(
    probes: Mapping[str, Probe], folder: Path, model: ClipModel, source: tuple[str, str], about: Mapping[str, Any]
) -> None:
    """Probes and card into `folder`.

    Args:
        probes: By group.
        folder: Made where it is not there.
        model: Whose vectors they were fitted on.
        source: `model` and `pretrained` by which it is loaded.
        about: Added to the card.
    """
    from safetensors.numpy import save_file

    folder.mkdir(parents=True, exist_ok=True)
    tensors = {f"{group}.{part}": getattr(probe, part) for group, probe in probes.items() for part in _PARTS}
    save_file({name: np.ascontiguousarray(value) for name, value in tensors.items()}, folder / WEIGHTS)
    names = {group: list(GROUPS[group]) for group in probes}
    card = {"model": source[0], "pretrained": source[1], "identity": model.identity, "names": names, **about}
    (folder / CARD).write_text(json.dumps(card, indent=1) + "\n", "utf-8")


def load_probe_namer(folder: Path, pretrained: str = "", vocabulary: Vocabulary | None = None) -> ProbeNamer:
    """The probes in a folder with the model that they were fitted on; `pretrained` says where its weights lie now.

    `vocabulary`: as in `ProbeNamer`.

    Raises:
        UserError: The model cannot be had, or is another one.
        IntegrityError: The folder holds no probes of today's names.
    """
    card = _card(folder)
    probes = _probes(folder / WEIGHTS, card)
    model = load_clip(card["model"], pretrained or card["pretrained"])
    if model.identity != card["identity"]:
        raise UserError(f"{folder} was fitted on {card['identity']}, not on {model.identity}; {_AGAIN}")
    return ProbeNamer(model, probes, vocabulary)


def _card(folder: Path) -> dict[str, Any]:
    try:
        card = json.loads((folder / CARD).read_text("utf-8"))
        whole = {name: str(card[name]) for name in ("model", "pretrained", "identity")}
        names = {group: tuple(card["names"][group]) for group in PROBED}
    except (OSError, ValueError, KeyError, TypeError):
        raise IntegrityError(f"{folder / CARD} is no card of a probe; {_AGAIN}") from None
    if names != {group: tuple(GROUPS[group]) for group in PROBED}:
        raise IntegrityError(f"{folder} was fitted for other names than today's; {_AGAIN}")
    return whole


def _probes(path: Path, card: Mapping[str, Any]) -> dict[str, Probe]:
    from safetensors.numpy import load_file

    try:
        tensors = load_file(path)
        probes = {group: Probe(*(tensors[f"{group}.{part}"] for part in _PARTS)) for group in PROBED}
    except Exception as error:  # safetensors has an error of its own that is no OSError
        raise IntegrityError(f"{path} holds no probes ({type(error).__name__}); {_AGAIN}") from None
    if any(probe.weight.shape != (len(probe.mean), len(GROUPS[group])) for group, probe in probes.items()):
        raise IntegrityError(f"{path} holds probes of another shape than {card['identity']}'s; {_AGAIN}")
    return probes
