"""Whatever a user has (arrays, PIL images, files) as one checked `embodied.types.Frame`.

Pictures become uint8 sRGB, depth becomes float32 metres along the optical axis with NaN where there is no reading,
intrinsics a (3, 3) matrix in pixels with pixel centres at integers, the pose a rigid (4, 4) world_from_camera
(camera axes x right, y down, z forward).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, UnidentifiedImageError

from embodied.errors import UserError
from embodied.types import FloatArray, Frame
from vlm_describer.blocks import without_blocks

MAX_SIDE = 8192
"""Longest side of a picture, in pixels."""
USED_SIDE = 1600
"""Longest side of a picture that is looked at: larger ones are shrunk."""
_SIXTEEN_BITS = 65535
FARTHEST_M = 60.0
"""Readings beyond it are none: a far clipping plane, the sky."""
_MOST_MM = 1000.0 * FARTHEST_M
_MILLIMETRE_MODES = ("I;16", "I;16L", "I;16B", "I;16N", "I")
"""What PIL calls a 16-bit grey PNG, by version and byte order."""
_SQUARED = ("JPEG", "MPO")
"""Formats that keep pictures in squares."""
_FOCAL_RANGE = (0.15, 20.0)
"""Focal lengths in picture widths: fields of view of some 147 to 3 degrees."""
_MOST_OFF_CENTRE = 0.35
"""How far from a picture's middle its optical axis meets it, in widths and heights: another size's lies at a corner."""
_LEAST_MM = 20
"""A depth picture shows something further away than so many millimetres."""
_RIGID_TOLERANCE = 1e-2
"""How far a rotation may be from orthonormal before it is no pose; below it, it is made orthonormal."""


def make_frame(
    image: Any,
    depth: Any = None,
    intrinsics: Any = None,
    camera_pose: Any = None,
    *,
    camera: str = "image",
    time_s: float = 0.0,
) -> Frame:
    """A frame from things in memory; all forms of the same picture give the same frame.

    Args:
        image: (H, W), (H, W, 1), (H, W, 3) or (H, W, 4) as uint8 or as floats in [0, 1], or a PIL image of any mode (a
            16-bit one is brought to 8 bits, one of floats holds them in [0, 1]; one that was opened from a JPEG file is
            smoothed, see `vlm_describer.blocks`). A fourth channel (opacity) is laid over black.
        depth: (H, W) metres along the optical axis; NaN, infinite and 0 mean no reading. None: a picture only.
        intrinsics: (3, 3), or fx, fy, cx, cy in pixels.
        camera_pose: (4, 4) world_from_camera, or x, y, z (m), qw, qx, qy, qz.
        camera: What the camera is called.
        time_s: When it was taken.

    Raises:
        UserError: Something is not of this form; one line that says what to do.
    """
    rgb = _picture(image)
    distances = None if depth is None else _depth(depth, rgb.shape[:2])
    if getattr(image, "format", None) in _SQUARED:
        rgb = without_blocks(rgb, distances)
    return Frame(
        rgb=rgb,
        camera=camera,
        time_s=float(time_s),
        depth_m=distances,
        intrinsics=None if intrinsics is None else _intrinsics(intrinsics, rgb.shape[:2]),
        world_from_camera=None if camera_pose is None else _pose(camera_pose),
    )


def checked_frame(frame: Any) -> Frame:
    """The same frame, checked and in the one form that `make_frame` gives; a bare picture becomes one without depth.

    Raises:
        UserError: As `make_frame`.
    """
    if not isinstance(frame, Frame):
        return make_frame(frame)
    return make_frame(
        frame.rgb,
        frame.depth_m,
        frame.intrinsics,
        frame.world_from_camera,
        camera=frame.camera,
        time_s=frame.time_s,
    )


def listed(frames: Any) -> list[Any]:
    """Frames or pictures as a list; one by itself is a list of one, and its rows are not taken for pictures."""
    return list(frames) if isinstance(frames, list | tuple) else [frames]


def used_frame(frame: Any) -> Frame:
    """As `checked_frame`, and shrunk by a whole number where a side is longer than `USED_SIDE`.

    Each new pixel has the mean colour of a square of old ones and the depth at its middle; intrinsics follow.
    """
    frame = checked_frame(frame)
    height, width = frame.rgb.shape[:2]
    times = math.ceil(max(height, width) / USED_SIDE)
    if times == 1:
        return frame
    rows, columns = max(height // times, 1), max(width // times, 1)
    small = Image.fromarray(frame.rgb).resize(
        (columns, rows), Image.Resampling.BOX, box=(0, 0, min(columns * times, width), min(rows * times, height))
    )
    middle = times // 2
    picked = (slice(min(middle, height - 1), None, times), slice(min(middle, width - 1), None, times))
    lens = None if frame.intrinsics is None else frame.intrinsics.copy()
    if lens is not None:
        lens[:2] /= times
        lens[:2, 2] -= middle / times
    depth = None if frame.depth_m is None else frame.depth_m[picked][:rows, :columns]
    return replace(frame, rgb=np.asarray(small), depth_m=depth, intrinsics=lens)


def read_frame(
    image: str | Path,
    depth: str | Path | None = None,
    intrinsics: str | Sequence[float] | None = None,
    camera_pose: str | Path | Sequence[float] | None = None,
) -> Frame:
    """A frame from files: what a real robot has.

    Args:
        image: PNG or JPEG.
        depth: 16-bit PNG in millimetres, or `.npy` in metres; 0 and NaN are no reading.
        intrinsics: fx, fy, cx, cy in pixels, as numbers or as text.
        camera_pose: x, y, z, qw, qx, qy, qz as numbers or text, or a file (`.npy` or text) with these or with 4 x 4.

    Raises:
        UserError: A file is missing or is not what it should be; one line that says what to do.
    """
    picture = _open_image(Path(image), "image")
    distances = None if depth is None else _read_depth(Path(depth))
    lens = _numbers(intrinsics, "intrinsics", "fx,fy,cx,cy (pixels)") if isinstance(intrinsics, str) else intrinsics
    pose = _read_pose(camera_pose) if isinstance(camera_pose, str | Path) else camera_pose
    frame = make_frame(picture, distances, lens, pose, camera=Path(image).stem)
    _of_whole_picture(frame)
    return frame


def _of_whole_picture(frame: Frame) -> None:
    """
    Raises:
        UserError: The intrinsics are those of the same camera at another size.
    """
    if frame.intrinsics is None:
        return
    height, width = frame.rgb.shape[:2]
    cx, cy = frame.intrinsics[0, 2], frame.intrinsics[1, 2]
    if max(abs(cx - (width - 1) / 2) / width, abs(cy - (height - 1) / 2) / height) > _MOST_OFF_CENTRE:
        raise UserError(
            f"the intrinsics' optical axis at {cx:g},{cy:g} is not in the middle of a picture of {width} x {height}: "
            "calibrated at another size? give fx,fy,cx,cy in its pixels"
        )


def _picture(image: Any) -> NDArray[np.uint8]:
    """(H, W, 3) uint8."""
    array = _array_of(image) if isinstance(image, Image.Image) else _numbers_of(image, "a picture")
    if array.ndim == 2:
        array = array[..., None]
    if array.ndim != 3 or array.shape[2] not in (1, 3, 4):
        raise UserError(f"a picture is (height, width), (height, width, 3) or (height, width, 4), got {array.shape}")
    height, width = array.shape[:2]
    if not (1 <= height <= MAX_SIDE and 1 <= width <= MAX_SIDE):
        raise UserError(f"a picture of {width} x {height} pixels: each side must be within 1..{MAX_SIDE}")
    array = _bytes(array)
    if array.shape[2] == 4:
        opacity = array[..., 3:].astype(np.float32) / 255.0
        array = np.rint(array[..., :3] * opacity).astype(np.uint8)
    # A copy: what PIL hands out is read-only, of which torch warns.
    return np.array(np.broadcast_to(array, (height, width, 3)))


def _array_of(image: Image.Image) -> NDArray[Any]:
    """A PIL image as an array that says the same: grey, colour or colour and opacity."""
    if image.mode == "I":
        raise UserError("a picture of mode I does not say what its white is; convert it to 8 bits")
    if image.mode in _MILLIMETRE_MODES:
        return np.rint(np.asarray(image).astype(np.float32) * (255.0 / _SIXTEEN_BITS)).astype(np.uint8)
    if image.mode == "F":
        return np.asarray(image)
    try:
        return np.asarray(image.convert("RGBA" if _has_opacity(image) else "RGB"))
    except ValueError:
        raise UserError(f"a picture of mode {image.mode} cannot be read; convert it to RGB") from None


def _numbers_of(values: Any, what: str) -> NDArray[Any]:
    try:
        return np.asarray(values)
    except (ValueError, TypeError):
        raise UserError(f"{what} has to be one array of numbers, with rows of one length") from None


def _has_opacity(image: Image.Image) -> bool:
    return image.mode in ("RGBA", "LA", "PA", "RGBa", "La") or "transparency" in image.info


def _bytes(array: NDArray[Any]) -> NDArray[np.uint8]:
    """uint8 of uint8, or of floats in [0, 1]."""
    if array.dtype == np.uint8:
        return array
    if array.dtype == bool:
        return array.astype(np.uint8) * np.uint8(255)
    if not np.issubdtype(array.dtype, np.floating):
        raise UserError(f"a picture holds uint8 or floats in [0, 1], got {array.dtype}; convert it to uint8")
    low, high = float(array.min()), float(array.max())
    if not (math.isfinite(low) and math.isfinite(high)):
        raise UserError("the picture holds NaN or infinite values; replace them")
    if low < -1e-3 or high > 1.0 + 1e-3:
        raise UserError(f"a picture of floats must be within [0, 1], got {low:.3g} to {high:.3g}; divide by 255?")
    return np.rint(np.clip(array, 0.0, 1.0) * 255.0).astype(np.uint8)


def _depth(depth: Any, shape: tuple[int, ...]) -> FloatArray:
    """(H, W) float32 metres, NaN where there is no reading."""
    array = _numbers_of(depth, "depth")
    if array.ndim == 3 and array.shape[2] == 1:
        array = array[..., 0]
    if array.shape != shape:
        raise UserError(
            f"depth is {_size(array.shape)} but the picture is {_size(shape)}; bring depth into the picture's pixels"
        )
    if not np.issubdtype(array.dtype, np.floating):
        raise UserError(f"depth holds floats in metres, got {array.dtype}; divide millimetres by 1000")
    metres = array.astype(np.float32)
    if bool((metres < 0.0).any()):
        raise UserError("depth holds negative values; give metres along the optical axis, positive in front, 0 unknown")
    return np.where(np.isfinite(metres) & (metres > 0.0), metres, np.float32(np.nan))


def _size(shape: tuple[int, ...]) -> str:
    return f"{shape[1]} x {shape[0]}" if len(shape) == 2 else f"of shape {shape}"


def _intrinsics(intrinsics: Any, shape: tuple[int, ...]) -> NDArray[np.float64]:
    """(3, 3), plausible for a picture of this shape."""
    try:
        array = np.asarray(intrinsics, dtype=np.float64)
    except (TypeError, ValueError):
        raise UserError("intrinsics are four numbers fx,fy,cx,cy in pixels, or a 3 x 3 matrix") from None
    if array.shape == (4,):
        fx, fy, cx, cy = array
        array = np.array([[fx, 0.0, cx], [0.0, fy, cy], [0.0, 0.0, 1.0]])
    if array.shape != (3, 3) or not np.isfinite(array).all():
        raise UserError("intrinsics are four finite numbers fx,fy,cx,cy in pixels, or a 3 x 3 matrix")
    height, width = shape
    upper = np.allclose(array[2], (0.0, 0.0, 1.0)) and np.allclose((array[0, 1], array[1, 0]), 0.0)
    focal = all(_FOCAL_RANGE[0] * width <= f <= _FOCAL_RANGE[1] * width for f in (array[0, 0], array[1, 1]))
    centre = -width < array[0, 2] < 2 * width and -height < array[1, 2] < 2 * height
    if not (upper and focal and centre):
        told = ",".join(f"{v:g}" for v in (array[0, 0], array[1, 1], array[0, 2], array[1, 2]))
        raise UserError(f"intrinsics {told} do not fit a picture of {width} x {height}; give fx,fy,cx,cy in its pixels")
    return array


def _pose(pose: Any) -> NDArray[np.float64]:
    """(4, 4), rigid."""
    form = "a camera pose is x,y,z,qw,qx,qy,qz (metres, world_from_camera) or a rigid 4 x 4 matrix"
    try:
        array = np.asarray(pose, dtype=np.float64)
    except (TypeError, ValueError):
        raise UserError(form) from None
    if array.shape not in ((7,), (4, 4)) or not np.isfinite(array).all():
        raise UserError(f"{form}; got {'a value that is not finite' if array.size else 'nothing'}, shape {array.shape}")
    rigid = np.eye(4)
    if array.shape == (7,):
        length = float(np.linalg.norm(array[3:]))
        if abs(length - 1.0) > _RIGID_TOLERANCE:
            raise UserError(f"the camera pose's quaternion qw,qx,qy,qz has length {length:.3f}; it must be 1")
        rigid[:3, :3], rigid[:3, 3] = _rotation(array[3:] / length), array[:3]
        return rigid
    turn = array[:3, :3]
    fits = np.allclose(turn @ turn.T, np.eye(3), atol=_RIGID_TOLERANCE) and np.linalg.det(turn) > 0.0
    if not fits or not np.allclose(array[3], (0.0, 0.0, 0.0, 1.0), atol=1e-6):
        raise UserError(f"{form}; its rotation is not orthonormal with determinant +1, or its last row not 0 0 0 1")
    left, _, right = np.linalg.svd(turn)
    rigid[:3, :3], rigid[:3, 3] = left @ right, array[:3, 3]
    return rigid


def _rotation(q: NDArray[np.float64]) -> NDArray[np.float64]:
    """(3, 3) of a unit quaternion wxyz."""
    w, x, y, z = q
    return np.array(
        [
            [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
            [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
            [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
        ]
    )


def _open_image(path: Path, key: str) -> Image.Image:
    """A picture read to its end, so that a cut file is noticed here; it still knows its format."""
    _check_file(path, key)
    try:
        with Image.open(path) as opened:
            opened.load()
            return opened
    except (UnidentifiedImageError, Image.DecompressionBombError, OSError, SyntaxError, ValueError):
        raise UserError(f"{key}={path} is not a whole picture; give a PNG or JPEG file") from None


def _read_depth(path: Path) -> NDArray[np.float32]:
    """Metres, 0 where the file says that there is no reading."""
    if path.suffix == ".npy":
        array = _load_npy(path, "depth")
        if not np.issubdtype(array.dtype, np.floating):
            raise UserError(f"depth={path} holds {array.dtype}; a .npy holds floats in metres: divide by 1000?")
        return _not_millimetres(array.astype(np.float32), path)
    image = _open_image(path, "depth")
    if image.mode not in _MILLIMETRE_MODES:
        raise UserError(f"depth={path} is no 16-bit grey PNG (it is {image.mode}); write depth as 16-bit millimetres")
    readings = np.asarray(image)
    if 0 < readings.max() < _LEAST_MM:
        raise UserError(f"depth={path} seems to hold metres (no reading is above {readings.max()}); write millimetres")
    return readings.astype(np.float32) / np.float32(1000.0)


def _not_millimetres(metres: NDArray[np.float32], path: Path) -> NDArray[np.float32]:
    """The same, where any reading can be metres: a table at 800 m, and nothing nearer, stands at 800 mm."""
    readings = metres[np.isfinite(metres) & (metres > 0.0)]
    nearest, middle = np.percentile(readings, (1, 50)) if len(readings) else (0.0, 0.0)
    if nearest > FARTHEST_M and middle < _MOST_MM:
        told = f"its readings begin at {nearest:.0f}"
        raise UserError(f"depth={path} seems to hold millimetres ({told}); a .npy holds metres: divide by 1000")
    return metres


def _read_pose(pose: str | Path) -> NDArray[np.float64]:
    """(7,) or (4, 4) from text or a file."""
    form = "x,y,z,qw,qx,qy,qz, or the path of a .npy or text file with these or with 4 x 4 numbers"
    text = str(pose)
    if Path(text).suffix == ".npy":
        return _load_npy(Path(text), "camera_pose")
    if text.count(",") < 6:
        path = Path(text)
        _check_file(path, "camera_pose")
        try:
            text = path.read_text("utf-8")
        except (OSError, UnicodeDecodeError):
            raise UserError(f"camera_pose={pose} cannot be read as text; give {form}") from None
    numbers = _numbers(text, "camera_pose", form)
    if numbers.shape == (16,):
        return numbers.reshape(4, 4)
    if numbers.shape != (7,):
        raise UserError(f"camera_pose has {numbers.size} numbers; give {form}")
    return numbers


def _numbers(text: str, key: str, form: str) -> NDArray[np.float64]:
    try:
        return np.array([float(part) for part in text.replace(",", " ").replace(";", " ").split()])
    except ValueError:
        raise UserError(f"{key}={' '.join(text.split())[:60]}: expected {form}") from None


def _load_npy(path: Path, key: str) -> NDArray[Any]:
    _check_file(path, key)
    try:
        array = np.load(path, allow_pickle=False)
    except (OSError, ValueError, EOFError):
        raise UserError(f"{key}={path} is not a whole .npy file of numbers; write it with numpy.save") from None
    if not isinstance(array, np.ndarray) or not np.issubdtype(array.dtype, np.number):
        raise UserError(f"{key}={path} is not a .npy file of numbers; write it with numpy.save")
    return array


def _check_file(path: Path, key: str) -> None:
    if not path.is_file():
        raise UserError(f"{key}={path}: there is no such file")
