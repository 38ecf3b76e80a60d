"""How good a describer's parts are on labelled frames: names, facts, positions, calibration, time."""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from embodied.colours import COLOURS
from embodied.labels import EntityLabel, FrameLabel
from embodied.types import Frame
from vlm_describer.calibration import (
    PRECISION,
    Calibration,
    fit_line,
    fit_temperature,
    reliability,
    threshold_for,
)
from vlm_describer.examples import KINDS, SCENES, match
from vlm_describer.located import Item, Located
from vlm_describer.naming import Names
from vlm_describer.relations import questions
from vlm_describer.seeing import NO, YES, Looker, name_items

JUDGED_SHARE, JUDGED_PIXELS = 0.6, 40
"""A thing has to be found where this share of its silhouette is visible, in so many pixels, and none of it cut off."""
BUILDING = ("wall", "door")
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


@dataclass
class Score:
    """Counts over frames."""

    right: int = 0
    wrong: int = 0
    """Named things that are not there, or are called something else."""
    missed: int = 0
    unsure: int = 0
    """Of the missed: found, and left unnamed."""
    errors_m: list[float] = field(default_factory=list)
    facts: dict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    confusion: Counter[tuple[str, str]] = field(default_factory=Counter)
    """(true, said) names of matched things."""
    chances: dict[str, list[tuple[float, bool]]] = field(default_factory=lambda: defaultdict(list))
    """Probability and truth of every claim, by what it is about."""
    cpu_s: list[float] = field(default_factory=list)

    @property
    def f1(self) -> float:
        """Of things named with kind and colour."""
        total = 2 * self.right + self.wrong + self.missed
        return 2 * self.right / total if total else 1.0

    def summary(self) -> dict[str, Any]:
        """One flat object."""
        errors = np.array(self.errors_m) if self.errors_m else np.full(1, np.nan)
        found: dict[str, Any] = {
            "f1": self.f1,
            "precision": _share(self.right, self.right + self.wrong),
            "recall": _share(self.right, self.right + self.missed),
            "unnamed": _share(self.unsure, self.right + self.missed),
            "things": self.right + self.missed,
            "position_median_m": float(np.median(errors)),
            "position_p95_m": float(np.percentile(errors, 95)),
            "cpu_ms": 1e3 * float(np.median(self.cpu_s)) if self.cpu_s else 0.0,
        }
        for name, counts in sorted(self.facts.items()):
            answered = sum(counts[key] for key in ("tp", "fp", "tn", "fn"))
            asked = answered + counts["open_true"] + counts["open_false"]
            found[f"{name}_accuracy"] = _share(counts["tp"] + counts["tn"], answered)
            found[f"{name}_answered"] = _share(answered, asked)
            found[f"{name}_precision"] = _share(counts["tp"], counts["tp"] + counts["fp"])
            found[f"{name}_recall"] = _share(counts["tp"], counts["tp"] + counts["fn"] + counts["open_true"])
            found[f"{name}_true"] = counts["tp"] + counts["fn"] + counts["open_true"]
        for name, claims in sorted(self.chances.items()):
            chances, truths = np.array([c for c, _ in claims]), np.array([t for _, t in claims])
            found[f"ece_{name}"] = reliability(chances, truths).error
        return found


def view(frame: Frame, label: FrameLabel, looker: Looker) -> View:
    """Looks at a frame."""
    began = time.process_time()
    located, names = looker.look(frame, label.base)
    return View(label, located, names, match(located, label), time.process_time() - began)


def judge(views: Iterable[View], calibration: Calibration) -> Score:
    """Everything that is said of the views, counted."""
    score = Score()
    for each in views:
        score.cpu_s.append(each.cpu_s)
        _judge_names(each, calibration, score)
        _judge_facts(each, calibration, score)
        chances = calibration.names("scenes", each.names.scene)
        best = int(np.argmax(chances))
        score.chances["scenes"].append((float(chances[best]), SCENES[best] == each.label.scene_kind))
    return score


def calibrate(views: list[View], identity: str, precision: float = PRECISION) -> Calibration:
    """Temperatures, lines and thresholds from labelled views."""
    temperatures, thresholds = {}, {}
    for group in ("kinds", "colours", "scenes"):
        logits, labels = _named_rows(views, group)
        if len(labels):
            temperatures[group] = fit_temperature(logits, labels)
            chances = Calibration(temperatures=temperatures).names(group, logits)
            thresholds[group] = threshold_for(chances.max(axis=1), chances.argmax(axis=1) == labels, precision)
    raw: dict[str, list[tuple[float, bool]]] = defaultdict(list)
    named = Calibration(temperatures=temperatures, thresholds=thresholds)
    for each in views:
        for name, chance, truth in _asked(each, named):
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


def to_be_found(entity: EntityLabel, label: FrameLabel) -> bool:
    """Whether a describer has to find and name it."""
    visible = entity.visible_share >= JUDGED_SHARE and entity.pixels >= JUDGED_PIXELS and not entity.cut
    scenery = entity.role == SCENERY and (entity.kind in BUILDING or label.scene_kind in ("table", "floor"))
    return visible and not scenery and entity.role != "place"


def _judge_names(each: View, calibration: Calibration, score: Score) -> None:
    named = name_items(each.located, each.names, calibration)
    truths = {entity.id for entity in each.label.entities if to_be_found(entity, each.label)}
    told: set[str] = set()
    for thing in named:
        entity = each.pairs.get(thing.item.id)
        sure = thing.kind != "thing" and thing.colour != "unknown"
        if entity is None:
            if not _scenery_like(thing.kind, each.label):
                score.wrong += sure
                score.chances["kinds"].append((thing.kind_chance, False))
            continue
        told.add(entity.id)
        if entity.role == SCENERY and each.label.scene_kind in ("table", "floor"):
            continue
        right = (thing.kind, thing.colour) == (entity.kind, entity.colour)
        score.confusion[f"{entity.colour} {entity.kind}", f"{thing.colour} {thing.kind}"] += 1
        if thing.kind != "thing":
            score.chances["kinds"].append((thing.kind_chance, thing.kind == entity.kind))
        if thing.colour != "unknown":
            score.chances["colours"].append((thing.colour_chance, thing.colour == entity.colour))
        if entity.id in truths:
            score.right += right
            score.missed += not right
            score.unsure += not right and not sure
            if each.label.scene_kind in ("table", "floor"):
                score.errors_m.append(_distance(thing.item, entity))
        score.wrong += sure and not right
    score.missed += len(truths - told)


def _judge_facts(each: View, calibration: Calibration, score: Score) -> None:
    for name, raw, truth in _asked(each, calibration):
        chance = calibration.fact(name, raw)
        yes = chance >= calibration.threshold(name, YES)
        no = chance <= 1 - calibration.threshold(name, 1 - NO)
        kind = ("tp" if truth else "fp") if yes else (("fn" if truth else "tn") if no else f"open_{str(truth).lower()}")
        score.facts[name][kind] += 1
        score.chances[name].append((chance, truth))


def _asked(each: View, calibration: Calibration) -> list[tuple[str, float, bool]]:
    """Predicate, raw probability and truth of every question about two things that the label knows."""
    named = name_items(each.located, each.names, calibration)
    items = tuple(thing.item for thing in named)
    kept = Located(items, each.located.surfaces, each.located.frame, each.located.base, "", each.located.map_view)
    roles = {thing.item.id: thing.role for thing in named}
    truths = {(fact.name, fact.args) for fact in each.label.facts}
    asked = []
    for predicate, raw in questions(kept, roles):
        if not all(arg in each.pairs for arg in predicate.args):
            continue
        entities = [each.pairs[arg] for arg in predicate.args]
        if _comparable(predicate.name, entities):
            asked.append((predicate.name, raw, (predicate.name, tuple(e.id for e in entities)) in truths))
    return asked


def _comparable(predicate: str, entities: list[EntityLabel]) -> bool:
    """Whether the label would list the fact if it were true."""
    roles = [entity.role for entity in entities]
    if predicate == "in":
        return roles == ["object", "zone"]
    if predicate in ("on", "touching"):
        return roles[0] == "object"
    return "object" in roles or roles == ["zone", "zone"]


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
        robot = label.robot_in_view and item.role_hint == "robot-like"
        return KINDS.index("robot" if robot else "nothing")
    return KINDS.index(entity.kind if entity.kind in KINDS else "thing")


def _scenery_like(kind: str, label: FrameLabel) -> bool:
    """A piece of a wall that is no labelled thing of its own is still a wall."""
    return kind in BUILDING and label.scene_kind in ("maze", "rooms")


def _distance(item: Item, entity: EntityLabel) -> float:
    return float(np.linalg.norm(np.subtract(item.center_b_m, entity.center_b_m)))


def _share(part: int, whole: int) -> float:
    return part / whole if whole else float("nan")
