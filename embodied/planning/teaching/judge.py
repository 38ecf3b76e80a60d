"""How well taught sentences are planned, and how sure the planner has to be: on templates that the fit did not see."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass

from embodied.planning.checks import check_steps
from embodied.planning.embedded import EmbeddedPlanner, Sureness
from embodied.planning.parser.decode import Parse
from embodied.planning.parser.execute import execute
from embodied.planning.parser.model import Read
from embodied.planning.parser.program import build
from embodied.planning.teaching.scenes import draw_scene, things_of
from embodied.planning.teaching.sentences import Taught, Teacher
from embodied.planning.words import Refused
from embodied.types import PlanStep, SceneDescription

Plan = tuple[PlanStep, ...] | None
"""Steps; None for a refusal."""
TOKENS = (0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.6)
SENTENCES = (0.001, 0.005, 0.01, 0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5)
COST_OF_WRONG = 2.0
"""A wrong plan weighs as much as so many right ones."""


@dataclass(frozen=True)
class Case:
    """A taught sentence in its scene: what its own parse plans, and what the read one does."""

    sentence: Taught
    gold: Plan
    read: Read
    told: Plan
    """What the read parse plans where sureness is not asked for."""
    exact: bool
    """The parse is the taught one, token by token."""


def cases(planner: EmbeddedPlanner, seed: int, count: int, held_out: bool, chinese: float = 0.25) -> Iterator[Case]:
    """Fresh sentences; with `held_out` each has a template that the fit did not see."""
    rng = random.Random(f"judge/{seed}/{held_out}")
    teacher = Teacher(rng, held_out)
    made = 0
    while made < count:
        scene = draw_scene(rng)
        sentence = teacher.sentence(things_of(scene), "zh" if rng.random() < chinese else "en")
        if sentence is None or not any(token.text.isalnum() for token in sentence.tokens):
            continue
        made += 1
        read = planner.parser.read(sentence.text, planner.ids(scene))
        gold = gold_plan(planner, sentence, scene, read.words)
        yield Case(sentence, gold, read, _planned(planner, read, scene), _same(sentence, read))


def gold_plan(
    planner: EmbeddedPlanner, sentence: Taught, scene: SceneDescription, words: Sequence[str] | None = None
) -> Plan:
    """What a taught sentence's own parse plans.

    Args:
        planner: Knows the names of things.
        sentence: With its parse.
        scene: It speaks of.
        words: The sentence's, slips of spelling put right; as they stand where None.
    """
    spelled = tuple(words) if words is not None else tuple(token.text for token in sentence.tokens)
    parse = Parse(sentence.labels, sentence.arcs, sentence.heads, (0.0,) * len(sentence.tokens))
    return _planned(planner, Read(sentence.tokens, spelled, parse, sentence.kind, 1.0), scene)


def _same(sentence: Taught, read: Read) -> bool:
    said = [i for i, label in enumerate(sentence.labels) if label != "nil"]
    heads = all(sentence.heads[i] == read.parse.heads[i] for i in said)
    return read.kind == sentence.kind and read.parse.labels == sentence.labels and heads


def _planned(planner: EmbeddedPlanner, read: Read, scene: SceneDescription) -> Plan:
    if read.kind != "instruction":
        return None
    try:
        steps = execute(build(read), scene, planner.names)
    except Refused:
        return None
    return steps if check_steps(steps, scene) is None else None


def calibrated(planner: EmbeddedPlanner, found: Sequence[Case]) -> Sureness:
    """How sure is sure enough: of what can be done the share that is planned right, less twice that planned wrong, and
    less twice the share of what cannot be done that is planned, is most."""

    def worth(sureness: Sureness) -> float:
        row = counted(planner, found, sureness)
        return row["right"] - COST_OF_WRONG * (row["wrong"] + row["planned_refusals"])

    return max((Sureness(s, t) for s, t in itertools.product(SENTENCES, TOKENS)), key=worth)


def counted(planner: EmbeddedPlanner, found: Sequence[Case], sureness: Sureness) -> dict[str, float]:
    """Shares. Of the sentences that their own parse plans: right (the same steps), wrong (other steps), refused. Of the
    others: planned_refusals. Of all parses: exact."""
    before, planner.sureness = planner.sureness, sureness
    told = [_surely(planner, case) for case in found]
    planner.sureness = before
    can = [(case.gold, plan) for case, plan in zip(found, told, strict=True) if case.gold is not None]
    cannot = [plan for case, plan in zip(found, told, strict=True) if case.gold is None]
    some, others = max(1, len(can)), max(1, len(cannot))
    return {
        "right": sum(gold == plan for gold, plan in can) / some,
        "wrong": sum(plan is not None and gold != plan for gold, plan in can) / some,
        "refused": sum(plan is None for _, plan in can) / some,
        "planned_refusals": sum(plan is not None for plan in cannot) / others,
        "exact": sum(case.exact for case in found) / max(1, len(found)),
        "can_be_done": len(can) / max(1, len(found)),
    }


def _surely(planner: EmbeddedPlanner, case: Case) -> Plan:
    try:
        planner.check_sure(case.read)
    except Refused:
        return None
    return case.told


def report(planner: EmbeddedPlanner, seed: int, count: int) -> dict[str, object]:
    """For the card: sureness, chosen on one draw of held-out sentences, and shares on others."""
    sureness = calibrated(planner, list(cases(planner, seed, count, held_out=True)))
    rows = {}
    for name, held_out, chinese in (("held_out", True, 0.0), ("held_out_zh", True, 1.0), ("taught", False, 0.25)):
        shares = counted(planner, list(cases(planner, seed + 1, count, held_out, chinese)), sureness)
        rows[name] = {key: round(value, 4) for key, value in shares.items()}
    return {"sureness": asdict(sureness), "judged": rows, "judged_sentences": count}
