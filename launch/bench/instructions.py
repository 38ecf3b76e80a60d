"""Files of instructions: a JSON object a line, each with a scene, words, and the facts that are to come of them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from embodied.errors import UserError
from embodied.planning.conditions import Wish

from ..catalogue import scene_names

MAX_BYTES = 16 * 2**20
KEYS = frozenset({"scene", "instruction", "goal", "forbid", "order", "expect", "id", "tags"})
"""The last two are for whoever reads the file."""


@dataclass(frozen=True)
class Instruction:
    """One line of the file."""

    line: int
    """Counted from 1."""
    scene: str
    """As written."""
    path: str
    """What opens it: a path, or a shipped scene's name."""
    words: str
    wish: Wish
    feasible: bool
    """False where a refusal is right."""


def read_instructions(path: str | Path) -> tuple[Instruction, ...]:
    """All lines of a file; empty ones are passed over.

    Raises:
        UserError: The file or a scene cannot be found, or a line is not of the format; says which.
    """
    file = Path(path).expanduser()
    try:
        if file.stat().st_size > MAX_BYTES:
            raise UserError(f"'{file}' is larger than {MAX_BYTES >> 20} MiB; that is no file of instructions")
        text = file.read_text("utf-8")
    except OSError as error:
        raise UserError(f"instructions={file}: cannot be read ({error.strerror or error})") from None
    except UnicodeDecodeError:
        raise UserError(f"instructions={file}: is not UTF-8 text") from None
    found = []
    for number, line in enumerate(text.splitlines(), 1):
        if line.strip():
            try:
                found.append(_read_line(number, line, file))
            except UserError as error:
                raise UserError(f"{file}, line {number}: {error}") from None
    if not found:
        raise UserError(f"'{file}' holds no instruction")
    return tuple(found)


def _read_line(number: int, line: str, file: Path) -> Instruction:
    try:
        data: Any = json.loads(line)
    except ValueError as error:
        raise UserError(f"no JSON ({error})") from None
    if not isinstance(data, dict):
        raise UserError("no JSON object")
    if unknown := sorted(set(data) - KEYS):
        raise UserError(f"unknown key {unknown[0]!r}; valid: {', '.join(sorted(KEYS))}")
    scene, words = data.get("scene"), data.get("instruction")
    if not (isinstance(scene, str) and scene.strip() and isinstance(words, str) and words.strip()):
        raise UserError("it needs the texts 'scene' and 'instruction'")
    if data.get("expect") not in (None, "failure"):
        raise UserError("'expect' is \"failure\" or left out")
    feasible = data.get("expect") is None
    wish = Wish.read(data)
    if feasible and not wish.goal:
        raise UserError("it needs a 'goal': facts that hold at the end")
    return Instruction(number, scene, scene_path(scene, file), words, wish, feasible)


def scene_path(scene: str, file: Path) -> str:
    """What a line's scene means: a file beside the instructions' folder, a path from there, or a shipped scene.

    Raises:
        UserError: None of them.
    """
    beside = file.parent / ".." / "scenes" / f"{scene}.xml"
    for candidate in (beside, file.parent / scene):
        if candidate.is_file():
            return str(candidate.resolve())
    if scene in scene_names():
        return scene
    raise UserError(f"there is no scene '{scene}': neither {beside} nor a path from there nor a shipped one")
