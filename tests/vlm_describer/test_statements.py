"""Statements of descriptions and of raw captions, held against labels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from embodied.labels import EntityLabel, FrameLabel
from embodied.types import BaseFrame, DescribedObject, Fact, Predicate, SceneDescription
from vlm_describer.captions import caption_of
from vlm_describer.describer import make_description
from vlm_describer.statements import Tally, Told, repeated, shares, told_by, told_by_sentence

BASE = BaseFrame((1.0, 0.0, 0.0), 0.5)


def entity(ident: str, x: float, kind: str = "block", colour: str = "red", **more: object) -> EntityLabel:
    """A thing x metres before frame B's origin, 100 x pixels from the left."""
    place = tuple(float(v) for v in BASE.to_world([x, 0.0, 0.02]))
    column = int(100 * x)
    values: dict = {
        "id": ident, "role": "object", "kind": kind, "colour": colour, "center_b_m": (x, 0.0, 0.02),
        "half_extents_m": (0.02, 0.02, 0.02), "position_m": place, "quaternion": (1.0, 0.0, 0.0, 0.0),
        "box_px": (column, 10, column + 10, 20), "pixels": 100, "visible_share": 1.0, "cut": False,
    }  # fmt: skip
    return EntityLabel(**{**values, **more})


def label(*entities: EntityLabel, facts: tuple[Predicate, ...] = (), scene: str = "table") -> FrameLabel:
    return FrameLabel(scene, entities, facts, BASE, 0.4, "none", 0, "fit", 0, 0)


ROW = label(
    entity("a", 0.2, "ball", "blue"), entity("t", 0.5, "tray", "white", role="zone"), entity("b", 0.8, colour="green"),
    facts=(Predicate("in", ("a", "t")), Predicate("in_front_of", ("a", "b")), Predicate("behind", ("b", "a"))),
)  # fmt: skip


def seen(ident: str, x: float, kind: str = "block", colour: str = "red") -> DescribedObject:
    place = tuple(float(v) for v in BASE.to_world([x, 0.005, 0.02]))
    return DescribedObject(ident, "object", kind, colour, place, (0.02, 0.02, 0.02), 0.9)  # type: ignore[arg-type]


def said(objects: Sequence[DescribedObject], *facts: tuple[str, ...]) -> SceneDescription:
    told = [Fact(Predicate(name, args), 0.9, "locate") for name, *rest in facts for args in (tuple(rest),)]
    return make_description(objects, told, base=BASE)


THINGS = (seen("0", 0.2, "ball", "blue"), seen("1", 0.5, "tray", "white"), seen("2", 0.8, "block", "green"))


def wrong(told: Told) -> list[str]:
    return [statement.text for statement in told.false]


def test_a_true_description_contradicts_nothing_and_names_everything() -> None:
    told = told_by(said(THINGS, ("scene", "table"), ("in", "0", "1"), ("behind", "2", "0")), ROW)
    assert [statement.true for statement in told.statements] == [True] * 6
    assert (told.visible, told.missed, told.repeated) == (3, (), ())


def test_each_false_statement_counts() -> None:
    assert wrong(told_by(said((replace(THINGS[0], colour="red"), *THINGS[1:])), ROW)) == ["red ball"]
    assert wrong(told_by(said((*THINGS, seen("3", 0.35))), ROW)) == ["red block"]
    facts = ("scene", "maze"), ("in", "2", "1"), ("behind", "0", "2")
    assert wrong(told_by(said(THINGS, *facts), ROW)) == [
        "scene(maze)", "in(green block, white tray)", "behind(blue ball, green block)",
    ]  # fmt: skip


def test_what_is_not_claimed_is_not_wrong_and_not_mentioned() -> None:
    told = told_by(said((replace(THINGS[0], kind="thing"), replace(THINGS[2], colour="unknown"))), ROW)
    assert not told.false
    assert set(told.missed) == {"blue ball", "white tray", "green block"}


def test_a_fact_about_nothing_is_false_but_no_fact_about_things() -> None:
    tally = Tally()
    tally.add(told_by(said((*THINGS, seen("3", 0.35)), ("near", "3", "0"), ("behind", "2", "0")), ROW))
    assert (tally.said, tally.false) == (
        {"all": 6, "things": 4, "facts": 1, "caption": 4},
        {"all": 2, "things": 1, "caption": 1},
    )


def test_what_a_label_cannot_say_is_not_judged() -> None:
    pillars = label(entity("p", 0.2, "pillar", role="landmark"), entity("q", 1.9, "pillar", role="landmark"))
    pillars = replace(pillars, scene_kind="maze", facts=(Predicate("at", ("p",)),))
    things = seen("0", 0.2, "pillar"), seen("1", 1.9, "pillar"), seen("2", 4.0, "wall", "grey")
    facts = ("left_of", "0", "1"), ("at", "0"), ("left_of", "2", "0")
    told = told_by(said(things, *facts), pillars)
    assert [statement.true for statement in told.statements] == [True, True, None, None, None, None]
    with_robot = told_by(said(things, ("at", "0"), ("at", "1")), replace(pillars, robot="point"))
    assert [statement.true for statement in with_robot.statements[3:]] == [True, False]
    ball = (seen("3", 3.0, "ball", "pink"),)
    assert wrong(told_by(said(ball), replace(pillars, robot="point", robot_pixels=0))) == ["pink ball"]
    assert not told_by(said(ball), replace(pillars, robot="point", robot_pixels=9)).false
    on_a_table = told_by(said(things[2:]), ROW)
    assert wrong(on_a_table) == ["grey wall"]


def test_whoever_knows_the_labels_ids_is_paired_by_them() -> None:
    hidden = label(entity("a", 0.2, pixels=0, visible_share=0.0, box_px=None))
    described = said((seen("a", 0.2),))
    assert wrong(told_by(described, hidden)) == ["red block"]
    assert not told_by(described, hidden, {"a": hidden.entities[0]}).false
    with pytest.raises(ValueError, match="camera's frame"):
        told_by(replace(described, frame="camera"), hidden)


TOWER = label(
    entity("a", 0.8, colour="orange"), entity("b", 0.2, "ball", "blue"), entity("c", 0.9, colour="green"),
    entity("t", 0.5, "tray", "white", role="zone"), facts=(Predicate("on", ("a", "c")), Predicate("in", ("b", "t"))),
)  # fmt: skip


def test_a_true_sentence_contradicts_nothing() -> None:
    told = told_by_sentence(caption_of(TOWER).text, TOWER)
    assert [statement.true for statement in told.statements] == [True] * 7
    assert (told.visible, told.missed, told.repeated) == (4, (), ())


@pytest.mark.parametrize(
    ("sentence", "false", "missed"),
    [
        ("a maze with an orange block", ["scene(maze)"], 3),
        ("a table with a blue ball, a blue ball", ["blue ball"], 3),
        ("a table with a blue ball on a white tray", ["on(blue ball, white tray)"], 3),
        ("a table with a red block and a white tray", ["red block"], 3),
        ("nonsense", ["scene(nonsense)"], 4),
    ],
)
def test_each_false_statement_of_a_sentence_counts(sentence: str, false: list[str], missed: int) -> None:
    told = told_by_sentence(sentence, TOWER)
    assert (wrong(told), len(told.missed)) == (false, missed)


def test_what_is_hardly_visible_need_not_be_told_and_may_be() -> None:
    hidden = label(entity("a", 0.2), entity("b", 0.4, colour="blue", visible_share=0.1))
    assert not told_by_sentence("a table with a red block", hidden).missed
    assert not told_by_sentence("a table with a blue block", hidden).false


def test_repeated_phrases() -> None:
    twins = label(entity("a", 0.2), entity("b", 0.4))
    assert repeated("a table with a red block and a red block", twins) == ()
    assert repeated("a table with a red block, a red block and a red block", twins) == ("red block",)
    assert repeated("a table with a red block and a red block", label(entity("a", 0.2))) == ("red block",)
    assert repeated("a table with a red red block", twins) == ("red red block",)
    assert repeated("There are a red block (item0) and a red block (item1), and fixed in place a white tray; "
                    "the red block (item0) is in the white tray.", twins) == ()  # fmt: skip


def test_shares_of_sums() -> None:
    one, two = Tally(), Tally()
    one.add(told_by_sentence("a maze with an orange block", TOWER))
    two.add(told_by_sentence(caption_of(TOWER).text, TOWER))
    whole = {key: value + two.counts()[key] for key, value in one.counts().items()}
    found = shares(whole)
    assert found["contradicted"] == pytest.approx(1 / 9)
    assert found["mentioned"] == pytest.approx(5 / 8)
    assert (whole["frames"], found["repeated"]) == (2, 0.0)
