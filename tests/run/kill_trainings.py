"""Trains, kills with SIGKILL at random moments, resumes, and compares with the undisturbed run; run by test_kill.py.

    python kill_trainings.py <folder> <task> <kills> <seed>

A process that imports everything forks a child for each training, so that a kill costs a second and not ten. Every
second child kills itself inside a write: of a checkpoint's file, half of it, between two renames, or of an episode.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from embodied_launch import api

from embodied.learning import episode_file, files
from embodied.learning.datasets.reader import read_demonstrations
from embodied.learning.her import ReplayConfig
from embodied.learning.sac import SacConfig
from embodied.run.config import TrainConfig
from embodied.run.metrics import CLOCK_KEYS
from robots.goal_layout import goal_layout

LOOP = TrainConfig(
    total_steps=420, start_steps=60, batch_size=32, update_every=2, eval_every=200, eval_episodes=1, final_episodes=1,
    log_every=25, checkpoint_every=70, workers=2,
)  # fmt: skip
SAC, REPLAY = SacConfig(hidden=(32, 32)), ReplayConfig(capacity=250)


def child(folder: Path, task: str, resume: bool, before: Callable[[], None] = lambda: None) -> int:
    """Forks a training and returns its process id."""
    pid = os.fork()
    if pid:
        return pid
    torch.set_num_threads(1)
    before()
    record = folder / "record.hdf5"
    result = api.train(task, folder, LOOP, SAC, REPLAY, resume=resume, record=record, progress=False)
    (folder / "result.json").write_text(json.dumps(result.to_dict()))
    os._exit(0)


def wait(pid: int) -> int:
    return os.waitpid(pid, 0)[1]


def recorded(folder: Path, task: str) -> list[bytes]:
    """The actions of each episode that others may read."""
    goals = goal_layout(task)
    return [episode.action.tobytes() for episode in read_demonstrations(folder / "record.hdf5", goals)]


def timeless(folder: Path, task: str) -> tuple[Any, ...]:
    """Rows and result without times and rates, and the record."""
    lines = (folder / "metrics.jsonl").read_text().splitlines()
    rows = [{k: v for k, v in json.loads(line).items() if k not in CLOCK_KEYS} for line in lines]
    result = json.loads((folder / "result.json").read_text())
    result = {k: v for k, v in result.items() if k not in (*CLOCK_KEYS, "cpu_s_to")}
    result["evaluations"] = [{k: v for k, v in e.items() if k not in CLOCK_KEYS} for e in result["evaluations"]]
    return rows, result, recorded(folder, task)


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def fault(kind: str, at: int) -> Callable[[], None]:
    """Makes the process kill itself at the `at`-th write, rename or append."""
    calls = [0]

    def due() -> bool:
        calls[0] += 1
        return calls[0] == at

    write, rename, pwrite = files._write, Path.rename, os.pwrite

    def dying_write(path: Path, data: bytes) -> None:
        if due():
            write(path, data[: len(data) // 2])
            die()
        write(path, data)

    def dying_rename(self: Path, target: Path) -> Path:
        if due():
            die()
        return rename(self, target)

    def dying_pwrite(fd: int, data: bytes, offset: int) -> int:
        if due():
            pwrite(fd, data[: len(data) // 2], offset)
            die()
        return pwrite(fd, data, offset)

    def install() -> None:
        if kind == "write":
            files._write = dying_write
        elif kind == "rename":
            Path.rename = dying_rename
        else:
            episode_file.os.pwrite = dying_pwrite

    return install


def main() -> None:
    home, task, kills, seed = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    rng = random.Random(seed)
    began = time.monotonic()
    assert wait(child(home / "undisturbed", task, False)) == 0
    length = time.monotonic() - began
    expected = timeless(home / "undisturbed", task)
    done = 0
    while done < kills:
        folder = home / f"killed_{done}"
        if done % 2:
            kind = ("write", "rename", "append")[done // 2 % 3]
            pid = child(folder, task, False, fault(kind, rng.randint(2, 12)))
        else:
            pid = child(folder, task, False)
            time.sleep(rng.uniform(0.05, 0.95) * length)
            os.kill(pid, signal.SIGKILL)
        status = wait(pid)
        if not os.WIFSIGNALED(status):
            assert status == 0, f"kill {done}: the training failed with {status}"
            os.rename(folder, home / f"too_late_{done}_{time.monotonic_ns()}")
            continue
        assert wait(child(folder, task, True)) == 0, f"kill {done}: not resumed"
        assert timeless(folder, task) == expected, f"kill {done}: differs from the undisturbed run"
        done += 1
    print(f"{done} kills, each resumed run equal to the undisturbed one")


if __name__ == "__main__":
    main()
