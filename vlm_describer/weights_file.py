"""Whether a file can hold a network's weights, told before any library that would read them is imported."""

from __future__ import annotations

import json
import pickletools
import zipfile
from collections.abc import Iterator
from pathlib import Path

from embodied.errors import IntegrityError

_OF_TENSORS = ("torch", "__torch__", "collections", "numpy", "_codecs")
"""Packages that tensors in a pickle are made by."""
_LARGEST_HEADER = 100_000_000
"""Bytes; a longer one is none."""
_PICKLE = b"\x80"


def check_weights(path: Path) -> None:
    """Refuses a file that is damaged or holds anything beside tensors.

    A pickle is read as a list of instructions and not carried out: a file from elsewhere could run whatever it likes.

    Raises:
        IntegrityError: The file is neither safetensors nor what `torch.save` writes, or it holds Python objects.
    """
    if path.suffix == ".safetensors":
        _check_safetensors(path)
    elif zipfile.is_zipfile(path):
        for module in _modules(path):
            if module.partition(".")[0] not in _OF_TENSORS:
                raise IntegrityError(objects_in(path, module))
    elif _beginning(path, 1) != _PICKLE:
        raise IntegrityError(f"{path} holds no weights, or is damaged; get it again")


def objects_in(path: Path, what: str = "") -> str:
    """The line about a file that holds more than tensors; `what`: the package of the first such thing."""
    of = f" of {what}" if what else ""
    return f"{path} holds Python objects{of} beside tensors, which are not loaded: save its state_dict as .safetensors"


def _check_safetensors(path: Path) -> None:
    """Its header says how long the file is: a cut one is noticed here."""
    size = path.stat().st_size
    length = int.from_bytes(_beginning(path, 8), "little")
    try:
        if not 2 <= length <= min(size - 8, _LARGEST_HEADER):
            raise ValueError
        with path.open("rb") as file:
            file.seek(8)
            tensors = json.loads(file.read(length))
        end = max((told["data_offsets"][1] for name, told in tensors.items() if name != "__metadata__"), default=0)
        if size != 8 + length + end:
            raise ValueError
    except (ValueError, KeyError, TypeError, AttributeError, IndexError):
        raise IntegrityError(f"{path} is no whole .safetensors file; get it again") from None


def _modules(path: Path) -> Iterator[str]:
    """Names of the modules that the pickles in an archive take things from."""
    try:
        with zipfile.ZipFile(path) as archive:
            for name in archive.namelist():
                if name.endswith(".pkl"):
                    for instruction, argument, _ in pickletools.genops(archive.read(name)):
                        if instruction.name == "GLOBAL":
                            yield str(argument).split(" ")[0]
    except (ValueError, zipfile.BadZipFile, OSError):
        raise IntegrityError(f"{path} is damaged; get it again") from None


def _beginning(path: Path, count: int) -> bytes:
    with path.open("rb") as file:
        return file.read(count)
