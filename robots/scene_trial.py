"""Tries a scene in a process of its own, with bounded memory and time, before it is loaded for good.

A few bytes of MJCF can ask for terabytes or for hours, in more ways than can be listed, and some mistakes end MuJoCo
with its whole process. So a stranger's scene is compiled and stepped once where that harms nothing. This file is both
sides: a program that imports only the simulator, and the function that runs it.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

SETTLE_S = 0.5
"""Simulated seconds before facts are read."""
_STEPS = 3


def memory_limit() -> int:
    """Bytes that a scene may take: a quarter of the machine's memory, at least 1 GiB."""
    with contextlib.suppress(ValueError, OSError):
        return max(2**30, os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 4)
    return 2**30


def try_scene(path: Path, cpu_s: int, wall_s: float) -> str:
    """Compiles a scene and lets it settle; what is against it, on one line or several, empty where nothing is.

    Args:
        path: An MJCF file.
        cpu_s: Longest processor time, also of the half second in which a scene settles.
        wall_s: Longest wait.
    """
    memory = memory_limit()
    words = [sys.executable, "-P", __file__, str(path), str(memory), str(cpu_s)]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    too_slow = f"it takes more than {cpu_s} s to compile and settle: use fewer or simpler things, or a larger timestep"
    too_big = f"it needs more than {memory / 2**30:.1f} GiB of memory, a quarter of what this machine has"
    try:
        ended = subprocess.run(
            words, capture_output=True, text=True, errors="replace", timeout=wall_s, env=env, stdin=subprocess.DEVNULL
        )
    except subprocess.TimeoutExpired:
        return too_slow
    except OSError as error:
        return f"no process can be started to try it: {error.strerror or error}"
    told = _told(ended.stdout)
    if told is None:
        killed = -ended.returncode in (24, 9)
        broken = f"it ends the simulator ({ended.stderr.strip()[-120:] or ended.returncode})"
        return too_big if "bad_alloc" in ended.stderr else too_slow if killed else broken
    if told.get("memory"):
        return too_big
    return too_slow if told.get("settle_s", 0.0) > cpu_s else str(told.get("error", ""))


def _told(output: str) -> dict[str, Any] | None:
    lines = output.splitlines()
    try:
        return json.loads(lines[-1]) if lines else None
    except ValueError:
        return None


def _limit(memory: int, cpu_s: int) -> None:
    """Bounds what this process may take from now on."""
    for kind, most in ((resource.RLIMIT_AS, memory), (resource.RLIMIT_CPU, cpu_s), (resource.RLIMIT_CORE, 0)):
        # Where a system knows no such limit the scene is tried without it.
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(kind, (most, most))


def _try(path: str) -> dict[str, Any]:
    """Compiles and settles; in the child."""
    import mujoco

    mujoco.set_mju_user_warning(lambda text: None)
    spec = mujoco.MjSpec.from_file(path)
    spec.compiler.fusestatic = spec.compiler.discardvisual = False
    model = spec.compile()
    data = mujoco.MjData(model)
    mujoco.mj_forward(model, data)
    took = []
    for _ in range(_STEPS):
        began = time.perf_counter()
        mujoco.mj_step(model, data)
        took.append(time.perf_counter() - began)
    told, steps = {"settle_s": min(took) * SETTLE_S / model.opt.timestep}, math.ceil(SETTLE_S / model.opt.timestep)
    # What comes to touch may cost more than what hung in the air: the whole half second is tried, within the limit.
    if told["settle_s"] < resource.getrlimit(resource.RLIMIT_CPU)[0]:
        mujoco.mj_step(model, data, steps)
    return told


def _main(path: str, memory: str, cpu_s: str) -> None:
    import warnings

    warnings.simplefilter("ignore")
    _limit(int(memory), int(cpu_s))
    try:
        told = _try(path)
    except MemoryError:
        told = {"memory": True}
    except Exception as error:  # MuJoCo raises ValueError, FatalError and more for a scene's mistakes
        text = str(error)
        # MuJoCo's compiler calls a C++ bad_alloc an unknown exception.
        told = {"memory": True} if "allocate" in text or "unknown exception" in text else {"error": text}
    print("\n" + json.dumps(told))


if __name__ == "__main__":
    _main(*sys.argv[1:])
