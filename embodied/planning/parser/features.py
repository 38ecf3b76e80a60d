"""What the network is told of a token: the word, its spelling, what the vocabulary takes it for, MiniLM's vector."""

from __future__ import annotations

import zlib
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from embodied.planning.parser.tokens import HAN
from embodied.types import FloatArray

ID = "<id>"
"""What a token that is a thing's id is read as, whatever its letters."""
PIECES = 10
"""Letter triples that are read of a word; of a Chinese word its characters."""
BUCKETS = 4096
WIDTH = 384
"""Of MiniLM's vectors."""
FLAGS = ("colour", "kind", "number", "mark", "han", "id", "taught")


class Names(Protocol):
    """Words to canonical names; None where a word is not known."""

    def colour(self, text: str) -> str | None: ...
    def kind(self, text: str) -> str | None: ...


class Encoder(Protocol):
    """`embodied.text_encoder.TextEncoder`."""

    def encode(self, texts: Sequence[str]) -> FloatArray: ...


@dataclass(frozen=True)
class TokenRows:
    """Features of distinct tokens, a row each."""

    words: NDArray[np.int64]
    """(N,) index into the taught words, 0 for others."""
    pieces: NDArray[np.int64]
    """(N, 10) hashed spellings, 0 where there are no more."""
    flags: FloatArray
    """(N, 7)"""
    vectors: FloatArray
    """(N, 384) MiniLM's vector of the word alone; 0 for what is not Latin."""


class Features:
    """Turns tokens into rows.

    Args:
        taught: Words that were taught, in the order of their indices.
        names: The vocabulary.
        encoder: MiniLM; None: its vectors are 0, as for a computer without it.
        stored: Rows of the taught words, so that neither vocabulary nor encoder is asked about them.
    """

    def __init__(
        self, taught: Sequence[str], names: Names, encoder: Encoder | None, stored: TokenRows | None = None
    ) -> None:
        self._index = {word: i + 1 for i, word in enumerate(taught)}
        self._names, self._encoder, self._stored = names, encoder, stored

    @property
    def size(self) -> int:
        """Taught words."""
        return len(self._index)

    def taught(self, word: str) -> bool:
        return word in self._index

    def rows(self, tokens: Sequence[str]) -> TokenRows:
        """A row for each token: a word in lower case, or `ID`."""
        words = np.array([self._index.get(token, 0) for token in tokens], np.int64)
        pieces = [_spelling(token) for token in tokens]
        return TokenRows(
            words,
            np.stack(pieces) if tokens else np.zeros((0, PIECES), np.int64),
            np.array([self._flags(token) for token in tokens], np.float32).reshape(-1, len(FLAGS)),
            self._vectors(tokens, words),
        )

    def _vectors(self, tokens: Sequence[str], words: NDArray[np.int64]) -> FloatArray:
        vectors = np.zeros((len(tokens), WIDTH), np.float32)
        if self._stored is not None:
            known = words > 0
            vectors[known] = self._stored.vectors[words[known] - 1]
        asked = [i for i, token in enumerate(tokens) if _latin(token) and not (self._stored is not None and words[i])]
        if asked and self._encoder is not None:
            vectors[asked] = self._encoder.encode([tokens[i] for i in asked])
        return vectors

    def _flags(self, token: str) -> list[float]:
        if self._stored is not None and token in self._index:
            return [float(flag) for flag in self._stored.flags[self._index[token] - 1]]
        word = token != ID and any(map(str.isalnum, token))
        letters = word and not token.replace(".", "").isdigit()
        return [
            float(letters and self._names.colour(token) is not None),
            float(letters and self._names.kind(token) is not None),
            float(word and not letters), float(not word and token != ID), float(bool(HAN.match(token))),
            float(token == ID), float(token in self._index),
        ]  # fmt: skip


def _latin(token: str) -> bool:
    return token != ID and token.isascii() and any(map(str.isalpha, token))


def _spelling(token: str) -> NDArray[np.int64]:
    found = np.zeros(PIECES, np.int64)
    if token == ID:
        return found
    parts: Iterable[str] = token if HAN.match(token) else (f"^{token}$"[i : i + 3] for i in range(len(token)))
    for place, part in zip(range(PIECES), parts, strict=False):
        found[place] = 1 + zlib.crc32(part.encode("utf-8", "surrogatepass")) % (BUCKETS - 1)
    return found


def token_keys(texts: Sequence[str], ids: Collection[str]) -> list[str]:
    """The tokens' texts with ids as `ID`."""
    return [ID if text in ids else text for text in texts]
