"""The typed program that a parse stands for: clauses over descriptions of things, conditions, order."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from embodied.planning.parser.decode import Parse
from embodied.planning.parser.grammar import ATTRIBUTES, FACTS, HEADS, RELATIONS, VERBS
from embodied.planning.parser.model import Read
from embodied.planning.places import quoted
from embodied.planning.words import Refused

_SIZES = frozenset({"small", "large", "tall", "short"})
_COUNTS = {"n2": 2, "n3": 3, "n4": 4}
_STOPS = frozenset(".;!?")
_OR = frozenset({"or", "\u6216", "\u6216\u8005", "\u6216\u662f"})
_MENTION = frozenset((*HEADS, *ATTRIBUTES))


@dataclass(frozen=True)
class Description:
    """A phrase for one thing or several, not yet looked up."""

    at: int
    """Token of its head."""
    words: str
    noun: str | None = None
    plural: bool = False
    colours: tuple[str, ...] = ()
    not_colours: tuple[str, ...] = ()
    sizes: tuple[str, ...] = ()
    side: str | None = None
    nth: int = 1
    superlative: str | None = None
    """near or far."""
    superlative_of: Description | None = None
    """None: of the robot."""
    relations: tuple[Relation, ...] = ()
    excluded: tuple[Description, ...] = ()
    all: bool = False
    both: bool = False
    any: bool = False
    count: int | None = None
    other: bool = False
    pronoun: str | None = None
    """The word: it, them, there."""
    place: bool = False
    """The pronoun speaks of a place."""
    ident: str | None = None
    properties: tuple[str, ...] = ()
    marks: tuple[str, ...] = ()

    @property
    def several(self) -> bool:
        """It speaks of a set."""
        return self.all or self.both or self.count is not None or (self.plural and not self.any)


@dataclass(frozen=True)
class Relation:
    """A relation that picks things out: `on the tray`."""

    name: str
    grounds: tuple[Description, ...]
    negated: bool = False


@dataclass(frozen=True)
class Stated:
    """A fact that a condition speaks of."""

    name: str
    """A relation without its r_, or empty, full, there."""
    themes: tuple[Description, ...]
    grounds: tuple[Description, ...]
    negated: bool
    others: tuple[Description, ...] = ()
    """Than which a thing is nearer."""


@dataclass(frozen=True)
class Condition:
    """When clauses are carried out."""

    kind: str
    """if, unless, else."""
    at: int
    sentence: int
    head: int
    """Token of the clause that it is said of."""
    facts: tuple[Stated, ...]


@dataclass
class Clause:
    """Something to be done, or left."""

    at: int
    """Token of its head."""
    start: int
    """Its first token."""
    sentence: int
    verb: str = ""
    """A family without its v_; empty where none is said."""
    relation: str = ""
    themes: tuple[Description, ...] = ()
    grounds: tuple[Description, ...] = ()
    sources: tuple[Description, ...] = ()
    negated: bool = False
    again: bool = False
    marks: tuple[str, ...] = ()
    under: int | None = None
    """Token of the clause that it is told before or after."""
    words: str = ""


@dataclass(frozen=True)
class Program:
    clauses: tuple[Clause, ...]
    """In the order of the text."""
    conditions: tuple[Condition, ...]
    marks: tuple[str, ...] = field(default=())
    """What is said of the whole, such as whose left is meant."""


def build(read: Read) -> Program:
    """The program of a parse.

    Raises:
        Refused: `unparsable`: it asks for nothing, or a part lacks what it needs.
    """
    return _Builder(read).program()


class _Builder:
    def __init__(self, read: Read) -> None:
        self.words, self.parse = read.words, read.parse
        self.below: dict[int, list[int]] = {}
        for i, head in enumerate(self.parse.heads):
            if self.parse.labels[i] != "nil":
                self.below.setdefault(head, []).append(i)
        stops = [word in _STOPS for word in read.words]
        self.sentence_of = [sum(stops[:i]) for i in range(len(stops))]

    def program(self) -> Program:
        parse = self.parse
        clauses = [self._clause(i) for i in range(len(self.words)) if self._is_clause(parse, i)]
        clauses += self._bare(clauses)
        if not clauses:
            raise Refused("unparsable", "it is not said what shall be done; say for instance: touch the red block")
        clauses.sort(key=lambda clause: (clause.start, clause.at))
        conditions = [self._condition(i) for i, label in enumerate(parse.labels) if label.startswith("c_")]
        views = tuple(label for label in parse.labels if label == "view")
        return Program(tuple(clauses), tuple(conditions), views)

    @staticmethod
    def _is_clause(parse: Parse, i: int) -> bool:
        return parse.labels[i] in (*VERBS, *RELATIONS) and parse.arcs[i] in ("root", "sub")

    def _clause(self, i: int) -> Clause:
        label = self.parse.labels[i]
        verbs = [j for j in self._of(i, "man")]
        relation = label[2:] if label in RELATIONS else ""
        verb = self.parse.labels[verbs[0]][2:] if verbs else label[2:] if label in VERBS else ""
        under = self.parse.heads[i] if self.parse.arcs[i] == "sub" else None
        inside = list(self._tree(i, ("sub", "cond", "guard")))
        return Clause(
            at=i, start=min(inside), sentence=self.sentence_of[i], verb=verb, relation=relation,
            themes=self._mentions(i, "theme"), grounds=self._mentions(i, "ground"), sources=self._mentions(i, "source"),
            negated=self._negated(i) or any(self._negated(j) for j in verbs), marks=self._marks(i), under=under,
            words=self.words[verbs[0] if verbs else i],
        )  # fmt: skip

    def _bare(self, clauses: list[Clause]) -> list[Clause]:
        """Mentions that hang on no clause: `the green one too`; `red block. white tray.`"""
        found: list[Clause] = []
        themes: list[int] = []
        for i in self.below.get(-1, []):
            arc = self.parse.arcs[i]
            start = min(self._tree(i, ("sub",)))
            if arc == "again":
                found.append(
                    Clause(
                        i, start, self.sentence_of[i], themes=(self._description(i),), again=True, marks=self._marks(i)
                    )
                )
            elif arc == "theme":
                themes.append(i)
            elif arc == "ground":
                if not themes:
                    raise Refused("unparsable", f"what shall come to {quoted(self._said(i))}? name it")
                first = min(self._tree(themes[0], ("sub",)))
                told = tuple(self._description(j) for j in themes)
                found.append(
                    Clause(
                        i,
                        first,
                        self.sentence_of[i],
                        relation="to",
                        themes=told,
                        grounds=(self._description(i),),
                        marks=self._marks(themes[0]),
                    )
                )
                themes = []
        for i in themes:
            found.append(
                Clause(i, i, self.sentence_of[i], themes=(self._description(i),), again=True, marks=self._marks(i))
            )
        return found

    def _condition(self, i: int) -> Condition:
        facts = [self._stated(j) for j in self._of(i, "cond")]
        return Condition(self.parse.labels[i][2:], i, self.sentence_of[i], self.parse.heads[i], tuple(facts))

    def _stated(self, i: int) -> Stated:
        return Stated(
            self.parse.labels[i][2:],
            self._mentions(i, "theme"),
            self._mentions(i, "ground"),
            self._negated(i),
            self._mentions(i, "source"),
        )

    def _mentions(self, i: int, arc: str) -> tuple[Description, ...]:
        found = [j for j in self._of(i, arc) if self.parse.labels[j] in _MENTION]
        kept = [j for k, j in enumerate(found) if k == 0 or not self._either(found[k - 1], j)]
        return tuple(self._description(j) for j in kept)

    def _either(self, before: int, after: int) -> bool:
        """`the red or the blue block`: one of them will do, and the first is taken."""
        between = range(before + 1, after)
        return any(self.words[k] in _OR and self.parse.labels[k] == "nil" for k in between)

    def _description(self, i: int) -> Description:
        parts = [i, *self._of(i, "attr")]
        labels = {j: self.parse.labels[j] for j in parts}
        colours = [j for j in parts if labels[j] == "col"]
        plain = tuple(self._phrase(j) for j in colours if not self._negated(j) or j == i)
        sups = [j for j in parts if labels[j].startswith("sup_")]
        of = [d for j in sups for d in self._mentions(j, "ground")]
        label = labels[i]
        said = set(labels.values())
        return Description(
            at=i,
            words=self._said(i),
            noun=self._phrase(i) if label in ("n", "ns") else None,
            plural=label == "ns",
            colours=plain,
            not_colours=tuple(self._phrase(j) for j in colours if self._negated(j) and j != i),
            sizes=tuple(labels[j] for j in parts if labels[j] in _SIZES),
            side=next((labels[j][2:] for j in parts if labels[j].startswith("s_")), None),
            nth=2 if "nth2" in said else 3 if "nth3" in said else 1,
            superlative=labels[sups[0]][4:] if sups else None,
            superlative_of=of[0] if of else None,
            relations=tuple(
                Relation(self.parse.labels[j][2:], self._mentions(j, "ground"), self._negated(j))
                for j in self._of(i, "restr")
            ),
            excluded=self._mentions(i, "except"),
            all="all" in said,
            both="both" in said,
            any="any" in said,
            count=next((_COUNTS[name] for name in _COUNTS if name in said), None),
            other="other" in said,
            pronoun=self.words[i] if label in ("pron", "there") else None,
            place=label == "there",
            ident=next((self.words[j] for j in parts if labels[j] == "id"), None),
            properties=tuple(self.words[j] for j in parts if labels[j] == "adj"),
            marks=self._marks(i),
        )

    def _of(self, i: int, arc: str) -> list[int]:
        return [j for j in self.below.get(i, []) if self.parse.arcs[j] == arc]

    def _marks(self, i: int) -> tuple[str, ...]:
        return tuple(self.parse.labels[j] for j in self._of(i, "mark") if self.parse.labels[j] != "neg")

    def _negated(self, i: int) -> bool:
        return sum(self.parse.labels[j] == "neg" for j in self._of(i, "mark")) % 2 == 1

    def _phrase(self, i: int) -> str:
        """The word with the parts of its name that stand before it."""
        words = [self.words[i]]
        while (before := self._of(i, "part")) and before[0] == i - 1:
            i = before[0]
            words.insert(0, self.words[i])
        chinese = all(not word.isascii() for word in words)
        return ("" if chinese else " ").join(words)

    def _said(self, i: int) -> str:
        inside = sorted(self._tree(i, ("except", "restr", "mark", "ground", "guard")))
        words = self.words[inside[0] : inside[-1] + 1]
        return ("" if all(not w.isascii() for w in words) else " ").join(words)

    def _tree(self, i: int, without: tuple[str, ...]) -> Iterator[int]:
        yield i
        for j in self.below.get(i, []):
            if self.parse.arcs[j] not in without:
                yield from self._tree(j, without)


__all__ = ["FACTS", "Clause", "Condition", "Description", "Program", "Relation", "Stated", "build"]
