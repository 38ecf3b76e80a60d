"""Whatever a user hands to a describer: the same answer for the same picture, an answer, or one line that says why."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from embodied_launch.cli import main
from PIL import Image

from embodied.errors import UserError
from embodied.types import BaseFrame, Frame, SceneDescription
from robots.still import StillScene
from vlm_describer.clip import NamingLooker
from vlm_describer.frames import USED_SIDE, make_frame, used_frame
from vlm_describer.naming import GeometryNamer
from vlm_describer.seeing import SeeingDescriber

LOOKER = NamingLooker(GeometryNamer())
RNG = np.random.default_rng(0)
DOWN = np.array([[1.0, 0, 0, 0], [0, -1, 0, 0], [0, 0, -1, 1.2], [0, 0, 0, 1]])
"""A camera 1.2 m over the origin that looks down."""


@pytest.fixture(scope="module")
def shot() -> Iterator[tuple[Frame, BaseFrame]]:
    scene = StillScene("tabletop_blocks")
    yield scene.render("front", 320, 240, depth=True), scene.frame
    scene.close()


def told(frame: Any, base: BaseFrame | None = None) -> SceneDescription:
    return SeeingDescriber("clip", LOOKER, base=base).describe((frame,))


FORMS: dict[str, Callable[[np.ndarray], Any]] = {
    "floats": lambda rgb: rgb / 255.0,
    "float32": lambda rgb: (rgb / 255.0).astype(np.float32),
    "float16": lambda rgb: (rgb / 255.0).astype(np.float16),
    "rgba": lambda rgb: np.dstack([rgb, np.full(rgb.shape[:2], 255, np.uint8)]),
    "pil": Image.fromarray,
    "pil rgba": lambda rgb: Image.fromarray(rgb).convert("RGBA"),
    "pil cmyk": lambda rgb: Image.fromarray(rgb).convert("CMYK"),
    "fortran": np.asfortranarray,
}


@pytest.mark.parametrize("form", FORMS)
def test_all_forms_of_a_picture_get_the_same_answer(form: str, shot: tuple[Frame, BaseFrame]) -> None:
    frame, base = shot
    again = make_frame(FORMS[form](frame.rgb), frame.depth_m, frame.intrinsics, frame.world_from_camera)
    np.testing.assert_allclose(again.rgb.astype(int), frame.rgb, atol=1)
    assert told(again, base).objects == told(frame, base).objects
    assert told(again, base).text == told(frame, base).text


def test_sixteen_bits_and_grey_are_read_as_what_they_show() -> None:
    grey = RNG.integers(0, 256, (12, 16), dtype=np.uint8)
    deep = Image.fromarray(grey.astype(np.uint16) * 257)
    assert deep.mode == "I;16"
    np.testing.assert_array_equal(make_frame(deep).rgb, np.repeat(grey[..., None], 3, axis=2))
    np.testing.assert_array_equal(make_frame(Image.fromarray(grey)).rgb, make_frame(deep).rgb)
    floats = Image.fromarray((grey / 255.0).astype(np.float32))
    np.testing.assert_array_equal(make_frame(floats).rgb, make_frame(deep).rgb)
    palette = Image.fromarray(grey).convert("P")
    np.testing.assert_array_equal(make_frame(palette).rgb, make_frame(deep).rgb)


@pytest.mark.parametrize(
    ("image", "words"),
    [
        (RNG.uniform(0, 255, (4, 5, 3)), "divide by 255"),
        (np.ones((4, 5, 3), np.uint16), "convert it to uint8"),
        (Image.new("F", (5, 4), 200.0), "divide by 255"),
        (Image.new("I", (5, 4)), "8 bits"),
        (Image.new("La", (5, 4)), "convert it to RGB"),
        ([[1, 2], [3]], "one array of numbers"),
        (np.ones((4, 5, 3), complex), "uint8"),
        (np.full((4, 5), None), "uint8"),
        (np.zeros((1, 9000, 3), np.uint8), "9000 x 1"),
        (None, "a picture is"),
    ],
)
def test_what_is_no_picture_is_refused_in_one_line(image: Any, words: str) -> None:
    with pytest.raises(UserError) as refusal:
        told(image)
    assert words in str(refusal.value)
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize("size", [(1, 1), (1, 400), (400, 1), (2, 2), (5, 7), (48, 64), (500, 30)])
@pytest.mark.parametrize("posed", [True, False])
def test_small_and_odd_sizes_get_an_answer(size: tuple[int, int], posed: bool) -> None:
    height, width = size
    lens = (width, width, (width - 1) / 2, (height - 1) / 2)
    frame = make_frame(np.full((*size, 3), 120, np.uint8), np.full(size, 1.2), lens, DOWN if posed else None)
    found = told(frame)
    assert found.objects == ()
    assert found.unknown
    assert found.frame == ("world" if posed else "camera")


@pytest.mark.parametrize("colour", ["black", "white", "noise"])
@pytest.mark.parametrize(
    ("depth", "why"),
    [
        (None, "no depth"),
        (np.full((60, 80), np.nan), "no depth readings"),
        (np.full((60, 80), np.inf), "no depth readings"),
        (np.zeros((60, 80)), "no depth readings"),
        (np.full((60, 80), 1.2), "the surface is empty"),
        (np.full((60, 80), 1e-9), "no horizontal surface"),
        (np.full((60, 80), 1e6), "no plane"),
        (RNG.uniform(0.2, 3.0, (60, 80)), "no horizontal surface"),
    ],
)
def test_frames_without_content_say_what_they_lack(colour: str, depth: np.ndarray | None, why: str) -> None:
    noise = RNG.integers(0, 256, (60, 80, 3), dtype=np.uint8)
    rgb = {"black": np.zeros_like(noise), "white": np.full_like(noise, 255), "noise": noise}[colour]
    found = told(make_frame(rgb, depth, (80, 80, 39.5, 29.5), DOWN))
    assert found.objects == ()
    assert why in found.unknown[-1]
    assert "There is nothing here that can be named." in found.caption
    assert told(make_frame(rgb, depth, (80, 80, 39.5, 29.5))).frame == "camera"


def test_holes_in_depth_leave_what_is_seen(shot: tuple[Frame, BaseFrame]) -> None:
    frame, base = shot
    assert frame.depth_m is not None
    holes = frame.depth_m.copy()
    holes[RNG.random(holes.shape) < 0.01] = np.nan
    holes[:20] = np.inf
    colours = {thing.phrase for thing in told(replace(frame, depth_m=holes), base).objects}
    assert {"red block", "green block", "blue block"} <= colours


def test_large_pictures_are_shrunk_and_say_the_same(shot: tuple[Frame, BaseFrame]) -> None:
    frame, base = shot
    assert frame.depth_m is not None
    assert frame.intrinsics is not None
    times = 12
    lens = frame.intrinsics.copy()
    lens[:2] *= times
    lens[:2, 2] += (times - 1) / 2
    large = Frame(
        np.kron(frame.rgb, np.ones((times, times, 1), np.uint8)), "large", 0.0,
        np.kron(frame.depth_m, np.ones((times, times), np.float32)), lens, frame.world_from_camera,
    )  # fmt: skip
    assert max(large.rgb.shape) > USED_SIDE >= max(used_frame(large).rgb.shape)
    one, other = told(large, base), told(frame, base)
    assert [thing.phrase for thing in one.objects] == [thing.phrase for thing in other.objects]
    for thing, same in zip(one.objects, other.objects, strict=True):
        np.testing.assert_allclose(thing.position_m, same.position_m, atol=0.003)


def test_shrinking_keeps_points_where_they_are() -> None:
    height, width = 1601, 3333
    lens = np.array([[3000.0, 0, 1500.0], [0, 3000.0, 700.0], [0, 0, 1]])
    rows, columns = np.indices((height, width))
    ground = 2.0 + 0.1 * (columns - 1500.0) / 3000.0
    small = used_frame(Frame(np.zeros((height, width, 3), np.uint8), "x", 0.0, ground.astype(np.float32), lens))
    assert small.intrinsics is not None
    assert small.depth_m is not None
    across = (np.arange(small.depth_m.shape[1]) - small.intrinsics[0, 2]) / small.intrinsics[0, 0]
    np.testing.assert_allclose(small.depth_m, np.broadcast_to(2.0 + 0.1 * across, small.depth_m.shape), atol=1e-5)
    assert small.rgb.shape[:2] == small.depth_m.shape


def test_a_bare_picture_or_frame_is_taken_for_one(shot: tuple[Frame, BaseFrame]) -> None:
    frame, base = shot
    describer = SeeingDescriber("clip", LOOKER, base=base)
    assert describer.describe(frame) == describer.describe((frame,))  # type: ignore[arg-type]
    for picture in (frame.rgb, Image.fromarray(frame.rgb)):
        assert "no depth" in describer.describe(picture).unknown[-1]  # type: ignore[arg-type]
        assert describer.describe([picture]) == describer.describe(picture)  # type: ignore[arg-type, list-item]


@pytest.fixture
def describe(
    small_models: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> Callable[..., tuple[int, str, str]]:
    """`embodied describe image=... describer=clip model=<a small one>`, as (code, stdout, stderr)."""
    model = small_models.save_clip(tmp_path / "tiny")
    monkeypatch.chdir(tmp_path)

    folders = (f"told{number}" for number in itertools.count())

    def run(*words: str) -> tuple[int, str, str]:
        code = main(("describe", "describer=clip", f"model=local-dir:{model}", f"out={next(folders)}", *words))
        out, err = capfd.readouterr()
        return code, out, err

    return run


def test_the_command_line_takes_them_too(
    describe: Callable[..., tuple[int, str, str]], shot: tuple[Frame, BaseFrame], tmp_path: Path
) -> None:
    frame, _ = shot
    assert frame.depth_m is not None
    assert frame.intrinsics is not None
    Image.fromarray(frame.rgb).convert("RGBA").save(tmp_path / "rgba.png")
    Image.fromarray(frame.rgb[..., 0].astype(np.uint16) * 257).save(tmp_path / "deep.png")
    np.save(tmp_path / "depth.npy", frame.depth_m)
    np.save(tmp_path / "pose.npy", frame.world_from_camera)
    lens = ",".join(str(frame.intrinsics[row, column]) for row, column in ((0, 0), (1, 1), (0, 2), (1, 2)))
    camera = (f"intrinsics={lens}", "camera_pose=pose.npy", "depth=depth.npy")
    assert describe("image=rgba.png", *camera)[0] == 0
    assert describe("image=deep.png", *camera)[0] == 0
    code, out, _ = describe("image=rgba.png")
    assert code == 0
    assert "no depth" in out


def test_the_command_line_refuses_in_one_line(describe: Callable[..., tuple[int, str, str]], tmp_path: Path) -> None:
    Image.new("RGB", (8, 6)).save(tmp_path / "black.png")
    np.save(tmp_path / "small.npy", np.ones((3, 4), np.float32))
    np.save(tmp_path / "negative.npy", np.full((6, 8), -1.0))
    for words, mention in (
        (("depth=small.npy",), "4 x 3 but the picture is 8 x 6"),
        (("depth=negative.npy",), "negative"),
        (("intrinsics=1,2,3",), "fx,fy,cx,cy"),
        (("camera_pose=1,2,3,0,0,0,0",), "quaternion"),
    ):
        code, out, err = describe("image=black.png", *words)
        assert (code, out, len(err.strip().splitlines())) == (2, "", 1), err
        assert mention in err


def test_a_captioner_is_taken_from_a_folder(
    small_models: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    small_models.save_blip(tmp_path / "captioner")
    Image.new("RGB", (40, 30)).save(tmp_path / "black.png")
    assert main(("describe", "describer=blip", "model=captioner", "image=black.png", "out=told")) == 0
    assert "no depth" in capfd.readouterr().out
