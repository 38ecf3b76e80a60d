"""Fits sim-blip: captions of rendered frames, and beside them what each patch of the picture shows.

The patches' labels are a crutch for fitting alone: a simulator knows where things are, and a small transformer finds
them sooner when it is told.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from embodied.colours import COLOURS
from embodied.labels import EntityLabel, FrameLabel
from vlm_describer import sim_blip
from vlm_describer.blip_model import BlipModel
from vlm_describer.captions import caption_of, told
from vlm_describer.dataset import FrameSet
from vlm_describer.examples import KINDS
from vlm_describer.fit_state import rate_at, restore_fit, save_fit
from vlm_describer.statements import Tally, told_by_sentence

NO_COLOUR, NO_THING = len(COLOURS), len(KINDS) - 1
"""Classes of patches that show a thing without a canonical colour, and that show none."""
Progress = Callable[[str, float], None]


@dataclass(frozen=True)
class FitBlipConfig:
    """How sim-blip is fitted."""

    sim: sim_blip.SimBlipConfig = field(default_factory=sim_blip.SimBlipConfig)
    epochs: int = 8
    batch_size: int = 16
    learning_rate: float = 1e-3
    """Rises over the first twentieth of the steps, then falls to 0 like a cosine."""
    weight_decay: float = 0.02
    patch_weight: float = 1.0
    """Of the patches' loss beside the captions'."""
    seed: int = 0


class BlipFit:
    """A training that can be taken up again after any epoch."""

    def __init__(self, frames: FrameSet, config: FitBlipConfig) -> None:
        torch.manual_seed(config.seed)
        self.network, self.tokenizer, self.images = sim_blip.build(config.sim)
        self.config, self._frames, self.epoch = config, frames, 0
        width = config.sim.vision_width
        self._patches = nn.Linear(width, len(KINDS) + NO_COLOUR + 1)
        self.modules = nn.ModuleDict({"network": self.network, "patches": self._patches})
        parameters = list(self.modules.parameters())
        groups = [
            {"params": [p for p in parameters if p.ndim >= 2], "weight_decay": config.weight_decay},
            {"params": [p for p in parameters if p.ndim < 2], "weight_decay": 0.0},
        ]
        self._optimiser = torch.optim.AdamW(groups, lr=config.learning_rate)
        self._per_epoch = max(1, len(frames) // config.batch_size)

    @property
    def done(self) -> bool:
        """Whether all epochs are over."""
        return self.epoch >= self.config.epochs

    def run_epoch(self, progress: Callable[[int, int, float], None] | None = None) -> float:
        """One epoch; its mean loss. Called with (steps done, steps of the epoch, loss) after each step."""
        generator = torch.Generator().manual_seed(self.config.seed * 1_000 + self.epoch)
        order = torch.randperm(len(self._frames), generator=generator).tolist()
        self.modules.train()
        total, size = 0.0, self.config.batch_size
        for step in range(self._per_epoch):
            for group in self._optimiser.param_groups:
                group["lr"] = self._rate(self.epoch * self._per_epoch + step)
            loss = self._loss(order[step * size : (step + 1) * size], generator)
            self._optimiser.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(self.modules.parameters(), 1.0)
            self._optimiser.step()
            total += float(loss.detach())
            if progress is not None:
                progress(step + 1, self._per_epoch, total / (step + 1))
        self.epoch += 1
        self.modules.eval()
        return total / self._per_epoch

    def save(self, path: Path) -> None:
        """Network, optimiser and epoch."""
        save_fit(path, self.modules, self._optimiser, self.epoch)

    def restore(self, path: Path) -> None:
        """Undo `save`."""
        self.epoch = restore_fit(path, self.modules, self._optimiser)

    def _rate(self, step: int) -> float:
        return rate_at(step, self.config.epochs * self._per_epoch, self.config.learning_rate)

    def _loss(self, rows: list[int], generator: torch.Generator) -> Tensor:
        labels = [self._frames.label(row) for row in rows]
        flips = torch.rand(len(rows), generator=generator) < 0.5
        pictures = [self._frames.picture(row) for row in rows]
        seen = [
            (picture[:, ::-1], mirrored(label, picture.shape[1])) if flip else (picture, label)
            for picture, label, flip in zip(pictures, labels, flips.tolist(), strict=True)
        ]
        pixels = self._prepare([picture for picture, _ in seen], generator)
        words = self.tokenizer([caption_of(la).text for _, la in seen], return_tensors="pt", padding=True)
        ids = words["input_ids"].clone()
        ids[:, 0] = self.network.config.text_config.bos_token_id
        vision = self.network.vision_model(pixel_values=pixels)[0]
        decoded = self.network.text_decoder(
            input_ids=ids,
            attention_mask=words["attention_mask"],
            encoder_hidden_states=vision,
            labels=ids.masked_fill(words["attention_mask"] == 0, -100),
            reduction="mean",
        )
        return decoded.loss + self.config.patch_weight * self._patch_loss(vision[:, 1:], seen)

    def _prepare(self, pictures: list[NDArray[np.uint8]], generator: torch.Generator) -> Tensor:
        ready = self.images(images=[np.ascontiguousarray(p) for p in pictures], return_tensors="pt")["pixel_values"]
        gain = 1 + 0.1 * torch.randn((len(ready), 1, 1, 1), generator=generator)
        pixels: Tensor = ready * gain.clamp(0.7, 1.3) + 0.03 * torch.randn(ready.shape, generator=generator)
        return pixels

    def _patch_loss(self, patches: Tensor, seen: list[tuple[NDArray[np.uint8], FrameLabel]]) -> Tensor:
        side = self.config.sim.image_size // self.config.sim.patch_size
        targets = [patch_labels(label, picture.shape[:2], side) for picture, label in seen]
        kinds = torch.from_numpy(np.stack([kind for kind, _ in targets])).reshape(-1)
        colours = torch.from_numpy(np.stack([colour for _, colour in targets])).reshape(-1)
        logits = self._patches(patches).reshape(len(kinds), -1)
        there = kinds != NO_THING
        weight = torch.where(there, 1.0, 0.1)
        kind_loss = functional.cross_entropy(logits[:, : len(KINDS)], kinds, reduction="none")
        loss = (kind_loss * weight).sum() / weight.sum()
        if bool(there.any()):
            loss = loss + functional.cross_entropy(logits[there, len(KINDS) :], colours[there])
        return loss


def fit_blip(
    fit: FrameSet, folder: Path, work: Path, config: FitBlipConfig, card: Mapping[str, Any], progress: Progress
) -> None:
    """Fits sim-blip and writes it into `folder` as any BLIP model lies there, with a card."""
    work.mkdir(parents=True, exist_ok=True)
    training = BlipFit(fit, config)
    path = work / "blip.safetensors"
    if path.exists():
        training.restore(path)
    while not training.done:

        def tell(step: int, steps: int, loss: float) -> None:
            progress(f"fitting the captioner, loss {loss:.2f}", (training.epoch + step / steps) / config.epochs)

        training.run_epoch(tell)
        training.save(path)
    sim_blip.save(training.network, training.tokenizer, training.images, folder, {"fit": asdict(config), **card})


def captions_judged(frames: FrameSet, model: BlipModel) -> dict[str, float]:
    """What raw captions state falsely, and which of the visible things they name (`Tally.flat`)."""
    tally = Tally()
    for start in range(0, len(frames), 16):
        rows = range(start, min(start + 16, len(frames)))
        for row, sentence in zip(rows, model.captions([frames.picture(r) for r in rows]), strict=True):
            tally.add(told_by_sentence(sentence.text, frames.label(row)))
    return tally.flat()


def patch_labels(label: FrameLabel, shape: tuple[int, int], side: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Kind and colour at each patch's middle, (side, side) each: of the smallest thing whose box it is in."""
    kinds = np.full((side, side), NO_THING, dtype=np.int64)
    colours = np.full((side, side), NO_COLOUR, dtype=np.int64)
    rows = (np.arange(side) + 0.5) * shape[0] / side
    columns = (np.arange(side) + 0.5) * shape[1] / side
    half = (0.5 * shape[0] / side, 0.5 * shape[1] / side)
    for entity in sorted((e for e in label.entities if told(e, label)), key=_box_size, reverse=True):
        assert entity.box_px is not None
        left, top, right, bottom = entity.box_px
        high = (rows >= min(top, (top + bottom) / 2 - half[0])) & (rows <= max(bottom, (top + bottom) / 2 + half[0]))
        wide = (columns >= min(left, (left + right) / 2 - half[1])) & (
            columns <= max(right, (left + right) / 2 + half[1])
        )
        place = np.ix_(high, wide)
        kinds[place] = KINDS.index(entity.kind) if entity.kind in KINDS else KINDS.index("thing")
        colours[place] = COLOURS.index(entity.colour) if entity.colour in COLOURS else NO_COLOUR
    return kinds, colours


def mirrored(label: FrameLabel, width: int) -> FrameLabel:
    """The label of the mirrored picture, as far as captions go: they name things from left to right, and no side."""
    return replace(label, entities=tuple(_mirrored(entity, width) for entity in label.entities))


def _mirrored(entity: EntityLabel, width: int) -> EntityLabel:
    if entity.box_px is None:
        return entity
    left, top, right, bottom = entity.box_px
    return replace(entity, box_px=(width - right, top, width - left, bottom))


def _box_size(entity: EntityLabel) -> int:
    assert entity.box_px is not None
    left, top, right, bottom = entity.box_px
    return (right - left) * (bottom - top)
