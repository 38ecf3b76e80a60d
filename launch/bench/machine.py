"""What a measurement was made on."""

from __future__ import annotations

import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from ..outcome import git_commit

PACKAGES = ("torch", "mujoco", "gymnasium", "gymnasium-robotics", "numpy", "stable-baselines3", "sb3-contrib")


def machine() -> dict[str, str | None]:
    """Commit, processor and versions, flat, for a row; null where a package is not installed."""
    return {
        "git_commit": git_commit(), "processor": processor_name(), "python": platform.python_version(),
        **{name: _version(name) for name in PACKAGES},
    }  # fmt: skip


def processor_name() -> str:
    """As the processor calls itself."""
    info = Path("/proc/cpuinfo")
    if info.is_file():
        for line in info.read_text("utf-8", "replace").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
