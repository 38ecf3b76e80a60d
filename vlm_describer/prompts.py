"""The words that a picture is compared with: several wordings for each name, averaged."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from embodied.types import FloatArray
from vlm_describer.clip_model import ClipModel
from vlm_describer.vocabulary import Vocabulary

BESIDE: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "kinds": {
        "thing": ("something of an odd shape", "a {colour} thing of no common kind", "an unknown thing"),
        "nothing": ("a bare patch of a surface", "a shadow on the ground", "no thing at all"),
    },
    "scenes": {"floor": ("things lying on the floor", "a floor seen from above with things on it")},
}
"""Wordings for names that are no words of the vocabulary."""


def wordings(vocabulary: Vocabulary, group: str, name: str) -> tuple[str, ...]:
    """What says that a picture shows this: `kinds`, `colours`, `sizes` or `scenes`, and the name."""
    entries = vocabulary.group(group)
    if name not in entries:
        return tuple(text.replace("{colour} ", "") for text in BESIDE[group][name])
    values = {"colours": {"kind": "thing"}, "sizes": {"kind": "thing"}}.get(group, {})
    return entries[name].says(**values)


def phrase(size: str, colour: str, kind: str) -> str:
    """`a small red block`; what is empty is left out."""
    words = " ".join(word for word in (size, colour, kind) if word)
    return f"{'an' if words[0] in 'aeiou' else 'a'} {words}"


def encoded(model: ClipModel, vocabulary: Vocabulary, group: str, names: Sequence[str]) -> FloatArray:
    """(K, D) unit vectors: for each name the mean of its wordings' vectors (Radford et al. 2021, section 3.1.4)."""
    means = [model.encode_texts(wordings(vocabulary, group, name)).mean(axis=0) for name in names]
    stacked = np.stack(means)
    return np.asarray(stacked / np.linalg.norm(stacked, axis=1, keepdims=True), dtype=np.float32)
