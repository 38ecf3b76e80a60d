from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from embodied.learning import files
from embodied.learning.checkpoint import CheckpointStore


def _newest(store: CheckpointStore) -> dict[str, Any] | None:
    return next(store.newest_first(), None)


def _parts(step: int) -> dict[str, tuple[dict[str, np.ndarray], dict[str, Any]]]:
    arrays = {
        "w": np.full((3, 2), step, np.float32),
        "empty": np.zeros((4, 2, 0), np.float32),
        "flag": np.array([True, False]),
        "counter": np.array(step, np.float64),
    }
    return {"learner": (arrays, {"updates": step}), "run": ({}, {"rng": 2**127 + step})}


@pytest.fixture
def said() -> list[str]:
    return []


@pytest.fixture
def store(tmp_path: Path, said: list[str]) -> CheckpointStore:
    return CheckpointStore(tmp_path / "checkpoints", said.append)


def test_what_is_saved_comes_back(store: CheckpointStore) -> None:
    assert _newest(store) is None
    store.save(5, _parts(5))
    parts = _newest(store)
    assert parts is not None
    for name, (arrays, meta) in _parts(5).items():
        assert parts[name][1] == meta
        assert parts[name][0].keys() == arrays.keys()
        for key, value in arrays.items():
            assert parts[name][0][key].dtype == value.dtype
            assert parts[name][0][key].shape == value.shape
            assert np.array_equal(parts[name][0][key], value)


def test_the_last_two_are_kept(store: CheckpointStore) -> None:
    for step in (900, 1000, 20_000, 100_000):
        store.save(step, _parts(step))
    assert sorted(path.name for path in store.folder.iterdir()) == ["step_000000020000", "step_000000100000"]
    store.clear()
    assert _newest(store) is None
    assert not store.any


@pytest.mark.parametrize("victim", ["learner.safetensors", "run.safetensors", "checkpoint.json"])
@pytest.mark.parametrize("damage", ["cut", "missing", "flipped", "digit"])
def test_a_damaged_newest_gives_way_to_the_previous_one(
    store: CheckpointStore, said: list[str], victim: str, damage: str
) -> None:
    store.save(1, _parts(1))
    store.save(2, _parts(2))
    path = store.folder / "step_000000000002" / victim
    data = path.read_bytes()
    path.unlink()
    damaged = {
        "cut": data[: len(data) // 2],
        "flipped": bytes([data[0] ^ 1]) + data[1:],
        "digit": data.replace(b'"updates": 2', b'"updates": 3') if b"updates" in data else data + b" ",
    }
    if damage != "missing":
        path.write_bytes(damaged[damage])
    parts = _newest(store)
    assert parts is not None
    assert parts["learner"][1] == {"updates": 1}
    assert len(said) == 1
    assert "\n" not in said[0]
    assert "step_000000000002" in said[0]


def test_a_write_that_breaks_off_leaves_the_earlier_checkpoint(
    store: CheckpointStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.save(1, _parts(1))
    written = files._write

    def full_disk(path: Path, data: bytes) -> None:
        if path.name == "checkpoint.json":
            raise OSError("no space left on device")
        written(path, data)

    monkeypatch.setattr(files, "_write", full_disk)
    for step in (1, 2):
        with pytest.raises(OSError, match="no space"):
            store.save(step, _parts(step))
    parts = _newest(store)
    assert parts is not None
    assert parts["learner"][1] == {"updates": 1}
    monkeypatch.undo()
    for step in (1, 2):
        store.save(step, _parts(step))
    assert sorted(path.name for path in store.folder.iterdir()) == ["step_000000000001", "step_000000000002"]
