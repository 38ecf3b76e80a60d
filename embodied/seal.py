"""A JSON object that carries the checksum of its own contents, so that a flipped digit is noticed."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from embodied.errors import IntegrityError

SEAL = "sha256"


def digest(data: Mapping[str, Any]) -> str:
    """sha256 of JSON data, the seal left out, whatever its order and white space."""
    content = {key: value for key, value in data.items() if key != SEAL}
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def sealed(data: Mapping[str, Any]) -> dict[str, Any]:
    """The data with its checksum as the last key."""
    return {**data, SEAL: digest(data)}


def check_seal(data: Mapping[str, Any], what: str, remedy: str) -> None:
    """
    Raises:
        IntegrityError: The data has no checksum or not this one; ends with the remedy.
    """
    if data.get(SEAL) != digest(data):
        raise IntegrityError(f"{what} is damaged or was edited: its {SEAL} is not that of its contents; {remedy}")
