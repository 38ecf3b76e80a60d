"""Words that somebody wrote down who had seen neither the tables nor the rules; nothing is ever fitted on them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from embodied.text_encoder import TextEncoder
from vlm_describer.words import Words

WORDS = json.loads((Path(__file__).parents[1] / "data" / "words" / "fresh.json").read_text("utf-8"))


@pytest.fixture(scope="module")
def words() -> Words:
    return Words(encoder=TextEncoder())


def test_colour_words_are_mostly_named_rightly_and_hardly_ever_wrongly(words: Words) -> None:
    said = [(words.colour(word).name, name) for word, name in WORDS["colours"]]
    right = sum(got == name for got, name in said)
    wrong = sum(got not in (None, "", name) for got, name in said)
    assert right >= 0.85 * len(said)
    assert wrong <= 0.05 * len(said)


def test_kind_words_are_mostly_named_rightly(words: Words) -> None:
    said = [(words.kind(word).name, name) for word, name in WORDS["kinds"]]
    assert sum(got == name for got, name in said) >= 0.85 * len(said)


def test_words_of_other_fields_name_nothing(words: Words) -> None:
    said = [word for word in WORDS["neither"] if words.colour(word).name or words.kind(word).name]
    assert len(said) <= 0.05 * len(WORDS["neither"]), said
