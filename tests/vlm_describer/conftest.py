"""Models small enough to be made in a test."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest


@pytest.fixture(scope="session")
def small_models() -> ModuleType:
    """The module `small_models.py` beside this file."""
    path = Path(__file__).with_name("small_models.py")
    spec = importlib.util.spec_from_file_location("small_models", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
