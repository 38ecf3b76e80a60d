"""Pictures kept as JPEG: the same things are found in them, and edges stay where they are."""

from __future__ import annotations

from collections.abc import Iterator
from io import BytesIO

import numpy as np
import pytest
from PIL import Image

from embodied.types import BaseFrame, Frame
from robots.still import StillScene
from vlm_describer.blocks import without_blocks
from vlm_describer.frames import make_frame, read_frame
from vlm_describer.locate import locate
from vlm_describer.located import Located


@pytest.fixture(scope="module", params=[("tabletop_blocks", "front"), ("desk_unnamed", "cam0")], ids=lambda p: p[0])
def shot(request: pytest.FixtureRequest) -> Iterator[tuple[Frame, BaseFrame]]:
    scene = StillScene(request.param[0])
    yield scene.render(request.param[1], 320, 240, depth=True), scene.frame
    scene.close()


def opened(rgb: np.ndarray, quality: int) -> Image.Image:
    kept = BytesIO()
    Image.fromarray(rgb).save(kept, "JPEG", quality=quality)
    return Image.open(BytesIO(kept.getvalue()))


def places(located: Located) -> np.ndarray:
    return np.array(sorted(item.center_b_m for item in located.items))


@pytest.mark.parametrize("quality", [50, 60, 75, 90])
def test_the_same_things_are_found(shot: tuple[Frame, BaseFrame], quality: int) -> None:
    frame, base = shot
    plain = places(locate(frame, base))
    kept = make_frame(opened(frame.rgb, quality), frame.depth_m, frame.intrinsics, frame.world_from_camera)
    assert np.abs(kept.rgb.astype(int) - frame.rgb).max() > 3
    np.testing.assert_allclose(places(locate(kept, base)), plain, atol=0.01)


def test_a_file_is_smoothed_as_its_picture_is(shot: tuple[Frame, BaseFrame], tmp_path: object) -> None:
    path = f"{tmp_path}/kept.jpg"
    Image.fromarray(shot[0].rgb).save(path, quality=60)
    np.testing.assert_array_equal(read_frame(path).rgb, make_frame(opened(shot[0].rgb, 60)).rgb)
    assert (read_frame(path).rgb != np.asarray(opened(shot[0].rgb, 60))).any()


def test_edges_of_colour_and_of_depth_stay_sharp() -> None:
    rgb = np.full((24, 24, 3), (200, 40, 40), np.uint8)
    rgb[:, 12:] = (40, 40, 200)
    np.testing.assert_allclose(without_blocks(rgb, None).astype(int), rgb, atol=2)
    # Half of the left side is 8 brighter, as a square's border would be; nearer, it is another thing.
    step = rgb.copy()
    step[12:, :12] += 8
    depth = np.ones((24, 24), np.float32)
    merged = without_blocks(step, depth).astype(int)
    assert np.ptp(merged[10:14, 4, 0]) < 8
    depth[12:] = 0.9
    np.testing.assert_allclose(without_blocks(step, depth).astype(int), step, atol=2)


@pytest.mark.parametrize("size", [(1, 1), (1, 9), (9, 1), (2, 3)])
def test_small_pictures_are_smoothed_too(size: tuple[int, int]) -> None:
    rgb = np.full((*size, 3), 90, np.uint8)
    np.testing.assert_array_equal(without_blocks(rgb, None), rgb)
