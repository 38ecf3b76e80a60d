"""The describer that looks: what it says of a scene, with geometry's names, and what it never touches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from embodied_launch import api

from embodied.errors import UserError
from embodied.types import Frame, SceneDescription, SceneState
from robots.still import StillScene
from vlm_describer.calibration import Calibration
from vlm_describer.clip import NamingLooker, load_clip_looker
from vlm_describer.examples import SCENES
from vlm_describer.looking import LookingDescriber
from vlm_describer.naming import GeometryNamer, PromptNamer
from vlm_describer.seeing import SeeingDescriber
from vlm_describer.sim_clip import SHIPPED
from vlm_describer.vocabulary import load_vocabulary

LOOKER = NamingLooker(GeometryNamer())


class Sealed:
    """A scene whose state cannot be read."""

    def __init__(self, scene: StillScene) -> None:
        self._scene, self.frame = scene, scene.frame

    def scene_state(self) -> SceneState:
        raise AssertionError("the simulator's state was read")

    def render(self, *args: object, **settings: object) -> Frame:
        return self._scene.render(*args, **settings)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def blocks() -> Iterator[StillScene]:
    scene = StillScene("tabletop_blocks")
    yield scene
    scene.close()


@pytest.fixture(scope="module")
def frame(blocks: StillScene) -> Frame:
    return blocks.render("front", 320, 240, depth=True)


def seen(scene: StillScene, frame: Frame, calibration: Calibration | None = None) -> SceneDescription:
    return SeeingDescriber("clip", LOOKER, calibration, scene.frame).describe((frame,))


def test_blocks_are_named_and_placed_as_they_lie(blocks: StillScene, frame: Frame) -> None:
    found = seen(blocks, frame)
    for name in ("red", "green", "blue"):
        (thing,) = [o for o in found.objects if o.phrase == f"{name} block"]
        truth = blocks.scene_state().entity(f"{name}_block")
        assert thing.role == "object"
        np.testing.assert_allclose(thing.position_m, truth.position_m, atol=0.01)


def test_sides_agree_with_the_state(blocks: StillScene, frame: Frame) -> None:
    found = seen(blocks, frame)
    truth = {str(f.predicate) for f in api.describe(blocks, "oracle").facts}
    names = {o.id: f"{o.colour}_block" for o in found.objects if o.kind == "block"}
    told = [f for f in found.facts if len(f.predicate.args) == 2 and set(f.predicate.args) <= set(names)]
    assert len(told) >= 6
    for fact in told:
        said = replace(fact.predicate, args=tuple(names[arg] for arg in fact.predicate.args))
        assert str(said) in truth


class Bottles:
    """A model to which every picture is a bottle."""

    identity, scale = "bottles", 50.0

    def encode_images(self, pictures: Sequence[np.ndarray]) -> np.ndarray:
        return np.tile(np.float32([1, 0]), (len(pictures), 1))

    def encode_texts(self, texts: Sequence[str]) -> np.ndarray:
        return np.array([(1, 0) if "bottle" in text else (0, 1) for text in texts], np.float32)


def test_a_kind_that_a_user_adds_is_said(blocks: StillScene, frame: Frame, tmp_path: Path) -> None:
    lines = tmp_path / "mine.toml"
    lines.write_text('[kinds.flask]\npositive = ["a {colour} bottle"]\nnegative = ["no bottle"]\n')
    for vocabulary, kinds in ((load_vocabulary(lines), {"flask"}), (None, {"thing"})):
        namer = PromptNamer(Bottles(), vocabulary)  # type: ignore[arg-type]
        describer = SeeingDescriber("clip", NamingLooker(namer), None, blocks.frame)
        assert {thing.kind for thing in describer.describe((frame,)).objects} == kinds


MINE = """
[kinds.mug]
positive = ["a {colour} mug"]
negative = ["no mug"]
[kinds.block]
positive = ["a {colour} toy brick"]
[relations.leaning_on]
positive = ["the {a} leans on the {b}"]
negative = ["the {a} does not lean on the {b}"]
[scenes.table]
positive = ["a workbench with blocks"]
"""


def test_the_shipped_model_says_which_of_ones_own_words_it_cannot_see(
    blocks: StillScene, frame: Frame, tmp_path: Path
) -> None:
    (tmp_path / "mine.toml").write_text(MINE)
    looker, calibration = load_clip_looker(vocabulary=str(tmp_path / "mine.toml"))
    told = SeeingDescriber("clip", looker, calibration, blocks.frame).describe((frame, frame))
    said = "anything of one's own words that cannot be seen here: kinds mug; relations leaning_on"
    assert told.unknown.count(said) == 1
    assert {"red block", "green block", "blue block"} <= {thing.phrase for thing in told.objects}
    plain = SeeingDescriber("clip", load_clip_looker()[0], calibration, blocks.frame).describe((frame, frame))
    assert [thing.phrase for thing in plain.objects] == [thing.phrase for thing in told.objects]
    assert said not in plain.unknown


def test_wordings_of_ones_own_weigh_in_the_kind_of_scene(frame: Frame, tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text(MINE)
    scenes = [
        load_clip_looker(vocabulary=file)[0].look(frame, None)[1].scene for file in ("", str(tmp_path / "mine.toml"))
    ]
    changed = scenes[0] != scenes[1]
    assert list(changed) == [name == "table" for name in SCENES]


@pytest.mark.parametrize("lines", [None, "[kinds.mug]\npositive = []", "[people.tom]"])
def test_a_vocabulary_that_is_none_is_refused_at_once(tmp_path: Path, lines: str | None) -> None:
    if lines is not None:
        (tmp_path / "mine.toml").write_text(lines)
    with pytest.raises(UserError, match="mine.toml"):
        load_clip_looker(vocabulary=str(tmp_path / "mine.toml"))


def test_weights_do_not_belong_to_a_fitted_model() -> None:
    with pytest.raises(UserError, match="fitted model, which has its own weights: leave out pretrained="):
        load_clip_looker(str(SHIPPED), "openai")


def test_state_is_never_read(blocks: StillScene) -> None:
    sealed = Sealed(blocks)
    describer = SeeingDescriber("clip", LOOKER, base=sealed.frame)
    looking = LookingDescriber(describer, lambda: (sealed.render("front", 320, 240, depth=True),))
    assert looking.describe(()).objects == seen(blocks, sealed.render("front", 320, 240, depth=True)).objects


def test_the_same_frame_gives_the_same_words(blocks: StillScene, frame: Frame) -> None:
    assert seen(blocks, frame) == seen(blocks, frame)


def test_what_is_not_sure_enough_is_unknown(blocks: StillScene, frame: Frame) -> None:
    found = seen(blocks, frame, Calibration(thresholds={"kinds": 1.0, "colours": 1.0, "left_of": 1.0}))
    assert {o.phrase for o in found.objects} == {"thing"}
    assert f"what {found.objects[0].id} is" in found.unknown
    assert f"the colour of {found.objects[0].id}" in found.unknown
    assert not [f for f in found.facts if f.predicate.name == "left_of"]
    assert [text for text in found.unknown if text.startswith("whether left_of")]


def test_every_fact_says_who_says_so(blocks: StillScene, frame: Frame) -> None:
    found = seen(blocks, frame)
    assert {fact.source for fact in found.facts} <= {"locate", "clip"}
    assert all(0.5 < fact.probability <= 1.0 for fact in found.facts)


def test_nothing_to_see_is_said(blocks: StillScene, frame: Frame) -> None:
    black = replace(frame, rgb=np.zeros_like(frame.rgb), depth_m=np.zeros_like(frame.depth_m))
    found = seen(blocks, black)
    assert not found.objects
    assert found.unknown
    flat = seen(blocks, replace(frame, depth_m=None))
    assert not flat.objects
    assert "depth" in " ".join(flat.unknown)
    with pytest.raises(UserError, match="no frame"):
        SeeingDescriber("clip", LOOKER).describe(())
