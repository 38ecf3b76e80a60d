"""Robots, tasks, scenes and cameras in MuJoCo."""

import importlib
import os
import sys
from contextlib import suppress
from pathlib import Path

from embodied.errors import UserError

GL_BACKENDS = ("egl", "osmesa", "glfw", "cgl")
"""What `MUJOCO_GL` may name, beside words for on and off."""
_SWITCHES = ("", "enable", "enabled", "on", "true", "1", "disable", "disabled", "off", "false", "0", "wgl")

# MuJoCo's own import fails on any other value, with a traceback.
if os.environ.get("MUJOCO_GL", "").strip().lower() not in (*GL_BACKENDS, *_SWITCHES):
    raise UserError(
        f"MUJOCO_GL={os.environ['MUJOCO_GL']} is not known: unset it, or set it to one of {', '.join(GL_BACKENDS)}"
    )


def load_triton_first() -> None:
    """Imports triton, where it is installed, before Mesa is loaded.

    Mesa's software renderer and triton (which torch imports for its optimisers) each bring an LLVM. The process dies
    when triton is loaded second (seen with Mesa 22.3 and triton 3.8), and not when it is loaded first.
    """
    if "triton" in sys.modules:
        return
    with suppress(OSError):
        if "libLLVM" in Path("/proc/self/maps").read_text("utf-8", "replace"):
            return
    with suppress(ImportError):
        importlib.import_module("triton")


# With OSMesa chosen beforehand, MuJoCo's import already loads Mesa.
if os.environ.get("MUJOCO_GL", "").strip().lower() == "osmesa":
    load_triton_first()
