"""One torch thread everywhere: two on a busy machine make small networks many times slower."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch

torch.set_num_threads(1)


@pytest.fixture(scope="session")
def manners() -> ModuleType:
    """The module `rude_server.py` beside this file."""
    spec = importlib.util.spec_from_file_location("rude_server", Path(__file__).with_name("rude_server.py"))
    assert spec is not None
    assert spec.loader is not None
    sys.modules["rude_server"] = module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def server(manners: ModuleType) -> Iterator[Any]:
    """A `RudeServer` on loopback."""
    with manners.serving() as running:
        yield running
