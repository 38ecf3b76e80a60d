"""Compiled code: made once for a machine, and done without where no compiler works."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from embodied.learning import native
from embodied.learning.compiled import CompiledMlp, make_stack
from embodied.learning.flat import FlatParameters
from embodied.learning.networks import CriticEnsemble
from embodied.learning.sac import SacConfig, SacLearner
from embodied.learning.stacked import StackedMlp
from embodied.spec import EnvSpec
from embodied.types import Batch

compiled = pytest.mark.skipif(native.library() is None, reason="needs a C compiler")


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache folder for compiled code."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    native.library.cache_clear()
    yield tmp_path / "embodied-control"
    native.library.cache_clear()


def _batch(spec: EnvSpec) -> Batch:
    rng = np.random.default_rng(0)
    observation, goal = rng.normal(size=(2, 32, 3)).astype(np.float32)
    reward, flags = np.full(32, -1.0, np.float32), np.zeros(32, bool)
    action = rng.uniform(spec.action_low, spec.action_high, (32, 2)).astype(np.float32)
    return Batch(observation, observation, goal, action, reward, flags, flags, flags)


def _critics() -> CriticEnsemble:
    return CriticEnsemble(2, 6, (8, 8, 8), True)


@compiled
def test_code_is_compiled_once_and_kept(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert native.library() is not None
    (kept,) = cache.iterdir()
    native.library.cache_clear()
    monkeypatch.setattr(native.subprocess, "run", _only_versions(native.subprocess.run))
    assert native.library() is not None
    assert [kept] == list(cache.iterdir())


def _only_versions(run: object) -> object:
    def refuse(command: list[str], **settings: object) -> object:
        assert command[1:] == ["--version"], "compiled again"
        return run(command, **settings)

    return refuse


@compiled
@pytest.mark.parametrize("trouble", ["none", "broken", "slow"])
def test_without_a_working_compiler_a_learner_does_the_same_without_a_word(
    trouble: str, cache: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], spec: EnvSpec
) -> None:
    tools = cache.parent / "tools"
    tools.mkdir()
    if trouble != "none":
        waits = "exec sleep 60" if trouble == "slow" else "echo trouble >&2; exit 1"
        (tools / "cc").write_text(f'#!/bin/sh\n[ "$1" = --version ] && exit 0\nPATH={os.environ["PATH"]}\n{waits}\n')
        (tools / "cc").chmod(0o755)
    monkeypatch.setattr(native, "TIMEOUT_S", 0.3 if trouble == "slow" else 60.0)
    monkeypatch.setenv("PATH", str(tools))
    assert native.library() is None
    critics = _critics()
    assert isinstance(make_stack(critics.layers(FlatParameters(critics))), StackedMlp)
    told = SacLearner(spec, SacConfig(hidden=(8, 8)), 0).update(_batch(spec))
    assert told == SacLearner(spec, SacConfig(hidden=(8, 8), compiled=False), 0).update(_batch(spec))
    assert capfd.readouterr() == ("", "")
    assert not list(cache.glob("*")), "no leftovers"


@compiled
@pytest.mark.slow
def test_damaged_code_in_the_cache_is_made_anew(cache: Path) -> None:
    made = "from embodied.learning import native\nassert native.library().has_half() in (0, 1)"
    subprocess.run([sys.executable, "-c", made], check=True)
    (kept,) = cache.iterdir()
    whole = kept.read_bytes()
    kept.write_bytes(b"no code")
    done = subprocess.run([sys.executable, "-c", made], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("", "")
    assert len(kept.read_bytes()) == len(whole)


@compiled
@pytest.mark.slow
def test_where_nothing_can_be_kept_it_is_compiled_for_this_process(
    cache: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    monkeypatch.setattr(native.tempfile, "tempdir", str(tmp_path))
    assert native.library() is not None
    assert not cache.exists()


@compiled
def test_compiled_or_not_is_a_setting(spec: EnvSpec) -> None:
    critics = _critics()
    layers = critics.layers(FlatParameters(critics))
    assert isinstance(make_stack(layers), CompiledMlp)
    assert isinstance(make_stack(layers, compiled=False), StackedMlp)
    one, same = (SacLearner(spec, SacConfig(hidden=(8, 8)), 0).update(_batch(spec)) for _ in range(2))
    assert one == same


@compiled
def test_half_without_such_products_is_eager(monkeypatch: pytest.MonkeyPatch) -> None:
    class Old:
        @staticmethod
        def has_half() -> int:
            return 0

    monkeypatch.setattr("embodied.learning.compiled.library", Old)
    critics = _critics()
    layers = critics.layers(FlatParameters(critics))
    assert isinstance(make_stack(layers, half=True), StackedMlp)
    with pytest.raises(RuntimeError, match="no compiled code"):
        CompiledMlp(layers, half=True)


@compiled
@pytest.mark.slow
@pytest.mark.parametrize("machine", ["x86-64-v3", "x86-64-v2"])
def test_a_processor_without_wide_vectors_computes_the_same(
    machine: str, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if native.platform.machine() != "x86_64":
        pytest.skip("names of x86 processors")
    critics = _critics()
    critics.initialise(torch.Generator().manual_seed(0))
    inputs = torch.randn(101, 6, generator=torch.Generator().manual_seed(1))
    narrow = tuple(f"-march={machine}" if flag.startswith("-march") else flag for flag in native.FLAGS)
    results = []
    for flags in (native.FLAGS, narrow):
        monkeypatch.setattr(native, "FLAGS", flags)
        native.library.cache_clear()
        flat = FlatParameters(critics)
        stack = make_stack(critics.layers(flat))
        assert isinstance(stack, CompiledMlp)
        values = stack.forward(inputs).clone()
        results.append((values, stack.backward(values.cos(), inputs=2), flat.gradients))
    for wide, own in zip(*results, strict=True):
        assert own.abs().max() > 0
        torch.testing.assert_close(own, wide, rtol=1e-4, atol=1e-5)
