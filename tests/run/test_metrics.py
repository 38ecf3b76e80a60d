from __future__ import annotations

import importlib
import json
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from embodied.errors import IntegrityError, UserError
from embodied.run.metrics import MetricsWriter, RunClock, RunningMean
from embodied.run.result import ScheduledEvaluation, first_reached


def test_rows_are_flat_and_begin_with_step_and_times(tmp_path: Path) -> None:
    writer = MetricsWriter(tmp_path / "run")
    writer.begin()
    writer.write(5, RunClock(), {"loss": 0.5})
    rows = (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()
    writer.close()
    assert len(rows) == 1
    assert list(json.loads(rows[0])) == ["step", "wall_s", "cpu_s", "loss"]


def test_a_resumed_run_keeps_rows_up_to_its_checkpoint(tmp_path: Path) -> None:
    first = MetricsWriter(tmp_path)
    first.begin()
    for step in (1, 2, 3):
        if step == 3:
            state = first.state()
        first.write(step, RunClock(), {"x": step})
    first.close()
    with (tmp_path / "metrics.jsonl").open("a") as file:
        file.write('{"step": 4, "wall')
    second = MetricsWriter(tmp_path)
    second.restore(state)
    second.write(3, RunClock(), {"x": 30})
    second.close()
    rows = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    assert [row["x"] for row in rows] == [1, 2, 30]
    third = MetricsWriter(tmp_path)
    third.begin()
    third.close()
    assert (tmp_path / "metrics.jsonl").read_text() == ""


@pytest.mark.parametrize("damage", ["cut", "digit", "missing"])
def test_rows_that_are_not_those_that_were_written_are_refused(tmp_path: Path, damage: str) -> None:
    writer = MetricsWriter(tmp_path)
    writer.begin()
    writer.write(1, RunClock(), {"x": 123})
    state = writer.state()
    writer.close()
    path = tmp_path / "metrics.jsonl"
    data = path.read_bytes()
    path.unlink()
    if damage != "missing":
        path.write_bytes(data[:-3] if damage == "cut" else data.replace(b"123", b"124"))
    with pytest.raises(IntegrityError, match="metrics.jsonl"):
        MetricsWriter(tmp_path).restore(state)


def test_unknown_and_missing_loggers_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UserError, match="valid: jsonl, tensorboard"):
        MetricsWriter(tmp_path, "wandb")

    def missing(name: str) -> None:
        raise ImportError(name)

    monkeypatch.setattr(importlib, "import_module", missing)
    with pytest.raises(UserError, match="pip install tensorboard"):
        MetricsWriter(tmp_path, "tensorboard")


def test_tensorboard_gets_every_value(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[tuple[str, float, int]] = []

    class Writer:
        def __init__(self, logdir: str) -> None:
            self.logdir = logdir

        def add_scalar(self, tag: str, data: float, step: int) -> None:
            written.append((tag, data, step))

        def close(self) -> None:
            written.append((self.logdir, 0.0, 0))

    monkeypatch.setattr(importlib, "import_module", lambda name: SimpleNamespace(Writer=Writer))
    writer = MetricsWriter(tmp_path, "tensorboard")
    writer.begin()
    writer.write(7, RunClock(), {"loss": 0.5})
    writer.close()
    assert written == [("loss", 0.5, 7), (str(tmp_path / "tensorboard"), 0.0, 0)]


def test_paused_time_is_not_training_time() -> None:
    clock = RunClock(wall_s=100.0, cpu_s=50.0, cpu_train_s=7.0)
    with clock.paused():
        until = time.process_time() + 0.2
        while time.process_time() < until:
            pass
    assert 7.0 <= clock.cpu_train_s < 7.15
    assert clock.cpu_s >= 50.2
    assert clock.wall_s >= 100.2


def test_running_mean_insists_on_one_set_of_keys() -> None:
    mean = RunningMean()
    mean.add({"a": 1.0})
    mean.add({"a": 3.0})
    assert mean.take() == {"a": 2.0}
    assert mean.take() == {}
    mean.add({"b": 1.0})
    with pytest.raises(ValueError, match="keys changed"):
        mean.add({"a": 1.0})


def test_a_threshold_counts_from_the_first_of_two_evaluations_in_a_row() -> None:
    rates = [0.2, 0.9, 0.6, 0.8, 0.95, 1.0]
    points = [ScheduledEvaluation(10 * i, float(i), rate, rate, rate, 5) for i, rate in enumerate(rates)]
    reached = {t: first_reached(points, t) for t in (0.1, 0.5, 0.8, 0.95)}
    assert {t: p.env_steps if p else None for t, p in reached.items()} == {0.1: 0, 0.5: 10, 0.8: 30, 0.95: 40}
    assert first_reached(points[:5], 0.95) is None
