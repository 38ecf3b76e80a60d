"""Who names what is located: sim-blip, which captions crops of it, or any public captioner.

A public captioner speaks of the whole frame. What its sentence names is given to the located thing that it fits; a word
that fits nothing is not passed on.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from embodied.colours import COLOURS
from embodied.errors import UserError
from embodied.types import BaseFrame, FloatArray, Frame
from vlm_describer.alignment import align
from vlm_describer.blip_crops import CropLooker
from vlm_describer.blip_model import Sentence, load_blip
from vlm_describer.calibration import CALIBRATION, Calibration, load_calibration
from vlm_describer.captions import Caption, Mention, parse_caption
from vlm_describer.examples import KINDS, SCENES, SIZES
from vlm_describer.locate import locate
from vlm_describer.located import Located
from vlm_describer.naming import Names
from vlm_describer.sim_blip import CARD, SHIPPED, is_sim_blip, load_sim_blip

ASIDE = ("robot-like", "wall-like")
"""What a caption does not speak of."""


class Captioner(Protocol):
    """Makes sentences of pictures."""

    identity: str

    def captions(self, pictures: Sequence[NDArray[np.uint8]], prompt: str = "") -> list[Sentence]:
        """A sentence for each picture (H, W, 3)."""
        ...


class Speaker(Protocol):
    """A `Looker` that goes by sentences."""

    identity: str
    sentence: str
    """What was said of the last frame."""

    def look(self, frame: Frame, base: BaseFrame | None) -> tuple[Located, Names]:
        """As `Looker.look`."""
        ...


class CaptionLooker:
    """Captions, locates, and gives each thing the words that fit it."""

    def __init__(self, model: Captioner, prompt: str = "") -> None:
        """
        Args:
            model: What it says in other words than ours is not understood.
            prompt: Words that the sentence is to begin with; they are no part of it.
        """
        self.identity = model.identity
        self._model, self._prompt = model, prompt
        self.sentence = ""
        """What was said of the last frame."""

    def look(self, frame: Frame, base: BaseFrame | None) -> tuple[Located, Names]:
        """As `Looker.look`."""
        located = locate(frame, base)
        (sentence,) = self._model.captions([frame.rgb], self._prompt)
        self.sentence = sentence.text
        return located, names_of(located, parse_caption(sentence.text, sentence.word_chances))


def load_blip_looker(model: str = "") -> tuple[Speaker, Calibration]:
    """Who looks: the shipped sim-blip, a fitted or public model in a folder, or a public one by its hub name; and what
    its confidences mean: raw where it is no model of ours.

    A model whose card says that it captions crops is shown crops; any other one the whole frame.

    Raises:
        UserError: The model cannot be had.
        IntegrityError: Its files are damaged.
    """
    if not model and not (SHIPPED / CARD).is_file():
        raise UserError("no model is shipped: fit one (embodied fit describer=blip) and say model=<its out>/model")
    folder = Path(model or SHIPPED).expanduser()
    looker: Speaker
    if is_sim_blip(folder):
        looker = CropLooker(load_sim_blip(folder))
    else:
        looker = CaptionLooker(load_blip(str(folder) if folder.is_dir() else model))
    if not (folder / CALIBRATION).is_file():
        return looker, Calibration()
    return looker, load_calibration(folder / CALIBRATION, looker.identity)


def names_of(located: Located, caption: Caption) -> Names:
    """A caption's words as logits: their probabilities for what it says, all names alike where it says nothing."""
    items = [item for item in located.items if item.role_hint not in ASIDE]
    spoken = align([mention for mention in caption.mentions if _kind(mention.phrase) in KINDS], items)
    kinds, colours = [], []
    for item in located.items:
        mention = spoken.get(item.id, Mention(""))
        colour, _, kind = mention.phrase.rpartition(" ")
        if item.role_hint == "robot-like":
            kind = "robot"
        kinds.append(_logits(kind, KINDS, mention.kind_chance))
        colours.append(_logits(colour, COLOURS, mention.colour_chance))
    count = len(located.items)
    return Names(
        {
            "kinds": np.array(kinds, dtype=np.float32).reshape(count, len(KINDS)),
            "colours": np.array(colours, dtype=np.float32).reshape(count, len(COLOURS)),
            "sizes": np.zeros((count, len(SIZES)), dtype=np.float32),
        },
        _logits(caption.scene, SCENES, caption.scene_chance),
    )


def _kind(phrase: str) -> str:
    return phrase.rpartition(" ")[2]


def _logits(name: str, names: tuple[str, ...], chance: float) -> FloatArray:
    """Logits that give `chance` to the name and the rest to the others; none where it is not among them."""
    logits = np.zeros(len(names), dtype=np.float32)
    if name in names:
        sure = min(max(chance, 1e-3), 1 - 1e-3)
        logits[names.index(name)] = np.log(sure / (1 - sure) * (len(names) - 1))
    return logits
