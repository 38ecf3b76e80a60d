"""The describer that speaks: only words that fit a located thing are passed on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pytest
from numpy.typing import NDArray

from embodied.types import Frame, SceneDescription
from robots.still import StillScene
from vlm_describer.blip import CaptionLooker
from vlm_describer.blip_model import Sentence
from vlm_describer.calibration import Calibration
from vlm_describer.seeing import SeeingDescriber


class Says:
    """A captioner that says one thing."""

    identity = "says"

    def __init__(self, sentence: str) -> None:
        self.sentence = sentence

    def captions(self, pictures: Sequence[NDArray[np.uint8]], prompt: str = "") -> list[Sentence]:
        return [Sentence(self.sentence, 0.9, (0.9,) * len(self.sentence.split()))] * len(pictures)


@pytest.fixture(scope="module")
def look() -> Iterator[tuple[StillScene, Frame]]:
    scene = StillScene("tabletop_blocks")
    yield scene, scene.render("front", 320, 240, depth=True)
    scene.close()


def said(look: tuple[StillScene, Frame], sentence: str) -> SceneDescription:
    scene, frame = look
    looker = CaptionLooker(Says(sentence))  # type: ignore[arg-type]
    return SeeingDescriber("blip", looker, Calibration(), scene.frame).describe((frame,))


def order(look: tuple[StillScene, Frame]) -> list[str]:
    """Names of the scene's things as they come from left to right in the picture."""
    scene, frame = look
    assert frame.world_from_camera is not None
    inverse = np.linalg.inv(frame.world_from_camera)
    columns = {}
    for entity in scene.scene_state().entities:
        if entity.role in ("object", "zone"):
            x, _, z = (inverse @ [*entity.position_m, 1.0])[:3]
            columns[f"{entity.colour} {entity.kind}"] = x / z
    return sorted(columns, key=lambda name: columns[name])


def test_each_name_goes_to_the_thing_that_it_means(look: tuple[StillScene, Frame]) -> None:
    names = order(look)
    found = said(look, "a table with " + ", ".join(f"a {name}" for name in names))
    scene, _ = look
    for entity in scene.scene_state().entities:
        if entity.role not in ("object", "zone"):
            continue
        (thing,) = [o for o in found.objects if o.phrase == f"{entity.colour} {entity.kind}"]
        np.testing.assert_allclose(thing.position_m, entity.position_m, atol=0.015)
    assert [str(f.predicate) for f in found.facts if f.source == "blip"] == ["scene(table)"]


def test_words_that_fit_nothing_are_not_passed_on(look: tuple[StillScene, Frame]) -> None:
    first = [f"a {name}" for name in order(look)]
    told = ", ".join(["a purple ball", *first[:2], "a yellow disc", *first[2:]])
    found = said(look, f"a maze with {told}")
    assert {"purple ball", "yellow disc"}.isdisjoint(o.phrase for o in found.objects)
    assert {name for name in order(look)} <= {o.phrase for o in found.objects}
    assert not [f for f in found.facts if f.source == "blip"]


def test_what_is_not_named_is_a_thing(look: tuple[StillScene, Frame]) -> None:
    found = said(look, "a table with nothing")
    assert {o.phrase for o in found.objects} == {"thing"}
    assert len([text for text in found.unknown if text.startswith("what ")]) == len(found.objects)


def test_other_words_than_ours_are_not_understood(look: tuple[StillScene, Frame]) -> None:
    found = said(look, "there is a lovely still life with fruit and a vase of flowers on it")
    assert {o.phrase for o in found.objects} == {"thing"}
