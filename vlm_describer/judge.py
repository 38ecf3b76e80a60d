"""A describer's parts held against labelled frames: names, facts, positions, confidences; and calibration by them."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import permutations

import numpy as np
from numpy.typing import NDArray

from embodied.colours import COLOURS
from embodied.facts import PREDICATES
from embodied.labels import MAPS, EntityLabel, FrameLabel
from embodied.types import BaseFrame, Frame, SceneDescription
from vlm_describer.calibration import (
    PRECISION,
    Calibration,
    fit_line,
    fit_temperature,
    threshold_for,
)
from vlm_describer.examples import KINDS, SCENES, match, unlabelled_kind
from vlm_describer.located import Item, Located
from vlm_describer.naming import Names
from vlm_describer.relations import questions
from vlm_describer.score import Score
from vlm_describer.seeing import NO, THERE, YES, Looker, SeeingDescriber, name_items, unsure_things
from vlm_describer.statements import BUILDING, comparable, unlabelled

JUDGED_SHARE, JUDGED_PIXELS = 0.6, 40
"""A thing has to be found where this share of its silhouette is visible, in so many pixels, and none of it cut off."""
THERE_PRECISION = 0.997
"""Of what facts are stated about, so much is there: a shadow among six things is part of ten pairs."""
MOST_THERE = 0.95
"""More is not asked for, or hardly anything would be stated."""
Question = tuple[str, tuple[str, ...]]
"""Predicate and ids."""
SCENERY = "landmark"
"""Furniture beside the table is neither missed nor false."""


@dataclass(frozen=True)
class View:
    """One frame as a describer's parts see it, beside its label."""

    label: FrameLabel
    located: Located
    names: Names
    pairs: Mapping[str, EntityLabel]
    """Labelled things by item id."""
    cpu_s: float
    """Processor time of locating and naming."""


@dataclass(frozen=True)
class SaidThing:
    """A thing as a description has it, whoever made it."""

    id: str
    kind: str
    colour: str
    center_b_m: tuple[float, float, float]
    kind_chance: float = 1.0
    colour_chance: float = 1.0


class KeptLook:
    """A looker that keeps what it saw last, so that a description can be held against what it was made of."""

    def __init__(self, looker: Looker) -> None:
        self.identity, self._looker = looker.identity, looker
        self.seen: tuple[Located, Names] | None = None

    def look(self, frame: Frame, base: BaseFrame | None) -> tuple[Located, Names]:
        """As `Looker.look`."""
        self.seen = self._looker.look(frame, base)
        return self.seen


def view(frame: Frame, label: FrameLabel, looker: Looker) -> View:
    """Looks at a frame."""
    began = time.process_time()
    located, names = looker.look(frame, label.base)
    return View(label, located, names, match(located, label), time.process_time() - began)


def view_and_words(
    frame: Frame, label: FrameLabel, looker: Looker, calibration: Calibration, name: str
) -> tuple[View, SceneDescription]:
    """Looks at a frame once, and describes it as `SeeingDescriber` does; the time is of all of that."""
    kept = KeptLook(looker)
    describer = SeeingDescriber(name, kept, calibration, label.base)
    began = time.process_time()
    description = describer.describe((frame,))
    spent = time.process_time() - began
    assert kept.seen is not None
    located, names = kept.seen
    return View(label, located, names, match(located, label), spent), description


def judge(views: Iterable[View], calibration: Calibration) -> Score:
    """Everything that is said of the views, counted. Facts are asked of things that were found, and of no others."""
    score = Score()
    for each in views:
        score.cpu_s.append(each.cpu_s)
        _judge_names(each, calibration, score)
        _judge_facts(each, calibration, score)
        chances = calibration.names("scenes", each.names.scene)
        best = int(np.argmax(chances))
        score.chances["scenes"].append((float(chances[best]), SCENES[best] == each.label.scene_kind))
    return score


def judge_all_knowing(description: SceneDescription, label: FrameLabel, score: Score) -> None:
    """Counts a description that calls things by the label's own ids and denies every fact that it does not state."""
    known = {entity.id: entity for entity in label.entities}
    things = [
        SaidThing(item.id, item.kind, item.colour, _in_base(label.base, item.position_m))
        for item in description.objects
    ]
    judge_named(things, known, label, score)
    said = {(fact.predicate.name, fact.predicate.args) for fact in description.facts}
    true = {(fact.name, fact.args) for fact in label.facts}
    for question in {*_questions_about(label), *said, *true}:
        score.answer(question[0], question in true, "yes" if question in said else "no")


def calibrate(views: list[View], identity: str, precision: float = PRECISION) -> Calibration:
    """Temperatures, lines and thresholds from labelled views."""
    temperatures, thresholds = {}, {}
    for group in ("kinds", "colours", "scenes"):
        logits, labels = _named_rows(views, group)
        if len(labels):
            temperatures[group] = fit_temperature(logits, labels)
            chances = Calibration(temperatures=temperatures).names(group, logits)
            thresholds[group] = threshold_for(chances.max(axis=1), chances.argmax(axis=1) == labels, precision)
    thresholds[THERE] = _there_threshold(views, Calibration(temperatures=temperatures, thresholds=thresholds))
    raw: dict[str, list[tuple[float, bool]]] = defaultdict(list)
    named = Calibration(temperatures=temperatures, thresholds=thresholds)
    for each in views:
        for (name, _), chance, truth in _asked(each, named):
            raw[name].append((chance, truth))
    lines = {
        name: fit_line(np.array([c for c, _ in rows]), np.array([t for _, t in rows])) for name, rows in raw.items()
    }
    fitted = Calibration(identity, temperatures, lines, thresholds)
    for name, rows in raw.items():
        told = np.array([fitted.fact(name, chance) for chance, _ in rows])
        truths = np.array([truth for _, truth in rows])
        sure = np.maximum(told, 1 - told)
        thresholds[name] = threshold_for(sure, (told >= 0.5) == truths, precision)
    score = judge(views, Calibration(identity, temperatures, lines, thresholds))
    errors = {key[4:]: value for key, value in score.summary().items() if key.startswith("ece_")}
    return Calibration(identity, temperatures, lines, thresholds, errors)


def _there_threshold(views: list[View], calibration: Calibration) -> float:
    """Least probability of being a thing at all, of what facts are stated about."""
    chances, real = [], []
    for each in views:
        for thing in name_items(each.located, each.names, calibration):
            if not thing.doubted:
                chances.append(thing.there_chance)
                real.append(thing.item.id in each.pairs or unlabelled(thing.kind, each.label))
    found = threshold_for(np.array(chances), np.array(real), THERE_PRECISION) if chances else 0.0
    return min(found, MOST_THERE)


def to_be_found(entity: EntityLabel, label: FrameLabel) -> bool:
    """Whether a describer has to find and name it."""
    visible = entity.visible_share >= JUDGED_SHARE and entity.pixels >= JUDGED_PIXELS and not entity.cut
    scenery = entity.role == SCENERY and (entity.kind in BUILDING or label.scene_kind not in MAPS)
    return visible and not scenery and entity.role != "place"


def judge_named(named: Iterable[SaidThing], pairs: Mapping[str, EntityLabel], label: FrameLabel, score: Score) -> None:
    """Counts what the things of one frame are called, and how far off they are placed."""
    truths = {entity.id for entity in label.entities if to_be_found(entity, label)}
    told: set[str] = set()
    for thing in named:
        entity = pairs.get(thing.id)
        if entity is None:
            if not unlabelled(thing.kind, label):
                _count(score, thing, None, False)
            continue
        told.add(entity.id)
        if entity.role == SCENERY and label.scene_kind not in MAPS:
            continue
        _count(score, thing, entity, entity.id in truths)
        if entity.id in truths and label.scene_kind not in MAPS:
            score.errors_m.append(float(np.linalg.norm(np.subtract(thing.center_b_m, entity.center_b_m))))
    for naming in score.namings.values():
        naming.missed += len(truths - told)


def _count(score: Score, thing: SaidThing, entity: EntityLabel | None, wanted: bool) -> None:
    """One thing that is said to be there; `wanted`: it had to be found."""
    claimed = {"kind": thing.kind != "thing", "colour": thing.colour != "unknown"}
    right = {name: entity is not None and getattr(thing, name) == getattr(entity, name) for name in claimed}
    claimed["both"], right["both"] = all(claimed.values()), all(right.values())
    for name, naming in score.namings.items():
        naming.right += right[name] and wanted
        naming.missed += wanted and not right[name]
        naming.wrong += claimed[name] and not right[name]
    score.unsure += wanted and not right["both"] and not claimed["both"]
    if entity is not None:
        score.confusion[f"{entity.colour} {entity.kind}", f"{thing.colour} {thing.kind}"] += 1
    if claimed["kind"]:
        score.chances["kinds"].append((thing.kind_chance, right["kind"]))
    if claimed["colour"] and entity is not None:
        score.chances["colours"].append((thing.colour_chance, right["colour"]))


def _judge_names(each: View, calibration: Calibration, score: Score) -> None:
    named = name_items(each.located, each.names, calibration)
    things = (SaidThing(t.item.id, t.kind, t.colour, t.item.center_b_m, t.kind_chance, t.colour_chance) for t in named)
    judge_named(things, each.pairs, each.label, score)


def _judge_facts(each: View, calibration: Calibration, score: Score) -> None:
    unsure = unsure_things(name_items(each.located, each.names, calibration), calibration)
    for (name, args), raw, truth in _asked(each, calibration):
        chance = calibration.fact(name, raw)
        if not unsure.isdisjoint(args):
            score.answer(name, truth, "open")
            continue
        yes = chance >= calibration.threshold(name, YES)
        no = chance <= 1 - calibration.threshold(name, 1 - NO)
        score.answer(name, truth, "yes" if yes else "no" if no else "open")
        score.chances[name].append((chance, truth))


def _asked(each: View, calibration: Calibration) -> list[tuple[Question, float, bool]]:
    """Raw probability and truth of every question about two things that the label knows."""
    named = name_items(each.located, each.names, calibration)
    items = tuple(thing.item for thing in named if not thing.doubted)
    kept = Located(items, each.located.surfaces, each.located.frame, each.located.base, "", each.located.map_view)
    roles = {thing.item.id: thing.role for thing in named}
    truths = {(fact.name, fact.args) for fact in each.label.facts}
    asked = []
    for predicate, raw in questions(kept, roles):
        if not all(arg in each.pairs for arg in predicate.args):
            continue
        entities = [each.pairs[arg] for arg in predicate.args]
        if comparable(predicate.name, entities, each.label):
            held = (predicate.name, tuple(e.id for e in entities)) in truths
            asked.append(((predicate.name, predicate.args), raw, held))
    return asked


def _questions_about(label: FrameLabel) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Every fact about labelled things that the label would list if it were true."""
    solid = [entity for entity in label.entities if entity.role != "place"]
    for name, (_, count) in PREDICATES.items():
        for entities in permutations(solid, count):
            if comparable(name, entities, label):
                yield name, tuple(entity.id for entity in entities)


def _in_base(base: BaseFrame, position_m: tuple[float, float, float]) -> tuple[float, float, float]:
    x, y, z = (float(value) for value in base.to_base(np.asarray(position_m)))
    return x, y, z


def _named_rows(views: list[View], group: str) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    rows, labels = [], []
    for each in views:
        if group == "scenes":
            rows.append(each.names.scene)
            labels.append(SCENES.index(each.label.scene_kind))
            continue
        for row, item in enumerate(each.located.items):
            label = _label_of(group, item, each.pairs.get(item.id), each.label)
            if label is not None:
                rows.append(each.names.items[group][row])
                labels.append(label)
    return np.array(rows, dtype=np.float32).reshape(len(labels), -1), np.array(labels, dtype=np.int64)


def _label_of(group: str, item: Item, entity: EntityLabel | None, label: FrameLabel) -> int | None:
    if group == "colours":
        return COLOURS.index(entity.colour) if entity is not None and entity.colour in COLOURS else None
    if entity is None:
        return KINDS.index(unlabelled_kind(item, label))
    return KINDS.index(entity.kind if entity.kind in KINDS else "thing")
