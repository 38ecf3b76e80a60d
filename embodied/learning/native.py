"""C code that is compiled where it is first used, and kept; nothing where no compiler works."""

from __future__ import annotations

import ctypes
import functools
import hashlib
import os
import platform
import shutil
import subprocess
import tempfile
from importlib.resources import files
from pathlib import Path
from typing import Any

from embodied.learning.memory import processor_flags

SOURCES = ("stacked.c", "beta.c")
COMPILERS = ("cc", "gcc", "clang")
FLAGS = (
    *("-O3", "-march=native", "-std=gnu11", "-fPIC", "-shared"),
    *("-fno-math-errno", "-fno-trapping-math", "-fassociative-math", "-fno-signed-zeros"),
)
WIDE = "-mprefer-vector-width=512"
"""Only x86 compilers know it."""
TIMEOUT_S = 120.0
_P, _N, _F, _D = ctypes.c_void_p, ctypes.c_long, ctypes.c_float, ctypes.c_double
SIGNATURES: dict[str, tuple[Any, list[Any]]] = {
    "panel_size": (_N, [_N, _N]),
    "has_half": (_N, []),
    "refresh": (None, [_P, _N, _N, _N]),
    "forward": (None, [_P, _N, _N, _P, _N, _P]),
    "backward": (None, [_P, _N, _N, _P, _N, _N, _P, _N, _P, _N, _P]),
    "concentrations": (None, [_P, _N, _N, _F, _P, _N, _P]),
    "gammas": (_N, [_P, _P, _P, _N, _N, _P]),
    "density": (None, [_P, _P, _N, _N, _N, _P, _P, _P]),
    "raw_gradient": (None, [*[_P] * 6, _F, _F, _N, _N, _N, _P, _P]),
    "adam": (None, [_P, _P, _P, _P, _N, _D, _D]),
}
"""Result and arguments of each C function."""


@functools.cache
def library() -> ctypes.CDLL | None:
    """The C functions, compiled for this processor and kept in the user's cache folder; None where that fails."""
    try:
        code = _loaded()
    except (OSError, subprocess.SubprocessError):
        return None
    for name, (result, arguments) in SIGNATURES.items():
        function = getattr(code, name)
        function.restype, function.argtypes = result, arguments
    return code


def _loaded() -> ctypes.CDLL:
    """What is kept, or, where it is damaged, what is made anew."""
    try:
        return ctypes.CDLL(str(_built()))
    except OSError:
        return ctypes.CDLL(str(_built(afresh=True)))


def _built(afresh: bool = False) -> Path:
    """The compiled file, made where there is none for this source, compiler and processor, or `afresh`."""
    compiler = next((path for name in COMPILERS if (path := shutil.which(name))), None)
    if compiler is None:
        raise FileNotFoundError("no C compiler")
    sources = [Path(str(files("embodied.learning") / name)) for name in SOURCES]
    flags = [*FLAGS, *([WIDE] if platform.machine() in ("x86_64", "AMD64") else [])]
    version = subprocess.run([compiler, "--version"], capture_output=True, check=True, timeout=TIMEOUT_S).stdout
    told = [
        *(path.read_bytes() for path in sources),
        " ".join([compiler, *flags]).encode(),
        version,
        " ".join(sorted(processor_flags())).encode(),
    ]
    name = f"learning-{hashlib.sha256(b'|'.join(told)).hexdigest()[:24]}.so"
    folder = _cache()
    if afresh or not (folder / name).is_file():
        with tempfile.TemporaryDirectory(dir=folder) as inside:
            made = Path(inside) / name
            command = [compiler, *flags, *map(str, sources), "-o", str(made), "-lm"]
            subprocess.run(command, capture_output=True, check=True, timeout=TIMEOUT_S)
            os.replace(made, folder / name)
    return folder / name


def _cache() -> Path:
    """The user's own folder for such files; a new private one where that cannot be written."""
    folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "embodied-control"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if os.access(folder, os.W_OK):
            return folder
    except OSError:
        pass
    return Path(tempfile.mkdtemp(prefix="embodied-control-"))
