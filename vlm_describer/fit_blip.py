"""Fits sim-blip: short captions of crops of what `locate` finds, and of whole frames by their kind of scene."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from embodied.colours import COLOURS
from vlm_describer import sim_blip
from vlm_describer.blip_sheets import TILE, mirrored, sheets
from vlm_describer.dataset import FrameSet
from vlm_describer.examples import KINDS, SCENES, Examples
from vlm_describer.fit_clip import examples_of
from vlm_describer.fit_state import Progress, rate_at, restore_fit, run_epochs, save_fit
from vlm_describer.naming import SIDE
from vlm_describer.seeing import UNNAMED

SHIFT = 3
"""Pixels by which the middles of crops are moved at most."""
MISHEARD = 0.3
"""Share of the captions whose colour is another one when the kind is asked for, so that a kind is told from the picture
and not from which colours it had: held-out pairs of both are to be named too."""
WHITENED, FAINT = 1_500, 0.15
"""Crops that show how patches differ, and the least variance of a direction in them (pixels have about 1)."""
COLOUR_LESSONS, FORM_LESSONS = 0.25, 0.25
"""Shares of the sheets that teach one thing only: colour, where the relief is another thing's, and kind, where the
crop is grey. What does not show together cannot be learned by heart together."""
FRAME_SHARE = 6
"""A batch holds a frame for so many crops."""


@dataclass(frozen=True)
class FitBlipConfig:
    """How sim-blip is fitted."""

    sim: sim_blip.SimBlipConfig = field(default_factory=sim_blip.SimBlipConfig)
    epochs: int = 12
    batch_size: int = 64
    """Crops of a step; a sixth as many whole frames come with them."""
    learning_rate: float = 1.5e-3
    """Rises over the first twentieth of the steps, then falls to 0 like a cosine."""
    weight_decay: float = 0.02
    seed: int = 0


class BlipFit:
    """A training that can be taken up again after any epoch."""

    def __init__(self, examples: Examples, config: FitBlipConfig) -> None:
        torch.manual_seed(config.seed)
        self.network, self.tokenizer, self.images = sim_blip.build(config.sim)
        self.config, self._examples, self.epoch = config, examples, 0
        self._captions = _Words(self.tokenizer)
        self._whiten()
        parameters = list(self.network.parameters())
        groups = [
            {"params": [p for p in parameters if p.ndim >= 2], "weight_decay": config.weight_decay},
            {"params": [p for p in parameters if p.ndim < 2], "weight_decay": 0.0},
        ]
        self._optimiser = torch.optim.AdamW(groups, lr=config.learning_rate)
        self._per_epoch = max(1, len(examples) // config.batch_size)

    @property
    def done(self) -> bool:
        """Whether all epochs are over."""
        return self.epoch >= self.config.epochs

    def run_epoch(self, progress: Callable[[int, int, float], None] | None = None) -> float:
        """One epoch; its mean loss. Called with (steps done, steps of the epoch, loss) after each step."""
        generator = torch.Generator().manual_seed(self.config.seed * 1_000 + self.epoch)
        order = torch.randperm(len(self._examples), generator=generator).numpy()
        self.network.train()
        total, size = 0.0, self.config.batch_size
        for step in range(self._per_epoch):
            for group in self._optimiser.param_groups:
                group["lr"] = self._rate(self.epoch * self._per_epoch + step)
            loss = self._loss(order[step * size : (step + 1) * size], generator)
            self._optimiser.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(self.network.parameters(), 1.0)
            self._optimiser.step()
            total += float(loss.detach())
            if progress is not None:
                progress(step + 1, self._per_epoch, total / (step + 1))
        self.epoch += 1
        self.network.eval()
        return total / self._per_epoch

    def save(self, path: Path) -> None:
        """Network, optimiser and epoch."""
        save_fit(path, self.network, self._optimiser, self.epoch)

    def restore(self, path: Path) -> None:
        """Undo `save`.

        Raises:
            IntegrityError: The file is damaged or of another network.
        """
        self.epoch = restore_fit(path, self.network, self._optimiser)

    def _rate(self, step: int) -> float:
        return rate_at(step, self.config.epochs * self._per_epoch, self.config.learning_rate)

    def _loss(self, rows: NDArray[np.int64], generator: torch.Generator) -> Tensor:
        examples = self._examples
        few = torch.randint(len(examples.frames), (max(1, len(rows) // FRAME_SHARE),), generator=generator).numpy()
        captions = [crop_caption(examples, int(row)) for row in rows]
        captions += [SCENES[int(scene)] for scene in examples.scene[few]]
        lessons = _Lessons.drawn(len(rows), generator)
        ids = self._captions.ids(captions)
        asked = self._captions.asked(ids, lessons)
        pixels = self._pictures(rows, few, lessons, generator)
        decoded = self.network.text_decoder(
            input_ids=self._captions.misheard(ids, lessons, generator),
            attention_mask=(ids != self._captions.filling).long(),
            encoder_hidden_states=self.network.vision_model(pixel_values=pixels)[0],
            labels=ids.masked_fill(~asked, -100),
            reduction="mean",
        )
        loss: Tensor = decoded.loss
        return loss

    def _pictures(
        self, rows: NDArray[np.int64], few: NDArray[np.int64], lessons: _Lessons, generator: torch.Generator
    ) -> Tensor:
        """Crops as sheets, then whole frames; some mirrored, brighter or darker, noisy. Hues stay: they are named."""
        examples, count = self._examples, len(rows) + len(few)
        flips = (torch.rand(count, generator=generator) < 0.5).numpy()
        across, down = torch.randint(-SHIFT, SHIFT + 1, (2,), generator=generator).tolist()
        crops, reliefs = lessons.shown(examples.crops[rows], examples.reliefs[rows])
        seen = mirrored(crops, reliefs, flips[: len(rows)])
        frames = examples.frames[few]
        frames = np.where(flips[len(rows) :, None, None, None], frames[:, :, ::-1], frames)
        images = _pixels(np.concatenate([sheets(*seen, across, down), frames]))
        gain = 1 + 0.15 * torch.randn((count, 1, 1, 1), generator=generator).clamp(-2.5, 2.5)
        gain = gain.repeat(1, 1, images.shape[2], 1)
        gain[: len(rows), :, TILE:] = 1.0  # no light falls on a relief
        noise = 0.015 * torch.randn(images.shape, generator=generator)
        return self._normalised((images * gain + noise).clamp(0, 1))

    def _normalised(self, images: Tensor) -> Tensor:
        """As the image processor does it."""
        mean, scale = (torch.tensor(given)[:, None, None] for given in (self.images.image_mean, self.images.image_std))
        found: Tensor = (images - mean) / scale
        return found

    def _whiten(self) -> None:
        """Starts the patches' weights where what differs between patches counts alike, however faint it is.

        Neighbouring pixels are so much alike that the patches' means would drown everything else for many epochs. As
        Coates and Ng 2012, "Learning Feature Representations with K-means", section 3: principal components, each
        divided by its deviation, which counts as no less than `FAINT`; turned by chance.
        """
        rows = torch.randperm(len(self._examples))[:WHITENED].sort().values.numpy()
        images = self._normalised(_pixels(sheets(self._examples.crops[rows], self._examples.reliefs[rows])))
        size, width = self.config.sim.patch_size, self.config.sim.vision_width
        patches = nn.functional.unfold(images, size, stride=size).transpose(1, 2).reshape(-1, 3 * size * size)
        middle = patches.mean(dim=0)
        variances, directions = torch.linalg.eigh(torch.cov((patches - middle).T))
        scaled = (directions / (variances.clamp(min=0) + FAINT).sqrt()).T.flip(0)[:width]
        turned, _ = torch.linalg.qr(torch.randn(width, width))
        weights = turned[:, : len(scaled)] @ scaled
        embedding = self.network.vision_model.embeddings.patch_embedding
        with torch.no_grad():
            embedding.weight.copy_(weights.reshape(embedding.weight.shape))
            embedding.bias.copy_(-weights @ middle)


def _pixels(pictures: NDArray[np.uint8]) -> Tensor:
    """(N, H, W, 3) bytes to (N, 3, H, W) in [0, 1]."""
    return torch.from_numpy(np.ascontiguousarray(pictures)).permute(0, 3, 1, 2).float() / 255


@dataclass(frozen=True)
class _Lessons:
    """What the sheets of a batch teach."""

    colour: Tensor
    """(N,) where only the colour is to be said, beside the relief of ..."""
    other: Tensor
    """... this row."""
    form: Tensor
    """(N,) where only the kind is to be said, of a grey crop."""

    @classmethod
    def drawn(cls, count: int, generator: torch.Generator) -> _Lessons:
        """At random, none both."""
        draws = torch.rand(count, generator=generator)
        colour, form = draws < COLOUR_LESSONS, draws > 1 - FORM_LESSONS
        return cls(colour, torch.randperm(count, generator=generator), form)

    def shown(
        self, crops: NDArray[np.uint8], reliefs: NDArray[np.uint8]
    ) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
        """Crops and reliefs as the lessons show them."""
        grey = np.rint(crops.mean(axis=-1, keepdims=True)).astype(np.uint8)
        form, colour = (chosen.numpy()[:, None, None, None] for chosen in (self.form, self.colour))
        return np.where(form, grey, crops), np.where(colour, reliefs[self.other.numpy()], reliefs)


class _Words:
    """Captions as rows of tokens."""

    def __init__(self, tokenizer: Any) -> None:
        ids = tokenizer.convert_tokens_to_ids
        self._tokens = {word: int(ids(word)) for word in sim_blip.WORDS}
        self._begin, self._end, self.filling = (int(ids(name)) for name in ("[DEC]", "[SEP]", "[PAD]"))
        self._colours = torch.tensor([self._tokens[colour] for colour in COLOURS])

    def ids(self, captions: list[str]) -> Tensor:
        """(N, longest) tokens from the beginning to the end, filled up."""
        rows = [[self._begin, *(self._tokens[word] for word in text.split()), self._end] for text in captions]
        longest = max(map(len, rows))
        return torch.tensor([row + [self.filling] * (longest - len(row)) for row in rows])

    def asked(self, ids: Tensor, lessons: _Lessons) -> Tensor:
        """(N, longest) which tokens are to be said: all of a caption, but in lessons only what they teach."""
        said, colour = ids != self.filling, torch.isin(ids, self._colours)
        coloured = colour.any(dim=1)
        of_colour, of_form = (torch.zeros(len(ids), dtype=torch.bool) for _ in range(2))
        of_colour[: len(lessons.colour)], of_form[: len(lessons.form)] = lessons.colour, lessons.form
        said &= ~of_colour[:, None] | colour
        return said & ~((of_form & coloured)[:, None] & colour)

    def misheard(self, ids: Tensor, lessons: _Lessons, generator: torch.Generator) -> Tensor:
        """The same, some colours replaced by any, and all of those that cannot be seen."""
        unseen = torch.zeros(len(ids), 1, dtype=torch.bool)
        unseen[: len(lessons.form), 0] = lessons.form
        changed = torch.isin(ids, self._colours) & (unseen | (torch.rand(ids.shape, generator=generator) < MISHEARD))
        others = self._colours[torch.randint(len(self._colours), ids.shape, generator=generator)]
        return torch.where(changed, others, ids)


def fit_blip(
    fit: FrameSet, folder: Path, work: Path, config: FitBlipConfig, card: Mapping[str, Any], progress: Progress
) -> None:
    """Fits sim-blip and writes it into `folder` as any BLIP model lies there, with a card.

    Args:
        fit: Labelled frames.
        folder: The model.
        work: Crops and the latest epoch; what is there is used.
        config: Sizes and lengths.
        card: Added to the card: what made the frames.
        progress: Called with what is being done and the share of it that is.
    """
    work.mkdir(parents=True, exist_ok=True)
    examples = examples_of(fit, work / "examples", SIDE, progress)
    training = BlipFit(examples, config)
    losses = run_epochs(training, work / "blip.safetensors", "the captioner", progress)
    told = {"fit": asdict(config), "crops": len(examples), "losses": losses, **card}
    sim_blip.save(training.network, training.tokenizer, training.images, folder, told)


def crop_caption(examples: Examples, row: int) -> str:
    """What is to be said of a crop: its colour, if it has one that is named, and its kind."""
    kind, colour = KINDS[examples.kind[row]], int(examples.colour[row])
    return kind if colour < 0 or kind in UNNAMED else f"{COLOURS[colour]} {kind}"
