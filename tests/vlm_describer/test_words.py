"""Words to canonical names, and the measure of it on words that no rule was fitted on."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from embodied.text_encoder import TextEncoder
from embodied.types import FloatArray
from vlm_describer import colour_table
from vlm_describer.nearest import NearestConfig, NearestPrompt
from vlm_describer.vocabulary import load_vocabulary
from vlm_describer.words import Words, WordsConfig
from vlm_describer.words_report import cosines, held_out, measure, told_names, unlisted_vocabulary

TABLES = Words(config=WordsConfig(nearest=False))


class Compass:
    """An encoder whose words are directions in a plane, in degrees; it keeps count of what it is asked."""

    def __init__(self, **degrees: float) -> None:
        self.degrees, self.asked = degrees, list[str]()

    def encode(self, texts: Sequence[str]) -> FloatArray:
        self.asked += texts
        angles = np.deg2rad([self.degrees.get(text.split()[-1], 180.0) for text in texts])
        return np.stack([np.cos(angles), np.sin(angles)], axis=1).astype(np.float32)

    def pieces(self, text: str) -> tuple[str, ...]:
        return tuple(text)


@pytest.mark.parametrize(
    ("word", "colour"),
    [
        ("Red", "red"), ("gray", "grey"), ("light blue", "blue"), ("navy-blue", "blue"), ("navyblue", "blue"),
        ("bluish green", "green"), ("teal-ish", "teal"), ("pale reddish", "red"), ("blue green", "teal"),
        ("dark crimson", "red"), ("very pale lilac", "purple"), ("a blue colour", "blue"), ("yelow", "yellow"),
        ("DarkSlateGray", "grey"), ("lightgoldenrodyellow", "yellow"), ("robin's egg blue", "blue"),
        ("tiffany_blue", "blue"), ("swamp", "green"), ("深蓝色", "blue"), ("亮红色的", "red"), ("青", "teal"),
        ("not red", None), ("anything but blue", None), ("red or blue", None), ("不是红色", None), ("明白", None),
        ("红和蓝", None), ("", None), ("???", None), ("red" * 50, None), ("cube", None), ("seven", None),
        ("pale", None), ("navy coloured", "blue"), ("colour", None),
    ],
)  # fmt: skip
def test_colours_by_lists_parts_and_table(word: str, colour: str | None) -> None:
    assert TABLES.colour(word).name == colour


@pytest.mark.parametrize(
    ("word", "kind"),
    [
        ("Block", "block"), ("boxes", "block"), ("dice", "block"), ("wooden cubes", "block"), ("tin cans", "cylinder"),
        ("bottle of water", "cylinder"), ("ping pong balls", "ball"), ("orbs", "ball"), ("saucers", "plate"),
        ("dishes", "plate"), ("hockey pucks", "disc"), ("lamp-post", "pillar"), ("Robot Arms", "robot"),
        ("kind of block", "block"), ("puckk", "disc"), ("benches", "table"), ("小方块", "block"),
        ("红色的方块", "block"), ("圆柱", "cylinder"), ("门", "door"), ("部门", None), ("no block", None),
        ("block and ball", None), ("elephant", None), ("red", None), ("", None),
    ],
)  # fmt: skip
def test_kinds_by_lists_and_parts(word: str, kind: str | None) -> None:
    assert TABLES.kind(word).name == kind


def test_how_and_how_surely_is_said() -> None:
    assert (TABLES.colour("red").how, TABLES.colour("red").confidence) == ("listed", 1.0)
    assert TABLES.colour("tiffany blue").how == "compound"
    table = TABLES.colour("swamp")
    assert table.how == "table"
    assert 0.5 < table.confidence < 1.0
    assert (TABLES.colour("seven").how, TABLES.colour("seven").confidence) == ("unknown", 0.0)


def test_the_vote_knows_the_references_and_is_unsure_between_colours() -> None:
    rule = colour_table.fitted_rule()
    assert rule.name((0.85, 0.10, 0.10)) == ("red", pytest.approx(1.0, abs=0.1))
    assert rule.name((0.95, 0.50, 0.05))[0] == "orange"
    assert rule.name((0.90, 0.30, 0.08))[1] < min(rule.name((1, 0, 0))[1], rule.name((0.95, 0.50, 0.05))[1])


def test_no_word_for_measuring_is_an_example_of_the_rule() -> None:
    examples = colour_table.examples()
    kept = held_out("colours")
    assert not [name for name in examples if any(word in name for word in kept)]
    assert not set(examples) & {*held_out("survey"), *told_names()}
    assert all(colour_table.for_fitting(name) for name in examples if not name.startswith("css "))
    assert all(not colour_table.for_fitting(name) for name in held_out("survey"))


def test_no_word_for_measuring_is_listed_where_words_are_measured() -> None:
    struck = unlisted_vocabulary()
    for group, measured in (("colours", "colours"), ("colours", "survey"), ("kinds", "kinds")):
        assert not set(struck.words(group)) & set(held_out(measured))
    assert len(struck.words("kinds")) > len(load_vocabulary().words("kinds")) - 60


def test_a_neighbour_must_be_clearly_nearer_than_the_background_and_not_alone() -> None:
    space = Compass(red=0, scarlet=10, blue=90, navy=95, music=45, near_red=4, between=42)
    meanings = {"red": "red", "scarlet": "red", "blue": "blue", "navy": "blue"}
    config = NearestConfig("{}", margin=0.05, agreeing=2, neighbours=3)
    prompts = NearestPrompt(space, config, meanings, ["music"])
    assert prompts.name("near_red") == ("red", pytest.approx(np.cos(np.deg2rad(4)), abs=1e-6))
    assert prompts.name("between") is None
    lone = NearestPrompt(space, config, {"red": "red", "blue": "blue", "navy": "blue"}, ["music"])
    assert lone.name("near_red") is None
    whole = NearestConfig("{}", agreeing=2, neighbours=3, whole_words=True)
    assert NearestPrompt(space, whole, meanings, []).name("near_red") is None


def test_the_encoder_is_asked_only_for_what_no_table_knows_and_can_be_english() -> None:
    space = Compass()
    words = Words(encoder=space)
    for word in ("red", "swamp", "navy blue", "not red", "琥珀", "", "42"):
        words.colour(word)
    words.kind("wooden cubes")
    assert space.asked == []
    assert words.kind("blorptan").name is None
    prompts = len(space.asked)
    words.kind("quxel")
    assert len(space.asked) == prompts + 1


def test_words_of_ones_own_vocabulary_are_understood(tmp_path: Path) -> None:
    mine = tmp_path / "mine.toml"
    mine.write_text('[colours.red]\nwords = ["Ferrari"]\n[kinds.cylinder]\nwords = ["widget"]\n', "utf-8")
    words = Words(load_vocabulary(mine), Compass())
    assert words.colour("ferrari").name == "red"
    assert words.kind("small widgets").name == "cylinder"


def test_all_that_is_kept_for_measuring_is_understood_when_it_is_listed() -> None:
    for group in ("colours", "kinds"):
        ask = TABLES.colour if group == "colours" else TABLES.kind
        assert {word: ask(word).name for word in held_out(group)} == held_out(group)


@pytest.fixture(scope="module")
def encoder() -> TextEncoder:
    return TextEncoder()


def test_measured_on_words_left_out(encoder: TextEncoder) -> None:
    rows = {(row.words_of, row.leg): row for row in measure(encoder)}
    for row in rows.values():
        nothing_meant = row.words_of.startswith("neither")
        if not row.words_of.startswith("no table"):
            assert row.right + row.wrong + (0 if nothing_meant else row.unknown) == pytest.approx(1)
    named = [rows["colour words", "both"], rows["names that do not", "both"]]
    assert sum(row.right * row.words for row in named) / sum(row.words for row in named) >= 0.85
    assert rows["names that say it", "vote of examples in CIELAB"].right >= 0.85
    assert rows["neither, as colour", "both"].wrong <= 0.05
    assert rows["neither, as kind", "both"].wrong <= 0.05
    assert rows["kind words", "both"].wrong <= 0.05
    for what in ("colour", "kind"):
        no_table = rows[f"no table knows, as {what}", "both"]
        assert no_table.words > rows[f"neither, as {what}", "both"].words
        assert no_table.wrong <= 0.05
    assert rows["colour words", "encoder, always answering"].right < rows["colour words", "tables"].right
    assert all(isinstance(value, str | int | float) for row in rows.values() for value in row.flat().values())


def test_what_the_encoder_cannot_tell_apart(encoder: TextEncoder) -> None:
    told = {what: cosine for what, _, _, cosine in cosines(encoder)}
    assert told["colours swapped"] == pytest.approx(0.997, abs=1e-3)
    assert told["left and right"] > 0.98
    assert told["on and under"] > 0.96
    assert told["open and closed"] == pytest.approx(0.919, abs=1e-3)
    assert told["(another scene)"] < 0.2
