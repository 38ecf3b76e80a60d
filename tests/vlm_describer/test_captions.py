"""Captions say what labels say, and come back as the same statements."""

from __future__ import annotations

from dataclasses import replace

from embodied.labels import EntityLabel, FrameLabel
from embodied.types import BaseFrame, Predicate
from vlm_describer.captions import Caption, Mention, caption_of, parse_caption


def entity(ident: str, column: int, kind: str = "block", colour: str = "red", **more: object) -> EntityLabel:
    values: dict = {
        "id": ident, "role": "object", "kind": kind, "colour": colour, "center_b_m": (0.0, 0.0, 0.0),
        "half_extents_m": (0.02, 0.02, 0.02), "position_m": (0.0, 0.0, 0.0), "quaternion": (1.0, 0.0, 0.0, 0.0),
        "box_px": (column, 10, column + 10, 20), "pixels": 100, "visible_share": 1.0, "cut": False,
    }  # fmt: skip
    return EntityLabel(**{**values, **more})


def label(*entities: EntityLabel, facts: tuple[Predicate, ...] = ()) -> FrameLabel:
    return FrameLabel("table", entities, facts, BaseFrame(), 0.4, "none", 0, "fit", 0, 0)


TOWER = label(
    entity("a", 80, colour="orange"),
    entity("b", 20, kind="ball", colour="blue"),
    entity("c", 82, colour="green"),
    entity("t", 50, kind="tray", colour="white", role="zone"),
    facts=(Predicate("on", ("a", "c")), Predicate("in", ("b", "t")), Predicate("left_of", ("b", "a"))),
)


def test_things_are_told_from_left_to_right_with_what_carries_them() -> None:
    assert caption_of(TOWER).text == (
        "a table with a blue ball in a white tray, a white tray, an orange block on a green block and a green block"
    )
    assert caption_of(label()).text == "a table with nothing"


def test_a_caption_comes_back_as_what_it_states() -> None:
    for each in (TOWER, label(), label(entity("a", 5))):
        told = caption_of(each)
        assert parse_caption(told.text) == told
    assert parse_caption("A maze with A red pillar.") == Caption("maze", (Mention("red pillar"),))
    assert parse_caption("gibberish") == Caption("gibberish", ())
    assert parse_caption("") == Caption("", ())


def test_words_bring_their_probabilities() -> None:
    text = "a table with a red block on a red tray, a red block and a ball"
    chances = [1, 0.9, 1, 1, 0.8, 0.7, 1, 1, 0.6, 0.5, 1, 0.4, 0.3, 1, 1, 0.2]
    caption = parse_caption(text, chances)
    assert caption.scene_chance == 0.9
    assert [(m.colour_chance, m.kind_chance) for m in caption.mentions] == [(0.8, 0.7), (0.4, 0.3), (1.0, 0.2)]
    assert parse_caption(text, chances[:3]) == parse_caption(text)


def test_what_is_hardly_visible_is_not_told() -> None:
    hidden = label(entity("a", 5), entity("b", 9, colour="blue", visible_share=0.1), entity("w", 0, kind="wall"))
    assert caption_of(hidden).text == "a table with a red block"
    pillar = entity("p", 9, kind="pillar", role="landmark")
    assert caption_of(label(pillar)).text == "a table with nothing"
    assert caption_of(replace(label(pillar), scene_kind="maze")).text == "a maze with a red pillar"
