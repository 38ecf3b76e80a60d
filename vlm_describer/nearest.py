"""A word's meaning by its neighbours in a sentence encoder's space, or none where they do not speak clearly."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from embodied.types import FloatArray


class Encoder(Protocol):
    """What turns texts into unit vectors, `embodied.text_encoder.TextEncoder` for one."""

    def encode(self, texts: Sequence[str]) -> FloatArray:
        """(N, D), rows of length 1."""
        ...

    def pieces(self, text: str) -> tuple[str, ...]:
        """The word pieces that a text is read as."""
        ...


@dataclass(frozen=True)
class NearestConfig:
    """When a word is taken for what its nearest prompt names.

    Margin and agreement were chosen on words of the vocabulary and of `data/colour_labels.toml`, each left out in turn,
    without those kept for measuring, and on 400 made-up words: of colour words .05 are named right and none wrong (.12
    and .02 without `whole_words`), of kind words .24 and .02, of the background and of the made-up ones at most .01.
    Bare words as prompts named up to four times as many made-up ones.
    """

    form: str
    """A prompt, with `{}` for the word."""
    margin: float = 0.05
    """The nearest prompt's cosine must be so much greater than that of the nearest word of the background."""
    agreeing: int = 3
    """Of the `neighbours` nearest prompts so many must name the same as the nearest."""
    neighbours: int = 5
    whole_words: bool = False
    """Only words that the encoder knows whole: one that it reads in pieces has the neighbours of its spelling."""


class NearestPrompt:
    """Names a word after the prompts round it. The prompts' vectors are computed once, when first needed.

    Args:
        meanings: Word of a prompt to the name that it stands for.
        background: Words that stand for none of the names.
    """

    def __init__(
        self, encoder: Encoder, config: NearestConfig, meanings: Mapping[str, str], background: Sequence[str]
    ) -> None:
        self._encoder, self._config = encoder, config
        self._names = np.array(list(meanings.values()))
        self._prompts, self._background = list(meanings), list(background)
        self._vectors: tuple[FloatArray, FloatArray] | None = None

    def name(self, word: str) -> tuple[str, float] | None:
        """(name, cosine with the nearest prompt), or None where the word is not near enough to be sure."""
        config = self._config
        if config.whole_words and len(self._encoder.pieces(word)) != len(word.split()):
            return None
        nearest, cosine, margin, agreeing = self.closest(word)
        sure = margin >= config.margin and agreeing >= config.agreeing
        return (nearest, cosine) if sure else None

    def closest(self, word: str) -> tuple[str, float, float, int]:
        """(name of the nearest prompt, its cosine, how much nearer it is than the background, how many agree)."""
        vector = self._encode([word])[0]
        if self._vectors is None:
            self._vectors = self._encode(self._prompts), self._encode(self._background)
        prompts, background = self._vectors
        cosines = prompts @ vector
        order = np.argsort(-cosines, kind="stable")[: self._config.neighbours]
        name = str(self._names[order[0]])
        cosine = float(cosines[order[0]])
        behind = float(np.max(background @ vector)) if len(background) else -1.0
        return name, cosine, cosine - behind, int(np.sum(self._names[order] == name))

    def _encode(self, words: Sequence[str]) -> FloatArray:
        return self._encoder.encode([self._config.form.format(word) for word in words])
