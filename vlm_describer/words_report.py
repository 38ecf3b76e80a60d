"""How well words are understood, on words that no rule was fitted on, and what a sentence encoder cannot tell apart.

Sets of words: names of the colour survey's measuring half that say their colour themselves (`forest green`); others of
that half, colour and kind words, which `data/words_held_out.toml` calls what people would call them; and words of that
file that are neither. Each is asked leg by leg; the words of all sets that the tables do not know once more together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from embodied.colours import colour_name
from vlm_describer.colour_table import css, fitted_rule, for_fitting, survey, told_colour
from vlm_describer.nearest import Encoder, NearestConfig
from vlm_describer.vocabulary import DATA, GROUPS, Entry, Vocabulary, load_vocabulary, read_toml
from vlm_describer.words import Named, Words, WordsConfig

SWAPS: tuple[tuple[str, str, str], ...] = (
    ("colours swapped", "a red cube and a blue ball", "a blue cube and a red ball"),
    ("left and right", "the red cube is left of the blue ball", "the blue ball is left of the red cube"),
    ("on and under", "the red cube is on the blue block", "the blue block is on the red cube"),
    ("open and closed", "the gripper is open", "the gripper is closed"),
    ("negated", "the red cube is on the table", "the red cube is not on the table"),
    ("counts", "two red cubes on the table", "three red cubes on the table"),
    ("(the same said twice)", "a red cube on a table", "a crimson block on the desk"),
    ("(another scene)", "a red cube on a table", "an ant in a maze"),
)
"""Sentences that mean different things, and for comparison two that mean the same and two of different scenes."""

ENCODED = ("encoder, always answering", "encoder", "both")
"""Legs that say something of words that are in no table."""
Ask = Callable[[str], Named]


@dataclass(frozen=True)
class Row:
    """One leg's answers to one set of words, as fractions of its `words`.

    A word that names nothing and stays unknown is right.
    """

    words_of: str
    leg: str
    words: int
    right: float
    wrong: float
    unknown: float
    mistakes: tuple[str, ...]
    """`word: answer`, in the set's order."""

    def flat(self) -> dict[str, Any]:
        """For a table of results: no lists."""
        return {
            "words_of": self.words_of, "leg": self.leg, "words": self.words, "right": round(self.right, 4),
            "wrong": round(self.wrong, 4), "unknown": round(self.unknown, 4), "mistakes": "; ".join(self.mistakes),
        }  # fmt: skip


def told_names(fitting: bool = False) -> dict[str, str]:
    """Names of the survey that say their colour themselves, to that colour: the measuring half, or the fitting half."""
    told = {name: colour for name in survey() if (colour := told_colour(name)) is not None}
    return {name: colour for name, colour in told.items() if for_fitting(name) == fitting}


def held_out(group: str) -> dict[str, str | None]:
    """Words of `data/words_held_out.toml` to what they name: of `colours`, `survey`, `kinds`, or `neither` (None)."""
    data = read_toml(DATA / "words_held_out.toml")[group]
    return {word: None if group == "neither" else name for name, words in data.items() for word in words}


def measure(encoder: Encoder | None = None) -> list[Row]:
    """Every set of words on every leg."""
    legs = _legs(encoder)
    rule = fitted_rule()
    by_rgb: dict[str, Ask] = {
        "nearest reference in CIELAB": lambda word: Named(colour_name(survey()[word]), "table", 1.0),
        "vote of examples in CIELAB": lambda word: Named(rule.name(survey()[word])[0], "table", 1.0),
    }
    rows = [_row("names that say it", leg, told_names(), ask) for leg, ask in by_rgb.items()]
    rows += [_row("names that say it", leg, told_names(), words.colour) for leg, words in legs.items()]
    rows += [_row("names that do not", leg, held_out("survey"), words.colour) for leg, words in legs.items()]
    rows += [_row("colour words", leg, held_out("colours"), words.colour) for leg, words in legs.items()]
    rows += [_row("kind words", leg, held_out("kinds"), words.kind) for leg, words in legs.items()]
    rows += [_row("neither, as colour", leg, held_out("neither"), words.colour) for leg, words in legs.items()]
    rows += [_row("neither, as kind", leg, held_out("neither"), words.kind) for leg, words in legs.items()]
    rows += [_row("no table knows, as colour", leg, unlisted(legs, "colour"), legs[leg].colour) for leg in ENCODED]
    rows += [_row("no table knows, as kind", leg, unlisted(legs, "kind"), legs[leg].kind) for leg in ENCODED]
    return rows


def unlisted(legs: Mapping[str, Words], what: str) -> dict[str, str | None]:
    """Words kept for measuring that name a colour (or a kind) or nothing, and that the tables alone do not know."""
    groups = ("colours", "survey", "neither") if what == "colour" else ("kinds", "neither")
    asked = {word: name for group in groups for word, name in held_out(group).items()}
    tables = legs["tables"]
    ask = tables.colour if what == "colour" else tables.kind
    return {word: name for word, name in asked.items() if ask(word).name is None}


def _legs(encoder: Encoder | None) -> dict[str, Words]:
    """Words understood by tables alone, by the encoder alone with and without its thresholds, and by both.

    No leg's vocabulary lists a word that it is asked, and alone the encoder has no prompt with one of them in it.
    """
    asked = {*held_out("colours"), *held_out("survey")}
    table = {
        name: rgb for name, rgb in {**css(), **survey()}.items() if name not in asked and asked.isdisjoint(name.split())
    }
    config = WordsConfig(tables=False)
    unsure = replace(config, colour=_always(config.colour), kind=_always(config.kind))
    struck = unlisted_vocabulary()
    return {
        "tables": Words(struck, config=WordsConfig(nearest=False)),
        "encoder, always answering": Words(struck, encoder, unsure, table),
        "encoder": Words(struck, encoder, config, table),
        "both": Words(struck, encoder),
    }


def _always(config: NearestConfig) -> NearestConfig:
    return replace(config, margin=-2.0, agreeing=1, whole_words=False)


def unlisted_vocabulary() -> Vocabulary:
    """The shipped vocabulary with every word struck from its lists that is kept for measuring."""
    asked = {*held_out("colours"), *held_out("survey"), *held_out("kinds")}
    shipped = load_vocabulary()

    def struck(entry: Entry) -> Entry:
        listed = (word for word in entry.words if word not in asked and asked.isdisjoint(word.split()))
        return replace(entry, words=tuple(listed))

    return Vocabulary(**{
        group: {name: struck(entry) for name, entry in shipped.group(group).items()} for group in GROUPS
    })  # fmt: skip


def _row(words_of: str, leg: str, truth: Mapping[str, str | None], ask: Ask) -> Row:
    said = {word: ask(word).name for word in truth}
    wrong = [word for word in truth if said[word] is not None and said[word] != truth[word]]
    right = [word for word in truth if said[word] == truth[word]]
    unknown = [word for word in truth if said[word] is None]
    count = len(truth)
    mistakes = tuple(f"{word}: {said[word]}" for word in wrong)
    return Row(words_of, leg, count, len(right) / count, len(wrong) / count, len(unknown) / count, mistakes)


def cosines(encoder: Encoder) -> list[tuple[str, str, str, float]]:
    """(what differs, sentence, other sentence, cosine) of every pair of `SWAPS`."""
    first, second = encoder.encode([a for _, a, _ in SWAPS]), encoder.encode([b for _, _, b in SWAPS])
    return [(*pair, float(a @ b)) for pair, a, b in zip(SWAPS, first, second, strict=True)]


def report(encoder: Encoder) -> str:
    """Both tables in Markdown, with the mistakes of the legs together."""
    rows = measure(encoder)
    lines = ["| words | leg | number | right | wrong | unknown |", "|---|---|---|---|---|---|"]
    lines += [
        f"| {row.words_of} | {row.leg} | {row.words} | {row.right:.3f} | {row.wrong:.3f} | {row.unknown:.3f} |"
        for row in rows
    ]
    lines += ["", *_mistakes(row for row in rows if row.leg == "both")]
    lines += ["", "| what differs | sentence | other sentence | cosine |", "|---|---|---|---|"]
    lines += [f"| {what} | {a} | {b} | {cosine:.3f} |" for what, a, b, cosine in cosines(encoder)]
    return "\n".join(lines)


def _mistakes(rows: Iterable[Row]) -> list[str]:
    return [f"Wrong of {row.words_of}: {', '.join(row.mistakes) or 'none'}." for row in rows]
