"""Frames: every form of the same picture is the same frame, and what is none is refused in one line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from embodied.errors import UserError
from embodied.types import Frame
from vlm_describer.frames import checked_frame, make_frame, read_frame

RNG = np.random.default_rng(0)
RGB = RNG.integers(0, 256, (12, 16, 3), dtype=np.uint8)
GREY = RNG.integers(0, 256, (12, 16), dtype=np.uint8)
DEPTH = RNG.uniform(0.5, 1.5, (12, 16)).astype(np.float32)
LENS = (20.0, 21.0, 7.5, 5.5)
POSE = np.array([[0.0, 1, 0, 1], [1, 0, 0, 2], [0, 0, -1, 3], [0, 0, 0, 1]])
QUATERNION = (1.0, 2.0, 3.0, 0.0, 2**-0.5, 2**-0.5, 0.0)


@pytest.mark.parametrize(
    "image",
    [
        RGB,
        RGB / 255.0,
        (RGB / 255.0).astype(np.float32),
        Image.fromarray(RGB),
        np.dstack([RGB, np.full((12, 16), 255, np.uint8)]),
        np.dstack([RGB / 255.0, np.ones((12, 16))]),
        Image.fromarray(RGB).convert("RGBA"),
        RGB[:, ::-1][:, ::-1],
    ],
    ids=["uint8", "float64", "float32", "pil", "rgba", "rgba floats", "pil rgba", "strided"],
)
def test_all_forms_of_a_picture_are_one(image: Any) -> None:
    frame = make_frame(image)
    assert (frame.rgb.dtype, frame.depth_m, frame.intrinsics, frame.world_from_camera) == (np.uint8, None, None, None)
    np.testing.assert_array_equal(frame.rgb, RGB)
    np.testing.assert_array_equal(checked_frame(frame).rgb, RGB)


@pytest.mark.parametrize("image", [GREY, GREY[..., None], GREY / 255.0, Image.fromarray(GREY)])
def test_grey_pictures_have_three_equal_channels(image: Any) -> None:
    np.testing.assert_array_equal(make_frame(image).rgb, np.repeat(GREY[..., None], 3, axis=2))


def test_what_is_transparent_is_black() -> None:
    clear = np.dstack([RGB, np.zeros((12, 16), np.uint8)])
    assert make_frame(clear).rgb.max() == 0


def test_no_reading_becomes_nan() -> None:
    depth = DEPTH.copy()
    depth[0, :4] = (np.nan, np.inf, 0.0, 1.0)
    frame = make_frame(RGB, depth, LENS, QUATERNION)
    assert frame.depth_m is not None
    assert np.isnan(frame.depth_m[0]).tolist() == [True] * 3 + [False] * 13
    np.testing.assert_array_equal(frame.depth_m[1:], DEPTH[1:])
    assert np.isnan(np.asarray(make_frame(RGB, np.zeros((12, 16)), LENS).depth_m)).all()


def test_numbers_of_lens_and_pose() -> None:
    frame = make_frame(RGB, DEPTH, LENS, QUATERNION)
    np.testing.assert_array_equal(frame.intrinsics, [[20.0, 0.0, 7.5], [0.0, 21.0, 5.5], [0.0, 0.0, 1.0]])
    np.testing.assert_allclose(frame.world_from_camera, POSE, atol=1e-12)
    rounded = make_frame(RGB, DEPTH, LENS, np.round(POSE + 1e-4, 3))
    assert rounded.world_from_camera is not None
    turn = rounded.world_from_camera[:3, :3]
    np.testing.assert_allclose(turn @ turn.T, np.eye(3), atol=1e-12)


SHEARED = POSE + np.array([[0.2, 0, 0, 0]] + 3 * [[0, 0, 0, 0]])
MIRRORED = np.diag([1.0, 1.0, -1.0, 1.0])


@pytest.mark.parametrize(
    ("parts", "words"),
    [
        ({"image": RGB.astype(np.float32)}, "divide by 255"),
        ({"image": RGB.astype(np.int64)}, "convert it to uint8"),
        ({"image": np.full((4, 4, 3), np.nan)}, "NaN"),
        ({"image": RGB[..., :2]}, "(12, 16, 2)"),
        ({"image": RGB[:0]}, "each side"),
        ({"image": "picture"}, "a picture is"),
        ({"depth": DEPTH[:6]}, "16 x 6 but the picture is 16 x 12"),
        ({"depth": -DEPTH}, "negative"),
        ({"depth": (DEPTH * 1000).astype(np.uint16)}, "divide millimetres"),
        ({"intrinsics": (20.0, 21.0, 7.5)}, "fx,fy,cx,cy"),
        ({"intrinsics": (0.5, 0.5, 7.5, 5.5)}, "do not fit"),
        ({"intrinsics": (20.0, 21.0, 700.0, 5.5)}, "do not fit"),
        ({"intrinsics": "wide"}, "fx,fy,cx,cy"),
        ({"camera_pose": SHEARED}, "orthonormal"),
        ({"camera_pose": MIRRORED}, "determinant"),
        ({"camera_pose": (0, 0, 0, 2, 0, 0, 0)}, "length 2.000"),
        ({"camera_pose": (0, 0, 0, np.nan, 0, 0, 0)}, "finite"),
        ({"camera_pose": (0, 0, 0)}, "x,y,z,qw,qx,qy,qz"),
    ],
)
def test_what_is_no_frame_is_refused_in_one_line(parts: dict[str, Any], words: str) -> None:
    with pytest.raises(UserError) as refusal:
        make_frame(**{"image": RGB, **parts})
    assert words in str(refusal.value)
    assert "\n" not in str(refusal.value)


def test_files_give_the_same_frame(tmp_path: Path) -> None:
    Image.fromarray(RGB).save(tmp_path / "scene.png")
    millimetres = np.rint(DEPTH * 1000).astype(np.uint16)
    millimetres[0, 0] = 0
    Image.fromarray(millimetres).save(tmp_path / "depth.png")
    np.save(tmp_path / "depth.npy", DEPTH)
    np.save(tmp_path / "pose.npy", POSE)
    np.savetxt(tmp_path / "pose.txt", POSE)
    exact = read_frame(tmp_path / "scene.png", tmp_path / "depth.npy", "20,21,7.5,5.5", str(tmp_path / "pose.npy"))
    _same(exact, make_frame(RGB, DEPTH, LENS, POSE))
    assert exact.camera == "scene"
    coarse = read_frame(tmp_path / "scene.png", tmp_path / "depth.png", LENS, tmp_path / "pose.txt")
    assert coarse.depth_m is not None
    assert np.isnan(coarse.depth_m[0, 0])
    np.testing.assert_allclose(coarse.depth_m[1:], DEPTH[1:], atol=0.00051)
    typed = read_frame(tmp_path / "scene.png", camera_pose=",".join(str(v) for v in QUATERNION))
    np.testing.assert_allclose(typed.world_from_camera, POSE, atol=1e-9)


@pytest.mark.parametrize("lens", ["40,42,15.5,11.5", "10,10.5,1.5,1"])
def test_intrinsics_of_another_size_are_refused(tmp_path: Path, lens: str) -> None:
    Image.fromarray(RGB).save(tmp_path / "scene.png")
    with pytest.raises(UserError, match="calibrated at another size"):
        read_frame(tmp_path / "scene.png", intrinsics=lens)


def test_a_depth_picture_in_metres_is_refused(tmp_path: Path) -> None:
    Image.fromarray(RGB).save(tmp_path / "scene.png")
    Image.fromarray(np.rint(DEPTH).astype(np.uint16)).save(tmp_path / "depth.png")
    with pytest.raises(UserError, match="seems to hold metres"):
        read_frame(tmp_path / "scene.png", tmp_path / "depth.png", LENS)


def test_files_that_are_not_what_they_should_be(tmp_path: Path) -> None:
    good = tmp_path / "good.png"
    Image.fromarray(RGB).save(good)
    Image.fromarray(GREY).save(tmp_path / "eight.png")
    (tmp_path / "text.png").write_text("no picture")
    (tmp_path / "cut.png").write_bytes(good.read_bytes()[:200])
    (tmp_path / "bad.npy").write_bytes(b"\x93NUMPY")
    np.save(tmp_path / "whole.npy", np.ones((12, 16), np.int32))
    np.save(tmp_path / "millimetres.npy", np.where(DEPTH < 0.55, 0.0, 1000 * DEPTH))
    (tmp_path / "pose.txt").write_text("1 2 3")
    calls: list[tuple[dict[str, Any], str]] = [
        ({"image": tmp_path / "none.png"}, "no such file"),
        ({"image": tmp_path / "text.png"}, "PNG or JPEG"),
        ({"image": tmp_path / "cut.png"}, "PNG or JPEG"),
        ({"image": good, "depth": tmp_path / "eight.png"}, "16-bit"),
        ({"image": good, "depth": tmp_path / "none.npy"}, "no such file"),
        ({"image": good, "depth": tmp_path / "bad.npy"}, "numpy.save"),
        ({"image": good, "depth": tmp_path / "whole.npy"}, "floats in metres: divide by 1000"),
        ({"image": good, "depth": tmp_path / "millimetres.npy"}, "millimetres (its readings begin at 5"),
        ({"image": good, "intrinsics": "20,x,7,5"}, "fx,fy,cx,cy"),
        ({"image": good, "camera_pose": tmp_path / "pose.txt"}, "3 numbers"),
        ({"image": good, "camera_pose": "1,2,3"}, "no such file"),
        ({"image": good, "camera_pose": "1,2,3,4,5,6,x"}, "expected x,y,z"),
    ]
    for call, words in calls:
        with pytest.raises(UserError) as refusal:
            read_frame(**call)
        assert words in str(refusal.value)
        assert "\n" not in str(refusal.value)


def _same(one: Frame, other: Frame) -> None:
    np.testing.assert_array_equal(one.rgb, other.rgb)
    np.testing.assert_array_equal(np.asarray(one.depth_m), np.asarray(other.depth_m))
    np.testing.assert_array_equal(np.asarray(one.intrinsics), np.asarray(other.intrinsics))
    np.testing.assert_allclose(np.asarray(one.world_from_camera), np.asarray(other.world_from_camera), atol=1e-12)
