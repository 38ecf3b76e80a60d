"""The vocabulary: complete for the facts and kinds that there are, extended by adding lines, refused in one line."""

from __future__ import annotations

from pathlib import Path

import pytest

from embodied.colours import COLOURS
from embodied.errors import UserError
from embodied.facts import PREDICATES
from embodied.planning import lexicon
from vlm_describer.vocabulary import GROUPS, Vocabulary, entries, load_vocabulary

KINDS = ["block", "cylinder", "ball", "tray", "disc", "plate", "pillar", "wall", "door", "gripper", "robot"]


def written(folder: Path, text: str) -> Vocabulary:
    path = folder / "mine.toml"
    path.write_text(text, "utf-8")
    return load_vocabulary(path)


def test_it_has_every_canonical_colour_kind_and_predicate() -> None:
    vocabulary = load_vocabulary()
    assert tuple(vocabulary.colours) == COLOURS
    assert set(vocabulary.kinds) == {*KINDS, "table"}
    for name, (_, arity) in PREDICATES.items():
        assert name in (vocabulary.facts if arity == 1 else vocabulary.relations)


def test_every_wording_can_be_filled_and_none_both_says_and_denies() -> None:
    for group, entry in entries(load_vocabulary()):
        values = {name: "red" if name == "colour" else "block" for name in GROUPS[group].allowed}
        said, denied = entry.says(**values), entry.denies(**values)
        assert said, entry.name
        assert denied, entry.name
        assert not set(said) & set(denied)
        assert not any("{" in text for text in (*said, *denied))


def test_every_kind_has_a_dozen_english_words_and_some_chinese() -> None:
    for entry in load_vocabulary().kinds.values():
        assert sum(word.isascii() for word in entry.words) >= 12, entry.name
        assert sum(not word.isascii() for word in entry.words) >= 3, entry.name


def test_a_word_names_one_thing_of_its_group() -> None:
    vocabulary = load_vocabulary()
    for group in ("kinds", "colours", "sizes"):
        listed = [word for entry in vocabulary.group(group).values() for word in (entry.name, *entry.words)]
        assert len(listed) == len(set(listed))


def test_the_planner_understands_the_same_by_the_same_words() -> None:
    vocabulary = load_vocabulary()
    # sRGB (1, 0, 1) is a reference of pink, so what a scene shows in magenta is called pink.
    colours = {**lexicon.COLOURS, "magenta": "pink"}
    for words, group in ((colours, "colours"), (lexicon.KINDS, "kinds")):
        mine = vocabulary.words(group)
        assert {word: mine.get(word) for word in words} == words


def test_articles_and_missing_colours_are_put_right() -> None:
    vocabulary = load_vocabulary()
    assert "an orange block" in vocabulary.kinds["block"].says(colour="orange")
    assert "a red block" in vocabulary.kinds["block"].says(colour="red")
    assert "a block" in vocabulary.kinds["block"].says()
    assert "a large blue ball" in vocabulary.sizes["large"].says(colour="blue", kind="ball")


def test_a_wording_that_lacks_a_thing_is_an_error() -> None:
    with pytest.raises(UserError, match="'on'.*b is missing"):
        load_vocabulary().relations["on"].says(a="cube")


def test_a_predicate_is_added_by_adding_lines(tmp_path: Path) -> None:
    lines = [
        "[relations.leaning_on]",
        'positive = ["the {a} leans on the {b}"]',
        'negative = ["the {a} is off the {b}"]',
    ]
    vocabulary = written(tmp_path, "\n".join(lines))
    assert vocabulary.relations["leaning_on"].says(a="rod", b="wall") == ("the rod leans on the wall",)
    assert set(load_vocabulary().relations) == set(vocabulary.relations) - {"leaning_on"}


def test_ones_own_words_and_wordings_come_on_top_and_win(tmp_path: Path) -> None:
    vocabulary = written(tmp_path, '[kinds.ball]\nwords = ["Puck"]\n[scenes.table]\npositive = ["my bench"]\n')
    assert vocabulary.words("kinds")["puck"] == "ball"
    assert "puck" not in vocabulary.kinds["disc"].words
    assert vocabulary.words("kinds")["sphere"] == "ball"
    assert vocabulary.scenes["table"].says()[-1] == "my bench"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[relations.on\n", "is not TOML"),
        ("[shapes.on]\n", r"\[shapes\] is no group.*kinds"),
        ("kinds = 3\n", "'kinds' must be a group of entries"),
        ("[kinds]\nball = 3\n", r"\[kinds.ball\] must be an entry"),
        ("[kinds.Ball-1]\n", r"\[kinds.Ball-1\]: a canonical name"),
        ("[facts.wet]\npositive = ['the {a} is wet']\n", r"\[facts.wet\]: at least one negative"),
        ("[facts.wet]\npositive = 'the {a} is wet'\n", r"\[facts.wet\] positive must be a list"),
        ("[facts.wet]\npositive = ['']\n", r"\[facts.wet\] positive must be a list of texts that are not empty"),
        ("[facts.wet]\npositive = ['the {b} is wet']\n", r"\[facts.wet\].*\{b\} is unknown here; allowed: \{a\}"),
        ("[facts.wet]\npositive = ['it is wet']\n", r"\[facts.wet\].*\{a\} is missing"),
        ("[facts.wet]\npositive = ['the {a']\n", r"\[facts.wet\] positive"),
        ("[facts.wet]\npositive = ['the {a!r}']\n", "without formats"),
        ("[facts.wet]\nwords = ['moist']\n", "'words' is unknown; valid: positive, negative"),
        ("[scenes.shed]\npositive = ['a {kind}']\n", r"\{kind\} is unknown here; allowed: none"),
        ("[kinds.ball]\nwords = ['x']\n[kinds.disc]\nwords = ['x']\n", "'x' is a word of both"),
    ],
)
def test_mistakes_name_file_and_entry_in_one_line(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(UserError, match=message) as raised:
        written(tmp_path, text)
    assert "mine.toml" in str(raised.value)
    assert "\n" not in str(raised.value)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="none.toml' cannot be read"):
        load_vocabulary(tmp_path / "none.toml")
