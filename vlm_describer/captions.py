"""The sentences that a fitted captioner writes: from labels, and back to statements that can be checked.

A caption is `<scene> with <thing>, <thing> and <thing>`. A thing is its colour and kind, from left to right in the
picture, and is followed by what it stands on or lies in: `a red block on a green block, a green block`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from embodied.labels import MAPS, EntityLabel, FrameLabel

LEAST_PIXELS = 30
LEAST_SHARE = 0.3
"""A thing is told where so many of its pixels are visible, and this share of its silhouette."""
UNTOLD_KINDS = ("wall", "door", "table")
"""Parts of a building, and what things lie on: the scene's own name stands for them."""
SUPPORTS = ("on", "in")
_ARTICLE = re.compile(r"^(?:an?|the)\s+")


@dataclass(frozen=True)
class Mention:
    """A thing that a caption names, and what it is said to be on or in."""

    phrase: str
    relation: str = ""
    """`on`, `in`, or empty."""
    below: str = ""
    """The phrase of what it is on or in."""
    kind_chance: float = 1.0
    """Probability of its last word, ..."""
    colour_chance: float = 1.0
    """... and of those before it, as far as the speaker gave any."""


@dataclass(frozen=True)
class Caption:
    """What a caption states."""

    scene: str
    mentions: tuple[Mention, ...]
    scene_chance: float = 1.0

    @property
    def text(self) -> str:
        """The caption in words."""
        told = [_words(mention) for mention in self.mentions]
        if not told:
            return f"{_with_article(self.scene)} with nothing"
        listed = told[0] if len(told) == 1 else f"{', '.join(told[:-1])} and {told[-1]}"
        return f"{_with_article(self.scene)} with {listed}"

    @property
    def phrases(self) -> Counter[str]:
        """How many of each thing it names; supports are named by themselves too."""
        return Counter(mention.phrase for mention in self.mentions)


def caption_of(label: FrameLabel) -> Caption:
    """The true caption of a frame: everything that is well enough visible, from left to right."""
    seen = sorted((entity for entity in label.entities if told(entity, label)), key=_column)
    ids = {entity.id: entity for entity in seen}
    below = {
        fact.args[0]: (fact.name, phrase_of(ids[fact.args[1]]))
        for fact in label.facts
        if fact.name in SUPPORTS and fact.args[0] in ids and fact.args[1] in ids
    }
    mentions = [Mention(phrase_of(entity), *below.get(entity.id, ("", ""))) for entity in seen]
    return Caption(label.scene_kind, tuple(mentions))


def told(entity: EntityLabel, label: FrameLabel) -> bool:
    """Whether a caption of the frame names it. Landmarks are told on maps; elsewhere they are furniture."""
    visible = entity.pixels >= LEAST_PIXELS and entity.visible_share >= LEAST_SHARE
    meant = entity.role in ("object", "zone") or (entity.role == "landmark" and label.scene_kind in MAPS)
    return visible and meant and entity.kind not in UNTOLD_KINDS


def phrase_of(entity: EntityLabel) -> str:
    """`red block`; the kind alone where it has no colour."""
    return entity.kind if entity.colour == "unknown" else f"{entity.colour} {entity.kind}"


def parse_caption(text: str, word_chances: Sequence[float] = ()) -> Caption:
    """What a sentence of this form states; whatever is not of the form is left out.

    Args:
        text: The sentence.
        word_chances: Probability of each word of `text.split()`; 1 each where not given.
    """
    words = _Words(text, word_chances)
    scene, _, rest = text.strip().rstrip(".").lower().partition(" with ")
    scene = _ARTICLE.sub("", scene.strip())
    scene_chance = words.next_chance(scene)
    parts = [part.strip() for part in re.split(r",|\band\b", rest)]
    mentions = [_mention(part) for part in parts if part and part != "nothing"]
    sure = [_with_chances(mention, words) for mention in mentions if mention.phrase]
    return Caption(scene, tuple(sure), scene_chance)


class _Words:
    """The words of a sentence, looked up one after the other."""

    def __init__(self, text: str, chances: Sequence[float]) -> None:
        self._words = [word.strip(",.") for word in text.lower().split()]
        self._chances = chances if len(chances) == len(self._words) else [1.0] * len(self._words)
        self._next = 0

    def next_chance(self, phrase: str) -> float:
        """The product of the words' probabilities, where they come next."""
        found = 1.0
        for word in phrase.split():
            if word in self._words[self._next :]:
                self._next = self._words.index(word, self._next) + 1
                found *= self._chances[self._next - 1]
        return found


def _with_chances(mention: Mention, words: _Words) -> Mention:
    colour, _, kind = mention.phrase.rpartition(" ")
    colour_chance, kind_chance = words.next_chance(colour), words.next_chance(kind)
    words.next_chance(f"{mention.relation} {mention.below}")
    return replace(mention, kind_chance=kind_chance, colour_chance=colour_chance)


def _column(entity: EntityLabel) -> tuple[float, str]:
    assert entity.box_px is not None
    return (entity.box_px[0] + entity.box_px[2]) / 2, entity.id


def _mention(part: str) -> Mention:
    for relation in SUPPORTS:
        upper, found, lower = part.partition(f" {relation} ")
        if found:
            return Mention(_plain(upper), relation, _plain(lower))
    return Mention(_plain(part))


def _plain(words: str) -> str:
    return _ARTICLE.sub("", words.strip())


def _words(mention: Mention) -> str:
    below = f" {mention.relation} {_with_article(mention.below)}" if mention.relation else ""
    return _with_article(mention.phrase) + below


def _with_article(phrase: str) -> str:
    return f"{'an' if phrase[:1] in 'aeiou' else 'a'} {phrase}"
