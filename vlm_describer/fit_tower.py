"""Fits sim-clip to crops and frames: its image tower, its projection of the text, and heads that name things from what
the tower sees and what geometry says."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from embodied.colours import COLOURS
from embodied.types import FloatArray
from vlm_describer.crops import FEATURES
from vlm_describer.examples import KINDS, SCENES, SIZES, Examples
from vlm_describer.fit_state import rate_at, restore_fit, save_fit
from vlm_describer.heads import HIDDEN, Head
from vlm_describer.located import COLOUR_STATISTICS
from vlm_describer.prompts import phrase, wordings
from vlm_describer.relief_tower import WIDTH, ReliefTower, mirrored, prepared
from vlm_describer.sim_clip import LOCKED, MEAN, STD
from vlm_describer.vocabulary import Vocabulary

NAMES: dict[str, Sequence[str]] = {"kinds": KINDS, "colours": COLOURS, "sizes": SIZES, "scenes": SCENES}
HEADS = ("kinds", "colours", "sizes")
WEIGHTS = {"kinds": 1.0, "colours": 1.0, "sizes": 0.3, "scenes": 0.3, "phrases": 0.3}
"""Of each part of the loss, wordings and heads alike."""
BLIND = {"kinds": 0.15, "colours": 0.5, "sizes": 0.15}
"""Share of the crops that a head has to name without the tower, so that it does not lean on what the tower has learned
by heart: that plates are never red, where it was shown none."""
RELIEF_NOISE = 0.03
"""Standard deviation of what is added to reliefs: real depth is noisier than rendered."""


@dataclass(frozen=True)
class TowerConfig:
    """How the tower is fitted."""

    epochs: int = 12
    batch_size: int = 128
    """Crops of a step; an eighth as many whole frames come with them."""
    learning_rate: float = 2e-3
    """Rises over the first twentieth of the steps, then falls to 0 like a cosine."""
    weight_decay: float = 0.05
    seed: int = 0


class TowerFit:
    """A training that can be taken up again after any epoch."""

    def __init__(
        self, network: Any, tokenizer: Any, vocabulary: Vocabulary, examples: Examples, config: TowerConfig
    ) -> None:
        """
        Args:
            network: From `sim_clip.build`; changed in place.
            tokenizer: Its own.
            vocabulary: Gives the wordings.
            examples: Crops and frames to learn from.
            config: Lengths and rates.
        """
        self.network, self.config, self._examples = network, config, examples
        network.visual.to(memory_format=torch.channels_last)  # a quarter less time on a CPU
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(config.seed)
            self._heads = HeadModule(network.visual.output_dim, examples.features)
        self.modules = nn.ModuleDict({"network": network, "heads": self._heads})
        self._texts = {
            group: [_pooled(network, tokenizer, wordings(vocabulary, group, name)) for name in names]
            for group, names in NAMES.items()
        }
        self._phrases = _Phrases(network, tokenizer)
        learned = [p for p in self.modules.parameters() if p.requires_grad]
        plain, matrices = [p for p in learned if p.ndim < 2], [p for p in learned if p.ndim >= 2]
        self._learned = learned
        groups = [{"params": matrices, "weight_decay": config.weight_decay}, {"params": plain, "weight_decay": 0.0}]
        self._optimiser = torch.optim.AdamW(groups, lr=config.learning_rate)
        self._per_epoch = max(1, len(examples) // config.batch_size)
        self.epoch = 0

    @property
    def done(self) -> bool:
        """Whether all epochs are over."""
        return self.epoch >= self.config.epochs

    def run_epoch(self, progress: Callable[[int, int, float], None] | None = None) -> float:
        """One epoch; its mean loss. Called with (steps done, steps of the epoch, loss) after each step."""
        generator = torch.Generator().manual_seed(self.config.seed * 1_000 + self.epoch)
        torch.manual_seed(self.config.seed * 1_000 + self.epoch)  # for dropout, which takes no generator
        order = torch.randperm(len(self._examples), generator=generator)
        self.modules.train()
        self.network.text.eval()
        total = 0.0
        for step in range(self._per_epoch):
            rows = order[step * self.config.batch_size : (step + 1) * self.config.batch_size].numpy()
            for group in self._optimiser.param_groups:
                group["lr"] = self._rate(self.epoch * self._per_epoch + step)
            loss = self._loss(rows, generator)
            self._optimiser.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(self._learned, 1.0)
            self._optimiser.step()
            with torch.no_grad():
                self.network.logit_scale.clamp_(0.0, math.log(100.0))
            total += float(loss.detach())
            if progress is not None:
                progress(step + 1, self._per_epoch, total / (step + 1))
        self.epoch += 1
        self.modules.eval()
        return total / self._per_epoch

    def save(self, path: Path) -> None:
        """Networks, optimiser and epoch."""
        save_fit(path, self.modules, self._optimiser, self.epoch, f"network.{LOCKED}")

    def restore(self, path: Path) -> None:
        """Undo `save`.

        Raises:
            IntegrityError: The file is damaged or of another network.
        """
        self.epoch = restore_fit(path, self.modules, self._optimiser)

    def heads(self) -> dict[str, Head]:
        """The heads as they are now."""
        return self._heads.heads()

    @property
    def relief_tower(self) -> ReliefTower:
        """What sees the reliefs."""
        return self._heads.relief

    def _rate(self, step: int) -> float:
        return rate_at(step, self.config.epochs * self._per_epoch, self.config.learning_rate)

    def _loss(self, rows: np.ndarray, generator: torch.Generator) -> Tensor:
        examples = self._examples
        few = torch.randint(len(examples.frames), (max(2, len(rows) // 8),), generator=generator).numpy()
        pictures = np.concatenate([examples.crops[rows], examples.frames[few]])
        flips = torch.rand(len(pictures), generator=generator) < 0.5
        flips[len(rows) :] = False
        ready = _augmented(pictures, flips, generator).contiguous(memory_format=torch.channels_last)
        images = functional.normalize(self.network.visual(ready), dim=-1)
        crops, frames = images[: len(rows)], images[len(rows) :]
        scale = self.network.logit_scale.exp()
        targets = {"kinds": examples.kind, "colours": examples.colour, "sizes": examples.size}
        draws = torch.rand(len(rows), generator=generator)
        blind = {group: draws < share for group, share in BLIND.items()}
        noise = 0.03 * torch.randn(len(rows), len(FEATURES), generator=generator)
        reliefs = mirrored(prepared(examples.reliefs[rows]), flips[: len(rows)])
        reliefs = reliefs + RELIEF_NOISE * torch.randn(reliefs.shape, generator=generator) * reliefs[:, 3:]
        said = self._heads(crops, reliefs, torch.from_numpy(examples.features[rows]), blind, noise)
        loss = torch.zeros(())
        for group, labels in targets.items():
            loss = loss + WEIGHTS[group] * self._named(crops, group, labels[rows], scale)
            loss = loss + WEIGHTS[group] * _cross_entropy(said[group], labels[rows])
        loss = loss + WEIGHTS["scenes"] * self._named(frames, "scenes", examples.scene[few], scale)
        return loss + WEIGHTS["phrases"] * self._contrast(crops, rows, scale)

    def _named(self, images: Tensor, group: str, labels: np.ndarray, scale: Tensor) -> Tensor:
        """Cross entropy of the rows that have a name of this group."""
        texts = torch.stack([self._projected(pooled).mean(dim=0) for pooled in self._texts[group]])
        return _cross_entropy(scale * images @ functional.normalize(texts, dim=-1).T, labels)

    def _contrast(self, images: Tensor, rows: np.ndarray, scale: Tensor) -> Tensor:
        """Each crop against the whole phrases of the batch, both ways; crops of one phrase are all right answers."""
        examples = self._examples
        told = [
            phrase(
                SIZES[examples.size[row]] if examples.size[row] >= 0 else "",
                COLOURS[examples.colour[row]] if examples.colour[row] >= 0 else "",
                KINDS[examples.kind[row]],
            )
            for row in rows
        ]
        names = sorted(set(told))
        texts = self._projected(torch.stack([self._phrases[name] for name in names]))
        logits = scale * images @ texts.T
        own = torch.tensor([names.index(name) for name in told])
        back = functional.one_hot(own, len(names)).float().T
        back = back / back.sum(dim=1, keepdim=True)
        return (functional.cross_entropy(logits, own) + functional.cross_entropy(logits.T, back)) / 2

    def _projected(self, pooled: Tensor) -> Tensor:
        return functional.normalize(self.network.text.proj(pooled), dim=-1)


class HeadModule(nn.Module):
    """The heads of `heads.Head` while they are fitted: the tower's vector, the relief's and standardised geometry."""

    def __init__(self, width: int, told: FloatArray) -> None:
        super().__init__()
        self._width = width
        self.relief = ReliefTower()
        self.mean: Tensor
        self.scale: Tensor
        self.register_buffer("mean", torch.from_numpy(told.mean(axis=0)))
        self.register_buffer("scale", torch.from_numpy(np.maximum(told.std(axis=0), 1e-2)))
        inputs = width + WIDTH + told.shape[1]
        self.layers = nn.ModuleDict({group: _layers(inputs, len(NAMES[group])) for group in HEADS})
        self.used: Tensor
        self.register_buffer("used", _used(width))

    def forward(
        self, vectors: Tensor, reliefs: Tensor, told: Tensor, blind: Mapping[str, Tensor], noise: Tensor
    ) -> dict[str, Tensor]:
        """Logits by group; the rows that are `blind` for it see no vector."""
        form, numbers = self.relief(reliefs), (told - self.mean) / self.scale + noise
        found = {}
        for used, (group, layer) in zip(self.used, self.layers.items(), strict=True):
            seen = vectors.masked_fill(blind[group][:, None], 0.0) * math.sqrt(vectors.shape[1])
            found[group] = layer(torch.cat([seen, form, numbers], dim=1) * used)
        return found

    def heads(self) -> dict[str, Head]:
        """As numpy has them."""
        width = self._width
        mean = np.concatenate([np.zeros(width + WIDTH, np.float32), self.mean.numpy()])
        seen = np.full(width, 1 / math.sqrt(width), np.float32)
        scale = np.concatenate([seen, np.ones(WIDTH, np.float32), self.scale.numpy()])
        found = {}
        for used, (group, layer) in zip(self.used, self.layers.items(), strict=True):
            assert isinstance(layer, nn.Sequential)
            first, last = layer[0], layer[3]
            assert isinstance(first, nn.Linear)
            assert isinstance(last, nn.Linear)
            weights = first.weight.T * used[:, None], first.bias, last.weight.T, last.bias
            parts = [weight.detach().numpy() for weight in weights]
            found[group] = Head(mean, scale, *parts)
        return found


def _used(width: int) -> Tensor:
    """(heads, inputs) 1 for what a head is told: colours nothing of the form, kinds and sizes nothing of the colour.

    What is never told cannot be learned by heart, such as which colours a kind of thing had.
    """
    of_colour = torch.tensor([name in COLOUR_STATISTICS for name in FEATURES])
    vector, form = torch.ones(width), torch.ones(WIDTH)
    colours = torch.cat([vector, 0 * form, of_colour.float()])
    others = torch.cat([vector, form, (~of_colour).float()])
    return torch.stack([colours if group == "colours" else others for group in HEADS])


def _layers(inputs: int, names: int) -> nn.Sequential:
    return nn.Sequential(nn.Linear(inputs, HIDDEN), nn.ReLU(), nn.Dropout(0.2), nn.Linear(HIDDEN, names))


def _cross_entropy(logits: Tensor, labels: np.ndarray) -> Tensor:
    """Of the rows that have a label."""
    known = np.flatnonzero(labels >= 0)
    if not len(known):
        return torch.zeros(())
    return functional.cross_entropy(logits[known], torch.from_numpy(labels[known]), label_smoothing=0.02)


class _Phrases(dict[str, Tensor]):
    """Sentences to the text tower's outputs before the projection, made when they are first asked for."""

    def __init__(self, network: Any, tokenizer: Any) -> None:
        super().__init__()
        self._network, self._tokenizer = network, tokenizer

    def __missing__(self, text: str) -> Tensor:
        self[text] = _pooled(self._network, self._tokenizer, [text])[0]
        return self[text]


def _pooled(network: Any, tokenizer: Any, texts: Sequence[str]) -> Tensor:
    """Outputs of the locked text tower before the learned projection, (N, 384)."""
    projection = network.text.proj
    network.text.proj = nn.Identity()
    try:
        with torch.no_grad():
            found: Tensor = network.text.eval()(tokenizer(list(texts)))
    finally:
        network.text.proj = projection
    return found


def _augmented(pictures: np.ndarray, flips: Tensor, generator: torch.Generator) -> Tensor:
    """(N, S, S, 3) bytes to normalised pictures: moved by up to 3 pixels, brighter or darker, noisy, some mirrored.

    Colours keep their hue, since it is what is to be named.
    """
    images = torch.from_numpy(np.ascontiguousarray(pictures)).permute(0, 3, 1, 2).float() / 255
    images = torch.where(flips[:, None, None, None], images.flip(3), images)
    shift = torch.randint(-3, 4, (2,), generator=generator).tolist()
    images = torch.roll(images, shifts=shift, dims=(2, 3))
    gain = 1 + 0.15 * torch.randn((len(images), 1, 1, 1), generator=generator)
    noise = 0.015 * torch.randn(images.shape, generator=generator)
    images = (images * gain.clamp(0.6, 1.4) + noise).clamp(0, 1)
    return (images - torch.tensor(MEAN)[:, None, None]) / torch.tensor(STD)[:, None, None]
