"""What located things are called: probabilities over kinds, colours and sizes, and over kinds of scene."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from embodied.colours import COLOURS
from embodied.types import FloatArray, Frame
from vlm_describer.clip_model import ClipModel
from vlm_describer.crops import crop, features, relief
from vlm_describer.examples import KINDS, SCENES, SIZES, shrunk
from vlm_describer.heads import Head
from vlm_describer.located import Item, Located
from vlm_describer.prompts import encoded
from vlm_describer.vocabulary import Vocabulary, load_vocabulary, untold

if TYPE_CHECKING:
    from vlm_describer.relief_tower import ReliefTower

GROUPS: dict[str, Sequence[str]] = {"kinds": KINDS, "colours": COLOURS, "sizes": SIZES, "scenes": SCENES}
ITEM_GROUPS = ("kinds", "colours", "sizes")
SIDE = 64
"""Side of the crops, in pixels."""


@dataclass(frozen=True)
class Names:
    """Logits, before any calibration."""

    items: Mapping[str, FloatArray]
    """By group, (N, K) for the located things in their order."""
    scene: FloatArray
    """(K,) over SCENES."""
    kinds: tuple[str, ...] = KINDS
    """What the columns of `kinds` mean: KINDS, and after them those that a user added."""
    untold: tuple[str, ...] = ()
    """A phrase about what a user's vocabulary has and nobody here can see."""


class Namer(Protocol):
    """Gives names to what was located; sees the picture, and nothing else."""

    identity: str

    def names(self, frame: Frame, located: Located) -> Names:
        """Logits of every name for every item, and of the kinds of scene."""
        ...


class PromptNamer:
    """Zero-shot: a crop is what the nearest wordings say (Radford et al. 2021); for any CLIP model."""

    def __init__(self, model: ClipModel, vocabulary: Vocabulary | None = None) -> None:
        shipped = load_vocabulary()
        vocabulary = vocabulary or shipped
        self.identity, self._model = model.identity, model
        self.kinds = (*KINDS, *(kind for kind in vocabulary.kinds if kind not in shipped.kinds))
        self.vocabulary, self.untold = vocabulary, untold(vocabulary, ("kinds",))
        groups = {**GROUPS, "kinds": self.kinds}
        self._prompts = {group: encoded(model, vocabulary, group, names) for group, names in groups.items()}

    def names(self, frame: Frame, located: Located) -> Names:
        """As `Namer.names`."""
        crops = [crop(frame, item, SIDE) for item in located.items]
        vectors = self._model.encode_images([*crops, shrunk(frame.rgb, SIDE)])
        logits = self.logits(vectors)
        return Names(
            {group: logits[group][:-1] for group in ITEM_GROUPS}, logits["scenes"][-1], self.kinds, self.untold
        )

    def logits(self, vectors: FloatArray) -> dict[str, FloatArray]:
        """Of each group, (N, K), for pictures' vectors (N, D)."""
        scaled = (vectors * self._model.scale).astype(np.float32)
        return {group: scaled @ prompts.T for group, prompts in self._prompts.items()}


class HeadNamer:
    """Heads that were fitted on what a model sees in a crop and on its geometry; the scene is what the wordings say."""

    def __init__(
        self,
        model: ClipModel,
        heads: Mapping[str, Head],
        relief_tower: ReliefTower,
        vocabulary: Vocabulary | None = None,
    ) -> None:
        """
        Args:
            model: Whose vectors the heads were fitted on.
            heads: By group; a group without one is named by its wordings.
            relief_tower: Whose vectors they were fitted on too.
            vocabulary: As it was in fitting, or with a user's lines: the heads keep the kinds that they were fitted to.
        """
        self._prompts, self.model, self.heads = PromptNamer(model, vocabulary), model, heads
        self._relief_tower = relief_tower
        self.identity, self.untold = model.identity, untold(self._prompts.vocabulary)

    def names(self, frame: Frame, located: Located) -> Names:
        """As `Namer.names`."""
        crops = [crop(frame, item, SIDE) for item in located.items]
        vectors = self.model.encode_images([*crops, shrunk(frame.rgb, SIDE)])
        logits = self._prompts.logits(vectors)
        items = {group: logits[group][:-1, : len(GROUPS[group])] for group in ITEM_GROUPS}
        if located.items:
            reliefs = np.stack([relief(frame, item, located) for item in located.items])
            told = np.stack([features(item, located) for item in located.items])
            items |= self.head_logits(vectors[:-1], reliefs, told)
        return Names(items, logits["scenes"][-1], untold=self.untold)

    def head_logits(self, vectors: FloatArray, reliefs: NDArray[np.uint8], told: FloatArray) -> dict[str, FloatArray]:
        """(N, K) of each group that has a head, for crops' vectors (N, D), their reliefs and features (N, F).

        A colour is what the head says with and without the vector, on average: with it, it is right more often, but
        leans on which colours a kind of thing had in fitting.
        """
        inputs = np.hstack([vectors, self._relief_tower.vectors(reliefs), told])
        found = {group: head.logits(inputs) for group, head in self.heads.items()}
        if "colours" in found:
            blind = np.hstack([np.zeros_like(vectors), inputs[:, vectors.shape[1] :]])
            found["colours"] = (found["colours"] + self.heads["colours"].logits(blind)) / 2
        return found


class GeometryNamer:
    """No network: the form says what it is, the nearest reference colour what it is called. A baseline."""

    identity = "geometry"

    def names(self, frame: Frame, located: Located) -> Names:
        """As `Namer.names`; confident by a fixed amount."""
        from embodied.colours import colour_name
        from vlm_describer.relations import geometric_kind

        count = len(located.items)
        found = {group: np.zeros((count, len(GROUPS[group])), dtype=np.float32) for group in ITEM_GROUPS}
        for row, item in enumerate(located.items):
            kind, _ = geometric_kind(item)
            found["kinds"][row, KINDS.index(_known(kind, item))] = 5.0
            found["colours"][row, COLOURS.index(colour_name(item.colour))] = 5.0
        scene = np.zeros(len(SCENES), dtype=np.float32)
        scene[SCENES.index("maze" if located.map_view else "table")] = 1.0
        return Names(found, scene)


def _known(kind: str, item: Item) -> str:
    if item.role_hint == "robot-like":
        return "robot"
    return kind if kind in KINDS else "thing"
