"""Data sets of frames: what is written is read again, whatever happens to the writer; damage is told in one line."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import h5py
import numpy as np
import pytest

from embodied.errors import IntegrityError, UserError
from embodied.labels import EntityLabel, FrameLabel
from embodied.types import BaseFrame, Frame, Predicate
from vlm_describer.dataset import FrameSet, Labelled, to_millimetres, write_frames

ABOUT = {"seed": 3, "views": 2}
SIZES = (3, 1, 2)
"""Frames in each part."""


def labelled(part: int, row: int) -> Labelled:
    rng = np.random.default_rng([part, row])
    pose = np.eye(4)
    pose[:3, 3] = rng.normal(size=3)
    frame = Frame(
        rgb=rng.integers(0, 256, (12, 16, 3), dtype=np.uint8),
        camera="view",
        time_s=0.5 * row,
        depth_m=rng.uniform(0.2, 3.0, (12, 16)).astype(np.float32),
        intrinsics=np.array([[10.0, 0, 8], [0, 10.0, 6], [0, 0, 1]]),
        world_from_camera=pose,
    )
    thing = EntityLabel(
        "thing1", "object", "block", "red", (0.1, 0.2, 0.3), (0.02, 0.02, 0.02), (1.0, 2.0, 3.0), (1.0, 0.0, 0.0, 0.0),
        (1, 2, 3, 4), 4, 0.5, False,
    )  # fmt: skip
    split = "validation" if row % 2 else "fit"
    facts = (Predicate("near", ("thing1", "tür")),)
    return frame, FrameLabel("table", (thing,), facts, BaseFrame(), 0.4, "none", 0, split, part, row)


def make(part: int) -> list[Labelled]:
    return [labelled(part, row) for row in range(SIZES[part])]


def same(data: FrameSet) -> None:
    """Everything in the set is as it was made."""
    wanted = [item for part in range(len(SIZES)) for item in make(part)]
    assert len(data) == len(wanted)
    for index, (frame, label) in enumerate(wanted):
        stored = data.frame(index)
        np.testing.assert_array_equal(stored.rgb, frame.rgb)
        np.testing.assert_array_equal(data.picture(index), frame.rgb)
        np.testing.assert_array_equal(stored.intrinsics, frame.intrinsics)
        np.testing.assert_array_equal(stored.world_from_camera, frame.world_from_camera)
        np.testing.assert_allclose(stored.depth_m, frame.depth_m, atol=0.00051)
        assert stored.time_s == frame.time_s
        assert data.label(index) == label


def test_what_is_written_is_read(tmp_path: Path) -> None:
    seen: list[tuple[int, int]] = []
    with write_frames(tmp_path / "new" / "set", make, 3, ABOUT, lambda done, of: seen.append((done, of))) as data:
        same(data)
        assert data.about == ABOUT
        assert "h5py" in data.versions
        assert data.indices("validation") == [1, 5]
        assert data.indices("fit") == [0, 2, 3, 4]
        with pytest.raises(IndexError, match="frame 6 of 6"):
            data.frame(6)
    assert seen == [(0, 3), (1, 3), (2, 3), (3, 3)]


def test_a_killed_writer_goes_on_where_whole_parts_end(tmp_path: Path) -> None:
    asked: list[int] = []

    def failing(part: int) -> Iterator[Labelled]:
        asked.append(part)
        for row in range(SIZES[part]):
            if part == 2 and row == 1:
                raise KeyboardInterrupt
            yield labelled(part, row)

    with pytest.raises(KeyboardInterrupt):
        write_frames(tmp_path, failing, 3, ABOUT)
    (tmp_path / "part-00002.partial").write_bytes(b"half a file")
    assert asked == [0, 1, 2]
    with FrameSet(tmp_path) as data:
        assert len(data) == 4
    asked.clear()

    def again(part: int) -> list[Labelled]:
        asked.append(part)
        return make(part)

    with write_frames(tmp_path, again, 3, ABOUT) as data:
        same(data)
    assert asked == [2]
    assert not list(tmp_path.glob("*.partial"))


def test_the_same_frames_make_the_same_content(tmp_path: Path) -> None:
    for name in ("one", "two"):
        write_frames(tmp_path / name, make, 3, ABOUT).close()
    for path in sorted((tmp_path / "one").iterdir()):
        with h5py.File(path) as one, h5py.File(tmp_path / "two" / path.name) as two:
            assert set(one) == set(two)
            assert all(np.array_equal(one[key], two[key]) for key in one)


def test_a_set_goes_on_only_with_what_it_was_made_from(tmp_path: Path) -> None:
    write_frames(tmp_path, make, 1, ABOUT).close()
    with pytest.raises(UserError, match="another seed or configuration"):
        write_frames(tmp_path, make, 2, {**ABOUT, "seed": 4})
    with write_frames(tmp_path, make, 3, ABOUT) as grown:
        same(grown)


def test_depth_in_millimetres() -> None:
    depth = np.array([0.0004, 0.0006, 1.2345, 65.535, 65.6, np.nan, np.inf, -1.0, 0.0])
    assert to_millimetres(depth).tolist() == [0, 1, 1234, 65535, 0, 0, 0, 0, 0]


def flip(path: Path) -> None:
    with h5py.File(path) as file:
        at = file["rgb"].id.get_chunk_info(1).byte_offset + 20
    content = bytearray(path.read_bytes())
    content[at] ^= 0xFF
    path.write_bytes(content)


def shorten(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:2000])


def foreign(path: Path) -> None:
    path.unlink()
    with h5py.File(path, "w") as file:
        file["images"] = np.zeros(3)


def older(path: Path) -> None:
    with h5py.File(path, "a") as file:
        file.attrs["version"] = 0


def mixed(path: Path) -> None:
    with h5py.File(path, "a") as file:
        file.attrs["about"] = "{}"


@pytest.mark.parametrize(
    ("harm", "said"),
    [
        (flip, "is damaged; delete it"),
        (shorten, "is damaged or no HDF5 file"),
        (foreign, "is no part of a data set"),
        (older, "another version"),
        (mixed, "do not belong together"),
        (Path.unlink, "part-00000.h5 is missing"),
    ],
)
def test_damage_is_one_line(tmp_path: Path, harm: Callable[[Path], None], said: str) -> None:
    write_frames(tmp_path, make, 3, ABOUT).close()
    harm(tmp_path / "part-00000.h5")
    with pytest.raises(IntegrityError, match=said) as caught, FrameSet(tmp_path) as data:
        data.frame(1)
    assert "\n" not in str(caught.value)


def test_what_is_no_data_set(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "nothing"):
        with pytest.raises(UserError, match="holds no frames"):
            FrameSet(path)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (lambda: [], "at least one"),
        (lambda: [(replace(make(0)[0][0], depth_m=None), make(0)[0][1])], "needs depth"),
        (lambda: [make(0)[0], (replace(make(0)[0][0], rgb=np.zeros((4, 4, 3), np.uint8)), make(0)[0][1])], "one size"),
    ],
)
def test_frames_that_do_not_go_in(tmp_path: Path, wrong: Callable[[], list[Labelled]], said: str) -> None:
    with pytest.raises(UserError, match=said):
        write_frames(tmp_path, lambda part: wrong(), 1, ABOUT)
    assert not list(tmp_path.glob("*.h5"))
