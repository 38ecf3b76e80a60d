"""Who names what is located: a captioner that was fitted to crops of it.

Each located thing is captioned alone, and a small picture of the whole frame by its kind of scene. Names have the
probabilities of the captions' tokens; the frame's own sentence is put together from the captions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import takewhile
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from embodied.colours import COLOURS
from embodied.types import BaseFrame, FloatArray, Frame
from vlm_describer.blip_model import Sentence
from vlm_describer.blip_sheets import sheets
from vlm_describer.captions import SUPPORTS, UNTOLD_KINDS, Caption, Mention
from vlm_describer.crops import crop, relief
from vlm_describer.examples import KINDS, SCENES, SIZES, shrunk
from vlm_describer.locate import locate
from vlm_describer.located import Item, Located
from vlm_describer.naming import SIDE, Names
from vlm_describer.relations import questions
from vlm_describer.seeing import UNNAMED, Named
from vlm_describer.sim_blip import WORDS

LEAST = 1e-6
"""Probabilities count as at least so large."""
SUPPORT = 0.5
"""From here on something is said to be on or in something else."""


class WordCaptioner(Protocol):
    """Makes short captions, and says what else it could have said."""

    identity: str

    def captions(
        self, pictures: Sequence[NDArray[np.uint8]], prompt: str = "", max_tokens: int = 60, words: Sequence[str] = ()
    ) -> list[Sentence]:
        """As `BlipModel.captions`."""
        ...


class CropLooker:
    """Locates, and captions a crop of each thing and the frame as a whole."""

    def __init__(self, model: WordCaptioner) -> None:
        """
        Args:
            model: Says `<colour> <kind>`, `<kind>` or `nothing` of crops, and a kind of scene of frames.
        """
        self.identity, self._model = model.identity, model
        self.sentence = ""
        """What was said of the last frame."""

    def look(self, frame: Frame, base: BaseFrame | None) -> tuple[Located, Names]:
        """As `Looker.look`."""
        located = locate(frame, base)
        pictures = [_sheet(frame, item, located) for item in located.items]
        *things, whole = self._model.captions([*pictures, shrunk(frame.rgb, SIDE)], words=WORDS)
        self.sentence = composed(located, [thing.text for thing in things], whole.text).text
        return located, named_by(things, whole)


def named_by(things: Sequence[Sentence], whole: Sentence) -> Names:
    """Logarithms of the names' probabilities, from captions that tell what `WORDS` had at each token."""
    count = len(things)
    return Names(
        {
            "kinds": _logarithms([kind_chances(thing.choices) for thing in things], len(KINDS)),
            "colours": _logarithms([first_chances(thing.choices, COLOURS) for thing in things], len(COLOURS)),
            "sizes": np.zeros((count, len(SIZES)), dtype=np.float32),
        },
        _logarithms([first_chances(whole.choices, SCENES)], len(SCENES))[0],
    )


def kind_chances(choices: FloatArray) -> FloatArray:
    """(K,) probability of each of KINDS, from (T, len(WORDS)) choices: that it comes first, or after a colour.

    What would come after another colour than the one that was said is taken to be the same.
    """
    columns = _columns(KINDS)
    found, left = np.zeros(len(KINDS)), 1.0
    for step in choices:
        found += left * step[columns]
        left *= max(0.0, 1.0 - float(step[columns].sum()))
    return np.asarray(found + left / len(KINDS), dtype=np.float32)


def first_chances(choices: FloatArray, names: Sequence[str]) -> FloatArray:
    """(K,) probability of each name as the first word, if the first word is one of these."""
    first = choices[0][_columns(names)] if len(choices) else np.zeros(len(names))
    return np.asarray((first + LEAST) / (first + LEAST).sum(), dtype=np.float32)


def composed(located: Located, told: Sequence[str], scene: str) -> Caption:
    """The frame's caption from those of its things, in the order of `located.items`: from left to right, each with what
    it is on or in, as far as geometry is sure of it."""
    named = [(item, text) for item, text in zip(located.items, told, strict=True) if _kind(text) not in UNNAMED]
    phrases = {item.id: text for item, text in named if text and _kind(text) not in UNTOLD_KINDS}
    below = _supports(located, dict((item.id, text) for item, text in named))
    listed = sorted((item for item, _ in named if item.id in phrases), key=_column)
    mentions = []
    for item in listed:
        relation, other = below.get(item.id, ("", ""))
        known = other in phrases
        mentions.append(Mention(phrases[item.id], relation if known else "", phrases[other] if known else ""))
    return Caption(scene, tuple(mentions))


def _supports(located: Located, told: Mapping[str, str]) -> dict[str, tuple[str, str]]:
    """What each thing is in or on: the relation and the other's id."""
    roles: Mapping[str, str] = {
        item.id: Named(item, _kind(told[item.id]), 1.0, "", 1.0).role if item.id in told else "robot"
        for item in located.items
    }
    found: dict[str, tuple[str, str]] = {}
    # Questions begin with those about support; the others are not needed.
    for predicate, chance in takewhile(lambda asked: asked[0].name in SUPPORTS, questions(located, roles)):
        if chance >= SUPPORT:
            found.setdefault(predicate.args[0], (predicate.name, predicate.args[1]))
    return found


def _sheet(frame: Frame, item: Item, located: Located) -> NDArray[np.uint8]:
    found: NDArray[np.uint8] = sheets(crop(frame, item, SIDE)[None], relief(frame, item, located)[None])[0]
    return found


def _kind(phrase: str) -> str:
    return phrase.rpartition(" ")[2]


def _column(item: Item) -> tuple[float, str]:
    return (item.box_px[0] + item.box_px[2]) / 2, item.id


def _columns(names: Sequence[str]) -> list[int]:
    """Where the names are among WORDS."""
    return [WORDS.index(name) for name in names]


def _logarithms(chances: Sequence[FloatArray], names: int) -> FloatArray:
    rows = np.array(chances, dtype=np.float32).reshape(len(chances), names)
    return np.asarray(np.log(np.maximum(rows, LEAST)), dtype=np.float32)
