"""The describer that captions crops: words with their probabilities, and a sentence that is put together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from embodied.colours import COLOURS, colour_name
from embodied.errors import UserError
from embodied.types import Frame
from robots.still import StillScene
from vlm_describer import sim_blip
from vlm_describer.blip import CaptionLooker, load_blip_looker
from vlm_describer.blip_crops import CropLooker, composed, first_chances, kind_chances
from vlm_describer.blip_model import Sentence
from vlm_describer.calibration import CALIBRATION, Calibration
from vlm_describer.examples import KINDS, SCENES
from vlm_describer.locate import locate
from vlm_describer.located import Located
from vlm_describer.relations import geometric_kind
from vlm_describer.seeing import SeeingDescriber
from vlm_describer.sim_blip import WORDS


def choices(*steps: dict[str, float]) -> NDArray[np.float32]:
    found = np.zeros((len(steps), len(WORDS)), dtype=np.float32)
    for row, step in zip(found, steps, strict=True):
        for word, chance in step.items():
            row[WORDS.index(word)] = chance
    return found


class Says:
    """Says something of each crop, and a scene of the last picture."""

    identity = "says"

    def __init__(self, things: Sequence[str], scene: str = "table") -> None:
        self.told = [*things, scene]
        self.shapes: list[tuple[int, ...]] = []

    def captions(
        self, pictures: Sequence[NDArray[np.uint8]], prompt: str = "", max_tokens: int = 60, words: Sequence[str] = ()
    ) -> list[Sentence]:
        assert tuple(words) == WORDS
        self.shapes = [picture.shape for picture in pictures]
        return [
            Sentence(text, 0.9, (0.9,) * len(text.split()), choices(*({word: 0.9} for word in text.split()), {}))
            for text in self.told
        ]


@pytest.fixture(scope="module")
def look() -> Iterator[tuple[StillScene, Frame, Located]]:
    scene = StillScene("tabletop_blocks")
    frame = scene.render("front", 320, 240, depth=True)
    yield scene, frame, locate(frame, scene.frame)
    scene.close()


def truths(located: Located) -> list[str]:
    """What geometry and the nearest colour call the things of this scene, rightly."""
    return [f"{colour_name(item.colour)} {geometric_kind(item)[0]}" for item in located.items]


def test_each_thing_has_the_words_of_its_crop(look: tuple[StillScene, Frame, Located]) -> None:
    scene, frame, located = look
    says = Says(truths(located))
    found = SeeingDescriber("blip", CropLooker(says), Calibration(), scene.frame).describe((frame,))
    assert says.shapes == [(64, 64, 3)] * (len(located.items) + 1)
    for entity in scene.scene_state().entities:
        if entity.role not in ("object", "zone"):
            continue
        (thing,) = [o for o in found.objects if o.phrase == f"{entity.colour} {entity.kind}"]
        np.testing.assert_allclose(thing.position_m, entity.position_m, atol=0.015)
    (fact,) = [fact for fact in found.facts if fact.source == "blip"]
    assert str(fact.predicate) == "scene(table)"


def test_nothing_and_robots_are_no_things(look: tuple[StillScene, Frame, Located]) -> None:
    scene, frame, located = look
    told = truths(located)
    told[-1], told[0] = "nothing", "robot"
    assert located.items[-1].flat
    looker = CropLooker(Says(told))
    found = SeeingDescriber("blip", looker, Calibration(), scene.frame).describe((frame,))
    assert len(found.objects) == len(located.items) - 2
    assert "nothing" not in looker.sentence
    assert "robot" not in looker.sentence


def test_the_sentence_goes_from_left_to_right(look: tuple[StillScene, Frame, Located]) -> None:
    _, frame, located = look
    told = truths(located)
    looker = CropLooker(Says(told))
    looker.look(frame, None)
    columns = [sum(item.box_px[::2]) / 2 for item in located.items]
    expected = [text for _, text in sorted(zip(columns, told, strict=True))]
    said = looker.sentence.removeprefix("a table with ").replace(" and ", ", ").split(", ")
    assert [phrase.split(" in ")[0].split(" on ")[0].split(" ", 1)[1] for phrase in said] == expected
    assert composed(located, ["nothing"] * len(told), "maze").text == "a maze with nothing"
    assert composed(located, ["white wall"] * len(told), "rooms").text == "a rooms with nothing"


def test_what_lies_on_something_is_said_to(look: tuple[StillScene, Frame, Located]) -> None:
    _, _, located = look
    below, above = located.items[0], located.items[1]
    low, high = below.half_extents_m[2], above.half_extents_m[2]
    x, y, z = below.center_b_m
    exact = np.eye(3) * 1e-8
    base = replace(below, covariance_m2=exact, flat=False)
    top = replace(above, center_b_m=(x, y, z + low + high), covariance_m2=exact, rests_on=below.id, flat=False)
    both = replace(located, items=(base, top))
    told = composed(both, ["red block", "blue ball"], "table")
    assert {(m.phrase, m.relation, m.below) for m in told.mentions} == {
        ("red block", "", ""),
        ("blue ball", "on", "red block"),
    }
    (alone,) = composed(both, ["nothing", "blue ball"], "table").mentions
    assert alone.relation == ""


def test_probabilities_of_kinds_and_colours() -> None:
    kinds = kind_chances(choices({"red": 0.6, "brown": 0.2, "nothing": 0.1, "ball": 0.1}, {"ball": 0.75, "disc": 0.25}))
    found = dict(zip(KINDS, kinds, strict=True))
    assert found["nothing"] == pytest.approx(0.1)
    assert found["ball"] == pytest.approx(0.1 + 0.8 * 0.75)
    assert found["disc"] == pytest.approx(0.8 * 0.25)
    colours = first_chances(choices({"red": 0.6, "brown": 0.2, "nothing": 0.2}), COLOURS)
    assert colours[COLOURS.index("red")] == pytest.approx(0.75, abs=1e-3)
    assert first_chances(choices(), SCENES) == pytest.approx([0.25] * 4)
    assert kind_chances(choices()).sum() == pytest.approx(1.0)


def test_the_card_says_who_is_shown_crops(small_models: ModuleType, tmp_path: Path) -> None:
    torch.manual_seed(0)
    sizes = sim_blip.SimBlipConfig(vision_width=32, vision_layers=1, text_width=32, text_layers=1)
    sim_blip.save(*sim_blip.build(sizes), tmp_path / "ours", {})
    looker, raw = load_blip_looker(str(tmp_path / "ours"))
    assert isinstance(looker, CropLooker)
    assert raw == Calibration()
    Calibration(looker.identity, {"kinds": 2.0}).save(tmp_path / "ours" / CALIBRATION)
    assert load_blip_looker(str(tmp_path / "ours"))[1].temperatures == {"kinds": 2.0}
    Calibration("another").save(tmp_path / "ours" / CALIBRATION)
    with pytest.raises(UserError, match="was made for another"):
        load_blip_looker(str(tmp_path / "ours"))
    small_models.save_blip(tmp_path / "public")
    assert isinstance(load_blip_looker(str(tmp_path / "public"))[0], CaptionLooker)
