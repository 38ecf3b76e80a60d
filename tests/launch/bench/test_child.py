"""Measurements in processes of their own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from embodied_launch.bench.child import run_child
from embodied_launch.bench.runs import result_of

from embodied.errors import JobFailed

SLEEPER = """
import os, signal, sys, time
signal.signal(signal.SIGINT, signal.default_int_handler)
print("asleep", file=sys.stderr, flush=True)
try:
    open("pid", "w").write(str(os.getpid()))
    time.sleep(60)
except KeyboardInterrupt:
    time.sleep(0.5)
    open("saved", "w").write("")
    sys.exit(130)
"""


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_what_it_says_and_how_it_ends(tmp_path: Path) -> None:
    program = "import os, sys; print(os.environ['OMP_NUM_THREADS']); print('a\\nwhy\\n', file=sys.stderr); sys.exit(3)"
    (tmp_path / "ends.py").write_text(program)
    ended = run_child(["ends"], tmp_path / "logs" / "log")
    assert (ended.code, ended.out, ended.last_words) == (3, "1\n", "why")


def test_the_signal_that_ended_a_training_is_named(tmp_path: Path) -> None:
    (tmp_path / "dies.py").write_text("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)")
    with pytest.raises(JobFailed, match=r"run failed \(ended by SIGSEGV\); more in .*run.log"):
        result_of(["dies"], tmp_path / "run.log", tmp_path / "run" / "result.json")


def wait_for(path: Path) -> None:
    deadline = time.monotonic() + 30
    while not path.exists() or not path.read_text():
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.fixture
def heeds_ctrl_c() -> Iterator[None]:
    """What a shell starts in the background ignores Ctrl-C, and so do its children."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("heeds_ctrl_c")
def test_ctrl_c_is_passed_on_and_the_saving_waited_for(tmp_path: Path) -> None:
    (tmp_path / "sleeps.py").write_text(SLEEPER)

    def interrupt() -> None:
        wait_for(tmp_path / "pid")
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        run_child(["sleeps"], tmp_path / "log")
    thread.join()
    assert (tmp_path / "saved").exists()


@pytest.mark.skipif(sys.platform != "linux", reason="prctl is Linux's")
def test_it_dies_with_its_parent(tmp_path: Path) -> None:
    (tmp_path / "sleeps.py").write_text(SLEEPER)
    code = "import pathlib, embodied_launch.bench.child as it; it.run_child(['sleeps'], pathlib.Path('log'))"
    parent = subprocess.Popen([sys.executable, "-c", code])
    wait_for(tmp_path / "pid")
    child = int((tmp_path / "pid").read_text())
    parent.kill()
    parent.wait()
    deadline = time.monotonic() + 30
    while _alive(child):
        assert time.monotonic() < deadline
        time.sleep(0.02)


def _alive(pid: int) -> bool:
    status = Path(f"/proc/{pid}/stat")
    return status.exists() and status.read_text().rpartition(")")[2].split()[0] != "Z"
