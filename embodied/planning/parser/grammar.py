"""The grammar of parsed instructions: what a token may stand for, and what may hang on what.

A parse gives every token a label, and every token that means something a head and an arc to it. A clause is headed by
its relation (`in`, `left of`), else by its verb; a description of a thing by its noun, else by what stands for it.
Only trees of these arcs can be decoded, so whatever comes out is well formed.
"""

from __future__ import annotations

NIL = "nil"
"""Says nothing that changes the meaning."""

VERBS = (
    "v_put", "v_push", "v_stack", "v_touch", "v_reach", "v_pick", "v_go", "v_hold", "v_avoid", "v_tower", "v_uncover",
    "v_swap", "v_again", "v_only", "v_other",
)  # fmt: skip
"""Families of verbs. v_avoid: leave alone; v_uncover: free a thing's top; v_only: leave all others alone;
v_other: nothing that a robot can do here."""
MANNERS = ("v_put", "v_push", "v_stack", "v_pick", "v_uncover", "v_touch", "v_hold", "v_avoid", "v_go", "v_reach")
"""Verbs that only say how a relation is brought about."""
RELATIONS = (
    "r_in", "r_on", "r_to", "r_left", "r_right", "r_front", "r_behind", "r_near", "r_off", "r_between", "r_away",
)  # fmt: skip
FACTS = ("p_empty", "p_full", "p_there", "p_nearer", "p_farther")
"""Said of things in conditions: nothing lies in it; something does; it exists; it is nearer to one than another is."""
CONDITIONS = ("c_if", "c_unless", "c_else")
MARKS = ("neg", "o_first", "o_last", "o_before", "o_after", "o_then", "b_bottom", "b_middle", "b_top", "d_up", "d_down")
"""Negation, order, a level of a tower, and the order in which a tower's things are listed."""
HEADS = ("n", "ns", "id", "pron", "there")
"""What stands for a thing and says nothing else of it: nouns (one, several), ids, `it`, `there`."""
ATTRIBUTES = (
    "col", "small", "large", "tall", "short", "s_left", "s_right", "s_front", "s_back", "s_middle", "sup_near",
    "sup_far", "all", "both", "n2", "n3", "n4", "any", "other", "nth2", "nth3", "adj",
)  # fmt: skip
"""What is said of a thing. s_front: nearest the robot; adj: a property that no description holds."""
OTHER = ("view",)
"""`as I see it`: sides are somebody else's."""
UNKNOWN = "unk"
"""A word that nobody knows and that decides what is meant: it stands where a verb, a relation or an attribute would."""

LABELS = (NIL, *VERBS, *RELATIONS, *FACTS, *CONDITIONS, *MARKS, *HEADS, *ATTRIBUTES, *OTHER, UNKNOWN)
LABEL_INDEX = {label: index for index, label in enumerate(LABELS)}

ARCS = (
    "root", "man", "theme", "ground", "source", "except", "attr", "mark", "restr", "cond", "guard", "sub", "again",
    "part",
)  # fmt: skip
"""root: a clause; man: a verb under its relation; sub: a clause under the one it is told before or after; restr: a
relation that picks a thing out; cond: a fact under its condition; guard: a condition under a clause; part: a word that
goes on in the next one."""
ARC_INDEX = {arc: index for index, arc in enumerate(ARCS)}

_CLAUSES = frozenset((*VERBS, *RELATIONS))
_MENTIONS = frozenset((*HEADS, *ATTRIBUTES))
_ROOT = "root"


def _allowed() -> frozenset[tuple[str, str, str]]:
    """(label, arc, label of the head); the root's label is `root`."""
    found: set[tuple[str, str, str]] = set()

    def add(below: object, arc: str, above: object) -> None:
        found.update((a, arc, b) for a in below for b in above)  # type: ignore[attr-defined]

    add(_CLAUSES, "root", [_ROOT])
    add(MANNERS, "man", RELATIONS)
    add(_CLAUSES, "sub", _CLAUSES)
    add(_MENTIONS, "theme", _CLAUSES | set(FACTS))
    add(_MENTIONS, "theme", [_ROOT])
    add(_MENTIONS, "ground", _CLAUSES | {"sup_near", "sup_far", "p_there", "p_nearer", "p_farther", _ROOT})
    add(_MENTIONS, "source", _CLAUSES | {"p_nearer", "p_farther"})
    add(_MENTIONS, "except", _MENTIONS)
    add(_MENTIONS, "again", [_ROOT])
    add((*ATTRIBUTES, "id"), "attr", _MENTIONS)
    add(MARKS, "mark", _CLAUSES | _MENTIONS | set(FACTS))
    add(RELATIONS, "restr", _MENTIONS)
    add((*RELATIONS, *FACTS), "cond", CONDITIONS)
    add(CONDITIONS, "guard", _CLAUSES | _MENTIONS)
    add(("view",), "mark", _CLAUSES | _MENTIONS)
    decide = {*VERBS, *RELATIONS, *CONDITIONS, *ATTRIBUTES}
    found.update([(UNKNOWN, arc, above) for below, arc, above in found if below in decide])
    found.update([(below, arc, UNKNOWN) for below, arc, above in found if above in decide])
    found.update((label, "part", label) for label in LABELS if label != NIL)
    return frozenset(found)


ALLOWED = _allowed()
HEAD_LABELS = (*LABELS, _ROOT)

SENTENCES = ("instruction", "question", "statement", "nonsense")
"""What a whole text may be; only the first is planned."""
