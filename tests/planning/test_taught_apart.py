"""What is taught shares little with what the planner is judged by, and no word with the word tests."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterable
from pathlib import Path

from embodied.planning.teaching.scenes import draw_scene, things_of
from embodied.planning.teaching.sentences import Teacher
from embodied.planning.teaching.wordings import LANGUAGES, wordings

DATA = Path(__file__).parents[1] / "data"
HAN = re.compile(r"[\u3400-\u9fff]")
MOST_SHARED = 0.06
"""Of the five-grams of the judged lines, the share that some taught sentence holds too."""


def grams(text: str) -> set[tuple[str, ...]]:
    """Five words in a row, of Chinese five characters."""
    parts = HAN.findall(text) if HAN.search(text) else re.findall(r"[a-z0-9']+", text.lower())
    return {tuple(parts[i : i + 5]) for i in range(len(parts) - 4)}


def taught(count: int) -> Iterable[str]:
    rng = random.Random(0)
    teacher = Teacher(rng, None)
    while count:
        made = teacher.sentence(things_of(draw_scene(rng)), rng.choice(LANGUAGES))
        if made is not None:
            count -= 1
            yield made.text


def test_taught_sentences_share_few_five_grams_with_the_judged_lines() -> None:
    lines = [json.loads(line) for line in (DATA / "instructions" / "held_out.jsonl").read_text("utf-8").splitlines()]
    judged = [found for line in lines if (found := grams(line["instruction"]))]
    known = {gram for text in taught(2000) for gram in grams(text)}
    shared = sum(len(found & known) for found in judged) / sum(map(len, judged))
    whole = sum(found <= known for found in judged)
    print(f"{shared:.4f} of the five-grams of {len(judged)} lines are taught; of {whole} lines all")
    assert shared <= MOST_SHARED
    assert whole <= 0.05 * len(judged)


def test_no_word_of_the_word_tests_is_taught_for_a_thing() -> None:
    fresh = json.loads((DATA / "words" / "fresh.json").read_text("utf-8"))
    kept = {word.lower() for name in ("colours", "kinds") for word, _ in fresh[name]} | {
        *map(str.lower, fresh["neither"])
    }
    for language in LANGUAGES:
        told = wordings(language)
        for group in (told.colours, told.kinds):
            drawn = {word.lower() for words in group.values() for word in words} - set(group)
            assert not drawn & kept, f"{len(drawn & kept)} words"
