"""What a description or a caption states, each statement held against the label of the frame.

A statement is a thing with its kind and colour, a fact about things, or the kind of scene. A thing that is called
`thing` or has no known colour is not claimed to be more than that. What the label cannot say (a fact that it would not
list even if it were true) is neither true nor false.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from embodied.facts import ROBOT_PARTS
from embodied.labels import MAPS, EntityLabel, FrameLabel, Triple
from embodied.types import DescribedObject, Fact, SceneDescription
from vlm_describer.captions import SUPPORTS, Caption, caption_of, parse_caption, phrase_of, told
from vlm_describer.pairing import NEAR_M, NEAR_MAP_M, paired
from vlm_describer.score import share

BUILDING = ("wall", "door")
SCENE, THING = "scene", "thing"
CAPTION_FACTS = ("holding", "in")
"""Facts that are part of a description's caption."""
Pairs = Mapping[str, EntityLabel]
"""Labelled things by the ids that a describer calls them by."""
_BREAK = re.compile(r"[,;.:]|\band\b")
_START = re.compile(r"^(?:there (?:is|are) |fixed in place )?(?:(?:an?|the) )?")
_STUTTER = re.compile(r"\b(\w+(?: \w+)*) \1\b")


@dataclass(frozen=True)
class Statement:
    """One thing that is said, and whether it is true."""

    about: str
    """`thing`, `scene`, or the name of a predicate."""
    text: str
    true: bool | None
    """None where the label cannot say."""
    in_caption: bool
    """Said in the caption too, not only in the list of objects and facts."""
    there: bool = True
    """All things that it is about are labelled ones."""


PARTS: dict[str, Callable[[Statement], bool]] = {
    "all": lambda statement: True,
    "things": lambda statement: statement.about == THING,
    "facts": lambda statement: statement.about != THING and statement.there,
    "caption": lambda statement: statement.in_caption,
}
"""Which statements are counted together; `facts` are those about things that are there."""


@dataclass(frozen=True)
class Told:
    """Everything that is said of one frame."""

    statements: tuple[Statement, ...]
    visible: int
    """Number of things that a true caption names."""
    missed: tuple[str, ...]
    """Phrases of those among them that are not said."""
    repeated: tuple[str, ...]
    """Phrases of the caption that come again without there being as many such things."""

    @property
    def false(self) -> tuple[Statement, ...]:
        """What the label contradicts."""
        return tuple(statement for statement in self.statements if statement.true is False)


@dataclass
class Tally:
    """Counts over frames."""

    frames: int = 0
    visible: int = 0
    missed: int = 0
    repeating: int = 0
    """Captions with a repeated phrase."""
    said: Counter[str] = field(default_factory=Counter)
    false: Counter[str] = field(default_factory=Counter)
    """Statements that the label can judge, and those that it contradicts, by `PARTS`."""

    def add(self, told: Told) -> None:
        """One more frame."""
        self.frames += 1
        self.visible += told.visible
        self.missed += len(told.missed)
        self.repeating += bool(told.repeated)
        for statement in told.statements:
            if statement.true is None:
                continue
            parts = [name for name, belongs in PARTS.items() if belongs(statement)]
            self.said.update(parts)
            self.false.update(parts if not statement.true else ())

    def counts(self) -> dict[str, int]:
        """What adds up over splits."""
        found = {"frames": self.frames, "visible": self.visible, "named": self.visible - self.missed}
        for name in PARTS:
            found |= {f"said_{name}": self.said[name], f"false_{name}": self.false[name]}
        return {**found, "repeating": self.repeating}

    def flat(self) -> dict[str, Any]:
        """Counts and shares: `contradicted` of what is said, `mentioned` of what is visible."""
        return {**self.counts(), **shares(self.counts())}


def shares(counts: Mapping[str, int]) -> dict[str, float]:
    """Shares from `Tally.counts`, or from sums of them; NaN where nothing was said or visible."""
    return {
        "contradicted": share(counts["false_all"], counts["said_all"]),
        **{f"{name}_contradicted": share(counts[f"false_{name}"], counts[f"said_{name}"]) for name in list(PARTS)[1:]},
        "mentioned": share(counts["named"], counts["visible"]),
        "repeated": share(counts["repeating"], counts["frames"]),
    }


def told_by(description: SceneDescription, label: FrameLabel, pairs: Pairs | None = None) -> Told:
    """What a description states: its objects, and its facts.

    Args:
        description: Of the label's frame, with positions in the world.
        label: What is true.
        pairs: Which of its objects is which labelled thing; by position where None.

    Raises:
        ValueError: Its positions are not in the world, and nobody says which thing is which.
    """
    if pairs is None:
        pairs = pairs_of(description, label)
    statements = [_thing(item, label, pairs.get(item.id)) for item in description.objects]
    names = {item.id: item.phrase for item in description.objects}
    unsaid = {item.id for item in description.objects if item.id not in pairs and unlabelled(item.kind, label)}
    for fact in description.facts:
        true = None if unsaid & set(fact.predicate.args) else _fact_holds(fact, label, pairs)
        words = f"{fact.predicate.name}({', '.join(names.get(arg, arg) for arg in fact.predicate.args)})"
        about = SCENE if fact.predicate.name == "scene" else fact.predicate.name
        in_caption = fact.predicate.name in CAPTION_FACTS and fact.probability >= 0.5
        there = all(arg in pairs or arg in ROBOT_PARTS or about == SCENE for arg in fact.predicate.args)
        statements.append(Statement(about, words, true, in_caption, there))
    right = {
        pairs[item.id].id
        for item in description.objects
        if item.id in pairs and item.phrase == phrase_of(pairs[item.id])
    }
    seen = [entity for entity in label.entities if told(entity, label)]
    missed = tuple(phrase_of(entity) for entity in seen if entity.id not in right)
    return Told(tuple(statements), len(seen), missed, repeated(description.caption, label))


def told_by_sentence(sentence: str, label: FrameLabel) -> Told:
    """What a raw caption of the form of `vlm_describer.captions` states: the scene, things, what is on or in what.

    There must be as many of a thing as are named, whether they are well visible or not.
    """
    caption = parse_caption(sentence)
    scene = Statement(SCENE, f"{SCENE}({caption.scene})", caption.scene == label.scene_kind, True)
    statements = [scene, *_mentions(caption, label), *_supports(caption, label)]
    seen = Counter(phrase_of(entity) for entity in label.entities if told(entity, label))
    missed = tuple((seen - caption.phrases).elements())
    return Told(tuple(statements), seen.total(), missed, repeated(sentence, label))


def pairs_of(description: SceneDescription, label: FrameLabel) -> dict[str, EntityLabel]:
    """Labelled things by the ids of a description's objects, by position.

    Raises:
        ValueError: Its positions are not in the world.
    """
    if description.frame != "world":
        raise ValueError("positions in the camera's frame cannot be held against a label")
    places = {item.id: _triple(label.base.to_base(np.asarray(item.position_m))) for item in description.objects}
    return paired(places, label, NEAR_MAP_M if label.scene_kind in MAPS else NEAR_M)


def comparable(predicate: str, entities: Sequence[EntityLabel], label: FrameLabel) -> bool:
    """Whether the label would list the fact about these things if it were true (see `embodied.facts.all_facts`).

    Robot parts are no labelled things and do not count among `entities`.
    """
    roles = [entity.role for entity in entities]
    if predicate == "in":
        return roles == ["object", "zone"]
    if predicate in ("on", "touching"):
        return roles[:1] == ["object"]
    if predicate == "holding":
        return roles == ["object"]
    if predicate == "at":
        return roles == ["landmark"] and label.robot == "point"
    return "object" in roles or roles == ["zone", "zone"]


def repeated(sentence: str, label: FrameLabel) -> tuple[str, ...]:
    """Phrases of a sentence that come again: listed more often than a true caption would, or stammered."""
    allowed, found = Counter(_parts(caption_of(label).text)), Counter(_parts(sentence))
    often = [part for part, count in found.items() if count > max(1, allowed[part])]
    return (*often, *(part for part in found if part not in often and _STUTTER.search(part)))


def _parts(sentence: str) -> Iterator[str]:
    """What is listed in a sentence, without articles."""
    for part in _BREAK.split(sentence.lower().replace(" with ", ", ", 1)):
        plain = _START.sub("", " ".join(part.split()))
        if plain:
            yield plain


def _thing(item: DescribedObject, label: FrameLabel, entity: EntityLabel | None) -> Statement:
    true: bool | None
    if entity is None:
        true = None if unlabelled(item.kind, label) else False
    else:
        true = item.kind in (THING, entity.kind) and item.colour in ("unknown", entity.colour)
    return Statement(THING, item.phrase, true, True)


def unlabelled(kind: str, label: FrameLabel) -> bool:
    """Whether something of this kind may be in the frame without a label: a piece of a wall is still a wall, and the
    point robot is a ball."""
    point = label.robot == "point" and label.robot_in_view and kind == "ball"
    return label.scene_kind in MAPS and (kind in BUILDING or point)


def _fact_holds(fact: Fact, label: FrameLabel, pairs: Pairs) -> bool | None:
    """Whether it is in the label; false too where one of its things is not there."""
    predicate = fact.predicate
    if predicate.name == "scene":
        return (predicate.args == (label.scene_kind,)) != predicate.negated
    things = [arg for arg in predicate.args if arg not in ROBOT_PARTS]
    if not all(arg in pairs for arg in things):
        return False
    ids = tuple(pairs[arg].id if arg in pairs else arg for arg in predicate.args)
    by_robot = predicate.name == "touching" and len(things) == 1
    if not by_robot and not comparable(predicate.name, [pairs[arg] for arg in things], label):
        return None
    holds = any(true.name == predicate.name and true.args == ids for true in label.facts)
    return holds != predicate.negated


def _mentions(caption: Caption, label: FrameLabel) -> Iterator[Statement]:
    left = Counter(phrase_of(entity) for entity in label.entities)
    for mention in caption.mentions:
        yield Statement(THING, mention.phrase, left[mention.phrase] > 0, True)
        left[mention.phrase] -= 1


def _supports(caption: Caption, label: FrameLabel) -> Iterator[Statement]:
    names = {entity.id: phrase_of(entity) for entity in label.entities}
    left = Counter(
        (names[fact.args[0]], fact.name, names[fact.args[1]])
        for fact in label.facts
        if fact.name in SUPPORTS and fact.args[0] in names and fact.args[1] in names
    )
    for mention in caption.mentions:
        if mention.relation:
            said = (mention.phrase, mention.relation, mention.below)
            yield Statement(mention.relation, f"{said[1]}({said[0]}, {said[2]})", left[said] > 0, True)
            left[said] -= 1


def _triple(values: np.ndarray) -> Triple:
    x, y, z = (float(value) for value in values)
    return x, y, z
