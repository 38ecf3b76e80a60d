"""What a replay costs is stated, and held."""

from __future__ import annotations

import subprocess
import sys

import pytest

from embodied.errors import UserError
from embodied.learning import memory
from embodied.learning.replay import EpisodeReplay
from robots.registry import spec_of

FILL = """
from embodied.learning.replay import EpisodeReplay
from robots.registry import spec_of
def resident():
    return int(open("/proc/self/statm").read().split()[1]) * 4096
spec = spec_of("{task}")
before = resident()
replay = EpisodeReplay(spec, {rows})
for rows in (*replay.rows.values(), replay.pursued):
    rows[:] = 1
print(resident() - before, replay.bytes_per_row * {rows})
"""


@pytest.mark.parametrize("task", ["fetch_reach", "fetch_push", "fetch_pick_place", "fetch_slide"])
def test_a_million_fetch_transitions_take_less_than_500_mb(task: str) -> None:
    horizon = spec_of(task).horizon
    rows = 1_000_000 * (horizon + 1) // horizon
    assert EpisodeReplay(spec_of(task), rows).bytes_per_row * rows < 500e6


def test_the_stated_size_is_what_it_takes() -> None:
    code = FILL.format(task="fetch_push", rows=1_020_000)
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    taken, stated = map(int, ended.stdout.split())
    assert taken < 500e6
    assert stated == pytest.approx(taken, rel=0.02)


def test_the_limit_counts_what_is_free(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "available_bytes", lambda: 1000)
    memory.refuse_too_large(9, 100)
    with pytest.raises(UserError, match="at most replay.capacity=9$"):
        memory.refuse_too_large(10, 100)
    monkeypatch.setattr(memory, "available_bytes", lambda: None)
    memory.refuse_too_large(10**9, 100)
