"""What `open_clip` knows by name, read without importing it: that takes longer than a mistyped name should cost.

Its architectures are JSON files and its table of weights is a module that needs nothing of the rest. Where it has been
imported already, it is asked itself, since architectures may have been added to it.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

from embodied.errors import UserError

_TABLES = "_open_clip_tables"
"""Under this name the package is in `sys.modules` without what its own `__init__` imports."""
_READER = "safetensors.torch"
"""What the tables' module would read downloads with; it brings torch, and the tables do without."""


def model_names() -> list[str]:
    """Every architecture."""
    loaded = _loaded()
    return (
        list(loaded.list_models()) if loaded else sorted(path.stem for path in _folder().glob("model_configs/*.json"))
    )


def model_config(name: str) -> dict[str, Any]:
    """The architecture of this name, one of `model_names`."""
    loaded = _loaded()
    if loaded:
        return dict(loaded.get_model_config(name))
    config: dict[str, Any] = json.loads((_folder() / "model_configs" / f"{name}.json").read_text("utf-8"))
    return config


def tags(name: str) -> list[str]:
    """Tags of the weights that are known for an architecture."""
    return list(_tables().list_pretrained_tags_by_model(name))


def weights_config(name: str, tag: str) -> dict[str, Any]:
    """Where weights lie (`url`, `hf_hub`) and how their pictures are made ready."""
    return dict(_tables().get_pretrained_cfg(name, tag))


def _loaded() -> ModuleType | None:
    return sys.modules.get("open_clip")


@cache
def _folder() -> Path:
    spec = find_spec("open_clip")
    if spec is None or spec.origin is None:
        raise UserError("the package 'open_clip' is not installed: pip install 'embodied-control[vision]'")
    return Path(spec.origin).parent


def _tables() -> ModuleType:
    if _loaded():
        return import_module("open_clip.pretrained")
    if _TABLES not in sys.modules:
        package = ModuleType(_TABLES)
        package.__path__ = [str(_folder())]
        sys.modules[_TABLES] = package
    with _without(_READER):
        return import_module(f"{_TABLES}.pretrained")


@contextmanager
def _without(module: str) -> Iterator[None]:
    """While a module that has not been imported seems not to be installed."""
    absent = module not in sys.modules
    if absent:
        sys.modules[module] = None  # type: ignore[assignment]
    try:
        yield
    finally:
        if absent:
            del sys.modules[module]
