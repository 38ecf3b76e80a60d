"""Folders of safetensors and JSON that are written whole or not at all, and checked when read. No pickle."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load as parse_tensors
from safetensors.numpy import save as pack_tensors

from embodied.errors import IntegrityError
from embodied.seal import SEAL, check_seal, sealed

Arrays = dict[str, NDArray[Any]]


def write_folder(folder: Path, index_name: str, index: dict[str, Any], tensors: dict[str, Arrays]) -> None:
    """Write `tensors` (file name to arrays) and an index file with their hashes; what was there is replaced.

    Everything is written to a neighbouring folder, flushed to the disk and renamed, so that a crash never leaves half a
    folder. The index carries a hash of itself as well.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    fresh = folder.with_name(f".{folder.name}.new")
    shutil.rmtree(fresh, ignore_errors=True)
    try:
        _fill(fresh, index_name, index, tensors)
    except OSError:
        # On a full disk the room that the draft took is what the next try needs.
        shutil.rmtree(fresh, ignore_errors=True)
        raise
    old = folder.with_name(f".{folder.name}.old")
    shutil.rmtree(old, ignore_errors=True)
    if folder.exists():
        folder.rename(old)
    fresh.rename(folder)
    _sync(folder.parent)
    shutil.rmtree(old, ignore_errors=True)


def _fill(fresh: Path, index_name: str, index: dict[str, Any], tensors: dict[str, Arrays]) -> None:
    fresh.mkdir()
    hashes = {}
    for name, arrays in tensors.items():
        data = pack_tensors({key: np.require(value, requirements="C") for key, value in arrays.items()})
        hashes[name] = hashlib.sha256(data).hexdigest()
        _write(fresh / name, data)
    whole = sealed({**index, "files": hashes})
    _write(fresh / index_name, (json.dumps(whole, indent=2) + "\n").encode())
    _sync(fresh)


def standing(folder: Path) -> Path:
    """The folder, or what a crash between the two renames of `write_folder` left of its last version."""
    old = folder.with_name(f".{folder.name}.old")
    return old if not folder.exists() and old.is_dir() else folder


def read_index(folder: Path, index_name: str, kind: str, schema: int) -> dict[str, Any]:
    """The index of a folder that claims to be of this kind and schema.

    Raises:
        IntegrityError: There is none, or it is something else.
    """
    path = folder / index_name
    if not path.is_file():
        raise IntegrityError(f"{folder} is no {kind}: it has no {index_name}")
    try:
        index = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise IntegrityError(f"{path} is damaged: {str(error).splitlines()[0]}") from error
    if not isinstance(index, dict) or index.get("kind") != kind:
        raise IntegrityError(f"{path} does not describe a {kind}")
    if index.get("schema") != schema:
        raise IntegrityError(
            f"{path} has schema {index.get('schema')}, this version reads {schema}: update the software"
        )
    check_seal(index, str(path), "copy the folder again")
    del index[SEAL]
    return index


def read_tensors(folder: Path, index: dict[str, Any], name: str) -> Arrays:
    """The arrays of one file of the folder, after its hash was compared with the index.

    Raises:
        IntegrityError: The file is missing, not the one that was written, or no safetensors file.
    """
    path = folder / name
    files = index.get("files")
    expected = files.get(name) if isinstance(files, dict) else None
    if expected is None or not path.is_file():
        raise IntegrityError(f"{path} is missing: copy the whole folder again")
    data = path.read_bytes()
    if hashlib.sha256(data).hexdigest() != expected:
        raise IntegrityError(f"{path} is damaged: its sha256 is not the one in the folder's index")
    try:
        return parse_tensors(data)
    except SafetensorError as error:
        raise IntegrityError(f"{path} is no safetensors file: {str(error).splitlines()[0]}") from error


def _write(path: Path, data: bytes) -> None:
    with path.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def _sync(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
