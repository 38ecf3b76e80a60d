"""The embedded planner's parts without its weights: tokens, grammar, taught sentences, decoding, programs."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from typing import cast

import numpy as np
import pytest

from embodied.planning.checks import check_steps
from embodied.planning.embedded import by_sentences
from embodied.planning.parser.decode import Parse, decode
from embodied.planning.parser.execute import execute
from embodied.planning.parser.grammar import ALLOWED, ARCS, LABELS
from embodied.planning.parser.known_names import KnownNames
from embodied.planning.parser.model import Parser, Read
from embodied.planning.parser.program import build
from embodied.planning.parser.tokens import Spelling, plain, tokenize
from embodied.planning.teaching.markup import expand
from embodied.planning.teaching.scenes import draw_scene, things_of
from embodied.planning.teaching.sentences import Taught, Teacher
from embodied.planning.teaching.wordings import lexicon
from embodied.planning.words import Refused
from embodied.types import DescribedObject, PlanStep, SceneDescription


def drawn(seed: int, count: int, held_out: bool = False) -> list[tuple[SceneDescription, Taught]]:
    rng = random.Random(seed)
    teacher = Teacher(rng, held_out)
    found: list[tuple[SceneDescription, Taught]] = []
    while len(found) < count:
        scene = draw_scene(rng)
        sentence = teacher.sentence(things_of(scene), rng.choice(["en", "zh"]))
        if sentence is not None:
            found.append((scene, sentence))
    return found


def parsed(text: str) -> Read:
    """`put/v_put.man>in red/col.theme>in in/r_in.root`: a text with its parse; > names the head's word."""
    items = text.split()
    words = tuple(item.split("/")[0] for item in items)
    labels, arcs, heads = [], [], []
    for item in items:
        mark = item.split("/")[1] if "/" in item else ""
        label, _, rest = mark.partition(".")
        arc, _, head = rest.partition(">")
        labels.append(label or "nil")
        arcs.append(arc)
        heads.append(words.index(head) if head else -1)
    parse = Parse(tuple(labels), tuple(arcs), tuple(heads), (0.0,) * len(words))
    return Read(tuple(tokenize(" ".join(words), ())), words, parse, "instruction", 1.0)


def done(text: str, scene: SceneDescription) -> str:
    try:
        steps = execute(build(parsed(text)), scene, KnownNames())
    except Refused as refusal:
        return refusal.failure.reason
    failure = check_steps(steps, scene)
    return failure.reason if failure else "; ".join(" ".join((step.skill, *step.args)) for step in steps)


def test_texts_are_cut_into_words_and_known_chinese_words() -> None:
    assert [t.text for t in tokenize(plain("Don't touch it's left-most, obj_3!"), (), {"obj_3"})] == [
        "don't", "touch", "it", "'s", "left", "most", ",", "obj_3", "!",
    ]  # fmt: skip
    assert [t.text for t in tokenize(plain("把红色方块放下。"), {"红色", "方块"})] == [
        "把",
        "红色",
        "方块",
        "放",
        "下",
        ".",
    ]


def test_a_slip_of_spelling_is_put_right_only_where_one_word_is_near() -> None:
    right = Spelling({"block", "black", "tray", "green"}, {"bell"}).right
    assert [right(word) for word in ("blokc", "gren", "bell", "tryay", "zzzzz", "blck")] == [
        "block", "green", "bell", "tray", "zzzzz", "blck",
    ]  # fmt: skip


def test_a_wording_is_one_of_its_choices_and_brackets_must_match() -> None:
    rng = random.Random(0)
    assert {" ".join(expand("a (b|c (d|e)|) f", rng)) for _ in range(80)} == {"a b f", "a c d f", "a c e f", "a f"}
    with pytest.raises(ValueError, match="bracket"):
        expand("a (b|c", rng)


def test_what_is_taught_keeps_to_the_grammar() -> None:
    for _, sentence in drawn(3, 300):
        for label, arc, head in zip(sentence.labels, sentence.arcs, sentence.heads, strict=True):
            if label != "nil":
                assert (label, arc, "root" if head < 0 else sentence.labels[head]) in ALLOWED, sentence.text


def test_sentences_with_templates_kept_from_the_fit_differ_and_are_repeatable() -> None:
    once, again, taught = ([s.text for _, s in drawn(1, 20, held_out=h)] for h in (True, True, False))
    assert once == again
    assert not set(once) & set(taught)


def test_scores_of_any_kind_decode_to_what_the_grammar_allows_without_rings() -> None:
    rng = np.random.default_rng(0)
    for _ in range(30):
        count = int(rng.integers(1, 12))
        logs = [np.log(rng.dirichlet(np.ones(n) * 0.1, size=shape) + 1e-30) for n, shape in (
            (len(LABELS), (count,)), (count + 1, (count,)), (len(ARCS), (count, count + 1)),
        )]  # fmt: skip
        parse = decode(*logs)
        for i, label in enumerate(parse.labels):
            above, seen = i, set()
            while above >= 0 and label != "nil":
                assert above not in seen
                seen.add(above)
                above = parse.heads[above]


PUT = "put/v_put.man>in red/col.theme>in in/r_in.root white/col.ground>in"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (PUT, "place red_block left_tray"),
        ("touch/v_touch.root block/n.theme>touch", "ambiguous"),
        ("touch/v_touch.root banana/n.theme>touch", "unknown_object"),
        ("touch/v_touch.root all/all.attr>blocks blocks/ns.theme>touch",
         "touch red_block; touch green_block; touch blue_block"),
        ("blue/col.theme>on on/r_on.root green/col.ground>on and green/col.theme>on", "impossible"),
        ("tower/v_tower.root red/col.theme>tower green/col.theme>tower top/d_down.mark>tower",
         "stack red_block green_block"),
        ("touch/v_touch.root green/col.theme>touch first/o_first.mark>tap tap/v_touch.root red/col.theme>tap",
         "touch red_block; touch green_block"),
        ("before/o_before.mark>touch touch/v_touch.sub>tap green/col.theme>touch tap/v_touch.root red/col.theme>tap",
         "touch red_block; touch green_block"),
        ("if/c_if.guard>touch white/col.theme>empty empty/p_empty.cond>if touch/v_touch.root red/col.theme>touch",
         "touch red_block"),
        ("unless/c_unless.guard>touch white/col.theme>empty empty/p_empty.cond>unless touch/v_touch.root"
         " red/col.theme>touch",
         "hold"),
        ("put/v_put.root red/col.theme>put", "unparsable"),
        ("put/v_put.man>in a/any.attr>block block/n.theme>in in/r_in.root each/all.attr>tray tray/n.ground>in",
         "place red_block left_tray; place green_block right_tray"),
        ("touch/v_touch.root red/col.theme>touch or blue/col.theme>touch", "touch red_block"),
        ("paint/v_other.root red/col.theme>paint", "impossible"),
        ("only/v_only.root green/col.theme>only put/v_put.man>in it/pron.theme>in in/r_in.root white/col.ground>in",
         "place green_block left_tray"),
        ("put/v_put.man>in the/nil others/other.theme>in in/r_in.root black/col.ground>in after/o_after.mark>after2"
         " red/col.theme>after2 after2/r_in.sub>in white/col.ground>after2",
         "place red_block left_tray; place green_block right_tray; place blue_block right_tray"),
        ("if/c_if.guard>touch red/col.theme>nearer nearer/p_nearer.cond>if white/col.ground>nearer"
         " green/col.source>nearer touch/v_touch.root blue/col.theme>touch", "touch blue_block"),
        ("if/c_if.guard>touch red/col.theme>farther farther/p_farther.cond>if white/col.ground>farther"
         " green/col.source>farther touch/v_touch.root blue/col.theme>touch", "hold"),
        ("put/v_put.root red/col.theme>put left/s_left.ground>put", "place red_block left_tray"),
    ],
)  # fmt: skip
def test_programs_on_blocks(blocks: SceneDescription, text: str, expected: str) -> None:
    assert done(text, blocks) == expected


def test_what_lies_on_a_thing_is_put_aside_first_and_forbidden_things_stay(blocks: SceneDescription) -> None:
    from embodied.types import Fact, Predicate

    covered = replace(blocks, facts=(Fact(Predicate("on", ("blue_block", "red_block")), 1.0, "oracle"),))
    assert done(PUT, covered) == "place blue_block table; place red_block left_tray"
    kept = "not/neg.mark>touch touch/v_touch.root blue/col.theme>touch"
    assert done(f"{kept} {PUT}", covered) == "contradictory"
    assert done(f"{kept} {PUT}", blocks) == "place red_block left_tray"


def test_only_one_thing_may_move_and_none_of_a_kind_may_be_touched(blocks: SceneDescription) -> None:
    only = "only/v_only.root green/col.theme>only"
    steps = carried_out(parsed(f"{only} touch/v_touch.root it/pron.theme>touch"), blocks)
    assert steps == (PlanStep("touch", ("green_block",), avoid=("red_block", "blue_block")),)
    never = "never/neg.mark>hit hit/v_touch.root any/any.attr>block block/n.theme>hit hold/v_hold.root"
    held = carried_out(parsed(never), blocks)
    assert held == (PlanStep("hold", (), avoid=("red_block", "green_block", "blue_block")),)


def test_two_alike_go_together_whichever_is_which(desk: SceneDescription) -> None:
    on = "orange/col.theme>on on/r_on.root a/nil orange2/col.ground>on"
    read = parsed(on)
    read = replace(read, words=tuple("orange" if word == "orange2" else word for word in read.words))
    steps = carried_out(read, desk)
    assert not isinstance(steps, str)
    assert [step.skill for step in steps] == ["stack"]
    assert set(steps[0].args) == {"obj0", "obj2"}


def test_nouns_tell_flat_things_from_upright_ones_and_nothing_stays_on_a_ball(
    make_thing: Callable[..., DescribedObject], make_scene: Callable[..., SceneDescription]
) -> None:
    scene = make_scene(
        make_thing("table", "landmark", "table", "brown", (1.3, 0.75, 0.2), (0.25, 0.35, 0.2)),
        make_thing("a", "object", "cylinder", "red", (1.2, 0.7, 0.43), (0.022, 0.022, 0.03)),
        make_thing("b", "object", "cylinder", "red", (1.3, 0.7, 0.41), (0.025, 0.025, 0.01)),
        make_thing("c", "object", "ball", "white", (1.4, 0.7, 0.425), (0.025, 0.025, 0.025)),
        make_thing("d", "object", "block", "red", (1.3, 0.9, 0.42), (0.02, 0.045, 0.02)),
        make_thing("e", "object", "block", "red", (1.3, 0.6, 0.42), (0.02, 0.02, 0.02)),
    )
    for noun, ident in (("tin", "a"), ("puck", "b"), ("bar", "d"), ("cube", "e")):
        assert done(f"touch/v_touch.root {noun}/n.theme>touch", scene) == f"touch {ident}"
    assert done("touch/v_touch.root round/adj.attr>thing thing/n.theme>touch", scene) == "ambiguous"
    assert done("tin/n.theme>on on/r_on.root white/col.ground>on", scene) == "impossible"


def test_sentences_read_apart_are_joined_and_what_asks_for_nothing_falls_silent() -> None:
    class Reader:
        def read(self, text: str, ids: object) -> Read:
            del ids
            if "touch" in text:
                return parsed("touch/v_touch.root red/col.theme>touch")
            return replace(
                parsed("my/v_pick.root knees/n.theme>my hurt"), kind="statement" if "hurt" in text else "question"
            )

    read = by_sentences(cast(Parser, Reader()), "My knees hurt. touch red!", set())
    assert read is not None
    assert read.words == ("my", "knees", "hurt", "touch", "red")
    assert (read.parse.labels[0], read.parse.labels[3], read.parse.heads[4]) == ("nil", "v_touch", 3)
    assert by_sentences(cast(Parser, Reader()), "touch red", set()) is None
    assert by_sentences(cast(Parser, Reader()), "Is it red? touch red!", set()) is None


def test_noise_keeps_what_counts_and_hides_words_now_and_then() -> None:
    hidden = [s for _, s in drawn(5, 400) if "unk" in s.labels]
    assert 1 <= len(hidden) <= 40
    for sentence in hidden:
        strange = sentence.tokens[sentence.labels.index("unk")].text
        assert strange not in lexicon()


def test_words_without_vowels_mean_the_only_word_that_has_these_consonants() -> None:
    right = Spelling({"green", "grain", "block", "blue", "put"}, (), {"green", "block", "blue"}).right
    assert [right(word) for word in ("grn", "blck", "bl", "pt")] == ["green", "block", "blue", "pt"]


def random_logs(rng: np.random.Generator, count: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Logarithms of probabilities of labels, heads and arcs, as a network that knows nothing would give them."""
    shapes = ((len(LABELS), (count,), 0.05), (count + 1, (count,), 0.3), (len(ARCS), (count, count + 1), 1.0))
    labels, heads, arcs = (np.log(rng.dirichlet(np.full(n, sharp), shape) + 1e-12) for n, shape, sharp in shapes)
    labels[:, 0] -= 4
    return labels, heads, arcs


def carried_out(read: Read, scene: SceneDescription) -> tuple[PlanStep, ...] | str:
    """Steps, or the refusal's message."""
    try:
        return execute(build(read), scene, KnownNames())
    except Refused as refusal:
        return refusal.failure.message


def test_any_parse_is_carried_out_validly_or_refused_in_one_line(scenes: dict[str, SceneDescription]) -> None:
    words = (
        "put", "red", "blue", "green", "white", "block", "blocks", "tray", "tower", "it", "them", "all", "left", "if",
        "not", "first", "banana", ".", "start", "obj1",
    )  # fmt: skip
    rng = np.random.default_rng(0)
    planned = 0
    for place in range(450):
        said = tuple(str(word) for word in rng.choice(words, int(rng.integers(1, 12))))
        parse = decode(*random_logs(rng, len(said)))
        read = Read(tuple(tokenize(" ".join(said), ())), said, parse, "instruction", 1.0)
        scene = list(scenes.values())[place % 3]
        told = carried_out(read, scene)
        if isinstance(told, str):
            assert told.isascii()
            assert "\n" not in told
        else:
            planned += check_steps(told, scene) is None
    assert planned
