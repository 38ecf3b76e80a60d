"""The network: a small encoder that gives each token a label, a head and an arc to it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor, nn

from embodied.planning.parser.features import BUCKETS, FLAGS, WIDTH
from embodied.planning.parser.grammar import ARCS, LABELS, SENTENCES

KINDS = len(SENTENCES)


@dataclass(frozen=True)
class NetworkConfig:
    """How large the network is."""

    words: int = 0
    """Taught words."""
    width: int = 128
    layers: int = 3
    heads: int = 4
    reach: int = 20
    """Distances that attention tells apart."""
    near: int = 2
    """Neighbours on each side that a token looks at before attention."""
    arc_width: int = 64
    dropout: float = 0.0


class Inputs(NamedTuple):
    """A batch: B sentences of at most T tokens, which are rows of features of U distinct tokens."""

    words: Tensor
    """(U,)"""
    pieces: Tensor
    """(U, 10)"""
    flags: Tensor
    """(U, 7)"""
    vectors: Tensor
    """(U, 384)"""
    rows: Tensor
    """(B, T) the row of each token; any where there is none."""
    mask: Tensor
    """(B, T) True where there is a token."""


class Scores(NamedTuple):
    """Logits; index 0 of what may be a head is the root."""

    labels: Tensor
    """(B, T, labels)"""
    heads: Tensor
    """(B, T, 1+T)"""
    below: Tensor
    above: Tensor
    """(B, T, A) and (B, 1+T, A): what arcs are told from; see `ParserNetwork.arcs`."""
    kinds: Tensor
    """(B, 4)"""


class _Block(nn.Module):
    """Neighbours, then attention with a bias by distance, then each token by itself."""

    def __init__(self, config: NetworkConfig) -> None:
        super().__init__()
        width = config.width
        self.heads, self.reach = config.heads, config.reach
        self.near_norm, self.norm, self.own_norm = nn.LayerNorm(width), nn.LayerNorm(width), nn.LayerNorm(width)
        self.near = nn.Parameter(torch.randn(2 * config.near + 1, width) / (2 * config.near + 1) ** 0.5)
        self.near_out = nn.Linear(width, width)
        self.into, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.bias = nn.Parameter(torch.zeros(config.heads, 2 * config.reach + 1))
        self.own = nn.Sequential(nn.Linear(width, 3 * width), nn.ReLU(), nn.Linear(3 * width, width))
        self.drop = nn.Dropout(config.dropout)

    def forward(self, x: Tensor, mask: Tensor, distance: Tensor) -> Tensor:
        batch, length, width = x.shape
        near = self.near_norm(x) * mask.unsqueeze(-1)
        padded = nn.functional.pad(near, (0, 0, len(self.near) // 2, len(self.near) // 2))
        blurred = sum(padded[:, k : k + length] * weight for k, weight in enumerate(self.near))
        x = x + self.drop(self.near_out(nn.functional.relu(blurred)))
        q, k, v = self.into(self.norm(x)).view(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        scores = q @ k.transpose(-1, -2) / (width / self.heads) ** 0.5 + self.bias[:, distance]
        scores = scores.masked_fill(~mask[:, None, None], -1e4)
        seen = (scores.softmax(-1) @ v).transpose(1, 2).reshape(batch, length, width)
        x = x + self.drop(self.out(seen))
        return x + self.drop(self.own(self.own_norm(x)))


class ParserNetwork(nn.Module):
    """Tokens to scores. Heads are scored by a biaffine form (Dozat and Manning 2017, arXiv 1611.01734)."""

    def __init__(self, config: NetworkConfig) -> None:
        super().__init__()
        width = config.width
        self.config = config
        self.word = nn.Embedding(config.words + 1, width, padding_idx=0)
        self.piece = nn.Embedding(BUCKETS, 64, padding_idx=0)
        self.from_piece, self.from_flags = nn.Linear(64, width), nn.Linear(len(FLAGS), width)
        self.from_vector = nn.Linear(WIDTH, width)
        self.root = nn.Parameter(torch.randn(width) * 0.1)
        self.start = nn.LayerNorm(width)
        self.blocks = nn.ModuleList(_Block(config) for _ in range(config.layers))
        self.last = nn.LayerNorm(width)
        self.to_label = nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, len(LABELS)))
        self.below = nn.Sequential(nn.Linear(width, config.arc_width), nn.ReLU())
        self.above = nn.Sequential(nn.Linear(width, config.arc_width), nn.ReLU())
        self.pair = nn.Linear(config.arc_width, config.arc_width)
        self.any_above = nn.Linear(config.arc_width, 1)
        self.apart = nn.Embedding(2 * config.reach + 1, config.arc_width)
        nn.init.normal_(self.apart.weight, std=0.1)
        self.arc_below, self.arc_above = nn.Linear(width, config.arc_width), nn.Linear(width, config.arc_width)
        self.to_arc = nn.Linear(config.arc_width, len(ARCS))
        self.to_kind = nn.Linear(2 * width, KINDS)
        self.drop = nn.Dropout(config.dropout)
        nn.init.normal_(self.word.weight, std=0.3)
        nn.init.normal_(self.piece.weight, std=0.3)

    def forward(self, given: Inputs) -> Scores:
        count = (given.pieces > 0).sum(-1, keepdim=True).clamp(min=1)
        x = self.word(given.words) + self.from_piece(self.piece(given.pieces).sum(-2) / count)
        x = x + self.from_flags(given.flags) + self.from_vector(given.vectors * WIDTH**0.5 * 0.5)
        x = nn.functional.embedding(given.rows, x)
        root = self.root.expand(len(x), 1, -1)
        x = self.drop(self.start(torch.cat([root, x], 1)))
        mask = torch.cat([torch.ones_like(given.mask[:, :1]), given.mask], 1)
        at = torch.arange(x.shape[1], device=x.device)
        reach = self.config.reach
        distance = (at[None] - at[:, None]).clamp(-reach, reach) + reach
        for block in self.blocks:
            x = block(x, mask, distance)
        x = self.last(x)
        tokens = self.drop(x[:, 1:])
        below, above = self.below(tokens), self.above(x)
        heads = self.pair(below) @ above.transpose(1, 2) + self.any_above(above).transpose(1, 2)
        # How far away a head is counts beside what it is: of two clauses alike, things belong to the nearer one.
        by_distance = below @ self.apart.weight.T
        heads = heads + by_distance.gather(2, distance[1:].expand(len(x), -1, -1))
        heads = heads.masked_fill(~mask[:, None], -1e4)
        mean = (tokens * given.mask.unsqueeze(-1)).sum(1) / given.mask.sum(1, keepdim=True).clamp(min=1)
        kinds = self.to_kind(torch.cat([x[:, 0], mean], -1))
        return Scores(self.to_label(tokens), heads, self.arc_below(tokens), self.arc_above(x), kinds)

    def arcs(self, below: Tensor, above: Tensor) -> Tensor:
        """Logits of arcs (..., arcs) between tokens (..., A) and their heads (..., A)."""
        return self.to_arc(nn.functional.relu(below + above))
