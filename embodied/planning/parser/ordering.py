"""The order of clauses by what is said of it: first, last, before, after."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from embodied.planning.parser.program import Clause
from embodied.planning.parser.steps import Act

_LATER = frozenset({"o_then", "o_first", "o_last", "o_before", "o_after"})


def ordered(clauses: Sequence[Clause], acts: Mapping[int, Sequence[Act]]) -> list[Act]:
    """The acts of all clauses in their order, each with its moment.

    Args:
        clauses: In the order of the text.
        acts: By the clause's head token; none for clauses that ask for nothing.
    """
    line = [clause for clause in clauses if clause.at in acts]
    for clause in list(line):
        marks = set(_marks(clause))
        if "o_before" in marks:
            _move_behind(line, clause)
        elif "o_after" in marks:
            _move_ahead(line, clause, clause.under)
        if "o_first" in marks:
            _to_front(line, clause)
        if "o_last" in marks:
            line.remove(clause)
            line.append(clause)
    return _with_moments(line, acts)


def _marks(clause: Clause) -> tuple[str, ...]:
    own = clause.marks
    if clause.again or len(clause.themes) == 1:
        own += tuple(mark for d in clause.themes for mark in d.marks if mark.startswith("o_"))
    return own


def _move_behind(line: list[Clause], clause: Clause) -> None:
    """Behind what it is told before: the clause above it, or all of its sentence that follow."""
    others = [c for c in line if c is not clause]
    above = [c for c in others if c.at == clause.under]
    followers = [c for c in others if c.sentence == clause.sentence and (c.start > clause.start or c in above)]
    followers = [c for c in followers if "o_then" not in c.marks or c in above]
    if followers:
        line.remove(clause)
        line.insert(max(line.index(c) for c in followers) + 1, clause)


def _move_ahead(line: list[Clause], clause: Clause, under: int | None) -> None:
    above = next((c for c in line if c.at == under), None)
    if above is not None and line.index(above) < line.index(clause):
        line.remove(clause)
        line.insert(line.index(above), clause)


def _to_front(line: list[Clause], clause: Clause) -> None:
    """Before the clauses that it interrupts, back to the last that was told to come later."""
    at = line.index(clause)
    line.remove(clause)
    while at > 0:
        at -= 1
        if "o_then" in _marks(line[at]):
            break
    line.insert(at, clause)


def _with_moments(line: Sequence[Clause], acts: Mapping[int, Sequence[Act]]) -> list[Act]:
    moment, made = 0, []
    for place, clause in enumerate(line):
        before = line[place - 1] if place else None
        if before is not None and _parted(before, clause):
            moment += 1
        for act in acts[clause.at]:
            if act.skill not in ("place", "stack", "push"):
                act = replace(act, fixed=True)
            made.append(replace(act, moment=moment))
    return made


def _parted(before: Clause, clause: Clause) -> bool:
    """Whether it is said that the one comes after the other."""
    told = _LATER & set(_marks(clause)) or _LATER & set(_marks(before)) - {"o_then"}
    return bool(told) or clause.under is not None or before.under is not None
