"""The embedded planner: a fitted parser reads the words, a typed program decides what they mean in the scene.

It needs no server and no network. Where the parser is not sure, or a word that decides the meaning is known to nobody,
the rules planner is asked, which plans only what its grammar holds to the last word; where that does not understand
either, the answer is a refusal rather than a guess.
"""

from __future__ import annotations

import math
import re
import string
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from embodied.planning.checks import check_steps
from embodied.planning.parser.execute import execute
from embodied.planning.parser.grammar import NIL, UNKNOWN
from embodied.planning.parser.known_names import KnownNames, Vocabulary
from embodied.planning.parser.model import SHIPPED, Parser, Read, joined, load, silenced
from embodied.planning.parser.program import build
from embodied.planning.parser.tokens import HAN
from embodied.planning.places import quoted
from embodied.planning.rules import RulesPlanner
from embodied.planning.words import MAX_CHARACTERS, Refused
from embodied.types import FloatArray, PlanFailure, PlanStep, SceneDescription

_MEASURES = frozenset({
    "cm", "mm", "m", "metre", "metres", "meter", "meters", "centimetre", "centimetres", "centimeter", "centimeters",
    "millimetre", "millimetres", "inch", "inches", "degree", "degrees",
    "\u5398\u7c73", "\u6beb\u7c73", "\u7c73", "\u5ea6",
})  # fmt: skip
"""Behind a number: what no plan can keep to."""
_LOOKED_UP = frozenset({"n", "ns", "col", "id"})
"""Labels of words whose meaning the vocabulary and the scene decide."""
_TOLD = {
    "question": "it is a question, not something to be done", "statement": "it does not say what shall be done",
    "nonsense": "it makes no sense",
}  # fmt: skip


class WordEncoder(Protocol):
    """`embodied.text_encoder.TextEncoder`."""

    def encode(self, texts: Sequence[str]) -> FloatArray: ...
    def pieces(self, text: str) -> tuple[str, ...]: ...


STRANGE = 0.5
"""Least probability of the whole parse where a word that nobody knows is passed over."""


@dataclass(frozen=True)
class Sureness:
    """Below which the parser's reading is not planned on; calibrated on wordings that the fit did not see."""

    sentence: float = 0.05
    """Least probability of the whole parse."""
    token: float = 0.3
    """Least probability of one token's part in it."""
    filler: float = 0.99
    """Least probability that a word which nobody knows says nothing."""


class EmbeddedPlanner:
    """Implements `embodied.protocols.Planner`.

    Args:
        folder: Weights, words and card; the shipped ones where omitted.
        encoder: MiniLM, for words that were not taught; None: these count as unknown.
        vocabulary: Words to canonical colours and kinds; None: those of the wordings alone.
    """

    name = "embedded"

    def __init__(
        self, folder: Path | None = None, encoder: WordEncoder | None = None, vocabulary: Vocabulary | None = None
    ) -> None:
        loaded = load(folder if folder is not None else SHIPPED)
        taught = loaded.taught
        self.names = KnownNames(vocabulary)
        self._real = RealWords(encoder)
        listed = KnownNames(vocabulary, listed=True)
        han = {word for word in taught if len(word) > 1 and all(HAN.match(c) for c in word)}
        self._characters = {c for word in taught for c in word if HAN.match(c)}
        self._taught = frozenset(taught)
        self.parser = Parser(loaded.network, taught, listed, encoder, han, self._real, loaded.known)
        self._rules = RulesPlanner()
        self.sureness = Sureness(**loaded.card.get("sureness", {}))

    def propose(self, instruction: str, scene: SceneDescription) -> tuple[PlanStep, ...] | PlanFailure:
        """Steps for the instruction, or a refusal.

        unparsable: not understood, with the word; or nothing that asks for something. unknown_object: a thing that is
        not there, with a list of those that are. ambiguous: several things fit, named. contradictory: places or
        prohibitions that exclude each other. impossible: moving what is fixed, doing what no robot here can do.
        budget: more than 50 steps.
        """
        if self._names_a_body(instruction, scene):
            by_rules = self._rules.propose(instruction, scene)
            if not isinstance(by_rules, PlanFailure):
                return by_rules
        answer = self.parsed(instruction, scene)
        if isinstance(answer, PlanFailure) and answer.reason == "unparsable":
            by_rules = self._rules.propose(instruction, scene)
            return answer if isinstance(by_rules, PlanFailure) else by_rules
        return answer

    def parsed(self, instruction: str, scene: SceneDescription) -> tuple[PlanStep, ...] | PlanFailure:
        """As `propose`, by the fitted parser alone: read as a whole, else sentence by sentence."""
        answer = self._planned(self._whole, instruction, scene)
        if isinstance(answer, PlanFailure) and answer.reason == "unparsable":
            apart = self._planned(self._apart, instruction, scene)
            return answer if isinstance(apart, PlanFailure) else apart
        return answer

    def _planned(
        self, reader: Callable[[str, set[str]], Read], instruction: str, scene: SceneDescription
    ) -> tuple[PlanStep, ...] | PlanFailure:
        try:
            read = reader(instruction, self.ids(scene))
            self.check_sure(read)
            steps = execute(build(read), scene, self.names)
        except Refused as refusal:
            return refusal.failure
        failure = check_steps(steps, scene)
        return steps if failure is None else failure

    def _whole(self, instruction: str, ids: set[str]) -> Read:
        """The parse of an instruction.

        Raises:
            Refused: `unparsable`: too long or empty.
        """
        if len(instruction) > MAX_CHARACTERS:
            raise Refused(
                "unparsable", f"the instruction is longer than {MAX_CHARACTERS} characters; say it in fewer words"
            )
        return self.parser.read(instruction, ids)

    def _apart(self, instruction: str, ids: set[str]) -> Read:
        if len(instruction) <= MAX_CHARACTERS and (read := by_sentences(self.parser, instruction, ids)) is not None:
            return read
        raise Refused("unparsable", "it is one sentence")

    def _names_a_body(self, instruction: str, scene: SceneDescription) -> bool:
        """Whether a word is the id of a thing and a taught word as well: `mug`. The rules know ids from kinds."""
        words = set(re.findall(r"\w+", instruction.lower()))
        return any(item.id.lower() in words and item.id in self._taught for item in scene.objects)

    def ids(self, scene: SceneDescription) -> set[str]:
        """Ids that are read as such: those that are no words."""
        return {item.id for item in scene.objects} - self._taught

    def check_sure(self, read: Read) -> None:
        """Raises `Refused` where the parse is not to be planned on."""
        if read.kind != "instruction":
            raise Refused("unparsable", _TOLD[read.kind] + "; say for instance: touch the red block")
        for place, word in enumerate(read.words):
            if read.parse.labels[place] == UNKNOWN or self._undecided(read, place):
                raise Refused("unparsable", f"{quoted(word)} is not understood; say it in other words")
        least = min(range(len(read.words)), key=lambda i: read.parse.log_each[i])
        log = read.parse.log_probability
        strange = any(read.parse.labels[i] == NIL and self._unknown(read, i) for i in range(len(read.words)))
        sentence = max(self.sureness.sentence, STRANGE) if strange else self.sureness.sentence
        if read.parse.log_each[least] < math.log(self.sureness.token) or log < math.log(sentence):
            raise Refused(
                "unparsable", f"it is not clear what {quoted(read.words[least])} means here; say it in other words"
            )

    def _undecided(self, read: Read, place: int) -> bool:
        """Whether it is a word that nobody knows, and not clearly one that says nothing."""
        label = read.parse.labels[place]
        if label in _LOOKED_UP:
            return False
        if self._measure(read, place):
            return True
        return self._unknown(read, place) and (
            label != NIL or read.parse.log_each[place] < math.log(self.sureness.filler)
        )

    @staticmethod
    def _measure(read: Read, place: int) -> bool:
        return read.words[place] in _MEASURES and place > 0 and read.words[place - 1].replace(".", "").isdigit()

    def _unknown(self, read: Read, place: int) -> bool:
        """A word that nobody knows."""
        word = read.words[place]
        if HAN.match(word):
            return not self._han_known(word)
        if not any(map(str.isalnum, word)):
            return word not in string.punctuation
        if word.replace(".", "").isdigit():
            return False
        return not any(stem in self._taught or stem in self._real for stem in stems(word))

    def _han_known(self, word: str) -> bool:
        """A character that stands alone may be a part of a taught word."""
        return word in self._taught or word in self._characters


_STOPS = re.compile(r"(?<=[.!?;\u3002\uff01\uff1f\uff1b])(?!\w)")


def by_sentences(parser: Parser, instruction: str, ids: set[str]) -> Read | None:
    """An instruction of several sentences, each read for itself; what only tells something is passed over.

    None: it is one sentence, or none of them asks for something.
    """
    parts = [part for part in _STOPS.split(instruction) if any(map(str.isalnum, part))]
    if len(parts) < 2:
        return None
    reads = [parser.read(part, ids) for part in parts]
    if any(read.kind in ("question", "nonsense") for read in reads):
        return None
    if all(read.kind != "instruction" for read in reads):
        return None
    return joined([read if read.kind == "instruction" else silenced(read) for read in reads])


def stems(word: str) -> tuple[str, ...]:
    """The word, and what it may be a form of: `repositioning` of reposition."""
    found = [word]
    for ending in ("ing", "ed", "es", "s", "d", "ly"):
        if word.endswith(ending) and len(word) - len(ending) >= 3:
            stem = word.removesuffix(ending)
            found += [stem, stem + "e"] + ([stem[:-1]] if stem[-1] == stem[-2] else [])
    return tuple(found)


class RealWords:
    """Words that MiniLM knows whole."""

    def __init__(self, encoder: WordEncoder | None) -> None:
        self._encoder, self._known = encoder, dict[str, bool]()

    def __contains__(self, word: object) -> bool:
        if self._encoder is None or not isinstance(word, str) or not word.isascii():
            return False
        if word not in self._known:
            pieces = self._encoder.pieces(word)
            self._known[word] = len(pieces) == 1 and pieces[0] != "[UNK]"
        return self._known[word]

    def __iter__(self) -> Any:
        return iter(())

    def __len__(self) -> int:
        return 1
