"""Words to canonical names: any word for a colour or a kind of thing, or the admission that it is none that is known.

A word is looked up in lists first, then taken apart, then (colours) found in a table of names with their RGB, and last
compared with prompts in a sentence encoder's space, which answers only where it is clear.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Literal

from embodied.text_encoder import TextEncoder
from vlm_describer.colour_table import Rgb, css, fitted_rule, for_fitting, survey, told_by_css, told_colour
from vlm_describer.nearest import Encoder, NearestConfig, NearestPrompt
from vlm_describer.vocabulary import Vocabulary, load_vocabulary
from vlm_describer.word_forms import HAN, SpellingIndex, han_core, han_head, head_of, plain, singulars, word_lists

How = Literal["listed", "compound", "table", "nearest", "unknown"]
COLOUR_NOUNS = frozenset({"colour", "color", "coloured", "colored", "hue", "tint", "shade"})
"""What may follow a colour: `navy coloured`."""
LONGEST = 60
"""Characters beyond which a text is no word for anything."""


@dataclass(frozen=True)
class Named:
    """What a word was understood as."""

    name: str | None
    """Canonical; None where it is not known."""
    how: How
    """listed: in the vocabulary. compound: its last part is. table: by its RGB. nearest: by the sentence encoder."""
    confidence: float
    """In [0, 1]; of a table its share of the vote, of the encoder the cosine; 0 where unknown."""


UNKNOWN = Named(None, "unknown", 0.0)


@dataclass(frozen=True)
class WordsConfig:
    """Which legs are used, and when the last one answers."""

    tables: bool = True
    """Lists, compounds and the colour table."""
    nearest: bool = True
    """The sentence encoder."""
    colour: NearestConfig = NearestConfig("a {} block", whole_words=True)
    kind: NearestConfig = NearestConfig("a picture of a {}")


class Words:
    """Words to canonical names of one vocabulary.

    Args:
        encoder: For words that no table knows; it is asked only then.
        colour_table: Names with sRGB in [0, 1]; the survey's and CSS's where omitted.
    """

    def __init__(
        self,
        vocabulary: Vocabulary | None = None,
        encoder: Encoder | None = None,
        config: WordsConfig | None = None,
        colour_table: Mapping[str, Rgb] | None = None,
    ) -> None:
        self._vocabulary = vocabulary if vocabulary is not None else load_vocabulary()
        self._config = config if config is not None else WordsConfig()
        self._encoder = encoder if encoder is not None else TextEncoder()
        self._lists = word_lists()
        self._colours = {plain(word): name for word, name in self._vocabulary.words("colours").items()}
        self._kinds = {plain(word): name for word, name in self._vocabulary.words("kinds").items()}
        self._kind_index = SpellingIndex(self._kinds)
        self._given_table = colour_table
        self._table: dict[str, Named] | None = None
        self._table_index: SpellingIndex | None = None
        self._nearest: dict[str, NearestPrompt] = {}

    def colour(self, word: str) -> Named:
        """The canonical colour that a word or a short phrase (`navy blue`, `pale lilac`, `深蓝色`) names."""
        text = plain(word)
        if self._refused(text):
            return UNKNOWN
        if self._config.tables:
            found = self._han_colour(text) if HAN.search(text) else self._latin_colour(text)
            if found is not None:
                return found
        return self._by_nearest("colour", text)

    def kind(self, word: str) -> Named:
        """The canonical kind that a word or a short phrase (`wooden cubes`, `bottle of water`, `小球`) names."""
        text = head_of(plain(word))
        if self._refused(text):
            return UNKNOWN
        if self._config.tables:
            found = self._han_kind(text) if HAN.search(text) else self._latin_kind(text)
            if found is not None:
                return found
        return self._by_nearest("kind", text)

    def _refused(self, text: str) -> bool:
        if not text or len(text) > LONGEST:
            return True
        if HAN.search(text):
            return any(character in text for character in self._lists.han_refusing)
        return not self._lists.refusing.isdisjoint(text.split())

    def _latin_colour(self, text: str) -> Named | None:
        tokens = text.split()
        if text in self._colours:
            return Named(self._colours[text], "listed", 1.0)
        if text in self._lists.adjectives:
            return Named(self._lists.adjectives[text], "listed", 0.9)
        if self._lists.modifiers.issuperset(tokens):
            return UNKNOWN
        mixed = len({self._colours[token] for token in tokens if token in self._colours}) > 1
        if mixed and (found := self._from_table(text)):
            return found
        if tokens[-1] in self._colours:
            return Named(self._colours[tokens[-1]], "compound", 0.95)
        return self._from_table(text) or self._modified(tokens)

    def _modified(self, tokens: list[str]) -> Named | None:
        """A colour behind words that are known: `very pale lilac`, `dark reddish`; or one before a noun for colour."""
        if not all(self._qualifies(token) for token in tokens[:-1]):
            return None
        last = tokens[-1]
        if last in COLOUR_NOUNS and len(tokens) > 1:
            return self._latin_colour(" ".join(tokens[:-1]))
        if len(tokens) == 1:
            return self._from_table(last, loose=True)
        if last in self._lists.adjectives:
            return Named(self._lists.adjectives[last], "compound", 0.8)
        return self._from_table(last)

    def _qualifies(self, token: str) -> bool:
        known = token in self._lists.modifiers or token in self._lists.adjectives or token in self._colours
        return known or self._from_table(token) is not None

    def _from_table(self, text: str, loose: bool = False) -> Named | None:
        table, index = self._colour_table()
        name = index.exact(text) or (index.loose(text) if loose else None)
        return table[name] if name is not None else None

    def _colour_table(self) -> tuple[dict[str, Named], SpellingIndex]:
        if self._table is None or self._table_index is None:
            rgb = self._given_table if self._given_table is not None else {**css(), **survey()}
            self._table = _named_table(rgb)
            self._table_index = SpellingIndex({plain(name): name for name in rgb})
        return self._table, self._table_index

    def _han_colour(self, text: str) -> Named | None:
        if text in self._colours:
            return Named(self._colours[text], "listed", 1.0)
        core = han_core(text, self._lists.colour_before, self._lists.colour_after)
        if core in self._colours:
            return Named(self._colours[core], "listed", 0.95)
        # One character alone is a colour's only before 色: 明白 is no white.
        found = self._colours.get(core[-1]) if "色" in text[len(core) - 1 :] else None
        found = han_head(core, self._colours) or found
        return Named(found, "compound", 0.9) if found is not None else None

    def _latin_kind(self, text: str) -> Named | None:
        tokens = text.split()
        for start in range(len(tokens)):
            before = " ".join(tokens[start:-1])
            for last in singulars(tokens[-1], self._lists.irregular):
                name = self._kind_index.exact(f"{before} {last}".strip())
                if name is not None:
                    return Named(name, "listed", 1.0) if start == 0 else Named(name, "compound", 0.9)
        loose = next(filter(None, map(self._kind_index.loose, singulars(text, self._lists.irregular))), None)
        return Named(loose, "listed", 0.8) if loose is not None else None

    def _han_kind(self, text: str) -> Named | None:
        if text in self._kinds:
            return Named(self._kinds[text], "listed", 1.0)
        core = han_core(text, self._lists.kind_before)
        if core in self._kinds:
            return Named(self._kinds[core], "listed", 0.95)
        found = han_head(core, self._kinds)
        return Named(found, "compound", 0.9) if found is not None else None

    def _by_nearest(self, what: Literal["colour", "kind"], text: str) -> Named:
        # MiniLM's vocabulary is English: what is written otherwise reaches it as [UNK], and would get any name.
        if not self._config.nearest or not text.isascii() or not any(c.isalpha() for c in text):
            return UNKNOWN
        if what not in self._nearest:
            self._nearest[what] = self._prompts(what)
        found = self._nearest[what].name(text)
        return Named(found[0], "nearest", found[1]) if found is not None else UNKNOWN

    def _prompts(self, what: Literal["colour", "kind"]) -> NearestPrompt:
        colours, kinds = _latin(self._colours), _latin(self._kinds)
        if what == "kind":
            prompts, others, config = kinds, colours, self._config.kind
        else:
            table, _ = self._colour_table()
            survey_half = {name: str(table[name].name) for name in table if name in survey() and for_fitting(name)}
            prompts, others, config = {**survey_half, **colours}, kinds, self._config.colour
        background = [word for word in (*self._lists.background, *others) if word not in prompts]
        return NearestPrompt(self._encoder, config, prompts, background)


def _latin(words: Mapping[str, str]) -> dict[str, str]:
    return {word: name for word, name in words.items() if word.isascii()}


def _named_table(rgb: Mapping[str, Rgb]) -> dict[str, Named]:
    rule, table = fitted_rule(), {}
    for name, value in rgb.items():
        told = told_colour(name) if name in survey() else told_by_css(name)
        colour, share = rule.name(value)
        table[name] = Named(told, "compound", 0.95) if told is not None else Named(colour, "table", share)
    return table


@cache
def _shipped() -> Words:
    return Words()


def canonical_colour(word: str) -> Named:
    """The canonical colour that a word names by the shipped vocabulary; see `Words.colour`."""
    return _shipped().colour(word)


def canonical_kind(word: str) -> Named:
    """The canonical kind that a word names by the shipped vocabulary; see `Words.kind`."""
    return _shipped().kind(word)
